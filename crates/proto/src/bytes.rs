//! Shared parts of the wire format: the maximum datagram size, the reasons for rejecting bytes, and a reader and a
//! writer for the little-endian fields of variable-length messages.

use std::time::Duration;

/// Maximum datagram size in bytes. It is the same on every link: the payload of a 1500-byte Ethernet frame after IPv6
/// and UDP headers (40 + 8 bytes), minus space for a tunnel.
pub const MAX_DATAGRAM: usize = 1400;

/// Returns an error that names `field`, unless `ok`.
pub(crate) fn range(ok: bool, field: &'static str) -> Result<(), Reject> {
    ok.then_some(()).ok_or(Reject::Range(field))
}

/// Why received bytes were rejected. A rejection is never fatal: the datagram is counted and discarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// The bytes end before the last field.
    #[error("truncated")]
    Truncated,
    /// The datagram is longer than [`MAX_DATAGRAM`], or bytes follow the last field.
    #[error("too long")]
    TooLong,
    /// A protocol version that this build doesn't support.
    #[error("unknown protocol version {0}")]
    Version(u8),
    /// A plane or kind that doesn't exist or is not allowed here.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// Unknown session.
    #[error("unknown session")]
    Session,
    /// Invalid tag: damaged, forged, or sealed with another key.
    #[error("forged or damaged")]
    Forged,
    /// A packet number that was received before, or is older than the replay window.
    #[error("replayed")]
    Replayed,
    /// A field with a value out of range.
    #[error("field out of range: {0}")]
    Range(&'static str),
}

/// Reads fields from the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `bytes` from its start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Number of remaining bytes.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if fewer bytes remain. The other methods that read a field return this error, too.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Reject> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Reject::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Reject> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Reject::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u8(&mut self) -> Result<u8, Reject> {
        Ok(self.array::<1>()?[0])
    }

    /// The next two bytes.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u16(&mut self) -> Result<u16, Reject> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next two bytes, signed.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn i16(&mut self) -> Result<i16, Reject> {
        self.array().map(i16::from_le_bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u32(&mut self) -> Result<u32, Reject> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next four bytes, signed.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn i32(&mut self) -> Result<i32, Reject> {
        self.array().map(i32::from_le_bytes)
    }

    /// The next four bytes as an IEEE 754 number. The result may be NaN.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn f32(&mut self) -> Result<f32, Reject> {
        self.array().map(f32::from_le_bytes)
    }

    /// The next eight bytes, unsigned.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u64(&mut self) -> Result<u64, Reject> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next eight bytes, signed.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn i64(&mut self) -> Result<i64, Reject> {
        self.array().map(i64::from_le_bytes)
    }

    /// A length byte followed by that many bytes of UTF-8.
    ///
    /// # Errors
    /// [`Reject::Range`] if the bytes are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Reject> {
        let n = usize::from(self.u8()?);
        std::str::from_utf8(self.bytes(n)?).map_err(|_| Reject::Range("text"))
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    /// [`Reject::TooLong`] if bytes remain.
    pub fn end(self) -> Result<(), Reject> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Reject::TooLong)
        }
    }
}

/// Appends fields to a byte string.
#[derive(Debug)]
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// Appends bytes unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a byte.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.bytes(&[v])
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends two bytes, signed.
    pub fn i16(&mut self, v: i16) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends four bytes, signed.
    pub fn i32(&mut self, v: i32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends four bytes as an IEEE 754 number.
    pub fn f32(&mut self, v: f32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends eight bytes, unsigned.
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends eight bytes, signed.
    pub fn i64(&mut self, v: i64) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Appends a length byte and the text, truncated to 255 bytes at a character boundary.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let cut = text.floor_char_boundary(255);
        self.u8(u8::try_from(cut).unwrap_or(0));
        self.bytes(&text.as_bytes()[..cut])
    }
}

/// Marks a duration that was not measured or is longer than 4.29 s.
const NO_SPAN: u32 = u32::MAX;

/// Encodes a duration in nanoseconds.
pub(crate) fn span_to_wire(span: Option<Duration>) -> u32 {
    span.and_then(|s| u32::try_from(s.as_nanos()).ok())
        .unwrap_or(NO_SPAN)
}

/// The inverse of [`span_to_wire`].
pub(crate) fn span_from_wire(v: u32) -> Option<Duration> {
    (v != NO_SPAN).then(|| Duration::from_nanos(u64::from(v)))
}
