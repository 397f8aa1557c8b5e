//! A device that has logged in through the page.

use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::Role;

/// A logged-in device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Visitor {
    /// The key under which the host stores it.
    pub(crate) device: PublicKey,
    /// The name that the device uses for itself.
    pub(crate) name: DeviceName,
    /// The name that the host uses for the device.
    pub(crate) title: String,
    /// The highest role that it may have.
    pub(crate) most: Role,
}
