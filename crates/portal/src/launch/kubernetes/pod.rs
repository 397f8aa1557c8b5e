//! The Pod of a session.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, LocalObjectReference, ObjectFieldSelector, Pod,
    PodSecurityContext, PodSpec, ResourceRequirements, SeccompProfile, SecurityContext, Toleration,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use super::{KubernetesConfig, Network, SavesVolume, volumes};
use crate::launch::{LaunchSpec, SessionId};

/// Name prefix of the portal's Pods.
pub(super) const PREFIX: &str = "ouvr-";
/// The label of all Pods of the portal.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "openuvr-portal");
/// The label selector for the portal's Pods.
pub(super) const SELECTOR: &str = "app.kubernetes.io/managed-by=openuvr-portal";

/// Annotation: the owner of a session. It is not a label, because labels cannot contain every account name.
pub(super) const USER: &str = "openuvr/user";
/// Annotation: the application's name.
pub(super) const APPLICATION: &str = "openuvr/application";
/// Annotation: the endpoint line of the session's program.
pub(super) const ENDPOINT: &str = "openuvr/endpoint";
/// Annotation: the reason why the portal has ended the session, if it did so without a request.
pub(super) const REFUSED: &str = "openuvr/refused";

/// Default grace period in seconds; a guess, enough for an application to save.
const GRACE: i64 = 10;

pub(crate) fn name(session: SessionId) -> String {
    format!("{PREFIX}{session}")
}

/// The session of a Pod; `None` if it is not a Pod of the portal.
pub(super) fn session(pod: &Pod) -> Option<SessionId> {
    pod.name_any().strip_prefix(PREFIX)?.parse().ok()
}

pub(super) fn of(config: &KubernetesConfig, spec: &LaunchSpec) -> Pod {
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let annotations = [(USER, spec.user.as_str()), (APPLICATION, &spec.application)];
    let labels = [MANAGED_BY, ("openuvr/session", &spec.session.to_string())].map(text);
    let selector = spec
        .zone
        .as_ref()
        .map(|zone| (config.zone.clone(), zone.clone()));
    let limit = spec
        .max_duration
        .map(|limit| i64::try_from(limit.as_secs().max(1)).unwrap_or(i64::MAX));
    let saves = volumes::saves(config, spec).map(|(volume, _)| volume);
    let (volumes, mounts) = volumes::of(config, spec);
    Pod {
        metadata: ObjectMeta {
            name: Some(name(spec.session)),
            labels: Some(labels.into()),
            annotations: Some(annotations.map(text).into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container(config, spec, mounts)],
            restart_policy: Some("Never".to_owned()),
            host_network: Some(config.network == Network::Host),
            runtime_class_name: config.runtime_class.clone(),
            image_pull_secrets: pull_secrets(config),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            active_deadline_seconds: limit,
            termination_grace_period_seconds: Some(GRACE),
            volumes: Some(volumes),
            security_context: Some(pod_security(config, saves)),
            node_selector: selector.map(|one| BTreeMap::from([one])),
            tolerations: Some(tolerations(config, spec)),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// Number of GPUs assigned to a Pod.
pub(crate) fn gpus(pod: &Pod, resource: &str) -> u32 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits = containers.filter_map(|of| of.resources.as_ref()?.limits.as_ref()?.get(resource));
    let numbers = limits.filter_map(|of| of.0.parse().ok());
    numbers.fold(0, u32::saturating_add)
}

/// The settings that the Pod Security Standard "restricted" requires of a Pod (Kubernetes, "Pod Security Standards").
fn pod_security(config: &KubernetesConfig, saves: Option<&SavesVolume>) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(config.user),
        run_as_group: Some(config.user),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        // Kubernetes assigns the volume's folders to this group, and gives the group write permission.
        fs_group: saves.map(|of| of.group),
        // Without this policy, Kubernetes would check the owner of every saved file, which would delay the start.
        fs_group_change_policy: saves.map(|_| "OnRootMismatch".to_owned()),
        ..PodSecurityContext::default()
    }
}

/// The settings that the standard "restricted" requires of a container. The root file system is read-only, unless the
/// application needs to write to it.
fn container_security(spec: &LaunchSpec) -> SecurityContext {
    SecurityContext {
        read_only_root_filesystem: Some(!spec.writable_root),
        allow_privilege_escalation: Some(false),
        privileged: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

fn pull_secrets(config: &KubernetesConfig) -> Option<Vec<LocalObjectReference>> {
    let secrets = config
        .pull_secrets
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() });
    Some(secrets.collect()).filter(|all: &Vec<_>| !all.is_empty())
}

fn container(config: &KubernetesConfig, spec: &LaunchSpec, mounts: Vec<VolumeMount>) -> Container {
    let own = spec.environment.iter();
    let mut environment: Vec<EnvVar> = own.map(|(name, value)| variable(name, value)).collect();
    if !spec.environment.contains_key("HOME") {
        environment.push(variable("HOME", volumes::HOME));
    }
    environment.push(variable("OPENUVR_SESSION", &spec.session.to_string()));
    environment.push(EnvVar {
        name: "OPENUVR_ADDRESS".to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                // The address at which players or the media relay reach the session.
                field_path: match (config.network, config.host_ports) {
                    (Network::Pod, None) => "status.podIP",
                    (Network::Pod, Some(_)) | (Network::Host, _) => "status.hostIP",
                }
                .to_owned(),
            }),
            ..EnvVarSource::default()
        }),
    });
    Container {
        name: "session".to_owned(),
        image: Some(config.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(config.program.clone()).filter(|of| !of.is_empty()),
        args: Some(spec.words.iter().map(|word| literal(word)).collect()),
        env: Some(environment),
        resources: Some(resources(config, spec)),
        volume_mounts: Some(mounts),
        security_context: Some(container_security(spec)),
        ..Container::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(literal(value)),
        value_from: None,
    }
}

/// Escapes `$(NAME)`, because Kubernetes would expand it.
fn literal(word: &str) -> String {
    word.replace("$(", "$$(")
}

fn resources(config: &KubernetesConfig, spec: &LaunchSpec) -> ResourceRequirements {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    if spec.millicores > 0 {
        requests.insert("cpu".to_owned(), Quantity(format!("{}m", spec.millicores)));
    }
    if spec.memory > 0 {
        let memory = Quantity(spec.memory.to_string());
        requests.insert("memory".to_owned(), memory.clone());
        limits.insert("memory".to_owned(), memory);
    }
    if spec.gpus > 0 {
        limits.insert(config.gpu.clone(), Quantity(spec.gpus.to_string()));
    }
    ResourceRequirements {
        claims: None,
        limits: Some(limits),
        requests: Some(requests),
    }
}

/// The tolerations of a Pod. Sessions on unresponsive nodes end sooner than by Kubernetes' default. Nodes with GPUs
/// have a taint with the name of the GPU resource, by convention of device plugins. Only Pods that need GPUs tolerate
/// this taint.
fn tolerations(config: &KubernetesConfig, spec: &LaunchSpec) -> Vec<Toleration> {
    let mut all: Vec<Toleration> = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    .map(|taint| tolerate(taint, config))
    .into();
    if spec.gpus > 0 {
        all.push(Toleration {
            key: Some(config.gpu.clone()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        });
    }
    all
}

fn tolerate(taint: &str, config: &KubernetesConfig) -> Toleration {
    Toleration {
        key: Some(taint.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(i64::try_from(config.unreachable.as_secs()).unwrap_or(i64::MAX)),
        value: None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn spec(words: &[&str]) -> LaunchSpec {
        LaunchSpec {
            session: SessionId::random(),
            user: "ada".to_owned(),
            application: "game".to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            environment: BTreeMap::new(),
            gpus: 0,
            millicores: 0,
            memory: 0,
            zone: None,
            max_duration: None,
            writable_root: false,
        }
    }

    #[test]
    fn a_pod_has_an_address_of_its_own_unless_it_shares_its_nodes() {
        let mut config = KubernetesConfig::new("image");
        let reached = |config: &KubernetesConfig| {
            let pod = of(config, &spec(&["--", "game"])).spec.unwrap();
            let mut all = pod.containers[0].env.clone().unwrap().into_iter();
            let address = all.find(|of| of.name == "OPENUVR_ADDRESS").unwrap();
            let field = address.value_from.unwrap().field_ref.unwrap().field_path;
            (pod.host_network, field)
        };
        assert_eq!(reached(&config), (Some(false), "status.podIP".to_owned()));
        config.host_ports = Some("20000-20999".parse().unwrap());
        assert_eq!(reached(&config), (Some(false), "status.hostIP".to_owned()));
        config.host_ports = None;
        config.network = Network::Host;
        assert_eq!(reached(&config), (Some(true), "status.hostIP".to_owned()));
    }

    #[test]
    fn a_pod_in_its_own_network_meets_the_restricted_standard() {
        let config = KubernetesConfig::new("image");
        let pod = of(&config, &spec(&[])).spec.unwrap();
        assert_eq!(pod.host_network, Some(false));
        assert_eq!(pod.automount_service_account_token, Some(false));
        let security = pod.security_context.unwrap();
        assert_eq!(security.run_as_non_root, Some(true));
        assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
        let container = pod.containers[0].security_context.clone().unwrap();
        assert_eq!(container.allow_privilege_escalation, Some(false));
        assert_eq!(container.read_only_root_filesystem, Some(true));
        let dropped = container.capabilities.unwrap();
        assert_eq!(
            (dropped.add, dropped.drop),
            (None, Some(vec!["ALL".to_owned()]))
        );
        // The standard "restricted" does not allow volumes from a path of the node.
        let volumes = pod.volumes.unwrap();
        assert!(volumes.iter().all(|of| of.host_path.is_none()));
    }

    #[test]
    fn only_an_application_that_needs_it_has_a_writable_root() {
        let config = KubernetesConfig::new("image");
        let writable = LaunchSpec {
            writable_root: true,
            ..spec(&[])
        };
        let pod = of(&config, &writable).spec.unwrap();
        let container = pod.containers[0].security_context.clone().unwrap();
        assert_eq!(container.read_only_root_filesystem, Some(false));
        assert_eq!(container.allow_privilege_escalation, Some(false));
    }

    #[test]
    fn only_a_pod_that_needs_gpus_tolerates_nodes_with_gpus() {
        let config = KubernetesConfig::new("image");
        let tolerates = |gpus| {
            let spec = LaunchSpec { gpus, ..spec(&[]) };
            let all = of(&config, &spec).spec.unwrap().tolerations.unwrap();
            let of_gpus = |of: &Toleration| of.key.as_deref() == Some("nvidia.com/gpu");
            all.iter().any(of_gpus)
        };
        assert_eq!([0, 1].map(tolerates), [false, true]);
    }

    #[test]
    fn a_pod_has_the_pull_secrets_and_runtime_that_are_named() {
        let mut config = KubernetesConfig::new("image");
        let told = |config: &KubernetesConfig| {
            let pod = of(config, &spec(&[])).spec.unwrap();
            let secrets = pod.image_pull_secrets.map(|all| {
                let names = all.into_iter().map(|secret| secret.name);
                names.collect::<Vec<_>>()
            });
            (secrets, pod.runtime_class_name)
        };
        assert_eq!(told(&config), (None, None));
        let secrets = vec!["registry".to_owned(), "mirror".to_owned()];
        config.pull_secrets = secrets.clone();
        config.runtime_class = Some("nvidia".to_owned());
        assert_eq!(told(&config), (Some(secrets), Some("nvidia".to_owned())));
    }

    #[test]
    fn a_pod_requests_its_applications_resources() {
        let config = KubernetesConfig::new("image");
        let asks = |spec: &LaunchSpec| {
            let pod = of(&config, spec).spec.unwrap();
            let resources = pod.containers[0].resources.clone().unwrap();
            let mut all = Vec::new();
            for (kind, of) in [
                ("asks for", resources.requests),
                ("is limited to", resources.limits),
            ] {
                let of = of.unwrap().into_iter();
                all.extend(of.map(|(name, quantity)| format!("{kind} {name} {}", quantity.0)));
            }
            all
        };
        assert_eq!(asks(&spec(&[])), [""; 0]);
        let much = LaunchSpec {
            gpus: 2,
            millicores: 1500,
            memory: 3 << 30,
            ..spec(&[])
        };
        // Processor time has no limit, because throttling would interrupt a stream.
        let needed = [
            "asks for cpu 1500m",
            "asks for memory 3221225472",
            "is limited to memory 3221225472",
            "is limited to nvidia.com/gpu 2",
        ];
        assert_eq!(asks(&much), needed);
    }
}
