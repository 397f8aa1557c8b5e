//! Tests `packaging/manifests/portal.yaml`, which runs a portal in a cluster: the portal must accept the configuration in
//! this file. `./dev test-cluster kubernetes` validates the rest with an API server.

use std::net::SocketAddr;
use std::path::Path;

use super::support::{Installation, wait};

const MANIFEST: &str = include_str!("../../../../packaging/manifests/portal.yaml");

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The text after `NAME: |`: the following lines with deeper indentation.
fn block(name: &str) -> String {
    let head = format!("{name}: |");
    let mut lines = MANIFEST.lines().skip_while(|line| line.trim() != head);
    let depth = indent(lines.next().unwrap());
    let inside = lines.take_while(|line| line.trim().is_empty() || indent(line) > depth);
    let lines: Vec<&str> = inside
        .map(|line| line.get(depth + 2..).unwrap_or_default())
        .collect();
    lines.join("\n")
}

/// The texts after all occurrences of `KEY:` in the manifest.
fn values(key: &str) -> Vec<&'static str> {
    let lines = MANIFEST.lines().map(|line| {
        let line = line.trim();
        line.strip_prefix("- ").unwrap_or(line)
    });
    let values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    values.collect()
}

/// The paths in the manifest that the portal reads or writes: its configuration, a secret, and its data folder.
fn files() -> [String; 3] {
    let args = values("args");
    let words = args[0].trim_end_matches(']');
    let config: toml::Table = toml::from_str(&block("portal.toml")).unwrap();
    let secret = &config["turn"]["secret_file"];
    [
        words.rsplit(' ').next().unwrap().to_owned(),
        secret.as_str().unwrap().to_owned(),
        config["data"].as_str().unwrap().to_owned(),
    ]
}

#[test]
fn a_portal_accepts_the_configuration_of_its_manifest() {
    let place = Installation::new();
    let [_, secret, _] = files();
    // In the cluster, this file is a mount. On this machine, it has another path.
    place.write("turn.secret", "of a test\n");
    let own = place.path("turn.secret").display().to_string();
    let config = block("portal.toml").replace(&secret, &own);
    place.write("portal.toml", &config);
    place.write("applications.toml", &block("applications.toml"));
    let checked = place.run(&["check"], "");
    let said = String::from_utf8_lossy(&checked.stdout);
    let complaint = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{complaint}");
    assert!(said.starts_with("1 application in "), "{said}{complaint}");
    assert_eq!(
        complaint.contains("root's rights"),
        rustix::process::geteuid().is_root(),
        "{complaint}"
    );
    let config: toml::Table = toml::from_str(&config).unwrap();
    assert_eq!(config["launcher"].as_str(), Some("kubernetes"));
}

#[test]
fn a_check_counts_invalid_entries_and_names_a_missing_file() {
    let place = Installation::new();
    let check = || {
        let checked = place.run(&["check"], "");
        assert!(!checked.status.success());
        String::from_utf8_lossy(&checked.stderr).into_owned()
    };
    let nameless = "[[application]]\ncommand = [\"true\"]\n";
    place.write("applications.toml", nameless);
    let said = check();
    assert!(said.contains("1 entry is invalid"), "{said}");
    place.write("applications.toml", &nameless.repeat(2));
    let said = check();
    assert!(said.contains("2 entries are invalid"), "{said}");
    std::fs::remove_file(place.path("applications.toml")).unwrap();
    let said = check();
    assert!(said.contains("cannot read the applications in "), "{said}");
    assert!(!said.contains("invalid"), "{said}");
}

#[test]
fn the_portals_files_are_on_volumes_of_its_pod() {
    let mounts = values("mountPath");
    for file in files() {
        let on = |mount: &&str| Path::new(&file).starts_with(mount);
        assert!(mounts.iter().any(on), "{file} is missing in {mounts:?}");
    }
}

#[test]
fn probes_and_service_ask_the_portal_where_it_answers() {
    let config: toml::Table = toml::from_str(&block("portal.toml")).unwrap();
    let listen: SocketAddr = config["listen"].as_str().unwrap().parse().unwrap();
    assert!(listen.ip().is_unspecified(), "others come from outside");
    assert_eq!(values("containerPort"), [listen.port().to_string()]);
    // The manifest has three probes, and then the service. The probes refer to the container's port by its name.
    assert_eq!(values("port"), ["http", "http", "http", "80"]);
    assert_eq!(values("targetPort"), ["http"]);
    let next = MANIFEST.lines().skip(1);
    let mut pairs = MANIFEST.lines().zip(next);
    let (named, _) = pairs
        .find(|(_, next)| next.contains("containerPort:"))
        .unwrap();
    assert_eq!(named.trim(), "- name: http");

    let paths = values("path");
    let [health, page] = paths[..] else {
        panic!("paths of one probe and of the ingress");
    };
    let place = Installation::new();
    let portal = place.start();
    let get = |path: &str| portal.anonymous().request("GET", path, None).unwrap();
    // On a busy machine, the check of the database may at first exceed its time limit.
    wait("health", || {
        let answer = get(health);
        answer.status == 200 && answer.text() == "ok\n"
    });
    assert_eq!(get(page).status, 200);
}
