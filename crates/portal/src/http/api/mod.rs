//! The handlers of the REST interface. `super::router` combines them.

pub(super) mod applications;
pub(super) mod login;
pub(super) mod oidc;
pub(super) mod operator;
pub(super) mod play;
pub(super) mod sessions;
