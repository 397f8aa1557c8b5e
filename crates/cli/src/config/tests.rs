mod encoder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use openuvr_media::input_source::SHORTCUTS;
use openuvr_media::motion::{Axes, MotionSettings, Output};
use openuvr_proto::control::negotiate::ClientConstraints;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::{Bitrate, Size};
use tempfile::TempDir;

use super::client::ClientConfig;
use super::endpoints::{InputSpec, PresentKind, Surface, WindowSpec};
use openuvr_runtime::host::{EncoderName, SoundCodec};

use super::host::{HostConfig, RateMode, SourceKind, Subject};
use super::kind::{Choice, LinkName, Region, TableMode, WindowName};
use super::{Effective, Environment, RunConfig, Settings, XrConfig};
use openuvr_runtime::client::{DrawBackend, EyeView, Target};
use openuvr_runtime::host::config::Config;

/// Writes a file into a folder.
fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn environment(config_dir: &Path) -> Environment {
    Environment {
        display: Some(":7".to_owned()),
        wayland: None,
        config_dir: Some(config_dir.to_owned()),
        machine: "desk".to_owned(),
    }
}

fn effective<C: Settings>(args: &[&str], around: &Environment) -> anyhow::Result<Effective<C>> {
    let args = [&[C::ROLE], args].concat();
    let matches = <C as Settings>::command().try_get_matches_from(args)?;
    C::from_matches_in(&matches, around)
}

/// Parses host settings without a settings file.
fn host(args: &[&str]) -> anyhow::Result<HostConfig> {
    effective(args, &environment(Path::new("/nonexistent"))).map(|e| e.config)
}

fn client(args: &[&str]) -> anyhow::Result<ClientConfig> {
    effective(args, &environment(Path::new("/nonexistent"))).map(|e| e.config)
}

fn host_file(name: &str, text: &str, args: &[&str]) -> anyhow::Result<HostConfig> {
    let folder = TempDir::with_prefix(name).unwrap();
    let file = write(&folder, "host.toml", text);
    let args = [&["--config", file.to_str().unwrap()], args].concat();
    host(&args).map_err(|error| {
        let at = folder.path().to_str().unwrap();
        anyhow::anyhow!("{}", format!("{error:#}").replace(at, ""))
    })
}

#[test]
fn without_flags_and_file_the_defaults_hold() {
    let host = host(&[]).unwrap();
    assert_eq!(host.subject(), Subject::Display);
    assert_eq!(host.display.as_deref(), Some(":7"));
    assert_eq!(host.fps, None);
    assert_eq!(host.encoders, [EncoderName("x264")]);
    assert_eq!(host.bitrate(), Bitrate::from_mbps(20));
    assert_eq!((host.slices, host.encoder_threads), (8, None));
    assert_eq!(host.bind.to_string(), "[::]:4710");
    assert_eq!((host.link, &host.pin, host.pair), (None, &None, false));
    assert_eq!(host.pairing_timeout, Duration::from_secs(120));
    assert_eq!(host.second_player, SecondPlayer::Observe);
    assert_eq!(host.max_observers, 8);
    assert!(host.injects() && host.cursor && host.static_refinement);
    assert!(!host.constant_frame_rate);
    let sounds = [host.rtsp_sound, host.record_sound];
    assert_eq!(sounds, [SoundCodec::Opus; 2]);
    assert_eq!(host.name, "desk");
    assert_eq!(host.config_dir, Path::new("/nonexistent"));
    assert_eq!((host.table, host.lasting), (TableMode::Auto, None));
    assert_eq!(host.log, tracing::Level::INFO);

    let client = client(&["desk"]).unwrap();
    let window = Surface::X11 {
        display: ":7".to_owned(),
        window: WindowSpec {
            size: None,
            full_screen: false,
            grab: false,
            keys: None,
            tearing: false,
            slices: false,
        },
    };
    assert_eq!(client.surface().unwrap(), window);
    assert_eq!(client.input_spec(), InputSpec::Window);
    assert!(client.reconnect && !client.observe && !client.take_over);
}

#[test]
fn sound_codecs_and_frame_rate_come_from_flags_and_file() {
    let text = "constant-frame-rate = true\nrtsp-sound = \"aac\"\nrecord-sound = \"opus\"";
    let read = host_file("sound", text, &["--record-sound", "aac"]).unwrap();
    assert!(read.constant_frame_rate);
    assert_eq!([read.rtsp_sound, read.record_sound], [SoundCodec::Aac; 2]);
    assert!(host(&["--rtsp-sound", "mp3"]).is_err());
}

#[test]
fn a_game_is_run_with_the_options_of_a_host_but_for_the_source() {
    let around = environment(Path::new("/nonexistent"));
    let args = [
        "--fps", "90", "--csv", "a.csv", "--window", "doom", "--input", "none",
    ];
    let run = effective::<RunConfig>(&args, &around).unwrap().config;
    assert_eq!((run.host.fps, run.host.injects()), (Some(90.0), false));
    assert_eq!(run.window.as_deref(), Some("doom"));
    assert_eq!(run.host.window, None, "that of a display");
    for gone in [
        "--source=x11",
        "--region=9x9+0+0",
        "--submit=free",
        "--duration=1s",
    ] {
        assert!(effective::<RunConfig>(&[gone], &around).is_err(), "{gone}");
    }
    let high = ["--bitrate", "5M", "--start-bitrate", "6M"];
    let refused = effective::<RunConfig>(&high, &around).unwrap_err();
    assert!(
        refused.to_string().contains("must not be above"),
        "{refused}"
    );
    // Without an X display, input is ignored. The game may draw on another window system.
    let nowhere = Environment {
        display: None,
        ..around.clone()
    };
    assert!(effective::<RunConfig>(&[], &nowhere).is_ok());
    // The printed configuration can be read back.
    let printed = effective::<RunConfig>(&["--fps", "72", "--print-config"], &around);
    let printed = printed.unwrap().printed.unwrap();
    assert!(!printed.contains("scene-fps"), "{printed}");
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "run.toml", &printed);
    let again = effective::<RunConfig>(&[], &environment(folder.path())).unwrap();
    assert_eq!(again.config.host.fps, Some(72.0));
    write(&folder, "run.toml", "source = \"x11\"");
    let refused = effective::<RunConfig>(&[], &environment(folder.path())).unwrap_err();
    assert!(
        refused.to_string().contains("unknown setting `source`"),
        "{refused}"
    );
}

#[test]
fn a_game_has_its_own_arguments() {
    for words in [
        &["--fps", "30", "--", "game", "-x", "--fps", "9"][..],
        &["--fps=30", "game", "-x", "--fps", "9"],
    ] {
        let words = [&["run"], words].concat();
        let matches = RunConfig::command().try_get_matches_from(words).unwrap();
        let (effective, game) = RunConfig::with_game(&matches).unwrap();
        assert_eq!(effective.config.host.fps, Some(30.0));
        assert_eq!(game, ["game", "-x", "--fps", "9"]);
    }
    let none = RunConfig::command()
        .try_get_matches_from(["run"])
        .unwrap_err();
    assert_eq!(none.kind(), ErrorKind::MissingRequiredArgument);
}

#[test]
fn every_encoder_of_the_table_can_be_asked_for() {
    for backend in openuvr_media::encode::BACKENDS {
        let config = host(&["--encoder", backend.name]).expect(backend.name);
        assert_eq!(config.encoders, [EncoderName(backend.name)]);
    }
    for backend in openuvr_media::decode::BACKENDS {
        let h264 = backend.codec == openuvr_media::codec::Codec::H264;
        let hevc = backend.name.starts_with("hevc_");
        let result = client(&["desk", "--decoder", backend.name]);
        assert_eq!(result.is_ok(), h264 || hevc, "{}", backend.name);
    }
    let given = host(&["--chroma", "rgb", "--rate-control", "cbr"]).unwrap();
    assert_eq!(given.pixels.map(|p| p.name()), Some("rgb"));
    assert_eq!(given.rate_control, Some(RateMode::Cbr));
}

#[test]
fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
    let text = "fps = 30\nbitrate = \"5M\"\ncursor = false\nsecond-player = \"refuse\"\n";
    let config = host_file("order", text, &["--fps", "59.94", "--cursor"]).unwrap();
    assert_eq!(config.fps, Some(59.94));
    assert!(config.cursor);
    assert_eq!(config.bitrate(), Bitrate::from_mbps(5));
    assert_eq!(config.second_player, SecondPlayer::Refuse);
    assert_eq!(config.slices, 8);
}

#[test]
fn the_usual_file_is_read_if_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "host.toml", "slices = 4");
    write(
        &folder,
        "client.toml",
        "host = \"desk\"\nfull-screen = true",
    );
    let around = environment(folder.path());
    let host: Effective<HostConfig> = effective(&[], &around).unwrap();
    assert_eq!(host.config.slices, 4);
    let client: Effective<ClientConfig> = effective(&[], &around).unwrap();
    assert!(client.config.full_screen);
    assert_eq!(client.config.host.unwrap().target.to_string(), "desk:4710");
    let without: Effective<HostConfig> = effective(&["--config", "/dev/null"], &around).unwrap();
    assert_eq!(without.config.slices, 8);
}

#[test]
fn every_kind_of_value_is_understood() {
    let region = host(&["--region", "640x480+100+50"]).unwrap();
    assert_eq!(
        region.subject(),
        Subject::Region(Region {
            x: 100,
            y: 50,
            size: Size::new(640, 480)
        })
    );
    let window = |name| host(&["--window", name]).unwrap().subject();
    assert_eq!(
        window("0x1c00007"),
        Subject::Window(WindowName::Id(0x1c0_0007))
    );
    assert_eq!(
        window("Blender"),
        Subject::Window(WindowName::Text("Blender".to_owned()))
    );
    let pattern = host(&["--source", "pattern", "--size", "320x200"]).unwrap();
    assert_eq!(pattern.subject(), Subject::Pattern(Size::new(320, 200)));
    assert!(!pattern.injects());
    let clip = host(&["--source", "clip", "--clip", "a.y4m"]).unwrap();
    assert_eq!(clip.subject(), Subject::Clip("a.y4m".into()));
    assert!(!clip.injects());

    let rate = |text| host(&["--bitrate", text]).unwrap().bitrate().0;
    assert_eq!(rate("100K"), 100_000);
    let jpeg = host(&["--encoder", "jpeg"]).unwrap();
    assert_eq!(jpeg.bitrate(), Bitrate::from_mbps(60));
    assert_eq!(rate("2.5M"), 2_500_000);
    assert_eq!(rate("1G"), 1_000_000_000);
    assert_eq!(rate("123456"), 123_456);

    let time = |text| host(&["--duration", text]).unwrap().lasting;
    assert_eq!(time("250ms"), Some(Duration::from_millis(250)));
    assert_eq!(time("1.5s"), Some(Duration::from_millis(1500)));
    assert_eq!(time("2m"), Some(Duration::from_secs(120)));
    assert_eq!(time("1h"), Some(Duration::from_secs(3600)));

    let parsed = host(&[
        "--pin",
        "0042",
        "--link",
        "udp",
        "--static-refinement=false",
        "--pair",
    ])
    .unwrap();
    assert_eq!(parsed.pin.as_ref().unwrap().to_string(), "0042");
    assert!(
        !format!("{parsed:?}").contains("0042"),
        "a PIN stays out of logs"
    );
    assert_eq!(
        (parsed.link, parsed.static_refinement, parsed.pair),
        (Some(LinkName(TransportKind::Udp)), false, true)
    );

    let headless = client(&[
        "h",
        "--present",
        "headless",
        "--output",
        "/tmp",
        "--every",
        "60",
    ]);
    let surface = Surface::Headless {
        output: "/tmp".into(),
        every: Some(60),
    };
    assert_eq!(headless.as_ref().unwrap().surface().unwrap(), surface);
    assert_eq!(headless.unwrap().input_spec(), InputSpec::Nothing);
    let script = client(&["h", "--input-script", "-"]).unwrap();
    assert_eq!(script.input_spec(), InputSpec::Script("-".into()));
    let devices = client(&["desk", "--input", "evdev:2=/dev/input/event3"]);
    let list = InputSpec::Devices("2=/dev/input/event3".into());
    assert_eq!(devices.unwrap().input_spec(), list);
    assert!(client(&["desk", "--input", "evdev:"]).is_err());
}

#[test]
fn a_head_is_one_of_the_table_or_nobodys() {
    let head = |spec: &str| client(&["desk", "--head-pose", spec]).map(|client| client.head.0);
    assert_eq!(head("none").unwrap(), None);
    for good in [
        "mouse",
        "script:walk.csv",
        "opentrack",
        "opentrack:0.0.0.0:4243",
        "iio",
        "iio:/sys/bus/iio/devices/iio:device1",
    ] {
        assert_eq!(head(good).unwrap().as_deref(), Some(good));
    }
    for bad in [
        "script",
        "script:",
        "mouse:fast",
        "freetrack",
        "opentrack:4242",
        "opentrack:desk:4242",
    ] {
        assert!(head(bad).is_err(), "{bad}");
    }
    let words = [
        "desk",
        "--view",
        "right",
        "--overscan",
        "9",
        "--refresh",
        "120",
        "--reproject-backend",
        "gl",
    ];
    let eyes = client(&words).unwrap().eyes(Some(60.0));
    assert_eq!(
        (eyes.view, eyes.rate.to_bits()),
        (EyeView::Right, 120f64.to_bits())
    );
    assert!((eyes.overscan.to_degrees() - 9.0).abs() < 1e-4);
    assert_eq!(eyes.draw_with, DrawBackend::Gl);
    let usual = client(&["desk"]).unwrap().eyes(None);
    assert_eq!(usual.rate.to_bits(), 60f64.to_bits());
    assert_eq!(usual.draw_with, DrawBackend::Auto);
}

#[test]
fn hosts_are_names_or_addresses_with_or_without_a_port() {
    let target = |text: &str| client(&[text]).map(|c| c.host.unwrap());
    let good = [
        ("desk", "desk", 4710),
        ("desk.local:4711", "desk.local", 4711),
        ("192.168.1.5", "192.168.1.5", 4710),
        ("192.168.1.5:1", "192.168.1.5", 1),
        ("::1", "::1", 4710),
        ("[::1]", "::1", 4710),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
        ("eth0/52:54:00:12:34:5F", "eth0/52:54:00:12:34:5f", 4710),
        (
            "br-lan.7/02:00:00:00:00:01:4711",
            "br-lan.7/02:00:00:00:00:01",
            4711,
        ),
    ];
    for (text, host, port) in good {
        assert_eq!(
            target(text).unwrap().target,
            Target {
                host: host.to_owned(),
                port
            },
            "{text}"
        );
    }
    for bad in [
        ":4710",
        "desk:",
        "desk:0",
        "desk:65536",
        "/52:54:00:12:34:56",
        "eth0/52:54:00:12:34",
        "eth0/52:54:00:12:34:5g",
        "eth0/52:54:00:12:34:56:0",
        "eth0/52:54:00:12:34:56/7",
        "an-interface-too-long/52:54:00:12:34:56",
        "[desk]",
        "[::1",
        "[::1]4710",
        "a b",
        "desk:+5",
        "fe80::1",
        "[fe80::1]:4710",
        "[ff02::1%eth0]",
        "224.0.0.1",
        "255.255.255.255:4710",
    ] {
        let error = target(bad).unwrap_err().to_string();
        assert!(
            error.starts_with("HOST[:PORT] must be the name or address of a host"),
            "{bad}: {error}"
        );
        assert!(error.ends_with(&format!("not `{bad}`")), "{error}");
    }
    // An absent or empty host selects discovery.
    for words in [&[][..], &[""]] {
        assert_eq!(client(words).unwrap().host, None);
    }
}

#[test]
fn a_named_target_resolves_to_addresses() {
    let resolve = |text: &str| {
        let place = client(&[text]).unwrap().host.unwrap();
        place.target.resolve().unwrap()
    };
    assert_eq!(resolve("127.0.0.1:5"), ["127.0.0.1:5".parse().unwrap()]);
    assert_eq!(resolve("[::1]:6"), ["[::1]:6".parse().unwrap()]);
    assert!(!resolve("localhost").is_empty());
}

#[test]
fn a_bad_value_is_refused_with_name_and_allowed_range() {
    let cases = [
        (
            "source",
            "kms",
            "one of x11, wayland, portal, pattern, clip, scene",
        ),
        ("fps", "0.5", "a number of frames/s from 1 to 240"),
        ("fps", "241", "a number of frames/s from 1 to 240"),
        ("fps", "NaN", "a number of frames/s from 1 to 240"),
        ("fps", "fast", "a number of frames/s from 1 to 240"),
        (
            "bitrate",
            "99K",
            "bits per second from 100K to 1G, such as 20M",
        ),
        (
            "bitrate",
            "1.1G",
            "bits per second from 100K to 1G, such as 20M",
        ),
        (
            "bitrate",
            "20Q",
            "bits per second from 100K to 1G, such as 20M",
        ),
        (
            "bitrate",
            "-5M",
            "bits per second from 100K to 1G, such as 20M",
        ),
        ("slices", "0", "a whole number of slices from 1 to 64"),
        ("slices", "1000", "a whole number of slices from 1 to 64"),
        (
            "encoder-threads",
            "65",
            "a whole number of threads from 1 to 64",
        ),
        (
            "max-observers",
            "65",
            "a whole number of clients from 0 to 64",
        ),
        ("rtsp-token", "secret", "8 to 64 letters, digits, - and _"),
        (
            "rtsp-token",
            "not/a/token",
            "8 to 64 letters, digits, - and _",
        ),
        (
            "window",
            "0xyz",
            "a part of a window's title or class, or its id such as 0x1c00007",
        ),
        (
            "region",
            "640x480",
            "a size and a position in pixels, such as 640x480+100+50",
        ),
        (
            "region",
            "640x480+-1+0",
            "a size and a position in pixels, such as 640x480+100+50",
        ),
        (
            "size",
            "0x480",
            "a size in pixels up to 16384x16384, such as 1280x720",
        ),
        (
            "size",
            "720p",
            "a size in pixels up to 16384x16384, such as 1280x720",
        ),
        (
            "bind",
            "4710",
            "an address and a port, such as 192.168.1.5:4710, [::]:4710, or [fe80::1%eth0]:4710 with an interface of this machine",
        ),
        ("link", "tcp", "one of udp-gso, raw, raw-ring, xdp, udp"),
        ("pin", "123", "4 to 12 digits (in a file: between quotes)"),
        ("pin", "12a4", "4 to 12 digits (in a file: between quotes)"),
        (
            "pairing-timeout",
            "5",
            "a time from 1s to 720h with its unit, such as 90s, 2m or 1h",
        ),
        (
            "pairing-timeout",
            "999ms",
            "a time from 1s to 720h with its unit, such as 90s, 2m or 1h",
        ),
        (
            "duration",
            "0s",
            "a time from 1ms to 720h with its unit, such as 500ms, 90s, 2m or 1h",
        ),
        ("second-player", "no", "one of refuse, observe, take-over"),
        ("input", "uinput", "one of xtest, none"),
        (
            "name",
            "",
            "1 to 64 bytes of text without control characters",
        ),
        ("table", "yes", "one of auto, on, off"),
        ("realtime", "on", "one of auto, off"),
        ("log", "loud", "one of error, warn, info, debug, trace"),
        ("cursor", "no", "true or false"),
    ];
    for (key, value, allowed) in cases {
        let error = host(&[&format!("--{key}={value}")])
            .unwrap_err()
            .to_string();
        assert_eq!(error, format!("--{key} must be {allowed}, not `{value}`"));
    }
}

#[test]
fn a_refused_value_is_shown_in_one_short_line() {
    let error = host(&["--name=a\nb\u{7}"]).unwrap_err().to_string();
    assert!(error.ends_with("not `a\\nb\\u{7}`"), "{error}");
    let error = host(&[&format!("--name={}", "x".repeat(100_000))]);
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("x…`") && error.len() < 400, "{error}");
}

#[test]
fn an_empty_text_unsets_a_saved_value() {
    let file = "window = \"doom\"\npin = \"1234\"\ndisplay = \":3\"\ncsv = \"a.csv\"\n";
    let words = ["--window", "", "--pin=", "--display", ""];
    let config = host_file("unset", file, &words).unwrap();
    assert_eq!((&config.window, &config.pin), (&None, &None));
    assert_eq!(config.display.as_deref(), Some(":7"), "its default");
    assert_eq!(config.csv.as_deref(), Some(Path::new("a.csv")));
    let config = host_file("unset-file", "window = \"\"\n", &[]).unwrap();
    assert_eq!(config.window, None);
    // A setting that is unset with `--save` is no longer in the file.
    let folder = tempfile::tempdir().unwrap();
    let around = environment(folder.path());
    let save = |words: &[&str]| effective::<HostConfig>(words, &around).map(drop);
    save(&["--window", "doom", "--save"]).unwrap();
    save(&["--window", "", "--save"]).unwrap();
    let text = std::fs::read_to_string(folder.path().join("host.toml")).unwrap();
    assert!(text.contains("\n# window = … # not set\n"), "{text}");
    // A required value can't be unset.
    assert!(host(&["--slices", ""]).is_err());
}

#[test]
fn two_records_are_never_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let there = write(&folder, "there", "");
    std::os::unix::fs::symlink(&there, folder.path().join("link")).unwrap();
    let (around, there) = (environment(folder.path()), path("there"));
    let two = |csv: &str, trace: &str| {
        effective::<HostConfig>(&["--csv", csv, "--trace", trace], &around).map(drop)
    };
    let aside = path("./new");
    for (csv, trace) in [(&path("new"), &aside), (&there, &path("link"))] {
        let error = two(csv, trace).unwrap_err().to_string();
        assert!(
            error.starts_with("csv and trace are the same file, "),
            "{error}"
        );
    }
    two(&path("new"), &path("newer")).unwrap();
    two("/dev/null", "/dev/null").unwrap();
    let clip = ["--source", "clip", "--clip", &there, "--csv", &there];
    assert!(effective::<HostConfig>(&clip, &around).is_err());
    let run = ["--csv", &there, "--trace", &there];
    assert!(effective::<RunConfig>(&run, &around).is_err());
    let wav = format!("wav:{there}");
    let recorded = ["--record", &there, "--microphone", &wav];
    assert!(effective::<HostConfig>(&recorded, &around).is_err());
    let script = ["desk", "--input-script", &there, "--csv", &there];
    assert!(effective::<ClientConfig>(&script, &around).is_err());
    for input in [
        format!("--head-pose=script:{there}"),
        format!("--pad-db={there}"),
    ] {
        let poses = ["desk", &input, "--csv", &there];
        assert!(
            effective::<ClientConfig>(&poses, &around).is_err(),
            "{input}"
        );
    }
    let new = path("new.wav");
    let wav = format!("wav:{new}");
    let sound = ["desk", "--sound", &wav, "--csv", &new];
    let error = effective::<ClientConfig>(&sound, &around).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("csv and sound are the same file, "),
        "{error}"
    );
}

#[test]
fn without_a_display_a_wayland_session_is_named() {
    let around = Environment {
        display: None,
        wayland: Some("wayland-1".to_owned()),
        ..environment(Path::new("/nonexistent"))
    };
    let host = effective::<HostConfig>(&[], &around).unwrap().config;
    assert_eq!(host.source(), SourceKind::Wayland);
    let named = effective::<HostConfig>(&["--display", ":5"], &around).unwrap();
    assert_eq!(named.config.source(), SourceKind::X11);
    let both = ["--display", ":5", "--source", "wayland"];
    let both = effective::<HostConfig>(&both, &around).unwrap().config;
    assert_eq!(both.wayland_display.as_deref(), Some("wayland-1"));
    let portal = effective::<HostConfig>(&["--source", "portal"], &around).unwrap();
    assert!(portal.config.injects());
    for other in [
        &["--window", "a"][..],
        &["--output", "DP-1"],
        &["--fit"],
        &["--size", "9x9"],
    ] {
        let both = [&["--source", "portal"][..], other].concat();
        assert!(
            effective::<HostConfig>(&both, &around).is_err(),
            "{other:?}"
        );
    }
    let host = effective::<HostConfig>(&["--source", "x11"], &around).unwrap_err();
    let client = effective::<ClientConfig>(&["desk", "--present", "x11"], &around).unwrap_err();
    for error in [host.to_string(), client.to_string()] {
        assert!(error.starts_with("no X display is known: use --display"));
        assert!(error.contains("the Wayland session wayland-1"), "{error}");
    }
    let given = effective::<ClientConfig>(&["desk", "--display", ":1"], &around);
    assert!(given.is_ok(), "the Wayland session is not mentioned");
}

#[test]
fn the_window_is_that_of_the_session_or_the_given_one() {
    let wayland = Environment {
        wayland: Some("wayland-1".to_owned()),
        ..environment(Path::new("/nonexistent"))
    };
    let present = |around: &Environment, args: &[&str]| {
        let args = [&["desk"], args].concat();
        let config = effective::<ClientConfig>(&args, around)?.config;
        anyhow::Ok((config.present.clone(), config.surface()?))
    };
    let here = environment(Path::new("/nonexistent"));
    let (kind, _) = present(&here, &[]).unwrap();
    assert_eq!(kind, PresentKind::X11);
    let no_display = Environment {
        display: None,
        ..wayland.clone()
    };
    for around in [&wayland, &no_display] {
        let (kind, surface) = present(around, &["--tearing"]).unwrap();
        assert_eq!(kind, PresentKind::Wayland(None));
        let Surface::Wayland { display, window } = surface else {
            panic!("{surface:?}");
        };
        assert_eq!((display, window.tearing), (None, true));
    }
    let (kind, _) = present(&wayland, &["--present", "x11"]).unwrap();
    assert_eq!(kind, PresentKind::X11);
    let (kind, _) = present(&here, &["--present", "wayland:/tmp/socket"]).unwrap();
    assert_eq!(kind, PresentKind::Wayland(Some("/tmp/socket".to_owned())));
    for bad in [
        &["--present", "wayland:"][..],
        &["--present", "xwayland"],
        &["--tearing"],
    ] {
        assert!(present(&here, bad).is_err(), "{bad:?}");
    }
}

#[test]
fn slices_are_shown_where_rows_can_be() {
    let around = environment(Path::new("/nonexistent"));
    let surface = |args: &[&str]| {
        let args = [&["desk", "--present-slices"], args].concat();
        anyhow::Ok(
            effective::<ClientConfig>(&args, &around)?
                .config
                .surface()?,
        )
    };
    for args in [
        &["--present", "x11"][..],
        &["--present", "kms:card0"],
        &["--head-pose", "iio", "--reproject", "off"],
        &["--head-pose", "iio", "--motion", "mouse"],
        &["--observe"],
    ] {
        match surface(args).unwrap() {
            Surface::X11 { window, .. } | Surface::Kms { window, .. } => assert!(window.slices),
            other => panic!("{other:?}"),
        }
    }
    for (args, why) in [
        (&["--present", "wayland"][..], "takes whole pictures"),
        (
            &["--present", "headless", "--output", "a"],
            "requires --present x11 or kms",
        ),
        (&["--present", "null"], "requires --present x11 or kms"),
        (&["--present", "xr"], "requires --present x11 or kms"),
        (&["--present", "kms", "--tearing"], "mutually exclusive"),
        (&["--view", "left"], "stereo"),
        (&["--reproject", "on"], "stereo"),
        (&["--head-pose", "mouse"], "stereo"),
    ] {
        let error = surface(args).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.lines().count() == 1,
            "{args:?}: {error}"
        );
    }
}

#[test]
fn a_bad_file_is_refused_with_its_line() {
    let refused = |text: &str, args: &[&str]| host_file("bad", text, args).unwrap_err().to_string();
    assert_eq!(
        refused("fps = 30\n\nfsp = 60\n", &[]),
        "/host.toml:3: unknown setting `fsp`; `openuvr host --help` lists all settings"
    );
    assert_eq!(
        refused("[video]\nfps = 30\n", &[]),
        "/host.toml:1: unknown setting `video`; `openuvr host --help` lists all settings"
    );
    assert_eq!(
        refused("# mine\nfps = 1_000\n", &["--fps", "60"]),
        "/host.toml:2: fps must be a number of frames/s from 1 to 240, not `1000`",
        "also if a flag replaces it"
    );
    assert_eq!(
        refused("fps = \"60\"\n", &[]),
        "/host.toml:1: fps must be a number of frames/s from 1 to 240, not `\"60\"`"
    );
    assert_eq!(
        refused("pin = 1234\n", &[]),
        "/host.toml:1: pin must be 4 to 12 digits (in a file: between quotes), not `1234`"
    );
    assert_eq!(
        refused("cursor = \"true\"\n", &[]),
        "/host.toml:1: cursor must be true or false, not `\"true\"`"
    );
    assert_eq!(
        refused("source = [\n\"x11\"]\n", &[]),
        "/host.toml:1: source must be one of x11, wayland, portal, pattern, clip, scene, not `[`"
    );
    let broken = refused("fps = 30\nslices = = 4\n", &[]);
    assert!(broken.starts_with("/host.toml:2: "), "{broken}");
    let twice = refused("fps = 30\nfps = 31\n", &[]);
    assert!(twice.starts_with("/host.toml:2: "), "{twice}");
    let missing = format!(
        "{:#}",
        host(&["--config", "/nonexistent/h.toml"]).unwrap_err()
    );
    assert!(
        missing.starts_with("can't read the settings in /nonexistent/h.toml: "),
        "{missing}"
    );
}

#[test]
fn a_sensor_moves_a_game_by_its_settings() {
    let motion = |args: &[&str]| {
        let own = ["desk", "--head-pose", "iio"];
        client(&[&own[..], args].concat()).map(|client| client.motion_settings())
    };
    assert_eq!(motion(&[]).unwrap(), None);
    let usual = motion(&["--motion", "mouse"]).unwrap().unwrap();
    let expected = MotionSettings {
        output: Output::Mouse(10.0),
        axes: Axes::default(),
        dead_zone: 0.0,
    };
    assert_eq!(usual, expected);
    let words = [
        "--motion",
        "pad",
        "--motion-range",
        "45",
        "--motion-axes",
        "roll,-pitch",
    ];
    let pad = motion(&[&words[..], &["--motion-dead-zone", "1.5"]].concat());
    let expected = MotionSettings {
        output: Output::Pad(45.0),
        axes: "roll,-pitch".parse().unwrap(),
        dead_zone: 1.5,
    };
    assert_eq!(pad.unwrap().unwrap(), expected);
    for bad in ["yaw", "none,none", "x,y"] {
        assert!(
            motion(&["--motion", "mouse", "--motion-axes", bad]).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn contradictions_are_refused() {
    let hosts: [&[&str]; 15] = [
        &["--recovery", "none"],
        &["--l4s", "auto", "--rate", "constant"],
        &["--encoder", "x264,openh264"],
        &["--encoder", "jpeg,jpeg"],
        &["--recovery", "intra-refresh", "--encoder", "x264,jpeg"],
        &["--window", "a", "--region", "1x1+0+0"],
        &["--source", "pattern", "--window", "a"],
        &["--source", "clip"],
        &["--source", "pattern", "--clip", "a.y4m"],
        &["--source", "clip", "--clip", "a.y4m", "--size", "320x200"],
        &["--source", "pattern", "--region", "1x1+0+0"],
        &["--size", "320x200"],
        &["--place"],
        &["--refresh-interval", "30"],
        &["--recovery", "intra-refresh", "--encoder", "jpeg"],
    ];
    for args in hosts {
        assert!(host(args).is_err(), "{args:?}");
    }
    let clients: [&[&str]; 15] = [
        &["--observe", "--take-over"],
        &["--present", "headless"],
        &["--present", "null", "--grab"],
        &["--present", "null", "--input", "x11"],
        &["--output", "shots"],
        &["--every", "2"],
        &["--input", "script"],
        &["--input", "none", "--input-script", "f"],
        &["--present", "null", "--full-screen"],
        &["--present", "null", "--head-pose", "mouse"],
        &["--observe", "--head-pose", "opentrack"],
        &["--motion", "mouse"],
        &["--motion", "pad", "--head-pose", "mouse"],
        &["--head-pose", "iio", "--motion-gain", "5"],
        &[
            "--head-pose",
            "iio",
            "--motion",
            "pad",
            "--motion-range",
            "1",
        ],
    ];
    for args in clients {
        assert!(client(&[&["desk"], args].concat()).is_err(), "{args:?}");
    }
    let nowhere = Environment {
        display: None,
        wayland: None,
        config_dir: None,
        machine: "openuvr".to_owned(),
    };
    let no_display = effective::<HostConfig>(&["--config-dir", "/tmp"], &nowhere).unwrap_err();
    assert!(no_display.to_string().contains("--display"), "{no_display}");
    let no_folder = effective::<HostConfig>(&["--display", ":0"], &nowhere).unwrap_err();
    assert!(
        no_folder
            .to_string()
            .starts_with("--config-dir is missing, and its default ($XDG_CONFIG_HOME/openuvr"),
        "{no_folder}"
    );
    let pattern = ["--source", "pattern", "--config-dir", "/tmp"];
    assert!(effective::<HostConfig>(&pattern, &nowhere).is_ok());
    // Printing settings needs no display, but they must still be consistent.
    let seen = ["--config-dir", "/tmp", "--print-config"];
    assert!(effective::<HostConfig>(&seen, &nowhere).is_ok());
    let client = [&["desk"], &seen[..]].concat();
    assert!(effective::<ClientConfig>(&client, &nowhere).is_ok());
    assert!(effective::<HostConfig>(&[&seen[..], &["--size=9x9"]].concat(), &nowhere).is_err());
}

#[test]
fn an_unknown_sound_backend_is_not_saved() {
    for (option, known) in [
        ("--sound=kazoo:a", "auto, off, pulse, wav, null"),
        ("--microphone=kazoo", "off, on, pulse, alsa, tone"),
        ("--microphone=auto", "choose off, on, or a device"),
    ] {
        let why = client(&["desk", option, "--print-config"]).unwrap_err();
        assert!(why.to_string().contains(known), "{option}: {why}");
        assert_eq!(crate::exit_code(&why), 2, "{option}");
    }
    for option in ["--sound=wav:a.wav", "--sound=off", "--microphone=on"] {
        assert!(client(&["desk", option]).is_ok(), "{option}");
    }
}

#[test]
fn options_of_a_client_that_would_have_no_effect_are_refused() {
    let portal = "https://play.example.org";
    let fingerprint = "00".repeat(32);
    let cases: [(&[&str], &str); 4] = [
        (&["--portal", portal, "--pair-again"], "--pair-again"),
        (&["desk", "--portal-fingerprint", &fingerprint], "--portal "),
        (
            &["desk", "--present", "xr", "--head-pose", "iio"],
            "leave out --head-pose",
        ),
        (
            &["desk", "--present", "xr", "--head-pose", "script:walk.csv"],
            "leave out --head-pose",
        ),
    ];
    for (args, words) in cases {
        let why = client(args).unwrap_err().to_string();
        assert!(why.contains(words), "{args:?}: {why}");
    }
    let pinned = ["--portal", portal, "--portal-fingerprint", &fingerprint];
    assert!(client(&pinned).is_ok());
    assert!(client(&["desk", "--present", "xr"]).is_ok());
}

#[test]
fn a_value_that_is_not_utf8_is_refused_by_name() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt as _;
    let odd = OsStr::from_bytes(b"caf\xe9");
    let words = ["host", "--csv"].map(OsString::from);
    let words = words.into_iter().chain([odd.to_owned()]);
    let matches = <HostConfig as Settings>::command().try_get_matches_from(words);
    let around = environment(Path::new("/nonexistent"));
    let refused = HostConfig::from_matches_in(&matches.unwrap(), &around).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "--csv must be a path, not \"caf\\xE9\", which is not UTF-8"
    );
}

/// The list of applications in the settings file itself.
const INLINE: &str = "virtual = \"640x360\"\nmoonlight = \"127.0.0.1:0\"\n\n[[applications]]\nname = \"A\"\ncommand = [\"a b\"]\n";

#[test]
fn applications_are_in_the_settings_file_or_in_another() {
    let folder = TempDir::with_prefix("applications").unwrap();
    let around = environment(folder.path());
    let file = write(&folder, "host.toml", INLINE);
    let config = |args: &[&str]| effective::<HostConfig>(args, &around).map(|e| e.config);
    assert_eq!(config(&[]).unwrap().applications, Some(file.clone()));
    assert!(config(&[]).unwrap().fits());
    let other = config(&["--applications", "games.toml"]).unwrap();
    assert_eq!(other.applications, Some(PathBuf::from("games.toml")));
    assert_eq!(config(&["--applications", ""]).unwrap().applications, None);
    // The list remains when another setting is saved.
    effective::<HostConfig>(&["--fps", "30", "--save"], &around).unwrap();
    let saved = std::fs::read_to_string(&file).unwrap();
    let document: toml::Table = saved.parse().unwrap();
    let before: toml::Table = INLINE.parse().unwrap();
    assert_eq!(document["applications"], before["applications"], "{saved}");
    assert_eq!(
        document["fps"]
            .as_float()
            .or(document["fps"].as_integer().map(|n| n as f64)),
        Some(30.0)
    );
    assert_eq!(config(&[]).unwrap().applications, Some(file));
    let contradictory = config(&["--moonlight", ""]).unwrap_err().to_string();
    assert!(
        contradictory.contains("requires --virtual and --moonlight"),
        "{contradictory}"
    );
}

#[test]
fn moonlight_clients_fit_a_virtual_display() {
    let fits = |args: &[&str]| host(args).unwrap().fits();
    let modes = ["--virtual", "640x360", "--moonlight", "127.0.0.1:0"];
    assert!(fits(&modes) && !fits(&modes[..2]) && !fits(&modes[2..]));
    assert!(!fits(&[&modes[..], &["--fit=false"]].concat()));
    assert!(!fits(&[&modes[..], &["--window", "a"]].concat()));
    assert!(fits(&["--fit"]));
    let limit = |args: &[&str]| Config::from(&host(args).unwrap()).max_fps;
    assert_eq!(limit(&modes), Some(240.0));
    assert_eq!(limit(&["--fps", "90"]), Some(90.0));
    assert_eq!(limit(&["--source", "pattern"]), None);
}

#[test]
fn settings_are_saved_into_the_file_that_they_came_from() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let around = environment(&folder.path().join("new"));
    let saved = |args: &[&str]| {
        effective::<HostConfig>(&[args, &["--save"]].concat(), &around)
            .unwrap()
            .printed
            .unwrap()
    };
    let file = folder.path().join("new/host.toml");
    let printed = saved(&["--fps", "30", "--pin", "0042"]);
    assert_eq!(printed, format!("settings saved in {}\n", file.display()));
    saved(&["--window", "blender"]);
    let now: Effective<HostConfig> = effective(&[], &around).unwrap();
    assert_eq!(now.config.fps, Some(30.0), "earlier settings are kept");
    assert_eq!(
        now.config.subject(),
        Subject::Window(WindowName::Text("blender".to_owned()))
    );
    assert_eq!(now.config.pin.unwrap().to_string(), "0042");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it contains a PIN");
    // Unset values are not saved: a later run uses the display set in its own environment.
    let later = Environment {
        display: Some(":9".to_owned()),
        ..around.clone()
    };
    let later: Effective<HostConfig> = effective(&[], &later).unwrap();
    assert_eq!(later.config.display.as_deref(), Some(":9"));
    // A symbolic link is kept, and an error leaves the file unchanged.
    let link = folder.path().join("link.toml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    saved(&["--config", link.to_str().unwrap(), "--fps", "31"]);
    assert!(link.is_symlink());
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(before.contains("\nfps = 31\n"), "{before}");
    assert!(effective::<HostConfig>(&["--region", "9x9+0+0", "--save"], &around).is_err());
    assert!(effective::<HostConfig>(&["--config", "/dev/null", "--save"], &around).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_printed_configuration_reads_back_unchanged() {
    fn round_trip<C: Settings + PartialEq + std::fmt::Debug>(name: &str, args: &[&str]) -> String {
        let folder = TempDir::with_prefix(name).unwrap();
        let around = environment(Path::new("/home/o\"dd\\näme/.config/openuvr"));
        let first: Effective<C> =
            effective(&[args, &["--print-config"]].concat(), &around).unwrap();
        let printed = first.printed.unwrap();
        let file = write(&folder, "printed.toml", &printed);
        let again: Effective<C> =
            effective(&["--config", file.to_str().unwrap()], &around).unwrap();
        assert_eq!(again.config, first.config);
        assert!(again.printed.is_none());
        assert!(
            printed.lines().all(|line| line.chars().count() <= 110),
            "{printed}"
        );
        printed
    }
    round_trip::<HostConfig>("print-host", &[]);
    let printed = round_trip::<HostConfig>(
        "print-host-flags",
        &[
            "--window",
            "a \"quoted\" \\ title",
            "--fps",
            "059.940",
            "--bitrate",
            "0012.50M",
            "--slices",
            "+8",
            "--pin",
            "0042",
            "--cursor=false",
            "--duration",
            "90s",
            "--csv",
            "a b.csv",
        ],
    );
    for line in [
        "fps = 59.94 # flag",
        "slices = 8 # flag",
        "pin = \"0042\" # flag",
        "# max-observers = 8 # default",
        "# display = \":7\" # default: $DISPLAY",
        "# region = … # not set",
        "# Maximum frame rate.",
        "# Allowed: a number of frames/s from 1 to 240. Default: 60, or less on a slower display.",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}\n{printed}");
    }
    round_trip::<ClientConfig>("print-client", &["[fe80::1%eth0]:4711", "--grab"]);
}

#[test]
fn a_clients_pin_is_neither_kept_nor_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let around = environment(folder.path());
    let words = ["desk", "--grab", "--pin", "1234", "--pair-again"];
    let saved: Effective<ClientConfig> =
        effective(&[&words[..], &["--save"]].concat(), &around).unwrap();
    assert_eq!(saved.config.pin.unwrap().to_string(), "1234");
    let file = folder.path().join("client.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\ngrab = true\n"), "{text}");
    let settings = text.lines().filter(|line| line.contains(" = "));
    for line in settings {
        assert!(
            !line.contains("pin =") && !line.contains("pair-again ="),
            "{line}"
        );
    }
    let later: Effective<ClientConfig> = effective(&[], &around).unwrap();
    assert!(later.config.grab && later.config.pin.is_none() && !later.config.pair_again);
    for (line, key) in [
        ("pin = \"1234\"", "pin"),
        ("pair-again = true", "pair-again"),
    ] {
        write(
            &folder,
            "client.toml",
            &format!("host = \"desk\"\n{line}\n"),
        );
        let why = effective::<ClientConfig>(&[], &around).unwrap_err();
        assert_eq!(
            why.to_string(),
            format!(
                "{}:2: `{key}` applies to one run and is not read from a file: remove the line, and use --{key} when needed",
                file.display()
            )
        );
    }
}

#[test]
fn the_printed_configuration_says_which_line_of_which_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        &folder,
        "host.toml",
        "# mine\nslices = 0x08\nbitrate = 20_000_000\n",
    );
    let around = environment(Path::new("/nonexistent"));
    let args = ["--config", file.to_str().unwrap(), "--print-config"];
    let printed = effective::<HostConfig>(&args, &around)
        .unwrap()
        .printed
        .unwrap();
    let at = file.display();
    assert!(
        printed.contains(&format!("\nslices = 8 # file: {at}:2\n")),
        "{printed}"
    );
    assert!(
        printed.contains(&format!("\nbitrate = 20000000 # file: {at}:3\n")),
        "{printed}"
    );
}

#[test]
fn tables_are_sound() {
    fn sound<C: Settings>() {
        C::command().debug_assert();
        let around = environment(Path::new("/home/x"));
        let table = C::table();
        for setting in &table {
            let key = setting.key;
            let kebab = key
                .chars()
                .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
            assert!(kebab, "{key}");
            assert_eq!(
                table.iter().filter(|other| other.key == key).count(),
                1,
                "{key}"
            );
            assert!(
                !setting.help.is_empty() && setting.help.len() <= 70,
                "{key}: {}",
                setting.help
            );
            if let Some(value) = setting.default.value(&around) {
                assert!(
                    (setting.accepts)(&value.text),
                    "{key}: its default is refused"
                );
            }
        }
    }
    sound::<HostConfig>();
    sound::<ClientConfig>();
}

#[test]
fn the_transports_are_those_that_there_are() {
    let words: Vec<&str> = LinkName::VALUES.iter().map(|(word, _)| *word).collect();
    let links = openuvr_net::LINKS.iter().map(|link| link.transport.name());
    assert_eq!(words, links.collect::<Vec<_>>());
    assert!(
        LinkName::VALUES
            .iter()
            .all(|(word, name)| *word == name.0.name())
    );
}

#[test]
fn keys_are_symbols_for_a_host_and_places_for_a_game() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let host = |words: &[&str]| {
        let words = [&["host", "--config", "/dev/null"][..], words].concat();
        let matches = HostConfig::command().get_matches_from(words);
        HostConfig::from_matches_in(&matches, &environment)
            .unwrap()
            .config
            .keys
    };
    let game = |words: &[&str]| {
        let words = [
            &["run", "--config", "/dev/null"][..],
            words,
            &["--", "game"],
        ]
        .concat();
        let matches = RunConfig::command().get_matches_from(words);
        RunConfig::from_matches_in(&matches, &environment)
            .unwrap()
            .config
            .host
            .keys
    };
    assert_eq!((host(&[]), game(&[])), (Keys::Symbol, Keys::Position));
    assert_eq!(host(&["--key-mapping", "position"]), Keys::Position);
    assert_eq!(game(&["--key-mapping", "symbol"]), Keys::Symbol);
    let client = |words: &[&str]| {
        let words = [&["client", "--config", "/dev/null", "desk"][..], words].concat();
        let matches = <ClientConfig as Settings>::command().get_matches_from(words);
        ClientConfig::from_matches_in(&matches, &environment).map(|effective| effective.config)
    };
    let player = client(&["--bitrate", "5M", "--max-size", "1280x720"]).unwrap();
    let config = player.runtime_config(player.host.clone().unwrap());
    let expected = ClientConstraints {
        bitrate: Some(Bitrate::from_mbps(5)),
        size: Some(Size::new(1280, 720)),
        fps: None,
        chosen_fps: None,
    };
    assert_eq!(config.constraints, expected);
    let refused = client(&["--observe", "--bitrate", "5M"])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("are for the player"), "{refused}");
}

#[test]
fn help_mentions_no_options_of_other_subcommands() {
    fn check<C: Settings>() {
        let command = C::command();
        let has = |name: &str| {
            command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(name))
        };
        for setting in C::table().iter().filter(|setting| !setting.fixed) {
            let default = setting.default.words().unwrap_or_default();
            for part in [setting.help.as_str(), setting.more.as_str(), default] {
                for rest in part.split("--").skip(1) {
                    let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
                    let option = &rest[..end.unwrap_or(rest.len())];
                    let mentioned = format!("--{}: mentions --{option}", setting.key);
                    assert!(option.is_empty() || has(option), "{mentioned}");
                }
            }
        }
    }
    check::<RunConfig>();
    check::<XrConfig>();
    check::<ClientConfig>();
}

#[test]
fn help_names_every_setting_and_fits() {
    fn help<C: Settings>() -> String {
        let mut command = C::command().term_width(100);
        let help = command.render_help().to_string();
        let long = command.render_long_help().to_string();
        for setting in C::table() {
            let shown = if setting.positional {
                format!("[{}]", setting.placeholder)
            } else {
                format!("--{}", setting.key)
            };
            assert!(help.contains(&shown), "{shown}\n{help}");
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                words(&long).contains(&words(&setting.more)),
                "{}",
                setting.key
            );
        }
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        help
    }
    let host = help::<HostConfig>();
    for words in [
        "Video source:",
        "Picture quality:",
        "Network and clients:",
        "Measurement and operation:",
        "--fps <NUMBER>",
        "Maximum frame rate [1–240 frames/s; default: 60, or less",
        "Examples:",
    ] {
        assert!(host.contains(words), "{words}\n{host}");
    }
    let client = help::<ClientConfig>();
    for words in [
        "Host:",
        "Picture:",
        "Input:",
        "Usage: client [OPTIONS] [HOST[:PORT]]",
    ] {
        assert!(client.contains(words), "{words}\n{client}");
    }
    let (help, grab) = (
        ClientConfig::command().render_help().to_string(),
        "Ctrl+Alt+Shift+G",
    );
    for text in [
        ("client --help", help.as_str()),
        ("docs/usage.md", include_str!("../../../../docs/usage.md")),
        ("docs/games.md", include_str!("../../../../docs/games.md")),
    ] {
        for shortcut in SHORTCUTS {
            let mut lines = text.1.lines();
            let parsed = |line: &str| line.contains(shortcut.keys) && line.contains(shortcut.does);
            assert!(lines.any(parsed), "{} lacks {shortcut:?}", text.0);
        }
        assert!(text.1.contains(grab), "the way out of the grab");
    }
    let unknown = HostConfig::command().try_get_matches_from(["host", "--fsp", "60"]);
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::UnknownArgument);
}
