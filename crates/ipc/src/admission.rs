//! Admission of devices that connect through a gateway, such as browsers. Such devices share the device list and the
//! pairing window with native clients.

use std::net::SocketAddr;

use openuvr_proto::control::handshake::PinRefused;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketRefused;
use serde::{Deserialize, Serialize};

/// A device that requests admission. Its gateway has authenticated it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Admission {
    /// The key under which the host stores the device: [`foreign_key`](openuvr_proto::control::handshake::foreign_key).
    pub key: PublicKey,
    /// The name that it announces.
    pub name: DeviceName,
    /// The PIN that its user typed, if the device is unknown.
    pub pin: Option<Pin>,
    /// The presented ticket, if any. The PIN is then ignored.
    pub ticket: Option<String>,
    /// Its address, because wrong PINs are counted per address.
    #[serde(with = "openuvr_proto::validated::as_text")]
    pub from: SocketAddr,
}

/// Why a device is not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum AdmitRefused {
    /// It is unknown, because it never paired or was forgotten, and it sent no PIN.
    #[error("unknown device: enter the PIN that the host shows")]
    Unknown,
    /// The host forbids it.
    #[error("the host forbids this device")]
    Forbidden,
    /// Its PIN was refused.
    #[error("{0}")]
    Pin(PinRefused),
    /// Its ticket was refused.
    #[error("{0}")]
    Ticket(TicketRefused),
}

/// The result of a granted admission.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdmissionGrant {
    /// The name shown to users.
    pub title: String,
    /// The highest role that it may have.
    pub max_role: Role,
}
