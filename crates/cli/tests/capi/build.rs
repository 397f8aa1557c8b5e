//! Compiles C programs as a user of the library would.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Folder;

/// Location of `libopenuvr` and its header.
pub(crate) struct Library {
    pub(crate) folder: PathBuf,
    pub(crate) include: PathBuf,
}

pub(crate) fn library() -> Library {
    // Cargo puts the library of a dependency into the folder of the test.
    let test = std::env::current_exe().expect("a test has a file");
    let folder = test.parent().expect("in a folder").to_owned();
    assert!(
        folder.join("libopenuvr.so").is_file(),
        "{}",
        folder.display()
    );
    let include = crates().join("capi/include");
    Library { folder, include }
}

pub(crate) fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of `crates/capi/examples` or of the tests, compiled with all warnings and `more`.
pub(crate) fn program(folder: &Folder, source: &str, more: &[&str]) -> PathBuf {
    let library = library();
    let name = Path::new(source).file_stem().expect("a name");
    let program = folder.path().join(name);
    let (compiler, standard) = match Path::new(source).extension().is_some_and(|e| e == "cpp") {
        true => ("c++", "-std=c++11"),
        false => ("cc", "-std=gnu99"),
    };
    let out = Command::new(compiler)
        .args([standard, "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(&library.include)
        .arg(crates().join("capi").join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library.folder)
        .arg(format!("-Wl,-rpath,{}", library.folder.display()))
        .arg("-lopenuvr")
        .args(more)
        .output()
        .expect("build-essential is there");
    let printed = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{source}: {printed}");
    program
}

/// A command that runs the program with its keys in the folder.
pub(crate) fn command(program: &Path, folder: &Folder) -> Command {
    let mut command = Command::new(program);
    command
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        // Cargo's own path also has the parent folder, which may contain an earlier build.
        .env("LD_LIBRARY_PATH", library().folder)
        // The sanitizer does not check for leaks, because the tests with valgrind check all code for leaks.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        // The library is not instrumented, so the sanitizer does not see its threads and locks. It checks
        // only the program's own accesses.
        .env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        // For a new home, the library of PulseAudio would create a folder in /tmp, and leave it there.
        .env("PULSE_RUNTIME_PATH", folder.path());
    command
}
