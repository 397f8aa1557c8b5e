//! An X client that receives each key press on a display, regardless of the focus. It receives the press at the
//! earliest time at which an application on that display can receive it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{ConnectionExt as _, Device, EventMask, XIEventMask};
use x11rb::rust_connection::RustConnection;

use openuvr_testbed::background::Background;
use openuvr_testbed::sched::{Participant, Sched};

/// Interval at which the thread checks for the stop request.
const IDLE: Duration = Duration::from_millis(50);

/// The listener. Dropping this value ends it.
pub(super) struct Keys {
    pressed: Arc<Mutex<Vec<Instant>>>,
    _thread: Background,
}

impl Keys {
    /// Starts to listen on `display`.
    pub(super) fn watch(display: &str, sched: Sched) -> Result<Keys> {
        let (conn, number) = x11rb::connect(Some(display))
            .with_context(|| format!("can't open the X display {display}: is it running?"))?;
        let root = conn.setup().roots[number].root;
        conn.xinput_xi_query_version(2, 2)?.reply()?;
        let masks = [EventMask {
            deviceid: Device::ALL_MASTER.into(),
            mask: vec![XIEventMask::RAW_KEY_PRESS],
        }];
        conn.xinput_xi_select_events(root, &masks)?.check()?;
        let pressed = Arc::new(Mutex::new(Vec::new()));
        let there = Arc::clone(&pressed);
        let thread = Background::start("keys", move |stop| {
            sched.raise_me(Participant::Reader);
            // If listening fails, presses are missing, and the report counts them.
            let _ = listen(&conn, &there, stop);
        })?;
        Ok(Keys {
            pressed,
            _thread: thread,
        })
    }

    /// The times of all presses received so far.
    pub(super) fn pressed(&self) -> Vec<Instant> {
        let pressed = self.pressed.lock();
        pressed.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn listen(conn: &RustConnection, there: &Mutex<Vec<Instant>>, stop: &AtomicBool) -> Result<()> {
    let wait = Timespec::try_from(IDLE)?;
    while !stop.load(Ordering::Relaxed) {
        while let Some(event) = conn.poll_for_event()? {
            if let Event::XinputRawKeyPress(_) = event {
                let mut there = there.lock().unwrap_or_else(PoisonError::into_inner);
                there.push(clock::now());
            }
        }
        let mut fds = [PollFd::new(conn.stream(), PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;
    use openuvr_testbed::display::for_test as display;
    use openuvr_testbed::screen::Screen;

    use super::*;

    #[test]
    fn each_press_is_received_once_and_releases_are_ignored() {
        let Some(display) = display(Size::new(320, 240)) else {
            return;
        };
        let keys = Keys::watch(display.name(), Sched::Off).unwrap();
        let keyboard = Screen::open(display.name()).unwrap();
        let mut until = Vec::new();
        for count in 1..=3 {
            keyboard.press_key().unwrap();
            for _ in 0..1000 {
                if keys.pressed().len() >= count {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            until.push(clock::now());
        }
        // The release of a key arrives after its press, so wait for it.
        std::thread::sleep(2 * IDLE);
        let received = keys.pressed();
        assert_eq!(received.len(), 3, "{received:?}");
        assert!(received.iter().zip(&until).all(|(at, until)| at <= until));
    }
}
