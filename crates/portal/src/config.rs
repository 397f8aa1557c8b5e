//! The portal's configuration: a file in TOML, and what the command line says instead.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::acme::AcmeSection;
use crate::launch::kubernetes::{Network, SHARED_MEMORY};
use crate::oidc::OidcSection;
use crate::turn::TurnSection;

/// All that can be said. Paths count from the file's folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where browsers are answered.
    pub(crate) listen: SocketAddr,
    /// What the portal keeps: the database, what runs, saves.
    pub(crate) data: PathBuf,
    /// `postgres://…`; else SQLite in `data`.
    pub(crate) database: Option<String>,
    /// The certificate's chain, as PEM.
    pub(crate) certificate: Option<PathBuf>,
    /// Its key, as PEM.
    pub(crate) key: Option<PathBuf>,
    /// A proxy on this machine or in front of it speaks HTTPS, and says in `X-Forwarded-For` who asks.
    pub(crate) behind_proxy: bool,
    /// Passwords may cross the network for all to read.
    pub(crate) plain_http: bool,
    /// The file of applications.
    pub(crate) applications: PathBuf,
    /// The engine that sessions run on.
    pub(crate) launcher: String,
    /// A file of STUN and TURN servers for sessions, under this path wherever they run.
    pub(crate) ice_file: Option<PathBuf>,
    /// With this word as a bearer token `/metrics` is answered without a log-in.
    pub(crate) metrics_token: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) local: LocalSection,
    pub(crate) kubernetes: Option<KubernetesSection>,
    pub(crate) slurm: SlurmSection,
    pub(crate) oidc: Option<OidcSection>,
    pub(crate) turn: Option<TurnSection>,
    pub(crate) acme: Option<AcmeSection>,
}

/// What a person may have, and how long things may take.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Sessions of one person at a time, unless the account says otherwise.
    pub(crate) sessions: u32,
    /// Seconds from a session's start until it must run.
    pub(crate) start: u64,
    /// Seconds that a session waits for a place.
    pub(crate) queue: u64,
    /// Seconds that a session has to end when it is stopped.
    pub(crate) grace: u64,
}

/// How sessions run on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LocalSection {
    /// The program of a session with its first words.
    pub(crate) program: Vec<String>,
    /// Where media of sessions and native clients are answered; their ports are free ones.
    pub(crate) listen: IpAddr,
    /// Sessions at a time.
    pub(crate) places: u32,
    /// GPUs that they have together.
    pub(crate) gpus: u32,
    /// Sessions that wait for a place at most.
    pub(crate) queue: u32,
    /// Names of variables of the portal's environment that sessions get beside those that programs need.
    pub(crate) environment: Vec<String>,
}

/// How sessions run on a cluster of Kubernetes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KubernetesSection {
    /// The image that has the program of sessions.
    pub(crate) image: String,
    /// How the API server is reached; else as kubectl does it, or as a Pod of the cluster.
    #[serde(default)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where Pods are made.
    #[serde(default = "namespace")]
    pub(crate) namespace: String,
    /// The program of a session with its first words.
    #[serde(default = "program_of_clusters")]
    pub(crate) program: Vec<String>,
    /// The claim of a volume that all nodes share, for saves.
    #[serde(default)]
    pub(crate) saves: Option<String>,
    /// The group of the volume, which the program is in.
    #[serde(default = "saves_group")]
    pub(crate) saves_group: i64,
    /// `pod` for that of Pods, or `host` for that of the node.
    #[serde(default)]
    pub(crate) network: Network,
    /// The user and group of the program, by number.
    #[serde(default = "saves_group")]
    pub(crate) user: i64,
    /// Secrets with which nodes fetch the image.
    #[serde(default)]
    pub(crate) pull_secrets: Vec<String>,
    /// The runtime of the containers.
    #[serde(default)]
    pub(crate) runtime_class: Option<String>,
    /// The size of `/dev/shm`.
    #[serde(default = "shared_memory_mib")]
    pub(crate) shared_memory_mib: u64,
}

fn shared_memory_mib() -> u64 {
    SHARED_MEMORY >> 20
}

/// That of the account in `crates/portal/deploy/Containerfile`.
fn saves_group() -> i64 {
    1000
}

fn namespace() -> String {
    "openuvr".to_owned()
}

/// At all addresses of a machine, since none is known here.
fn program_of_clusters() -> Vec<String> {
    ["openuvr", "session", "--listen=0.0.0.0"]
        .map(str::to_owned)
        .into()
}

/// How sessions run on a cluster of Slurm.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SlurmSection {
    /// The program of a session with its first words, on the nodes.
    pub(crate) program: Vec<String>,
    /// More options of `sbatch`.
    pub(crate) options: Vec<String>,
    /// The partition, where an application names none.
    pub(crate) partition: Option<String>,
    /// More options of `sbatch` for one application, by its name.
    pub(crate) application_options: BTreeMap<String, Vec<String>>,
    /// More options of `sbatch` for one person, by the account's name.
    pub(crate) user_options: BTreeMap<String, Vec<String>>,
    /// Jobs are submitted by the person's own account of the cluster.
    pub(crate) as_user: bool,
    /// The folder of jobs' logs, which the nodes have under the same path.
    pub(crate) logs: Option<PathBuf>,
}

impl Default for SlurmSection {
    fn default() -> SlurmSection {
        SlurmSection {
            program: program_of_clusters(),
            options: Vec::new(),
            partition: None,
            application_options: BTreeMap::new(),
            user_options: BTreeMap::new(),
            as_user: false,
            logs: None,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8600)),
            data: PathBuf::new(),
            database: None,
            certificate: None,
            key: None,
            behind_proxy: false,
            plain_http: false,
            applications: "applications.toml".into(),
            launcher: crate::launch::local::NAME.to_owned(),
            ice_file: None,
            metrics_token: None,
            limits: Limits::default(),
            local: LocalSection::default(),
            kubernetes: None,
            slurm: SlurmSection::default(),
            oidc: None,
            turn: None,
            acme: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1,
            start: 60,
            queue: 600,
            grace: 10,
        }
    }
}

impl Default for LocalSection {
    fn default() -> LocalSection {
        LocalSection {
            program: vec!["openuvr".to_owned(), "session".to_owned()],
            listen: IpAddr::from([127, 0, 0, 1]),
            places: 2,
            gpus: 0,
            queue: 8,
            environment: Vec::new(),
        }
    }
}

/// Reads the file, if one is named, and makes its paths whole.
///
/// # Errors
/// It can't be read, says something unknown, or there is no folder for what the portal keeps.
pub(crate) fn read(file: Option<&Path>, data: Option<&Path>) -> Result<Config> {
    let mut config = match file {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let mut config: Config =
                toml::from_str(&text).with_context(|| file.display().to_string())?;
            let folder = file.parent().unwrap_or(Path::new("."));
            for path in [&mut config.applications, &mut config.data] {
                if !path.as_os_str().is_empty() {
                    *path = folder.join(&*path);
                }
            }
            let cluster = config
                .kubernetes
                .as_mut()
                .and_then(|of| of.kubeconfig.as_mut());
            let logs = config.slurm.logs.as_mut();
            let oidc = config.oidc.as_mut();
            let (secret, ca) = oidc.map_or((None, None), |of| {
                (of.client_secret_file.as_mut(), of.ca.as_mut())
            });
            let relay = (config.turn.as_mut()).and_then(|of| of.secret_file.as_mut());
            let authority = (config.acme.as_mut()).and_then(|of| of.ca.as_mut());
            let (certificate, key) = (config.certificate.as_mut(), config.key.as_mut());
            let ice = config.ice_file.as_mut();
            let paths = [
                certificate,
                key,
                cluster,
                logs,
                secret,
                ca,
                ice,
                relay,
                authority,
            ];
            for path in paths.into_iter().flatten() {
                *path = folder.join(&*path);
            }
            // Sessions run in folders of their own.
            if let Some(ice) = config.ice_file.as_mut() {
                *ice = absolute(&*ice).with_context(|| ice.display().to_string())?;
            }
            config
        }
        None => Config::default(),
    };
    if let Some(data) = data {
        config.data = data.to_owned();
    } else if config.data.as_os_str().is_empty() {
        config.data = default_data()?;
    }
    if file.is_none() {
        config.applications = config.data.join("applications.toml");
    }
    // What was said outside the file: a password need not stand in it.
    if let Ok(url) = std::env::var("OPENUVR_PORTAL_DATABASE") {
        config.database = Some(url);
    }
    Ok(config)
}

/// `$XDG_DATA_HOME/openuvr/portal`, else `~/.local/share/openuvr/portal` (XDG Base Directory Specification 0.8).
fn default_data() -> Result<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let base = of("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| of("HOME").map(|home| home.join(".local/share")));
    match base {
        Some(base) => Ok(base.join("openuvr/portal")),
        None => bail!(
            "neither XDG_DATA_HOME nor HOME is set: say where the portal keeps things (--data FOLDER)"
        ),
    }
}

impl Config {
    /// Whether browsers reach it by HTTPS, as far as it knows.
    pub(crate) fn is_secure(&self) -> bool {
        self.certificate.is_some() || self.acme.is_some() || self.behind_proxy
    }

    /// What does not go together.
    ///
    /// # Errors
    /// One line that says what to do.
    pub(crate) fn check(&self) -> Result<()> {
        if self.certificate.is_some() != self.key.is_some() {
            bail!("a certificate needs its key, and a key its certificate: say both or neither");
        }
        if let Some(acme) = &self.acme {
            if self.certificate.is_some() {
                bail!("a certificate is had by [acme] or from files, not both: leave one out");
            }
            acme.check()?;
        }
        let open = !self.listen.ip().is_loopback() && !self.is_secure();
        if open && !self.plain_http {
            bail!(
                "at {} passwords would cross the network for all to read: say certificate and key, or [acme]; or \
                 behind_proxy = true, if a proxy speaks HTTPS in front; or plain_http = true, if you want \
                 it so",
                self.listen
            );
        }
        if let Some(oidc) = &self.oidc {
            oidc.check().map_err(anyhow::Error::msg)?;
        }
        if self.slurm.as_user && self.slurm.logs.is_some() {
            bail!(
                "slurm.logs and slurm.as_user do not go together: the portal is root, and would follow links that other \
                 accounts make in the folder of logs; leave one of them out"
            );
        }
        if self.local.program.is_empty() {
            bail!(
                "local.program is empty: it names the program of sessions, as [\"openuvr\", \"session\"]"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_cross_a_network_unseen_of() {
        let at = |listen: &str| Config {
            listen: listen.parse().unwrap(),
            ..Config::default()
        };
        at("127.0.0.1:80").check().unwrap();
        at("[::1]:80").check().unwrap();
        let refused = at("0.0.0.0:80").check().unwrap_err().to_string();
        assert!(refused.contains("behind_proxy"), "{refused}");
        let mut told = at("0.0.0.0:80");
        told.plain_http = true;
        told.check().unwrap();
        assert!(!told.is_secure());
        let mut proxied = at("0.0.0.0:80");
        proxied.behind_proxy = true;
        proxied.check().unwrap();
        let mut half = at("0.0.0.0:80");
        half.certificate = Some("a.pem".into());
        half.check().unwrap_err();
    }

    #[test]
    fn root_reads_no_logs_that_other_accounts_write() {
        let check = |text: &str| toml::from_str::<Config>(text).unwrap().check();
        check("slurm.as_user = true").unwrap();
        check("slurm.logs = '/logs'").unwrap();
        check("slurm = { as_user = true, logs = '/logs' }").unwrap_err();
    }

    #[test]
    fn a_word_that_is_none_is_named() {
        let wrong = toml::from_str::<Config>("listne = \"127.0.0.1:1\"").unwrap_err();
        assert!(wrong.to_string().contains("listne"), "{wrong}");
    }
}
