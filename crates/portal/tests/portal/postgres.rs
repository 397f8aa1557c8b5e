//! PostgreSQL as the database of portals. Each test starts a real server. With `OPENUVR_TEST_DATABASE=postgres`, the
//! other tests of the interface use PostgreSQL, too (`./dev test-portal`).

use std::thread;

use super::support::postgres_server::Server;
use super::support::{Installation, Portal, id, wait};

/// An installation that uses the database at this URL.
fn place_in(url: &str) -> Installation {
    let mut place = Installation::new();
    place.database = Some(url.to_owned());
    place
}

/// The URL, with its TLS parameters replaced by these.
fn with_tls(url: &str, words: &str) -> String {
    let (at, _) = url.split_once('?').unwrap();
    format!("{at}?{words}")
}

/// The one-line error output of a portal that fails to start.
fn refusal(place: &Installation) -> String {
    let done = place.run(&["--listen", "127.0.0.1:0"], "");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn healthy(portal: &Portal) -> bool {
    portal.anonymous().status("GET", "/healthz", None) == 200
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn portals_that_start_at_once_make_one_set_of_tables() {
    let mut server = Server::start();
    for _ in 0..5 {
        let url = server.database();
        let places: Vec<Installation> = (0..4).map(|_| place_in(&url)).collect();
        let portals: Vec<Portal> = thread::scope(|scope| {
            let starting: Vec<_> = (places.iter())
                .map(|place| scope.spawn(|| place.start()))
                .collect();
            let started = starting.into_iter().map(|one| one.join().unwrap());
            started.collect()
        });
        places[0].add_user("ada", &[]);
        for portal in &portals {
            // On a busy machine, the check of the database may at first exceed its time limit.
            wait("health", || healthy(portal));
            portal.log_in("ada");
        }
    }
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn portals_share_accounts_and_history() {
    let mut server = Server::start();
    let url = server.database();
    let (one, other) = (place_in(&url), place_in(&url));
    one.add_user("ada", &["--operator"]);
    let said = other.run(&["user", "add", "ada", "--password-stdin"], "another one\n");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("the account \"ada\" already exists"),
        "{said}"
    );
    let portals = [one.start(), other.start()];
    let ada = portals[0].log_in("ada");
    let there = ada.at(&portals[1]);
    assert_eq!(there.status("GET", "/api/operator/users", None), 200);
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    assert_eq!(
        ada.status("DELETE", &format!("/api/sessions/{}", id(1)), None),
        202
    );
    ada.until(&id(1), "ended");
    // Both portals report past sessions, but each lists only the current sessions of its own engine.
    wait("the recorded end", || {
        let past = there.request("GET", "/api/history", None).unwrap().json();
        past[0]["ended"].is_i64()
    });
    assert_eq!(there.status("POST", "/api/logout", None), 204);
    assert_eq!(ada.status("GET", "/api/sessions", None), 401);
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn a_lost_server_is_reported_and_recovered() {
    let mut server = Server::start();
    let url = server.database();
    let place = place_in(&url);
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    server.order("stop");
    assert!(!healthy(&portal));
    let refused = ada.start_session(&id(2), "bare");
    assert_eq!(refused.status, 503, "{}", refused.text());
    let said = refused.text();
    assert!(said.contains("database does not respond"), "{said}");
    assert!(!said.contains("portal:portal"), "{said}");
    // Running sessions continue.
    assert_eq!(place.processes().len(), 1);
    server.order("start");
    wait("recovery", || healthy(&portal));
    assert_eq!(ada.start_session(&id(2), "bare").status, 202);
    ada.until(&id(2), "running");
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn the_connection_is_encrypted_and_verified() {
    let mut server = Server::start();
    let url = server.database();
    let authority = server.authority.display().to_string();
    let known = with_tls(
        &url,
        &format!("sslmode=verify-full&sslrootcert={authority}"),
    );
    let place = place_in(&known);
    place.add_user("ada", &[]);
    place.start().log_in("ada");
    // Neither this other authority nor a public one has signed the server's certificate.
    let stranger = Installation::new();
    stranger.secure();
    let other = stranger.path("cert.pem").display().to_string();
    for words in [
        format!("sslmode=verify-full&sslrootcert={other}"),
        "sslmode=verify-full".to_owned(),
    ] {
        let said = refusal(&place_in(&with_tls(&url, &words)));
        assert!(said.contains("cannot open the database"), "{said}");
        assert!(said.contains("certificate"), "{said}");
        assert!(!said.contains("portal:portal"), "{said}");
    }
    // A certificate for another name is rejected, too.
    let elsewhere = known.replace("@localhost:", "@127.0.0.2:");
    refusal(&place_in(&elsewhere));
}
