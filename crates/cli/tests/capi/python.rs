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

/// A command that runs a script in Python, with this build's library and the package of the source tree.
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
fn the_lines_of_the_guide_stream_from_a_wheel() {
    let Some(display) = Display::start("640x480") else {
        return;
    };
    if !has("cffi, numpy, setuptools, wheel, pip, venv") {
        return;
    }
    let folder = Folder::new();
    let python = installed(&wheel(&folder.path().join("made")), &folder);
    let lines = example("docs/guides/engine.md");
    assert_eq!(lines, example("crates/capi/python/README.md"));
    // Only the address is changed, to one with a free port.
    let address = "\"[::]:4710\"";
    assert_eq!(lines.matches(address).count(), 1, "{lines}");
    let script = folder.path().join("draw.py");
    std::fs::write(&script, lines.replace(address, "\"127.0.0.1:0\"")).unwrap();
    let mut command = command(&python, &folder);
    command
        .arg("-u")
        .arg(&script)
        .current_dir(folder.path())
        .env_remove("OPENUVR_LIBRARY")
        // Prints the log, which contains the port.
        .env("OPENUVR_LOG", "3");
    let host = Program::start("draw.py", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    let address = format!("127.0.0.1:{port}");
    let input = folder.path().join("input");
    std::fs::write(&input, "wait 300ms\nmove 1 1\nwait 100s\n").unwrap();
    let input = ["--input-script", input.to_str().unwrap()];
    let pin = ["--pin", "123456"];
    let args = [&pin[..], &["--display", &display.name], &input].concat();
    let client = client(&folder, "guest", &address, &args);
    client.line("showing 640x480");
    let capture = ScreenCapture::open(&display);
    eventually("the pointer draws in the lower right corner", || {
        let colours = capture.region(Size::new(640, 480)).colours();
        let bright = |x: usize, y: usize| colours[y * 640 + x].iter().all(|&part| part > 200);
        (bright(636, 476) && !bright(300, 200)).then_some(())
    });
}

#[test]
fn a_wheel_has_equal_bytes_each_time_and_its_own_library() {
    if !has("cffi, setuptools, wheel, pip, venv") {
        return;
    }
    let folder = Folder::new();
    let made = wheel(&folder.path().join("made"));
    let again = wheel(&folder.path().join("again"));
    let name = made.file_name().unwrap().to_str().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let tag = format!("openuvr-{version}-py3-none-manylinux_2_");
    assert!(name.starts_with(&tag), "{name}");
    assert_eq!(made.file_name(), again.file_name());
    let [made_bytes, again_bytes] = [&made, &again].map(|path| std::fs::read(path).unwrap());
    assert!(made_bytes == again_bytes, "two wheels differ");

    let python = installed(&made, &folder);
    let system = library().folder.join("libopenuvr.so");
    let own = folder.path().canonicalize().unwrap().join("environment");
    // `command` sets LD_LIBRARY_PATH to a folder with another libopenuvr. The package loads it only if OPENUVR_LIBRARY
    // names it.
    let loaded = loaded_by(&python, &folder, None);
    assert!(loaded.starts_with(&own), "{}", loaded.display());
    let loaded = loaded_by(&python, &folder, Some(&system));
    assert_eq!(loaded, system.canonicalize().unwrap());
    // A wrong path is an error.
    let mut import = command(&python, &folder);
    import
        .args(["-c", "import openuvr"])
        .env("OPENUVR_LIBRARY", "/nonexistent.so");
    let out = import.output().expect("Python is installed");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && text.contains("/nonexistent.so"),
        "{text}"
    );
}

/// The text of the only Python program in a document.
fn example(document: &str) -> String {
    let path = crates().join("..").join(document);
    let text = std::fs::read_to_string(path).expect("a document");
    let mut parts = text.split("```python\n").skip(1);
    let program = parts.next().expect("a program");
    assert_eq!(parts.next(), None, "{document} has several programs");
    program.split("```").next().unwrap_or_default().to_owned()
}

/// Builds the wheel with this build's library, in the folder `out`.
fn wheel(out: &Path) -> PathBuf {
    let mut make = Command::new(crates().join("../packaging/wheel"));
    make.arg(library().folder.join("libopenuvr.so"))
        .arg(out)
        .env_remove("PACKAGE_VERSION")
        .env("PYTHON", PYTHON)
        .env("SOURCE_DATE_EPOCH", "1700000000");
    run(make);
    only_wheel(out)
}

/// Installs the wheel into a new environment, with the distribution's cffi and numpy. Returns the environment's Python.
fn installed(wheel: &Path, folder: &Folder) -> PathBuf {
    let environment = folder.path().join("environment");
    let mut make = command(Path::new(PYTHON), folder);
    make.args(["-m", "venv", "--system-site-packages", "--without-pip"])
        .arg(&environment);
    run(make);
    let python = environment.join("bin/python");
    let mut pip = command(&python, folder);
    pip.args(["-m", "pip", "--disable-pip-version-check", "install"])
        .args(["--quiet", "--no-index", "--no-deps"])
        .arg(wheel);
    run(pip);
    python
}

/// The library that the package loads, with OPENUVR_LIBRARY set to `named`.
fn loaded_by(python: &Path, folder: &Folder, named: Option<&Path>) -> PathBuf {
    let script = "import openuvr\n\
                  maps = open('/proc/self/maps')\n\
                  print({line.split()[-1] for line in maps if 'libopenuvr' in line}.pop())";
    let mut import = command(python, folder);
    import
        .args(["-c", script])
        .current_dir(folder.path())
        .env_remove("OPENUVR_LIBRARY")
        .envs(named.map(|path| ("OPENUVR_LIBRARY", path)));
    PathBuf::from(run(import).trim_end())
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
