//! A headless Chromium for a test. Failures end the test.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::protocol::{self, DevTools, Tab};

/// Timeout of each operation, on a busy machine (guess).
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running browser. It ends on drop.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    tools: DevTools<ChildStdin>,
}

impl Browser {
    /// Starts the browser with an empty profile in `folder`.
    #[must_use]
    pub fn start(program: &str, folder: &Path) -> Browser {
        Browser::spawn(protocol::command(program, folder))
    }

    /// Like [`start`](Self::start), with more arguments. Later arguments take precedence.
    #[must_use]
    pub fn start_with(program: &str, folder: &Path, more: &str) -> Browser {
        let arguments = format!("--headless=new {more}");
        Browser::spawn(protocol::command_with(program, folder, &arguments))
    }

    /// Like [`start`](Self::start), with a window that fills a display.
    #[must_use]
    pub fn shown(program: &str, folder: &Path, display: &str) -> Browser {
        let mut command = protocol::command_with(program, folder, "--kiosk");
        command.env("DISPLAY", display).env("LANG", "C.UTF-8");
        Browser::spawn(command)
    }

    /// Starts a browser that verifies certificates. As an exception, it accepts the certificate with this public key (a
    /// SHA-256 in base64).
    #[must_use]
    pub fn start_trusting(program: &str, folder: &Path, public_key: &str) -> Browser {
        Browser::spawn(protocol::command_trusting(program, folder, public_key))
    }

    /// Like [`start_trusting`](Self::start_trusting), in this network namespace.
    #[must_use]
    pub fn start_in(namespace: &str, program: &str, folder: &Path, public_key: &str) -> Browser {
        let inside = protocol::command_trusting(program, folder, public_key);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]);
        command.arg(inside.get_program()).args(inside.get_args());
        Browser::spawn(command)
    }

    fn spawn(mut command: Command) -> Browser {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let tools = DevTools::new(commands, answers, TIMEOUT);
        Browser { child, tools }
    }

    /// Opens a new tab at this address.
    pub fn open(&mut self, url: &str) -> Tab {
        self.tools.open(url).unwrap()
    }

    /// Opens a new window with a tab at this address, so that the other tabs stay visible.
    pub fn open_window(&mut self, url: &str) -> Tab {
        self.tools.open_window(url).unwrap()
    }

    /// Closes a tab.
    pub fn close(&mut self, tab: &Tab) {
        self.tools.close(tab).unwrap();
    }

    /// Calls a method and waits for its result.
    pub fn call(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        self.tools.call(tab, method, params).unwrap()
    }

    /// The value of a script's last expression; a promise is awaited.
    pub fn run(&mut self, tab: &Tab, script: &str) -> Value {
        self.tools.run(tab, script).unwrap()
    }

    /// The value of an expression; `None` if there is no page yet. Unlike in [`run`](Self::run), the expression is
    /// evaluated without user activation.
    pub fn looks(&mut self, tab: &Tab, expression: &str) -> Option<Value> {
        let params = serde_json::json!({ "expression": expression, "returnByValue": true });
        let done = self
            .tools
            .call(Some(tab), "Runtime.evaluate", &params)
            .ok()?;
        Some(done["result"]["value"].clone())
    }

    /// Waits until a script's value is true. This includes waiting for the page itself.
    pub fn until(&mut self, tab: &Tab, script: &str) {
        self.tools.until(tab, script).unwrap();
    }

    /// Presses or releases a key.
    pub fn key(&mut self, tab: &Tab, code: &str, key: &str, down: bool) {
        self.tools.key(tab, code, key, down).unwrap();
    }

    /// Types the PIN into the page of a host that does not know this browser, and waits for the picture.
    pub fn log_in(&mut self, tab: &Tab, pin: &str) {
        self.tools.log_in(tab, pin).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The whole process group is killed, because the browser's renderers would otherwise still write into the
        // folder while it is removed.
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}
