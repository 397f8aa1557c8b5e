//! A real headless Firefox, driven by its own protocol (Marionette, version 3): JSON messages, each preceded by its length
//! and a colon.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{TIMEOUT, eventually};

/// Programs, in order of preference.
const PROGRAMS: [&str; 2] = ["firefox-esr", "firefox"];

/// Lets Firefox choose a free port, which it writes into a file. Decodes H.264 with the system's libavcodec, because
/// Firefox would otherwise download its own decoder (OpenH264).
const PREFERENCES: &str = r#"
user_pref("marionette.port", 0);
user_pref("media.navigator.mediadatadecoder_h264_enabled", true);
user_pref("media.webrtc.hw.h264.enabled", true);
user_pref("gfx.blacklist.webrtc.hw.acceleration.h264", 1);
"#;

/// The first program that is installed.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut all = (PROGRAMS.iter()).flat_map(|name| folders.iter().map(move |f| f.join(name)));
    all.find(|program| program.is_file())
}

pub(crate) struct Firefox {
    child: Child,
    stream: TcpStream,
    number: u64,
}

impl Firefox {
    /// Starts Firefox with an empty profile in `folder`.
    pub(crate) fn start(program: &Path, folder: &Path) -> Firefox {
        let profile = folder.join("profile");
        std::fs::create_dir_all(&profile).unwrap();
        std::fs::write(profile.join("user.js"), PREFERENCES).unwrap();
        let mut child = Command::new(program)
            .args(["--headless", "--marionette", "--no-remote", "--profile"])
            .arg(&profile)
            .env("HOME", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let named = profile.join("MarionetteActivePort");
        let stream = eventually("Firefox listens", || {
            assert!(child.try_wait().unwrap().is_none(), "Firefox has ended");
            let port: u16 = std::fs::read_to_string(&named).ok()?.trim().parse().ok()?;
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut firefox = Firefox {
            child,
            stream,
            number: 0,
        };
        firefox.message();
        firefox.call(
            "WebDriver:NewSession",
            &json!({ "acceptInsecureCerts": true }),
        );
        firefox
    }

    /// Opens this address.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({ "url": url }));
    }

    /// The return value of a script's body.
    pub(crate) fn run(&mut self, script: &str) -> Value {
        let params = json!({ "script": script, "args": [], "sandbox": null });
        self.call("WebDriver:ExecuteScript", &params)["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let end = Instant::now() + TIMEOUT;
        while self.run(&format!("return !!({expression})")) != true {
            if Instant::now() > end {
                let page = self.run("return document.body.innerText");
                panic!("timeout: {expression}; the page: {page}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn call(&mut self, name: &str, params: &Value) -> Value {
        self.number += 1;
        let text = json!([0, self.number, name, params]).to_string();
        let framed = format!("{}:{text}", text.len());
        self.stream.write_all(framed.as_bytes()).unwrap();
        loop {
            let mut answer = self.message();
            if answer[0] == 1 && answer[1] == self.number {
                assert!(answer[2].is_null(), "{name}: {}", answer[2]);
                return answer[3].take();
            }
        }
    }

    fn message(&mut self) -> Value {
        let (mut length, mut byte) = (0, [0]);
        loop {
            self.stream.read_exact(&mut byte).unwrap();
            match byte[0] {
                b':' => break,
                digit => length = length * 10 + usize::from(digit - b'0'),
            }
        }
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
