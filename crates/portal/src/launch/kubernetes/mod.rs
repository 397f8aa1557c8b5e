//! Sessions as Kubernetes Pods, one Pod per session, through the Kubernetes API.
//!
//! A Pod is named `ouvr-SESSION`, so that the API server itself rejects duplicates. The Pod belongs to no Job or
//! Deployment, because a controller must not restart a session. The Pod's annotations contain the portal's data about
//! the session. The program prints the endpoint as one line to the log. The portal reads this line once and stores it
//! in an annotation. Therefore, the list of Pods contains everything that a restarted portal needs.
//!
//! The portal's permissions are in `packaging/chart/templates/rbac.yaml`.

#[cfg(feature = "kubernetes")]
pub(crate) mod endpoints;
#[cfg(feature = "kubernetes")]
mod launcher;
#[cfg(feature = "kubernetes")]
pub(crate) mod phase;
#[cfg(feature = "kubernetes")]
pub(crate) mod pod;
#[cfg(feature = "kubernetes")]
mod ports;
#[cfg(feature = "kubernetes")]
mod response_timeout;
mod settings;
#[cfg(feature = "kubernetes")]
mod volumes;

#[cfg(feature = "kubernetes")]
pub use self::launcher::Kubernetes;
pub use self::settings::{
    HostPorts, HostPortsError, KubernetesConfig, Network, SCRATCH, SHARED_MEMORY, SavesVolume,
};

/// Name in the configuration.
pub const NAME: &str = "kubernetes";
