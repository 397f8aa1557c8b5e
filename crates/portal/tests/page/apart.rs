//! A session on a machine that browsers cannot reach: the portal reaches it, and a relay beside the portal.
//!
//! ```text
//!  desk 10.77.2.2 ─── 10.77.2.1  portal, coturn  10.77.1.1 ─── 10.77.1.2 session
//! ```
//! Each end is a network namespace with that one network, so nothing else leads from one to the other.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::plays::pixels_move;
use super::support::{Place, openuvr, wait};
use super::{log_in, start_in};

const DESK_SIDE: &str = "10.77.2.1";
const NODE_SIDE: &str = "10.77.1.1";
const NODE: &str = "10.77.1.2";

/// Where coturn listens.
const RELAY: u16 = 13_478;

/// What coturn and the portal know, and nobody else.
const SECRET: &str = "a secret of this test";

/// One network at a time: its addresses are fixed.
static TURN: Mutex<()> = Mutex::new(());

/// The networks; gone when dropped.
struct Network {
    desk: String,
    node: String,
    _turn: MutexGuard<'static, ()>,
}

impl Network {
    /// `None`, said aloud, without the privilege.
    #[expect(clippy::print_stderr, reason = "a test that does nothing says so")]
    fn new() -> Option<Network> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "this test needs root");
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        let number = std::process::id();
        let network = Network {
            desk: format!("ouvr-desk-{number}"),
            node: format!("ouvr-node-{number}"),
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        };
        for (name, here, address, link) in [
            (&network.desk, DESK_SIDE, "10.77.2.2", "ouvr-d"),
            (&network.node, NODE_SIDE, NODE, "ouvr-n"),
        ] {
            ip(&format!("netns add {name}"));
            let link = format!("{link}{number}");
            ip(&format!(
                "link add {link} type veth peer name cable netns {name}"
            ));
            ip(&format!("address add {here}/24 dev {link}"));
            ip(&format!("link set {link} up"));
            ip(&format!("-n {name} address add {address}/24 dev cable"));
            ip(&format!("-n {name} link set cable up"));
            ip(&format!("-n {name} link set lo up"));
        }
        Some(network)
    }

    /// Whether somebody there can send to the node at all.
    fn desk_reaches_node(&self) -> bool {
        let way = ["netns", "exec", &self.desk, "ip", "route", "get", NODE];
        let asked = Command::new("ip").args(way).output().unwrap();
        asked.status.success()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The cables go with the namespaces.
        for name in [&self.desk, &self.node] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn ip(line: &str) {
    let done = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {line}: {said}");
}

/// coturn, ended with the test.
struct Relay(Child);

impl Relay {
    fn start(place: &Place) -> Relay {
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

/// Plays the scene in a browser at the desk, where `engine` says in the configuration how sessions run on the node.
fn plays_at_the_desk(network: &Network, place: &Place, engine: &str) {
    let secure = place.secure();
    let Some((mut browser, _turn)) = start_in(&network.desk, place) else {
        return;
    };
    let openuvr = openuvr();
    place.write("turn.secret", SECRET);
    place.write(
        "portal.toml",
        &format!(
            "{secure}data = \"data\"\n{engine}\n\
             [turn]\nservers = [\"turn:{DESK_SIDE}:{RELAY}\"]\nsecret_file = \"turn.secret\"\n"
        ),
    );
    place.write(
        "applications.toml",
        &format!(
            "[[application]]\nname = \"scene\"\ntitle = \"Scene\"\ncommand = [{openuvr:?}, \"scene\"]\n\
             size = \"640x360\"\n"
        ),
    );
    place.add_user("ada", &[]);
    let _relay = Relay::start(place);
    let portal = place.start_at(&format!("{DESK_SIDE}:0"));
    assert!(!network.desk_reaches_node());
    let tab = log_in(&mut browser, &portal, "ada");
    let press = |word: &str| {
        format!(
            "window.open = () => null;
             [...document.querySelectorAll('#own button')].find((of) => of.textContent === '{word}').click(); true"
        )
    };
    let state = |of: &str| format!("document.querySelector('#own li')?.dataset.state === '{of}'");
    browser.run(
        &tab,
        "document.querySelector('[data-start=scene]').click(); true",
    );
    browser.until(&tab, &state("running"));
    browser.run(&tab, &press("Play"));
    browser.until(&tab, "document.querySelector('#video')?.videoWidth > 0");
    pixels_move(&mut browser, &tab);
    // All of it went through the relay.
    wait("the relay says that it passes on", || {
        let said = fs::read_to_string(place.path("coturn.log")).unwrap_or_default();
        said.contains(&format!("peer {NODE} lifetime updated"))
    });
    // The page leads back to the portal, where the session is stopped.
    browser.run(&tab, "document.querySelector('#back').click(); true");
    browser.until(&tab, &state("running"));
    browser.run(&tab, &press("Stop"));
    browser.until(&tab, &state("ended"));
}

/// As in a container with a network of its own: the program of sessions is started in there.
#[test]
#[ignore = "belongs to ./dev test-portal: a browser, network namespaces, coturn"]
fn a_session_in_a_network_of_its_own_is_played_through_a_relay() {
    let Some(network) = Network::new() else {
        return;
    };
    let place = Place::new();
    let (openuvr, node) = (openuvr(), &network.node);
    let engine = format!(
        "[local]\nprogram = [\"ip\", \"netns\", \"exec\", \"{node}\", \"env\", \"OPENUVR_ADDRESS={NODE}\", {openuvr:?}, \
         \"session\", \"--set\", \"sound=off\"]\nlisten = \"0.0.0.0\""
    );
    plays_at_the_desk(&network, &place, &engine);
    wait("nothing of it is left", || place.processes().is_empty());
}

/// A cluster of Slurm whose nodes are there, and whose controller is on the portal's machine.
struct Cluster(std::path::PathBuf);

impl Cluster {
    fn start(network: &Network) -> Cluster {
        let name = format!("openuvr-slurm-apart-{}", std::process::id());
        let cluster = Cluster(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&cluster.0);
        cluster.run("up", &[&network.node, NODE_SIDE, NODE]);
        cluster
    }

    fn run(&self, verb: &str, more: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster");
        let mut command = Command::new("python3");
        command
            .args([script, "slurm", verb])
            .arg(&self.0)
            .args(more);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{verb}: {said}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("down", &[]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "belongs to ./dev test-cluster slurm: the daemons of Slurm, a browser, network namespaces, coturn"]
fn a_session_of_slurm_on_a_node_apart_is_played_through_a_relay() {
    let Some(network) = Network::new() else {
        return;
    };
    let cluster = Cluster::start(&network);
    let mut place = Place::new();
    let configuration = cluster.0.join("slurm.conf").display().to_string();
    place.environment = vec![("SLURM_CONF", configuration)];
    let openuvr = openuvr();
    let engine = format!(
        "launcher = \"slurm\"\n[slurm]\nprogram = [{openuvr:?}, \"session\", \"--listen=0.0.0.0\", \"--set\", \"sound=off\"]"
    );
    plays_at_the_desk(&network, &place, &engine);
}
