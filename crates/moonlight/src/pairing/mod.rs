//! Pairing with a PIN that the client shows and the user enters at the host.
//!
//! The protocol has a weakness: the third step reveals the host's secret, with which a client can find the four-digit
//! PIN by trial and error. However, the client must commit itself to a PIN in the same step, before it receives the
//! secret. Therefore each step is accepted once, one pairing runs at a time, and after a wrong PIN the host requires a
//! new PIN.

mod certificate;
mod desk;
mod exchange;
mod pins;

pub use self::certificate::{ClientCertificate, InvalidCertificate};
pub(crate) use self::desk::{Begun, Desk, PairingEnd};
pub use self::exchange::{Exchange, ExchangeError, HostRandom};
pub use self::pins::{OfferError, OfferedPin, PinFile, offer};
