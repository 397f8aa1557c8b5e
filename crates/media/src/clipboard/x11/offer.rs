//! Answers programs that paste our text.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode,
    SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Window,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::Atoms;

/// Size in bytes of the parts in which longer texts are sent. X servers accept requests of 256 KiB without an
/// extension.
const PART: usize = 128 * 1024;

/// Maximum number of concurrent transfers in parts; more are refused (guess).
const MAX_TRANSFERS: usize = 16;

/// Maximum number of targets that are read from a MULTIPLE request; further targets are ignored (guess).
const MAX_TARGETS: u32 = 32;

/// Timeout of a program that does not take its next part (guess).
const TIMEOUT: Duration = Duration::from_secs(5);

/// A transfer of a text in parts.
struct Transfer {
    to: Window,
    property: Atom,
    kind: Atom,
    bytes: Arc<[u8]>,
    sent: usize,
    until: Instant,
}

/// The offered text, and its transfers.
#[derive(Default)]
pub(super) struct Offers {
    text: Option<Arc<str>>,
    /// Time of the offer, on the server's clock.
    since: u32,
    transfers: Vec<Transfer>,
}

impl Offers {
    /// Offers this text.
    pub(super) fn set(&mut self, text: Arc<str>) {
        self.text = Some(text);
    }

    /// Records the time at which we became the owner.
    pub(super) fn set_owner_time(&mut self, at: u32) {
        self.since = at;
    }

    /// Discards the offer, because another program has copied since.
    pub(super) fn forget(&mut self) {
        self.text = None;
    }

    /// Whether `text` equals the last offer. A clipboard manager may offer that text as its own.
    pub(super) fn is_latest(&self, text: &str) -> bool {
        self.text.as_deref() == Some(text)
    }

    /// Answers a program's request.
    pub(super) fn answer(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        request: &SelectionRequestEvent,
    ) -> Result<(), ReplyError> {
        // Programs older than ICCCM specify no property.
        let property = match request.property {
            x11rb::NONE => request.target,
            property => property,
        };
        let given = match request.target == atoms.MULTIPLE {
            true => self.store_multiple(conn, atoms, request.requestor, property)?,
            false => self.store(conn, atoms, (request.requestor, request.target), property)?,
        };
        let notify = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: if given { property } else { x11rb::NONE },
        };
        conn.send_event(false, request.requestor, EventMask::NO_EVENT, notify)?;
        Ok(())
    }

    /// Stores each target's content in the property that is paired with the target (ICCCM, section 2.6.2), and marks
    /// the failed targets. Returns whether the request was readable.
    fn store_multiple(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        to: Window,
        property: Atom,
    ) -> Result<bool, ReplyError> {
        let asked = conn.get_property(false, to, property, atoms.ATOM_PAIR, 0, 2 * MAX_TARGETS)?;
        let asked: Vec<Atom> = match asked.reply() {
            Ok(asked) => asked.value32().into_iter().flatten().collect(),
            // The window was destroyed.
            Err(ReplyError::X11Error(_)) => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut given = Vec::new();
        for pair in asked.chunks_exact(2) {
            let (target, into) = (pair[0], pair[1]);
            let can = target != atoms.MULTIPLE && into != x11rb::NONE;
            let gave = can && self.store(conn, atoms, (to, target), into)?;
            given.extend([target, if gave { into } else { x11rb::NONE }]);
        }
        conn.change_property32(PropMode::REPLACE, to, property, atoms.ATOM_PAIR, &given)?;
        Ok(!given.is_empty())
    }

    /// Stores the requested content in the property. Returns whether the content is available.
    fn store(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        (to, target): (Window, Atom),
        property: Atom,
    ) -> Result<bool, ReplyError> {
        let Some(text) = self.text.clone() else {
            return Ok(false);
        };
        let mime = [atoms.UTF8_MIME, atoms.UTF8_MIME_UPPER, atoms.PLAIN_MIME];
        let utf8 = [atoms.UTF8_STRING, atoms.TEXT];
        let (kind, bytes): (Atom, Arc<[u8]>) = if target == atoms.TARGETS {
            let mut targets = vec![atoms.TARGETS, atoms.MULTIPLE, atoms.TIMESTAMP];
            targets.extend(utf8);
            targets.extend(mime);
            targets.extend(latin1(&text).map(|_| atoms.STRING));
            let mode = PropMode::REPLACE;
            conn.change_property32(mode, to, property, AtomEnum::ATOM, &targets)?;
            return Ok(true);
        } else if target == atoms.TIMESTAMP {
            let mode = PropMode::REPLACE;
            conn.change_property32(mode, to, property, AtomEnum::INTEGER, &[self.since])?;
            return Ok(true);
        } else if target == atoms.STRING {
            match latin1(&text) {
                Some(bytes) => (atoms.STRING, bytes.into()),
                None => return Ok(false),
            }
        } else if mime.contains(&target) {
            (target, text.as_bytes().into())
        } else if utf8.contains(&target) {
            (atoms.UTF8_STRING, text.as_bytes().into())
        } else {
            return Ok(false);
        };
        if bytes.len() <= PART {
            conn.change_property8(PropMode::REPLACE, to, property, kind, &bytes)?;
            return Ok(true);
        }
        self.start_transfer(conn, atoms, (to, property), (kind, bytes))
    }

    /// Starts a transfer in parts. Returns `false` if there are too many transfers.
    fn start_transfer(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        (to, property): (Window, Atom),
        (kind, bytes): (Atom, Arc<[u8]>),
    ) -> Result<bool, ReplyError> {
        self.transfers
            .retain(|t| (t.to, t.property) != (to, property));
        if self.transfers.len() >= MAX_TRANSFERS {
            return Ok(false);
        }
        let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        conn.change_window_attributes(to, &watch)?;
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        conn.change_property32(PropMode::REPLACE, to, property, atoms.INCR, &[size])?;
        self.transfers.push(Transfer {
            to,
            property,
            kind,
            bytes,
            sent: 0,
            until: clock::now() + TIMEOUT,
        });
        Ok(true)
    }

    /// Stores the next part after a program has taken the previous part. An empty part marks the end.
    pub(super) fn taken(
        &mut self,
        conn: &RustConnection,
        from: Window,
        property: Atom,
    ) -> Result<(), ReplyError> {
        let is = |t: &Transfer| (t.to, t.property) == (from, property);
        let Some(i) = self.transfers.iter().position(is) else {
            return Ok(());
        };
        let transfer = &mut self.transfers[i];
        let rest = &transfer.bytes[transfer.sent..];
        let part = &rest[..rest.len().min(PART)];
        conn.change_property8(PropMode::REPLACE, from, property, transfer.kind, part)?;
        let last = part.is_empty();
        transfer.sent += part.len();
        transfer.until = clock::now() + TIMEOUT;
        if last {
            self.transfers.remove(i);
            if self.transfers.iter().all(|t| t.to != from) {
                let ignore = ChangeWindowAttributesAux::new().event_mask(EventMask::NO_EVENT);
                conn.change_window_attributes(from, &ignore)?;
            }
        }
        Ok(())
    }

    /// Ends transfers that have timed out.
    pub(super) fn expire(&mut self, now: Instant) {
        self.transfers.retain(|transfer| transfer.until > now);
    }

    /// The next timeout.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.transfers.iter().map(|transfer| transfer.until).min()
    }
}

/// `text` in Latin-1, if it has no other characters.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}
