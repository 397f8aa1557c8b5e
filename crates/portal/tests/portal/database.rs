//! The database file: its permissions, messages about unusable files, and the portal's health.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::support::{Installation, wait};

/// An installation that uses SQLite even if the other tests use PostgreSQL.
fn in_a_file() -> Installation {
    let mut place = Installation::new();
    place.database = None;
    place
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The error output of a portal that fails to start.
fn complaint(place: &Installation) -> String {
    let ended = place.run(&["--listen", "127.0.0.1:0"], "");
    assert!(!ended.status.success());
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn its_files_are_the_owners_alone() {
    let place = in_a_file();
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o755);
    place.add_user("ada", &[]);
    let portal = place.start();
    portal.log_in("ada");
    let mode = |name: &str| {
        let of = fs::metadata(data.join(name)).unwrap();
        of.permissions().mode() & 0o777
    };
    for name in ["portal.sqlite", "portal.sqlite-wal", "portal.sqlite-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode(""), 0o711);
    portal.kill();
    // Older portals created the file with this mode.
    set_mode(&data.join("portal.sqlite"), 0o644);
    let portal = place.start();
    portal.log_in("ada");
    for name in ["portal.sqlite", "portal.sqlite-wal", "portal.sqlite-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn the_first_accounts_command_names_the_database() {
    let place = in_a_file();
    let portal = place.start();
    wait("the hint", || {
        fs::read_to_string(place.path("log")).is_ok_and(|log| log.contains("no accounts yet"))
    });
    drop(portal);
    let log = fs::read_to_string(place.path("log")).unwrap();
    let (_, hint) = log.split_once("create one with `").unwrap();
    let command = hint.split('`').next().unwrap();
    let command = command.replacen("openuvr", env!("CARGO_BIN_EXE_openuvr-portal"), 1);
    let added = Command::new("sh")
        .args(["-c", &command])
        .env("HOME", place.path("another home"))
        .env_remove("XDG_DATA_HOME")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&added.stdout);
    assert!(added.status.success(), "{command}: {added:?}");
    let file = place.path("data/portal.sqlite").display().to_string();
    assert!(said.contains(&format!("in the database {file}")), "{said}");
    let listed = place.run(&["user", "list"], "");
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "NAME: operator\n");
}

#[test]
fn an_invalid_database_is_reported_in_one_line() {
    let place = in_a_file();
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o700);
    let file = data.join("portal.sqlite");
    let junk = "this is no database, and longer than a header of one".repeat(100);
    for (content, why) in [(junk.as_str(), "is damaged"), ("", "is empty")] {
        fs::write(&file, content).unwrap();
        set_mode(&file, 0o600);
        let said = complaint(&place);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains(why) && said.contains("restore a backup"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn a_read_only_folder_is_reported_in_one_line() {
    let place = in_a_file();
    place.add_user("ada", &[]);
    let data = place.path("data");
    set_mode(&data, 0o555);
    let said = match rustix::process::geteuid().is_root() {
        false => complaint(&place),
        // Root can write to every folder. Therefore, the portal runs as another user, which can write to the file, but
        // not to its folder.
        true => {
            set_mode(&data.join("portal.sqlite"), 0o666);
            let program = place.path("openuvr-portal");
            // Another process makes the copy. If this process opened the copy for writing, a program that another test
            // starts could inherit the open file, and executing the copy would fail (`ETXTBSY`).
            let mut copying = Command::new("cp");
            copying.arg(env!("CARGO_BIN_EXE_openuvr-portal"));
            assert!(copying.arg(&program).status().unwrap().success());
            let ended = Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(program)
                .args(["portal", "--listen", "127.0.0.1:0", "--config"])
                .arg(place.path("portal.toml"))
                .output()
                .unwrap();
            assert!(!ended.status.success());
            String::from_utf8(ended.stderr).unwrap()
        }
    };
    set_mode(&data, 0o755);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cannot open the database"), "{said}");
    assert!(said.contains(&data.display().to_string()), "{said}");
}

/// A wrapper under which no file can grow, as on a full disk.
const FULL_DISK: [&str; 4] = ["sh", "-c", r#"trap "" XFSZ; ulimit -f 0; exec "$@""#, "sh"];

#[test]
fn a_first_start_on_a_full_disk_can_be_repeated() {
    let mut place = in_a_file();
    place.before = FULL_DISK.into();
    let said = complaint(&place);
    assert!(said.contains("check that its disk has space"), "{said}");
    place.before.clear();
    place.add_user("ada", &[]);
}

#[test]
fn a_full_disk_is_reported_in_one_line() {
    let mut place = in_a_file();
    place.add_user("ada", &[]);
    place.before = FULL_DISK.into();
    let said = complaint(&place);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("check that its disk has space"), "{said}");
    place.before.clear();
    let portal = place.start();
    portal.log_in("ada");
}

/// Holds the database's write lock until its standard input ends.
fn hold(file: &Path) -> Child {
    let hold = "import sqlite3, sys\n\
                c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                c.execute('BEGIN IMMEDIATE')\n\
                print('held', flush=True)\n\
                sys.stdin.read()\n";
    let mut holder = Command::new("python3")
        .args(["-c", hold])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = holder.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
    assert_eq!(line, "held\n");
    holder
}

#[test]
fn health_follows_the_database() {
    let place = in_a_file();
    place.add_user("ada", &[]);
    let portal = place.start();
    let anonymous = portal.anonymous();
    let says = |status: u16, word: &str| {
        wait(&format!("/healthz says {status}, {word}"), || {
            let answer = anonymous.request("GET", "/healthz", None).unwrap();
            answer.status == status && answer.text().contains(word)
        });
    };
    says(200, "ok");
    let file = place.path("data/portal.sqlite");
    let mut holder = hold(&file);
    says(503, "the database does not respond");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    says(200, "ok");
    let aside = place.path("aside.sqlite");
    fs::rename(&file, &aside).unwrap();
    says(503, "deleted or replaced");
    fs::copy(&aside, &file).unwrap();
    says(503, "deleted or replaced");
    fs::rename(&aside, &file).unwrap();
    says(200, "ok");
}
