//! A real Firefox with a window, driven by its built-in Marionette, so no other program is needed.
//!
//! Spec: <https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html>

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::support::{TIMEOUT, eventually};

/// Names of the program, in order of preference.
const PROGRAMS: [&str; 2] = ["firefox-esr", "firefox"];

/// Makes Firefox decode H.264 with the system's libavcodec, because Firefox would otherwise download its own decoder
/// (OpenH264).
const H264: &str = r#"
user_pref("media.webrtc.hw.h264.enabled", true);
user_pref("media.navigator.mediadatadecoder_h264_enabled", true);
user_pref("gfx.blacklist.webrtc.hw.acceleration.h264", 1);
"#;

/// Lets Firefox choose a free port, which it writes into a file. Disables Firefox's own network requests, such as
/// update checks. Keeps input methods enabled, which automation disables by default.
const QUIET: &str = r#"
user_pref("marionette.port", 0);
user_pref("remote.prefs.recommended", false);
user_pref("app.update.auto", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("media.gmp-manager.url", "");
user_pref("media.peerconnection.ice.loopback", true);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"#;

pub(crate) struct Firefox {
    child: Child,
    stream: BufReader<TcpStream>,
    next: u64,
}

impl Firefox {
    /// The program, if it is installed.
    pub(crate) fn program() -> Option<&'static str> {
        PROGRAMS.into_iter().find(|name| {
            let mut command = Command::new(name);
            let said = command.arg("--version").stdin(Stdio::null()).output();
            said.is_ok_and(|said| said.status.success())
        })
    }

    /// Starts Firefox with an empty profile in `folder`, in a window that fills a display.
    pub(crate) fn shown(program: &str, folder: &Path, display: &str, h264: bool) -> Firefox {
        let profile = folder.join("firefox");
        std::fs::create_dir_all(&profile).unwrap();
        let settings = if h264 {
            [QUIET, H264].concat()
        } else {
            QUIET.to_owned()
        };
        std::fs::write(profile.join("user.js"), settings).unwrap();
        let child = Command::new(program)
            .args(["--marionette", "--kiosk", "--profile"])
            .arg(&profile)
            .env("DISPLAY", display)
            .env("LANG", "C.UTF-8")
            .env("HOME", &profile)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = profile.join("MarionetteActivePort");
        let stream = eventually("Firefox listens", || {
            let port: u16 = std::fs::read_to_string(&port).ok()?.trim().parse().ok()?;
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut firefox = Firefox {
            child,
            stream: BufReader::new(stream),
            next: 0,
        };
        // Firefox sends a greeting first.
        firefox.message();
        firefox.call(
            "WebDriver:NewSession",
            &json!({ "acceptInsecureCerts": true }),
        );
        firefox
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({ "url": url }));
    }

    /// The value of an expression.
    pub(crate) fn run(&mut self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        let done = self.call(
            "WebDriver:ExecuteScript",
            &json!({ "script": script, "args": [] }),
        );
        done["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let until = Instant::now() + TIMEOUT;
        while self.run(expression) != json!(true) {
            if Instant::now() > until {
                let page = self.run("document.body.innerText");
                panic!("timeout: {expression}; the page: {page}");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    fn call(&mut self, name: &str, params: &Value) -> Value {
        self.next += 1;
        let command = json!([0, self.next, name, params]).to_string();
        write!(self.stream.get_mut(), "{}:{command}", command.len()).unwrap();
        let answer = self.message();
        assert_eq!(answer[2], Value::Null, "{name}: {answer}");
        answer[3].clone()
    }

    fn message(&mut self) -> Value {
        let mut length = Vec::new();
        self.stream.read_until(b':', &mut length).unwrap();
        length.pop();
        let length: usize = String::from_utf8(length).unwrap().parse().unwrap();
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message).unwrap();
        serde_json::from_slice(&message).unwrap()
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
