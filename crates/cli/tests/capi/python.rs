//! The Python package: its wheel, host and client, and the example.

use std::path::{Path, PathBuf};
use std::process::Command;

use openuvr_proto::units::Size;

use crate::build::{command, crates, library};
use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, client, eventually, port_of, skip,
};

/// The Python of the distribution's packages.
const PYTHON: &str = "/usr/bin/python3";

/// Whether Python and its modules are installed.
fn has(modules: &str) -> bool {
    let script = format!("import {modules}");
    let tried = Command::new(PYTHON).args(["-c", &script]).output();
    let there = tried.is_ok_and(|out| out.status.success());
    if !there {
        skip(&format!("{PYTHON} can't import {modules}"));
    }
    there
}

/// Python with this build's library and the package of the source tree.
fn python(folder: &Folder, script: &Path) -> Command {
    let mut python = command(Path::new("env"), folder);
    python
        // If Ctrl-C was ignored when Python started, Python continues to ignore it. Background processes of a shell
        // without job control start like this.
        .args(["--default-signal=INT", PYTHON, "-u"])
        .arg(script)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", crates().join("capi/python"))
        .env("OPENUVR_LIBRARY", library().folder.join("libopenuvr.so"));
    python
}

fn run(mut command: Command) -> String {
    let out = command.output().expect("Python is installed");
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {text}");
    text.into_owned()
}

#[test]
fn a_numpy_picture_reaches_a_window() {
    let Some(display) = Display::start("640x360") else {
        return;
    };
    if !has("cffi, numpy") {
        return;
    }
    let folder = Folder::new();
    let mut command = python(&folder, &crates().join("../examples/python/picture.py"));
    command.args(["--bind", "127.0.0.1:0"]).args(PIN);
    let mut host = Program::start("picture.py", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    let script = folder.path().join("script");
    std::fs::write(&script, "wait 300ms\nmove 1 1\nwait 100s\n").unwrap();
    let address = format!("127.0.0.1:{port}");
    let input = ["--input-script", script.to_str().unwrap()];
    let args = [&PIN[..], &["--display", &display.name], &input].concat();
    let client = client(&folder, "guest", &address, &args);
    client.line("showing 640x360");
    let capture = ScreenCapture::open(&display);
    eventually("the square is where the player points", || {
        let shot = capture.region(Size::new(640, 360));
        let [blue, green, red] = shot.colours()[336 * 640 + 616];
        (blue < 60 && green < 90 && red > 195).then_some(())
    });
    drop(client);
    host.line("a client is gone");
    let text = host.stop();
    assert!(!text.contains("Traceback"), "{text}");
}

#[test]
fn host_and_client_work_in_python() {
    if !has("cffi, numpy") {
        return;
    }
    let folder = Folder::new();
    let script = crates().join("capi/tests/python/round_trip.py");
    let printed = run(python(&folder, &script));
    assert!(printed.ends_with("host and client agree\n"), "{printed}");
}

#[test]
fn the_wheel_contains_its_library() {
    if !has("cffi, setuptools, wheel, pip") {
        return;
    }
    let folder = Folder::new();
    // The sources are copied into the folder, because setuptools builds inside them.
    let sources = folder.path().join("capi");
    for part in ["python", "include"] {
        copy(&crates().join("capi").join(part), &sources.join(part));
    }
    let pip = |args: &[&str]| {
        let mut pip = command(Path::new(PYTHON), &folder);
        pip.args(["-m", "pip", "--disable-pip-version-check"])
            .args(args)
            .current_dir(folder.path())
            .env("OPENUVR_VERSION", env!("CARGO_PKG_VERSION"))
            .env("OPENUVR_LIBRARY", library().folder.join("libopenuvr.so"));
        run(pip)
    };
    let wheels = ["--no-build-isolation", "--no-deps", "--no-index", "-w", "."];
    pip(&[&["wheel"], &wheels[..], &["./capi/python"]].concat());
    let wheel = only_wheel(folder.path());
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-py3-none-linux_"), "{name}");
    let target = ["--no-deps", "--no-index", "--target", "installed"];
    pip(&[&["install"], &target[..], &[wheel.to_str().unwrap()]].concat());

    // Only the library in the wheel is available, not the source tree or another library.
    let mut import = command(Path::new(PYTHON), &folder);
    import
        .args(["-c", "import openuvr; print(openuvr.version(), openuvr)"])
        .env_remove("LD_LIBRARY_PATH")
        .env("PYTHONPATH", folder.path().join("installed"));
    let printed = run(import);
    assert!(
        printed.contains("(0, 1, 0)") && printed.contains("/installed/"),
        "{printed}"
    );
}

fn only_wheel(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("a folder");
    let mut wheels = files
        .map(|file| file.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheels.next().expect("a wheel");
    assert_eq!(wheels.next(), None);
    wheel
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a new folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("its kind").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a copy");
        }
    }
}
