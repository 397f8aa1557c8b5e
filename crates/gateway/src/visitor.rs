//! A device that has logged in through the page.

use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::Role;

/// A device that has logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Visitor {
    /// Under what the host stores it.
    pub(crate) device: PublicKey,
    /// What it calls itself.
    pub(crate) name: DeviceName,
    /// How people know it.
    pub(crate) title: String,
    /// As what it may come at most.
    pub(crate) most: Role,
}
