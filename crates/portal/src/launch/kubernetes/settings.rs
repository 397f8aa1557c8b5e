//! Settings of the Kubernetes launcher. A portal that was built without this launcher reads them, too, and reports that
//! the launcher is missing.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// Size of `/dev/shm` in bytes. Browsers and games store images there, and the default of 64 MiB for a container is too
/// small. A guess: a few buffers of 3840x2160 pixels.
pub const SHARED_MEMORY: u64 = 256 << 20;

/// Size of `/tmp` and of the home folder in bytes, each. A guess: enough for the caches of a game.
pub const SCRATCH: u64 = 4 << 30;

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
    /// Size of `/tmp` and of the home folder in bytes, each. A Pod that exceeds this size is evicted.
    pub scratch: u64,
    /// UDP ports on the nodes, forwarded to sessions in the Pod network; `None` if players use a relay.
    pub host_ports: Option<HostPorts>,
}

/// Network of a session's Pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The Pod network. The portal connects to Pod addresses. Without [`KubernetesConfig::host_ports`], media needs a
    /// relay (TURN) that can reach these addresses. Native clients then need a route to the addresses.
    #[default]
    Pod,
    /// The node's network (`hostNetwork`). Media flows directly to browsers and native clients. The namespace must be exempt
    /// from the Pod Security Standards "baseline" and "restricted".
    Host,
}

/// A range of ports on the nodes, such as `20000-20999`. Each session uses two consecutive ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPorts {
    first: u16,
    last: u16,
}

/// The text is not a range of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected FIRST-LAST: at least two ports, none below 1024, such as 20000-20999")]
pub struct HostPortsError;

impl FromStr for HostPorts {
    type Err = HostPortsError;

    fn from_str(text: &str) -> Result<HostPorts, HostPortsError> {
        let (first, last) = text.split_once('-').ok_or(HostPortsError)?;
        let [first, last] = [first, last].map(|port| port.trim().parse::<u16>());
        match (first, last) {
            (Ok(first), Ok(last)) if first >= 1024 && first < last => Ok(HostPorts { first, last }),
            _ => Err(HostPortsError),
        }
    }
}

impl TryFrom<String> for HostPorts {
    type Error = HostPortsError;

    fn try_from(text: String) -> Result<HostPorts, HostPortsError> {
        text.parse()
    }
}

impl HostPorts {
    /// Number of pairs of ports, at least 1.
    #[must_use]
    pub fn pairs(self) -> u32 {
        (u32::from(self.last) - u32::from(self.first)).div_ceil(2)
    }

    /// The first port of a pair, counted from 0.
    #[must_use]
    pub fn pair(self, index: u32) -> u16 {
        let offset = u16::try_from(index.saturating_mul(2)).unwrap_or(u16::MAX);
        self.first.saturating_add(offset)
    }
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
            scratch: SCRATCH,
            host_ports: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_has_whole_pairs() {
        let range: HostPorts = "20000-20004".parse().unwrap();
        assert_eq!(range.pairs(), 2);
        assert_eq!([0, 1].map(|index| range.pair(index)), [20000, 20002]);
        let whole: HostPorts = "1024-65535".parse().unwrap();
        assert_eq!(whole.pair(whole.pairs() - 1), 65534);
        for wrong in [
            "",
            "20000",
            "20000-20000",
            "20001-20000",
            "80-90",
            "1024-65536",
        ] {
            assert_eq!(wrong.parse::<HostPorts>(), Err(HostPortsError), "{wrong}");
        }
    }
}
