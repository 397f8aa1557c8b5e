//! Chromium's debugging protocol through two pipes: it needs no library, and no port that others could reach.
//! <https://chromedevtools.github.io/devtools-protocol/> describes the methods.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The names of Chromium's program, in order of preference.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Shows no window.
const HIDDEN: &str = "--headless=new";

/// With these arguments, Chromium uses no GPU, has no background services, and computes WebGL in software
/// (SwiftShader). The sandbox is off, because Chromium with a sandbox does not start as root. Therefore, open only
/// pages of your own host.
const ARGUMENTS: &str = "--no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions \
    --autoplay-policy=no-user-gesture-required --ignore-certificate-errors --window-size=1280,900 \
    --use-angle=swiftshader --remote-debugging-pipe";

/// Capacity of the message queue. While the queue is full, the browser's messages are not read, and the browser blocks.
const WAITING: usize = 4096;

/// The installed program, if any.
#[must_use]
pub fn program() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|name| version(name).is_some())
}

/// The version of a program; `None` if the program cannot be run.
#[must_use]
pub fn version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    let said = command
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&said.stdout);
    // Omits the part about the build and the platform.
    let version = text.split(" built").next().unwrap_or_default();
    said.status.success().then(|| version.trim().to_owned())
}

/// The command that starts the browser with an empty profile in `folder`. The command passes its standard input to the
/// browser as commands, and writes the browser's answers to its standard output.
#[must_use]
pub fn command(program: &str, folder: &Path) -> Command {
    command_with(program, folder, HIDDEN)
}

/// Like [`command`], but with the arguments `more` in place of `--headless=new`. The last of two conflicting arguments
/// wins.
#[must_use]
pub fn command_with(program: &str, folder: &Path, more: &str) -> Command {
    // The browser reads from descriptor 3 and writes to descriptor 4. Paths are passed as arguments, because they may
    // contain any character. TMPDIR is `folder`, because a killed browser leaves the socket of its profile there.
    let line = format!(
        "TMPDIR=\"$3\" exec {program} --user-data-dir=\"$1\" {ARGUMENTS} {more} about:blank 3<&0 4>&1 0</dev/null 1>\"$2\" 2>&1"
    );
    let mut command = Command::new("sh");
    let [profile, log] = ["profile", "chromium.log"].map(|name| folder.join(name));
    command.args(["-c", &line, "chromium"]).args([profile, log]);
    command.arg(folder);
    command
}

/// Like [`command`], but the browser verifies certificates. As an exception, it accepts certificates with this public
/// key (a SHA-256 in base64), as if its user had accepted the certificate once.
pub(crate) fn command_trusting(program: &str, folder: &Path, public_key: &str) -> Command {
    let all = command(program, folder);
    let mut words = all.get_args().map(|word| {
        let trusted = format!("--ignore-certificate-errors-spki-list={public_key}");
        word.to_string_lossy()
            .replace("--ignore-certificate-errors", &trusted)
    });
    let mut command = Command::new(all.get_program());
    command.args(words.by_ref());
    command
}

/// A tab.
#[derive(Debug)]
pub struct Tab {
    target: String,
    session: String,
}

/// A remote-controlled browser.
#[derive(Debug)]
pub struct DevTools<W> {
    commands: W,
    messages: Receiver<Value>,
    next: u64,
    /// Timeout of each operation.
    timeout: Duration,
}

impl<W: Write> DevTools<W> {
    /// `commands` writes to the browser, and `answers` reads from it; `timeout` applies to each operation.
    pub fn new(commands: W, answers: impl Read + Send + 'static, timeout: Duration) -> DevTools<W> {
        let (said, messages) = sync_channel(WAITING);
        // This thread ends with the browser.
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if said.send(message).is_err() {
                    return;
                }
            }
        });
        DevTools {
            commands,
            messages,
            next: 0,
            timeout,
        }
    }

    /// Opens a tab at this address.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn open(&mut self, url: &str) -> Result<Tab, String> {
        self.create(&json!({ "url": url }))
    }

    /// Opens a window, so that the other tabs stay visible.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn open_window(&mut self, url: &str) -> Result<Tab, String> {
        self.create(&json!({ "url": url, "newWindow": true }))
    }

    fn create(&mut self, params: &Value) -> Result<Tab, String> {
        let made = self.call(None, "Target.createTarget", params)?;
        let target = words(&made, "targetId")?;
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &attach)?;
        let session = words(&attached, "sessionId")?;
        Ok(Tab { target, session })
    }

    /// Closes a tab.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn close(&mut self, tab: &Tab) -> Result<(), String> {
        let which = json!({ "targetId": tab.target });
        self.call(None, "Target.closeTarget", &which).map(|_| ())
    }

    /// Calls a method and waits for its result.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn call(
        &mut self,
        tab: Option<&Tab>,
        method: &str,
        params: &Value,
    ) -> Result<Value, String> {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(tab) = tab {
            command["sessionId"] = json!(tab.session);
        }
        let mut line = command.to_string().into_bytes();
        line.push(0);
        let sent = self.commands.write_all(&line);
        sent.map_err(|error| format!("{method}: the browser has ended: {error}"))?;
        let until = Instant::now() + self.timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.map_err(|error| format!("no answer to {method}: {error}"))?;
            if message["id"] == json!(id) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(format!("{method}: {error}")),
                };
            }
        }
    }

    /// Waits for the next event with this name. Returns its parameters.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, or if the event does not arrive in time.
    pub fn event(&mut self, name: &str) -> Result<Value, String> {
        let until = Instant::now() + self.timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.map_err(|error| format!("no event {name}: {error}"))?;
            if message["method"] == name {
                return Ok(message["params"].clone());
            }
        }
    }

    /// The value of a script's last expression; promises are awaited.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure, such as an
    /// exception of the script.
    pub fn run(&mut self, tab: &Tab, script: &str) -> Result<Value, String> {
        let params = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let done = self.call(Some(tab), "Runtime.evaluate", &params)?;
        match &done["exceptionDetails"] {
            Value::Null => Ok(done["result"]["value"].clone()),
            thrown => Err(format!("{script}: {thrown}")),
        }
    }

    /// Waits until a script's value is true, even while the page is still loading.
    ///
    /// # Errors
    /// Returns a one-line error if the value is not true in time.
    pub fn until(&mut self, tab: &Tab, script: &str) -> Result<(), String> {
        let until = Instant::now() + self.timeout;
        loop {
            let last = self.run(tab, script);
            if last == Ok(json!(true)) {
                return Ok(());
            }
            if Instant::now() > until {
                let page = self.run(tab, "document.body.innerText");
                return Err(format!("timeout: {script}: {last:?}; the page: {page:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses or releases a key.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn key(&mut self, tab: &Tab, code: &str, key: &str, down: bool) -> Result<(), String> {
        let kind = if down { "keyDown" } else { "keyUp" };
        let params = json!({ "type": kind, "code": code, "key": key });
        let done = self.call(Some(tab), "Input.dispatchKeyEvent", &params);
        done.map(|_| ())
    }

    /// Types the PIN into a page of a host that does not know this browser, and waits for the picture.
    ///
    /// # Errors
    /// Returns a one-line error if the browser has ended, does not answer in time, or reports a failure.
    pub fn log_in(&mut self, tab: &Tab, pin: &str) -> Result<(), String> {
        self.until(tab, "!!document.querySelector('#login:not([hidden])')")?;
        let typed = format!(
            "document.querySelector('#pin').value = {}; \
             document.querySelector('#login').requestSubmit(); true",
            json!(pin)
        );
        self.run(tab, &typed)?;
        self.until(tab, "document.querySelector('#video').videoWidth > 0")
    }
}

fn words(answer: &Value, name: &str) -> Result<String, String> {
    let found = answer[name].as_str().map(str::to_owned);
    found.ok_or_else(|| format!("the browser's answer has no {name}: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_by_their_number_between_events() {
        let answers =
            b"{\"method\":\"A.happened\",\"params\":{}}\0{\"id\":1,\"result\":{\"a\":7}}\0\
                        no JSON\0{\"id\":2,\"error\":\"unknown\"}\0";
        let mut tools = DevTools::new(Vec::new(), &answers[..], Duration::from_secs(60));
        let mut call = || tools.call(None, "A.b", &json!({}));
        assert_eq!(call().unwrap()["a"], 7);
        assert!(call().unwrap_err().contains("unknown"));
        assert!(call().unwrap_err().contains("no answer to A.b"));
        let sent: Vec<&[u8]> = tools.commands.split(|byte| *byte == 0).collect();
        assert_eq!(sent.len(), 4);
        assert!(sent[3].is_empty(), "each command ends with a zero byte");
    }
}
