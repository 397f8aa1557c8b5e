//! The control stream: messages over ENet, sealed with AES-GCM.

mod cipher;
mod message;
mod peers;
mod server;
mod socket;
mod wants;

pub use self::cipher::{ControlCipher, OpenError};
pub use self::message::{InvalidMessage, Message, Outgoing};
pub(crate) use self::server::serve;
pub use self::wants::Wants;
