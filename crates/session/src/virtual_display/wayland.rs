//! The Wayland display of `openuvr_compositor` as an application's display.

use std::process::Command;

use openuvr_compositor::{WaylandDisplay, X11Access};

use super::ApplicationDisplay;

/// Variables that would connect an application to the X display in which the host was started.
const X_VARIABLES: [&str; 2] = ["DISPLAY", "XAUTHORITY"];

impl ApplicationDisplay for WaylandDisplay {
    fn set_environment(&self, command: &mut Command) {
        command.env("WAYLAND_DISPLAY", self.socket());
        command.env("XDG_SESSION_TYPE", "wayland");
        command.env_remove("WAYLAND_SOCKET");
        match self.x11() {
            Ok(x11) => {
                command.env("DISPLAY", &x11.display);
                command.env("XAUTHORITY", &x11.authority);
            }
            Err(_) => {
                for variable in X_VARIABLES {
                    command.env_remove(variable);
                }
            }
        }
        // Some toolkits refuse to use Wayland without `XDG_RUNTIME_DIR`.
        let folder = self.socket().parent();
        if let (None, Some(folder)) = (std::env::var_os("XDG_RUNTIME_DIR"), folder) {
            command.env("XDG_RUNTIME_DIR", folder);
        }
    }

    /// Lists the processes of the display. The display itself is a thread of this process. The only process of the
    /// display is an X server, which is started with the first X11 application.
    fn process_watch(&self) -> Box<dyn Fn() -> Vec<u32> + Send> {
        let x11 = self.x11().ok().cloned();
        Box::new(move || x11.iter().filter_map(X11Access::process).collect())
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
            authority: None,
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
        assert_eq!(variable("WAYLAND_SOCKET"), Some(None));
        let x11 = display.x11().ok();
        let expected = x11.map(|x11| (x11.display.as_ref(), x11.authority.as_os_str()));
        let (name, cookie) = (variable("DISPLAY"), variable("XAUTHORITY"));
        assert_eq!(name, Some(expected.map(|(name, _)| name)));
        assert_eq!(cookie, Some(expected.map(|(_, cookie)| cookie)));
        assert!(
            display.process_watch()().is_empty(),
            "no application, no server"
        );
        assert!(!display.window_watch()());
        assert!(display.socket().exists());
        let socket = display.socket().to_owned();
        drop(display);
        assert!(!socket.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
