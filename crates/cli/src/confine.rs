//! `openuvr confine`, which `openuvr session` puts in front of its application: it gives up rights, and starts the
//! application as another account, in a sandbox, or both.
//!
//! ```text
//! openuvr host ─► openuvr confine ─► bwrap ─► application
//!                  │ account, groups   │ namespaces of users, files and processes
//!                  └─ passes signals on ┘
//! ```
//! The sandbox is bubblewrap's (bwrap(1)), a program of its own. It is an allow list: of the files there are the
//! system's, to be read; of what can be written to there are the home and temporary files. What it is not: the network is the
//! machine's, and so is System V shared memory, through which X servers get pictures.

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
use openuvr_runtime::line::{API_SOCKET, SOCKET};
use rustix::fs::Access;
use rustix::process::{Gid, Signal, Uid, geteuid, kill_process, set_parent_process_death_signal};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::descendants;
use crate::session_report::AUTHORITY;

/// The subcommand.
pub(crate) const NAME: &str = "confine";

/// The program that makes sandboxes.
const BWRAP: &str = "bwrap";

/// How soon a signal and the application's end are noticed.
const TURN: Duration = Duration::from_millis(20);

/// Of the system, what is there to be read: programs, libraries, data, settings, and what drivers look at. Those that
/// a machine lacks are left out.
const SYSTEM: [&str; 12] = [
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
    // Where names of machines are asked for.
    "/run/systemd/resolve",
];

/// Folders of it that have secrets, and are empty; those that are not there stay so.
const EMPTIED: [&str; 2] = ["/etc/openuvr", "/etc/ssl/private"];

/// Files of it with secrets, which are empty.
const EMPTY: [&str; 2] = ["/etc/shadow", "/etc/gshadow"];

/// Devices of graphics processors.
const DEVICES: [&str; 6] = [
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/nvidia-modeset",
    "/dev/nvidia-uvm",
];

/// Variables that are of no use there, or say what is none of the application's affair.
const REMOVED: [&str; 6] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "OPENUVR_PORTAL_DATABASE",
    "OPENUVR_PORTAL_PASSWORD_FILE",
    "SSH_AUTH_SOCK",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// The account's copy of the cookie of the session's display, in the folder for temporary files.
const COPIED_AUTHORITY: &str = ".openuvr-xauthority";

/// Start an application with fewer rights: what openuvr session puts in front of its application
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The account, by its name
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// In a sandbox of bubblewrap
    #[arg(long)]
    sandbox: bool,
    /// A folder that is /tmp there
    #[arg(long, value_name = "FOLDER")]
    temporary: PathBuf,
    /// A file or folder that can be read there
    #[arg(long, value_name = "PATH")]
    readable: Vec<PathBuf>,
    /// A folder that can be written to there
    #[arg(long, value_name = "FOLDER")]
    writable: Vec<PathBuf>,
    /// The program to start, with its arguments
    #[arg(value_name = "APP", required = true, last = true)]
    words: Vec<OsString>,
}

/// What is to be confined, and how.
pub(crate) struct Confinement<'a> {
    /// The account.
    pub(crate) user: Option<&'a str>,
    /// Whether in a sandbox.
    pub(crate) sandbox: bool,
    /// The folder for temporary files.
    pub(crate) temporary: &'a Path,
    /// What can be read besides the system's.
    pub(crate) readable: &'a [PathBuf],
    /// What can be written to besides the home.
    pub(crate) writable: &'a [PathBuf],
}

impl Confinement<'_> {
    /// The words that start `words` so.
    ///
    /// # Errors
    /// This program has no file any more.
    pub(crate) fn words(&self, words: &[OsString]) -> Result<Vec<OsString>> {
        if self.user.is_none() && !self.sandbox {
            return Ok(words.to_vec());
        }
        let valued = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let program = std::env::current_exe().context("this program has no file")?;
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

    /// Whether it can be done on this machine.
    ///
    /// # Errors
    /// One line: what is missing.
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
        let tried = tried
            .context("a sandbox needs bubblewrap: install it, as with apt install bubblewrap")?;
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr);
            let why = why.lines().next().unwrap_or("it failed").to_owned();
            bail!(
                "this machine allows no sandbox ({why}): user namespaces may be forbidden (sysctl \
                 kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), \
                 or a container forbids them"
            );
        }
        Ok(())
    }
}

/// The program that words start, also if they confine it.
pub(crate) fn program_of(words: &[OsString]) -> Option<&OsStr> {
    let confined = words.get(1).is_some_and(|word| word == NAME);
    let at = match confined {
        true => words.iter().position(|word| word == "--")? + 1,
        false => 0,
    };
    words.get(at).map(OsString::as_os_str)
}

/// Gives up what is to be given up, and runs the application until its end.
///
/// # Errors
/// One line: what can't be given up, or started.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let account = args.user.as_deref().map(Account::find).transpose()?;
    // That of the session's display, which lies beside the folder for temporary files; any other is not for it.
    let authority = args.temporary.with_file_name(AUTHORITY);
    let mut authority = Some(authority).filter(|file| file.is_file());
    let cookie = (account.as_ref().and(authority.as_deref()))
        .map(|file| fs::read(file).with_context(|| format!("can't read {}", file.display())));
    let cookie = cookie.transpose()?;
    let [program, arguments @ ..] = &args.words[..] else {
        bail!("there is no application to start");
    };
    // Before it is looked at what is there: the account may see less.
    if let Some(account) = &account {
        account.become_it()?;
    }
    if let Some(cookie) = cookie {
        authority = Some(own_copy(&cookie, &args.temporary)?);
    }
    if !args.sandbox {
        let mut command = Command::new(program);
        command.args(arguments);
        surround(&mut command, authority.as_deref());
        // It never comes back, unless the program can't be started.
        let why = command.exec();
        return Err(why).with_context(|| format!("can't start {}", Path::new(program).display()));
    }
    let missing = args.readable.iter().find(|path| !path.exists());
    if let Some(path) = missing {
        bail!(
            "--readable {}: it is not there, or is not to be read",
            path.display()
        );
    }
    let mut command = sandboxed(args, authority.as_deref());
    surround(&mut command, authority.as_deref());
    supervise(command)
}

/// The environment of the application: nothing that is secret, and the cookie of its display.
fn surround(command: &mut Command, authority: Option<&Path>) {
    for variable in REMOVED {
        command.env_remove(variable);
    }
    if let Some(authority) = authority {
        command.env("XAUTHORITY", authority);
    }
}

/// Writes the cookie for the account that this process has become: only root can read the session's own file.
fn own_copy(cookie: &[u8], temporary: &Path) -> Result<PathBuf> {
    let file = temporary.join(COPIED_AUTHORITY);
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&file);
    opened
        .and_then(|mut opened| opened.write_all(cookie))
        .with_context(|| format!("can't write {}", file.display()))?;
    Ok(file)
}

/// Runs the sandbox. Signals are for what is in it: bubblewrap itself would end at once, and all in it with it.
fn supervise(mut command: Command) -> Result<ExitCode> {
    let stop = openuvr_terminal::signals::stop_in_order()?;
    command.process_group(0);
    let missing = "the sandbox needs bubblewrap: install it, as with apt install bubblewrap";
    let mut child = command.spawn().context(missing)?;
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ExitCode::from(code_of(status)));
        }
        if !asked && stop.load(Ordering::Relaxed) {
            asked = true;
            for pid in descendants::running() {
                let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
                if name.is_ok_and(|name| name.trim() != BWRAP) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
        std::thread::sleep(TURN);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| signal + 128));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The command of bubblewrap.
fn sandboxed(args: &Args, authority: Option<&Path>) -> Command {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut command = Command::new(BWRAP);
    command
        .args(["--unshare-user", "--unshare-pid", "--unshare-uts"])
        .args(["--unshare-cgroup-try", "--cap-drop", "ALL"])
        // Whatever becomes of this process, nothing goes on.
        .arg("--die-with-parent");
    for path in SYSTEM {
        command.args(["--ro-bind-try", path, path]);
    }
    for folder in EMPTIED.iter().filter(|path| Path::new(path).is_dir()) {
        command.args(["--tmpfs", folder]);
    }
    for file in EMPTY.iter().filter(|path| Path::new(path).is_file()) {
        command.args(["--ro-bind", "/dev/null", file]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    for device in DEVICES {
        command.args(["--dev-bind-try", device, device]);
    }
    // What counts as the session's disk, not a file system in memory.
    command.arg("--bind").arg(&args.temporary).arg("/tmp");
    command.args(["--setenv", "TMPDIR", "/tmp"]);
    // Of what is not there for this account, nothing: bubblewrap itself passes over a name that is missing, but not
    // over one that it may not look for.
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

/// What of ours an application has in it, and where it looks.
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
    // ld.so(8): blanks and colons separate them.
    let preloaded = set("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.to_string_lossy().into_owned();
    let libraries = preloaded.split([' ', ':']).filter(|of| of.starts_with('/'));
    paths.extend(libraries.map(PathBuf::from));
    paths.extend(set("PULSE_COOKIE").map(PathBuf::from));
    paths
}

/// Where it is shown, heard, and told what to do.
fn sockets(set: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let display = set("DISPLAY").unwrap_or_default();
    let display = display.to_string_lossy().into_owned();
    let number = display
        .strip_prefix(':')
        .and_then(|of| of.split('.').next());
    // Of other sessions' displays there is nothing.
    paths.extend(number.map(|number| PathBuf::from(format!("/tmp/.X11-unix/X{number}"))));
    let server = set("PULSE_SERVER").unwrap_or_default();
    let server = server.to_string_lossy().into_owned();
    match server.strip_prefix("unix:") {
        Some(path) => paths.push(path.into()),
        None => paths.extend(set("XDG_RUNTIME_DIR").map(|of| Path::new(&of).join("pulse"))),
    }
    for socket in [SOCKET, API_SOCKET] {
        // Its folder has what is told by files, too.
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
    /// Looks it up by id(1), which asks whatever the machine asks.
    ///
    /// # Errors
    /// One line: there is none, it is root, or this process may not become another.
    pub(crate) fn find(name: &str) -> Result<Account> {
        if !geteuid().is_root() {
            bail!(
                "--application-user {name}: only root may start an application as another account"
            );
        }
        let numbers = |option: &str| -> Result<Vec<u32>> {
            let said = Command::new("id").args([option, "--", name]).output()?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let numbers = said.split_whitespace().map(str::parse);
            Ok(numbers.collect::<Result<_, _>>()?)
        };
        let one = |option: &str| -> Result<u32> {
            let found = numbers(option)?.first().copied();
            found.with_context(|| format!("there is no account {name:?} on this machine"))
        };
        let (uid, gid, groups) = (one("-u")?, one("-g")?, numbers("-G")?);
        if uid == 0 {
            bail!("--application-user {name} is root, who may do anything: make an account for it");
        }
        Ok(Account {
            name: name.to_owned(),
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: groups.into_iter().map(Gid::from_raw).collect(),
        })
    }

    /// Makes these folders its own, and lets it through to them where that is this program's to decide.
    ///
    /// # Errors
    /// One line: they can't be given away.
    pub(crate) fn give(&self, folders: &[&Path]) -> Result<()> {
        for folder in folders {
            rustix::fs::chown(*folder, Some(self.uid), Some(self.gid))
                .with_context(|| format!("can't give {} to {}", folder.display(), self.name))?;
        }
        Ok(())
    }

    /// Becomes it, for good. The calls are of this thread alone, which starts the application; others of this
    /// process do nothing but write its messages.
    fn become_it(&self) -> Result<()> {
        let failed = || format!("can't become {}", self.name);
        set_thread_groups(&self.groups).with_context(failed)?;
        set_thread_res_gid(self.gid, self.gid, self.gid).with_context(failed)?;
        set_thread_res_uid(self.uid, self.uid, self.uid).with_context(failed)?;
        // The kernel has forgotten it with the change (prctl(2), PR_SET_PDEATHSIG).
        set_parent_process_death_signal(Some(Signal::TERM)).with_context(failed)?;
        // No program that it starts gives it more, as one with the bit set-user-id would.
        set_no_new_privs(true).with_context(failed)?;
        let home = std::env::var_os("HOME").unwrap_or_default();
        let home = Path::new(&home);
        rustix::fs::access(home, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
            format!(
                "the account {} can't get at its home {}: let it through the folders above (chmod o+x)",
                self.name,
                home.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_program_is_known_through_its_confinement() {
        let plain = words(&["sh", "-c", "confine"]);
        assert_eq!(program_of(&plain), Some("sh".as_ref()));
        let confinement = Confinement {
            user: None,
            sandbox: true,
            temporary: Path::new("/t"),
            readable: &[PathBuf::from("/r")],
            writable: &[],
        };
        let confined = confinement.words(&plain).unwrap();
        assert_eq!(program_of(&confined), Some("sh".as_ref()));
        assert!(confined.contains(&"--readable=/r".into()));
        assert_eq!(program_of(&words(&["openuvr", "confine"])), None);
    }

    #[test]
    fn only_its_own_sockets_are_there() {
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
