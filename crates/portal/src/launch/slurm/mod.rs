//! Sessions as jobs of Slurm, through its commands: `sbatch`, `squeue`, `scontrol`, `scancel`, `sinfo`.
//!
//! A job is known by its name, `ouvr-SESSION`, never by its number: a controller that is killed may lose a job that
//! it took seconds ago, and gives its number to the next. What the portal has to know of a session, and where it can be
//! played, is in the job's comment, which the controller keeps: so a portal that starts anew finds
//! everything there.
//!
//! How long a job may take to end after it was asked to is the cluster's to say (`KillWait` in `slurm.conf`).

mod commands;
pub(crate) mod comment;
pub(crate) mod jobs;
mod logs;
mod person;
mod reason;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use tokio::sync::Mutex;

use self::commands::Commands;
use self::comment::Comment;
use self::jobs::Job;
use self::logs::Logs;
use super::poll::changes;
use super::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId};

/// Its name in the configuration.
pub const NAME: &str = "slurm";

/// How often the controller is asked: it answers for all jobs at once, and a person waits for a state for less than
/// a second on average.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the portal's configuration says of Slurm.
#[derive(Clone, Debug, Default)]
pub struct SlurmConfig {
    /// The program of sessions and its first words, on the cluster's nodes.
    pub program: Vec<String>,
    /// More options of `sbatch`: an account, a quality of service, a licence.
    pub options: Vec<String>,
    /// The partition, where a session names none ([`LaunchSpec::zone`]).
    pub partition: Option<String>,
    /// More options of `sbatch` for one application, by its name in the catalogue; after `options`.
    pub application_options: BTreeMap<String, Vec<String>>,
    /// More options of `sbatch` for one person, by the name of the account; after those of the application.
    pub user_options: BTreeMap<String, Vec<String>>,
    /// Whether a job is submitted by the person's own account of the cluster, which has the name of the portal's. The
    /// portal must be root for it.
    pub as_user: bool,
    /// A folder that portal and nodes share, where each job's standard error is kept. Without it no job has a log.
    pub logs: Option<PathBuf>,
    /// Variables of Slurm's commands, such as `SLURM_CONF`.
    pub environment: BTreeMap<String, String>,
}

/// Slurm.
#[derive(Clone)]
pub struct Slurm {
    shared: Arc<Shared>,
}

struct Shared {
    config: SlurmConfig,
    commands: Commands,
    logs: Option<Arc<Logs>>,
    /// Held from the look whether a job of this name is there until it is: Slurm itself allows two of one name.
    launching: Mutex<()>,
    /// Exit codes of jobs that have ended, by their numbers, which the list of jobs does not have.
    codes: Mutex<BTreeMap<u32, Option<i32>>>,
    /// Jobs that nobody needs to know of any more; Slurm lists them for some minutes (`MinJobAge`).
    forgotten: Mutex<BTreeMap<u32, ()>>,
}

impl Slurm {
    /// A launcher for the cluster that Slurm's commands reach.
    #[must_use]
    pub fn new(config: SlurmConfig) -> Slurm {
        let commands = Commands::new(config.environment.clone());
        let logs = config.logs.clone().map(|at| Arc::new(Logs::new(at)));
        Slurm {
            shared: Arc::new(Shared {
                config,
                commands,
                logs,
                launching: Mutex::default(),
                codes: Mutex::default(),
                forgotten: Mutex::default(),
            }),
        }
    }
}

#[async_trait]
impl Launcher for Slurm {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError> {
        let _alone = self.shared.launching.lock().await;
        if self.shared.find(spec.session).await?.is_some() {
            return Ok(());
        }
        let config = &self.shared.config;
        let submitter = match config.as_user {
            true => Some(person::account(&spec.user).await?),
            false => None,
        };
        let options = config.options_of(spec);
        let log = self.shared.logs.as_ref().map(|of| of.path(spec.session));
        let text = script::text(&config.program, spec, log.as_deref());
        (self.shared.commands)
            .submit(submitter.as_deref(), &options, &text)
            .await
    }

    async fn stop(&self, session: SessionId, _: Duration) -> Result<(), LaunchError> {
        let Some(job) = self.shared.find(session).await? else {
            return Ok(());
        };
        if job.has_ended() {
            if let Some(logs) = &self.shared.logs {
                let logs = Arc::clone(logs);
                tokio::task::spawn_blocking(move || logs.remove(session));
            }
            // The comment of such a one can't be written any more.
            self.shared
                .remember(&self.shared.forgotten, job.number, ())
                .await;
            return Ok(());
        }
        let mut comment = job.comment.clone();
        comment.forgotten = true;
        self.shared.commands.comment(job.number, &comment).await?;
        self.shared.commands.cancel(job.number).await
    }

    async fn list(&self) -> Result<Vec<Observed>, LaunchError> {
        let all = self.shared.observe().await?;
        Ok(all
            .into_iter()
            .filter(|(_, forgotten)| !forgotten)
            .map(|(of, _)| of)
            .collect())
    }

    fn watch(&self) -> BoxStream<'static, Result<Observed, LaunchError>> {
        let shared = Arc::clone(&self.shared);
        changes(INTERVAL, move || {
            let shared = Arc::clone(&shared);
            async move {
                let all = shared.observe().await?;
                Ok(all.into_iter().map(|(of, _)| of).collect())
            }
        })
    }

    async fn log(&self, session: SessionId) -> Result<Option<String>, LaunchError> {
        let Some(logs) = self.shared.logs.clone() else {
            return Ok(None);
        };
        // It waits for a file server.
        let read = tokio::task::spawn_blocking(move || logs.tail(session)).await;
        read.unwrap_or_else(|why| Err(LaunchError::Unavailable(why.to_string())))
    }

    async fn servers(&self) -> Result<Vec<Server>, LaunchError> {
        let listed = self.shared.commands.nodes().await?;
        let sessions = self.list().await?;
        Ok(jobs::servers(&listed, &sessions))
    }
}

impl Shared {
    async fn jobs(&self) -> Result<Vec<Job>, LaunchError> {
        let as_user = self.config.as_user;
        let mut jobs = jobs::read(&self.commands.jobs(as_user).await?);
        if as_user {
            // The list has the jobs of all accounts, and an account may give its own job any name and comment.
            jobs.retain(Job::is_of_its_person);
        }
        if let Some(logs) = self.logs.clone() {
            let active = jobs.iter().filter(|of| of.is_active());
            let active: Vec<SessionId> = active.map(|of| of.session).collect();
            tokio::task::spawn_blocking(move || logs.trim(active.into_iter()));
        }
        Ok(jobs)
    }

    /// The newest job of a session that was not forgotten.
    async fn find(&self, session: SessionId) -> Result<Option<Job>, LaunchError> {
        let jobs = self.jobs().await?;
        let of = jobs.into_iter().filter(|job| job.session == session);
        Ok(of.max_by_key(|job| (!job.comment.forgotten, job.number)))
    }

    /// All sessions, and whether each was forgotten after it had ended.
    async fn observe(&self) -> Result<Vec<(Observed, bool)>, LaunchError> {
        let mut all = Vec::new();
        for job in self.jobs().await? {
            let code = match job.has_exit_code() {
                true => self.exit_code(job.number).await?,
                false => None,
            };
            let mut observed = job.observed(code);
            if let Phase::Ended { .. } = observed.phase
                && job.is_active()
            {
                // It said something else than where it can be played.
                self.refuse(&job, &observed).await?;
                observed.phase = Phase::Starting;
            }
            let forgotten = job.comment.forgotten && observed.phase.is_final()
                || self.forgotten.lock().await.contains_key(&job.number);
            all.push((observed, forgotten));
        }
        Ok(all)
    }

    /// Ends a job for a reason of ours, which its comment keeps.
    async fn refuse(&self, job: &Job, observed: &Observed) -> Result<(), LaunchError> {
        let Phase::Ended { why, .. } = &observed.phase else {
            return Ok(());
        };
        if job.comment.why.is_some() {
            return Ok(());
        }
        let comment = Comment {
            why: Some(why.clone()),
            ..job.comment.clone()
        };
        self.commands.comment(job.number, &comment).await?;
        self.commands.cancel(job.number).await
    }

    async fn exit_code(&self, number: u32) -> Result<Option<i32>, LaunchError> {
        if let Some(code) = self.codes.lock().await.get(&number) {
            return Ok(*code);
        }
        let code = jobs::exit_code(&self.commands.job(number).await?);
        self.remember(&self.codes, number, code).await;
        Ok(code)
    }

    /// Keeps something of a job, in place of that of the oldest where there is too much.
    async fn remember<T>(&self, of: &Mutex<BTreeMap<u32, T>>, number: u32, what: T) {
        let mut kept = of.lock().await;
        if kept.len() >= MOST_JOBS {
            kept.pop_first();
        }
        kept.insert(number, what);
    }
}

/// Jobs of which something is remembered: as many as Slurm itself keeps by default (`MaxJobCount`).
const MOST_JOBS: usize = 10_000;

impl SlurmConfig {
    fn options_of(&self, spec: &LaunchSpec) -> Vec<String> {
        let mut options = vec![
            format!("--job-name={}", jobs::name(spec.session)),
            format!("--comment={}", Comment::of(spec)),
            // A session is never started a second time.
            "--no-requeue".to_owned(),
            // Nothing of the portal's own environment reaches a session.
            "--export=NONE".to_owned(),
            // Nor do its limits, of which the one of descriptors is raised: those of the node hold.
            "--propagate=NONE".to_owned(),
            "--output=/dev/null".to_owned(),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            format!("--cpus-per-task={}", spec.millicores.div_ceil(1000).max(1)),
        ];
        if spec.gpus > 0 {
            options.push(format!("--gres=gpu:{}", spec.gpus));
        }
        if spec.memory > 0 {
            options.push(format!("--mem={}K", spec.memory.div_ceil(1024)));
        }
        if let Some(limit) = spec.max_duration {
            // In minutes; to the second it is the script that ends it.
            options.push(format!("--time={}", limit.as_secs().div_ceil(60) + 1));
        }
        if let Some(partition) = spec.zone.as_ref().or(self.partition.as_ref()) {
            options.push(format!("--partition={partition}"));
        }
        let of_application = self.application_options.get(&spec.application);
        let of_user = self.user_options.get(&spec.user);
        // Of an option that is there twice sbatch takes the last.
        let all = [Some(&self.options), of_application, of_user];
        options.extend(all.into_iter().flatten().flatten().cloned());
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(user: &str, application: &str) -> LaunchSpec {
        LaunchSpec {
            session: SessionId::random(),
            user: user.to_owned(),
            application: application.to_owned(),
            words: Vec::new(),
            environment: BTreeMap::new(),
            gpus: 0,
            millicores: 0,
            memory: 0,
            zone: None,
            max_duration: None,
        }
    }

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|of| (*of).to_owned()).collect()
    }

    #[test]
    fn options_of_a_person_go_before_those_of_the_application() {
        let game = words(&["--licenses=game:1", "--account=games"]);
        let ada = words(&["--account=physics"]);
        let config = SlurmConfig {
            options: words(&["--account=site", "--qos=interactive"]),
            application_options: BTreeMap::from([("game".to_owned(), game)]),
            user_options: BTreeMap::from([("ada".to_owned(), ada)]),
            ..SlurmConfig::default()
        };
        let configured = |user: &str, application: &str| {
            let all = config.options_of(&spec(user, application)).into_iter();
            let mut behind = all.skip_while(|of| of != "--cpus-per-task=1");
            behind.next().unwrap();
            behind.collect::<Vec<_>>()
        };
        let site = ["--account=site", "--qos=interactive"];
        let game = ["--licenses=game:1", "--account=games"];
        assert_eq!(configured("eve", "other"), site);
        assert_eq!(configured("eve", "game"), [site, game].concat());
        assert_eq!(
            configured("ada", "other"),
            [&site[..], &["--account=physics"]].concat()
        );
        // sbatch takes the last account that is named.
        assert_eq!(
            configured("ada", "game"),
            [&site[..], &game, &["--account=physics"]].concat()
        );
    }

    #[test]
    fn what_an_application_needs_is_asked_of_the_cluster() {
        let config = SlurmConfig {
            partition: Some("usual".to_owned()),
            ..SlurmConfig::default()
        };
        let asked = |spec: &LaunchSpec| {
            let all = config.options_of(spec).into_iter();
            let kinds = ["--cpus", "--gres", "--mem", "--time", "--part"];
            let told = all.filter(|of| kinds.iter().any(|kind| of.starts_with(kind)));
            told.collect::<Vec<_>>()
        };
        let little = spec("ada", "game");
        assert_eq!(asked(&little), ["--cpus-per-task=1", "--partition=usual"]);
        let much = LaunchSpec {
            gpus: 2,
            millicores: 1500,
            memory: (1 << 20) + 1,
            zone: Some("large".to_owned()),
            max_duration: Some(Duration::from_secs(90)),
            ..little
        };
        let needed = [
            "--cpus-per-task=2",
            "--gres=gpu:2",
            "--mem=1025K",
            "--time=3",
            "--partition=large",
        ];
        assert_eq!(asked(&much), needed);
    }
}
