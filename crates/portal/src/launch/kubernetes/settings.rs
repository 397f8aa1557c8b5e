//! Settings of the Kubernetes launcher. A portal without this launcher reads them, too, and reports that it is missing.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// Size of `/dev/shm` in bytes. Browsers and games place images there, and the default of a container is 64 MiB. A guess,
/// for a few buffers of 3840x2160 pixels.
pub const SHARED_MEMORY: u64 = 256 << 20;

/// Configuration of the Kubernetes launcher.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// kubeconfig file; by default as for kubectl, or as for a Pod of the cluster itself.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Pods.
    pub namespace: String,
    /// Image with the session program.
    pub image: String,
    /// The program and its first arguments, which replace the image's command; empty: the image's command.
    pub program: Vec<String>,
    /// Resource name of GPUs.
    pub gpu: String,
    /// Node label by which [`LaunchSpec::zone`](crate::launch::LaunchSpec::zone) selects.
    pub zone: String,
    /// How long a node may be unreachable before its sessions are lost. The default of Kubernetes, 5 minutes, is too long
    /// for a player.
    pub unreachable: Duration,
    /// Volume for saves. Without it, they are deleted with the Pod.
    pub saves: Option<SavesVolume>,
    /// Network of the Pods.
    pub network: Network,
    /// UID and GID of the program, which must not be root (Pod Security Standards, "restricted").
    pub user: i64,
    /// Image pull secrets (`imagePullSecrets`).
    pub pull_secrets: Vec<String>,
    /// Runtime class of the containers (`runtimeClassName`), if not the cluster's default.
    pub runtime_class: Option<String>,
    /// Size of `/dev/shm` in bytes; counts as memory of the Pod.
    pub shared_memory: u64,
}

/// Network of a session's Pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The Pod network. The portal connects to it; media needs a relay (TURN) that can reach it; and native clients cannot
    /// connect unless Pod addresses are routed to them.
    #[default]
    Pod,
    /// The node's network (`hostNetwork`). Media flows directly to browsers and native clients. The namespace must be exempt
    /// from the Pod Security Standards "baseline" and "restricted".
    Host,
}

/// A volume shared by all nodes, with the saves of all users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavesVolume {
    /// Its claim (PersistentVolumeClaim), in the namespace of the Pods.
    pub claim: String,
    /// Its root in the arguments of a session: `--save=ROOT/USER/APPLICATION`. A Pod mounts only its own folder there.
    pub root: PathBuf,
    /// Its group, which is a supplementary group of the program.
    pub group: i64,
}

impl KubernetesConfig {
    /// Default configuration for an image.
    #[must_use]
    pub fn new(image: impl Into<String>) -> KubernetesConfig {
        KubernetesConfig {
            kubeconfig: None,
            namespace: "openuvr".to_owned(),
            image: image.into(),
            program: Vec::new(),
            gpu: "nvidia.com/gpu".to_owned(),
            zone: "topology.kubernetes.io/zone".to_owned(),
            unreachable: Duration::from_secs(20),
            saves: None,
            network: Network::default(),
            user: 1000,
            pull_secrets: Vec::new(),
            runtime_class: None,
            shared_memory: SHARED_MEMORY,
        }
    }
}
