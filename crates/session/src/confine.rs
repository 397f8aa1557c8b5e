//! `openuvr confine`, which wraps the application of `openuvr session`. It drops privileges, and starts the application
//! under another account, in a sandbox, or both.
//!
//! ```text
//! openuvr host ─► openuvr confine ─► bwrap ─► application
//!                  │ account, groups   │ user, mount and PID namespaces
//!                  └─ forwards signals ┘
//! ```
//! The sandbox is bubblewrap (bwrap(1)), a separate program. It uses allow lists: system files are readable, and the home
//! directory and temporary files are writable. It does not isolate the network or System V shared memory, through which X
//! servers receive pictures.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_runtime::launch_protocol::{API_SOCKET, SOCKET};
use rustix::fs::Access;
use rustix::process::{Gid, Signal, Uid, geteuid, kill_process, set_parent_process_death_signal};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::descendants;
use crate::report::AUTHORITY;

/// The subcommand.
pub const NAME: &str = "confine";

/// The sandbox program.
const BWRAP: &str = "bwrap";

/// The interval at which this process checks for signals and for the application's end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The readable system files: programs, libraries, data, settings, and files for drivers. Missing files are skipped.
const SYSTEM_PATHS: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/sys",
    "/var/cache/fontconfig",
    "/var/games",
    // Name resolution.
    "/run/systemd/resolve",
];

/// Folders among the system files that contain secrets. They are replaced by empty folders if they exist.
const HIDDEN_FOLDERS: [&str; 2] = ["/etc/openuvr", "/etc/ssl/private"];

/// System files that contain secrets. They are replaced by empty files if they exist.
const HIDDEN_FILES: [&str; 2] = ["/etc/shadow", "/etc/gshadow"];

/// GPU devices.
const DEVICES: [&str; 6] = [
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/nvidia-modeset",
    "/dev/nvidia-uvm",
];

/// Variables that are useless in the sandbox, or contain secrets.
const REMOVED_VARIABLES: [&str; 6] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "OPENUVR_PORTAL_DATABASE",
    "OPENUVR_PORTAL_PASSWORD_FILE",
    "SSH_AUTH_SOCK",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// The file with the account's copy of the X authority cookie, in the folder for temporary files.
const COPIED_AUTHORITY: &str = ".openuvr-xauthority";

/// Start an application with fewer privileges (internal; started by openuvr session)
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub struct Args {
    /// Account name
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Use a bubblewrap sandbox
    #[arg(long)]
    sandbox: bool,
    /// Folder to mount as /tmp in the sandbox
    #[arg(long, value_name = "FOLDER")]
    temporary: PathBuf,
    /// File or folder that is readable in the sandbox
    #[arg(long, value_name = "PATH")]
    readable: Vec<PathBuf>,
    /// Folder that is writable in the sandbox
    #[arg(long, value_name = "FOLDER")]
    writable: Vec<PathBuf>,
    /// Program to start, with its arguments
    #[arg(value_name = "APP", required = true, last = true)]
    words: Vec<OsString>,
}

/// The confinement of an application.
pub(crate) struct Confinement<'a> {
    /// The account.
    pub(crate) user: Option<&'a str>,
    /// Whether to use a sandbox.
    pub(crate) sandbox: bool,
    /// The folder for temporary files.
    pub(crate) temporary: &'a Path,
    /// Readable files in addition to system files.
    pub(crate) readable: &'a [PathBuf],
    /// Writable folders in addition to the home directory.
    pub(crate) writable: &'a [PathBuf],
}

impl Confinement<'_> {
    /// The command line that starts `words` in this confinement.
    ///
    /// # Errors
    /// Returns an error if the path of this program's executable cannot be determined.
    pub(crate) fn command_line(&self, words: &[OsString]) -> Result<Vec<OsString>> {
        if self.user.is_none() && !self.sandbox {
            return Ok(words.to_vec());
        }
        let valued = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let program =
            std::env::current_exe().context("can't determine this program's executable")?;
        let mut all = vec![program.into_os_string(), NAME.into()];
        all.extend(self.user.map(|user| valued("user", user.as_ref())));
        all.extend(self.sandbox.then(|| "--sandbox".into()));
        all.push(valued("temporary", self.temporary.as_os_str()));
        let lists = [("readable", self.readable), ("writable", self.writable)];
        for (name, paths) in lists {
            all.extend(paths.iter().map(|path| valued(name, path.as_os_str())));
        }
        all.push("--".into());
        all.extend_from_slice(words);
        Ok(all)
    }

    /// Checks that this machine supports the confinement.
    ///
    /// # Errors
    /// Returns a one-line error if a requirement is missing.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(user) = self.user {
            Account::find(user)?;
        }
        if !self.sandbox {
            return Ok(());
        }
        let tried = Command::new(BWRAP)
            .args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"])
            .args(["--proc", "/proc", "--dev", "/dev", "true"])
            .stdin(Stdio::null())
            .output();
        let tried = tried.context("the sandbox requires bubblewrap (apt install bubblewrap)")?;
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr);
            let why = why.lines().next().unwrap_or("it failed").to_owned();
            bail!(
                "this machine does not allow sandboxes ({why}): user namespaces may be disabled (sysctl \
                 kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), \
                 or forbidden in this container"
            );
        }
        Ok(())
    }
}

/// The program that a command line starts. A confinement in front of the program is skipped.
pub(crate) fn program_of(words: &[OsString]) -> Option<&OsStr> {
    let confined = words.get(1).is_some_and(|word| word == NAME);
    let at = match confined {
        true => words.iter().position(|word| word == "--")? + 1,
        false => 0,
    };
    words.get(at).map(OsString::as_os_str)
}

/// Drops the privileges, and runs the application until its end.
///
/// # Errors
/// Returns a one-line error if privileges cannot be dropped or the application cannot be started.
pub fn run(args: &Args) -> Result<ExitCode> {
    let account = args.user.as_deref().map(Account::find).transpose()?;
    // The cookie file of the session's display is next to the folder for temporary files. No other cookie is passed on.
    let authority = args.temporary.with_file_name(AUTHORITY);
    let mut authority = Some(authority).filter(|file| file.is_file());
    let wayland = own_wayland(&args.temporary);
    let cookie = (account.as_ref().and(authority.as_deref()))
        .map(|file| fs::read(file).with_context(|| format!("can't read {}", file.display())));
    let cookie = cookie.transpose()?;
    let [program, arguments @ ..] = &args.words[..] else {
        bail!("no application given");
    };
    // The switch precedes the check of paths, because the account may have less access.
    if let Some(account) = &account {
        account.switch_to()?;
    }
    if let Some(cookie) = cookie {
        authority = Some(copy_cookie(&cookie, &args.temporary)?);
    }
    if !args.sandbox {
        let mut command = Command::new(program);
        command.args(arguments);
        set_environment(&mut command, authority.as_deref(), wayland.as_deref());
        // `exec` returns only if the program can't be started.
        let why = command.exec();
        return Err(why).with_context(|| format!("can't start {}", Path::new(program).display()));
    }
    let missing = args.readable.iter().find(|path| !path.exists());
    if let Some(path) = missing {
        bail!("--readable {}: missing or not accessible", path.display());
    }
    let mut command = sandboxed(args, authority.as_deref(), wayland.as_deref());
    set_environment(&mut command, authority.as_deref(), wayland.as_deref());
    supervise(command)
}

/// Removes secrets from the application's environment, and adds the cookie file and the Wayland socket of its display.
fn set_environment(command: &mut Command, authority: Option<&Path>, wayland: Option<&Path>) {
    for variable in REMOVED_VARIABLES {
        command.env_remove(variable);
    }
    if let Some(authority) = authority {
        command.env("XAUTHORITY", authority);
    }
    if let Some(socket) = wayland {
        command.env("WAYLAND_DISPLAY", socket);
    }
}

/// The socket of the Wayland display, if it is the session's own: the socket's folder is then next to the folder for
/// temporary files.
fn own_wayland(temporary: &Path) -> Option<PathBuf> {
    let socket = PathBuf::from(std::env::var_os("WAYLAND_DISPLAY")?);
    (socket.parent()?.parent() == temporary.parent()).then_some(socket)
}

/// Writes a copy of the cookie for the account of this process, because only root can read the session's cookie file.
fn copy_cookie(cookie: &[u8], temporary: &Path) -> Result<PathBuf> {
    let file = temporary.join(COPIED_AUTHORITY);
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&file);
    opened
        .and_then(|mut opened| opened.write_all(cookie))
        .with_context(|| format!("can't write {}", file.display()))?;
    Ok(file)
}

/// Runs the sandbox. When this process is asked to end, it sends SIGTERM to the processes in the sandbox. A signal to
/// bubblewrap itself would end bubblewrap and all these processes at once.
fn supervise(mut command: Command) -> Result<ExitCode> {
    let stop = openuvr_terminal::signals::stop_gracefully_on_signals()?;
    command.process_group(0);
    let missing = "the sandbox requires bubblewrap (apt install bubblewrap)";
    let mut child = command.spawn().context(missing)?;
    let mut forwarded = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ExitCode::from(code_of(status)));
        }
        if !forwarded && stop.load(Ordering::Relaxed) {
            forwarded = true;
            for pid in descendants::running() {
                let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
                if name.is_ok_and(|name| name.trim() != BWRAP) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| signal + 128));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The bubblewrap command.
fn sandboxed(args: &Args, authority: Option<&Path>, wayland: Option<&Path>) -> Command {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut command = Command::new(BWRAP);
    command
        .args(["--unshare-user", "--unshare-pid", "--unshare-uts"])
        .args(["--unshare-cgroup-try", "--cap-drop", "ALL"])
        // No process may outlive this process.
        .arg("--die-with-parent");
    for path in SYSTEM_PATHS {
        command.args(["--ro-bind-try", path, path]);
    }
    for folder in HIDDEN_FOLDERS
        .iter()
        .filter(|path| Path::new(path).is_dir())
    {
        command.args(["--tmpfs", folder]);
    }
    for file in HIDDEN_FILES.iter().filter(|path| Path::new(path).is_file()) {
        command.args(["--ro-bind", "/dev/null", file]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    for device in DEVICES {
        command.args(["--dev-bind-try", device, device]);
    }
    // `/tmp` is a folder on the disk instead of a tmpfs, so that it counts against the session's disk limit.
    command.arg("--bind").arg(&args.temporary).arg("/tmp");
    command.args(["--setenv", "TMPDIR", "/tmp"]);
    // Paths that this account cannot access are skipped here. bubblewrap would skip only missing paths, and would fail
    // without permission.
    let mut bind = |how: &str, path: &Path| {
        if path.exists() {
            command.arg(how).arg(path).arg(path);
        }
    };
    let home = set("HOME").map(PathBuf::from);
    if let Some(home) = &home {
        bind("--bind", home);
    }
    for path in readable(&set).iter().chain(&args.readable) {
        bind("--ro-bind", path);
    }
    if let Some(authority) = authority {
        bind("--ro-bind", authority);
    }
    if let Some(socket) = wayland {
        bind("--ro-bind", socket);
    }
    for path in &args.writable {
        bind("--bind", path);
    }
    for path in sockets(&set) {
        bind("--bind", &path);
    }
    if let Some(home) = &home {
        command.arg("--chdir").arg(home);
    }
    command.arg("--").args(&args.words);
    command
}

/// The folders of OpenUVR's files, the preloaded libraries, and the cookie of the sound server.
fn readable(set: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(folder) = std::env::current_exe()
        .ok()
        .as_deref()
        .and_then(Path::parent)
    {
        paths.push(folder.to_owned());
        paths.extend(folder.join("../lib/openuvr").canonicalize().ok());
    }
    // ld.so(8): the entries are separated by spaces or colons.
    let preloaded = set("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.to_string_lossy().into_owned();
    let libraries = preloaded.split([' ', ':']).filter(|of| of.starts_with('/'));
    paths.extend(libraries.map(PathBuf::from));
    paths.extend(set("PULSE_COOKIE").map(PathBuf::from));
    paths
}

/// The sockets of the application's display, sound server and control connection.
fn sockets(set: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let display = set("DISPLAY").unwrap_or_default();
    let display = display.to_string_lossy().into_owned();
    let number = display
        .strip_prefix(':')
        .and_then(|of| of.split('.').next());
    // Only the socket of the application's own display is made accessible, not the sockets of other displays.
    paths.extend(number.map(|number| PathBuf::from(format!("/tmp/.X11-unix/X{number}"))));
    let server = set("PULSE_SERVER").unwrap_or_default();
    let server = server.to_string_lossy().into_owned();
    match server.strip_prefix("unix:") {
        Some(path) => paths.push(path.into()),
        None => paths.extend(set("XDG_RUNTIME_DIR").map(|of| Path::new(&of).join("pulse"))),
    }
    for socket in [SOCKET, API_SOCKET] {
        // The socket's whole folder is made accessible, because it also contains control files.
        let folder = set(socket).and_then(|of| Some(Path::new(&of).parent()?.to_owned()));
        paths.extend(folder);
    }
    paths
}

/// An account of this machine.
pub(crate) struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Account {
    /// Looks up the account with id(1), which uses all name services of the machine.
    ///
    /// # Errors
    /// Returns a one-line error if there is no such account, if it is root, or if this process may not switch accounts.
    pub(crate) fn find(name: &str) -> Result<Account> {
        if !geteuid().is_root() {
            bail!(
                "--application-user {name}: only root can start an application as another account"
            );
        }
        let numbers = |option: &str| -> Result<Vec<u32>> {
            let output = Command::new("id").args([option, "--", name]).output()?;
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let numbers = output.split_whitespace().map(str::parse);
            Ok(numbers.collect::<Result<_, _>>()?)
        };
        let one = |option: &str| -> Result<u32> {
            let found = numbers(option)?.first().copied();
            found.with_context(|| format!("no account {name:?} on this machine"))
        };
        let (uid, gid, groups) = (one("-u")?, one("-g")?, numbers("-G")?);
        if uid == 0 {
            bail!("--application-user {name} is root: create an unprivileged account");
        }
        Ok(Account {
            name: name.to_owned(),
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: groups.into_iter().map(Gid::from_raw).collect(),
        })
    }

    /// Changes the owner of these folders to the account.
    ///
    /// # Errors
    /// Returns a one-line error if the owner cannot be changed.
    pub(crate) fn change_owner(&self, folders: &[&Path]) -> Result<()> {
        for folder in folders {
            rustix::fs::chown(*folder, Some(self.uid), Some(self.gid)).with_context(|| {
                format!(
                    "can't change the owner of {} to {}",
                    folder.display(),
                    self.name
                )
            })?;
        }
        Ok(())
    }

    /// Switches to the account permanently. The calls apply only to this thread, which starts the application. The
    /// other threads of this process only write its messages.
    fn switch_to(&self) -> Result<()> {
        let failed = || format!("can't switch to the account {}", self.name);
        set_thread_groups(&self.groups).with_context(failed)?;
        set_thread_res_gid(self.gid, self.gid, self.gid).with_context(failed)?;
        set_thread_res_uid(self.uid, self.uid, self.uid).with_context(failed)?;
        // The kernel clears this setting when the account changes (prctl(2), PR_SET_PDEATHSIG), so it is set again.
        set_parent_process_death_signal(Some(Signal::TERM)).with_context(failed)?;
        // Programs that this thread starts gain no privileges, not even set-user-ID programs.
        set_no_new_privs(true).with_context(failed)?;
        let home = std::env::var_os("HOME").unwrap_or_default();
        let home = Path::new(&home);
        rustix::fs::access(home, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
            format!(
                "the account {} has no access to its home {}: allow it to traverse the parent folders (chmod o+x)",
                self.name,
                home.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_program_is_found_through_its_confinement() {
        let plain = command_line(&["sh", "-c", "confine"]);
        assert_eq!(program_of(&plain), Some("sh".as_ref()));
        let confinement = Confinement {
            user: None,
            sandbox: true,
            temporary: Path::new("/t"),
            readable: &[PathBuf::from("/r")],
            writable: &[],
        };
        let confined = confinement.command_line(&plain).unwrap();
        assert_eq!(program_of(&confined), Some("sh".as_ref()));
        assert!(confined.contains(&"--readable=/r".into()));
        assert_eq!(program_of(&command_line(&["openuvr", "confine"])), None);
    }

    #[test]
    fn only_its_own_sockets_are_accessible() {
        let set = |name: &str| match name {
            "DISPLAY" => Some(":12.0".into()),
            "PULSE_SERVER" => Some("unix:/p/native".into()),
            SOCKET => Some("/run/o/socket".into()),
            _ => None,
        };
        let expected = ["/tmp/.X11-unix/X12", "/p/native", "/run/o"];
        assert_eq!(sockets(&set), expected.map(PathBuf::from));
    }
}
