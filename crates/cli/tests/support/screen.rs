//! A terminal that runs a program, in a private tmux server, so that the visible text can be read.

use std::process::Command;

use super::{Folder, eventually, skip};

/// A terminal with one program.
pub(crate) struct Screen {
    socket: String,
    folder: Folder,
}

impl Screen {
    /// Starts `command` in a terminal of this size; prints a message and returns `None` if tmux is not installed.
    pub(crate) fn start(columns: u16, rows: u16, command: &Command) -> Option<Screen> {
        let folder = Folder::new();
        let socket = folder.join("tmux");
        let size = [columns.to_string(), rows.to_string()];
        let mut tmux = Command::new("tmux");
        tmux.args(["-f", "/dev/null", "-S", &socket])
            .args([
                "start-server",
                ";",
                "set-option",
                "-g",
                "remain-on-exit",
                "on",
                ";",
            ])
            .args(["set-option", "-g", "history-limit", "5000", ";"])
            .args(["new-session", "-d", "-x", &size[0], "-y", &size[1]]);
        // The shell outlives Ctrl-C and writes down the exit code, which tmux sometimes loses.
        let wrapped = "trap : INT; \"$@\"; echo $? >$0.new; mv $0.new $0";
        tmux.args(["sh", "-c", wrapped, &folder.join("code")]);
        // `env` sets and removes the command's environment variables.
        tmux.args(["env", "--default-signal=INT"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => {
                    let pair = format!("{}={}", name.display(), value.display());
                    tmux.arg(pair)
                }
                None => tmux.arg(format!("--unset={}", name.display())),
            };
        }
        tmux.arg(command.get_program()).args(command.get_args());
        let Ok(out) = tmux.output() else {
            skip("tmux is not installed: apt-get install tmux");
            return None;
        };
        let why = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{why}");
        Some(Screen { socket, folder })
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = Command::new("tmux")
            .args(["-S", &self.socket])
            .args(args)
            .output()
            .expect("tmux is installed");
        let why = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {why}");
        String::from_utf8(out.stdout).expect("text")
    }

    /// All non-empty rows, including those scrolled off. A wrapped line counts as several rows.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.captured(&["-S", "-"])
    }

    pub(crate) fn visible_rows(&self) -> Vec<String> {
        self.captured(&[])
    }

    fn captured(&self, from: &[&str]) -> Vec<String> {
        let text = self.tmux(&[&["capture-pane", "-p"], from].concat());
        let rows = text.lines().map(str::trim_end);
        rows.filter(|row| !row.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Polls the rows until `poll` returns a value.
    pub(crate) fn eventually<T>(&self, what: &str, poll: impl Fn(&[String]) -> Option<T>) -> T {
        let mut last = Vec::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || {
                last = self.rows();
                poll(&last)
            })
        }));
        shown.unwrap_or_else(|_| panic!("{what}: not on the screen:\n{}", last.join("\n")))
    }

    /// Waits for a row that contains `part`.
    pub(crate) fn row(&self, part: &str) -> String {
        self.eventually(part, |rows| {
            rows.iter().find(|row| row.contains(part)).cloned()
        })
    }

    /// Types these keys, in tmux's notation.
    pub(crate) fn type_text(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Resizes the terminal.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// Waits until the program has ended; returns its exit code.
    pub(crate) fn wait(&self) -> i32 {
        self.eventually("the program's end", |_| {
            // When the pane is dead, tmux has read all output of the program.
            let dead = self.tmux(&["list-panes", "-F", "#{pane_dead}"]);
            let code = std::fs::read_to_string(self.folder.join("code")).ok()?;
            code.trim().parse().ok().filter(|_| dead.trim() == "1")
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let server = Command::new("tmux")
            .args(["-S", &self.socket, "kill-server"])
            .output();
        drop(server);
    }
}
