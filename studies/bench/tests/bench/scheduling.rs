//! Tests that `openuvr lab jitter analyse` reads the scheduling latency recorded by a real host and real clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{openuvr_bench, own_address};

/// Timeout of every wait for an expected event.
const TIMEOUT: Duration = Duration::from_secs(60);
const PIN: &str = "271828";

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Running(quiet.spawn().expect("it starts"))
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the end of the process.
    fn interrupt(&mut self) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill").success());
        let begun = Instant::now();
        while self.0.try_wait().expect("a child").is_none() {
            assert!(begun.elapsed() < TIMEOUT, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn openuvr() -> Command {
    let bench = openuvr_bench();
    Command::new(Path::new(bench.get_program()).with_file_name("openuvr"))
}

/// The number of samples in each file, as `analyse` reports it.
fn analysed(files: &[PathBuf], out: &Path) -> BTreeMap<String, u64> {
    let mut command = openuvr_bench();
    command.args(["lab", "jitter", "analyse"]).args(files);
    let said = command.arg("--out").arg(out).output().expect("it starts");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "every file is complete: {errors}");
    assert!(out.join("samples.json").is_file());
    let count = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("a file");
        let counted = u64::from_le_bytes(bytes[128..136].try_into().expect("a header"));
        assert_eq!(
            bytes.len() as u64,
            4096 + 24 * counted,
            "{}",
            path.display()
        );
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(text.contains(&name), "{name}: {text}");
        assert!(
            text.contains(&counted.to_string()),
            "{name}, {counted}: {text}"
        );
        (name, counted)
    };
    files.iter().map(count).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut files = Vec::from_iter(list.map(|entry| entry.path()));
    files.sort();
    files
}

/// The rows of a CSV file, except a last row that is still being written. Each row maps the column names of the first
/// line to its fields.
fn rows(csv: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(csv).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().map(|line| line.split(',').map(String::from));
    let names = Vec::from_iter(lines.next().into_iter().flatten());
    let row = |fields| names.iter().cloned().zip(fields).collect();
    lines.map(row).collect()
}

#[test]
fn wake_ups_match_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let address = own_address(4721).to_string();
    let csv = at("frames.csv");
    let host = |more: &[&str]| {
        let mut host = openuvr();
        host.args([
            "host", "--source", "pattern", "--size", "320x240", "--fps", "60",
        ])
        .args([
            "--bitrate",
            "2M",
            "--bind",
            &address,
            "--pair",
            "--pin",
            PIN,
        ])
        .args([
            "--encoder-per-client",
            "--sound",
            "off",
            "--input",
            "none",
            "--config-dir",
        ])
        .arg(at("host-keys"))
        .args(more);
        Running::start(&mut host)
    };
    let client = |name: &str, pin: bool| {
        let mut client = openuvr();
        client.args(["client", &address, "--present", "null", "--sound", "off"]);
        client.args(pin.then_some(["--pin", PIN]).iter().flatten());
        client.arg("--config-dir").arg(at(&format!("{name}-keys")));
        client
    };
    // A PIN is valid for only one device, so the first client is paired with an earlier host process.
    let first = host(&[]);
    let pictures = at("paired.csv");
    let mut once = Running::start(client("one", true).arg("--csv").arg(&pictures));
    let begun = Instant::now();
    while rows(&pictures).is_empty() {
        assert!(
            begun.elapsed() < TIMEOUT,
            "the first client gets no pictures"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    once.interrupt();
    drop(first);
    let [record, latencies] = [&csv, &at("host")].map(|path| path.display().to_string());
    let mut host = host(&["--csv", &record, "--scheduling-trace", &latencies]);
    let client =
        |name: &str, pin| Running::start(client(name, pin).arg("--scheduling-trace").arg(at(name)));
    let mut one = client("one", false);
    // The rows of secondary renditions, which are encoded in their own threads: the second rendition is for the second
    // client, and a third one for a client that had to reconnect.
    let further = || {
        Vec::from_iter(
            rows(&csv)
                .into_iter()
                .filter(|row| !matches!(&*row["rendition"], "" | "1")),
        )
    };
    let begun = Instant::now();
    let mut two = None;
    while further().len() < 120 {
        if two.is_none() && rows(&csv).len() > 20 {
            two = Some(client("two", true));
        }
        assert!(begun.elapsed() < TIMEOUT, "no second rendition came");
        std::thread::sleep(Duration::from_millis(50));
    }
    for running in [&mut two.expect("started"), &mut one, &mut host] {
        running.interrupt();
    }
    let counts = analysed(&files(&at("host")), &at("page"));
    let of = |name: &str| {
        counts
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("{name}: {counts:?}"))
    };
    assert!(
        of("host-control-timer") > 0 && of("host-to-media") > 0,
        "{counts:?}"
    );
    // A picture that replaces a waiting one causes no further wake-up.
    let all = further();
    let superseded = all
        .iter()
        .filter(|row| row["cause"] == "Superseded")
        .count();
    let taken = (all.len() - superseded) as u64;
    let handed = of("host-media-to-rendition");
    // The record has no rows for the wake-ups before the rendition's first requested frame and after its last one. If
    // the machine opens and closes encoders slowly, there are more such wake-ups.
    assert!(
        handed.abs_diff(taken) <= 20 + taken / 4,
        "{handed} for {taken} frames"
    );
    // A thread is never woken by a timer if an event always arrives before the timer expires.
    let timers = ["one", "two"].map(|name| {
        let counts = analysed(&files(&at(name)), &at(&format!("{name}-page")));
        counts["client-media-timer"]
    });
    assert!(timers.iter().sum::<u64>() > 0, "{timers:?}");
}

#[test]
fn an_unusable_folder_is_one_error_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("room");
    let out = openuvr()
        .args([
            "host",
            "--source",
            "pattern",
            "--bind",
            "127.0.0.1:0",
            "--sound",
            "off",
        ])
        .arg("--config-dir")
        .arg(folder.path().join("keys"))
        .arg("--scheduling-trace")
        .arg(file.join("in"))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("can't record into the folder"), "{said}");
    assert_eq!(out.status.code(), Some(1), "{said}");
}
