//! The threads of a host and a client.

pub mod identity_store;
pub mod store;
pub mod trust_store;
