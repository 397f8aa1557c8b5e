//! Sealed messages of the control stream, in the protocol's second form: AES-128-GCM with nonces of 12 bytes.
//!
//! ```text
//! type 1 (2) · length of the rest (2) · number (4) · tag (16) · ciphertext
//! ```
//! The first form repeats its nonces after 256 messages (`encryptControlMessage` of moonlight-common-c), which reveals the
//! authentication key. It is therefore not supported.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;

use crate::session::SessionKey;

/// The type of sealed messages.
const SEALED: u16 = 1;

/// Type, length, number and tag.
const HEADER: usize = 24;

/// Size of the replay window in bits. Messages on different ENet channels may overtake each other.
const WINDOW: u32 = 128;

/// Why a message was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a sealed message.
    #[error("not a sealed message")]
    Form,
    /// It was received before, or is too old for the replay window.
    #[error("a repeated message")]
    Replayed,
    /// It was not sealed with the session's key.
    #[error("not sealed with the session's key")]
    Forged,
}

/// Seals and opens the messages of one session.
pub struct ControlCipher {
    key: LessSafeKey,
    /// The newest number received, and a bit mask of the earlier numbers that were received: bit n is the number n
    /// before the newest.
    newest: Option<u32>,
    seen: u128,
}

/// The nonce of a message: its number, its sender, and the stream.
fn nonce(number: u32, from: u8) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[10] = from;
    nonce[11] = b'C';
    Nonce::assume_unique_for_key(nonce)
}

impl ControlCipher {
    /// Creates the cipher with the session's key.
    ///
    /// # Errors
    /// Returns an error if the cryptographic library refuses the key.
    pub fn new(key: &SessionKey) -> Result<ControlCipher, Unspecified> {
        Ok(ControlCipher {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.bytes())?),
            newest: None,
            seen: 0,
        })
    }

    /// Opens a message from the client and returns its contents.
    ///
    /// # Errors
    /// [`OpenError`] if the message cannot be opened. The cipher is then unchanged.
    pub fn open(&mut self, message: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (header, body) = message.split_at_checked(HEADER).ok_or(OpenError::Form)?;
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if word(0) != SEALED || usize::from(word(2)) != message.len() - 4 {
            return Err(OpenError::Form);
        }
        let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        if self.was_seen(number) {
            return Err(OpenError::Replayed);
        }
        let mut contents = body.to_vec();
        let tag = &header[8..];
        (self.key)
            .open_in_place_separate_tag(nonce(number, b'C'), Aad::empty(), tag, &mut contents)
            .map_err(|_| OpenError::Forged)?;
        self.note(number);
        Ok(contents)
    }

    /// Seals a message of the host. The host must never seal two messages with the same number and key.
    ///
    /// # Errors
    /// Returns an error if the cryptographic library fails or the message is longer than 64 KiB.
    pub fn seal(&self, number: u32, contents: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let length = u16::try_from(HEADER - 4 + contents.len()).map_err(|_| Unspecified)?;
        let mut message = Vec::with_capacity(HEADER + contents.len());
        message.extend(SEALED.to_le_bytes());
        message.extend(length.to_le_bytes());
        message.extend(number.to_le_bytes());
        message.extend([0; 16]);
        message.extend_from_slice(contents);
        let (header, body) = message.split_at_mut(HEADER);
        let nonce = nonce(number, b'H');
        let tag = (self.key).seal_in_place_separate_tag(nonce, Aad::empty(), body)?;
        header[8..].copy_from_slice(tag.as_ref());
        Ok(message)
    }

    fn was_seen(&self, number: u32) -> bool {
        match self.newest {
            Some(newest) if number <= newest => {
                let behind = newest - number;
                behind >= WINDOW || self.seen >> behind & 1 != 0
            }
            _ => false,
        }
    }

    fn note(&mut self, number: u32) {
        match self.newest {
            Some(newest) if number <= newest => self.seen |= 1 << (newest - number),
            newest => {
                let ahead = newest.map_or(WINDOW, |newest| number - newest);
                self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
                self.newest = Some(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher() -> ControlCipher {
        ControlCipher::new(&SessionKey::from([9; 16])).unwrap()
    }

    /// A message, sealed as by a client.
    fn from_client(number: u32, contents: &[u8]) -> Vec<u8> {
        let cipher = cipher();
        let mut body = contents.to_vec();
        let tag = (cipher.key)
            .seal_in_place_separate_tag(nonce(number, b'C'), Aad::empty(), &mut body)
            .unwrap();
        let length = u16::try_from(20 + body.len()).unwrap();
        let mut message = vec![1, 0];
        message.extend(length.to_le_bytes());
        message.extend(number.to_le_bytes());
        message.extend(tag.as_ref());
        message.extend(body);
        message
    }

    #[test]
    fn a_message_is_opened_once() {
        let mut cipher = cipher();
        for number in [0, 1, 5, 3, 200, 100, 4_000_000_000] {
            let message = from_client(number, b"hello");
            assert_eq!(cipher.open(&message).unwrap(), b"hello");
            assert_eq!(cipher.open(&message), Err(OpenError::Replayed));
        }
        assert_eq!(
            cipher.open(&from_client(2, b"late")),
            Err(OpenError::Replayed)
        );
    }

    #[test]
    fn forged_and_malformed_messages_change_nothing() {
        let mut cipher = cipher();
        let message = from_client(7, b"hello");
        for at in 0..message.len() {
            let mut forged = message.clone();
            forged[at] ^= 1;
            assert!(cipher.open(&forged).is_err(), "{at}");
            assert!(cipher.open(&message[..at]).is_err());
        }
        // The host's own message is not accepted as a client's message.
        let own = cipher.seal(7, b"hello").unwrap();
        assert_eq!(cipher.open(&own), Err(OpenError::Forged));
        assert_eq!(cipher.open(&message).unwrap(), b"hello");
    }
}
