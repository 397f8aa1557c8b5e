//! Programs that nobody wrote for this.

use std::collections::HashSet;
use std::path::Path;

use openuvr_proto::units::Size;

use crate::rig::{Run, displays};
use crate::support::{Display, Eye, eventually, skip};

/// Waits until the client has shown so many different pictures.
fn sees_motion(there: &Display, size: Size, pictures: usize) {
    let eye = Eye::open(there);
    let mut seen = HashSet::new();
    eventually("moving pictures", || {
        eye.client_window()?;
        let shot = eye.part(size);
        let painted = shot.colours().iter().filter(|c| **c != [0; 3]).count();
        // A part that has more than a few colours in it is no empty window.
        if painted > size.pixels() / 50 {
            seen.insert(shot.pixels);
        }
        (seen.len() >= pictures).then_some(())
    });
}

fn installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/games";
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
}

#[test]
fn gears_turn_at_the_client() {
    for program in ["glxgears", "es2gears_x11"] {
        if !installed(program) {
            skip(&format!("{program} is not installed"));
            continue;
        }
        let Some((here, there)) = displays("640x480") else {
            return;
        };
        let mut run = Run::start(&here, &[], &[program]);
        let mut client = run.client(&there, &[]);
        client.line("showing 300x300");
        sees_motion(&there, Size::new(300, 300), 10);
        client.assert_running();
        run.program.assert_running();
    }
}
