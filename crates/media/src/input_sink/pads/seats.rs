//! Seats: pads that exist when the application starts, before a player has a pad and before a host
//! serves them.
//!
//! Many games search for pads once, at start, but a host in the game's process starts with the first picture.
//! Therefore, the launcher creates the seats before the application starts. A process that opens a seat waits in the
//! queue of the seat's socket. The host receives the sockets later, serves the waiting processes, and leaves the seats
//! in place when it ends, for the next host of the same application.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openuvr_proto::input::pad::{MAX_PADS, PadId, PadIdentity, PadName};

use super::server;
use crate::pad::description::Description;
use crate::pad::xbox;

/// The name of a seat. Its player is not known yet.
const NAME: &str = "OpenUVR pad";

/// Pads that exist from the start until their folder is removed.
#[derive(Debug)]
pub struct Seats {
    folder: PathBuf,
    sockets: SeatSockets,
}

/// The listening sockets of the seats, in the order of the pads' numbers.
#[derive(Clone, Debug, Default)]
pub struct SeatSockets(pub Vec<Arc<OwnedFd>>);

/// Two values are equal if they contain the same sockets.
impl PartialEq for SeatSockets {
    fn eq(&self, other: &SeatSockets) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Seats {
    /// Creates the first `count` pads (at most [`MAX_PADS`]) in `folder`, which is created if
    /// missing and is accessible only to this user. Leftovers of another process are removed.
    ///
    /// # Errors
    /// Returns an error if the folder can't be written to, or if no file descriptor is left.
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

    /// The sockets, for the host.
    #[must_use]
    pub fn sockets(&self) -> &SeatSockets {
        &self.sockets
    }

    /// Resets all seats after a host has ended, so that no key is held.
    pub fn reset(&self) {
        for (pad, _) in PadId::all().zip(&self.sockets.0) {
            // If the folder is missing, there are no devices.
            let _ = server::reset(&self.folder, pad.number().into(), &description(pad));
        }
    }
}

/// The description of each socket's seat.
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
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("pads");
        let seats = Seats::make(&folder, 2).unwrap();
        assert_eq!(seats.sockets().0.len(), 2);
        let open = || {
            let stream = UnixStream::connect(folder.join("socket/event240")).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let mut reader = open();
        // SDL checks each device like this.
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
        // The player is gone, but the seat stays for the next player.
        first.sink.held(pad, &held, &rest).unwrap();
        first.sink.unplug(pad);
        first.sink.plug(pad, &identity).unwrap();
        first.sink.held(pad, &rest, &held).unwrap();
        assert_eq!(read(&mut reader).len(), 4);
        assert_ne!(down(), 0);
        // The host ends with a button down. The seats exist again, with nothing held.
        drop(first);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "end of file");
        assert!(file.exists() && !folder.join("dev/event242").exists());
        seats.reset();
        assert_eq!(down(), 0);
        let mut reader = open();
        let mut second = game::open(&folder, seats.sockets()).unwrap();
        second.sink.plug(pad, &identity).unwrap();
        second.sink.held(pad, &rest, &held).unwrap();
        assert_eq!(read(&mut reader), [(EV_KEY, BTN_SOUTH, 1), (EV_SYN, 0, 0)]);
        drop(second);
    }
}
