//! Text of up to four layouts typed into programs of other toolkits, character by character. `./dev
//! test-apps` runs these tests, which take minutes and need extra packages.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use crate::keys::LAYOUTS;
use crate::rig::{Rig, layout, manager, poll_until};
use crate::support::{Program, eventually, skip};
use crate::xtest::{CONTROL, XTest};

const ALL: &[&str] = &["us", "de", "fr", "ru"];

/// A program with a text field. The program writes the field's text to the file `$1` on each change, or when the keys
/// `saves` are pressed.
struct Toolkit {
    /// Shell command that succeeds if all dependencies are installed.
    needs: &'static str,
    /// Shell command.
    start: &'static str,
    saves: &'static [u8],
    /// Whether the text field has the focus, given that its window has it.
    is_ready: fn(&Path) -> bool,
    /// Whether the host uses the client's layout instead of the US layout.
    same_layout: bool,
    layouts: &'static [&'static str],
    /// Characters that the program drops at this typing speed.
    without: &'static [char],
}

/// X key codes that are the same on every PC keyboard.
const S: u8 = 31 + 8;
const X: u8 = 45 + 8;
const BACK_SPACE: u8 = 14 + 8;

const GTK: Toolkit = Toolkit {
    needs: "/usr/bin/python3 -c 'import gi; gi.require_version(\"Gtk\", \"3.0\")'",
    start: r#"exec /usr/bin/python3 -c '
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
window = Gtk.Window()
line = Gtk.Entry()
def changed(line):
    open(sys.argv[1], "w", encoding="utf-8").write(line.get_text())
line.connect("changed", changed)
window.add(line)
window.show_all()
Gtk.main()
' "$1""#,
    saves: &[],
    is_ready: |_| true,
    same_layout: false,
    layouts: ALL,
    without: &[],
};

const QT: Toolkit = Toolkit {
    needs: "/usr/bin/python3 -c 'import PyQt5.QtWidgets'",
    start: r#"exec /usr/bin/python3 -c '
import sys
from PyQt5.QtWidgets import QApplication, QLineEdit
app = QApplication([])
line = QLineEdit()
def changed(text):
    open(sys.argv[1], "w", encoding="utf-8").write(text)
line.textChanged.connect(changed)
line.show()
app.exec_()
' "$1""#,
    saves: &[],
    is_ready: |_| true,
    same_layout: false,
    layouts: ALL,
    without: &[],
};

const SWING: Toolkit = Toolkit {
    needs: "java --list-modules | grep -q jdk.compiler",
    start: r#"cat > "$1.java" <<'END'
import java.nio.file.*;
import javax.swing.*;
public class Line {
    public static void main(String[] args) {
        SwingUtilities.invokeLater(() -> {
            JTextField line = new JTextField(40);
            line.addCaretListener(event -> {
                try {
                    Files.writeString(Path.of(args[0]), line.getText());
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
            });
            JFrame frame = new JFrame("line");
            frame.add(line);
            frame.pack();
            frame.setVisible(true);
        });
    }
}
END
exec java "$1.java" "$1""#,
    saves: &[],
    is_ready: |_| true,
    same_layout: false,
    layouts: ALL,
    without: &[],
};

const TK: Toolkit = Toolkit {
    needs: "/usr/bin/python3 -c 'import tkinter'",
    start: r#"exec /usr/bin/python3 -c '
import sys, tkinter
window = tkinter.Tk()
text = tkinter.StringVar()
def changed(*what):
    open(sys.argv[1], "w", encoding="utf-8").write(text.get())
text.trace_add("write", changed)
line = tkinter.Entry(window, textvariable=text)
line.bind("<FocusIn>", changed)
line.pack()
line.focus_force()
window.mainloop()
' "$1""#,
    saves: &[],
    // The window gets the focus before the text field.
    is_ready: |file| file.exists(),
    same_layout: false,
    layouts: ALL,
    without: &[],
};

/// The byte order mark at the start of the file marks it as UTF-8. The host uses the client's layout, because with a US
/// layout, wine accepted only seven of the letters that the US layout lacks.
const WINE: Toolkit = Toolkit {
    needs: "command -v wine",
    start: r#"printf '\357\273\277' > "$1"; exec wine notepad "$(winepath -w "$1")""#,
    saves: &[CONTROL, S],
    is_ready: |_| true,
    same_layout: true,
    // With only a Russian layout, Ctrl+S did not save.
    layouts: &["us", "de", "fr"],
    // The program handles these keys only after AltGr has been released.
    without: &['@', '€'],
};

/// A shell command on the host's display, with `folder` as its home.
fn shell(rig: &Rig, line: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", line, "sh"])
        .env("DISPLAY", &rig.host_side.name)
        .env("HOME", rig.folder.path())
        .env("LC_ALL", "C.UTF-8")
        .env("WINEDEBUG", "-all")
        // Otherwise, wine asks questions in a new home.
        .env("WINEDLLOVERRIDES", "mscoree=;mshtml=")
        .env("SDL_AUDIODRIVER", "dummy")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("XMODIFIERS");
    command
}

fn is_installed(needs: &str) -> bool {
    let found = Command::new("sh").args(["-c", needs]).output();
    let found = found.is_ok_and(|found| found.status.success());
    if !found {
        skip(&format!("missing dependency: {needs}"));
    }
    found
}

fn managed_windows(xtest: &XTest) -> Vec<u32> {
    let atom = xtest.conn.intern_atom(false, b"_NET_CLIENT_LIST");
    let atom = atom.expect("sent");
    let atom = atom.reply().expect("an atom").atom;
    let (root, kind) = (xtest.root, AtomEnum::WINDOW);
    let list = xtest.conn.get_property(false, root, atom, kind, 0, 64);
    let list = list.expect("sent").reply().expect("the root is there");
    list.value32().into_iter().flatten().collect()
}

/// Whether a managed window has the keyboard focus. An active window may still lack the focus, because some programs
/// set the focus later themselves.
fn has_keyboard(xtest: &XTest) -> bool {
    let focus = xtest.conn.get_input_focus().expect("sent").reply();
    let mut window = focus.expect("a running X server").focus;
    let managed = managed_windows(xtest);
    while !managed.contains(&window) {
        let tree = xtest.conn.query_tree(window).expect("sent").reply();
        match tree.map(|tree| tree.parent) {
            Ok(parent) if parent != x11rb::NONE => window = parent,
            // The focus is on the root window, or on no window at all.
            _ => return false,
        }
    }
    true
}

fn types_letter_for_letter(toolkit: &Toolkit) {
    let Some(rig) = Rig::new("800x600", "800x600") else {
        return;
    };
    if !is_installed(toolkit.needs) || !layout(&rig.host_side, "us") {
        return;
    }
    let Some(_manager) = manager(&rig, &rig.host_side) else {
        return;
    };
    let host = rig.host(&["--fps", "5"]);
    let _client = rig.client(&host, "client", &[]);
    let (xtest, at_host) = (XTest::open(&rig.client_side), XTest::open(&rig.host_side));
    let tried = LAYOUTS
        .iter()
        .filter(|(name, _)| toolkit.layouts.contains(name));
    for (name, text) in tried {
        assert!(layout(&rig.client_side, name));
        assert!(!toolkit.same_layout || layout(&rig.host_side, name));
        let file = rig.folder.path().join(format!("typed-{name}"));
        let mut command = shell(&rig, toolkit.start);
        command.arg(&file);
        command.process_group(0);
        let mut program = Program::start("the program with the field", command);
        eventually("its window has the keyboard", || {
            (has_keyboard(&at_host) && (toolkit.is_ready)(&file)).then_some(())
        });
        let typed = || {
            let all = std::fs::read_to_string(&file).unwrap_or_default();
            all.trim_start_matches('\u{feff}').to_owned()
        };
        let x = if *name == "ru" { "ч" } else { "x" };
        // Wine sets up its keyboard only after its window has got the focus. Until then, it drops letters that its
        // keyboard lacks.
        for (key, left) in [(X, x), (BACK_SPACE, "")] {
            xtest.chord(&[key]);
            xtest.chord(toolkit.saves);
            poll_until(|| typed() == left);
            assert_eq!(typed(), left, "{} under {name}", toolkit.needs);
        }
        let mut all = String::new();
        // Letters are typed one at a time. If no key code is free, the host remaps a key code. By then, the program
        // must have handled the earlier keys, as with human typing.
        for letter in text.chars().filter(|ch| !toolkit.without.contains(ch)) {
            xtest.type_text(letter.encode_utf8(&mut [0; 4]));
            xtest.chord(toolkit.saves);
            all.push(letter);
            poll_until(|| typed() == all);
            assert_eq!(typed(), all, "{} under {name}", toolkit.needs);
        }
        program.kill_group();
        eventually("its window is gone", || {
            managed_windows(&at_host).is_empty().then_some(())
        });
    }
}

#[test]
#[ignore = "./dev test-apps"]
fn gtk_gets_the_letters_of_four_layouts() {
    types_letter_for_letter(&GTK);
}

#[test]
#[ignore = "./dev test-apps"]
fn qt_gets_the_letters_of_four_layouts() {
    types_letter_for_letter(&QT);
}

#[test]
#[ignore = "./dev test-apps"]
fn swing_gets_the_letters_of_four_layouts() {
    types_letter_for_letter(&SWING);
}

#[test]
#[ignore = "./dev test-apps"]
fn tk_gets_the_letters_of_four_layouts() {
    types_letter_for_letter(&TK);
}

#[test]
#[ignore = "./dev test-apps"]
fn notepad_in_wine_gets_the_letters_of_three_layouts() {
    types_letter_for_letter(&WINE);
}

/// A DOS program that appends each typed character to the file TYPED, and closes the file each time.
const TYPED_COM: &[u8] = &[
    0xb4, 0x08, 0xcd, 0x21, // AH=8: read a key into AL, without echo
    0xa2, 0x30, 0x01, // store AL at 0x130
    0xb8, 0x01, 0x3d, 0xba, 0x2a, 0x01, 0xcd,
    0x21, // AH=3D: open the file for writing; AX is the handle
    0x89, 0xc3, // copy the handle to BX
    0xb8, 0x02, 0x42, 0x31, 0xc9, 0x31, 0xd2, 0xcd, 0x21, // AH=42: seek to the end
    0xb4, 0x40, 0xb9, 0x01, 0x00, 0xba, 0x30, 0x01, 0xcd, 0x21, // AH=40: write the byte
    0xb4, 0x3e, 0xcd, 0x21, // AH=3E: close the file
    0xeb, 0xd6, // repeat
    b'T', b'Y', b'P', b'E', b'D', 0, // the file's name, at 0x12a
    0,
];

#[test]
#[ignore = "./dev test-apps"]
fn dosbox_gets_the_letters_of_three_layouts() {
    /// Characters of an American DOS keyboard.
    const TEXT: &str =
        "the quick brown fox jumps over lazy dogs AZERTY QWERTZ 0123456789 {[(;:!?)]}";
    let Some(rig) = Rig::new("800x600", "800x600") else {
        return;
    };
    if !is_installed("command -v dosbox") || !layout(&rig.host_side, "us") {
        return;
    }
    let Some(_manager) = manager(&rig, &rig.host_side) else {
        return;
    };
    let host = rig.host(&["--fps", "5"]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let folder = rig.folder.path().join("dos");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("TYPED.COM"), TYPED_COM).expect("a program");
    std::fs::write(folder.join("TYPED"), "").expect("an empty file");
    let line = "exec dosbox -c \"mount c $1\" -c c: -c 'echo > READY' -c TYPED.COM";
    let mut command = shell(&rig, line);
    command.arg(&folder);
    let _dosbox = Program::start("dosbox", command);
    eventually("DOS is there", || {
        folder.join("READY").exists().then_some(())
    });
    let at_host = XTest::open(&rig.host_side);
    eventually("its window has the keyboard", || {
        has_keyboard(&at_host).then_some(())
    });
    let typed = || std::fs::read_to_string(folder.join("TYPED")).unwrap_or_default();
    let mut all = String::new();
    for name in ["us", "de", "fr"] {
        assert!(layout(&rig.client_side, name));
        // Letters are typed one at a time, because the keyboard buffer of dosbox is small.
        for letter in TEXT.chars() {
            xtest.type_text(letter.encode_utf8(&mut [0; 4]));
            all.push(letter);
            poll_until(|| typed().len() >= all.len());
            assert_eq!(typed(), all, "{name}");
        }
    }
}
