//! Sessions as Slurm jobs, through Slurm's commands: `sbatch`, `squeue`, `scontrol`, `scancel`, `sinfo`.
//!
//! A job is identified by its name, `ouvr-SESSION`, and not by its number. A killed controller may lose a job that it
//! accepted seconds before, and then reuse the job's number. The job's comment contains the portal's data about the
//! session and the session's endpoint. The controller stores the comment, so a restarted portal finds everything there.
//!
//! The cluster's configuration sets how long a job may take to shut down (`KillWait` in `slurm.conf`).

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
use self::jobs::{Job, JobKey};
use self::logs::Logs;
use super::poll::changes;
use super::{LaunchError, LaunchSpec, Launcher, Observed, Phase, Server, SessionId};

/// Name in the configuration.
pub const NAME: &str = "slurm";

/// Poll interval. One query returns all jobs. On average, a change becomes visible after half the interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Configuration of the Slurm launcher.
#[derive(Clone, Debug, Default)]
pub struct SlurmConfig {
    /// The session program and its first arguments, on the cluster's nodes.
    pub program: Vec<String>,
    /// Additional `sbatch` options, for example for an account, a quality of service, or a licence.
    pub options: Vec<String>,
    /// Partition for sessions that specify none ([`LaunchSpec::zone`]).
    pub partition: Option<String>,
    /// Additional `sbatch` options by application name. They follow `options`.
    pub application_options: BTreeMap<String, Vec<String>>,
    /// Additional `sbatch` options by account name. They follow the options of the application.
    pub user_options: BTreeMap<String, Vec<String>>,
    /// Whether jobs are submitted under the cluster account with the same name as the user's portal account. This
    /// requires that the portal runs as root.
    pub as_user: bool,
    /// Folder that the portal and the nodes share, for the standard error of each job. `None` if no logs are kept.
    pub logs: Option<PathBuf>,
    /// Environment variables of Slurm's commands, such as `SLURM_CONF`.
    pub environment: BTreeMap<String, String>,
}

/// The Slurm launcher.
#[derive(Clone)]
pub struct Slurm {
    shared: Arc<Shared>,
}

struct Shared {
    config: SlurmConfig,
    commands: Commands,
    logs: Option<Arc<Logs>>,
    /// Locked from the check whether a job name exists until the job is submitted, because Slurm allows duplicate
    /// names.
    launching: Mutex<()>,
    /// Exit codes of ended jobs. The list of jobs does not contain exit codes.
    codes: Mutex<BTreeMap<JobKey, Option<i32>>>,
    /// Forgotten jobs. Slurm still lists ended jobs for some minutes (`MinJobAge`).
    forgotten: Mutex<BTreeMap<JobKey, ()>>,
}

impl Slurm {
    /// Creates a launcher for the cluster that Slurm's commands use.
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
            // The launcher itself remembers the forgotten jobs, because the comment of an ended job cannot be changed.
            self.shared
                .remember(&self.shared.forgotten, job.key(), ())
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
        // Runs in a blocking task, because the file server may block.
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
            // The list contains the jobs of all accounts, and their owners can choose any name and comment.
            jobs.retain(Job::is_of_its_person);
        }
        if let Some(logs) = self.logs.clone() {
            let active = jobs.iter().filter(|of| of.is_active());
            let active: Vec<SessionId> = active.map(|of| of.session).collect();
            tokio::task::spawn_blocking(move || logs.trim(active.into_iter()));
        }
        Ok(jobs)
    }

    /// The session's newest job that is not forgotten, or its newest job if all are forgotten.
    async fn find(&self, session: SessionId) -> Result<Option<Job>, LaunchError> {
        let jobs = self.jobs().await?;
        let of = jobs.into_iter().filter(|job| job.session == session);
        Ok(of.max_by_key(|job| (!job.comment.forgotten, job.number)))
    }

    /// All sessions, each with a flag that states whether the session has ended and is forgotten.
    async fn observe(&self) -> Result<Vec<(Observed, bool)>, LaunchError> {
        let mut all = Vec::new();
        for job in self.jobs().await? {
            let code = match job.has_exit_code() {
                true => self.exit_code(&job).await?,
                false => None,
            };
            let mut observed = job.observed(code);
            if let Phase::Ended { .. } = observed.phase
                && job.is_active()
            {
                // The job is active, so its program has printed something other than an endpoint.
                self.refuse(&job, &observed).await?;
                observed.phase = Phase::Starting;
            }
            let forgotten = job.comment.forgotten && observed.phase.is_final()
                || self.forgotten.lock().await.contains_key(&job.key());
            all.push((observed, forgotten));
        }
        Ok(all)
    }

    /// Ends a job, and stores the reason in its comment.
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

    async fn exit_code(&self, job: &Job) -> Result<Option<i32>, LaunchError> {
        if let Some(code) = self.codes.lock().await.get(&job.key()) {
            return Ok(*code);
        }
        let code = jobs::exit_code(&self.commands.job(job.number).await?);
        self.remember(&self.codes, job.key(), code).await;
        Ok(code)
    }

    /// Remembers a value for a job. Drops the value of the oldest job if there are too many.
    async fn remember<T>(&self, of: &Mutex<BTreeMap<JobKey, T>>, job: JobKey, what: T) {
        let mut kept = of.lock().await;
        if kept.len() >= MOST_JOBS {
            kept.pop_first();
        }
        kept.insert(job, what);
    }
}

/// Maximum number of remembered jobs, which is Slurm's default limit (`MaxJobCount`).
const MOST_JOBS: usize = 10_000;

impl SlurmConfig {
    fn options_of(&self, spec: &LaunchSpec) -> Vec<String> {
        let mut options = vec![
            format!("--job-name={}", jobs::name(spec.session)),
            format!("--comment={}", Comment::of(spec)),
            // Slurm must not restart a session.
            "--no-requeue".to_owned(),
            // The portal's environment must not reach a session.
            "--export=NONE".to_owned(),
            // The node's resource limits apply, not the portal's raised descriptor limit.
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
            // `--time` is in minutes. The script enforces the limit to the second.
            options.push(format!("--time={}", limit.as_secs().div_ceil(60) + 1));
        }
        if let Some(partition) = spec.zone.as_ref().or(self.partition.as_ref()) {
            options.push(format!("--partition={partition}"));
        }
        let of_application = self.application_options.get(&spec.application);
        let of_user = self.user_options.get(&spec.user);
        // If an option occurs several times, sbatch uses the last occurrence.
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
            writable_root: false,
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
        // sbatch uses the last `--account` option.
        assert_eq!(
            configured("ada", "game"),
            [&site[..], &game, &["--account=physics"]].concat()
        );
    }

    #[test]
    fn an_applications_resources_are_requested() {
        let config = SlurmConfig {
            partition: Some("usual".to_owned()),
            ..SlurmConfig::default()
        };
        let options_for = |spec: &LaunchSpec| {
            let all = config.options_of(spec).into_iter();
            let kinds = ["--cpus", "--gres", "--mem", "--time", "--part"];
            let told = all.filter(|of| kinds.iter().any(|kind| of.starts_with(kind)));
            told.collect::<Vec<_>>()
        };
        let little = spec("ada", "game");
        assert_eq!(
            options_for(&little),
            ["--cpus-per-task=1", "--partition=usual"]
        );
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
        assert_eq!(options_for(&much), needed);
    }
}
