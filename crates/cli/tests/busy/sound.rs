//! Sound: no audible gaps.

use std::time::Duration;

use crate::load::Load;
use crate::record::rows;
use crate::serialise;
use crate::support::pulse_server::PulseServer;
use crate::support::sound::{LEVEL, Player, samples, tenths_at};
use crate::support::{Folder, Host, client, eventually};

/// The longest gap, in sample frames at 48 kHz: 40 ms.
const LONGEST: u64 = 48 * 40;

const PITCH: f64 = 500.0;
const BUSY: Duration = Duration::from_secs(8);

#[test]
#[ignore = "./dev test-busy"]
fn sound_has_no_gap_longer_than_40_ms() {
    for load in Load::ALL {
        let _alone = serialise();
        let Some(server) = PulseServer::start() else {
            return;
        };
        let folder = Folder::new();
        let (csv, recording) = (folder.join("host.csv"), folder.path().join("recording.wav"));
        let args = ["--source", "pattern", "--size", "320x200", "--fps", "30"];
        let args = [&args[..], &["--sound", "pulse:usual", "--csv", &csv]].concat();
        let mut host = Host::with_sound(&server.address, &["client"], &args);
        let _player = Player::start(&server.address, "usual", PITCH);
        let sound = format!("wav:{}", recording.display());
        let args = ["--present", "null", "--sound", &sound];
        let mut client = client(&host.folder, "client", &host.address(), &args);
        eventually("two seconds of sound", || {
            (tenths_at(&samples(&recording), PITCH, LEVEL) >= 20).then_some(())
        });
        let Some(running) = load.start() else { return };
        std::thread::sleep(BUSY);
        drop(running);
        client.stop();
        host.program.stop();
        let rows = rows(&folder.path().join("host.csv"));
        let longest = rows.iter().filter_map(|row| row.longest_concealment).max();
        let longest = longest.expect("a report of the client");
        println!("{load:?}: the longest hole is of {} ms", longest / 48);
        assert!(longest <= LONGEST, "{load:?}: {} ms", longest / 48);
    }
}
