//! A real Chromium without a window, driven by its debugging protocol through two pipes: no library, and no
//! port that others could reach.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::TIMEOUT;

/// Names of the program, the first that there is.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What a test needs: no display, no GPU, nothing in the background.
const ARGUMENTS: &str = "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions \
    --autoplay-policy=no-user-gesture-required --ignore-certificate-errors --window-size=1280,900 \
    --remote-debugging-pipe about:blank";

/// The program, if it is installed.
pub(crate) fn program() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|name| {
        let found = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    })
}

pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
}

impl Browser {
    /// Starts it with an empty profile in `folder`.
    pub(crate) fn start(program: &str, folder: &Path) -> Browser {
        let profile = folder.join("profile");
        // It reads commands from descriptor 3 and writes answers to 4.
        let line = format!(
            "exec {program} {ARGUMENTS} --user-data-dir={} 3<&0 4>&1 0</dev/null 1>{log} 2>&1",
            profile.display(),
            log = folder.join("chromium.log").display(),
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (said, messages) = sync_channel(4096);
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if said.send(message).is_err() {
                    return;
                }
            }
        });
        Browser {
            child,
            commands,
            messages,
            next: 0,
        }
    }

    /// A new tab at this address.
    pub(crate) fn open(&mut self, url: &str) -> Tab {
        let made = self.call(None, "Target.createTarget", &json!({ "url": url }));
        let target = made["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        Tab { target, session }
    }

    pub(crate) fn close(&mut self, tab: &Tab) {
        let which = json!({ "targetId": tab.target });
        self.call(None, "Target.closeTarget", &which);
    }

    /// Does something and waits for its result.
    pub(crate) fn call(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        let done = self.attempt(tab, method, params);
        done.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The same, where an error is an answer, too.
    fn attempt(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(tab) = tab {
            command["sessionId"] = json!(tab.session);
        }
        let mut line = command.to_string().into_bytes();
        line.push(0);
        self.commands.write_all(&line).unwrap();
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.unwrap_or_else(|e| panic!("no answer to {method}: {e}"));
            if message["id"] == json!(id) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// The value of a script's last expression; of a promise what it brings.
    pub(crate) fn run(&mut self, tab: &Tab, script: &str) -> Value {
        let value = self.evaluate(tab, script);
        value.unwrap_or_else(|why| panic!("{script}: {why}"))
    }

    fn evaluate(&mut self, tab: &Tab, script: &str) -> Result<Value, Value> {
        let params = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let done = self.attempt(Some(tab), "Runtime.evaluate", &params)?;
        match &done["exceptionDetails"] {
            Value::Null => Ok(done["result"]["value"].clone()),
            thrown => Err(thrown.clone()),
        }
    }

    /// Waits until a script's value is true. A page that is not there yet is waited for, too.
    pub(crate) fn until(&mut self, tab: &Tab, script: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let last = self.evaluate(tab, script);
            if last == Ok(json!(true)) {
                return;
            }
            if Instant::now() > until {
                let page = self.evaluate(tab, "document.body.innerText");
                panic!("it did not come: {script}: {last:?}; the page: {page:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses or releases a key.
    pub(crate) fn key(&mut self, tab: &Tab, code: &str, key: &str, down: bool) {
        let kind = if down { "keyDown" } else { "keyUp" };
        let params = json!({ "type": kind, "code": code, "key": key });
        self.call(Some(tab), "Input.dispatchKeyEvent", &params);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tab.
pub(crate) struct Tab {
    target: String,
    session: String,
}
