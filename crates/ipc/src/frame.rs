//! The frame of a message: a prefix, the message in postcard's encoding, and a raw payload.
//!
//! The prefix holds the lengths of message and payload (u32 each, little-endian). A frame may span several datagrams of
//! a SOCK_SEQPACKET socket, and always starts a new datagram.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Length of the prefix in bytes.
pub const PREFIX: usize = 8;

/// Maximum memory in bytes that is reserved for a payload before its bytes arrive.
const RESERVED: usize = 64 << 10;

/// A message of one kind of connection in one direction.
pub trait Message: Serialize + DeserializeOwned {
    /// Maximum length of an encoded message in bytes, without its payload.
    const MAX_LEN: usize;

    /// Maximum payload of any message in bytes.
    const MAX_PAYLOAD: usize = 0;

    /// Maximum payload of this message in bytes.
    fn max_payload(&self) -> usize {
        0
    }
}

/// Why a frame is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// It is longer than its kind allows.
    #[error("a message is longer than allowed")]
    TooLong,
    /// It is shorter than its prefix states, or has no prefix.
    #[error("a message is truncated")]
    Truncated,
    /// It does not end where its prefix states.
    #[error("bytes follow a message")]
    Trailing,
    /// A field is missing or invalid.
    #[error("a message is invalid")]
    Invalid,
}

/// Replaces `buffer` by the prefix and the message. The caller sends the payload, of `payload` bytes, after them.
///
/// # Errors
/// [`FrameError::TooLong`] if the message or payload is too long, or [`FrameError::Invalid`] if the message cannot be
/// encoded. After an error, the buffer's content is arbitrary.
pub fn encode<M: Message>(
    buffer: &mut Vec<u8>,
    message: &M,
    payload: usize,
) -> Result<(), FrameError> {
    let mut bytes = std::mem::take(buffer);
    bytes.clear();
    bytes.extend_from_slice(&[0; PREFIX]);
    *buffer = postcard::to_extend(message, bytes).map_err(|_| FrameError::Invalid)?;
    let length = buffer.len() - PREFIX;
    if length > M::MAX_LEN || payload > message.max_payload() {
        return Err(FrameError::TooLong);
    }
    buffer[..PREFIX].copy_from_slice(&prefix(length, payload));
    Ok(())
}

/// A frame without a payload.
///
/// # Errors
/// [`FrameError::TooLong`] if the message is too long, or [`FrameError::Invalid`] if it cannot be encoded.
pub fn to_bytes<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut bytes = Vec::new();
    encode(&mut bytes, message, 0)?;
    Ok(bytes)
}

/// The message in a datagram that is one frame without a payload.
///
/// # Errors
/// [`FrameError`] if the datagram is not such a frame.
pub fn from_bytes<M: Message>(datagram: &[u8]) -> Result<M, FrameError> {
    let (message, payload) = (Assembler::default().add(datagram)?).ok_or(FrameError::Truncated)?;
    payload
        .is_empty()
        .then_some(message)
        .ok_or(FrameError::TooLong)
}

/// Encodes a prefix. A length beyond 32 bits saturates: the receiver refuses such a message, because its limit is
/// lower.
pub(crate) fn prefix(message: usize, payload: usize) -> [u8; PREFIX] {
    let length = |length| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = [0; PREFIX];
    let (first, second) = bytes.split_at_mut(PREFIX / 2);
    first.copy_from_slice(&length(message));
    second.copy_from_slice(&length(payload));
    bytes
}

/// Reads a prefix: the lengths of message and payload.
fn lengths<M: Message>(datagram: &[u8]) -> Result<((usize, usize), &[u8]), FrameError> {
    let (message, rest) = datagram
        .split_first_chunk::<4>()
        .ok_or(FrameError::Truncated)?;
    let (payload, rest) = rest.split_first_chunk::<4>().ok_or(FrameError::Truncated)?;
    let length = |bytes| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    let (message, payload) = (length(*message), length(*payload));
    match message <= M::MAX_LEN && payload <= M::MAX_PAYLOAD {
        true => Ok(((message, payload), rest)),
        false => Err(FrameError::TooLong),
    }
}

/// Assembles frames from datagrams. After an error, it expects the start of a frame, but the caller should close the
/// connection.
#[derive(Debug, Default)]
pub struct Assembler {
    /// Missing bytes of the message and of the payload; `None` between frames.
    missing: Option<(usize, usize)>,
    message: Vec<u8>,
    payload: Vec<u8>,
}

impl Assembler {
    /// Adds a datagram. Returns the message and its payload once they are complete.
    ///
    /// # Errors
    /// [`FrameError`] if the datagram does not continue or start a valid frame.
    pub fn add<M: Message>(&mut self, datagram: &[u8]) -> Result<Option<(M, Vec<u8>)>, FrameError> {
        let result = self.piece(datagram);
        if result.is_err() {
            *self = Assembler::default();
        }
        result
    }

    fn piece<M: Message>(&mut self, datagram: &[u8]) -> Result<Option<(M, Vec<u8>)>, FrameError> {
        let ((message, payload), bytes) = match self.missing.take() {
            Some(_) if datagram.is_empty() => return Err(FrameError::Truncated),
            Some(missing) => (missing, datagram),
            None => {
                let (lengths, bytes) = lengths::<M>(datagram)?;
                self.message.clear();
                self.payload = Vec::with_capacity(lengths.1.min(RESERVED));
                (lengths, bytes)
            }
        };
        let (first, rest) = bytes.split_at(bytes.len().min(message));
        if rest.len() > payload {
            return Err(FrameError::Trailing);
        }
        self.message.extend_from_slice(first);
        self.payload.extend_from_slice(rest);
        let missing = (message - first.len(), payload - rest.len());
        if missing != (0, 0) {
            self.missing = Some(missing);
            return Ok(None);
        }
        let decoded = postcard::take_from_bytes::<M>(&self.message);
        let (message, rest) = decoded.map_err(|_| FrameError::Invalid)?;
        if !rest.is_empty() {
            return Err(FrameError::Trailing);
        }
        match self.payload.len() <= message.max_payload() {
            true => Ok(Some((message, std::mem::take(&mut self.payload)))),
            false => Err(FrameError::TooLong),
        }
    }
}

#[cfg(test)]
mod tests;
