//! Refused configurations and requests.

use super::support::{Installation, id, wait};

fn refusal(place: &Installation, words: &[&str]) -> String {
    let ended = place.run(words, "");
    assert!(!ended.status.success());
    let said = String::from_utf8(ended.stderr).unwrap();
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn plain_http_is_for_this_machine_alone() {
    let place = Installation::new();
    let said = refusal(&place, &["--listen", "0.0.0.0:0"]);
    assert!(
        said.contains("unencrypted") && said.contains("behind_proxy"),
        "{said}"
    );
}

/// An installation that uses SQLite even if the other tests use PostgreSQL.
fn in_a_file() -> Installation {
    let mut place = Installation::new();
    place.database = None;
    place
}

#[test]
fn two_portals_do_not_share_a_folder() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let _portal = place.start();
    let said = refusal(&place, &["--listen", "127.0.0.1:0"]);
    assert!(said.contains("another portal uses"), "{said}");
}

#[test]
fn a_wrong_configuration_is_one_line() {
    let place = Installation::new();
    place.write("portal.toml", "launcher = \"magic\"\ndata = \"data\"\n");
    let said = refusal(&place, &["--listen", "127.0.0.1:0"]);
    assert!(said.contains("unknown launcher \"magic\""), "{said}");
    let twice = Installation::new();
    twice.add_user("ada", &[]);
    let said = refusal(&twice, &["user", "add", "ada"]);
    assert!(
        said.contains("the account \"ada\" already exists"),
        "{said}"
    );
    let said = refusal(&twice, &["user", "add", "../ada"]);
    assert!(said.contains("is not a valid account name"), "{said}");
}

/// Another program holds the database's write lock. The portal reports this, and recovers when the lock is released.
#[test]
fn a_locked_database_is_reported_and_playing_continues() {
    let place = in_a_file();
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    let hold = "import sqlite3, sys\n\
                c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                c.execute('BEGIN EXCLUSIVE')\n\
                print('held', flush=True)\n\
                sys.stdin.read()\n";
    let mut holder = std::process::Command::new("python3")
        .args(["-c", hold])
        .arg(place.path("data/portal.sqlite"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = holder.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
    assert_eq!(line, "held\n");
    let refused = ada.start_session(&id(2), "bare");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(
        refused.text().contains("database does not respond"),
        "{}",
        refused.text()
    );
    assert_eq!(place.processes().len(), 1);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    wait("recovery", || {
        ada.start_session(&id(3), "bare").status == 202
    });
    ada.until(&id(3), "running");
}
