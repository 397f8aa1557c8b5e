//! Where sessions can be played: read from their logs once, and kept in an annotation of their Pods.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, LogParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::pod;
use crate::launch::{Endpoint, LineError, Observed, Phase, SessionId};

/// How long is waited between two looks at first; it doubles up to [`MAX_LENGTH`].
const SHORTEST: Duration = Duration::from_millis(100);
/// How long at most: a program that has said nothing for a while is looked at seldom.
const MAX_LENGTH: Duration = Duration::from_secs(10);
/// Logs that are read at once; a guess, so that a login storm leaves the API server room for others.
const AT_ONCE: usize = 16;

/// How much of a log is looked at, in bytes; a guess: drivers and display servers complain on standard error before the
/// line comes.
const LOG: usize = 64 * 1024;

/// Sessions whose line is waited for.
pub(super) struct Endpoints {
    waiting: Mutex<BTreeSet<SessionId>>,
    places: Semaphore,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints {
            waiting: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        }
    }
}

/// What a look at a log has shown.
enum ReadOutcome {
    /// Nothing yet.
    Wait,
    /// There is nothing to wait for any more.
    Done,
}

impl Endpoints {
    /// Reads the line of a session that runs and has not said yet where. Within a runtime of tokio.
    pub(super) fn watch_log(self: &Arc<Self>, pods: &Api<Pod>, pod: &Pod, observed: &Observed) {
        let runs = pod
            .status
            .as_ref()
            .is_some_and(|of| of.phase.as_deref() == Some("Running"));
        let refused = pod.annotations().contains_key(pod::REFUSED);
        if !runs || refused || observed.phase != Phase::Starting {
            return;
        }
        let session = observed.session;
        if !self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session)
        {
            return;
        }
        let (endpoints, pods) = (Arc::clone(self), pods.clone());
        tokio::spawn(async move {
            let mut pause = SHORTEST;
            while let ReadOutcome::Wait = endpoints.read(&pods, session).await {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_LENGTH);
            }
            let mut waiting = endpoints
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            waiting.remove(&session);
        });
    }

    async fn read(&self, pods: &Api<Pod>, session: SessionId) -> ReadOutcome {
        let Ok(_place) = self.places.acquire().await else {
            return ReadOutcome::Done;
        };
        let name = pod::name(session);
        let wanted = LogParams {
            limit_bytes: i64::try_from(LOG).ok(),
            ..LogParams::default()
        };
        let said = match pods.logs(&name, &wanted).await {
            Ok(said) => said,
            Err(kube::Error::Api(why)) if why.is_not_found() => return ReadOutcome::Done,
            Err(_) => return ReadOutcome::Wait,
        };
        let change = match line(&said) {
            Ok(None) => return ReadOutcome::Wait,
            Ok(Some(line)) => json!({"metadata": {"annotations": {pod::ENDPOINT: line}}}),
            Err(why) => refuse(&why.to_string()),
        };
        match pods
            .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await
        {
            Ok(_) => ReadOutcome::Done,
            Err(kube::Error::Api(why)) if why.is_not_found() => ReadOutcome::Done,
            Err(_) => ReadOutcome::Wait,
        }
    }
}

/// The line in the beginning of a log, [`LOG`] bytes at most; nothing if it is not there yet. A log has standard output and
/// standard error, and does not say which is which: the line is the first that may be JSON.
///
/// # Errors
/// It says no place to play, or none came in time.
pub(crate) fn line(log: &str) -> Result<Option<&str>, LineError> {
    let mut lines = log.split_inclusive('\n');
    let line = lines.find(|line| line.starts_with('{'));
    match line.map(|line| Endpoint::read(line.as_bytes())) {
        Some(Ok(Some(_))) => Ok(line),
        Some(Err(why)) => Err(why),
        None | Some(Ok(None)) if log.len() >= LOG => Err(LineError::Late(LOG)),
        None | Some(Ok(None)) => Ok(None),
    }
}

/// Ends a Pod for a reason of ours, which it keeps: its time is over at once.
fn refuse(why: &str) -> serde_json::Value {
    json!({
        "metadata": {"annotations": {pod::REFUSED: why}},
        "spec": {"activeDeadlineSeconds": 1},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_behind_what_others_complain() {
        let said = "{\"web\":\"https://a:1\",\"fingerprint\":\"\"}\n";
        let before = "libEGL warning: no such device\n".repeat(300);
        assert_eq!(line(&format!("{before}{said}more\n")).unwrap(), Some(said));
        // Not yet, or not whole.
        assert_eq!(line(&before).unwrap(), None);
        assert_eq!(line(&format!("{before}{}", said.trim_end())).unwrap(), None);
        // Never.
        let endless = "complaint\n".repeat(LOG / 10 + 1);
        assert!(matches!(line(&endless[..LOG]), Err(LineError::Late(LOG))));
        assert!(matches!(line("{}\n"), Err(LineError::Json(_))));
    }
}
