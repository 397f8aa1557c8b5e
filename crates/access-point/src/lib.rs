//! A radio link that only a host and its clients use: `openuvr ap`, and `openuvr client --via-ap`.
//!
//! ```text
//! host:    scan, survey ─► choice ─► hostapd + dnsmasq, or NetworkManager ─► name and key, text and QR code
//! client:  QR text ─► wpa_supplicant + a DHCP client, or NetworkManager ─► discovery of the host
//! ```
//! This is the peer-to-peer mode of the OpenUVR paper (section IV-B1): one hop instead of two, on the channel with the
//! least interference. Parsers, selection and configurations do no I/O. The distribution's programs are run as
//! processes; none of their libraries is linked. Each change of the machine's network is recorded before it is made
//! (`journal`), so that the next start can reverse the changes of an interrupted program.
//!
//! Limits: channels are at most 80 MHz wide. NetworkManager selects the width of its access points itself. It supports
//! no access points at 6 GHz. Decisions: `docs/adr/0028-access-point.md`.

#![deny(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod air;
mod by_hostapd;
mod by_network_manager;
mod by_wpa_supplicant;
mod card;
pub mod channel;
pub mod choice;
mod command;
mod credentials;
mod dhcp_client;
mod dnsmasq;
pub mod hostapd;
pub mod iw;
mod join;
mod journal;
mod key_file;
pub mod nmcli;
mod passphrase;
mod programs;
mod qr;
mod ssid;
mod subnet;
mod sys;
pub mod wpa_supplicant;

pub use command::{Args, Defaults, run};
pub use credentials::{Credentials, CredentialsError, Security};
pub use join::{Association, join};
pub use passphrase::Passphrase;
pub use ssid::Ssid;
