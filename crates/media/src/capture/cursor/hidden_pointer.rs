//! Detects whether a client of an X display hides the pointer (XFIXES 4, `HideCursor`).
//!
//! The server does not report that the pointer is hidden: `GetCursorImage` returns the hidden pointer's image, and no
//! `CursorNotify` is sent (X.Org 21.1, `xfixes/cursor.c`). Therefore, this module records the clients' requests to hide
//! and show the pointer, and counts them for each client as the server does. A client hides the pointer until it
//! disconnects, or until it has sent as many show requests as hide requests. Nothing else is recorded. Requests from
//! before the recording are unknown.
//!
//! The server sends recorded requests when it next writes to any client.
//!
//! Protocols: RECORD 1.13, XFIXES 4.0, from `xorgproto`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, BorrowedFd};

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::{ConnectionError, ParseError, ReplyError};
use x11rb::protocol::record::{
    self, CS, ConnectionExt as _, EnableContextReply, ExtRange, Range, Range8, Range16,
};
use x11rb::protocol::xfixes::{self, HIDE_CURSOR_REQUEST, SHOW_CURSOR_REQUEST};
use x11rb::protocol::xproto::{ConnectionExt as _, Window};
use x11rb::rust_connection::Stream as _;
use x11rb::x11_utils::TryParse as _;

use crate::capture::CaptureError;
use crate::capture::x11::display::Display;

/// Kinds of replies (RECORD 1.13, `RecordEnableContext`, `category`; x11rb has no constants for
/// them).
const FROM_CLIENT: u8 = 1;
const CLIENT_DIED: u8 = 3;
const END_OF_DATA: u8 = 5;

/// The first byte of an error and of a reply, and the length of an event in bytes. A packet with any other first byte
/// is an event (X11 protocol, chapter 1).
const ERROR: u8 = 0;
const REPLY: u8 = 1;
const EVENT: usize = 32;

/// Bytes per read: hundreds of requests (guess). The next read gets the rest.
const CHUNK: usize = 4096;

/// Tracks which clients hide the pointer of a screen.
pub(super) struct HiddenPointer {
    /// The server writes recorded requests to this connection. After the set-up, the connection is only read.
    records: Display,
    /// Received bytes of an incomplete message. The longest message is a reply as long as the largest request that the
    /// server accepts (16 MiB, X.Org's `-maxbigreqsize`).
    bytes: Vec<u8>,
    /// For each client that hides the pointer: the number of its hide requests minus its show requests. The key is the
    /// base of the client's resource IDs.
    hides: BTreeMap<u32, u32>,
}

impl HiddenPointer {
    /// Starts recording for the screen of `watch`, a connection to `display`. `watch` must stay open, because recording
    /// ends when it is closed.
    ///
    /// # Errors
    /// [`CaptureError`] if the server lacks RECORD or refuses it.
    pub(super) fn open(
        display: Option<&str>,
        watch: &Display,
    ) -> Result<HiddenPointer, CaptureError> {
        let records = Display::open(display, &[record::X11_EXTENSION_NAME])?;
        let context = watch.new_id()?;
        let begin = || -> Result<(), ReplyError> {
            let conn = &watch.conn;
            let known = conn.extension_information(xfixes::X11_EXTENSION_NAME)?;
            let major = known
                .ok_or(ConnectionError::UnsupportedExtension)?
                .major_opcode;
            let range = Range {
                ext_requests: ExtRange {
                    major: Range8 {
                        first: major,
                        last: major,
                    },
                    minor: Range16 {
                        first: HIDE_CURSOR_REQUEST.into(),
                        last: SHOW_CURSOR_REQUEST.into(),
                    },
                },
                client_died: true,
                ..Range::default()
            };
            conn.record_query_version(1, 13)?.reply()?;
            conn.record_create_context(context, 0, &[CS::ALL_CLIENTS.into()], &[range])?
                .check()?;
            // Replies to this request arrive for the connection's lifetime, and are read in
            // `receive`.
            drop(records.conn.record_enable_context(context)?);
            records.conn.flush()?;
            Ok(())
        };
        begin().map_err(|e| {
            CaptureError(format!(
                "{}: can't record the requests that hide the pointer: {e}",
                watch.name
            ))
        })?;
        Ok(HiddenPointer {
            records,
            bytes: Vec::new(),
            hides: BTreeMap::new(),
        })
    }

    /// Whether the pointer is hidden, according to the requests received so far.
    pub(super) fn is_hidden(&self) -> bool {
        !self.hides.is_empty()
    }

    /// The descriptor to poll: when it is readable, call [`receive`](HiddenPointer::receive).
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.records.conn.stream().as_fd()
    }

    /// Processes received requests without waiting. May send queries over `watch`; the caller must
    /// process that connection's events afterwards.
    ///
    /// # Errors
    /// [`CaptureError`] if recording has ended.
    pub(super) fn receive(&mut self, watch: &Display) -> Result<(), CaptureError> {
        let mut chunk = [0; CHUNK];
        let stream = self.records.conn.stream();
        match stream.read(&mut chunk, &mut Vec::new()) {
            Ok(0) => return Err(self.records.broke("the server closed the connection")),
            Ok(read) => self.bytes.extend_from_slice(&chunk[..read]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(self.records.broke(e)),
        }
        loop {
            let taken = match self.bytes.first().copied() {
                Some(REPLY) => match EnableContextReply::try_parse(&self.bytes) {
                    Ok((reply, rest)) => {
                        let taken = self.bytes.len() - rest.len();
                        self.note(watch, &reply)?;
                        taken
                    }
                    Err(ParseError::InsufficientData) => return Ok(()),
                    Err(e) => return Err(self.records.broke(e)),
                },
                Some(ERROR) => return Err(self.records.broke("the server refused to record")),
                // All other packets are events that the server sends to every client, such as a keyboard mapping
                // change.
                Some(_) if self.bytes.len() >= EVENT => EVENT,
                _ => return Ok(()),
            };
            self.bytes.drain(..taken);
        }
    }

    fn note(&mut self, watch: &Display, reply: &EnableContextReply) -> Result<(), CaptureError> {
        match reply.category {
            FROM_CLIENT => {
                let mut data = &reply.data[..];
                while let Some((request, rest)) = first_request(data, reply.client_swapped) {
                    data = rest;
                    if let Some((hides, window)) = request {
                        self.update_count(watch, reply.xid_base, hides, window);
                    }
                }
            }
            CLIENT_DIED => {
                self.hides.remove(&reply.xid_base);
            }
            END_OF_DATA => return Err(self.records.broke("the server stopped recording")),
            _ => {}
        }
        Ok(())
    }

    fn update_count(&mut self, watch: &Display, client: u32, hides: bool, window: Window) {
        let root = watch.root();
        // The request was recorded before the server checked it, so the window might not exist.
        let of = (window == root).then_some(root).or_else(|| {
            let requested = watch.conn.get_geometry(window).ok()?;
            Some(requested.reply().ok()?.root)
        });
        let count = self.hides.get(&client).copied().unwrap_or(0);
        let count = match (hides, of) {
            (true, Some(of)) if of == root => count.saturating_add(1),
            // The screen of a destroyed window is unknown. The request counts nevertheless, because the pointer might
            // otherwise stay hidden permanently.
            (false, of) if of.is_none_or(|of| of == root) => count.saturating_sub(1),
            _ => return,
        };
        if count == 0 {
            self.hides.remove(&client);
        } else {
            self.hides.insert(client, count);
        }
    }
}

/// Whether a request hides (`true`) or shows the pointer, and the request's window; `None` for other requests.
type Request = Option<(bool, Window)>;

/// Parses the first recorded request. `swapped` states whether the client has the other byte order. Returns the request
/// and the remaining data. The request is also `None` if its size is wrong, because the server will refuse it.
fn first_request(data: &[u8], swapped: bool) -> Option<(Request, &[u8])> {
    let word = |at: usize| {
        let word = u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?);
        Some(if swapped { word.swap_bytes() } else { word })
    };
    let length = u16::from_ne_bytes(data.get(2..4)?.try_into().ok()?);
    let length = if swapped { length.swap_bytes() } else { length };
    // The length of a long request is in a separate word (BIG-REQUESTS 2.0).
    let (words, head) = match length {
        0 => (word(4)?, 2),
        words => (u32::from(words), 1),
    };
    let bytes = usize::try_from(words).ok()?.checked_mul(4)?;
    let rest = data.get(bytes..).filter(|_| bytes >= 4 * head)?;
    let hides = match *data.get(1)? {
        HIDE_CURSOR_REQUEST => Some(true),
        SHOW_CURSOR_REQUEST => Some(false),
        _ => None,
    };
    let window = (bytes == 4 * (head + 1)).then(|| word(4 * head)).flatten();
    Some((hides.zip(window), rest))
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    /// As recorded by X.Org's server.
    const HIDE: [u8; 8] = [0x8a, 29, 2, 0, 0x0d, 5, 0, 0];
    const SHOW: [u8; 8] = [0x8a, 30, 2, 0, 0x0d, 5, 0, 0];
    const LONG: [u8; 12] = [0x8a, 29, 0, 0, 3, 0, 0, 0, 0x0d, 5, 0, 0];
    const SWAPPED: [u8; 8] = [0x8a, 29, 0, 2, 0, 0, 5, 0x0d];

    fn all(mut data: &[u8], swapped: bool) -> Vec<Request> {
        let mut found = Vec::new();
        while let Some((request, rest)) = first_request(data, swapped) {
            found.push(request);
            data = rest;
        }
        found
    }

    #[test]
    fn requests_are_read_in_either_byte_order() {
        let (hide, show) = (Some((true, 0x50d)), Some((false, 0x50d)));
        assert_eq!(all(&[HIDE, SHOW, HIDE].concat(), false), [hide, show, hide]);
        assert_eq!(all(&[&LONG[..], &SHOW].concat(), false), [hide, show]);
        assert_eq!(all(&SWAPPED, true), [hide]);
    }

    #[test]
    fn requests_of_a_wrong_size_are_passed_over() {
        let wrong = [0x8a, 29, 3, 0, 0x0d, 5, 0, 0, 0, 0, 0, 0];
        let show = Some((false, 0x50d));
        assert_eq!(all(&[&wrong[..], &SHOW].concat(), false), [None, show]);
        // None of these requests is complete, and an incomplete request is not returned.
        for cut in 0..HIDE.len() {
            assert!(all(&HIDE[..cut], false).is_empty());
        }
        assert!(all(&[0x8a, 29, 0, 0, 0, 0, 0, 0], false).is_empty());
        assert!(all(&[0x8a, 29, 0, 0, 255, 255, 255, 255], false).is_empty());
    }
}
