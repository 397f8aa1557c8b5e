//! `make install` of the C library into any folders, without cargo, and `make uninstall`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{crates, library};
use crate::support::{Folder, skip};

/// The output of a command, which must succeed.
fn output_of(command: &mut Command) -> String {
    let out = command.output().expect("an installed program");
    let (text, errors) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{command:?}: {text}{errors}");
    text.into_owned()
}

/// Runs `make` on the files of this test's build. Only the system's programs are on the search path.
fn make(what: &str, variables: &[(&str, &Path)]) {
    let mut make = Command::new("make");
    make.arg("-C").arg(crates().join("capi")).arg(what);
    make.env_clear().env("PATH", "/usr/bin:/bin");
    for (name, folder) in variables {
        make.arg(format!("{name}={}", folder.display()));
    }
    make.arg(format!("BUILT={}", library().folder.display()));
    output_of(&mut make);
}

/// Files and links below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("readable").path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|out| out.status.success())
}

#[test]
fn the_library_is_installed_for_programs_in_c() {
    let folder = Folder::new();
    let prefix = folder.path().join("prefix");
    let libraries = prefix.join("lib/here");
    let places = [("PREFIX", &*prefix), ("LIBDIR", &*libraries)];
    make("install", &places);

    let installed = libraries.join("libopenuvr.so");
    let dynamic = output_of(Command::new("readelf").arg("-dW").arg(&installed));
    assert!(dynamic.contains("soname: [libopenuvr.so.0]"), "{dynamic}");
    let symbols = output_of(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&installed),
    );
    let ours = symbols.lines().filter(|line| line.contains(" T "));
    let ours: Vec<&str> = ours.collect();
    assert!(ours.len() > 40, "{symbols}");
    let versioned = |line: &&str| line.contains("openuvr_") && line.ends_with("@@OPENUVR_0");
    assert!(ours.iter().all(versioned), "{symbols}");
    let sections = output_of(Command::new("readelf").arg("-SW").arg(&installed));
    assert!(
        !sections.contains(".symtab") && !sections.contains(".debug"),
        "{sections}"
    );
    let page = std::fs::read_to_string(prefix.join("share/man/man3/openuvr_frame_ready.3"));
    assert!(page.expect("a page").contains("int openuvr_frame_ready("));

    let flags = output_of(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "openuvr"])
            .env("PKG_CONFIG_PATH", libraries.join("pkgconfig")),
    );
    let program = folder.path().join("plain");
    output_of(
        Command::new("cc")
            .arg(crates().join("capi/examples/plain.c"))
            .args(flags.split_whitespace())
            .arg("-o")
            .arg(&program),
    );
    let loaded = output_of(
        Command::new("ldd")
            .arg(&program)
            .env("LD_LIBRARY_PATH", &libraries),
    );
    let path = libraries.join("libopenuvr.so.0");
    assert!(loaded.contains(&*path.to_string_lossy()), "{loaded}");
    with_cmake(&folder, &libraries);

    make("uninstall", &places);
    assert_eq!(files(&prefix), Vec::<PathBuf>::new());
}

/// CMake finds the installed package and builds a project with it. If a project requires another interface version,
/// CMake does not find the package.
fn with_cmake(folder: &Folder, libraries: &Path) {
    if !is_installed("cmake") {
        skip("cmake is not installed: apt-get install cmake");
        return;
    }
    let project = folder.path().join("project");
    std::fs::create_dir(&project).expect("a new folder");
    let source = crates().join("capi/examples/plain.c");
    let source = source.canonicalize().expect("the example");
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(mine C)\nfind_package(openuvr 0.1 REQUIRED)\n\
         find_package(openuvr 1.0 QUIET)\nif(openuvr_FOUND)\nmessage(FATAL_ERROR newer)\nendif()\n\
         add_executable(mine {})\ntarget_link_libraries(mine openuvr::openuvr)\n",
        source.display()
    );
    std::fs::write(project.join("CMakeLists.txt"), text).expect("a new file");
    let built = project.join("built");
    output_of(
        Command::new("cmake")
            .args([
                "-S",
                &project.to_string_lossy(),
                "-B",
                &built.to_string_lossy(),
            ])
            .arg(format!("-DCMAKE_PREFIX_PATH={}", libraries.display()))
            .arg(format!(
                "-Dopenuvr_DIR={}/cmake/openuvr",
                libraries.display()
            )),
    );
    output_of(Command::new("cmake").arg("--build").arg(&built));
}

#[test]
fn destdir_installs_have_the_final_paths() {
    let folder = Folder::new();
    let (staged, prefix) = (folder.path().join("staged"), Path::new("/opt/openuvr"));
    make("install", &[("DESTDIR", &staged), ("PREFIX", prefix)]);
    let own = staged.join("opt/openuvr");
    let installed = files(&staged);
    assert!(
        installed.iter().all(|file| file.starts_with(&own)),
        "{installed:?}"
    );
    for file in [
        "lib/pkgconfig/openuvr.pc",
        "lib/cmake/openuvr/openuvr-config.cmake",
    ] {
        let text = std::fs::read_to_string(own.join(file)).expect(file);
        assert!(text.contains("/opt/openuvr/lib"), "{text}");
        assert!(!text.contains("staged") && !text.contains('@'), "{text}");
    }
    make("uninstall", &[("DESTDIR", &staged), ("PREFIX", prefix)]);
    assert_eq!(files(&staged), Vec::<PathBuf>::new());
}
