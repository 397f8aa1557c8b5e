//! VLC's own client, by UDP and by TCP.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Players;
use crate::beside::{assert_is_part_of, nal_units, write_down};
use crate::support::{Folder, TIMEOUT};

/// Bytes that it writes until it is stopped: a second of the test pattern and more.
const BYTES: u64 = 300_000;

/// Nobody's number on Debian: VLC does not start for root.
const NOBODY: &str = "65534";

/// A command of VLC without a window.
fn vlc() -> Command {
    let root = std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0);
    let mut command = match root {
        true => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid",
                NOBODY,
                "--regid",
                NOBODY,
                "--clear-groups",
                "vlc",
            ]);
            command
        }
        false => Command::new("vlc"),
    };
    command.args(["-I", "dummy"]).stdin(Stdio::null());
    command
}

#[test]
fn vlc_writes_what_the_encoder_made() {
    let there = vlc().arg("--version").output();
    if !there.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: install vlc-bin and vlc-plugin-base for it, or run ./dev test-web");
        return;
    }
    for (name, more) in [("udp", None), ("tcp", Some("--rtsp-tcp"))] {
        let players = Players::new(&format!("rtsp-vlc-{name}"));
        let made = write_down(&players.rig.host);
        let folder = Folder::new(&format!("vlc-{name}"));
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&folder.0, open).unwrap();
        let file = folder.0.join("it.h264");
        // The sound is set up and played as well, and left out of the file.
        let out = format!(
            "--sout=#std{{access=file,mux=dummy,dst={}}}",
            file.display()
        );
        let mut child = vlc()
            .args(["--network-caching=0", "--no-sout-audio", &out])
            .args(more)
            .arg(players.url())
            .env("HOME", &folder.0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + TIMEOUT;
        while std::fs::metadata(&file).map_or(0, |file| file.len()) < BYTES {
            if child.try_wait().unwrap().is_some() || Instant::now() > end {
                let _ = child.kill();
                let said = child.wait_with_output().unwrap().stderr;
                panic!("it wrote too little: {}", String::from_utf8_lossy(&said));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let stream = std::fs::read(&file).unwrap();
        let mut units = nal_units(&stream);
        // The last one may be cut.
        units.pop();
        assert!(units.len() > 20, "{name}: {} units", units.len());
        assert_is_part_of(&units, &made);
    }
}
