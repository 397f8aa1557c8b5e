//! UDP ports on the nodes, forwarded to sessions in the Pod network (`hostPort`).
//!
//! A session uses two consecutive UDP ports: the first one for native clients, the second one for browsers. A port has
//! the same number on the node as in the Pod, because a session announces its own ports at the address of its node. The
//! scheduler assigns Pods with equal ports to different nodes. Control and signalling use the Pod network, so no TCP
//! port of the node is open.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};

use super::settings::HostPorts;
use crate::launch::{Endpoint, SessionId};

/// Chooses a pair of ports for a session, and returns its first port. The search for a free pair begins at a pair that
/// the session's random id determines, because several portals may choose at the same time. If all pairs are in use,
/// the Pod waits for a node on which its pair is free.
pub(super) fn choose(range: HostPorts, session: SessionId, taken: &BTreeSet<u16>) -> u16 {
    let [a, b, c, d, ..] = session.bytes();
    let pairs = range.pairs();
    let begin = u32::from_le_bytes([a, b, c, d]) % pairs;
    let all = (0..pairs).map(|index| range.pair((begin + index) % pairs));
    let mut free = all.filter(|port| !taken.contains(port));
    free.next().unwrap_or_else(|| range.pair(begin))
}

/// The node ports that these Pods use.
pub(super) fn taken(pods: &[Pod]) -> BTreeSet<u16> {
    let ports = pods.iter().flat_map(of).filter_map(|of| of.host_port);
    ports.filter_map(|port| u16::try_from(port).ok()).collect()
}

/// Adds a pair of ports to a session's Pod. `program` is the session's program and its first arguments.
pub(super) fn publish(session: &mut Pod, first: u16, program: &[String]) {
    let containers = session.spec.iter_mut().flat_map(|of| &mut of.containers);
    for container in containers {
        let udp = |port: u16| ContainerPort {
            container_port: i32::from(port),
            host_port: Some(i32::from(port)),
            protocol: Some("UDP".to_owned()),
            ..ContainerPort::default()
        };
        container.ports = Some(vec![udp(first), udp(first.saturating_add(1))]);
        // The session program uses the last `--listen`, so this option overrides an earlier one in `program`.
        let listen = SocketAddr::new(listen_address(program), first);
        let words = container.args.get_or_insert_default();
        words.insert(0, format!("--listen={listen}"));
    }
}

/// The address of the last `--listen=ADDRESS` without a port in the program's arguments; all IPv4 addresses if there is
/// none.
fn listen_address(program: &[String]) -> IpAddr {
    let mut last = program.iter().rev();
    let address = last.find_map(|word| word.strip_prefix("--listen=")?.parse().ok());
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// The endpoint at which the portal connects to a session. A session with ports on its node announces only the node's
/// address, so this function replaces the node's address with the Pod's.
pub(super) fn reached(session: &Pod, endpoint: Endpoint) -> Endpoint {
    match inside(session, &endpoint.web) {
        Some(web) => Endpoint { web, ..endpoint },
        None => endpoint,
    }
}

/// The gateway's address in the Pod network, if the session has ports on its node.
fn inside(session: &Pod, web: &str) -> Option<String> {
    of(session).find(|of| of.host_port.is_some())?;
    let pod: IpAddr = session.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    let node: SocketAddr = web.strip_prefix("https://")?.parse().ok()?;
    Some(format!("https://{}", SocketAddr::new(pod, node.port())))
}

fn of(session: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = session.spec.iter().flat_map(|of| &of.containers);
    containers.flat_map(|of| of.ports.iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::super::{KubernetesConfig, pod};
    use super::*;

    #[test]
    fn sessions_get_different_pairs_until_none_is_free() {
        let range: HostPorts = "20000-20007".parse().unwrap();
        let mut pods = Vec::new();
        for _ in 0..4 {
            let spec = pod::tests::spec(&[]);
            let first = choose(range, spec.session, &taken(&pods));
            let mut session = pod::of(&KubernetesConfig::new("image"), &spec);
            publish(&mut session, first, &[]);
            pods.push(session);
        }
        let all: BTreeSet<u16> = (20000..=20007).collect();
        assert_eq!(taken(&pods), all);
        let more = choose(range, SessionId::random(), &all);
        assert!([20000, 20002, 20004, 20006].contains(&more), "{more}");
    }

    #[test]
    fn the_portal_reaches_a_published_session_at_its_pod() {
        let spec = pod::tests::spec(&["--id=a", "--", "game"]);
        let mut session = pod::of(&KubernetesConfig::new("image"), &spec);
        let endpoint = Endpoint {
            web: "https://192.0.2.3:20001".to_owned(),
            fingerprint: String::new(),
            native: Some("192.0.2.3:20000".parse().unwrap()),
            key: None,
        };
        session.status.get_or_insert_default().pod_ip = Some("10.0.0.7".to_owned());
        assert_eq!(reached(&session, endpoint.clone()), endpoint);
        let program = ["openuvr", "session", "--listen=10.0.0.1"].map(str::to_owned);
        publish(&mut session, 20000, &program);
        let wanted = Endpoint {
            web: "https://10.0.0.7:20001".to_owned(),
            ..endpoint.clone()
        };
        assert_eq!(reached(&session, endpoint), wanted);
        let spec = session.spec.unwrap();
        let container = &spec.containers[0];
        let words = ["--listen=10.0.0.1:20000", "--id=a", "--", "game"];
        assert_eq!(container.args.clone().unwrap(), words);
    }
}
