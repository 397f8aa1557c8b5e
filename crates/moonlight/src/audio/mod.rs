//! Sound: Opus packets of constant length, their parity and encryption.

mod cipher;
mod listener;
mod multistream;
mod packets;
mod padding;

pub use self::cipher::SoundCipher;
pub use self::listener::listen;
pub use self::multistream::{Layout, surround_parameters};
pub use self::packets::SoundPackets;
pub use self::padding::padded;
