//! A session is played in a browser on the portal's origin. The session can influence the browser only by messages of
//! one WebSocket, and only while the user has access.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::support::{Installation, Person, Portal, example, id, wait};

/// A portal whose sessions are hostile, and an installation with two users.
struct World {
    place: Installation,
    portal: Portal,
}

impl World {
    fn new() -> World {
        let mut place = Installation::new();
        // The sessions are killed and leave their folders, which are removed with the installation.
        let temporary = place.folder.path().display().to_string();
        place.environment = vec![("TMPDIR", temporary)];
        let program = example("hostile_session");
        place.write(
            "portal.toml",
            &format!("data = \"data\"\n[local]\nprogram = [{program:?}]\nplaces = 3\n"),
        );
        place.add_user("ada", &[]);
        place.add_user("bob", &[]);
        let portal = place.start();
        World { place, portal }
    }

    /// Starts a session for this user, and sets its behaviour. Returns the session's folder.
    fn start_hostile(&self, person: &Person, session: &str, does: &str) -> PathBuf {
        assert_eq!(person.start_session(session, "bare").status, 202);
        person.until(session, "running");
        let name = format!("ouvr-{}", session.replace('-', ""));
        let folder = self.place.path(&name);
        fs::write(folder.join("does"), does).unwrap();
        folder
    }
}

/// Requests the WebSocket. Returns the status and the headers of the response, and a reader for the data that follows.
fn connect(
    person: &Person,
    session: &str,
    more: &[(&str, &str)],
) -> (u16, Vec<(String, String)>, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(&person.at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut head = format!(
        "GET /play/{session}/signalling?reports HTTP/1.1\r\nhost: {at}\r\norigin: http://{at}\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        at = person.at
    );
    if let Some(cookie) = &person.cookie {
        head += &format!("cookie: {cookie}\r\n");
    }
    for (name, value) in more {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = Vec::new();
    loop {
        line.clear();
        answer.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => break,
        }
    }
    (status, headers, answer)
}

fn names(headers: &[(String, String)]) -> BTreeSet<&str> {
    headers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_session_gets_no_secret_and_sets_no_header() {
    let world = World::new();
    let (ada, session) = (world.portal.log_in("ada"), id(1));
    let folder = world.start_hostile(&ada, &session, "echo");
    let secrets = [
        ("x-openuvr-csrf", ada.csrf.as_deref().unwrap()),
        ("authorization", "Bearer of-the-browser"),
        ("x-forwarded-for", "198.51.100.7"),
    ];
    let (status, headers, mut answer) = connect(&ada, &session, &secrets);
    assert_eq!(status, 101, "{headers:?}");
    // The session's response does not reach the browser: the portal itself sets these headers.
    let own = [
        "cache-control",
        "connection",
        "content-security-policy",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
        "date",
        "permissions-policy",
        "referrer-policy",
        "sec-websocket-accept",
        "strict-transport-security",
        "upgrade",
        "x-content-type-options",
    ];
    assert_eq!(names(&headers), BTreeSet::from(own));
    assert!(headers.contains(&(
        "sec-websocket-accept".to_owned(),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned()
    )));
    // Data passes in both directions.
    answer.get_mut().write_all(b"offer").unwrap();
    let mut back = [0; 5];
    answer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"offer");
    // The session gets only the browser's device, name and address.
    let asked = fs::read_to_string(folder.join("asked")).unwrap();
    let mut lines = asked.lines();
    assert_eq!(
        lines.next(),
        Some("GET /session/signalling?reports HTTP/1.1")
    );
    let heard: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let told = [
        "authorization",
        "connection",
        "host",
        "sec-websocket-key",
        "sec-websocket-version",
        "upgrade",
        "x-forwarded-for",
        "x-openuvr-device",
        "x-openuvr-name",
        "x-openuvr-ticket",
    ];
    assert_eq!(names(&heard), BTreeSet::from(told));
    let cookie = ada.cookie.as_deref().unwrap().split_once('=').unwrap().1;
    for secret in [cookie, ada.csrf.as_deref().unwrap(), "of-the-browser"] {
        assert!(!asked.contains(secret), "{asked}");
    }
    // The portal sets the header with the browser's address. The client's own header is not trusted.
    assert!(heard.contains(&("x-forwarded-for".to_owned(), "127.0.0.1".to_owned())));
    assert!(heard.contains(&("x-openuvr-name".to_owned(), "ada".to_owned())));
}

#[test]
fn other_responses_of_a_session_are_not_shown() {
    let world = World::new();
    let (ada, session) = (world.portal.log_in("ada"), id(1));
    let folder = world.start_hostile(&ada, &session, "page");
    for does in ["page", "silent"] {
        fs::write(folder.join("does"), does).unwrap();
        let (status, headers, mut answer) = connect(&ada, &session, &[("connection", "close")]);
        assert_eq!(status, 502, "{does}");
        assert!(!names(&headers).contains("set-cookie"), "{headers:?}");
        assert!(!names(&headers).contains("x-evil"), "{headers:?}");
        let mut body = String::new();
        answer.read_to_string(&mut body).unwrap();
        assert!(body.contains("cannot connect this browser"), "{body}");
        assert!(!body.contains("script"), "{body}");
    }
    // The portal itself is not affected.
    assert_eq!(ada.status("GET", "/api/me", None), 200);
}

#[test]
fn a_session_that_talks_without_end_is_cut_off() {
    let world = World::new();
    let (ada, session) = (world.portal.log_in("ada"), id(1));
    world.start_hostile(&ada, &session, "flood");
    let (status, _, mut answer) = connect(&ada, &session, &[]);
    assert_eq!(status, 101);
    let mut said = Vec::new();
    let _ = answer.read_to_end(&mut said);
    assert_eq!(said.len(), 1 << 20);
}

#[test]
fn only_permitted_users_reach_a_session() {
    let world = World::new();
    let (ada, bob) = (world.portal.log_in("ada"), world.portal.log_in("bob"));
    let session = id(1);
    let folder = world.start_hostile(&ada, &session, "echo");
    let status = |person: &Person, more: &[(&str, &str)]| connect(person, &session, more).0;
    assert_eq!(status(&world.portal.anonymous(), &[]), 401);
    assert_eq!(status(&bob, &[]), 404);
    // Requests from another site and requests without an origin are refused.
    let site = [("sec-fetch-site", "cross-site")];
    assert_eq!(status(&ada, &site), 403);
    let plain = ada.request_with(
        "GET",
        &format!("/play/{session}/signalling"),
        None,
        &[
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ],
    );
    assert_eq!(plain.unwrap().status, 403);
    assert!(
        !folder.join("asked").exists(),
        "the request reached the session"
    );

    // Observers lose access when sharing ends. The owner loses access when the log-in ends.
    let share = |shared: bool| {
        let path = format!("/api/sessions/{session}/shared");
        assert_eq!(
            ada.status("PUT", &path, Some(&json!({ "shared": shared }))),
            204
        );
    };
    share(true);
    let (status, _, mut watches) = connect(&bob, &session, &[]);
    assert_eq!(status, 101);
    let (status, _, mut plays) = connect(&ada, &session, &[]);
    assert_eq!(status, 101);
    share(false);
    let mut rest = Vec::new();
    watches.read_to_end(&mut rest).unwrap();
    plays.get_mut().write_all(b"still").unwrap();
    let mut back = [0; 5];
    plays.read_exact(&mut back).unwrap();
    assert_eq!(ada.status("POST", "/api/logout", None), 204);
    plays.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn connections_of_one_log_in_are_limited() {
    let world = World::new();
    let (ada, session) = (world.portal.log_in("ada"), id(1));
    world.start_hostile(&ada, &session, "echo");
    let mut all: Vec<_> = (0..8).map(|_| connect(&ada, &session, &[])).collect();
    assert!(all.iter().all(|(status, ..)| *status == 101));
    assert_eq!(connect(&ada, &session, &[]).0, 503);
    // Another browser of the same user has its own limit.
    let other = world.portal.log_in("ada");
    assert_eq!(connect(&other, &session, &[]).0, 101);
    all.pop();
    wait("a free slot", || connect(&ada, &session, &[]).0 == 101);
    drop(world.place);
}

#[test]
fn the_page_that_plays_is_the_portals_own() {
    let world = World::new();
    let anonymous = world.portal.anonymous();
    let page = format!("/play/{}/", id(1));
    let get = |path: &str| anonymous.request("GET", path, None).unwrap();
    let served = get(&page);
    assert_eq!(served.status, 200);
    assert!(served.text().contains("<html lang=\"en\" data-portal>"));
    let policy = served.header("content-security-policy").unwrap();
    assert!(policy.contains("trusted-types 'none'"), "{policy}");
    // Only the page's files are served.
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/page/dist");
    for file in fs::read_dir(dist).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if name != "index.html" {
            let part = get(&format!("{page}{name}"));
            assert_eq!(part.status, 200, "{name}");
            assert_eq!(part.body, fs::read(file.path()).unwrap(), "{name}");
        }
    }
    assert_eq!(get(&format!("{page}login")).status, 404);
    assert_eq!(get("/play/none/").status, 404);
    let without = get(page.trim_end_matches('/'));
    assert_eq!(
        (without.status, without.header("location")),
        (308, Some(&*page))
    );
}
