//! The clipboard of a game's display, shared by `openuvr run`.

use crate::rig::{Run, displays};
use crate::support::clipboard::{can_copy, copy_text, paste, pasted};

#[test]
fn a_game_shares_the_clipboard_of_its_display() {
    if !can_copy() {
        return;
    }
    let Some((here, there)) = displays("320x240") else {
        return;
    };
    let run = Run::with(&here, &["--clipboard", "both"], &[], &["glxgears"]);
    let client = run.client(&there, &[]);
    client.line("showing");
    copy_text(&there, "for the game");
    pasted(&here, "for the game");
    copy_text(&here, "from the game");
    pasted(&there, "from the game");
}

#[test]
fn a_games_clipboard_is_off_by_default() {
    if !can_copy() {
        return;
    }
    let Some((here, there)) = displays("320x240") else {
        return;
    };
    let run = Run::with(&here, &[], &[], &["glxgears"]);
    let client = run.client(&there, &[]);
    client.line("showing");
    copy_text(&there, "not for the game");
    // A client with a shared clipboard logs its directions after the role, long before the first picture.
    assert!(!client.text().contains("copied here"), "{}", client.text());
    assert_eq!(paste(&here), b"");
}
