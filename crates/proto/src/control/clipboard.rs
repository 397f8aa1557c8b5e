//! Clipboard text on the reliable stream: cut into pieces here, put together there.
//!
//! A text is one of up to [`MAX_TEXT`] bytes; a message could hold [`MAX_MESSAGE`] of them. It is cut all
//! the same: the stream keeps the order, so that a role or a pointer's shape would wait behind all of a long
//! text. A piece is only said when all before it has arrived, so that they wait behind one piece at most.
//!
//! [`MAX_MESSAGE`]: super::stream::MAX_MESSAGE

use std::sync::Arc;

use crate::bytes::{Reader, Reject, Writer, range};

/// Bytes of UTF-8 that a text has at most: a book's worth, and what a peer may have us keep (guess).
pub const MAX_TEXT: usize = 1_000_000;

/// Bytes of a text in one piece at most: half of what the stream has in flight, 16 ms of a 4 Mb/s link.
pub const PIECE: usize = 8 * 1024;

/// Which ways clipboard text goes, as the host allows it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClipboardDirections {
    /// What is copied at the client can be pasted at the host.
    pub to_host: bool,
    /// What is copied at the host can be pasted at the client.
    pub to_client: bool,
}

impl ClipboardDirections {
    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        self.to_host || self.to_client
    }

    pub(super) fn write(self, w: &mut Writer<'_>) {
        w.u8(u8::from(self.to_host) | u8::from(self.to_client) << 1);
    }

    /// Bits that only a newer peer knows are left out.
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<ClipboardDirections, Reject> {
        let bits = r.u8()?;
        Ok(ClipboardDirections {
            to_host: bits & 1 != 0,
            to_client: bits & 2 != 0,
        })
    }
}

/// What somebody copied: it stands in no log, not even by its `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ClipboardText(pub Arc<str>);

impl ClipboardText {
    /// Whether it may be shared: 1 to [`MAX_TEXT`] bytes.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=MAX_TEXT).contains(&self.0.len())
    }
}

impl std::fmt::Debug for ClipboardText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClipboardText({} bytes)", self.0.len())
    }
}

impl From<&str> for ClipboardText {
    fn from(text: &str) -> ClipboardText {
        ClipboardText(text.into())
    }
}

/// A part of a text.
#[derive(Clone, PartialEq, Eq)]
pub struct ClipboardPiece {
    /// Bytes of the whole text, 1 to [`MAX_TEXT`].
    pub total: u32,
    /// How many bytes of it come before these; 0 begins a text, and ends one that was not whole yet.
    pub offset: u32,
    /// The bytes, at most [`PIECE`]; characters may be cut in two.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for ClipboardPiece {
    /// What somebody copied stands in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (total, offset, bytes) = (self.total, self.offset, self.bytes.len());
        write!(f, "ClipboardPiece({offset} + {bytes} of {total} bytes)")
    }
}

impl ClipboardPiece {
    /// Writes it.
    pub fn write(&self, w: &mut Writer<'_>) {
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        w.u32(self.total).u32(self.offset).u16(length);
        w.bytes(&self.bytes[..length.into()]);
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`Reject`] if a field is missing or out of range.
    pub fn parse(r: &mut Reader<'_>) -> Result<ClipboardPiece, Reject> {
        let (total, offset, length) = (r.u32()?, r.u32()?, usize::from(r.u16()?));
        range((1..=MAX_TEXT as u64).contains(&total.into()), "text length")?;
        range((1..=PIECE).contains(&length), "piece of a text")?;
        let end = u64::from(offset) + length as u64;
        range(end <= total.into(), "place in a text")?;
        let bytes = r.bytes(length)?.to_vec();
        Ok(ClipboardPiece {
            total,
            offset,
            bytes,
        })
    }
}

/// The sending half: the newest text, as far as it was not said.
#[derive(Default, Debug)]
pub struct SentText(Option<(ClipboardText, usize)>);

impl SentText {
    /// Says `text` from now on, in place of what was not said to its end. One that is empty or too long is
    /// not said; whether it is.
    pub fn start(&mut self, text: ClipboardText) -> bool {
        let fits = text.fits();
        if fits {
            self.0 = Some((text, 0));
        }
        fits
    }

    /// Nobody is to hear the rest.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Whether a piece waits.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_some()
    }

    /// The next piece.
    #[must_use]
    pub fn piece(&self) -> Option<ClipboardPiece> {
        let (text, offset) = self.0.as_ref()?;
        let rest = text.0.as_bytes().get(*offset..)?;
        Some(ClipboardPiece {
            total: u32::try_from(text.0.len()).ok()?,
            offset: u32::try_from(*offset).ok()?,
            bytes: rest[..rest.len().min(PIECE)].to_vec(),
        })
    }

    /// That piece was said.
    pub fn mark_sent(&mut self) {
        if let Some((text, offset)) = &mut self.0 {
            *offset += PIECE;
            if *offset >= text.0.len() {
                self.0 = None;
            }
        }
    }
}

/// The receiving half: at most [`MAX_TEXT`] bytes.
#[derive(Default)]
pub(crate) struct ReceivedText {
    bytes: Vec<u8>,
    total: usize,
}

impl ReceivedText {
    /// Takes a piece in; the text, if it was the last. A piece that does not follow the one before, or a
    /// text that is none, is dropped.
    pub(crate) fn take(&mut self, piece: &ClipboardPiece) -> Option<ClipboardText> {
        let total = usize::try_from(piece.total).ok()?;
        let offset = usize::try_from(piece.offset).ok()?;
        if offset == 0 {
            (self.bytes, self.total) = (Vec::new(), total);
        }
        let follows = offset == self.bytes.len() && total == self.total;
        if !follows || offset + piece.bytes.len() > total {
            self.forget();
            return None;
        }
        self.bytes.extend_from_slice(&piece.bytes);
        if self.bytes.len() < total {
            return None;
        }
        let bytes = std::mem::take(self).bytes;
        let text = std::str::from_utf8(&bytes).ok();
        text.filter(|text| !text.is_empty())
            .map(ClipboardText::from)
    }

    /// What was begun is not finished.
    pub(crate) fn forget(&mut self) {
        *self = ReceivedText::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<ClipboardPiece> {
        let mut sent = SentText::default();
        assert!(sent.start(text.into()));
        let mut pieces = Vec::new();
        while let Some(piece) = sent.piece() {
            sent.mark_sent();
            pieces.push(piece);
        }
        pieces
    }

    proptest! {
        #[test]
        fn a_text_comes_out_whole_once(text in "[ aä😀\n]{1,9000}") {
            let mut received = ReceivedText::default();
            let pieces = pieces(&text);
            prop_assert_eq!(pieces.len(), text.len().div_ceil(PIECE));
            let texts: Vec<_> = pieces.iter().filter_map(|piece| received.take(piece)).collect();
            prop_assert_eq!(texts, [ClipboardText::from(text.as_str())]);
            prop_assert!(received.bytes.is_empty());
        }

        /// Whatever a peer says: not more is kept than one text, and nothing comes of half of one.
        #[test]
        fn pieces_in_any_order_give_whole_texts_alone(
            order in prop::collection::vec(0_usize..6, 0..40),
        ) {
            let [one, other] = ["a", "b"].map(|c| c.repeat(3 * PIECE - 5));
            let all = [pieces(&one), pieces(&other)].concat();
            let mut received = ReceivedText::default();
            for i in order {
                if let Some(text) = received.take(&all[i]) {
                    prop_assert!(*text.0 == *one || *text.0 == *other || text.0.len() == one.len());
                }
                prop_assert!(received.bytes.len() <= received.total);
                prop_assert!(received.total <= MAX_TEXT);
            }
        }
    }

    #[test]
    fn the_newest_text_takes_the_place_of_a_begun_one() {
        let mut sent = SentText::default();
        let mut received = ReceivedText::default();
        assert!(sent.start("x".repeat(PIECE + 1).as_str().into()));
        assert_eq!(received.take(&sent.piece().unwrap()), None);
        sent.mark_sent();
        assert!(sent.start("new".into()));
        assert_eq!(received.take(&sent.piece().unwrap()), Some("new".into()));
        sent.mark_sent();
        assert!(!sent.is_due());
    }

    #[test]
    fn what_is_too_long_or_no_text_does_not_pass() {
        let mut sent = SentText::default();
        assert!(!sent.start("".into()));
        assert!(!sent.start("x".repeat(MAX_TEXT + 1).as_str().into()));
        assert!(!sent.is_due());
        assert!(sent.start("x".repeat(MAX_TEXT).as_str().into()));
        let piece = |total, offset, bytes: &[u8]| ClipboardPiece {
            total,
            offset,
            bytes: bytes.to_vec(),
        };
        let mut received = ReceivedText::default();
        assert_eq!(received.take(&piece(2, 0, &[0xff, 0xfe])), None);
        assert_eq!(received.take(&piece(9, 3, b"middle")), None);
        for bad in [
            piece(0, 0, b"x"),
            piece(MAX_TEXT as u32 + 1, 0, b"x"),
            piece(5, 5, b"x"),
            piece(5, u32::MAX, b"x"),
            piece(9000, 0, &[b'x'; PIECE + 1]),
            piece(5, 0, b""),
        ] {
            let mut bytes = Vec::new();
            bad.write(&mut Writer(&mut bytes));
            assert!(ClipboardPiece::parse(&mut Reader::new(&bytes)).is_err());
        }
    }

    #[test]
    fn no_log_shows_what_was_copied() {
        let words = format!("{:?}", pieces("secret")[0]);
        assert!(!words.contains("secret") && words.contains('6'), "{words}");
    }
}
