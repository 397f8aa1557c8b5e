//! Tests of an application's environment and settings. Its lifetime is tested in `crates/runtime/tests/launch.rs`,
//! because that test needs its own process.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use openuvr_ipc::frame::{self, Message as _, PREFIX};
use openuvr_ipc::hello;
use openuvr_ipc::notice::Notice;
use openuvr_proto::units::Size;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::launch_protocol::{LaunchReport, LaunchSettings, SOCKET};
use crate::launcher::Launcher;

/// Connects like a process of the application that shows its first picture.
fn process(at: &Socket) -> OwnedFd {
    // A program that another test starts must not inherit the socket and keep it open.
    let flags = SocketFlags::CLOEXEC;
    let end = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&end, &SocketAddrUnix::new(at.path()).unwrap()).unwrap();
    send(&end, &hello::hello(), SendFlags::NOSIGNAL).unwrap();
    end
}

fn settings() -> LaunchSettings {
    LaunchSettings {
        window: Some("room".to_owned()),
        ..LaunchSettings::default()
    }
}

/// The settings that a process has received, if any.
fn received(process: &OwnedFd) -> Option<LaunchSettings> {
    let mut bytes = vec![0; PREFIX + LaunchSettings::MAX_LEN];
    loop {
        let (_, length) = recv(process, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        if length == 0 {
            return None;
        }
        if hello::check(&bytes[..length]).is_err() {
            return Some(frame::from_bytes(&bytes[..length]).unwrap());
        }
    }
}

fn send_report(process: &OwnedFd, report: &LaunchReport) {
    send(
        process,
        &frame::to_bytes(report).unwrap(),
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

#[test]
fn one_process_streams_and_the_next_follows_it() {
    let mut socket = Socket::open(&settings()).unwrap();
    assert!(!socket.is_busy() && !socket.was_used());
    let [first, second] = [process(&socket), process(&socket)];
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert!(socket.is_busy() && socket.was_used());
    assert_eq!(
        (received(&first), received(&second)),
        (Some(settings()), None)
    );

    let report = LaunchReport::Notice(Notice::Warning("a".to_owned()));
    send_report(&first, &report);
    send_report(&first, &LaunchReport::InputDisplay(":7".to_owned()));
    send_report(&first, &LaunchReport::Notice(Notice::SourceShown(true)));
    assert_eq!(
        socket.reports(Duration::ZERO),
        [report, LaunchReport::Notice(Notice::SourceShown(true))]
    );
    assert_eq!(socket.abandoned_displays(), [""; 0]);
    assert!(!socket.take_stream_end());

    // The last message of the first process arrives, and its display is reported as abandoned.
    send_report(&first, &LaunchReport::Notice(Notice::SourceShown(false)));
    drop(first);
    assert_eq!(
        socket.reports(Duration::ZERO),
        [LaunchReport::Notice(Notice::SourceShown(false))]
    );
    assert_eq!(socket.abandoned_displays(), [":7"]);
    assert!(socket.take_stream_end() && !socket.take_stream_end());
    assert_eq!(received(&second), Some(settings()));
    drop(second);
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert!(!socket.is_busy() && socket.was_used());
}

#[test]
fn last_lines_of_a_process_that_read_nothing_arrive() {
    let mut socket = Socket::open(&settings()).unwrap();
    let process = process(&socket);
    assert_eq!(socket.reports(Duration::ZERO), []);
    let report = LaunchReport::Notice(Notice::Warning("a".to_owned()));
    send_report(&process, &report);
    drop(process);
    assert_eq!(socket.reports(Duration::ZERO), [report]);
    assert!(!socket.is_busy());
}

#[test]
fn reports_that_find_no_room_are_counted() {
    // More than any send buffer holds.
    const SENT: usize = 100_000;
    let mut socket = Socket::open(&settings()).unwrap();
    let launcher = Launcher::connect_to(&socket.path()).unwrap();
    assert_eq!(socket.reports(Duration::ZERO), []);
    let report = LaunchReport::Notice(Notice::SourceShown(true));
    for _ in 0..SENT {
        launcher.send(&report);
    }
    let received = socket.reports(Duration::ZERO).len();
    let lost = u64::try_from(SENT - received).unwrap();
    assert!(lost > 0);
    launcher.send(&report);
    let expected = [LaunchReport::Notice(Notice::Lost(lost)), report.clone()];
    assert_eq!(socket.reports(Duration::ZERO), expected);
    launcher.send(&report);
    assert_eq!(socket.reports(Duration::ZERO), [report]);
}

#[test]
fn a_process_of_another_version_is_refused_with_one_line() {
    let mut socket = Socket::open(&settings()).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let old = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&old, &SocketAddrUnix::new(socket.path()).unwrap()).unwrap();
    send(&old, b"failed\told", SendFlags::NOSIGNAL).unwrap();
    let reports = socket.reports(Duration::ZERO);
    let [LaunchReport::Notice(Notice::Warning(why))] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert!(why.contains("different versions"), "{why}");
    assert_eq!((received(&old), socket.waiting()), (None, 0));
    // The next process receives the settings.
    let next = process(&socket);
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert_eq!(received(&next), Some(settings()));
}

#[test]
fn the_stand_in_ends_when_the_application_shows_a_picture() {
    let mut socket = Socket::open(&settings()).unwrap();
    // This test's process is the stand-in. The application's process, started below, is another one.
    socket.set_stand_in(Some(rustix::process::getpid()));
    let stand_in = process(&socket);
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert_eq!(received(&stand_in), Some(settings()));
    assert!(socket.is_served() && !socket.is_busy() && !socket.was_used());
    assert_eq!(socket.streaming(), None);
    send_report(&stand_in, &LaunchReport::Notice(Notice::SourceShown(true)));
    assert_eq!(
        socket.reports(Duration::ZERO),
        [LaunchReport::Notice(Notice::SourceShown(true))]
    );

    // A process of the application connects. It receives the current settings only after the stand-in has
    // ended.
    let script = "import os, socket, sys
end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.connect(sys.argv[1])
end.send(bytes.fromhex(sys.argv[2]))
end.recv(65536)
sys.stdout.write('told' if b'other' in end.recv(65536) else 'not told')";
    let hello: String = hello::hello()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut game = Command::new("python3");
    game.args(["-c", script]).arg(socket.path()).arg(hello);
    let game = game.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !socket.is_busy() {
        assert!(std::time::Instant::now() < until, "it does not connect");
        socket.reports(Duration::from_millis(5));
    }
    let other = LaunchSettings {
        window: Some("other".to_owned()),
        ..LaunchSettings::default()
    };
    socket.set_settings(&other).unwrap();
    socket.reports(Duration::ZERO);
    assert!(!socket.was_used());
    // The stand-in is asked to end.
    let (_, length) = recv(&stand_in, &mut [0; 16][..], RecvFlags::DONTWAIT).unwrap();
    assert_eq!(length, 0);
    drop(stand_in);
    while !socket.was_used() {
        assert!(std::time::Instant::now() < until, "no settings were sent");
        socket.reports(Duration::from_millis(5));
    }
    let output = game.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(output).unwrap(), "told");
}

#[test]
fn the_number_of_waiting_processes_is_bounded() {
    let mut socket = Socket::open(&settings()).unwrap();
    let mut all = Vec::new();
    // Each round connects fewer processes than the listen backlog holds, because a further connect would block.
    for _ in 0..10 {
        all.extend((0..8).map(|_| process(&socket)));
        socket.reports(Duration::ZERO);
    }
    assert_eq!(socket.waiting(), super::socket::MAX_PROCESSES);
}

/// Runs in its own process, because the limit of file descriptors applies to all threads of a process.
#[test]
fn a_process_is_accepted_once_a_descriptor_is_free() {
    const ALONE: &str = "OPENUVR_TEST_ALONE";
    const TURN: Duration = Duration::from_millis(50);
    if std::env::var_os(ALONE).is_none() {
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::a_process_is_accepted_once_a_descriptor_is_free");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &name, "--nocapture"]);
        let out = command.env(ALONE, "1").output().unwrap();
        let output = String::from_utf8_lossy(&out.stdout);
        let error = String::from_utf8_lossy(&out.stderr);
        let passed = out.status.success() && output.contains("1 passed");
        assert!(passed, "{output}{error}");
        return;
    }
    let mut socket = Socket::open(&settings()).unwrap();
    let one = process(&socket);
    let before = getrlimit(Resource::Nofile);
    let free = File::open("/dev/null").unwrap().as_raw_fd();
    let none = Rlimit {
        current: Some(u64::try_from(free).unwrap()),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert_eq!(socket.waiting(), 0);
    // The connection stays in the backlog. Each call still waits, so a loop of calls does not spin.
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(socket.reports(TURN), []);
    }
    assert!(began.elapsed() >= 3 * TURN, "{:?}", began.elapsed());
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(socket.reports(Duration::ZERO), []);
    assert_eq!((socket.waiting(), received(&one)), (1, Some(settings())));
}

#[test]
fn the_socket_goes_with_its_folder() {
    let socket = Socket::open(&settings()).unwrap();
    let (folder, path) = (socket.folder().to_owned(), socket.path());
    assert!(path.starts_with(&folder) && path.exists());
    drop(socket);
    assert!(!folder.exists());
}

#[test]
fn the_command_names_hook_layer_and_socket() {
    let socket = Socket::open(&settings()).unwrap();
    let library = Path::new("/opt/libopenuvr_hook.so");
    let words = ["game", "-w", "a b"].map(OsString::from);
    let command = command(&words, library, &socket).unwrap();
    assert_eq!(command.get_program(), "game");
    assert_eq!(Vec::from_iter(command.get_args()), ["-w", "a b"]);
    let set = |name: &str| {
        let all = command.get_envs();
        let found = all.filter(|(of, _)| *of == OsStr::new(name));
        found
            .last()
            .and_then(|(_, value)| value)
            .map(OsStr::to_owned)
    };
    assert_eq!(set(SOCKET), Some(socket.path().into_os_string()));
    let preload = set("LD_PRELOAD").unwrap().into_string().unwrap();
    assert_eq!(preload.split(':').next(), library.to_str());
    let layers = set("VK_INSTANCE_LAYERS").unwrap().into_string().unwrap();
    assert!(layers.starts_with("VK_LAYER_OPENUVR_capture"), "{layers}");
    let manifest = socket.folder().join("vulkan/explicit_layer.d");
    assert_eq!(std::fs::read_dir(manifest).unwrap().count(), 1);
}

#[test]
fn a_missing_command_or_hook_is_reported_in_one_line() {
    let socket = Socket::open(&settings()).unwrap();
    let none = command(&[], Path::new("/x"), &socket).unwrap_err();
    assert_eq!(none.to_string(), "no application given");
    let missing = library(Some(Path::new("/nowhere/hook.so"))).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "can't find libopenuvr_hook.so (/nowhere/hook.so): install the package openuvr-guest, or run `./dev install` \
         in the sources, or specify its path with --hook"
    );
    let folder = socket.folder().join("a b");
    std::fs::create_dir(&folder).unwrap();
    let unquotable = folder.join(LIBRARY);
    std::fs::write(&unquotable, "").unwrap();
    let why = library(Some(&unquotable)).unwrap_err().to_string();
    assert!(
        why.starts_with("the dynamic loader does not support the space or colon"),
        "{why}"
    );
}

#[test]
fn an_openxr_command_names_runtime_and_socket() {
    let socket = Socket::open(&settings()).unwrap();
    let library = Path::new("/opt/a \"b\"/libopenuvr_xr.so");
    let words = ["app", "-g", "Vulkan2"].map(OsString::from);
    let command = xr_command(&words, library, &socket, Some(Size::new(960, 960))).unwrap();
    assert_eq!(command.get_program(), "app");
    assert_eq!(Vec::from_iter(command.get_args()), ["-g", "Vulkan2"]);
    let set = |name: &str| {
        let mut all = command.get_envs();
        let found = all.find(|(of, _)| *of == OsStr::new(name));
        found
            .and_then(|(_, value)| value)
            .map(OsStr::to_owned)
            .unwrap()
    };
    assert_eq!(set(SOCKET), socket.path().into_os_string());
    assert_eq!(set(EYE), "960x960");
    let manifest = std::fs::read(set("XR_RUNTIME_JSON")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(
        manifest["runtime"]["library_path"],
        library.to_str().unwrap()
    );
    let none = xr_command(&[], library, &socket, None).unwrap_err();
    assert_eq!(none.to_string(), "no application given");
    let missing = xr_runtime(Some(Path::new("/nowhere/xr.so"))).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "can't find libopenuvr_xr.so (/nowhere/xr.so): install the package openuvr-guest, or run `./dev install` in \
         the sources, or specify its path with --runtime"
    );
}
