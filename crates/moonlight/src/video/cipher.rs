//! Encryption of video packets: AES-128-GCM with the session's key.
//!
//! Each packet has a prefix: nonce (12 bytes), frame number (4 bytes), tag (16 bytes). The ciphertext contains the
//! whole packet. The frame number is outside the ciphertext, so that clients can discard late packets early (`Video.h`,
//! `VideoStream.c` of moonlight-common-c).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;

use crate::session::SessionKey;

/// Length of the prefix.
const PREFIX: usize = 32;

/// Encrypts the video of one session. A key may have only one such cipher, because the nonces count packets from zero.
pub struct VideoCipher {
    key: LessSafeKey,
    packets: u64,
}

impl VideoCipher {
    /// Creates the cipher with the session's key.
    ///
    /// # Errors
    /// Returns an error if the cryptographic library refuses the key.
    pub fn new(key: &SessionKey) -> Result<VideoCipher, Unspecified> {
        Ok(VideoCipher {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.bytes())?),
            packets: 0,
        })
    }

    /// Writes the prefix and the ciphertext of `packet` to `sealed`.
    pub(super) fn seal(
        &mut self,
        frame: u32,
        packet: &[u8],
        sealed: &mut Vec<u8>,
    ) -> Result<(), Unspecified> {
        // The last byte distinguishes the uses of one key: V for video, C for the control stream, R for RTSP.
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.packets.to_le_bytes());
        nonce[NONCE_LEN - 1] = b'V';
        self.packets += 1;
        sealed.clear();
        sealed.extend(nonce);
        sealed.extend(frame.to_le_bytes());
        sealed.extend([0; 16]);
        sealed.extend_from_slice(packet);
        let (prefix, body) = sealed.split_at_mut(PREFIX);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = (self.key).seal_in_place_separate_tag(nonce, Aad::empty(), body)?;
        prefix[16..].copy_from_slice(tag.as_ref());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_opened_by_the_key_and_no_nonce_repeats() {
        let key = SessionKey::from([7; 16]);
        let mut cipher = VideoCipher::new(&key).unwrap();
        let mut nonces = Vec::new();
        for frame in 1..4 {
            let mut sealed = Vec::new();
            cipher.seal(frame, b"a packet", &mut sealed).unwrap();
            let nonce: [u8; NONCE_LEN] = sealed[..12].try_into().unwrap();
            assert_eq!(sealed[12..16], frame.to_le_bytes());
            assert!(!nonces.contains(&nonce));
            nonces.push(nonce);
            let (tag, mut body) = (sealed[16..32].to_vec(), sealed[32..].to_vec());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let opened = (cipher.key)
                .open_in_place_separate_tag(nonce, Aad::empty(), &tag, &mut body)
                .unwrap();
            assert_eq!(opened, b"a packet");
        }
    }
}
