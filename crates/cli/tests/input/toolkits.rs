//! Text of four layouts typed into programs of other toolkits, letter for letter. They take minutes
//! and packages that nothing else needs: `./dev test-apps` runs them.

use std::process::Command;

use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use crate::hand::Hand;
use crate::keys::LAYOUTS;
use crate::rig::{Rig, in_time, layout, manager};
use crate::support::{Program, eventually, skip};

/// A program with a field for a line of text, which it writes to the file `$1` when Return is
/// pressed.
struct Toolkit {
    /// What has to be installed.
    needs: &'static str,
    /// For `sh`.
    start: &'static str,
}

const GTK: Toolkit = Toolkit {
    needs: "zenity",
    start: "exec zenity --entry --text line > \"$1\"",
};

const QT: Toolkit = Toolkit {
    needs: "python3",
    start: r#"exec python3 -c '
import sys
from PyQt5.QtWidgets import QApplication, QLineEdit
app = QApplication([])
line = QLineEdit()
def done():
    open(sys.argv[1], "w", encoding="utf-8").write(line.text())
    app.quit()
line.returnPressed.connect(done)
line.show()
app.exec_()
' "$1""#,
};

const SWING: Toolkit = Toolkit {
    needs: "java",
    start: r#"cat > "$1.java" <<'END'
import java.nio.file.*;
import javax.swing.*;
public class Line {
    public static void main(String[] words) {
        SwingUtilities.invokeLater(() -> {
            JTextField line = new JTextField(40);
            line.addActionListener(event -> {
                try {
                    Files.writeString(Path.of(words[0]), line.getText());
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
                System.exit(0);
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
};

const TK: Toolkit = Toolkit {
    needs: "python3",
    start: r#"exec python3 -c '
import sys, tkinter
window = tkinter.Tk()
line = tkinter.Entry(window)
def done(event):
    open(sys.argv[1], "w", encoding="utf-8").write(line.get())
    window.destroy()
line.bind("<Return>", done)
line.pack()
line.focus_force()
window.mainloop()
' "$1""#,
};

fn types_letter_for_letter(toolkit: &Toolkit) {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    if Command::new(toolkit.needs)
        .arg("--version")
        .output()
        .is_err()
    {
        return skip(&format!("{} is not installed", toolkit.needs));
    }
    if !layout(&rig.host_side, "us") {
        return;
    }
    let Some(_manager) = manager(&rig, &rig.host_side) else {
        return;
    };
    let host = rig.host(&["--fps", "5"]);
    let _client = rig.client(&host, "client", &[]);
    let (hand, at_host) = (Hand::at(&rig.client_side), Hand::at(&rig.host_side));
    for (name, text) in LAYOUTS {
        assert!(layout(&rig.client_side, name));
        let file = rig.folder.path().join(format!("typed-{name}"));
        let mut command = Command::new("sh");
        command
            .args(["-c", toolkit.start, "sh"])
            .arg(&file)
            .env("DISPLAY", &rig.host_side.name)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("XMODIFIERS");
        let mut program = Program::start(toolkit.needs, command);
        eventually("its window has the focus", || {
            let atom = at_host
                .conn
                .intern_atom(false, b"_NET_ACTIVE_WINDOW")
                .ok()?;
            let atom = atom.reply().ok()?.atom;
            let (root, kind) = (at_host.root, AtomEnum::WINDOW);
            let active = at_host
                .conn
                .get_property(false, root, atom, kind, 0, 1)
                .ok()?;
            let active = active.reply().ok()?.value32()?.next()?;
            (active != 0).then_some(())
        });
        hand.types(text);
        // Return.
        hand.chord(&[36]);
        let typed = || std::fs::read_to_string(&file).unwrap_or_default();
        in_time(|| typed().trim_end() == text);
        assert_eq!(typed().trim_end(), text, "{} under {name}", toolkit.needs);
        program.ended();
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
