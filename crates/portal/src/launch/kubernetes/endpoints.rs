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
use crate::launch::{Endpoint, MAX_LINE, Observed, Phase, SessionId};

/// How long is waited between two looks at first; it doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(100);
/// How long at most: a program that has said nothing for a while is looked at seldom.
const LONGEST: Duration = Duration::from_secs(10);
/// Logs that are read at once; a guess, so that a login storm leaves the API server room for others.
const AT_ONCE: usize = 16;

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
enum Look {
    /// Nothing yet.
    Wait,
    /// There is nothing to wait for any more.
    Done,
}

impl Endpoints {
    /// Reads the line of a session that runs and has not said yet where. Within a runtime of tokio.
    pub(super) fn look(self: &Arc<Self>, pods: &Api<Pod>, pod: &Pod, observed: &Observed) {
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
            while let Look::Wait = endpoints.read(&pods, session).await {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
            let mut waiting = endpoints
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            waiting.remove(&session);
        });
    }

    async fn read(&self, pods: &Api<Pod>, session: SessionId) -> Look {
        let Ok(_place) = self.places.acquire().await else {
            return Look::Done;
        };
        let name = pod::name(session);
        let wanted = LogParams {
            limit_bytes: i64::try_from(MAX_LINE + 2).ok(),
            ..LogParams::default()
        };
        let said = match pods.logs(&name, &wanted).await {
            Ok(said) => said,
            Err(kube::Error::Api(why)) if why.is_not_found() => return Look::Done,
            Err(_) => return Look::Wait,
        };
        // The log has standard output and standard error, and does not say which is which: the line is the first
        // that may be JSON.
        let mut lines = said
            .split_inclusive('\n')
            .filter(|line| line.starts_with('{'));
        let Some(line) = lines.next() else {
            return Look::Wait;
        };
        let change = match Endpoint::read(line.as_bytes()) {
            Ok(None) => return Look::Wait,
            Ok(Some(_)) => json!({"metadata": {"annotations": {pod::ENDPOINT: line}}}),
            Err(why) => refuse(&why.to_string()),
        };
        match pods
            .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await
        {
            Ok(_) => Look::Done,
            Err(kube::Error::Api(why)) if why.is_not_found() => Look::Done,
            Err(_) => Look::Wait,
        }
    }
}

/// Ends a Pod for a reason of ours, which it keeps: its time is over at once.
fn refuse(why: &str) -> serde_json::Value {
    json!({
        "metadata": {"annotations": {pod::REFUSED: why}},
        "spec": {"activeDeadlineSeconds": 1},
    })
}
