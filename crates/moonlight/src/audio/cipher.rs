//! Encryption of sound: AES-128-CBC with PKCS #7 padding. It hides the sound but does not authenticate it; the protocol has
//! nothing better for sound (`AudioStream.c` of moonlight-common-c).

use aws_lc_rs::cipher::{
    AES_128, AES_CBC_IV_LEN, EncryptionContext, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;

use crate::session::SessionKey;

/// Encrypts the sound of one session.
pub struct SoundCipher {
    key: PaddedBlockEncryptingKey,
    key_id: u32,
}

impl SoundCipher {
    /// Creates the cipher with the session's key and the key's number.
    ///
    /// # Errors
    /// Returns an error if the cryptographic library refuses the key.
    pub fn new(key: &SessionKey, key_id: u32) -> Result<SoundCipher, Unspecified> {
        let key = UnboundCipherKey::new(&AES_128, key.bytes())?;
        Ok(SoundCipher {
            key: PaddedBlockEncryptingKey::cbc_pkcs7(key)?,
            key_id,
        })
    }

    /// Encrypts the packet with this sequence number. The protocol derives the initialization vector from the key's
    /// number and the sequence number.
    ///
    /// # Errors
    /// Returns an error if the cryptographic library fails.
    pub fn seal(&self, sequence: u16, packet: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut vector = [0; AES_CBC_IV_LEN];
        let number = self.key_id.wrapping_add(sequence.into());
        vector[..4].copy_from_slice(&number.to_be_bytes());
        let context = EncryptionContext::Iv128(FixedLength::from(vector));
        let mut sealed = packet.to_vec();
        self.key.less_safe_encrypt(&mut sealed, context)?;
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::cipher::{DecryptionContext, PaddedBlockDecryptingKey};

    use super::*;

    #[test]
    fn clients_decrypt_with_the_vector_of_the_protocol() {
        let key = SessionKey::from([3; 16]);
        let cipher = SoundCipher::new(&key, u32::MAX).unwrap();
        let mut sealed = cipher.seal(5, b"an Opus packet").unwrap();
        assert_eq!(sealed.len(), 16);
        let unbound = UnboundCipherKey::new(&AES_128, key.bytes()).unwrap();
        let opening = PaddedBlockDecryptingKey::cbc_pkcs7(unbound).unwrap();
        let mut vector = [0; 16];
        // u32::MAX + 5, wrapped.
        vector[3] = 4;
        let context = DecryptionContext::Iv128(FixedLength::from(vector));
        let opened = opening.decrypt(&mut sealed, context).unwrap();
        assert_eq!(opened, b"an Opus packet");
    }
}
