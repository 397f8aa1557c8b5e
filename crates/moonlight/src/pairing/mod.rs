//! Pairing with a PIN that the client shows and the user enters at the host.
//!
//! The protocol has a weakness: a client that knows the host's secret, which the third step reveals, can find the PIN of
//! four digits by trial. It must, however, have committed itself to the PIN before, in the same step. Therefore each step is
//! accepted once, one pairing runs at a time, and after a wrong PIN the host requires a new one.

mod certificate;
mod desk;
mod exchange;
mod pins;

pub use self::certificate::{ClientCertificate, InvalidCertificate};
pub(crate) use self::desk::{Begun, Desk, PairingEnd};
pub use self::exchange::{Exchange, ExchangeError, HostRandom};
pub use self::pins::{OfferError, OfferedPin, PinFile, offer};
