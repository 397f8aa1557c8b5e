//! Clipboard text on the reliable stream: fragmentation and reassembly.
//!
//! A text has up to [`MAX_TEXT`] bytes, a message up to [`MAX_MESSAGE`]. Long texts are fragmented because the stream
//! is ordered: otherwise, a role change or a cursor shape would wait behind the whole text. A fragment is queued only
//! when all earlier fragments are acknowledged, so other messages wait behind one fragment at most.
//!
//! [`MAX_MESSAGE`]: super::stream::MAX_MESSAGE

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer, range};
use crate::validated::Invalid;

/// Maximum length of a text in bytes of UTF-8 (guess): about the length of a book. It limits the memory that a peer can
/// occupy.
pub const MAX_TEXT: usize = 1_000_000;

/// Maximum length of a fragment in bytes: half of the stream's window, or 16 ms on a 4 Mb/s link.
pub const PIECE: usize = 8 * 1024;

/// The directions in which a session shares clipboard text, as the host has configured them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ClipboardDirections {
    /// Text copied at the client can be pasted at the host.
    pub to_host: bool,
    /// Text copied at the host can be pasted at the client.
    pub to_client: bool,
}

impl ClipboardDirections {
    /// Whether any direction is enabled.
    #[must_use]
    pub fn any(self) -> bool {
        self.to_host || self.to_client
    }

    pub(super) fn write(self, w: &mut Writer<'_>) {
        w.u8(u8::from(self.to_host) | u8::from(self.to_client) << 1);
    }

    /// Parses the directions. Bits that only newer peers define are ignored.
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<ClipboardDirections, Reject> {
        let bits = r.u8()?;
        Ok(ClipboardDirections {
            to_host: bits & 1 != 0,
            to_client: bits & 2 != 0,
        })
    }
}

/// Copied text. `Debug` prints only its length, so that the text never reaches a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct ClipboardText(pub Arc<str>);

impl TryFrom<Arc<str>> for ClipboardText {
    type Error = Invalid;

    fn try_from(text: Arc<str>) -> Result<ClipboardText, Invalid> {
        let text = ClipboardText(text);
        text.fits()
            .then_some(text)
            .ok_or(Invalid("length of a text"))
    }
}

impl From<ClipboardText> for Arc<str> {
    fn from(text: ClipboardText) -> Arc<str> {
        text.0
    }
}

impl ClipboardText {
    /// Whether the text has 1 to [`MAX_TEXT`] bytes.
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

/// A fragment of a text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PieceFields", into = "PieceFields")]
pub struct ClipboardPiece {
    /// Length of the complete text in bytes, from 1 to [`MAX_TEXT`].
    pub total: u32,
    /// Offset of the fragment in the text. A fragment with offset 0 starts a new text and discards an incomplete one.
    pub offset: u32,
    /// The fragment's bytes, at most [`PIECE`]. A fragment may end within a character.
    pub bytes: Vec<u8>,
}

/// The fields `total`, `offset` and `bytes`.
type PieceFields = (u32, u32, Vec<u8>);

impl TryFrom<PieceFields> for ClipboardPiece {
    type Error = Invalid;

    fn try_from((total, offset, bytes): PieceFields) -> Result<ClipboardPiece, Invalid> {
        let piece = ClipboardPiece {
            total,
            offset,
            bytes,
        };
        match piece.check() {
            Ok(()) => Ok(piece),
            Err(_) => Err(Invalid("piece of a text")),
        }
    }
}

impl From<ClipboardPiece> for PieceFields {
    fn from(piece: ClipboardPiece) -> PieceFields {
        (piece.total, piece.offset, piece.bytes)
    }
}

impl std::fmt::Debug for ClipboardPiece {
    /// Prints only lengths and offset, so that the text never reaches a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (total, offset, bytes) = (self.total, self.offset, self.bytes.len());
        write!(f, "ClipboardPiece({offset} + {bytes} of {total} bytes)")
    }
}

impl ClipboardPiece {
    /// Appends the fragment.
    pub fn write(&self, w: &mut Writer<'_>) {
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        w.u32(self.total).u32(self.offset).u16(length);
        w.bytes(&self.bytes[..length.into()]);
    }

    /// Parses a fragment.
    ///
    /// # Errors
    /// [`Reject`] if a field is missing or out of range.
    pub fn parse(r: &mut Reader<'_>) -> Result<ClipboardPiece, Reject> {
        let (total, offset, length) = (r.u32()?, r.u32()?, usize::from(r.u16()?));
        range((1..=PIECE).contains(&length), "piece of a text")?;
        let bytes = r.bytes(length)?.to_vec();
        let piece = ClipboardPiece {
            total,
            offset,
            bytes,
        };
        piece.check()?;
        Ok(piece)
    }

    fn check(&self) -> Result<(), Reject> {
        let (total, length) = (u64::from(self.total), self.bytes.len());
        range((1..=MAX_TEXT as u64).contains(&total), "text length")?;
        range((1..=PIECE).contains(&length), "piece of a text")?;
        let end = u64::from(self.offset) + length as u64;
        range(end <= total, "place in a text")
    }
}

/// The sender's state: the newest text, and the offset up to which it was sent.
#[derive(Default, Debug)]
pub struct SentText(Option<(ClipboardText, usize)>);

impl SentText {
    /// Starts to send `text`, and discards a text that has not been sent completely. If `text` is empty or too long,
    /// returns `false` and changes nothing.
    pub fn start(&mut self, text: ClipboardText) -> bool {
        let fits = text.fits();
        if fits {
            self.0 = Some((text, 0));
        }
        fits
    }

    /// Discards the rest of the text.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Whether a fragment is ready to send.
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

    /// Advances past the fragment that was sent.
    pub fn mark_sent(&mut self) {
        if let Some((text, offset)) = &mut self.0 {
            *offset += PIECE;
            if *offset >= text.0.len() {
                self.0 = None;
            }
        }
    }
}

/// The receiver's state. Holds at most [`MAX_TEXT`] bytes.
#[derive(Default)]
pub(crate) struct ReceivedText {
    bytes: Vec<u8>,
    total: usize,
}

impl ReceivedText {
    /// Appends a fragment. Returns the text when it is complete. A fragment that is out of sequence discards the
    /// incomplete text. A text that is not valid UTF-8 is dropped.
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

    /// Discards an incomplete text.
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
        fn a_text_arrives_complete_and_once(text in "[ aä😀\n]{1,9000}") {
            let mut received = ReceivedText::default();
            let pieces = pieces(&text);
            prop_assert_eq!(pieces.len(), text.len().div_ceil(PIECE));
            let texts: Vec<_> = pieces.iter().filter_map(|piece| received.take(piece)).collect();
            prop_assert_eq!(texts, [ClipboardText::from(text.as_str())]);
            prop_assert!(received.bytes.is_empty());
        }

        /// For any order of fragments, at most one text is kept, and an incomplete text is never returned.
        #[test]
        fn pieces_in_any_order_give_complete_texts_only(
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
    fn a_new_text_replaces_a_started_one() {
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
    fn overlong_and_invalid_texts_are_dropped() {
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
    fn debug_output_hides_the_text() {
        let words = format!("{:?}", pieces("secret")[0]);
        assert!(!words.contains("secret") && words.contains('6'), "{words}");
    }
}
