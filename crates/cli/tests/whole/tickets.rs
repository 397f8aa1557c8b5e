//! Portal tickets: the clients and roles that they admit, and tickets that are rejected.

use std::process::Command;

use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Ticket, TicketSigner, UnixTime};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};

use crate::support::portal::{Portal, now};
use crate::support::{Folder, Hop, Host, Program, Quality, client, openuvr, skip};

const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "10"];

/// Starts a host that accepts the portal's tickets. Also returns the host's key.
fn host(portal: &Portal) -> (Host, PublicKey) {
    let args = portal.args();
    let args = [&args[0], &args[1]].map(String::as_str);
    let host = Host::start(&[&args[..], &PATTERN].concat());
    let key = load_or_create(&host.folder.path().join("host"), KeyOwner::Host);
    (host, key.expect("it has one").public())
}

/// Starts a new client with this link.
fn open_link(folder: &Folder, name: &str, link: &str) -> Program {
    client(folder, name, link, &["--present", "null"])
}

fn key_of(folder: &Folder, name: &str) -> PublicKey {
    let identity = load_or_create(&folder.path().join(name), KeyOwner::Client);
    identity.expect("a new key").public()
}

#[test]
fn a_ticket_admits_a_client_and_is_not_stored() {
    let portal = Portal::new();
    let (host, key) = host(&portal);
    assert_eq!(host.program.count("PIN"), 0, "pairing is closed");
    let ours = key_of(&host.folder, "player");
    let ticket = portal.ticket(Role::Player, Some(&ours));
    let link = portal.link(&host.address(), key, &ticket);
    let mut player = open_link(&host.folder, "player", &link);
    player.line("player at");
    host.program.line("player joins as player");
    // An observer's ticket never gives the player role.
    let ticket = portal.ticket(Role::Observer, None);
    let link = portal.link(&host.address(), key, &ticket);
    let mut watcher = open_link(&host.folder, "watcher", &link);
    watcher.line("observer at");
    host.program.line("watcher joins as observer");
    player.stop();
    host.program.line("player left");
    watcher.stop();
    assert_eq!(host.program.count("watcher is now"), 0);
    assert!(!host.folder.path().join("host/devices.toml").exists());
    assert!(!host.folder.path().join("player/hosts.toml").exists());
}

#[test]
fn a_client_reconnects_without_a_ticket() {
    let portal = Portal::new();
    let (host, key) = host(&portal);
    let ours = key_of(&host.folder, "player");
    let mut ticket = portal.ticket(Role::Player, Some(&ours));
    // The ticket has expired, but within the tolerated clock skew.
    ticket.not_after = UnixTime(now().0 - 5);
    let hop = Hop::start(&host, 0, Quality::PERFECT);
    let link = portal.link(&hop.address(), key, &ticket);
    let player = open_link(&host.folder, "player", &link);
    player.line("player at");
    let port = hop.port;
    drop(hop);
    host.program.line("player left");
    let _hop = Hop::start(&host, port, Quality::PERFECT);
    player.nth_line(2, "player at");
    assert_eq!(host.program.count("refused a ticket"), 0);
}

#[test]
fn bad_tickets_are_rejected_with_a_reason() {
    let portal = Portal::new();
    let (mut host, key) = host(&portal);
    let good = || portal.ticket(Role::Player, None);
    let used = good();
    let link = portal.link(&host.address(), key, &used);
    let mut first = open_link(&host.folder, "first", &link);
    first.line("player at");
    let other = Portal {
        signer: TicketSigner::generate().expect("randomness"),
        session: portal.session,
    };
    let elsewhere = Portal::new();
    let expired = Ticket {
        not_after: UnixTime(now().0 - 3600),
        ..good()
    };
    let eternal = Ticket {
        not_after: UnixTime(now().0 + 36_000),
        ..good()
    };
    let foreign = Ticket {
        session: elsewhere.session,
        ..good()
    };
    let of_another = portal.ticket(Role::Player, Some(&key_of(&host.folder, "first")));
    for (signs, ticket, why) in [
        (&portal, used, "was used by another device"),
        (&portal, expired, "has expired"),
        (&portal, eternal, "valid for longer"),
        (&portal, foreign, "is for another session"),
        (&portal, of_another, "is for another device"),
        (&other, good(), "is not signed by the portal"),
    ] {
        let link = signs.link(&host.address(), key, &ticket);
        let printed = open_link(&host.folder, "second", &link).fails_in_one_line();
        assert!(printed.contains(why), "{why}: {printed}");
        host.program.line(why);
    }
    let stranger = key_of(&host.folder, "stranger");
    let link = portal.link(&host.address(), stranger, &good());
    let printed = open_link(&host.folder, "second", &link).fails_in_one_line();
    assert!(
        printed.contains("does not prove possession of the key in the link"),
        "{printed}"
    );
    first.assert_running();
    host.program.assert_running();
    assert_eq!(host.program.count("joins as"), 1);
}

#[test]
fn a_host_without_a_portal_rejects_tickets() {
    let host = Host::start(&PATTERN);
    let key = load_or_create(&host.folder.path().join("host"), KeyOwner::Host);
    let portal = Portal::new();
    let ticket = portal.ticket(Role::Player, None);
    let key = key.expect("it has one").public();
    let link = portal.link(&host.address(), key, &ticket);
    let printed = open_link(&host.folder, "second", &link).fails_in_one_line();
    assert!(printed.contains("accepts no tickets"), "{printed}");
}

/// A link is opened as by a browser: xdg-open finds the handler and starts a client.
#[test]
fn the_desktop_opens_a_link_with_a_client() {
    let has = Command::new("xdg-open").arg("--version").output().is_ok();
    if !has {
        skip("xdg-utils are not installed: apt-get install xdg-utils");
        return;
    }
    let portal = Portal::new();
    let (host, key) = host(&portal);
    let home = Folder::new();
    let at = |name: &str| home.path().join(name);
    let settings = at("config/openuvr");
    std::fs::create_dir_all(&settings).expect("a folder");
    let client_settings =
        "present = \"null\"\nsound = \"off\"\nname = \"follower\"\nreconnect = false\n";
    std::fs::write(settings.join("client.toml"), client_settings).expect("a writable folder");
    let surround = |command: &mut Command| {
        command
            // Without DISPLAY, xdg-open only tries browsers. No program connects to this display.
            .env("DISPLAY", ":nowhere")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("XDG_CURRENT_DESKTOP")
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", at("config"))
            .env("XDG_DATA_HOME", at("data"));
    };
    let mut install = openuvr(&["link", "install", "--only=127.0.0.0/8"]);
    surround(&mut install);
    let done = install.output().expect("it starts");
    assert!(done.status.success(), "{done:?}");
    let link = portal.link(&host.address(), key, &portal.ticket(Role::Player, None));
    let mut open = Command::new("xdg-open");
    open.arg(&link);
    surround(&mut open);
    let mut opened = Program::start("xdg-open", open);
    host.program.line("follower joins as player");
    let mut again = openuvr(&["link", "open", "--only=10.0.0.0/8", "--", &link]);
    surround(&mut again);
    let refused = again.output().expect("it starts");
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        printed.contains("the link's host is not allowed") && !refused.status.success(),
        "{printed}"
    );
    // Without the host, the client ends, and xdg-open with it.
    drop(host);
    opened.wait();
    let mut uninstall = openuvr(&["link", "uninstall"]);
    surround(&mut uninstall);
    assert!(uninstall.output().expect("it starts").status.success());
    assert!(!at("data/applications/openuvr-link.desktop").exists());
}
