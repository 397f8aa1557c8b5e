//! What programs do in their lives, and how they end.

use rustix::process::Signal;

use crate::hand::Hand;
use crate::rig::{BLUE, GREEN, RED, Run, WHITE, YELLOW, actor, displays, sees};
use crate::support::{Eye, eventually};

const SCREEN: &str = "640x480";

#[test]
fn a_program_with_forks_threads_and_contexts_is_streamed_and_ends_as_it_wants() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let acts = [
        "fork",
        "threads",
        "contexts",
        "resize",
        "hand-over",
        "close",
    ];
    let mut run = Run::start(&here, &[], &[&[actor], &acts[..]].concat());
    let mut client = run.client(&there, &[]);
    let eye = Eye::open(&there);
    sees(&eye, RED, GREEN);
    run.seen("seen");
    run.program.line("contexts was played");
    sees(&eye, YELLOW, BLUE);
    run.seen("resized");
    sees(&eye, WHITE, RED);
    run.seen("large");
    sees(&eye, YELLOW, GREEN);
    run.seen("small");
    sees(&eye, BLUE, YELLOW);
    run.seen("again");
    let (code, text) = run.ended();
    assert_eq!(code, Some(7), "{text}");
    // Nothing went wrong on the way.
    assert_eq!(text.matches("was played").count(), acts.len(), "{text}");
    assert_eq!(text.matches("streaming").count(), 1, "{text}");
    let sizes = text
        .lines()
        .filter_map(|line| line.split_once("the picture is "));
    let sizes: Vec<&str> = sizes.map(|(_, size)| size).collect();
    let wanted = ["320x240", "400x200", "480x320", "400x200", "320x240"];
    assert_eq!(sizes, wanted, "{text}");
    client.line("goodbye");
    client.assert_running();
}

#[test]
fn an_end_in_the_middle_of_a_picture_is_the_programs_own() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    for (act, code, word) in [("exit", 9, "goodbye"), ("die", 128 + 9, "silent")] {
        let mut run = Run::start(&here, &[], &[actor, act]);
        let client = run.client(&there, &[]);
        sees(&Eye::open(&there), RED, GREEN);
        run.seen("seen");
        let (ended, text) = run.ended();
        assert_eq!(ended, Some(code), "{text}");
        client.line(word);
    }
}

#[test]
fn a_stream_that_is_killed_leaves_the_program_alone() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor, "go-on"]);
    let client = run.client(&there, &[]);
    sees(&Eye::open(&there), RED, GREEN);
    run.seen("seen");
    sees(&Eye::open(&there), BLUE, RED);
    run.program.kill();
    client.line("goodbye");
    let eye = Eye::open(&here);
    assert!(
        eye.shot().pixels.iter().any(|part| *part > 0),
        "it still shows something"
    );
    run.seen("enough");
    eventually("the program's own end", || {
        let shown = eye.shot().pixels.chunks_exact(4).any(|p| p[..3] != [0; 3]);
        (!shown).then_some(())
    });
    // Said behind the end of openuvr run.
    run.program.line("go-on was played");
}

#[test]
fn the_pointer_goes_to_the_same_place_of_the_game() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::start(&here, &[], &[actor]);
    let _client = run.client(&there, &[]);
    sees(&Eye::open(&there), RED, GREEN);
    let (game, person) = (Hand::at(&here), Hand::at(&there));
    for (x, y) in [(100, 60), (7, 231)] {
        person.points(x, y);
        // The game's window is 40 pixels from the left edge, the client's in the corner.
        eventually("the pointer", || {
            (game.pointer() == (x + 40, y)).then_some(())
        });
    }
}

#[test]
fn a_signal_to_us_goes_to_the_program() {
    let (Some(actor), Some((here, _))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor]);
    run.program.line("openuvr run: streaming");
    run.program.signal(Signal::TERM);
    let (code, text) = run.ended();
    assert_eq!(code, Some(128 + 15), "{text}");
}

#[test]
fn a_signal_that_ends_a_script_ends_its_program_too() {
    let (Some(actor), Some((here, _))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &["sh", "-c", &format!("{actor}; exit 3")]);
    run.program.line("openuvr run: streaming");
    run.program.signal(Signal::TERM);
    let (code, text) = run.ended();
    assert_eq!(code, Some(128 + 15), "the script's: {text}");
    let eye = Eye::open(&here);
    eventually("the end of its picture", || {
        eye.shot()
            .pixels
            .chunks_exact(4)
            .all(|p| p[..3] == [0; 3])
            .then_some(())
    });
}
