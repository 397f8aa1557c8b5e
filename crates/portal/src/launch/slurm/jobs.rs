//! Parses the output of Slurm's commands for jobs and nodes.

use std::time::{Duration, SystemTime};

use super::comment::Comment;
use super::reason;
use crate::launch::{Endpoint, Observed, Phase, Server, SessionId};

/// Format for `squeue --format`: number, account, state, node, reason, submission time, end time, name, comment. For
/// the portal's jobs, only the reason can contain blanks, and no field contains a bar.
pub(super) const JOB_FORMAT: &str = "%i|%u|%T|%N|%r|%V|%e|%j|%k";

/// Name prefix of the portal's jobs.
const PREFIX: &str = "ouvr-";

/// A job of the portal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(super) number: u32,
    pub(super) session: SessionId,
    pub(crate) comment: Comment,
    /// The cluster account that submitted it.
    account: String,
    state: String,
    node: Option<String>,
    reason: String,
    submitted: Option<SystemTime>,
    ended: Option<SystemTime>,
}

/// Identifies a job. The number comes first, so that older jobs are usually lower. The number alone does not suffice:
/// Slurm reuses numbers when they reach `MaxJobId`, and after a loss of its state.
pub(super) type JobKey = (u32, SessionId);

pub(super) fn name(session: SessionId) -> String {
    format!("{PREFIX}{session}")
}

/// The portal's jobs in the output of `squeue`. Other jobs are skipped.
pub(crate) fn read(printed: &str) -> Vec<Job> {
    printed.lines().filter_map(job).collect()
}

fn job(line: &str) -> Option<Job> {
    let parts: Vec<&str> = line.trim().splitn(9, '|').collect();
    let [
        number,
        account,
        state,
        node,
        reason,
        submitted,
        ended,
        name,
        comment,
    ] = parts[..]
    else {
        return None;
    };
    let time = |text: &str| {
        let seconds = text.parse().ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    Some(Job {
        number: number.parse().ok()?,
        session: name.strip_prefix(PREFIX)?.parse().ok()?,
        comment: Comment::read(comment),
        account: account.to_owned(),
        state: state.to_owned(),
        node: Some(node.to_owned()).filter(|of| !of.is_empty()),
        reason: reason.to_owned(),
        submitted: time(submitted),
        ended: time(ended),
    })
}

impl Job {
    pub(super) fn key(&self) -> JobKey {
        (self.number, self.session)
    }

    /// Whether processes of the job may be running.
    pub(crate) fn is_active(&self) -> bool {
        matches!(
            self.state.as_str(),
            "CONFIGURING"
                | "RUNNING"
                | "COMPLETING"
                | "SUSPENDED"
                | "STOPPED"
                | "SIGNALING"
                | "STAGE_OUT"
        )
    }

    /// Whether the job has ended or is lost, as far as Slurm reports.
    pub(crate) fn has_ended(&self) -> bool {
        self.observed(None).phase.is_final() && !self.is_active()
    }

    /// Whether the job's exit code is meaningful.
    pub(super) fn has_exit_code(&self) -> bool {
        self.state == "FAILED"
    }

    /// Whether the account that submitted the job belongs to the user in the job's comment.
    pub(crate) fn is_of_its_person(&self) -> bool {
        self.account == self.comment.about.user
    }

    /// The session's state; `code` is the exit code of a failed job.
    pub(crate) fn observed(&self, code: Option<i32>) -> Observed {
        Observed {
            session: self.session,
            user: self.comment.about.user.clone(),
            application: self.comment.about.application.clone(),
            phase: self.phase(code),
            server: self.node.clone(),
            engine_ref: format!("job {}", self.number),
            launched: self.submitted,
        }
    }

    fn phase(&self, code: Option<i32>) -> Phase {
        let ended = |code, why: &str| Phase::Ended {
            code,
            why: self.comment.why.clone().unwrap_or_else(|| why.to_owned()),
        };
        match self.state.as_str() {
            "PENDING" | "REQUEUED" | "RESIZING" => Phase::Queued {
                why: reason::in_words(&self.reason),
            },
            _ if self.is_active() => match self
                .comment
                .said
                .as_deref()
                .map(|of| Endpoint::read(of.as_bytes()))
            {
                None | Some(Ok(None)) => Phase::Starting,
                Some(Ok(Some(endpoint))) => Phase::Running { endpoint },
                Some(Err(why)) => ended(None, &why.to_string()),
            },
            "COMPLETED" => ended(Some(0), "the application exited"),
            // After a time limit, or if the program is missing, the script has stored the reason in the comment.
            "FAILED" => match code {
                Some(number) => ended(code, &format!("failed with exit code {number}")),
                None => ended(None, "failed"),
            },
            "CANCELLED" => ended(None, "stopped"),
            "TIMEOUT" | "DEADLINE" => ended(None, "time limit reached"),
            "OUT_OF_MEMORY" => ended(None, "memory limit exceeded"),
            "REVOKED" => ended(None, "moved to another cluster of the federation"),
            "PREEMPTED" => ended(None, "preempted by another job"),
            // NODE_FAIL, BOOT_FAIL, and states of later Slurm versions: it is unknown whether the job is running.
            _ => Phase::Lost {
                since: self.ended.unwrap_or(SystemTime::UNIX_EPOCH),
            },
        }
    }
}

/// The exit code in the output of `scontrol show job`, where `ExitCode=3:0` means code 3 and signal 0. `None` after a
/// signal.
pub(crate) fn exit_code(printed: &str) -> Option<i32> {
    let field = printed
        .split_whitespace()
        .find_map(|word| word.strip_prefix("ExitCode="))?;
    let (code, signal) = field.split_once(':')?;
    (signal == "0").then(|| code.parse().ok()).flatten()
}

/// The nodes in the output of `sinfo`, with the number of sessions on each node.
pub(crate) fn servers(printed: &str, sessions: &[Observed]) -> Vec<Server> {
    let mut all: Vec<Server> = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, state, processors, load, gpus, used] = words[..] else {
            continue;
        };
        // `sinfo` lists a node once for each of its partitions.
        if all.iter().any(|of| of.name == name) {
            continue;
        }
        let takes = ["idle", "mixed", "allocated", "completing"].contains(&state);
        let here = |of: &&Observed| of.server.as_deref() == Some(name) && !of.phase.is_final();
        let number = sessions.iter().filter(here).count();
        all.push(Server {
            name: name.to_owned(),
            ready: if takes {
                Ok(())
            } else {
                Err(format!("node state {state}"))
            },
            sessions: u32::try_from(number).unwrap_or(u32::MAX),
            places: None,
            gpus_used: count_gpus(used),
            gpus: count_gpus(gpus),
            load: load.parse().ok(),
            processors: processors.parse().ok(),
        });
    }
    all
}

/// The number of GPUs in a comma-separated list of generic resources. Examples of entries: `gpu:2`,
/// `gpu:a100:2(S:0-1)`, `gpu:1(IDX:0)`.
fn count_gpus(listed: &str) -> u32 {
    let of_gpus = listed.split(',').filter(|of| of.starts_with("gpu"));
    let number = |of: &str| {
        of.split('(')
            .next()?
            .rsplit(':')
            .next()?
            .parse::<u32>()
            .ok()
    };
    of_gpus.filter_map(number).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

    use super::*;

    #[test]
    fn states_of_slurm_are_phases_of_sessions() {
        let session = SessionId::random();
        let said = "{\"web\":\"https://10.0.0.7:1\",\"fingerprint\":\"AB\"}\n";
        let comment = Comment {
            said: Some(said.to_owned()),
            ..Comment::default()
        };
        let nonsense = Comment {
            said: Some("hello\n".to_owned()),
            ..Comment::default()
        };
        let of = |state: &str, comment: &Comment| {
            let line = format!(
                "7|ada|{state}|edge1|Resources|1700000000|1700000100|ouvr-{session}|{comment}"
            );
            read(&line).pop().unwrap().observed(None).phase
        };
        let none = Comment::default();
        assert!(
            matches!(of("PENDING", &none), Phase::Queued { why } if why == "no node has free resources")
        );
        assert_eq!(of("RUNNING", &none), Phase::Starting);
        assert!(
            matches!(of("RUNNING", &comment), Phase::Running { endpoint } if endpoint.web.ends_with(":1"))
        );
        assert!(matches!(of("RUNNING", &nonsense), Phase::Ended { .. }));
        assert!(matches!(
            of("COMPLETED", &comment),
            Phase::Ended { code: Some(0), .. }
        ));
        let why = "moved to another cluster of the federation".to_owned();
        let revoked = Phase::Ended { code: None, why };
        assert_eq!(of("REVOKED", &comment), revoked);
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_100);
        assert_eq!(of("NODE_FAIL", &comment), Phase::Lost { since });
    }

    #[test]
    fn exit_codes_of_applications_are_distinguished() {
        let session = SessionId::random();
        let of = |comment: &Comment, code| {
            let line = format!("7|ada|FAILED|edge1|None|1|2|ouvr-{session}|{comment}");
            match read(&line).pop().unwrap().observed(Some(code)).phase {
                Phase::Ended { why, .. } => why,
                other => panic!("{other:?}"),
            }
        };
        for code in [1, 124, 127] {
            let why = of(&Comment::default(), code);
            assert_eq!(why, format!("failed with exit code {code}"));
        }
        let noted = Comment {
            why: Some("time limit reached".to_owned()),
            ..Comment::default()
        };
        assert_eq!(of(&noted, 124), "time limit reached");
    }

    #[test]
    fn a_job_of_another_account_is_no_session() {
        let session = SessionId::random();
        let about = r#"{"user":"ada","application":"x"}"#;
        let comment = Comment::read(&BASE64.encode(about)).to_string();
        let of = |account: &str| {
            let line = format!("7|{account}|RUNNING|edge1|None|1|2|ouvr-{session}|{comment}");
            read(&line).pop().unwrap().is_of_its_person()
        };
        assert_eq!(["ada", "eve", ""].map(of), [true, false, false]);
    }

    #[test]
    fn a_reused_number_is_another_job() {
        let line = |session| format!("7|ada|COMPLETED|edge1|None|1|2|ouvr-{session}|");
        let [first, second] = [SessionId::random(), SessionId::random()];
        let key = |session| read(&line(session))[0].key();
        assert_eq!(key(first), key(first));
        assert_ne!(key(first), key(second));
    }

    #[test]
    fn jobs_of_other_programs_are_skipped() {
        let all = "1|ada|RUNNING|a|None|1|N/A|simulation|x\n2|ada|RUNNING|a\n||||||||\nouvr-\n3|ada|RUNNING|a|None|1|2|ouvr-x|";
        assert_eq!(read(all), []);
    }

    #[test]
    fn an_impossible_time_is_none() {
        let session = SessionId::random();
        let line = |time: &str| format!("7|ada|RUNNING|a|None|{time}|{time}|ouvr-{session}|");
        let launched = |time| read(&line(time))[0].observed(None).launched;
        assert_eq!(launched("18446744073709551615"), None);
        assert_eq!(launched("N/A"), None);
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(launched("1"), Some(second));
    }

    #[test]
    fn gpus_are_counted() {
        let counts = [
            "(null)",
            "gpu:2",
            "gpu:a100:2(S:0-1)",
            "gpu:1(IDX:0)",
            "gpu:t4:1,shard:3,gpu:2",
            "gpu:4294967295,gpu:2",
        ];
        assert_eq!(counts.map(count_gpus), [0, 2, 2, 1, 3, u32::MAX]);
    }

    #[test]
    fn exit_codes_are_those_of_the_program() {
        assert_eq!(exit_code("JobId=1 ExitCode=3:0 Comment=x"), Some(3));
        assert_eq!(exit_code("ExitCode=0:9"), None);
        assert_eq!(exit_code(""), None);
    }
}
