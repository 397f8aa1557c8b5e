//! Sessions as Pods of Kubernetes, one each, through its API.
//!
//! A Pod is named `ouvr-SESSION`, so that the API server itself rejects duplicates. It belongs to no Job or Deployment:
//! no controller may restart a session. The Pod's annotations hold the portal's data about the session. The endpoint is
//! the first line of the log, which is read once and stored in an annotation, so that one list contains everything that
//! a restarted portal needs.
//!
//! The portal's permissions are in `crates/portal/deploy/kubernetes.yaml`.

pub(crate) mod endpoints;
pub(crate) mod phase;
pub(crate) mod pod;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_pods};
use kube::{Client, Config, ResourceExt as _};
use serde::Deserialize;
use tokio::sync::OnceCell;

use self::endpoints::Endpoints;
use super::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId, log};

/// Name in the configuration.
pub const NAME: &str = "kubernetes";

/// Pods per page of a list; the API server's own clients use some hundred.
const PAGE: u32 = 500;

/// Size of `/dev/shm` in bytes: browsers and games place images there, and the default of a container is 64 MiB. A
/// guess, for a few buffers of 3840x2160 pixels.
pub const SHARED_MEMORY: u64 = 256 << 20;

/// Number of requested log lines; [`log::MAX_TAIL`] fits as many short ones.
const LOG_LINES: i64 = 500;

/// Configuration of the Kubernetes launcher.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// kubeconfig file; default: as kubectl, or as a Pod of the cluster itself.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Pods.
    pub namespace: String,
    /// Image with the session program.
    pub image: String,
    /// The program and its first arguments, in place of the image's command; empty: the image's.
    pub program: Vec<String>,
    /// Resource name of GPUs.
    pub gpu: String,
    /// Node label that [`LaunchSpec::zone`] selects by.
    pub zone: String,
    /// How long a node may be unreachable before its sessions are lost. Kubernetes' default of 5 minutes is too long
    /// for a player.
    pub unreachable: Duration,
    /// Volume for saves; without it they are deleted with the Pod.
    pub saves: Option<SavesVolume>,
    /// Network of the Pods.
    pub network: Network,
    /// UID and GID of the program; not root (Pod Security Standards, "restricted").
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
    /// The Pod network: the portal connects to it, media needs a relay (TURN) that can, and native clients cannot
    /// connect unless Pod addresses are routed to them.
    #[default]
    Pod,
    /// The node's network (`hostNetwork`): media flows directly to browsers and native clients, and the namespace must
    /// be exempt from the Pod Security Standards "baseline" and "restricted".
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

/// The Kubernetes launcher.
#[derive(Clone)]
pub struct Kubernetes {
    config: Arc<KubernetesConfig>,
    /// Created on first use, since it needs credentials.
    client: Arc<OnceCell<Client>>,
    endpoints: Arc<Endpoints>,
}

impl Kubernetes {
    /// A launcher for this cluster. Does not connect yet.
    #[must_use]
    pub fn new(config: KubernetesConfig) -> Kubernetes {
        Kubernetes {
            config: Arc::new(config),
            client: Arc::default(),
            endpoints: Arc::default(),
        }
    }

    async fn pods(&self) -> Result<Api<Pod>, LaunchError> {
        let client = self
            .client
            .get_or_try_init(|| connect(&self.config))
            .await?;
        Ok(Api::namespaced(client.clone(), &self.config.namespace))
    }

    async fn all(&self) -> Result<Vec<Pod>, LaunchError> {
        let pods = self.pods().await?;
        let mut wanted = ListParams::default().labels(pod::SELECTOR).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = pods.list(&wanted).await.map_err(unavailable)?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|of| !of.is_empty()) {
                Some(next) => wanted = wanted.continue_token(&next),
                None => return Ok(all),
            }
        }
    }
}

#[async_trait]
impl Launcher for Kubernetes {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError> {
        let wanted = pod::of(&self.config, spec);
        match self
            .pods()
            .await?
            .create(&PostParams::default(), &wanted)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(said)) if said.is_already_exists() => Ok(()),
            Err(kube::Error::Api(said)) if said.code == 403 => {
                Err(LaunchError::Denied(format!("Kubernetes: {}", said.message)))
            }
            Err(kube::Error::Api(said)) if matches!(said.code, 400 | 422) => Err(
                LaunchError::BadApplication(format!("Kubernetes: {}", said.message)),
            ),
            Err(why) => Err(unavailable(why)),
        }
    }

    async fn stop(&self, session: SessionId, grace: Duration) -> Result<(), LaunchError> {
        let pods = self.pods().await?;
        let name = pod::name(session);
        let Some(found) = pods.get_opt(&name).await.map_err(unavailable)? else {
            return Ok(());
        };
        // No event will report the end of a lost session: its node ends it when it is back.
        let grace = match phase::of(&found).is_final() {
            true => 0,
            false => u32::try_from(grace.as_secs()).unwrap_or(u32::MAX).max(1),
        };
        match pods
            .delete(&name, &DeleteParams::default().grace_period(grace))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(said)) if said.is_not_found() => Ok(()),
            Err(why) => Err(unavailable(why)),
        }
    }

    async fn list(&self) -> Result<Vec<Observed>, LaunchError> {
        let all = self.all().await?;
        Ok(all.iter().filter_map(phase::observed).collect())
    }

    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>> {
        let launcher = self.clone();
        let begun = stream::once(async move {
            // Until the cluster is reachable.
            let pods = launcher.pods().await;
            match pods {
                Ok(pods) => follow(launcher, pods),
                Err(why) => {
                    let again = async move {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        launcher.watch()
                    };
                    let first = stream::iter([Err(why)]);
                    first.chain(stream::once(again).flatten()).boxed()
                }
            }
        });
        begun.flatten().boxed()
    }

    async fn log(&self, session: SessionId) -> Result<Option<String>, LaunchError> {
        let wanted = LogParams {
            tail_lines: Some(LOG_LINES),
            ..LogParams::default()
        };
        match self.pods().await?.logs(&pod::name(session), &wanted).await {
            Ok(said) => Ok(Some(log::tail(said.as_bytes()))),
            Err(kube::Error::Api(why)) if why.is_not_found() => Ok(None),
            // Its container has not been created.
            Err(kube::Error::Api(why)) if why.code == 400 => Ok(None),
            Err(why) => Err(unavailable(why)),
        }
    }

    async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        // The portal has no permission to list nodes: it knows those of its sessions.
        let mut all: BTreeMap<String, Server> = BTreeMap::new();
        for pod in self.all().await? {
            let Some(observed) = phase::observed(&pod).filter(|of| !of.phase.is_final()) else {
                continue;
            };
            let Some(name) = observed.server else {
                continue;
            };
            let server = all.entry(name.clone()).or_insert_with(|| Server {
                name,
                ready: Ok(()),
                sessions: 0,
                places: None,
                gpus_used: 0,
                gpus: 0,
                load: None,
                processors: None,
            });
            server.sessions += 1;
            let gpus = pod::gpus(&pod, &self.config.gpu);
            server.gpus_used = server.gpus_used.saturating_add(gpus);
        }
        Ok(all.into_values().collect())
    }
}

/// Maps Pod events to session changes.
fn follow(
    launcher: Kubernetes,
    pods: Api<Pod>,
) -> BoxStream<'static, Result<Observed, LaunchError>> {
    let wanted = watcher::Config::default()
        .labels(pod::SELECTOR)
        .page_size(PAGE);
    let events = watch_pods(pods.clone(), wanted).default_backoff();
    // Known before a list restarted; sessions missing in the new list are gone.
    let mut known: BTreeMap<SessionId, Observed> = BTreeMap::new();
    let mut listed: BTreeMap<SessionId, Observed> = BTreeMap::new();
    let changes = events.map(move |event| {
        let mut news = Vec::new();
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                if let Some(observed) = phase::observed(&pod) {
                    launcher.endpoints.watch_log(&pods, &pod, &observed);
                    if known.get(&observed.session) != Some(&observed) {
                        news.push(Ok(observed.clone()));
                    }
                    listed.insert(observed.session, observed);
                }
            }
            Ok(Event::InitDone) => {
                let now = std::mem::take(&mut listed);
                let gone = known
                    .iter()
                    .filter(|(session, _)| !now.contains_key(session));
                news.extend(gone.map(|(_, of)| Ok(gone_by(of.clone()))));
                known = now;
            }
            Ok(Event::Apply(pod)) => {
                if let Some(observed) = phase::observed(&pod) {
                    launcher.endpoints.watch_log(&pods, &pod, &observed);
                    known.insert(observed.session, observed.clone());
                    news.push(Ok(observed));
                }
            }
            Ok(Event::Delete(pod)) => {
                if let Some(observed) = phase::observed(&pod) {
                    known.remove(&observed.session);
                    news.push(Ok(gone_by(observed)));
                }
            }
            Err(why) => news.push(Err(LaunchError::Unavailable(format!("Kubernetes: {why}")))),
        }
        stream::iter(news)
    });
    changes.flatten().boxed()
}

/// A session without its Pod.
fn gone_by(last: Observed) -> Observed {
    match last.phase {
        Phase::Ended { .. } => last,
        _ => Observed {
            phase: Phase::Ended {
                code: None,
                why: "stopped".to_owned(),
            },
            ..last
        },
    }
}

async fn connect(config: &KubernetesConfig) -> Result<Client, LaunchError> {
    let failed =
        |why: String| LaunchError::Unavailable(format!("cannot connect to Kubernetes: {why}"));
    let found = match &config.kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|why| failed(why.to_string()))?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(|why| failed(why.to_string()))?
        }
        None => Config::infer()
            .await
            .map_err(|why| failed(why.to_string()))?,
    };
    Client::try_from(found).map_err(|why| failed(why.to_string()))
}

fn unavailable(why: kube::Error) -> LaunchError {
    LaunchError::Unavailable(format!("Kubernetes: {why}"))
}

/// The session of one of the portal's Pods.
fn session(pod: &Pod) -> Option<SessionId> {
    pod.name_any().strip_prefix(pod::PREFIX)?.parse().ok()
}
