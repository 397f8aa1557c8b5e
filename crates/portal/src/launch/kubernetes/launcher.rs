//! The launcher: Pods are created, watched and deleted through the cluster's API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_pods};
use kube::{Client, Config};
use tokio::sync::OnceCell;

use super::endpoints::Endpoints;
use super::response_timeout::in_time;
use super::{KubernetesConfig, NAME, phase, pod, ports};
use crate::launch::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId, log};

/// Number of Pods per page of a list: the default of Kubernetes' Go client.
const PAGE: u32 = 500;

/// Number of log lines to request. If they are short, all of them fit into [`log::MAX_TAIL`].
const LOG_LINES: i64 = 500;

/// Timeout for the next data of a connection. It is longer than a watch, which the server ends after 290 s (kube's
/// default).
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The Kubernetes launcher.
#[derive(Clone)]
pub struct Kubernetes {
    config: Arc<KubernetesConfig>,
    /// The client is created on first use, because it needs credentials.
    client: Arc<OnceCell<Client>>,
    endpoints: Arc<Endpoints>,
}

impl Kubernetes {
    /// Creates a launcher for this cluster, without connecting to it.
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
            let page = in_time(pods.list(&wanted)).await.map_err(unavailable)?;
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
        let mut wanted = pod::of(&self.config, spec);
        if let Some(range) = self.config.host_ports {
            let taken = ports::taken(&self.all().await?);
            let first = ports::choose(range, spec.session, &taken);
            ports::publish(&mut wanted, first, &self.config.program);
        }
        let pods = self.pods().await?;
        match in_time(pods.create(&PostParams::default(), &wanted)).await {
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
        let found = in_time(pods.get_opt(&name)).await;
        let Some(found) = found.map_err(unavailable)? else {
            return Ok(());
        };
        // A lost session is deleted without a grace period, because its unreachable node would never confirm the end.
        // The node ends the session's program when it is reachable again.
        let grace = match phase::of(&found).is_final() {
            true => 0,
            false => u32::try_from(grace.as_secs()).unwrap_or(u32::MAX).max(1),
        };
        let params = DeleteParams::default().grace_period(grace);
        match in_time(pods.delete(&name, &params)).await {
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
            // Retries until the cluster is reachable.
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
        let pods = self.pods().await?;
        match in_time(pods.logs(&pod::name(session), &wanted)).await {
            Ok(said) => Ok(Some(log::tail(said.as_bytes()))),
            Err(kube::Error::Api(why)) if why.is_not_found() => Ok(None),
            // Kubernetes has not created the session's container yet.
            Err(kube::Error::Api(why)) if why.code == 400 => Ok(None),
            Err(why) => Err(unavailable(why)),
        }
    }

    async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        // The portal has no permission to list nodes, so the list contains only the nodes of its sessions.
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
    // `known` contains the sessions seen so far. When the watcher lists all Pods again, sessions without a Pod in the
    // new list are gone.
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

/// The final state of a session whose Pod is gone.
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
    let mut found = match &config.kubeconfig {
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
    found.read_timeout = Some(READ_TIMEOUT);
    // After an idle period, the full timeout applies to the next response.
    found.reset_reader_on_write = true;
    Client::try_from(found).map_err(|why| failed(why.to_string()))
}

fn unavailable(why: kube::Error) -> LaunchError {
    LaunchError::Unavailable(format!("Kubernetes: {why}"))
}
