//! The settings of a gateway as types, parsed once. Because they have their own crate, a program without a gateway can
//! use a gateway's options without the gateway's libraries.
#![forbid(unsafe_code)]

mod ice;
mod proxy_network;
mod public_address;
mod web_origin;

pub use self::ice::{IceFileError, IceServer, InvalidIceServer};
pub use self::proxy_network::{InvalidProxyNetwork, ProxyNetwork};
pub use self::public_address::{InvalidPublicAddress, PublicAddress};
pub use self::web_origin::{InvalidWebOrigin, WebOrigin};
