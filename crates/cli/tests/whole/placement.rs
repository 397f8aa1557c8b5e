//! Placement of windows on a virtual display: a single window fills it, and others are centred over it.

use openuvr_media::display_size::DisplaySize;
use openuvr_proto::units::Size;
use openuvr_xserver::fixture::has_xvfb;
use x11rb::connection::Connection as _;
use x11rb::properties::WmSizeHints;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConfigureWindowAux,
    ConnectionExt as _, CreateWindowAux, EventMask, MapState, PropMode, UNMAP_NOTIFY_EVENT,
    UnmapNotifyEvent, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::support::{Display, Folder, Program, eventually, openuvr};

/// Initial position of new windows.
const OWN: (i16, i16) = (7, 9);

/// Starts a host with an empty display of 640x360, and returns both. If Xvfb is not installed, prints a message and
/// returns `None`.
fn host(folder: &Folder, args: &[&str]) -> Option<(Program, Display)> {
    if !has_xvfb() {
        return None;
    }
    let dir = folder.join("host");
    let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
    let more = ["--virtual", "640x360", "--realtime", "off"];
    let host = Program::start("host", openuvr(&[&own[..], &more, args].concat()));
    let line = host.line("is empty; start an application with");
    let word = |start: &str| line.split(' ').find_map(|word| word.strip_prefix(start));
    let name = word("DISPLAY=").expect("a display");
    let display = Display::of_another(name, word("XAUTHORITY=").expect("a file"));
    Some((host, display))
}

/// A test application.
struct Application {
    conn: RustConnection,
    root: Window,
}

impl Application {
    fn on(display: &Display) -> Application {
        let (conn, screen) = x11rb::connect(Some(&display.name)).expect("the display runs");
        let root = conn.setup().roots[screen].root;
        Application { conn, root }
    }

    fn atom(&self, name: &str) -> u32 {
        let reply = self.conn.intern_atom(false, name.as_bytes());
        reply.expect("sent").reply().expect("an atom").atom
    }

    /// Creates a window of this size, applies `of` to it, and shows it.
    fn show(&self, size: (u16, u16), of: impl FnOnce(Window)) -> Window {
        let window = self.conn.generate_id().expect("an id");
        let (class, depth, visual) = (WindowClass::INPUT_OUTPUT, 0, 0);
        let aux = CreateWindowAux::new();
        self.conn
            .create_window(
                depth, window, self.root, OWN.0, OWN.1, size.0, size.1, 3, class, visual, &aux,
            )
            .expect("sent");
        of(window);
        self.conn.map_window(window).expect("sent");
        self.conn.sync().expect("a running X server");
        eventually("the window is shown", || {
            let about = self.conn.get_window_attributes(window).expect("sent");
            let about = about.reply().expect("the window");
            (about.map_state == MapState::VIEWABLE).then_some(())
        });
        window
    }

    fn show_dialog(&self, size: (u16, u16), parent: Window) -> Window {
        self.show(size, |window| {
            self.set_property(
                window,
                AtomEnum::WM_TRANSIENT_FOR.into(),
                AtomEnum::WINDOW,
                parent,
            );
        })
    }

    fn show_fixed(&self, size: (u16, u16)) -> Window {
        self.show(size, |window| {
            let size = Some((i32::from(size.0), i32::from(size.1)));
            let hints = WmSizeHints {
                min_size: size,
                max_size: size,
                ..WmSizeHints::new()
            };
            let sent = hints.set_normal_hints(&self.conn, window);
            sent.expect("sent");
        })
    }

    fn set_property(&self, window: Window, property: u32, kind: AtomEnum, value: u32) {
        let mode = PropMode::REPLACE;
        let sent = self
            .conn
            .change_property32(mode, window, property, kind, &[value]);
        sent.expect("sent");
    }

    /// Position, size and border.
    fn geometry(&self, window: Window) -> (i16, i16, u16, u16, u16) {
        let is = self.conn.get_geometry(window).expect("sent").reply();
        let is = is.expect("the window");
        (is.x, is.y, is.width, is.height, is.border_width)
    }

    fn wait_for_geometry(&self, window: Window, at: (i16, i16), size: (u16, u16)) {
        let expected = (at.0, at.1, size.0, size.1, 0);
        eventually(&format!("{window:#x} comes to {expected:?}"), || {
            (self.geometry(window) == expected).then_some(())
        });
    }

    fn wait_for_focus(&self, window: Window) {
        eventually(&format!("{window:#x} gets the keyboard"), || {
            let focus = self.conn.get_input_focus().expect("sent").reply();
            (focus.expect("a focus").focus == window).then_some(())
        });
    }

    fn resize(&self, window: Window, size: (u32, u32)) {
        let change = ConfigureWindowAux::new().width(size.0).height(size.1);
        self.conn.configure_window(window, &change).expect("sent");
        self.conn.sync().expect("a running X server");
    }

    fn destroy(&self, window: Window) {
        self.conn.destroy_window(window).expect("sent");
        self.conn.sync().expect("a running X server");
    }

    /// The owner of the window manager selection (ICCCM 2.0, section 2.8).
    fn manager(&self) -> Window {
        let selection = self.atom("WM_S0");
        let owner = self.conn.get_selection_owner(selection).expect("sent");
        owner.reply().expect("an answer").owner
    }

    /// Whether this application can become the window manager.
    fn can_manage(&self) -> bool {
        let mask = EventMask::SUBSTRUCTURE_REDIRECT;
        let attributes = ChangeWindowAttributesAux::new().event_mask(mask);
        let reply = self.conn.change_window_attributes(self.root, &attributes);
        reply.expect("sent").check().is_ok()
    }

    fn request_full_screen(&self, window: Window, action: u32) {
        let (state, full) = (
            self.atom("_NET_WM_STATE"),
            self.atom("_NET_WM_STATE_FULLSCREEN"),
        );
        let message = ClientMessageEvent::new(32, window, state, [action, full, 0, 1, 0]);
        let to = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        let sent = self.conn.send_event(false, self.root, to, message);
        sent.expect("sent").check().expect("the root window");
    }
}

#[test]
fn a_single_window_fills_the_display_below_dialogs() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let main = app.show((200, 100), |_| ());
    app.wait_for_geometry(main, (0, 0), (640, 360));
    app.wait_for_focus(main);
    let dialog = app.show_dialog((100, 60), main);
    app.wait_for_geometry(dialog, (270, 150), (100, 60));
    app.wait_for_focus(dialog);
    let typed = app.show((300, 200), |window| {
        let (name, kind) = ("_NET_WM_WINDOW_TYPE", "_NET_WM_WINDOW_TYPE_DIALOG");
        app.set_property(window, app.atom(name), AtomEnum::ATOM, app.atom(kind));
    });
    app.wait_for_geometry(typed, (170, 80), (300, 200));
    // The dialog is centred over its parent, not over the display, and is no larger than the display.
    let large = app.show_dialog((900, 40), typed);
    app.wait_for_geometry(large, (0, 160), (640, 40));
    app.destroy(large);
    app.destroy(typed);
    app.wait_for_focus(dialog);
    // The filling window keeps its size, whatever it requests; a dialog stays centred.
    app.resize(main, (50, 50));
    app.resize(dialog, (200, 100));
    app.wait_for_geometry(dialog, (220, 130), (200, 100));
    assert_eq!(app.geometry(main), (0, 0, 640, 360, 0));
    app.destroy(dialog);
    app.wait_for_focus(main);
    // Override-redirect windows such as menus are left alone.
    let menu = CreateWindowAux::new().override_redirect(1);
    let id = app.conn.generate_id().expect("an id");
    let class = WindowClass::INPUT_OUTPUT;
    app.conn
        .create_window(0, id, app.root, 30, 40, 50, 60, 1, class, 0, &menu)
        .expect("sent");
    app.conn.map_window(id).expect("sent");
    app.destroy(main);
    eventually("the window is gone", || {
        let focus = app.conn.get_input_focus().expect("sent").reply();
        (focus.expect("a focus").focus != main).then_some(())
    });
    assert_eq!(app.geometry(id), (30, 40, 50, 60, 1));
}

#[test]
fn fixed_size_and_further_windows_are_centred() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let first = app.show_fixed((200, 100));
    app.wait_for_geometry(first, (220, 130), (200, 100));
    let second = app.show((300, 100), |_| ());
    app.wait_for_geometry(second, (170, 130), (300, 100));
    app.wait_for_focus(second);
    // Now the second window is the only one, as when a launcher is replaced by a game.
    app.conn.unmap_window(first).expect("sent");
    app.conn.sync().expect("a running X server");
    app.wait_for_geometry(second, (0, 0), (640, 360));
}

#[test]
fn a_window_withdrawn_before_it_is_mapped_stays_hidden() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let main = app.show((200, 100), |_| ());
    app.wait_for_focus(main);
    let window = app.conn.generate_id().expect("an id");
    let (class, aux) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
    // While this application holds the server, the placement cannot map the window.
    app.conn.grab_server().expect("sent");
    app.conn
        .create_window(0, window, app.root, 0, 0, 90, 60, 0, class, 0, &aux)
        .expect("sent");
    app.conn.map_window(window).expect("sent");
    app.conn.unmap_window(window).expect("sent");
    let withdrawn = UnmapNotifyEvent {
        response_type: UNMAP_NOTIFY_EVENT,
        sequence: 0,
        event: app.root,
        window,
        from_configure: false,
    };
    let to = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    app.conn
        .send_event(false, app.root, to, withdrawn)
        .expect("sent");
    app.conn.ungrab_server().expect("sent");
    app.conn.sync().expect("a running X server");
    let state = app.atom("WM_STATE");
    eventually("the window is withdrawn", || {
        let is = app
            .conn
            .get_property(false, window, state, AtomEnum::ANY, 0, 1);
        let is = is.expect("sent").reply().expect("the window");
        let is = is.value32().and_then(|mut values| values.next());
        (is == Some(0)).then_some(())
    });
    let about = app.conn.get_window_attributes(window).expect("sent");
    let about = about.reply().expect("the window");
    assert_eq!(about.map_state, MapState::UNMAPPED);
    // The window can be shown later.
    app.conn.map_window(window).expect("sent");
    app.conn.sync().expect("a running X server");
    app.wait_for_focus(window);
}

#[test]
fn a_window_can_request_full_screen() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let window = app.show_fixed((200, 100));
    app.request_full_screen(window, 1);
    app.wait_for_geometry(window, (0, 0), (640, 360));
    app.request_full_screen(window, 0);
    app.wait_for_geometry(window, (220, 130), (200, 100));
}

#[test]
fn windows_follow_the_size_of_their_display() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let main = app.show((200, 100), |_| ());
    let dialog = app.show_dialog((100, 60), main);
    app.wait_for_geometry(main, (0, 0), (640, 360));
    let mut size = DisplaySize::open(&display.name).expect("a display with RandR");
    size.set(Size::new(320, 200), None).expect("a smaller size");
    app.wait_for_geometry(main, (0, 0), (320, 200));
    app.wait_for_geometry(dialog, (110, 70), (100, 60));
    size.restore().expect("the original size");
    app.wait_for_geometry(main, (0, 0), (640, 360));
}

#[test]
fn a_window_manager_replaces_the_placement() {
    let folder = Folder::new();
    let Some((mut host, display)) = host(&folder, &["--place"]) else {
        return;
    };
    let app = Application::on(&display);
    let main = app.show((200, 100), |_| ());
    let manager = Application::on(&display);
    assert!(!manager.can_manage(), "the placement is the manager");
    let before = manager.manager();
    assert_ne!(before, x11rb::NONE);
    let own = manager.conn.generate_id().expect("an id");
    let (class, aux) = (WindowClass::INPUT_ONLY, CreateWindowAux::new());
    manager
        .conn
        .create_window(0, own, manager.root, 0, 0, 1, 1, 0, class, 0, &aux)
        .expect("sent");
    let selection = manager.atom("WM_S0");
    manager
        .conn
        .set_selection_owner(own, selection, x11rb::CURRENT_TIME)
        .expect("sent");
    eventually("the one before has gone", || {
        let there = manager.conn.get_geometry(before).expect("sent").reply();
        there.is_err().then_some(())
    });
    assert!(manager.can_manage());
    assert_eq!(manager.manager(), own);
    // Displayed windows stay, and only the new window manager controls the next one.
    assert_eq!(app.geometry(main), (0, 0, 640, 360, 0));
    let check = manager.atom("_NET_SUPPORTING_WM_CHECK");
    let named = manager
        .conn
        .get_property(false, manager.root, check, AtomEnum::WINDOW, 0, 1);
    assert_eq!(
        named.expect("sent").reply().expect("an answer").value_len,
        0
    );
    host.assert_running();
}

#[test]
fn without_placement_windows_keep_their_position() {
    let folder = Folder::new();
    let Some((_host, display)) = host(&folder, &[]) else {
        return;
    };
    let app = Application::on(&display);
    assert_eq!(app.manager(), x11rb::NONE);
    let window = app.show((200, 100), |_| ());
    assert_eq!(app.geometry(window), (OWN.0, OWN.1, 200, 100, 3));
    assert!(app.can_manage());
}
