//! Tests `openuvr client --portal` with a real client, a real portal and real sessions of the built-in scene. Cargo
//! builds `openuvr` as part of another package.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[path = "../portal/support.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Installation, PASSWORD, openuvr, wait};

/// An installation with real sessions of the built-in scene.
fn place() -> Installation {
    let place = Installation::new();
    let openuvr = openuvr();
    let words = ["--set=realtime=off", "--set=sound=off"];
    place.write(
        "portal.toml",
        &format!(
            "data = \"data\"\n[limits]\nsessions = 2\ngrace = 5\n\
             [local]\nprogram = [{openuvr:?}, \"session\", {:?}, {:?}]\nplaces = 1\n",
            words[0], words[1]
        ),
    );
    place.write(
        "applications.toml",
        &format!(
            "[[application]]\nname = \"scene\"\ntitle = \"The scene\"\ndescription = \"Moves\"\n\
             command = [{openuvr:?}, \"scene\", \"--size=320x200\", \"--fps=10\"]\nsize = \"320x200\"\n\
             [[application]]\nname = \"fails\"\ncommand = [\"false\"]\nsize = \"320x200\"\n"
        ),
    );
    place.write("password", &format!("{PASSWORD}\n"));
    place
}

/// A client that displays nothing. The user's keys are in the folder `keys` of the installation.
struct Client {
    child: Child,
    said: PathBuf,
}

fn client(place: &Installation, portal: &str, words: &[&str]) -> Client {
    let said = place.path(&format!("said-{}", number()));
    let file = fs::File::create(&said).unwrap();
    let child = Command::new(openuvr())
        .args(["client", "--config", "/dev/null", "--table=off"])
        .args(["--present=null", "--sound=off", "--realtime=off"])
        .args(["--portal", portal])
        .arg(format!("--config-dir={}", place.path("keys").display()))
        .args(words)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    Client { child, said }
}

fn number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    fn output(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn says(&self, words: &str) {
        wait(words, || self.output().contains(words));
    }

    /// Interrupts the client as Ctrl-C does, and returns its output.
    fn interrupt(&mut self) -> String {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.ended().1
    }

    fn ended(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait("the client's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap(), self.output())
    }

    /// Checks that the client fails with a one-line reason. Returns the output.
    fn fails(&mut self) -> String {
        let (status, said) = self.ended();
        assert!(!status.success(), "{said}");
        let complaints = said.lines().filter(|line| line.starts_with("openuvr: "));
        assert_eq!(complaints.count(), 1, "{said}");
        said
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn by_password(place: &Installation) -> [String; 2] {
    let file = place.path("password");
    [
        "--portal-user=ada".to_owned(),
        format!("--portal-password-file={}", file.display()),
    ]
}

#[test]
fn a_client_starts_leaves_joins_and_stops_a_session() {
    let place = place();
    place.add_user("ada", &[]);
    place.add_user("eve", &[]);
    let portal = place.start();
    let at = format!("http://{}", portal.at);
    let [user, password] = by_password(&place);
    // Without a terminal, there is no prompt.
    let said = client(&place, &at, &[]).fails();
    assert!(said.contains("use --portal-user"), "{said}");
    let said = client(&place, &at, &[&user]).fails();
    assert!(said.contains("--portal-password-file"), "{said}");
    place.write("wrong", "not this\n");
    let wrong = format!("--portal-password-file={}", place.path("wrong").display());
    let said = client(&place, &at, &[&user, &wrong]).fails();
    assert!(said.contains("wrong name or password"), "{said}");
    let (status, said) = client(&place, &at, &[&user, &password]).ended();
    assert!(status.success(), "{said}");
    assert!(said.contains("  scene  The scene: Moves"), "{said}");
    let mode = fs::metadata(place.path("keys/portals.json")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    // The log-in is stored, so the following clients need no password.
    let said = client(&place, &at, &["--application=none"]).fails();
    assert!(said.contains("no such application"), "{said}");
    let said = client(&place, &at, &["--application=fails"]).fails();
    assert!(said.contains("ended: "), "{said}");
    let mut first = client(&place, &at, &["--application=scene"]);
    first.says("player at");
    let said = first.interrupt();
    let order = [
        "starting",
        "running on",
        "player at",
        "the session is still running",
    ];
    let places = order.map(|words| said.find(words));
    assert!(places.is_sorted() && places[1].is_some(), "{said}");
    let person = portal.log_in("ada");
    let sessions = || person.request("GET", "/api/sessions", None).unwrap().json();
    let listed = sessions();
    let running: Vec<&Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|session| session["state"] == "running")
        .collect();
    assert_eq!(running.len(), 1, "{listed}");
    let id = running[0]["id"].as_str().unwrap();
    // Another user can watch the shared session by its id, but cannot end it.
    let shared = format!("/api/sessions/{id}/shared");
    assert_eq!(
        person.status("PUT", &shared, Some(&json!({"shared": true}))),
        204
    );
    let application = format!("--application={id}");
    let keys = format!("--config-dir={}", place.path("other").display());
    let words = [
        &keys,
        "--portal-user=eve",
        &password,
        &application,
        "--stop-session",
    ];
    let mut watcher = client(&place, &at, &words);
    watcher.says("observer at");
    watcher.interrupt();
    let listed = sessions();
    let listed = listed.as_array().unwrap();
    let watched = listed.iter().find(|session| session["id"] == id).unwrap();
    assert_eq!(watched["state"], "running");
    // A second client that requests the same application joins the same session.
    let mut second = client(&place, &at, &["--application=scene", "--stop-session"]);
    second.says("player at");
    let said = second.interrupt();
    assert!(
        said.contains(&format!("joining the session {id}")),
        "{said}"
    );
    assert!(said.contains("session ended"), "{said}");
    person.until(id, "ended");
    wait("its processes' end", || place.processes().is_empty());
}

#[test]
fn an_operator_sees_how_it_is_for_a_client() {
    let place = place();
    place.add_user("ada", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let at = format!("http://{}", portal.at);
    let [user, password] = by_password(&place);
    let words = [&user, &password, "--application=scene"];
    let mut player = client(&place, &at, &words);
    player.says("player at");
    let (ada, root) = (portal.log_in("ada"), portal.log_in("root"));
    let listed = || {
        let answer = root.request("GET", "/api/operator/sessions", None).unwrap();
        answer.json()[0].clone()
    };
    let mut known = Value::Null;
    wait("statistics of the player", || {
        known = listed()["subscribers"][0].clone();
        known["frames_per_second"].is_f64() && known["latency_p99"].is_f64()
    });
    let expected = json!(["client", "player", 1]);
    assert_eq!(
        json!([known["kind"], known["role"], known["count"]]),
        expected
    );
    let of = |name: &str| known[name].as_f64().unwrap();
    // The scene draws 10 frames/s, or fewer on a busy machine.
    let rate = of("frames_per_second");
    assert!(rate > 0.0 && rate < 15.0, "{known}");
    assert!(0.0 < of("latency_p50"), "{known}");
    assert!(of("latency_p50") <= of("latency_p99"), "{known}");
    assert!(of("latency_bound") > 0.0, "{known}");

    let metrics = root.request("GET", "/metrics", None).unwrap().text();
    let id = listed()["id"].as_str().unwrap().to_owned();
    let labels = format!("session=\"{id}\",application=\"scene\",kind=\"client\",role=\"player\"");
    for (name, more) in [
        ("subscribers", ""),
        ("frames_per_second", ""),
        ("latency_seconds", ",quantile=\"0.5\""),
        ("latency_seconds", ",quantile=\"0.99\""),
        ("latency_bound_seconds", ""),
    ] {
        let start = format!("openuvr_portal_session_{name}{{{labels}{more}}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
        let value: f64 = value
            .unwrap_or_else(|| panic!("{start}: {metrics}"))
            .parse()
            .unwrap();
        assert!(value > 0.0, "{start}{value}");
    }
    // The portal shows no statistics to the player.
    let own = ada.request("GET", "/api/sessions", None).unwrap().text();
    assert!(own.contains(&id) && !own.contains("subscribers"), "{own}");
    player.interrupt();
    wait("a report without subscribers", || {
        listed()["subscribers"] == json!([])
    });
    assert_eq!(
        ada.status("DELETE", &format!("/api/sessions/{id}"), None),
        202
    );
    ada.until(&id, "ended");
    assert_eq!(listed()["subscribers"], Value::Null);
}

#[test]
fn a_client_that_waits_for_a_place_gives_up_in_order() {
    let place = place();
    place.add_user("ada", &[]);
    place.add_user("eve", &[]);
    let portal = place.start();
    let at = format!("http://{}", portal.at);
    let eve = portal.log_in("eve");
    let id = support::id(1);
    assert_eq!(eve.start_session(&id, "scene").status, 202);
    eve.until(&id, "running");
    let [user, password] = by_password(&place);
    let words = [&user, &password, "--application=scene", "--stop-session"];
    let mut waiting = client(&place, &at, &words);
    waiting.says("queued: ");
    let said = waiting.interrupt();
    assert!(said.contains("session ended"), "{said}");
    let ada = portal.log_in("ada");
    wait("an empty queue", || {
        let listed = ada.request("GET", "/api/sessions", None).unwrap().json();
        let all = listed.as_array().unwrap();
        all.iter().all(|session| session["state"] == "ended")
    });
    assert_eq!(
        eve.status("DELETE", &format!("/api/sessions/{id}"), None),
        202
    );
    eve.until(&id, "ended");
}

/// Starts a portal with a self-signed certificate. Returns its process and its URL.
fn secure_portal(place: &Installation) -> (Child, String) {
    let config = fs::read_to_string(place.path("portal.toml")).unwrap();
    let secure = format!("{}{config}", place.secure());
    place.write("portal.toml", &secure);
    let mut child = Command::new(env!("CARGO_BIN_EXE_openuvr-portal"))
        .args(["portal", "--listen", "127.0.0.1:0", "--config"])
        .arg(place.path("portal.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let at = line.trim().strip_prefix("The portal is at ").unwrap();
    (child, at.to_owned())
}

#[test]
fn a_portal_is_pinned_by_its_certificate() {
    let place = place();
    place.add_user("ada", &[]);
    let (mut portal, at) = secure_portal(&place);
    assert!(at.starts_with("https://"), "{at}");
    let [user, password] = by_password(&place);
    let said = client(&place, &at, &[&user, &password]).fails();
    let words = "use --portal-fingerprint ";
    let found = said.split(words).nth(1).unwrap_or_else(|| panic!("{said}"));
    let fingerprint = found.trim().to_owned();
    // The portal's fingerprint has the same form as the output of openssl.
    let shown = Command::new("openssl")
        .args(["x509", "-noout", "-sha256", "-fingerprint", "-in"])
        .arg(place.path("cert.pem"))
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.trim().split('=').nth(1), Some(&*fingerprint));
    let other = format!("--portal-fingerprint={}", "00".repeat(32));
    let said = client(&place, &at, &[&user, &password, &other]).fails();
    assert!(said.contains("the fingerprint differs"), "{said}");
    assert!(!place.path("keys/portals.json").exists());
    let pinned = format!("--portal-fingerprint={fingerprint}");
    let (status, said) = client(&place, &at, &[&user, &password, &pinned]).ended();
    assert!(status.success() && said.contains("  scene"), "{said}");
    // The certificate's fingerprint and the log-in were stored.
    let (status, said) = client(&place, &at, &[]).ended();
    assert!(status.success() && said.contains("  scene"), "{said}");
    let said = client(&place, &at, &[&other]).fails();
    assert!(said.contains("the fingerprint differs"), "{said}");
    // As after a change of the certificate: the new fingerprint replaces the stored one.
    let file = place.path("keys/portals.json");
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.contains(&fingerprint), "{stored}");
    fs::write(&file, stored.replace(&fingerprint, &"00".repeat(32))).unwrap();
    for words in [&[&*pinned][..], &[]] {
        let (status, said) = client(&place, &at, words).ended();
        assert!(status.success() && said.contains("  scene"), "{said}");
    }
    portal.kill().unwrap();
    portal.wait().unwrap();
}

#[test]
fn an_invalid_portal_is_reported_in_one_line() {
    let place = place();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\x1b[2J",
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 500 No\r\ncontent-length: 24\r\n\r\n{\"error\":\"a\\u001b[2Jb\"}  ",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{",
    ];
    let serve = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                said.read_line(&mut line).unwrap();
            }
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    let [user, password] = by_password(&place);
    for answer in answers {
        let said = client(&place, &at, &[&user, &password]).fails();
        assert!(!said.contains('\x1b'), "{answer}: {said}");
    }
    serve.join().unwrap();
    let said = client(&place, &at, &[&user, &password]).fails();
    assert!(said.contains("no answer from"), "{said}");
    let said = client(&place, "http://192.0.2.1", &[]).fails();
    assert!(said.contains("http:// only for this machine"), "{said}");
}
