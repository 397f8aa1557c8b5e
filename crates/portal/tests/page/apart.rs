//! A session on a machine that the portal and its relay can reach, but browsers cannot.
//!
//! ```text
//!  desk 10.77.2.2 ─── 10.77.2.1  portal, coturn  10.77.1.1 ─── 10.77.1.2 session
//! ```
//! Each side is a network namespace that has only its own network, so there is no other route. If the session runs in a
//! Pod, a bridge replaces the cable to the session.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::plays::pixels_move;
use super::support::skip::skip;
use super::support::{Installation, openuvr, wait};
use super::{log_in, play, press, start_application, start_in, state, write_scene};

const DESK_SIDE: &str = "10.77.2.1";
const DESK: &str = "10.77.2.2";
const NODE_SIDE: &str = "10.77.1.1";
const NODE: &str = "10.77.1.2";
/// The network of the node and its Pods.
const NODES: &str = "10.77.1.0/24";

/// Port of coturn.
const RELAY: u16 = 13_478;

/// The secret that coturn and the portal share.
const SECRET: &str = "a secret of this test";

/// Serialises the tests, because the network addresses are fixed.
static TURN: Mutex<()> = Mutex::new(());

/// The networks. They are removed on drop.
struct Network {
    /// The namespace of the browser.
    desk: String,
    /// The namespace of the session, or the bridge for Pods.
    node: String,
    _turn: MutexGuard<'static, ()>,
}

impl Network {
    /// Creates the networks with one node. Without root privileges, prints a message and returns `None`.
    fn of_a_node() -> Option<Network> {
        let network = Network::of_the_desk()?;
        cable(&network.node, NODE_SIDE, NODE, "ouvr-n");
        Some(network)
    }

    /// Creates the networks with a bridge for Pods.
    fn of_pods() -> Option<Network> {
        let network = Network::of_the_desk()?;
        let bridge = &network.node;
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("address add {NODE_SIDE}/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
        Some(network)
    }

    fn of_the_desk() -> Option<Network> {
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let number = std::process::id();
        let network = Network {
            desk: format!("ouvr-desk-{number}"),
            node: format!("ouvr-{number}"),
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        };
        cable(&network.desk, DESK_SIDE, DESK, "ouvr-d");
        Some(network)
    }

    /// Whether the browser's side has a route to the node.
    fn desk_reaches_node(&self) -> bool {
        let way = ["netns", "exec", &self.desk, "ip", "route", "get", NODE];
        let asked = Command::new("ip").args(way).output().unwrap();
        asked.status.success()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Network { desk, node, .. } = self;
        // Removing a namespace also removes its cable.
        for gone in [
            ["netns", "del", desk],
            ["netns", "del", node],
            ["link", "del", node],
        ] {
            let _ = Command::new("ip").args(gone).output();
        }
    }
}

/// Creates a namespace, and a cable (veth pair) between it and the current namespace.
fn cable(namespace: &str, here: &str, there: &str, link: &str) {
    let link = format!("{link}{}", std::process::id());
    ip(&format!("netns add {namespace}"));
    ip(&format!(
        "link add {link} type veth peer name cable netns {namespace}"
    ));
    ip(&format!("address add {here}/24 dev {link}"));
    ip(&format!("link set {link} up"));
    ip(&format!("-n {namespace} address add {there}/24 dev cable"));
    ip(&format!("-n {namespace} link set cable up"));
    ip(&format!("-n {namespace} link set lo up"));
}

fn ip(line: &str) {
    let done = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {line}: {said}");
}

/// A coturn process. It is killed on drop.
struct Relay(Child);

impl Relay {
    fn start(place: &Installation) -> Relay {
        let log = fs::File::create(place.path("coturn.log")).unwrap();
        let port = RELAY.to_string();
        let mut command = Command::new("turnserver");
        command
            .args(["-n", "--no-cli", "--no-tls", "--no-dtls", "--verbose"])
            .args(["--log-file", "stdout", "--pidfile", "/dev/null"])
            .args(["--listening-ip", DESK_SIDE, "--listening-port", &port])
            .args(["--relay-ip", NODE_SIDE, "--realm", "openuvr.test"])
            .args(["--use-auth-secret", "--static-auth-secret", SECRET])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Relay(command.spawn().unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays the scene in a browser in the namespace `desk`. `engine` configures how sessions run on the node.
fn plays_at_the_desk(network: &Network, place: &Installation, engine: &str) {
    let secure = place.secure();
    let Some((mut browser, _turn)) = start_in(&network.desk, place) else {
        return;
    };
    place.write("turn.secret", SECRET);
    place.write(
        "portal.toml",
        &format!(
            "{secure}data = \"data\"\n{engine}\n\
             [turn]\nservers = [\"turn:{DESK_SIDE}:{RELAY}\"]\nsecret_file = \"turn.secret\"\n"
        ),
    );
    write_scene(place, "title = \"Scene\"");
    place.add_user("ada", &[]);
    let _relay = Relay::start(place);
    let portal = place.start_at(&format!("{DESK_SIDE}:0"));
    assert!(!network.desk_reaches_node());
    let tab = log_in(&mut browser, &portal, "ada");
    start_application(&mut browser, &tab, "scene", "running");
    play(&mut browser, &tab);
    browser.until(&tab, "document.querySelector('#video')?.videoWidth > 0");
    pixels_move(&mut browser, &tab);
    // The log shows that the relay has forwarded data to the node. There is no other route.
    wait("traffic through the relay", || {
        let said = fs::read_to_string(place.path("coturn.log")).unwrap_or_default();
        let node = NODE.trim_end_matches('2');
        said.lines()
            .any(|line| line.contains(&format!("peer {node}")) && line.contains("lifetime updated"))
    });
    // The page links back to the portal. The session is stopped there.
    browser.run(&tab, "document.querySelector('#back').click(); true");
    browser.until(&tab, &state("running"));
    browser.run(&tab, &press("Stop", "#own"));
    browser.until(&tab, &state("ended"));
}

/// The session program is started in a network namespace, as in a container with its own network.
#[test]
#[ignore = "belongs to ./dev test-portal: a browser, network namespaces, coturn"]
fn a_session_in_a_network_of_its_own_is_played_through_a_relay() {
    let Some(network) = Network::of_a_node() else {
        return;
    };
    let place = Installation::new();
    let (openuvr, node) = (openuvr(), &network.node);
    let engine = format!(
        "[local]\nprogram = [\"ip\", \"netns\", \"exec\", \"{node}\", \"env\", \"OPENUVR_ADDRESS={NODE}\", {openuvr:?}, \
         \"session\", \"--set\", \"sound=off\"]\nlisten = \"0.0.0.0\""
    );
    plays_at_the_desk(&network, &place, &engine);
    wait("no remaining processes", || place.processes().is_empty());
}

/// A cluster that `crates/portal/cluster` starts and stops.
struct Cluster {
    engine: &'static str,
    folder: TempDir,
}

impl Cluster {
    fn start(engine: &'static str, more: &[&str]) -> Cluster {
        // The folder is accessible to all users, because the cluster's daemons run as several users.
        let anyone = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .permissions(anyone)
            .tempdir()
            .unwrap();
        let cluster = Cluster { engine, folder };
        cluster.run("up", more);
        cluster
    }

    fn run(&self, verb: &str, more: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster");
        let mut command = Command::new("python3");
        command
            .args([script, self.engine, verb])
            .arg(self.folder.path())
            .args(more);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{verb}: {said}");
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("down", &[]);
    }
}

/// The nodes run in the namespace. Their controller runs on the portal's machine.
#[test]
#[ignore = "belongs to ./dev test-cluster slurm: the daemons of Slurm, a browser, network namespaces, coturn"]
fn a_session_of_slurm_on_a_node_apart_is_played_through_a_relay() {
    let Some(network) = Network::of_a_node() else {
        return;
    };
    let cluster = Cluster::start("slurm", &[&network.node, NODE_SIDE, NODE]);
    let mut place = Installation::new();
    place.environment = vec![("SLURM_CONF", cluster.file("slurm.conf"))];
    let openuvr = openuvr();
    let engine = format!(
        "launcher = \"slurm\"\n[slurm]\nprogram = [{openuvr:?}, \"session\", \"--listen=0.0.0.0\", \"--set\", \"sound=off\"]"
    );
    plays_at_the_desk(&network, &place, &engine);
}

/// Pods have their own network, as usual. Only the portal's machine can reach it.
#[test]
#[ignore = "belongs to ./dev test-cluster kubernetes: a cluster, a browser, network namespaces, coturn"]
fn a_session_of_kubernetes_in_a_pod_is_played_through_a_relay() {
    let Some(network) = Network::of_pods() else {
        return;
    };
    let openuvr = openuvr();
    let program = openuvr.display().to_string();
    let cluster = Cluster::start("kubernetes", &[&program, &network.node, NODES]);
    let place = Installation::new();
    let kubeconfig = cluster.file("portal.kubeconfig");
    let engine = format!(
        "launcher = \"kubernetes\"\n[kubernetes]\nkubeconfig = {kubeconfig:?}\nimage = \"openuvr.test/session:1\"\n\
         program = [{openuvr:?}, \"session\", \"--listen=0.0.0.0\", \"--set\", \"sound=off\"]"
    );
    plays_at_the_desk(&network, &place, &engine);
}
