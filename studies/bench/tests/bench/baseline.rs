//! `openuvr-bench host`: tests that the host uses each selected baseline, and that its stream arrives.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use openuvr_xserver::{Xvfb, fixture};
use tempfile::TempDir;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Rectangle};
use x11rb::wrapper::ConnectionExt as _;

use super::{has_xvfb, openuvr_bench};

/// Timeout of every wait for an expected event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Width and height of the display.
const SIDE: u16 = 128;

/// The colours of the display's quarters: upper left, upper right, lower left, lower right.
const COLOURS: [[u8; 3]; 4] = [[200, 40, 60], [30, 160, 90], [50, 70, 210], [180, 180, 170]];

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A display with a static picture: four quarters of one colour each.
struct Still {
    server: Xvfb,
}

impl Still {
    fn start() -> Still {
        let server = fixture::xvfb(&format!("{SIDE}x{SIDE}"), &[]).expect("Xvfb is installed");
        let (conn, root) = server.connect();
        let half = SIDE / 2;
        for (n, [red, green, blue]) in (0..4i16).zip(COLOURS) {
            let gc = conn.generate_id().expect("an id");
            let colour = u32::from_be_bytes([0, red, green, blue]);
            let values = CreateGCAux::new().foreground(colour);
            conn.create_gc(gc, root, &values).expect("sent");
            let quarter = Rectangle {
                x: n % 2 * half.cast_signed(),
                y: n / 2 * half.cast_signed(),
                width: half,
                height: half,
            };
            (conn.poly_fill_rectangle(root, gc, &[quarter])).expect("sent");
        }
        conn.sync().expect("drawn");
        Still { server }
    }
}

/// A host with the selected baselines, and a client that writes its pictures to files.
struct Stream {
    _client: Running,
    host: Running,
    folder: TempDir,
}

impl Stream {
    /// Streams `display`, or the test pattern if `display` is `None`.
    fn start(name: &str, display: Option<&Still>, baselines: &[&str], more: &[&str]) -> Stream {
        let folder = TempDir::with_prefix(name).expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mut host = openuvr_bench();
        host.arg("host");
        for baseline in baselines {
            host.args(["--baseline", baseline]);
        }
        match display {
            Some(display) => host.args(["--display", &display.server.display, "--cursor=false"]),
            None => host.args(["--source", "pattern", "--size", "320x240"]),
        };
        // Switch off static refinement.
        host.args([
            "--bind",
            "127.0.0.1:0",
            "--static-refinement=false",
            "--input",
            "none",
        ])
        .args(more);
        let mut host = run(host, &at("host"), &at("frames.csv"));
        let errors = host.0.stderr.take().expect("piped");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let message = lines.find(|line| line.contains("openuvr host: streaming"));
        // Drain later output.
        std::thread::spawn(move || lines.for_each(drop));
        let message = message.expect("it streams");
        let mut words = message.split(|c: char| c.is_whitespace() || c == ',');
        let address: Option<SocketAddr> = words.find_map(|word| word.parse().ok());
        let address = address.expect("where it is").to_string();
        let mut client = Command::new(openuvr());
        client
            .args(["client", &address, "--present", "headless", "--every", "1"])
            .arg("--output")
            .arg(at("pictures"));
        let mut client = run(client, &at("client"), &at("client.csv"));
        let errors = client.0.stderr.take().expect("piped");
        std::thread::spawn(move || BufReader::new(errors).lines().for_each(drop));
        Stream {
            _client: client,
            host,
            folder,
        }
    }

    /// The values of a column of the host's record, one for each row written so far.
    fn column(&self, name: &str) -> Vec<String> {
        let text =
            std::fs::read_to_string(self.folder.path().join("frames.csv")).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let Some(at) = head.split(',').position(|column| column == name) else {
            return Vec::new();
        };
        let cells = lines.filter_map(|line| line.split(',').nth(at));
        cells.map(str::to_owned).collect()
    }

    fn whole(&self, count: usize) {
        eventually("complete frames", || {
            let outcomes = self.column("outcome");
            let whole = outcomes.iter().filter(|outcome| *outcome == "complete");
            (whole.count() >= count).then_some(())
        });
    }

    /// The contents of this file in `/proc` of the host's process.
    fn process(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.host.0.id())).expect("it runs")
    }

    fn threads(&self) -> BTreeSet<String> {
        let tasks = format!("/proc/{}/task", self.host.0.id());
        let tasks = std::fs::read_dir(tasks).expect("it runs").flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.map(|name| name.trim().to_owned()).collect()
    }

    /// The colour in the middle of each quarter of the newest picture.
    fn colours(&self) -> [[u8; 3]; 4] {
        eventually("a picture", || {
            let folder = std::fs::read_dir(self.folder.path().join("pictures")).ok()?;
            let mut files: Vec<PathBuf> = folder.flatten().map(|file| file.path()).collect();
            files.sort();
            let file = std::fs::File::open(files.last()?).ok()?;
            // A file that is still being written can't be decoded yet.
            let mut reader = png::Decoder::new(BufReader::new(file)).read_info().ok()?;
            let mut pixels = vec![0; reader.output_buffer_size()?];
            let info = reader.next_frame(&mut pixels).ok()?;
            assert_eq!((info.width, info.height), (SIDE.into(), SIDE.into()));
            let bytes = info.line_size / usize::from(SIDE);
            let quarter = usize::from(SIDE / 4);
            Some([0, 1, 2, 3].map(|n| {
                let (x, y) = (quarter * (n % 2 * 2 + 1), quarter * (n / 2 * 2 + 1));
                let pixel = &pixels[y * info.line_size + x * bytes..];
                [pixel[0], pixel[1], pixel[2]]
            }))
        })
    }
}

/// The shipped program.
fn openuvr() -> PathBuf {
    Path::new(openuvr_bench().get_program()).with_file_name("openuvr")
}

/// Starts a host or a client, with its own folder and record.
fn run(mut command: Command, folder: &Path, csv: &Path) -> Running {
    command
        .args(["--pin", "135790", "--realtime", "off", "--table", "off"])
        .arg("--config-dir")
        .arg(folder)
        .arg("--csv")
        .arg(csv)
        // The user's environment must not affect the test.
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Running(command.spawn().expect("it starts"))
}

#[test]
fn a_static_display_is_polled() {
    if !has_xvfb() {
        return;
    }
    let display = Still::start();
    let stream = Stream::start(
        "polled",
        Some(&display),
        &["capture=poll"],
        &["--fps", "60"],
    );
    // Without polling, the host would capture the display only once, and again for each requested key frame.
    eventually("a hundred captures of a still display", || {
        let captured: BTreeSet<String> = stream.column("Captured_ns").into_iter().collect();
        (captured.len() >= 100).then_some(())
    });
    stream.whole(1);
}

#[test]
fn pictures_of_swscale_arrive_like_ours() {
    if !has_xvfb() {
        return;
    }
    if !has_swscale() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "no libswscale"
        );
        eprintln!("skipped: libswscale is missing (./dev doctor)");
        return;
    }
    let display = Still::start();
    let ours = Stream::start("simd", Some(&display), &[], &[]);
    let theirs = Stream::start("swscale", Some(&display), &["converter=swscale"], &[]);
    for (stream, loads) in [(&ours, false), (&theirs, true)] {
        for (have, want) in stream.colours().iter().zip(COLOURS) {
            // The two conversions may differ by 4 in luma and chroma. That is up to 12 in red (BT.709). In flat areas,
            // the encoder is lossless.
            let apart = have.iter().zip(want).map(|(a, b)| a.abs_diff(b)).max();
            assert!(
                apart <= Some(12),
                "{have:?}, not {want:?}, swscale: {loads}"
            );
        }
        let maps = stream.process("maps");
        assert_eq!(maps.contains("libswscale.so"), loads, "swscale: {loads}");
    }
}

/// Whether the dynamic linker finds libswscale.
fn has_swscale() -> bool {
    let known = Command::new("ldconfig").arg("-p").output();
    let known = known.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    known.is_ok_and(|known| known.contains("libswscale.so"))
}

#[test]
fn a_stream_in_batches_of_single_datagrams_is_complete() {
    const THREAD: &str = "ouvr-batches";
    let usual = Stream::start("burst", None, &[], &[]);
    usual.whole(1);
    assert!(!usual.threads().contains(THREAD), "{:?}", usual.threads());
    drop(usual);
    let both = ["pacing=unity,sending=single"];
    let stream = Stream::start("batches", None, &both, &["--bitrate", "10M"]);
    stream.whole(60);
    assert!(stream.threads().contains(THREAD), "{:?}", stream.threads());
}

#[test]
fn an_impossible_baseline_is_one_error_line() {
    let folder = tempfile::tempdir().unwrap();
    for (words, message) in [
        (
            &["--baseline", "capture=poll", "--source", "pattern"][..],
            "needs --source x11",
        ),
        (&["--baseline", "converter=ours"], "invalid value"),
    ] {
        let out = openuvr_bench()
            .arg("host")
            .args(["--bind", "127.0.0.1:0", "--pin", "135790", "--config-dir"])
            .arg(folder.path())
            .args(words)
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
}

#[test]
fn the_shipped_program_has_no_baselines() {
    let out = Command::new(openuvr()).args(["host", "--help"]).output();
    let help = String::from_utf8(out.expect("it starts").stdout).expect("text");
    assert!(help.contains("--encoder"), "{help}");
    for gone in [
        "capture-mode",
        "--converter",
        "--pacing",
        "--sending",
        "baseline",
        "swscale",
    ] {
        assert!(!help.contains(gone), "{gone}");
    }
    let out = openuvr_bench().args(["host", "--help"]).output();
    let help = String::from_utf8(out.expect("it starts").stdout).expect("text");
    for word in [
        "capture=poll",
        "converter=swscale",
        "pacing=unity",
        "sending=single",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
