//! The programs, their Debian packages, and the capture methods to try.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaptureMethod {
    /// `openuvr host --window`.
    Screen,
    /// `openuvr run`.
    Hook,
}

impl CaptureMethod {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            CaptureMethod::Screen => "screen",
            CaptureMethod::Hook => "hook",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    Starts,
    Picture,
    Key,
    Click,
    Pointer,
    Menu,
    Dialog,
    Motion,
}

impl Check {
    /// The checks in the order of execution. Keys are checked before menus, which take the keyboard. Motion comes last,
    /// because no other check is possible after the mouse grab.
    pub(crate) const ALL: [Check; 8] = [
        Check::Starts,
        Check::Picture,
        Check::Pointer,
        Check::Key,
        Check::Menu,
        Check::Dialog,
        Check::Click,
        Check::Motion,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Check::Starts => "starts",
            Check::Picture => "picture",
            Check::Key => "key",
            Check::Click => "click",
            Check::Pointer => "pointer",
            Check::Menu => "menu",
            Check::Dialog => "dialog",
            Check::Motion => "motion",
        }
    }
}

/// Kind of program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Desktop,
    /// A game, for which relative motion is checked, too.
    Game,
}

/// The input that opens a menu or a dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opens {
    /// Keys, each held while the next is pressed.
    Keys(&'static [u8]),
    /// A button in the middle of the window.
    Button(u8),
    /// A button that is held together with keys.
    Held(&'static [u8], u8),
}

/// A known failure and its reason. A listed check must fail, so that the list stays up to date.
pub(crate) struct KnownFailure {
    pub(crate) method: CaptureMethod,
    pub(crate) check: Check,
    pub(crate) why: &'static str,
}

/// A program to test.
pub(crate) struct App {
    /// The command line.
    pub(crate) args: &'static [&'static str],
    pub(crate) package: &'static str,
    pub(crate) methods: &'static [CaptureMethod],
    pub(crate) kind: Kind,
    /// A shell command that runs to its end before the program starts.
    pub(crate) before: &'static str,
    pub(crate) menu: Option<Opens>,
    pub(crate) dialog: Option<Opens>,
    pub(crate) known: &'static [KnownFailure],
}

impl App {
    /// The name of the program in the table and on the command line.
    pub(crate) const fn name(&self) -> &'static str {
        match self.args {
            [name, ..] => name,
            [] => "",
        }
    }

    const fn menu(mut self, opens: Opens) -> App {
        self.menu = Some(opens);
        self
    }

    const fn dialog(mut self, opens: Opens) -> App {
        self.dialog = Some(opens);
        self
    }

    /// Sets a shell command that runs to its end before the program starts.
    const fn before(mut self, line: &'static str) -> App {
        self.before = line;
        self
    }
}

const SCREEN: &[CaptureMethod] = &[CaptureMethod::Screen];
const BOTH: &[CaptureMethod] = &[CaptureMethod::Screen, CaptureMethod::Hook];

const fn desktop(args: &'static [&'static str], package: &'static str) -> App {
    App {
        args,
        package,
        methods: SCREEN,
        kind: Kind::Desktop,
        before: "",
        menu: None,
        dialog: None,
        known: &[],
    }
}

/// A program that renders with OpenGL or Vulkan.
const fn drawing(args: &'static [&'static str], package: &'static str) -> App {
    App {
        methods: BOTH,
        ..desktop(args, package)
    }
}

const fn game(args: &'static [&'static str], package: &'static str) -> App {
    App {
        kind: Kind::Game,
        ..drawing(args, package)
    }
}

// X key codes, the same on every PC keyboard.
const CONTROL: u8 = 29 + 8;
const ALT: u8 = 56 + 8;
const F: u8 = 33 + 8;
const O: u8 = 24 + 8;
const F10: u8 = 68 + 8;

/// Without this, Inkscape starts with a welcome dialog.
const NO_WELCOME: &str = r#"mkdir "$XDG_CONFIG_HOME/inkscape" && cat > "$XDG_CONFIG_HOME/inkscape/preferences.xml" <<'END'
<inkscape version="1"><group id="options"><group id="boot" enabled="0"/></group></inkscape>
END"#;

/// The programs to test. Each is started on its own display with a window manager, an empty home and no sound.
pub(crate) const APPS: &[App] = &[
    desktop(&["xterm"], "xterm").menu(Opens::Held(&[CONTROL], 1)),
    desktop(&["gtk3-demo-application"], "gtk-3-examples").menu(Opens::Keys(&[F10])),
    desktop(&["featherpad"], "featherpad")
        .menu(Opens::Keys(&[ALT, F]))
        .dialog(Opens::Keys(&[CONTROL, O])),
    desktop(&["dosbox"], "dosbox"),
    desktop(&["wine", "notepad"], "wine")
        .before("wineboot --init")
        .menu(Opens::Keys(&[ALT, F]))
        .dialog(Opens::Keys(&[CONTROL, O])),
    desktop(&["scummvm"], "scummvm"),
    desktop(&["inkscape"], "inkscape")
        .before(NO_WELCOME)
        .menu(Opens::Keys(&[ALT, F]))
        .dialog(Opens::Keys(&[CONTROL, O])),
    desktop(&["gimp", "--no-splash"], "gimp")
        .menu(Opens::Keys(&[ALT, F]))
        .dialog(Opens::Keys(&[CONTROL, O])),
    desktop(
        &["firefox-esr", "--no-remote", "about:license"],
        "firefox-esr",
    )
    .menu(Opens::Button(3))
    .dialog(Opens::Keys(&[CONTROL, O])),
    desktop(
        &[
            "mpv",
            "--no-audio",
            "--vo=x11",
            "--loop",
            "av://lavfi:testsrc2",
        ],
        "mpv",
    ),
    drawing(&["glxgears"], "mesa-utils"),
    drawing(&["es2gears_x11"], "mesa-utils"),
    drawing(&["vkcube"], "vulkan-tools"),
    drawing(&["gtk4-demo"], "gtk-4-examples"),
    drawing(&["gtk4-demo-application"], "gtk-4-examples").menu(Opens::Keys(&[F10])),
    drawing(&["goxel"], "goxel"),
    drawing(&["godot3"], "godot3"),
    game(&["chromium-bsu", "--window", "--noaudio"], "chromium-bsu"),
    game(&["neverball"], "neverball"),
    game(
        &[
            "openarena",
            "+set",
            "r_fullscreen",
            "0",
            "+set",
            "com_introplayed",
            "1",
        ],
        "openarena",
    ),
    game(&["minetest"], "minetest"),
    game(
        &["supertuxkart", "--no-sound", "--windowed"],
        "supertuxkart",
    ),
    game(&["etr"], "extremetuxracer"),
    game(&["xmoto", "--windowed", "--nosound"], "xmoto"),
    game(&["foobillardplus"], "foobillardplus"),
];
