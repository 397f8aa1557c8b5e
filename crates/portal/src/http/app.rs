//! The state that all requests share.

use std::sync::Arc;

use super::carried_connections::CarriedConnections;
use super::counts::Counts;
use super::health::Health;
use super::streams::Streams;
use crate::accounts::{Devices, LoginAttempts, Passwords};
use crate::catalogue::Catalogue;
use crate::oidc::Provider;
use crate::sessions::{Sessions, Tickets};
use crate::store::Store;
use crate::turn::Turn;

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) passwords: Passwords,
    pub(crate) attempts: Arc<LoginAttempts>,
    pub(crate) devices: Devices,
    /// The OpenID Connect provider, if configured.
    pub(crate) provider: Option<Provider>,
    /// Whether browsers connect over HTTPS.
    pub(crate) secure: bool,
    /// Whether `X-Forwarded-For` contains the client's address.
    pub(crate) behind_proxy: bool,
    pub(crate) metrics_token: Option<String>,
    pub(crate) counts: Counts,
    pub(crate) health: Health,
    pub(crate) streams: Arc<Streams>,
    /// Browser connections to sessions.
    pub(crate) carried_connections: CarriedConnections,
    /// ICE servers for browsers.
    pub(crate) turn: Turn,
}
