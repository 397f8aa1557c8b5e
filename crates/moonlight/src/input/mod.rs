//! Input of clients: packets, keys, pointer and game pads.

mod events;
mod keys;
mod packet;
mod pads;

pub use self::events::Translator;
pub use self::keys::key_of;
pub use self::packet::{InputPacket, InvalidInput, TouchPhase};
pub use self::pads::Pads;
