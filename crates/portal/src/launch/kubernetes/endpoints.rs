//! Endpoints of sessions. The portal reads each endpoint from the session's log once, and stores it in an annotation of
//! the session's Pod.

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
use super::response_timeout::in_time;
use crate::launch::{Endpoint, LineError, Observed, Phase, SessionId};

/// Initial delay between two reads of a log. The delay doubles up to [`MAX_DELAY`].
const MIN_DELAY: Duration = Duration::from_millis(100);
/// Maximum delay. It limits the load from programs that print nothing.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Maximum number of concurrent log reads; a guess. When many sessions start at the same time, the API server must keep
/// capacity for other clients.
const CONCURRENCY: usize = 16;

/// The endpoint line must be within this many bytes from the start of a log; a guess. Drivers and display servers print
/// warnings before the line.
const MAX_LOG_BYTES: usize = 64 * 1024;

/// The sessions whose endpoint is not known yet.
pub(super) struct Endpoints {
    waiting: Mutex<BTreeSet<SessionId>>,
    places: Semaphore,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints {
            waiting: Mutex::default(),
            places: Semaphore::new(CONCURRENCY),
        }
    }
}

/// Result of reading a log.
enum ReadOutcome {
    /// No endpoint yet.
    Wait,
    /// Finished.
    Done,
}

impl Endpoints {
    /// Reads the log of a starting session in the background until the log contains the endpoint. Does nothing if the
    /// log is already being read.
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
            let mut pause = MIN_DELAY;
            while let ReadOutcome::Wait = endpoints.read(&pods, session).await {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_DELAY);
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
        let params = LogParams {
            limit_bytes: i64::try_from(MAX_LOG_BYTES).ok(),
            ..LogParams::default()
        };
        let output = match in_time(pods.logs(&name, &params)).await {
            Ok(output) => output,
            Err(kube::Error::Api(why)) if why.is_not_found() => return ReadOutcome::Done,
            Err(_) => return ReadOutcome::Wait,
        };
        let change = match line(&output) {
            Ok(None) => return ReadOutcome::Wait,
            Ok(Some(line)) => json!({"metadata": {"annotations": {pod::ENDPOINT: line}}}),
            Err(why) => refuse(&why.to_string()),
        };
        let params = PatchParams::default();
        match in_time(pods.patch(&name, &params, &Patch::Merge(&change))).await {
            Ok(_) => ReadOutcome::Done,
            Err(kube::Error::Api(why)) if why.is_not_found() => ReadOutcome::Done,
            Err(_) => ReadOutcome::Wait,
        }
    }
}

/// Finds the endpoint line at the beginning of a log; `None` if the log does not contain it yet. A log mixes standard
/// output and standard error, so the first line that starts with `{` counts.
///
/// # Errors
/// Returns an error if the line is invalid, or if it is not within the first `MAX_LOG_BYTES` bytes.
pub(crate) fn line(log: &str) -> Result<Option<&str>, LineError> {
    let mut lines = log.split_inclusive('\n');
    let line = lines.find(|line| line.starts_with('{'));
    match line.map(|line| Endpoint::read(line.as_bytes())) {
        Some(Ok(Some(_))) => Ok(line),
        Some(Err(why)) => Err(why),
        None | Some(Ok(None)) if log.len() >= MAX_LOG_BYTES => Err(LineError::Late(MAX_LOG_BYTES)),
        None | Some(Ok(None)) => Ok(None),
    }
}

/// The patch that ends a Pod: it sets the Pod's deadline to one second, and stores the reason in an annotation.
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
    fn the_line_is_found_after_warnings() {
        let output = "{\"web\":\"https://a:1\",\"fingerprint\":\"\"}\n";
        let before = "libEGL warning: no such device\n".repeat(300);
        assert_eq!(
            line(&format!("{before}{output}more\n")).unwrap(),
            Some(output)
        );
        // The line is missing or incomplete.
        assert_eq!(line(&before).unwrap(), None);
        assert_eq!(
            line(&format!("{before}{}", output.trim_end())).unwrap(),
            None
        );
        // The log reaches the limit and has no endpoint line.
        let endless = "complaint\n".repeat(MAX_LOG_BYTES / 10 + 1);
        assert!(matches!(
            line(&endless[..MAX_LOG_BYTES]),
            Err(LineError::Late(MAX_LOG_BYTES))
        ));
        assert!(matches!(line("{}\n"), Err(LineError::Json(_))));
    }
}
