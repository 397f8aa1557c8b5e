//! The sealed form of RTSP: AES-128-GCM with the session's key (`RtspConnection.c` of moonlight-common-c).
//!
//! ```text
//! length of the ciphertext, with the highest bit set (4) · number (4) · tag (16) · ciphertext     big-endian
//! ```

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;

use super::message::{InvalidRequest, MAX_REQUEST};
use crate::session::SessionKey;

/// Marks the sealed form. Plain requests begin with a letter.
const MARK: u32 = 1 << 31;

/// Length, number and tag.
const HEADER: usize = 24;

/// A sealed request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedRequest {
    /// Its number.
    pub number: u32,
    tag: [u8; 16],
    ciphertext: Vec<u8>,
}

impl SealedRequest {
    /// Whether the bytes begin a sealed request.
    #[must_use]
    pub fn is_begun(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|first| first & 0x80 != 0)
    }

    /// Parses a sealed request; `None` if its end is missing.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the bytes are not a request, or if the request is too long.
    pub fn parse(bytes: &[u8]) -> Result<Option<SealedRequest>, InvalidRequest> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let length = usize::try_from(word(0) & !MARK).map_err(|_| InvalidRequest)?;
        if word(0) & MARK == 0 || length > MAX_REQUEST {
            return Err(InvalidRequest);
        }
        let mut tag = [0; 16];
        tag.copy_from_slice(&header[8..]);
        Ok(rest.get(..length).map(|ciphertext| SealedRequest {
            number: word(4),
            tag,
            ciphertext: ciphertext.to_vec(),
        }))
    }
}

/// The nonce of a message: its number, its sender, and the protocol.
fn nonce(number: u32, from: u8) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[10] = from;
    nonce[11] = b'R';
    Nonce::assume_unique_for_key(nonce)
}

/// The plain request, if it was sealed with this key.
#[must_use]
pub fn open(key: &SessionKey, request: &SealedRequest) -> Option<Vec<u8>> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.bytes()).ok()?);
    let mut plain = request.ciphertext.clone();
    let nonce = nonce(request.number, b'C');
    key.open_in_place_separate_tag(nonce, Aad::empty(), &request.tag, &mut plain)
        .ok()?;
    Some(plain)
}

/// Seals a response. No other response may have this number and key.
///
/// # Errors
/// Returns an error if the cryptographic library fails or the response is too long.
pub fn seal(key: &SessionKey, number: u32, response: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.bytes())?);
    let length = u32::try_from(response.len()).map_err(|_| Unspecified)?;
    let mut message = (length | MARK).to_be_bytes().to_vec();
    message.extend(number.to_be_bytes());
    message.extend([0; 16]);
    message.extend_from_slice(response);
    let (header, body) = message.split_at_mut(HEADER);
    let tag = key.seal_in_place_separate_tag(nonce(number, b'H'), Aad::empty(), body)?;
    header[8..].copy_from_slice(tag.as_ref());
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_open_with_their_key_only() {
        let [key, other] = [1, 2].map(|byte| SessionKey::from([byte; 16]));
        // A sealed response differs from a sealed request in one byte of the nonce.
        let sealed = seal(&key, 3, b"a response").unwrap();
        let request = SealedRequest::parse(&sealed).unwrap().unwrap();
        assert_eq!(request.number, 3);
        assert_eq!(open(&key, &request), None);
        let inner = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.bytes()).unwrap());
        let mut ciphertext = b"a request".to_vec();
        let tag = (inner)
            .seal_in_place_separate_tag(nonce(9, b'C'), Aad::empty(), &mut ciphertext)
            .unwrap();
        let request = SealedRequest {
            number: 9,
            tag: tag.as_ref().try_into().unwrap(),
            ciphertext,
        };
        assert_eq!(open(&key, &request).unwrap(), b"a request");
        assert_eq!(open(&other, &request), None);
        let renumbered = SealedRequest {
            number: 10,
            ..request
        };
        assert_eq!(open(&key, &renumbered), None);
    }

    #[test]
    fn partial_and_absurd_requests_are_told_apart() {
        let sealed = seal(&SessionKey::from([1; 16]), 3, b"text").unwrap();
        assert!(SealedRequest::is_begun(&sealed) && !SealedRequest::is_begun(b"OPTIONS"));
        for end in 0..sealed.len() {
            assert_eq!(SealedRequest::parse(&sealed[..end]), Ok(None));
        }
        assert_eq!(SealedRequest::parse(&[0xff; 64]), Err(InvalidRequest));
        assert_eq!(SealedRequest::parse(&[0x7f; 64]), Err(InvalidRequest));
    }
}
