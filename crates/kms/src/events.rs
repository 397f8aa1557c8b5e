//! The thread that handles the kernel's events: completed flips, displays that are plugged in or unplugged, and
//! switches of the console.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use openuvr_clock as clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::card::Card;
use crate::console::Console;
use crate::display::Shared;
use crate::uevent::Uevents;

/// Handles events until the presenter ends. Then restores the display and the console.
pub(crate) fn run(shared: &Shared, card: &Arc<Card>, mut console: Option<Console>) {
    let uevents = Uevents::open();
    loop {
        wait(shared, card, console.as_ref(), uevents.as_ref());
        shared.events.lower();
        let plugged = uevents.as_ref().is_some_and(Uevents::drain);
        if let Some(console) = &mut console {
            switch(shared, console);
        }
        let mut display = shared.display();
        if display.stopped {
            display.close();
            // `console` is dropped after this, which restores the console. From then on, the kernel draws its text.
            return;
        }
        display.take_events();
        display.expire(clock::now());
        display.look(plugged, clock::now());
        display.draw_cursor();
        display.refresh();
        let flush = display.take_flush();
        drop(display);
        if let Some(Err(cause)) = flush.map(|flush| flush.run()) {
            shared.display().flush_refused(&cause);
        }
    }
}

fn wait(shared: &Shared, card: &Card, console: Option<&Console>, uevents: Option<&Uevents>) {
    let left = shared.display().deadline().since(clock::now());
    let timeout = Timespec::try_from(left).ok();
    let mut fds = vec![
        PollFd::from_borrowed_fd(shared.events.fd(), PollFlags::IN),
        PollFd::new(card, PollFlags::IN),
    ];
    if let Some(console) = console {
        fds.push(PollFd::new(&console.release, PollFlags::IN));
        fds.push(PollFd::new(&console.acquire, PollFlags::IN));
    }
    if let Some(uevents) = uevents {
        fds.push(PollFd::new(&uevents.0, PollFlags::IN));
    }
    // If a signal interrupts the poll, the descriptors are checked anyway.
    let _ = poll(&mut fds, timeout.as_ref());
}

/// Handles the kernel's switches of the console.
fn switch(shared: &Shared, console: &mut Console) {
    if drain(&mut console.release) {
        shared.display().release();
        console.permit_release();
        shared.input.wake();
    }
    if drain(&mut console.acquire) {
        console.acknowledge();
        shared.display().acquire();
        shared.input.wake();
    }
}

/// Whether the signal has arrived.
fn drain(pipe: &mut UnixStream) -> bool {
    let (mut arrived, mut bytes) = (false, [0; 16]);
    while pipe.read(&mut bytes).is_ok_and(|read| read > 0) {
        arrived = true;
    }
    arrived
}
