//! Settings of the Kubernetes launcher. A portal built without this launcher reads the settings, too, and reports that
//! the launcher is missing.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// Size of `/dev/shm` in bytes. Browsers and games store images there, and the default of 64 MiB for a container is too
/// small. A guess: a few buffers of 3840x2160 pixels.
pub const SHARED_MEMORY: u64 = 256 << 20;

/// Configuration of the Kubernetes launcher.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// kubeconfig file. If it is `None`, the launcher uses the file that kubectl would use, or the service account of
    /// the portal's own Pod.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Pods.
    pub namespace: String,
    /// Image with the session program.
    pub image: String,
    /// The session program and its first arguments. They replace the image's command. If the list is empty, the image's
    /// command runs.
    pub program: Vec<String>,
    /// Name of the GPU resource.
    pub gpu: String,
    /// The node label whose value must equal [`LaunchSpec::zone`](crate::launch::LaunchSpec::zone).
    pub zone: String,
    /// How long a node may be unreachable before its sessions count as lost. Kubernetes' default of 5 minutes is too
    /// long for a player.
    pub unreachable: Duration,
    /// Volume for saves. Without a volume, saves are deleted with the Pod.
    pub saves: Option<SavesVolume>,
    /// Network of the Pods.
    pub network: Network,
    /// UID and GID of the program. Root is not allowed (Pod Security Standards, "restricted").
    pub user: i64,
    /// Image pull secrets (`imagePullSecrets`).
    pub pull_secrets: Vec<String>,
    /// Runtime class of the containers (`runtimeClassName`); `None` for the cluster's default.
    pub runtime_class: Option<String>,
    /// Size of `/dev/shm` in bytes. Its content counts as memory of the Pod.
    pub shared_memory: u64,
}

/// Network of a session's Pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The Pod network. The portal connects to Pod addresses. Media needs a relay (TURN) that can reach these
    /// addresses. Native clients can connect only if they have a route to Pod addresses.
    #[default]
    Pod,
    /// The node's network (`hostNetwork`). Media flows directly to browsers and native clients. The namespace must be exempt
    /// from the Pod Security Standards "baseline" and "restricted".
    Host,
}

/// A volume with the saves of all users. All nodes share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavesVolume {
    /// The volume's claim (PersistentVolumeClaim), in the namespace of the Pods.
    pub claim: String,
    /// The path of the volume's root in a session's arguments: `--save=ROOT/USER/APPLICATION`. A Pod mounts only this
    /// one folder of the volume.
    pub root: PathBuf,
    /// The volume's group. It is a supplementary group of the program.
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
