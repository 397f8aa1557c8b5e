//! Devices that come through a gateway, whose connection is somebody else's: a browser, say. They are let
//! in by the same list and the same pairing window as clients.

use std::net::SocketAddr;

use openuvr_proto::control::handshake::PinRefused;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketRefused;

/// A device that wants to come in. That it is who it says it is, its gateway has made sure of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Under what it is stored: [`foreign_key`](openuvr_proto::control::handshake::foreign_key).
    pub key: PublicKey,
    /// What it calls itself.
    pub name: DeviceName,
    /// What its person typed, if the device is not known yet.
    pub pin: Option<Pin>,
    /// The text of the ticket that it shows, if it does; then the PIN is not looked at.
    pub ticket: Option<String>,
    /// Where it is: wrong PINs are counted by that.
    pub from: SocketAddr,
}

/// Why a device does not come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitRefused {
    /// It never paired, or was forgotten, and gave no PIN.
    #[error("this host does not know this device: a PIN is needed")]
    Unknown,
    /// The host forbids it.
    #[error("the host forbids this device")]
    Forbidden,
    /// Its PIN did not do.
    #[error("{0}")]
    Pin(PinRefused),
    /// Its ticket did not do.
    #[error("{0}")]
    Ticket(TicketRefused),
}

/// How a device comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdmissionGrant {
    /// By which name people know it.
    pub title: String,
    /// As what at most.
    pub max_role: Role,
}

/// Hears whether it may.
pub(super) type AdmissionCallback = Box<dyn FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send>;
