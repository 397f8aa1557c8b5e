//! The Wayland display of `openuvr_compositor` as an application's display.

use std::process::Command;

use openuvr_compositor::WaylandDisplay;

use super::ApplicationDisplay;

/// Variables that would connect an application to the X display in which the host was started.
const X_VARIABLES: [&str; 2] = ["DISPLAY", "XAUTHORITY"];

impl ApplicationDisplay for WaylandDisplay {
    fn set_environment(&self, command: &mut Command) {
        command.env("WAYLAND_DISPLAY", self.socket());
        command.env("XDG_SESSION_TYPE", "wayland");
        command.env_remove("WAYLAND_SOCKET");
        for variable in X_VARIABLES {
            command.env_remove(variable);
        }
        // Some toolkits refuse Wayland without it.
        let folder = self.socket().parent();
        if let (None, Some(folder)) = (std::env::var_os("XDG_RUNTIME_DIR"), folder) {
            command.env("XDG_RUNTIME_DIR", folder);
        }
    }

    /// It is a thread of this process.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn window_watch(&self) -> Box<dyn Fn() -> bool + Send> {
        let windows = self.windows();
        Box::new(move || windows() > 0)
    }
}

#[cfg(test)]
mod tests {
    use openuvr_compositor::Options;
    use openuvr_proto::units::Size;

    use super::*;

    #[test]
    fn an_application_uses_only_this_display() {
        let folder = tempfile::tempdir().unwrap();
        let display = WaylandDisplay::start(&Options {
            folder: folder.path().to_owned(),
            size: Size::new(64, 64),
            fps: 60.0,
            scale: 1.0,
        });
        let display = display.unwrap();
        let mut command = Command::new("true");
        display.set_environment(&mut command);
        let variable = |name: &str| {
            let mut all = command.get_envs();
            all.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let socket = Some(Some(display.socket().as_os_str()));
        assert_eq!(variable("WAYLAND_DISPLAY"), socket);
        for removed in ["DISPLAY", "XAUTHORITY", "WAYLAND_SOCKET"] {
            assert_eq!(variable(removed), Some(None));
        }
        assert!(!display.window_watch()());
        assert!(display.socket().exists());
        let socket = display.socket().to_owned();
        drop(display);
        assert!(!socket.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
