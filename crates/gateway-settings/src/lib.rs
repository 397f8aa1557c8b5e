//! The settings of a gateway as types, parsed once. They have their own crate, so that a program without a gateway can use a
//! gateway's options without its libraries.
#![forbid(unsafe_code)]

mod ice;
mod proxy_network;
mod public_address;
mod web_origin;

pub use self::ice::{IceFileError, IceServer, InvalidIceServer};
pub use self::proxy_network::{InvalidProxyNetwork, ProxyNetwork};
pub use self::public_address::{InvalidPublicAddress, PublicAddress};
pub use self::web_origin::{InvalidWebOrigin, WebOrigin};
