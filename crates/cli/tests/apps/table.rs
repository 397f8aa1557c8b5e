//! The programs, the packages of Debian that bring them, and the doors through which each is tried.

/// Through what a program's pictures come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// `openuvr host --window`.
    Screen,
    /// `openuvr run`.
    Hook,
}

/// What a program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A picture, a key and a click are checked.
    Desktop,
    /// The same and relative motion.
    Game,
}

/// A program to be tried.
pub(crate) struct App {
    /// What it is started with.
    pub(crate) words: &'static [&'static str],
    pub(crate) package: &'static str,
    pub(crate) doors: &'static [Door],
    pub(crate) kind: Kind,
}

const SCREEN: &[Door] = &[Door::Screen];
const BOTH: &[Door] = &[Door::Screen, Door::Hook];

const fn desktop(words: &'static [&'static str], package: &'static str) -> App {
    App {
        words,
        package,
        doors: SCREEN,
        kind: Kind::Desktop,
    }
}

/// A program that shows its pictures with OpenGL or Vulkan.
const fn drawing(words: &'static [&'static str], package: &'static str) -> App {
    App {
        words,
        package,
        doors: BOTH,
        kind: Kind::Desktop,
    }
}

const fn game(words: &'static [&'static str], package: &'static str) -> App {
    App {
        words,
        package,
        doors: BOTH,
        kind: Kind::Game,
    }
}

/// Each is started on a display of its own with a window manager, an empty home and no sound.
pub(crate) const APPS: &[App] = &[
    desktop(&["xterm"], "xterm"),
    desktop(&["gtk3-demo"], "gtk-3-examples"),
    desktop(&["featherpad"], "featherpad"),
    desktop(&["dosbox"], "dosbox"),
    desktop(&["wine", "notepad"], "wine"),
    desktop(&["scummvm"], "scummvm"),
    desktop(&["inkscape"], "inkscape"),
    desktop(&["gimp", "--no-splash"], "gimp"),
    desktop(
        &["firefox-esr", "--no-remote", "about:license"],
        "firefox-esr",
    ),
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
