//! `openuvr portal` itself: opens everything, prints the portal's address, and serves until a signal arrives.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use openuvr_terminal::out;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::accounts::{Devices, Passwords};
use crate::acme::Acme;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::descriptors;
use crate::http::{App, Server, router};
#[cfg(feature = "kubernetes")]
use crate::launch::kubernetes::{Kubernetes, KubernetesConfig, SavesVolume};
use crate::launch::local::{self, Local, LocalConfig};
use crate::launch::slurm::{self, Slurm, SlurmConfig};
use crate::launch::{Launcher, kubernetes};
use crate::oidc::Provider;
use crate::sessions::{self, Tickets};
use crate::store::{DatabaseLocation, Store};
use crate::tls::TlsFiles;
use crate::turn::Turn;

/// Name of the folder for saves, in the data folder.
const SAVES: &str = "saves";

/// Name of the folder for ACME certificates, in the data folder.
const ACME: &str = "acme";

/// What happens to sessions when the portal exits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionsAtExit {
    /// The sessions continue, and the next portal finds them.
    GoOn,
    /// The sessions are stopped.
    End,
}

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// Returns an error if the configuration is invalid, something cannot be opened, or the launcher stops reporting.
pub(crate) async fn serve(config: Config, at_end: SessionsAtExit) -> Result<()> {
    config.check()?;
    if !config.listen.ip().is_loopback() && !config.is_secure() {
        warn!("plain_http = true: passwords cross the network unencrypted");
    }
    if let Some(warning) = config.unreachable_sessions() {
        warn!("{warning}");
    }
    let provider = config.oidc.clone().map(Provider::open).transpose()?;
    let turn = Turn::open(config.turn.as_ref())?;
    let store = store(&config).await?;
    let launcher = launcher(&config)?;
    let tickets = Arc::new(Tickets::open(&store).await?);
    let devices = Devices::open(&store).await?;
    let catalogue = Arc::new(Catalogue::new(config.applications.clone()));
    catalogue.current();
    let sessions = Arc::new(sessions::Sessions::new(
        launcher,
        store.clone(),
        Arc::clone(&catalogue),
        Arc::clone(&tickets),
        config.limits.clone(),
        config.data.join(SAVES),
        config.ice_file.clone(),
    ));
    sessions.find_ended().await;
    let acme = (config.acme.clone()).map(|section| Acme::open(section, config.data.join(ACME)));
    let acme = acme.transpose()?;
    let files = tls_files(&config).map(TlsFiles::open).transpose()?;
    let tls = match (&acme, &files) {
        (Some(acme), _) => Some(acme.tls()?),
        (None, Some(files)) => Some(files.tls()?),
        (None, None) => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let descriptors = descriptors::raise();
    let server = Server::bind(config.listen, tls, descriptors, config.behind_proxy).await?;
    let at = server.address()?;
    if provider.is_none() && store.accounts().await?.is_empty() {
        out::unlimited_message(format_args!(
            "there are no accounts yet: create one with `{}`",
            config.command_for_account()
        ));
    }
    println!("The portal is at {scheme}://{at}");
    let app = Arc::new(App {
        store,
        sessions: Arc::clone(&sessions),
        catalogue,
        tickets,
        passwords: Passwords::new()?,
        attempts: Default::default(),
        devices,
        provider,
        secure: config.is_secure(),
        behind_proxy: config.behind_proxy,
        metrics_token: config.metrics_token.clone(),
        counts: Default::default(),
        health: Default::default(),
        streams: Default::default(),
        carried_connections: Default::default(),
        turn,
    });
    let certificates = async {
        match (acme, files) {
            (Some(acme), _) => acme.keep().await,
            (None, Some(files)) => files.keep().await,
            (None, None) => std::future::pending().await,
        }
    };
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::select! {
        () = server.serve(router(app)) => {}
        () = certificates => {}
        () = Arc::clone(&sessions).follow() => bail!("the launcher stopped reporting sessions"),
        _ = interrupt.recv() => info!("ends"),
        _ = terminate.recv() => info!("ends"),
    }
    if at_end == SessionsAtExit::End {
        sessions.end_all().await;
    }
    Ok(())
}

/// Creates the data folder if it is missing, and opens the database.
///
/// # Errors
/// Returns an error if the folder or the database cannot be opened.
pub(crate) async fn store(config: &Config) -> Result<Store> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data)
        .with_context(|| config.data.display().to_string())?;
    let file = config.data.join("portal.sqlite");
    let place = match &config.database {
        Some(url) => DatabaseLocation::Url(url),
        None => DatabaseLocation::File(&file),
    };
    Ok(Store::open(place).await?)
}

/// Opens the launcher of a configuration that [`Config::check`] has accepted. Needs a tokio runtime.
fn launcher(config: &Config) -> Result<Arc<dyn Launcher>> {
    match (config.launcher.as_str(), &config.kubernetes) {
        (local::NAME, _) => {
            let section = &config.local;
            let mut program: Vec<OsString> = section.program.iter().map(Into::into).collect();
            program.push(format!("--listen={}", section.listen).into());
            program.push("--portal-socket".into());
            let local = Local::open(LocalConfig {
                folder: config.data.join("sessions"),
                program,
                places: section.places,
                gpus: section.gpus,
                queue: section.queue,
                environment: section.environment.clone(),
            })?;
            Ok(Arc::new(local))
        }
        #[cfg(not(feature = "kubernetes"))]
        (kubernetes::NAME, _) => bail!(
            "launcher = \"kubernetes\": this portal was built without that launcher; build it with `--features kubernetes`"
        ),
        #[cfg(feature = "kubernetes")]
        (kubernetes::NAME, Some(section)) => Ok(Arc::new(Kubernetes::new(KubernetesConfig {
            kubeconfig: section.kubeconfig.clone(),
            namespace: section.namespace.clone(),
            program: section.program.clone(),
            saves: section.saves.clone().map(|claim| SavesVolume {
                claim,
                root: config.data.join(SAVES),
                group: section.saves_group,
            }),
            network: section.network,
            user: section.user,
            pull_secrets: section.pull_secrets.clone(),
            runtime_class: section.runtime_class.clone(),
            shared_memory: section.shared_memory_mib.saturating_mul(1 << 20),
            scratch: section.scratch_mib.saturating_mul(1 << 20),
            host_ports: section.host_ports,
            ..KubernetesConfig::new(section.image.clone())
        }))),
        (slurm::NAME, _) => Ok(Arc::new(Slurm::new(SlurmConfig {
            program: config.slurm.program.clone(),
            options: config.slurm.options.clone(),
            partition: config.slurm.partition.clone(),
            application_options: config.slurm.application_options.clone(),
            user_options: config.slurm.user_options.clone(),
            as_user: config.slurm.as_user,
            logs: config.slurm.logs.clone(),
            environment: BTreeMap::new(),
        }))),
        _ => unreachable!("Config::check refuses all other launchers"),
    }
}

fn tls_files(config: &Config) -> Option<TlsFiles> {
    let files = config.certificate.clone().zip(config.key.clone());
    files.map(|(certificate, key)| TlsFiles { certificate, key })
}

/// Validates configuration and applications.
///
/// # Errors
/// Returns an error if something is invalid.
pub(crate) fn check(config: &Config) -> Result<()> {
    // With `as_user`, the portal itself runs as root.
    if rustix::process::geteuid().is_root() && !config.slurm.as_user {
        out::unlimited_message(format_args!(
            "files are checked with root's rights: the service's account may be unable to read them; if the portal does \
             not start, read `journalctl --unit openuvr-portal`"
        ));
    }
    config.check()?;
    tls_files(config).map(TlsFiles::open).transpose()?;
    config.oidc.clone().map(Provider::open).transpose()?;
    Turn::open(config.turn.as_ref())?;
    if let Err(why) = std::fs::metadata(&config.applications) {
        bail!(
            "cannot read the applications in {}: {why}; create the file, or select a configuration that names another \
             file (--config FILE)",
            config.applications.display()
        );
    }
    if let Some(warning) = config.unreachable_sessions() {
        out::unlimited_message(format_args!("warning: {warning}"));
    }
    let applications = Catalogue::new(config.applications.clone()).current();
    for problem in &applications.problems {
        out::unlimited_message(format_args!("skipped: {problem}"));
    }
    println!(
        "{} {} in {}",
        applications.all.len(),
        match applications.all.len() {
            1 => "application",
            _ => "applications",
        },
        config.applications.display()
    );
    match applications.problems.len() {
        0 => Ok(()),
        1 => bail!("1 entry is invalid"),
        entries => bail!("{entries} entries are invalid"),
    }
}
