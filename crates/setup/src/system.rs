//! The system that is changed: its files, and the programs that run on it.
//!
//! In tests, the files are below a temporary folder, and a script replaces the programs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_terminal::one_line::visible;

/// Programs and the Debian packages that contain them.
const PACKAGES: &[(&str, &str)] = &[
    ("getcap", "libcap2-bin"),
    ("getent", "libc-bin"),
    ("gpasswd", "passwd"),
    ("groupadd", "passwd"),
    ("groupdel", "passwd"),
    ("modprobe", "kmod"),
    ("prlimit", "util-linux"),
    ("runuser", "util-linux"),
    ("setcap", "libcap2-bin"),
    ("udevadm", "udev"),
    ("usermod", "passwd"),
];

/// The folders in which setup searches for programs. `PATH` is not used, because some configurations of sudo pass the
/// `PATH` of the calling user.
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The result of a program.
#[derive(Clone, Default, Debug)]
pub(crate) struct Output {
    /// The exit status; `None` after a signal.
    pub(crate) status: Option<i32>,
    pub(crate) text: String,
    pub(crate) errors: String,
}

/// Runs programs to their end.
pub(crate) trait Runner {
    /// # Errors
    /// Returns `NotFound` if the program is not installed.
    fn run(&self, words: &[&str]) -> io::Result<Output>;
}

/// The programs of this machine.
pub(crate) struct Installed;

impl Runner for Installed {
    fn run(&self, words: &[&str]) -> io::Result<Output> {
        let (name, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        let path = paths.find(|path| path.is_file());
        let mut command = Command::new(path.ok_or(ErrorKind::NotFound)?);
        command.args(arguments).env_clear().env("LC_ALL", "C");
        command.env("PATH", FOLDERS.join(":"));
        // In its own process group, the program does not receive the signal of Ctrl-C, and completes its work.
        command.process_group(0).stdin(Stdio::null());
        let output = command.output()?;
        Ok(Output {
            status: output.status.code(),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// Files and programs.
pub(crate) struct System<'a> {
    root: &'a Path,
    runner: &'a dyn Runner,
    /// Whether this process may change the system.
    pub(crate) is_root: bool,
}

impl<'a> System<'a> {
    pub(crate) fn new(root: &'a Path, runner: &'a dyn Runner, is_root: bool) -> System<'a> {
        System {
            root,
            runner,
            is_root,
        }
    }

    /// The path of a file in this system, given its absolute path.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file; `None` if there is no file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        let path = self.path(path);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// Writes a file atomically. After a crash, or if the disk is full, the path has either its previous state or the
    /// complete new file.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) -> Result<()> {
        let path = self.path(path);
        let new = unfinished(&path);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            // Links are not followed, and the mode does not depend on the umask of the administrator's shell.
            options.mode(0o644).custom_flags(NO_FOLLOW);
            let mut file = options.open(&new)?;
            file.set_permissions(PermissionsExt::from_mode(0o644))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write()
            .inspect_err(|_| drop(fs::remove_file(&new)))
            .with_context(|| {
                format!(
                    "can't write {}; check that its file system is writable and has space",
                    path.display()
                )
            })?;
        // Without this, the new file may be missing after a power loss. An existing file is complete in either case.
        if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Creates a folder, unless it exists.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub(crate) fn make_folder(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = self.path(path);
        match fs::create_dir(&path) {
            // As for files, the mode does not depend on the umask: all users may read the record, and the portal's
            // account must reach its own folder next to the record.
            Ok(()) => fs::set_permissions(&path, PermissionsExt::from_mode(0o755)),
            Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Removes a file, and the rest of an interrupted [`write`](Self::write).
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub(crate) fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = self.path(path);
        let _ = fs::remove_file(unfinished(&path));
        match fs::remove_file(&path) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                Err(why).with_context(|| format!("can't remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Runs a program and returns its standard output.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started or fails. If it fails, the error contains the last line of its
    /// output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.output(words)?;
        if output.status == Some(0) {
            return Ok(output.text);
        }
        let lines = output.text.lines().chain(output.errors.lines());
        let mut lines = lines.map(str::trim);
        let last = lines.rfind(|line| !line.is_empty());
        bail!(
            "`{}` failed: {}",
            words.join(" "),
            visible(last.unwrap_or("it printed no error message"))
        )
    }

    /// Runs a program and returns its exit status; `None` after a signal, or if the program is not installed.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(crate) fn status(&self, words: &[&str]) -> Result<Option<i32>> {
        match self.runner.run(words) {
            Ok(output) => Ok(output.status),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why).with_context(|| format!("can't run {}", words[0])),
        }
    }

    /// Whether a program succeeds. A program that is not installed does not.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(crate) fn succeeds(&self, words: &[&str]) -> Result<bool> {
        Ok(self.status(words)? == Some(0))
    }

    /// Whether a program is installed.
    pub(crate) fn has(&self, program: &str) -> bool {
        let found = self.runner.run(&[program, "--help"]);
        !found.is_err_and(|why| why.kind() == ErrorKind::NotFound)
    }

    fn output(&self, words: &[&str]) -> Result<Output> {
        self.runner.run(words).map_err(|why| match why.kind() {
            ErrorKind::NotFound => missing(words[0]),
            _ => anyhow!("can't run {}: {why}", words[0]),
        })
    }
}

/// `O_NOFOLLOW`.
#[allow(
    clippy::cast_possible_wrap,
    reason = "the kernel's flags fit into 31 bits"
)]
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// The error of a program that is not installed.
fn missing(program: &str) -> anyhow::Error {
    let package = PACKAGES.iter().find(|(name, _)| *name == program);
    match package {
        Some((_, package)) => {
            anyhow!("the program {program} is missing: run apt install {package}")
        }
        None => anyhow!("the program {program} is missing: install its package"),
    }
}

/// The name under which a file is written before it replaces the previous file. No reader of the folders in `/etc`
/// accepts names with this ending.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.openuvr-new"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_stays() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, false);
        fs::create_dir(root.path().join("etc")).unwrap();
        system.write("/etc/a.conf", "one\n").unwrap();
        system.write("/etc/a.conf", "two\n").unwrap();
        assert_eq!(system.read("/etc/a.conf").unwrap().unwrap(), "two\n");
        let mode = system
            .path("/etc/a.conf")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o644);
        // A folder has the name of the unfinished file: writing fails, as on a full disk.
        fs::create_dir(root.path().join("etc/.a.conf.openuvr-new")).unwrap();
        let why = format!("{:#}", system.write("/etc/a.conf", "three\n").unwrap_err());
        assert!(why.starts_with("can't write "), "{why}");
        assert_eq!(system.read("/etc/a.conf").unwrap().unwrap(), "two\n");
        system.remove("/etc/a.conf").unwrap();
        assert_eq!(system.read("/etc/a.conf").unwrap(), None);
        system.remove("/etc/a.conf").unwrap();
    }

    #[test]
    fn files_and_folders_do_not_depend_on_the_umask() {
        let variable = "OPENUVR_TEST_FOLDER";
        let Some(root) = std::env::var_os(variable) else {
            // All threads of a process share the umask, so this test runs itself in another process.
            let root = tempfile::tempdir().unwrap();
            let name = "system::tests::files_and_folders_do_not_depend_on_the_umask";
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"umask 077; exec "$0" "$1" --exact"#]);
            shell.arg(std::env::current_exe().unwrap()).arg(name);
            let output = shell.env(variable, root.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            for (path, mode) in [("new", 0o755), ("new/a.conf", 0o644)] {
                let data = root.path().join(path).metadata().unwrap();
                assert_eq!(data.permissions().mode() & 0o7777, mode, "{path}");
            }
            return;
        };
        let system = System::new(Path::new(&root), &Installed, false);
        system.make_folder("/new").unwrap();
        system.make_folder("/new").unwrap();
        system.write("/new/a.conf", "one\n").unwrap();
    }

    #[test]
    fn a_link_in_place_of_an_unfinished_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, false);
        fs::write(root.path().join("victim"), "keep").unwrap();
        let link = root.path().join(".a.conf.openuvr-new");
        std::os::unix::fs::symlink("victim", link).unwrap();
        assert!(system.write("/a.conf", "x").is_err());
        assert_eq!(system.read("/victim").unwrap().unwrap(), "keep");
    }

    #[test]
    fn a_failing_program_is_quoted_with_its_reason() {
        let system = System::new(Path::new("/"), &Installed, false);
        let why = system
            .run(&["ls", "/nonexistent/x"])
            .unwrap_err()
            .to_string();
        assert!(why.starts_with("`ls /nonexistent/x` failed: "), "{why}");
        assert!(why.contains("No such file"), "{why}");
        let why = system.run(&["openuvr-no-program"]).unwrap_err().to_string();
        assert!(why.contains("is missing"), "{why}");
        assert!(!system.succeeds(&["openuvr-no-program"]).unwrap());
        assert!(!system.has("openuvr-no-program") && system.has("true"));
    }
}
