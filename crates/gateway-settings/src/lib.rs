//! The types of a gateway's settings, and their parsers. These types have their own crate, so that a program can parse
//! a gateway's options without depending on the gateway's libraries.
#![forbid(unsafe_code)]

mod ice;
mod proxy_network;
mod public_address;
mod rtsp_token;
mod web_origin;

pub use self::ice::{IceFileError, IceServer, InvalidIceServer};
pub use self::proxy_network::{InvalidProxyNetwork, ProxyNetwork};
pub use self::public_address::{InvalidPublicAddress, PublicAddress};
pub use self::rtsp_token::is_rtsp_token;
pub use self::web_origin::{InvalidWebOrigin, WebOrigin};
