//! Video: packets, their parity and encryption, and the subscriber that sends them.

mod cipher;
mod galois;
mod packets;
mod parity;
mod subscriber;

pub use self::cipher::VideoCipher;
pub use self::packets::{
    FrameProperties, FrameTooLong, InvalidPacketSize, PacketCount, Packetizer,
};
pub use self::parity::{MAX_PACKETS, SOUND_DATA, SOUND_PARITY, parity, sound_parity};
pub use self::subscriber::VideoSubscriber;
