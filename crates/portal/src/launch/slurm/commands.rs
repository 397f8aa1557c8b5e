//! Slurm's commands, and the meaning of their failures.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::comment::Comment;
use super::jobs::JOB_FORMAT;
use crate::launch::LaunchError;

/// Timeout of a command. Slurm's own timeout for a response of the controller is 10 s (`MessageTimeout`).
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// Error messages of an unavailable controller.
const UNREACHABLE: [&str; 5] = [
    "Unable to contact slurm controller",
    "Connection refused",
    "timed out",
    "Communication connection failure",
    "Zero Bytes were transmitted or received",
];

/// Error messages for a job that the cluster can never run.
const IMPOSSIBLE: [&str; 8] = [
    "Requested node configuration is not available",
    "Invalid generic resource",
    "invalid partition specified",
    "Memory specification can not be satisfied",
    "CPU count per node can not be satisfied",
    "Requested time limit is invalid",
    "Node count specification invalid",
    "Requested partition configuration not available now",
];

pub(super) struct Commands {
    environment: BTreeMap<String, String>,
}

impl Commands {
    pub(super) fn new(mut environment: BTreeMap<String, String>) -> Commands {
        // The portal parses the output. Therefore, the locale is fixed, and times are in seconds since 1970.
        environment.insert("LC_ALL".to_owned(), "C".to_owned());
        environment.insert("SLURM_TIME_FORMAT".to_owned(), "%s".to_owned());
        Commands { environment }
    }

    /// Queues a job. If `account` is specified, this account of the machine submits the job.
    pub(super) async fn submit(
        &self,
        account: Option<&str>,
        options: &[String],
        script: &str,
    ) -> Result<(), LaunchError> {
        let mut words = Vec::new();
        if let Some(account) = account {
            words.extend(["--user", account, "--", "sbatch"]);
        }
        words.push("--parsable");
        words.extend(options.iter().map(String::as_str));
        let program = if account.is_some() {
            "runuser"
        } else {
            "sbatch"
        };
        self.run(program, &words, script).await.map(|_| ())
    }

    /// The jobs of the portal's own account, or of all accounts with `of_all`. One line per job, in [`JOB_FORMAT`].
    pub(super) async fn jobs(&self, of_all: bool) -> Result<String, LaunchError> {
        let mut words = vec!["--noheader", "--states=all", "--format", JOB_FORMAT];
        if !of_all {
            words.push("--me");
        }
        self.run("squeue", &words, "").await
    }

    /// The full description of one job.
    pub(super) async fn job(&self, number: u32) -> Result<String, LaunchError> {
        self.run(
            "scontrol",
            &["show", "job", &number.to_string(), "--oneliner"],
            "",
        )
        .await
    }

    /// One line per node and partition: name, state, processors, load, GPUs, GPUs in use.
    pub(super) async fn nodes(&self) -> Result<String, LaunchError> {
        let format = "NodeList:.200,StateLong:.30,CPUs:.20,CPUsLoad:.20,Gres:.200,GresUsed:.200";
        self.run("sinfo", &["--Node", "--noheader", "--Format", format], "")
            .await
    }

    /// Sets a job's comment.
    pub(super) async fn comment(&self, number: u32, comment: &Comment) -> Result<(), LaunchError> {
        let words = [
            "update",
            &format!("JobId={number}"),
            &format!("Comment={comment}"),
        ];
        self.run("scontrol", &words, "").await.map(|_| ())
    }

    /// Ends a job. Does nothing if the job has already ended.
    pub(super) async fn cancel(&self, number: u32) -> Result<(), LaunchError> {
        self.run("scancel", &["--quiet", &number.to_string()], "")
            .await
            .map(|_| ())
    }

    async fn run(&self, program: &str, words: &[&str], input: &str) -> Result<String, LaunchError> {
        let unavailable =
            |why: String| LaunchError::Unavailable(format!("Slurm's {program}: {why}"));
        let mut command = Command::new(program);
        command
            .args(words)
            .envs(&self.environment)
            .kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|why| unavailable(why.to_string()))?;
        let exchange = async {
            if let Some(mut to) = child.stdin.take() {
                // An error is ignored: the write fails if the command does not read its input, and the command then
                // reports the reason.
                let _ = to.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let done = match timeout(LIMIT, exchange).await {
            Ok(done) => done.map_err(|why| unavailable(why.to_string()))?,
            Err(_) => return Err(unavailable("the controller does not respond".to_owned())),
        };
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&done.stderr);
        Err(failure(program, errors.trim()))
    }
}

/// Classifies a command's error output.
fn failure(program: &str, errors: &str) -> LaunchError {
    let has = |any: &[&str]| any.iter().any(|text| errors.contains(text));
    let line = format!("Slurm's {program}: {}", errors.replace('\n', "; "));
    match () {
        () if has(&UNREACHABLE) => LaunchError::Unavailable(line),
        () if has(&IMPOSSIBLE) => LaunchError::BadApplication(line),
        () if matches!(program, "sbatch" | "runuser") => LaunchError::Denied(line),
        () => LaunchError::Unavailable(line),
    }
}
