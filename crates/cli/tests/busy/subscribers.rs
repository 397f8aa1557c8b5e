//! A recording gets at least 99.9 % of the encoded frames, and a video player at least 99 %.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::load::Load;
use crate::record::{Row, assert_accounted, encoded_and_received, rows};
use crate::serialise;
use crate::support::{Folder, Host, Program, eventually, skip};

const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "640x360", "--fps", "60"];

/// Duration under load.
const BUSY: Duration = Duration::from_secs(8);

/// The rows of the subscriber with the most frames, sessions excluded. Before a video player joins, a short-lived
/// subscriber may fetch the description of the stream. Also checks that each frame of these subscribers has exactly one
/// outcome.
fn rows_of_other(rows: &[Row]) -> Vec<Row> {
    let mut others: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.subscriber.starts_with("other-"))
    {
        others.entry(&row.subscriber).or_default().push(row.clone());
    }
    others.values().for_each(|rows| assert_accounted(rows));
    others
        .into_values()
        .max_by_key(Vec::len)
        .expect("a subscriber")
}

#[test]
#[ignore = "./dev test-busy"]
fn a_recording_has_all_encoded_frames() {
    for load in Load::ALL {
        let _alone = serialise();
        let folder = Folder::new();
        let (csv, file) = (folder.join("host.csv"), folder.join("it.mp4"));
        let args = ["--csv", &csv, "--record", &file];
        let mut host = Host::start(&[&PATTERN[..], &args].concat());
        eventually("a fragment", || {
            let bytes = std::fs::read(&file).unwrap_or_default();
            bytes.windows(4).any(|four| four == b"moof").then_some(())
        });
        let Some(running) = load.start() else { return };
        std::thread::sleep(BUSY);
        drop(running);
        let text = host.program.stop();
        let rows = rows_of_other(&rows(&folder.path().join("host.csv")));
        let (encoded, received) = encoded_and_received(rows.iter());
        println!("{load:?}: {received} of {encoded} encoded frames are recorded");
        assert!(
            received * 1000 >= encoded * 999,
            "{load:?}: {received} of {encoded}: {text}"
        );
    }
}

#[test]
#[ignore = "./dev test-busy"]
fn a_video_player_gets_nearly_all_frames() {
    for load in Load::ALL {
        let _alone = serialise();
        let folder = Folder::new();
        let csv = folder.join("host.csv");
        let args = ["--csv", &csv, "--rtsp", "127.0.0.1:0"];
        let mut host = Host::start(&[&PATTERN[..], &args].concat());
        let line = host.program.line("video players: rtsp://");
        let url = line.split(' ').find(|word| word.starts_with("rtsp://"));
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-rtsp_transport", "tcp", "-i"]);
        command.arg(url.expect("an address"));
        command.args(["-c", "copy", "-f", "null", "-"]);
        if Command::new("ffmpeg")
            .arg("-version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            skip("ffmpeg is not installed: apt-get install ffmpeg");
            return;
        }
        let mut player = Program::start("player", command);
        eventually("frames for the player", || {
            let text = std::fs::read_to_string(&csv).unwrap_or_default();
            let left =
                |line: &&str| line.starts_with("other-") && line.contains(",sent_unacknowledged,");
            (text.lines().filter(left).count() >= 60).then_some(())
        });
        let Some(running) = load.start() else { return };
        std::thread::sleep(BUSY);
        drop(running);
        player.assert_running();
        player.kill();
        host.program.stop();
        let rows = rows_of_other(&rows(&folder.path().join("host.csv")));
        let (encoded, received) = encoded_and_received(rows.iter());
        println!("{load:?}: {received} of {encoded} encoded frames reached the player");
        assert!(
            received * 100 >= encoded * 99,
            "{load:?}: {received} of {encoded}"
        );
    }
}
