//! A real headless Chromium, driven as in the benches; failures end the test.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use openuvr_testbed::chromium::protocol::{self, DevTools};
pub(crate) use openuvr_testbed::chromium::protocol::{Tab, program};
use serde_json::Value;

use super::support::TIMEOUT;

pub(crate) struct Browser {
    child: Child,
    tools: DevTools<ChildStdin>,
}

impl Browser {
    /// Starts it with an empty profile in `folder`.
    pub(crate) fn start(program: &str, folder: &Path) -> Browser {
        Browser::spawn(protocol::command(program, folder))
    }

    /// The same with more arguments; later ones take precedence.
    pub(crate) fn start_with(program: &str, folder: &Path, more: &str) -> Browser {
        let arguments = format!("--headless=new {more}");
        Browser::spawn(protocol::command_with(program, folder, &arguments))
    }

    /// The same with a window that fills a display.
    pub(crate) fn shown(program: &str, folder: &Path, display: &str) -> Browser {
        let mut command = protocol::command_with(program, folder, "--kiosk");
        command.env("DISPLAY", display).env("LANG", "C.UTF-8");
        Browser::spawn(command)
    }

    fn spawn(mut command: Command) -> Browser {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let tools = DevTools::new(commands, answers, TIMEOUT);
        Browser { child, tools }
    }

    /// A new tab at this address.
    pub(crate) fn open(&mut self, url: &str) -> Tab {
        self.tools.open(url).unwrap()
    }

    pub(crate) fn close(&mut self, tab: &Tab) {
        self.tools.close(tab).unwrap();
    }

    /// Calls a method and waits for its result.
    pub(crate) fn call(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        self.tools.call(tab, method, params).unwrap()
    }

    /// The value of a script's last expression; a promise is awaited.
    pub(crate) fn run(&mut self, tab: &Tab, script: &str) -> Value {
        self.tools.run(tab, script).unwrap()
    }

    /// The value of an expression without user activation, which scripts of tests have; `None`: no page yet.
    pub(crate) fn looks(&mut self, tab: &Tab, expression: &str) -> Option<Value> {
        let params = serde_json::json!({ "expression": expression, "returnByValue": true });
        let done = self
            .tools
            .call(Some(tab), "Runtime.evaluate", &params)
            .ok()?;
        Some(done["result"]["value"].clone())
    }

    /// Waits until a script's value is true, also for the page itself.
    pub(crate) fn until(&mut self, tab: &Tab, script: &str) {
        self.tools.until(tab, script).unwrap();
    }

    /// Presses or releases a key.
    pub(crate) fn key(&mut self, tab: &Tab, code: &str, key: &str, down: bool) {
        self.tools.key(tab, code, key, down).unwrap();
    }

    pub(crate) fn log_in(&mut self, tab: &Tab, pin: &str) {
        self.tools.log_in(tab, pin).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
