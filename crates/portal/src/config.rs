//! The portal's configuration: a TOML file, with overrides from the command line and the environment.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context as _, Result, bail};
use openuvr_terminal::shell;
use serde::Deserialize;

use crate::acme::AcmeSection;
use crate::launch::kubernetes::{self, HostPorts, Network, SCRATCH, SHARED_MEMORY};
use crate::launch::{LAUNCHERS, local, slurm};
use crate::oidc::OidcSection;
use crate::turn::TurnSection;

/// All settings. Relative paths are resolved against the configuration file's folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The configuration file; `None` without one.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    /// Data folder: database, running sessions, saves.
    pub(crate) data: PathBuf,
    /// URL of a PostgreSQL database (`postgres://…`). `None` selects an SQLite file in `data`.
    pub(crate) database: Option<String>,
    /// Whether `database` is from the environment.
    #[serde(skip)]
    pub(crate) database_from_environment: bool,
    /// Certificate chain, as PEM.
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    pub(crate) key: Option<PathBuf>,
    /// Whether a reverse proxy provides HTTPS and passes the client's address in `X-Forwarded-For`.
    pub(crate) behind_proxy: bool,
    /// Whether passwords may cross the network unencrypted.
    pub(crate) plain_http: bool,
    /// The file of applications.
    pub(crate) applications: PathBuf,
    /// The engine that runs sessions.
    pub(crate) launcher: String,
    /// Path of a file with STUN and TURN servers for sessions. The path must be valid on every machine that runs
    /// sessions.
    pub(crate) ice_file: Option<PathBuf>,
    /// Bearer token that grants access to `/metrics` without a log-in.
    pub(crate) metrics_token: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) local: LocalSection,
    pub(crate) kubernetes: Option<KubernetesSection>,
    pub(crate) slurm: SlurmSection,
    pub(crate) oidc: Option<OidcSection>,
    pub(crate) turn: Option<TurnSection>,
    pub(crate) acme: Option<AcmeSection>,
}

/// Limits per user, and timeouts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Concurrent sessions per user, unless the account overrides it.
    pub(crate) sessions: u32,
    /// Maximum time in seconds that a session may take to start, not counting its time in the queue.
    pub(crate) start: u64,
    /// Maximum time in seconds that a session may be queued.
    pub(crate) queue: u64,
    /// Seconds that a session has for shutting down.
    pub(crate) grace: u64,
}

/// Maximum of the timeouts in [`Limits`]: 30 days. Far larger values would overflow a clock.
const MAX_LIMIT: u64 = 30 * 86_400;

/// Sessions on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LocalSection {
    /// The session program and its first arguments.
    pub(crate) program: Vec<String>,
    /// IP address at which sessions receive media and accept native clients. The system assigns the ports.
    pub(crate) listen: IpAddr,
    /// Maximum number of concurrent sessions.
    pub(crate) places: u32,
    /// Maximum number of GPUs that all sessions together use.
    pub(crate) gpus: u32,
    /// Maximum number of queued sessions.
    pub(crate) queue: u32,
    /// Names of the portal's environment variables that sessions inherit in addition to the default ones.
    pub(crate) environment: Vec<String>,
}

/// Sessions on a Kubernetes cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "kubernetes"),
    expect(
        dead_code,
        reason = "a portal without this launcher checks its settings, too"
    )
)]
pub(crate) struct KubernetesSection {
    /// Container image with the session program.
    pub(crate) image: String,
    /// kubeconfig file. Without it, the portal uses the file that kubectl would use, or the service account of its own
    /// Pod.
    #[serde(default)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace of the Pods.
    #[serde(default = "namespace")]
    pub(crate) namespace: String,
    /// The session program and its first arguments.
    #[serde(default = "program_of_clusters")]
    pub(crate) program: Vec<String>,
    /// PersistentVolumeClaim of the volume for saves, which all nodes share.
    #[serde(default)]
    pub(crate) saves: Option<String>,
    /// Group of the volume for saves. It is a supplementary group of the session program.
    #[serde(default = "saves_group")]
    pub(crate) saves_group: i64,
    /// Network of a session's Pod: `pod` for the Pod network, or `host` for the node's network.
    #[serde(default)]
    pub(crate) network: Network,
    /// UID and GID of the session program.
    #[serde(default = "saves_group")]
    pub(crate) user: i64,
    /// Image pull secrets.
    #[serde(default)]
    pub(crate) pull_secrets: Vec<String>,
    /// Runtime class of the containers.
    #[serde(default)]
    pub(crate) runtime_class: Option<String>,
    /// Size of `/dev/shm` in MiB.
    #[serde(default = "shared_memory_mib")]
    pub(crate) shared_memory_mib: u64,
    /// Size of `/tmp` and of the home folder in MiB, each.
    #[serde(default = "scratch_mib")]
    pub(crate) scratch_mib: u64,
    /// UDP ports on the nodes, forwarded to sessions in the Pod network.
    #[serde(default)]
    pub(crate) host_ports: Option<HostPorts>,
}

fn shared_memory_mib() -> u64 {
    SHARED_MEMORY >> 20
}

fn scratch_mib() -> u64 {
    SCRATCH >> 20
}

/// The UID and GID of the account in the images of `./dev image`.
fn saves_group() -> i64 {
    1000
}

fn namespace() -> String {
    "openuvr".to_owned()
}

/// The default session program of clusters. It listens on all IPv4 addresses, because the portal does not know the node
/// in advance.
fn program_of_clusters() -> Vec<String> {
    ["openuvr", "session", "--listen=0.0.0.0"]
        .map(str::to_owned)
        .into()
}

/// Sessions on a Slurm cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SlurmSection {
    /// The session program and its first arguments, on the nodes.
    pub(crate) program: Vec<String>,
    /// Additional `sbatch` options.
    pub(crate) options: Vec<String>,
    /// Partition for applications that specify none.
    pub(crate) partition: Option<String>,
    /// Additional `sbatch` options by application name.
    pub(crate) application_options: BTreeMap<String, Vec<String>>,
    /// Additional `sbatch` options by account name.
    pub(crate) user_options: BTreeMap<String, Vec<String>>,
    /// Whether jobs are submitted under the user's own account of the cluster.
    pub(crate) as_user: bool,
    /// Folder for the logs of jobs. It has the same path on the portal's machine and on the nodes.
    pub(crate) logs: Option<PathBuf>,
}

impl SlurmSection {
    /// The first configured `sbatch` option that replaces a job's name or comment, or makes the job an array.
    fn unusable_option(&self) -> Option<&str> {
        let of_applications = self.application_options.values().flatten();
        let of_users = self.user_options.values().flatten();
        let all = self.options.iter().chain(of_applications).chain(of_users);
        let mut all = all.map(String::as_str);
        all.find(|option| {
            let name = option.split_once('=').map_or(*option, |(name, _)| name);
            let is_long = ["--array", "--job-name", "--comment"].contains(&name);
            // The value of a short option may follow without a blank.
            is_long || option.starts_with("-a") || option.starts_with("-J")
        })
    }
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
            file: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8600)),
            data: PathBuf::new(),
            database: None,
            database_from_environment: false,
            certificate: None,
            key: None,
            behind_proxy: false,
            plain_http: false,
            applications: "applications.toml".into(),
            launcher: local::NAME.to_owned(),
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

/// Reads the file, if one is specified, and resolves its paths. `data` and the environment variable
/// `OPENUVR_PORTAL_DATABASE` override the file.
///
/// # Errors
/// Returns an error if the file cannot be read or has an unknown key, or if there is no data folder.
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
            // The path becomes absolute, because sessions run in their own folders.
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
    config.file = file.map(Path::to_owned);
    if file.is_none() {
        config.applications = config.data.join("applications.toml");
    }
    // This variable lets operators keep the database password out of the file.
    if let Ok(url) = std::env::var("OPENUVR_PORTAL_DATABASE") {
        config.database = Some(url);
        config.database_from_environment = true;
    }
    Ok(config)
}

/// `$XDG_DATA_HOME/openuvr/portal`, otherwise `~/.local/share/openuvr/portal` (XDG Base Directory Specification 0.8).
fn default_data() -> Result<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let base = of("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| of("HOME").map(|home| home.join(".local/share")));
    match base {
        Some(base) => Ok(base.join("openuvr/portal")),
        None => {
            bail!("neither XDG_DATA_HOME nor HOME is set: set the data folder (--data FOLDER)")
        }
    }
}

impl Config {
    /// Whether browsers connect over HTTPS, as far as the portal can determine.
    pub(crate) fn is_secure(&self) -> bool {
        self.certificate.is_some() || self.acme.is_some() || self.behind_proxy
    }

    /// The command that creates an operator's account in this portal's database, for a shell in any folder and with any
    /// home folder. It does not show a database URL from the environment, which may contain a password.
    pub(crate) fn command_for_account(&self) -> String {
        let mut command = match self.database_from_environment {
            true => "OPENUVR_PORTAL_DATABASE=URL ".to_owned(),
            false => String::new(),
        };
        command += "openuvr portal user add NAME --operator";
        let config = self.file.as_ref().map(|file| ("--config", file));
        for (flag, path) in config.into_iter().chain([("--data", &self.data)]) {
            let path = absolute(path).unwrap_or_else(|_| path.clone());
            command += &format!(" {flag} {}", shell::word(path));
        }
        command
    }

    /// The warning that browsers on other machines can reach the page, but no session; `None` if they can reach both.
    pub(crate) fn unreachable_sessions(&self) -> Option<String> {
        let sessions = self.local.listen;
        let unreachable = self.launcher == local::NAME && sessions.is_loopback();
        (unreachable && !self.listen.ip().is_loopback()).then(|| {
            format!(
                "browsers on other machines get no picture: the page is at {}, but only this machine reaches sessions \
                 at {sessions}; set `listen` in the table [local] to this machine's address, such as 192.0.2.10",
                self.listen
            )
        })
    }

    /// Validates combinations of settings.
    ///
    /// # Errors
    /// Returns a one-line error that states how to fix the configuration.
    pub(crate) fn check(&self) -> Result<()> {
        if self.certificate.is_some() != self.key.is_some() {
            bail!("certificate and key must be set together");
        }
        if let Some(acme) = &self.acme {
            if self.certificate.is_some() {
                bail!("[acme] and certificate are mutually exclusive: remove one");
            }
            acme.check()?;
        }
        let open = !self.listen.ip().is_loopback() && !self.is_secure();
        if open && !self.plain_http {
            bail!(
                "passwords would cross the network unencrypted at {}: set certificate and key, or [acme]; or \
                behind_proxy = true, if a reverse proxy provides HTTPS; or plain_http = true, to accept the risk",
                self.listen
            );
        }
        if let Some(oidc) = &self.oidc {
            oidc.check().map_err(anyhow::Error::msg)?;
        }
        let limits = &self.limits;
        for (name, seconds, least) in [
            ("start", limits.start, 1),
            ("queue", limits.queue, 0),
            ("grace", limits.grace, 0),
        ] {
            if !(least..=MAX_LIMIT).contains(&seconds) {
                bail!("limits.{name} must be {least} to {MAX_LIMIT} seconds, not {seconds}");
            }
        }
        match self.launcher.as_str() {
            kubernetes::NAME if self.kubernetes.is_none() => bail!(
                "launcher = \"kubernetes\" needs a table [kubernetes] with the sessions' image"
            ),
            local::NAME | kubernetes::NAME | slurm::NAME => {}
            other => bail!(
                "unknown launcher {other:?}: choose one of {}",
                LAUNCHERS.join(", ")
            ),
        }
        if self.slurm.as_user && self.slurm.logs.is_some() {
            bail!(
                "slurm.logs and slurm.as_user are mutually exclusive: the portal would run as root and follow symbolic \
                 links that other accounts create in the log folder; remove one of them"
            );
        }
        if let Some(option) = self.slurm.unusable_option() {
            bail!(
                "slurm: the portal would not find jobs with the sbatch option {option}, because it identifies a session \
                 by the job's name, comment and number; remove the option"
            );
        }
        let cluster = self.kubernetes.as_ref();
        if cluster.is_some_and(|of| of.network == Network::Host && of.host_ports.is_some()) {
            bail!(
                "kubernetes.host_ports requires network = \"pod\": with network = \"host\", sessions use the node's \
                 ports directly; remove host_ports"
            );
        }
        for (name, program) in [
            (local::NAME, &self.local.program),
            (slurm::NAME, &self.slurm.program),
        ] {
            if program.is_empty() {
                bail!(
                    "{name}.program is empty: set the session program, such as [\"openuvr\", \"session\"]"
                );
            }
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
    fn an_account_is_created_in_the_database_of_the_portal() {
        let mut config = Config {
            data: "/data".into(),
            ..Config::default()
        };
        let command = "openuvr portal user add NAME --operator --data /data";
        assert_eq!(config.command_for_account(), command);
        config.database = Some("postgres://portal:secret@db/portal".to_owned());
        config.database_from_environment = true;
        assert_eq!(
            config.command_for_account(),
            format!("OPENUVR_PORTAL_DATABASE=URL {command}")
        );
    }

    #[test]
    fn sessions_that_only_this_machine_reaches_are_reported() {
        let warning = |text: &str| {
            let config: Config = toml::from_str(text).unwrap();
            config.unreachable_sessions()
        };
        let network = "listen = '0.0.0.0:443'";
        let warned = warning(network).unwrap();
        assert!(warned.contains("`listen` in the table [local]"), "{warned}");
        assert_eq!(warning(""), None);
        assert_eq!(warning("behind_proxy = true"), None);
        let reachable = format!("{network}\nlocal.listen = '192.0.2.10'");
        assert_eq!(warning(&reachable), None);
        // On a cluster, sessions listen on all addresses.
        assert_eq!(warning(&format!("{network}\nlauncher = 'slurm'")), None);
    }

    #[test]
    fn a_launcher_is_known_and_has_its_settings() {
        let check = |text: &str| toml::from_str::<Config>(text).unwrap().check();
        check("launcher = 'slurm'").unwrap();
        check("launcher = 'kubernetes'\nkubernetes.image = 'i'").unwrap();
        for (text, words) in [
            ("launcher = 'slrum'", "unknown launcher"),
            ("launcher = 'kubernetes'", "a table [kubernetes]"),
            ("local.program = []", "local.program is empty"),
            ("slurm.program = []", "slurm.program is empty"),
        ] {
            let wrong = check(text).unwrap_err().to_string();
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
    }

    #[test]
    fn limits_are_within_their_range() {
        let check = |text: &str| toml::from_str::<Config>(text).unwrap().check();
        check("limits = { start = 3600, queue = 0, grace = 0 }").unwrap();
        for limit in [
            "start = 0",
            "queue = 2592001",
            "grace = 9223372036854775807",
        ] {
            let wrong = check(&format!("limits.{limit}")).unwrap_err().to_string();
            assert!(wrong.contains(" to 2592000 seconds, not "), "{wrong}");
        }
    }

    #[test]
    fn root_reads_no_logs_that_other_accounts_write() {
        let check = |text: &str| toml::from_str::<Config>(text).unwrap().check();
        check("slurm.as_user = true").unwrap();
        check("slurm.logs = '/logs'").unwrap();
        check("slurm = { as_user = true, logs = '/logs' }").unwrap_err();
    }

    #[test]
    fn jobs_that_the_portal_cannot_find_are_refused() {
        let check = |text: &str| toml::from_str::<Config>(text).unwrap().check();
        check("slurm.options = ['--account=a', '--qos=b']").unwrap();
        for option in ["--array=0-1", "-a0", "--job-name=x", "-Jx", "--comment=x"] {
            for table in ["options", "application_options.game", "user_options.ada"] {
                let wrong = check(&format!("slurm.{table} = ['{option}']")).unwrap_err();
                assert!(wrong.to_string().contains(option), "{wrong}");
            }
        }
    }

    #[test]
    fn ports_of_nodes_are_a_range_for_the_pod_network() {
        let read = |settings: &str| {
            toml::from_str::<Config>(&format!("[kubernetes]\nimage = 'i'\n{settings}"))
        };
        let range = "host_ports = '20000-20999'";
        read(range).unwrap().check().unwrap();
        let host = read(&format!("{range}\nnetwork = 'host'"));
        host.unwrap().check().unwrap_err();
        let wrong = read("host_ports = '20000'").unwrap_err().to_string();
        assert!(wrong.contains("FIRST-LAST"), "{wrong}");
    }

    #[test]
    fn an_unknown_key_is_named_in_the_error() {
        let wrong = toml::from_str::<Config>("listne = \"127.0.0.1:1\"").unwrap_err();
        assert!(wrong.to_string().contains("listne"), "{wrong}");
    }
}
