//! Seats: pads that an application sees from its beginning, before anybody holds one and before anybody serves them.
//!
//! Many games look for pads once, when they start, and a host in a game's process begins with its first picture. So
//! whoever starts a game makes the seats before. A process that opens one waits in the queue of its socket; the host
//! gets the sockets later, serves whoever waits there, and leaves the seats where they are when it ends: then the next
//! host of the same application gets them.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openuvr_proto::input::pad::{MAX_PADS, PadId, PadIdentity, PadName};

use super::served;
use crate::pad::description::Description;
use crate::pad::xbox;

/// What a seat is called: nobody knows yet who will hold it.
const NAME: &str = "OpenUVR pad";

/// Pads that are there from the beginning, until their folder is removed.
#[derive(Debug)]
pub struct Seats {
    folder: PathBuf,
    sockets: SeatSockets,
}

/// Where those wait that have opened each of the first pads.
#[derive(Clone, Debug, Default)]
pub struct SeatSockets(pub Vec<Arc<OwnedFd>>);

/// They are the same sockets.
impl PartialEq for SeatSockets {
    fn eq(&self, other: &SeatSockets) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Seats {
    /// Shows the first `count` pads in `folder`, which is made if it is not there, for this user alone; more than
    /// [`MAX_PADS`] there are not. What another left there is removed.
    ///
    /// # Errors
    /// The folder can't be written to, or this process has no file descriptor left.
    pub fn make(folder: &Path, count: u8) -> io::Result<Seats> {
        server::clear(folder, 0)?;
        let mut sockets = Vec::new();
        for pad in PadId::all().take(count.min(MAX_PADS).into()) {
            let number = pad.number().into();
            sockets.push(Arc::new(server::listen_at(folder, number)?));
            server::show(folder, number, &description(pad))?;
        }
        Ok(Seats {
            folder: folder.to_owned(),
            sockets: SeatSockets(sockets),
        })
    }

    /// For who serves them.
    #[must_use]
    pub fn sockets(&self) -> &SeatSockets {
        &self.sockets
    }

    /// Who served them is gone, whatever was held: nothing is.
    pub fn rest(&self) {
        for (pad, _) in PadId::all().zip(&self.sockets.0) {
            // A folder that is gone shows nothing.
            let _ = server::rest(&self.folder, pad.number().into(), &description(pad));
        }
    }
}

/// Each seat of these sockets, with what it is.
pub(super) fn described(sockets: &SeatSockets) -> Vec<(Arc<OwnedFd>, Description)> {
    let seats = PadId::all().zip(&sockets.0);
    seats
        .map(|(pad, socket)| (socket.clone(), description(pad)))
        .collect()
}

fn description(pad: PadId) -> Description {
    let identity = PadIdentity {
        name: PadName::new(NAME),
        vendor: 0,
        product: 0,
        buttons: 0,
        sticks: [true; 2],
        rumbles: true,
    };
    xbox::description(pad, &identity)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use openuvr_proto::input::pad::{PadButton, PadState};

    use super::super::game;
    use super::*;
    use crate::input_event::{BYTES, Event};
    use crate::pad::codes::{BTN_SOUTH, EV_KEY, EV_SYN};
    use crate::pad::description::KEYS_DOWN;

    fn read(stream: &mut UnixStream) -> Vec<(u16, u16, i32)> {
        let mut bytes = vec![0; 1 << 12];
        let n = stream.read(&mut bytes).unwrap_or(0);
        let (events, rest) = bytes[..n].as_chunks::<BYTES>();
        assert!(rest.is_empty());
        let events = events.iter().map(Event::from_bytes);
        events.map(|e| (e.kind, e.code, e.value)).collect()
    }

    #[test]
    fn a_seat_opened_before_serving_is_readable() {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("openuvr-seats-{id}"));
        let seats = Seats::make(&folder, 2).unwrap();
        assert_eq!(seats.sockets().0.len(), 2);
        let open = || {
            let stream = UnixStream::connect(folder.join("socket/event240")).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let mut reader = open();
        // As SDL looks at each device.
        drop(open());
        let (pad, other) = (PadId::new(0).unwrap(), PadId::new(2).unwrap());
        let rest = PadState::NEUTRAL;
        let held = rest.with(PadButton::South, true);
        let file = folder.join("dev/event240");
        let down = || fs::read(&file).unwrap()[KEYS_DOWN.at + usize::from(BTN_SOUTH / 8)];
        let identity = PadIdentity {
            name: PadName::new("A person's"),
            vendor: 1,
            product: 2,
            buttons: 0,
            sticks: [true; 2],
            rumbles: false,
        };
        let mut first = game::open(&folder, seats.sockets()).unwrap();
        first.sink.plug(pad, &identity).unwrap();
        first.sink.plug(other, &identity).unwrap();
        assert!(folder.join("dev/event242").exists());
        first.sink.held(pad, &rest, &held).unwrap();
        assert_eq!(read(&mut reader), [(EV_KEY, BTN_SOUTH, 1), (EV_SYN, 0, 0)]);
        // Who held it is gone: it stays, for another.
        first.sink.held(pad, &held, &rest).unwrap();
        first.sink.unplug(pad);
        first.sink.plug(pad, &identity).unwrap();
        first.sink.held(pad, &rest, &held).unwrap();
        assert_eq!(read(&mut reader).len(), 4);
        assert_ne!(down(), 0);
        // The host ends with a button down. What was there before is there again, and nothing is held.
        drop(first);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "the end");
        assert!(file.exists() && !folder.join("dev/event242").exists());
        seats.rest();
        assert_eq!(down(), 0);
        let mut reader = open();
        let mut second = game::open(&folder, seats.sockets()).unwrap();
        second.sink.plug(pad, &identity).unwrap();
        second.sink.held(pad, &rest, &held).unwrap();
        assert_eq!(read(&mut reader), [(EV_KEY, BTN_SOUTH, 1), (EV_SYN, 0, 0)]);
        drop(second);
        fs::remove_dir_all(&folder).unwrap();
    }
}
