//! A real headless Chromium, driven as in the benches; failures end the test.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use openuvr_testbed::chromium::protocol::{self, DevTools};
pub(crate) use openuvr_testbed::chromium::protocol::{Tab, program};
use serde_json::Value;

/// Timeout of a page on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    tools: DevTools<ChildStdin>,
}

impl Browser {
    /// Starts it with an empty profile in `folder`.
    pub(crate) fn start(program: &str, folder: &Path) -> Browser {
        Browser::run_as(protocol::command(program, folder))
    }

    /// The same, accepting only the certificate with this public key.
    pub(crate) fn start_trusting(program: &str, folder: &Path, public_key: &str) -> Browser {
        Browser::run_as(protocol::command_trusting(program, folder, public_key))
    }

    /// The same, in this network namespace.
    pub(crate) fn start_in(
        namespace: &str,
        program: &str,
        folder: &Path,
        public_key: &str,
    ) -> Browser {
        let inside = protocol::command_trusting(program, folder, public_key);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]);
        command.arg(inside.get_program()).args(inside.get_args());
        Browser::run_as(command)
    }

    fn run_as(mut command: Command) -> Browser {
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

    /// A new window.
    pub(crate) fn open_window(&mut self, url: &str) -> Tab {
        self.tools.open_window(url).unwrap()
    }

    /// The value of a script's last expression; a promise is awaited.
    pub(crate) fn run(&mut self, tab: &Tab, script: &str) -> Value {
        self.tools.run(tab, script).unwrap()
    }

    /// Waits until a script's value is true, also for the page itself.
    pub(crate) fn until(&mut self, tab: &Tab, script: &str) {
        self.tools.until(tab, script).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
