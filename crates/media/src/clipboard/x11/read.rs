//! Requests the text of the clipboard's owner.
//!
//! The available targets (TARGETS) are requested first, then the text, which arrives at once or in
//! parts (INCR). Each request has its own window, so that late replies of an owner are dropped. No
//! step blocks, because replies are events and an unresponsive owner times out.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, Window};
use x11rb::rust_connection::RustConnection;

use super::{Atoms, compound};
use crate::clipboard::ReadFailure;

/// Timeout of an unresponsive owner, which may be busy starting (guess).
const TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of targets considered. Programs offer some dozens.
const MAX_TARGETS: u32 = 1024;

/// The progress of a request.
pub(super) enum ReadProgress {
    Pending,
    /// The text, or why there is none.
    Done(Result<String, ReadFailure>),
}

enum Step {
    /// Targets have been requested.
    Targets,
    /// The text has been requested.
    Text,
    /// The text arrives in parts of this type.
    Parts(Atom, Vec<u8>),
}

/// A pending request for text.
pub(super) struct TextRequest {
    /// The requestor window.
    pub(super) window: Window,
    /// The time at which the request times out.
    pub(super) until: Instant,
    /// Time of the copy, on the server's clock.
    copied: u32,
    step: Step,
}

impl TextRequest {
    /// Requests the targets of the clipboard's owner. `copied` is the time at which the owner acquired the clipboard.
    pub(super) fn start(
        conn: &RustConnection,
        atoms: &Atoms,
        window: Window,
        copied: u32,
    ) -> Result<TextRequest, ReplyError> {
        let reading = TextRequest {
            window,
            until: clock::now() + TIMEOUT,
            copied,
            step: Step::Targets,
        };
        reading.convert(conn, atoms, atoms.TARGETS)?;
        Ok(reading)
    }

    fn convert(
        &self,
        conn: &RustConnection,
        atoms: &Atoms,
        target: Atom,
    ) -> Result<(), ReplyError> {
        let into = atoms.OPENUVR_CLIPBOARD;
        conn.convert_selection(self.window, atoms.CLIPBOARD, target, into, self.copied)?;
        Ok(())
    }

    /// Handles the owner's reply, which is data in `property` or a failure.
    pub(super) fn answered(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        property: Atom,
        most: usize,
    ) -> Result<ReadProgress, ReplyError> {
        self.until = clock::now() + TIMEOUT;
        let none = property == x11rb::NONE;
        match self.step {
            Step::Targets => {
                // If the owner does not support TARGETS, the preferred target is requested.
                let target = match none {
                    true => Some(atoms.UTF8_STRING),
                    false => self.choose(conn, atoms)?,
                };
                let Some(target) = target else {
                    return Ok(ReadProgress::Done(Err(ReadFailure::NotText)));
                };
                self.step = Step::Text;
                self.convert(conn, atoms, target)?;
                Ok(ReadProgress::Pending)
            }
            Step::Text if none => Ok(ReadProgress::Done(Err(ReadFailure::NotText))),
            Step::Text => self.text(conn, atoms, most),
            Step::Parts(..) => Ok(ReadProgress::Pending),
        }
    }

    /// The best available target.
    fn choose(&self, conn: &RustConnection, atoms: &Atoms) -> Result<Option<Atom>, ReplyError> {
        let (window, from) = (self.window, atoms.OPENUVR_CLIPBOARD);
        let list = conn.get_property(true, window, from, AtomEnum::ANY, 0, MAX_TARGETS)?;
        let list = list.reply()?;
        let has: Vec<Atom> = list.value32().into_iter().flatten().collect();
        // Targets in UTF-8 come first. STRING comes late, because Latin-1 has few characters. TEXT is last, because its
        // owner chooses the encoding.
        let wanted = [
            atoms.UTF8_STRING,
            atoms.UTF8_MIME,
            atoms.UTF8_MIME_UPPER,
            atoms.COMPOUND_TEXT,
            atoms.PLAIN_MIME,
            atoms.STRING,
            atoms.TEXT,
        ];
        Ok(wanted.into_iter().find(|target| has.contains(target)))
    }

    fn property(
        &self,
        conn: &RustConnection,
        atoms: &Atoms,
        delete: bool,
        most: usize,
    ) -> Result<GetPropertyReply, ReplyError> {
        let words = u32::try_from(most / 4 + 1).unwrap_or(u32::MAX);
        let from = atoms.OPENUVR_CLIPBOARD;
        conn.get_property(delete, self.window, from, AtomEnum::ANY, 0, words)?
            .reply()
    }

    fn text(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        most: usize,
    ) -> Result<ReadProgress, ReplyError> {
        let property = self.property(conn, atoms, false, most)?;
        if property.type_ != atoms.INCR {
            if property.bytes_after == 0 {
                conn.delete_property(self.window, atoms.OPENUVR_CLIPBOARD)?;
            }
            let long = property.bytes_after > 0;
            return Ok(ReadProgress::Done(match long {
                true => Err(ReadFailure::TooLong),
                false => decoded(atoms, property.type_, property.value, most),
            }));
        }
        // The owner announces the minimum size, or no size.
        let announced = property.value32().and_then(|mut size| size.next());
        if announced.is_some_and(|size| usize::try_from(size).is_ok_and(|size| size > most)) {
            return Ok(ReadProgress::Done(Err(ReadFailure::TooLong)));
        }
        self.step = Step::Parts(x11rb::NONE, Vec::new());
        // Deleting the property signals the owner to start.
        conn.delete_property(self.window, atoms.OPENUVR_CLIPBOARD)?;
        Ok(ReadProgress::Pending)
    }

    /// Handles a new value of the property: the next part of a transfer in parts.
    pub(super) fn more(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        most: usize,
    ) -> Result<ReadProgress, ReplyError> {
        if !matches!(self.step, Step::Parts(..)) {
            return Ok(ReadProgress::Pending);
        }
        let property = self.property(conn, atoms, true, most)?;
        let Step::Parts(kind, bytes) = &mut self.step else {
            return Ok(ReadProgress::Pending);
        };
        self.until = clock::now() + TIMEOUT;
        if property.bytes_after > 0 || bytes.len() + property.value.len() > most {
            return Ok(ReadProgress::Done(Err(ReadFailure::TooLong)));
        }
        if property.value.is_empty() {
            let (kind, bytes) = (*kind, std::mem::take(bytes));
            return Ok(ReadProgress::Done(decoded(atoms, kind, bytes, most)));
        }
        *kind = property.type_;
        bytes.extend(property.value);
        Ok(ReadProgress::Pending)
    }
}

/// Decodes `bytes` of a type. STRING is Latin-1. `text/plain` has no charset: bytes that are not UTF-8 are decoded as
/// Latin-1, or rejected if they contain a zero byte. Unknown types are accepted if they are ASCII without escape
/// characters.
fn decoded(atoms: &Atoms, kind: Atom, bytes: Vec<u8>, most: usize) -> Result<String, ReadFailure> {
    let utf8 = [atoms.UTF8_STRING, atoms.UTF8_MIME, atoms.UTF8_MIME_UPPER];
    let text = if utf8.contains(&kind) {
        String::from_utf8(bytes).map_err(|_| ReadFailure::NotText)?
    } else if kind == atoms.PLAIN_MIME {
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) if e.as_bytes().contains(&0) => return Err(ReadFailure::NotText),
            Err(e) => e.into_bytes().into_iter().map(char::from).collect(),
        }
    } else if kind == atoms.COMPOUND_TEXT {
        compound::decoded(&bytes).ok_or(ReadFailure::NotText)?
    } else if kind == atoms.STRING || (bytes.is_ascii() && !bytes.contains(&0x1b)) {
        bytes.into_iter().map(char::from).collect()
    } else {
        return Err(ReadFailure::NotText);
    };
    match text.len() <= most {
        true => Ok(text),
        false => Err(ReadFailure::TooLong),
    }
}
