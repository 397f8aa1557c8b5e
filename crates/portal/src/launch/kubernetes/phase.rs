//! Maps the state of a Pod to the state of a session.

use std::time::SystemTime;

use k8s_openapi::api::core::v1::{ContainerState, Pod, PodCondition};
use kube::ResourceExt as _;

use super::{pod, ports};
use crate::launch::{Endpoint, Observed, Phase};

/// The session that a Pod runs; `None` if it is not a Pod of the portal.
pub(crate) fn observed(pod: &Pod) -> Option<Observed> {
    let annotation = |name| pod.annotations().get(name).cloned().unwrap_or_default();
    let spec = pod.spec.as_ref();
    Some(Observed {
        session: pod::session(pod)?,
        user: annotation(pod::USER),
        application: annotation(pod::APPLICATION),
        phase: of(pod),
        server: spec.and_then(|of| of.node_name.clone()),
        engine_ref: format!("Pod {}", pod.name_any()),
        launched: pod
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|at| SystemTime::from(at.0)),
    })
}

/// The state of a Pod's session.
pub(super) fn of(pod: &Pod) -> Phase {
    let status = pod.status.as_ref();
    let state = container(pod);
    let name = status
        .and_then(|of| of.phase.as_deref())
        .unwrap_or("Pending");
    if !matches!(name, "Succeeded" | "Failed")
        && let Some(gone) = condition(pod, "DisruptionTarget").filter(is_node_lost)
    {
        return Phase::Lost {
            since: changed(gone),
        };
    }
    match name {
        "Pending" => pending(pod, state),
        "Running" => match pod
            .annotations()
            .get(pod::ENDPOINT)
            .map(|line| Endpoint::read(line.as_bytes()))
        {
            Some(Ok(Some(endpoint))) => Phase::Running {
                endpoint: ports::reached(pod, endpoint),
            },
            _ => Phase::Starting,
        },
        "Succeeded" | "Failed" => ended(pod, state),
        _ => Phase::Lost {
            since: SystemTime::now(),
        },
    }
}

fn pending(pod: &Pod, state: Option<&ContainerState>) -> Phase {
    let placed = condition(pod, "PodScheduled").filter(|of| of.status == "True");
    if placed.is_none() {
        let said = condition(pod, "PodScheduled").and_then(|of| of.message.clone());
        return Phase::Queued {
            why: said.unwrap_or_else(|| "not yet considered by the scheduler".to_owned()),
        };
    }
    let waits = state.and_then(|of| of.waiting.as_ref());
    let trouble = waits.and_then(|of| {
        let reason = of.reason.as_deref()?;
        let begins = matches!(reason, "ContainerCreating" | "PodInitializing");
        (!begins).then(|| match &of.message {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        })
    });
    match trouble {
        Some(why) => Phase::Queued { why },
        None => Phase::Starting,
    }
}

fn ended(pod: &Pod, state: Option<&ContainerState>) -> Phase {
    let terminated = state.and_then(|of| of.terminated.as_ref());
    let code = terminated.map(|of| of.exit_code);
    let reason = pod.status.as_ref().and_then(|of| of.reason.as_deref());
    let why = match (pod.annotations().get(pod::REFUSED), reason, code) {
        (Some(why), ..) => why.clone(),
        (_, Some("DeadlineExceeded"), _) => "time limit reached".to_owned(),
        (_, Some("Evicted"), _) => "evicted by its node".to_owned(),
        _ if pod.metadata.deletion_timestamp.is_some() => "stopped".to_owned(),
        _ if terminated.and_then(|of| of.reason.as_deref()) == Some("OOMKilled") => {
            "memory limit exceeded".to_owned()
        }
        (_, _, Some(0)) => "the application exited".to_owned(),
        (_, _, Some(code)) => format!("failed with exit code {code}"),
        (_, Some(reason), None) => reason.to_owned(),
        (_, None, None) => "no reason reported".to_owned(),
    };
    Phase::Ended { code, why }
}

fn container(pod: &Pod) -> Option<&ContainerState> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    all.first()?.state.as_ref()
}

fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let all = pod.status.as_ref()?.conditions.as_ref()?;
    all.iter().find(|of| of.type_ == name)
}

/// Whether the Pod is being deleted because its node does not respond.
fn is_node_lost(condition: &&PodCondition) -> bool {
    condition.status == "True" && condition.reason.as_deref() == Some("DeletionByTaintManager")
}

fn changed(condition: &PodCondition) -> SystemTime {
    let at = condition.last_transition_time.as_ref();
    at.map_or_else(SystemTime::now, |at| SystemTime::from(at.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::launch::SessionId;

    fn phase(annotations: serde_json::Value, status: serde_json::Value) -> Phase {
        let name = pod::name(SessionId::random());
        let metadata = json!({"name": name, "annotations": annotations});
        let pod = json!({"metadata": metadata, "status": status});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        observed(&pod).unwrap().phase
    }

    #[test]
    fn states_of_pods_are_phases_of_sessions() {
        let none = || json!({});
        let scheduled = json!([{"type": "PodScheduled", "status": "True"}]);
        let full = "0/1 nodes are available: 1 Too many pods.";
        let waits = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": full}]});
        assert!(matches!(phase(none(), waits), Phase::Queued { why } if why == full));
        let begins = json!({"phase": "Pending", "conditions": scheduled, "containerStatuses": [
            {"name": "s", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        assert_eq!(phase(none(), begins), Phase::Starting);
        let image = json!({"phase": "Pending", "conditions": scheduled, "containerStatuses": [
            {"name": "s", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]});
        assert!(
            matches!(phase(none(), image), Phase::Queued { why } if why.contains("no such image"))
        );
        let line = "{\"web\":\"https://a:1\",\"fingerprint\":\"\"}\n";
        assert_eq!(phase(none(), json!({"phase": "Running"})), Phase::Starting);
        let runs = phase(json!({pod::ENDPOINT: line}), json!({"phase": "Running"}));
        assert!(matches!(runs, Phase::Running { endpoint } if endpoint.web == "https://a:1"));
        let lost = json!({"phase": "Running", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]});
        assert!(matches!(phase(none(), lost), Phase::Lost { .. }));
        let failed = json!({"phase": "Failed", "containerStatuses": [
            {"name": "s", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"terminated": {"exitCode": 3}}}]});
        assert!(matches!(
            phase(none(), failed),
            Phase::Ended { code: Some(3), .. }
        ));
        let late = json!({"phase": "Failed", "reason": "DeadlineExceeded"});
        assert!(
            matches!(phase(none(), late), Phase::Ended { why, .. } if why == "time limit reached")
        );
    }
}
