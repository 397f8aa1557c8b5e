//! PostgreSQL as the portals' database, a real server of its own for each test. The other tests of the interface run
//! on it, too, where `OPENUVR_TEST_DATABASE=postgres` says so: `./dev test-portal`.

use std::thread;

use super::support::postgres_server::Server;
use super::support::{Installation, Portal, id, wait};

/// A place whose portals keep what they know at this URL.
fn place_in(url: &str) -> Installation {
    let mut place = Installation::new();
    place.database = Some(url.to_owned());
    place
}

/// With these words in place of the URL's own about TLS.
fn with_tls(url: &str, words: &str) -> String {
    let (at, _) = url.split_once('?').unwrap();
    format!("{at}?{words}")
}

/// The portal starts, says one line, and ends.
fn refusal(place: &Installation) -> String {
    let done = place.run(&["--listen", "127.0.0.1:0"], "");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn healthy(portal: &Portal) -> bool {
    portal.nobody().status("GET", "/healthz", None) == 200
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
            assert!(healthy(portal));
            portal.log_in("ada");
        }
    }
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn what_one_portal_is_told_another_knows() {
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
    assert_eq!(ada.begin(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    assert_eq!(
        ada.status("DELETE", &format!("/api/sessions/{}", id(1)), None),
        202
    );
    ada.until(&id(1), "ended");
    // What was played is told by either; sessions themselves each portal's engine knows.
    wait("the session's end is noted", || {
        let past = there.request("GET", "/api/history", None).unwrap().json();
        past[0]["ended"].is_i64()
    });
    assert_eq!(there.status("POST", "/api/logout", None), 204);
    assert_eq!(ada.status("GET", "/api/sessions", None), 401);
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn a_server_that_is_gone_is_told_and_taken_back() {
    let mut server = Server::start();
    let url = server.database();
    let place = place_in(&url);
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.begin(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    server.order("stop");
    assert!(!healthy(&portal));
    let refused = ada.begin(&id(2), "bare");
    assert_eq!(refused.status, 503, "{}", refused.text());
    let said = refused.text();
    assert!(said.contains("database does not respond"), "{said}");
    assert!(!said.contains("portal:portal"), "{said}");
    // Who plays goes on.
    assert_eq!(place.processes().len(), 1);
    server.order("start");
    wait("it is taken back", || healthy(&portal));
    assert_eq!(ada.begin(&id(2), "bare").status, 202);
    ada.until(&id(2), "running");
}

#[test]
#[ignore = "needs PostgreSQL: ./dev test-portal"]
fn the_connection_is_encrypted_and_the_server_is_who_it_says() {
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
    // Another authority, and those that everybody knows.
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
    // Nor is one taken by another name than its own.
    let elsewhere = known.replace("@localhost:", "@127.0.0.2:");
    refusal(&place_in(&elsewhere));
}
