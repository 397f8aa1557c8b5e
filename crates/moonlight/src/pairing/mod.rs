//! Pairing by a PIN that the client shows and a person enters at the host.
//!
//! The protocol's weakness and its limits here: a client that knows the host's secret, which the third step tells
//! it, can find the PIN of four digits by trial. It must have committed itself to the PIN before, in the same step.
//! Hence each step is accepted once, one pairing runs at a time, and a wrong PIN needs another PIN at the host.

mod certificate;
mod desk;
mod exchange;
mod pins;

pub use self::certificate::{ClientCertificate, InvalidCertificate};
pub(crate) use self::desk::{Begun, Desk, PairingEnd};
pub use self::exchange::{Exchange, ExchangeError, HostRandom};
pub use self::pins::{OfferError, OfferedPin, PinFile, offer};
