//! A machine in a temporary folder: its files, and the programs that setup runs, with their effects.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::system::{Output, Runner, System};

pub(super) const PROGRAM: &str = "/usr/bin/openuvr";

/// A fault that a test injects at a command that changes the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// This process is killed before the command has an effect.
    KilledBefore,
    /// This process is killed after the command has had its effect.
    KilledAfter,
    /// This command and all later ones fail.
    Fails,
}

/// The part of the machine's state that is not in files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// The members of each group.
    pub(super) groups: BTreeMap<String, BTreeSet<String>>,
    pub(super) capabilities: String,
    /// Entries of firewalld, such as `runtime service=mdns` or `permanent port=4710/udp`; `None` if firewalld is not
    /// running.
    pub(super) firewalld: Option<BTreeSet<String>>,
    /// The services that firewalld knows.
    pub(super) services: &'static str,
    /// The lines of `ufw show added`; `None` if ufw is not installed.
    pub(super) ufw: Option<BTreeSet<String>>,
}

pub(super) struct Machine {
    folder: TempDir,
    pub(super) state: RefCell<State>,
    /// The commands that have changed the machine.
    pub(super) commands: RefCell<Vec<String>>,
    pub(super) fault: Cell<Option<(usize, Fault)>>,
}

impl Machine {
    /// A machine with udev and a kernel with uinput, and with small limits.
    pub(super) fn bare() -> Machine {
        let machine = Machine {
            folder: tempfile::tempdir().unwrap(),
            state: RefCell::default(),
            commands: RefCell::default(),
            fault: Cell::new(None),
        };
        for (path, text) in [
            ("/run/udev/control", ""),
            ("/etc/udev/rules.d/README", "rules"),
            ("/etc/security/limits.d/README", "limits"),
            ("/proc/sys/net/core/rmem_max", "212992\n"),
            ("/proc/sys/net/core/wmem_max", "212992\n"),
            ("/usr/bin/openuvr", ""),
            ("/var/lib/README", ""),
            ("/sys/class/misc/README", ""),
            ("/dev/uinput", ""),
        ] {
            machine.put(path, text);
        }
        machine.set_mode("/dev/uinput", 0o600);
        machine
    }

    pub(super) fn system(&self) -> System<'_> {
        System::new(self.folder.path(), self, true)
    }

    pub(super) fn unprivileged(&self) -> System<'_> {
        System::new(self.folder.path(), self, false)
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o777
    }

    /// All files and folders, with their modes and texts, and the other state.
    pub(super) fn snapshot(&self) -> (BTreeMap<PathBuf, (u32, String)>, State) {
        let mut all = BTreeMap::new();
        add(self.folder.path(), &mut all);
        (all, self.state.borrow().clone())
    }

    /// Simulates a command that changes the machine, and the fault that is set for it, if any.
    fn change(&self, words: &[&str], effect: impl FnOnce(&mut State)) -> io::Result<Output> {
        let number = self.commands.borrow().len();
        let due = self.fault.get().filter(|(at, _)| number >= *at);
        let killed = "killed";
        match due.map(|(_, fault)| fault) {
            Some(Fault::Fails) => {
                return Ok(Output {
                    status: Some(1),
                    text: String::new(),
                    errors: "a fault of the test\n".to_owned(),
                });
            }
            Some(Fault::KilledBefore) => std::panic::resume_unwind(Box::new(killed)),
            Some(Fault::KilledAfter) | None => {}
        }
        self.commands.borrow_mut().push(words.join(" "));
        effect(&mut self.state.borrow_mut());
        if due.is_some() {
            std::panic::resume_unwind(Box::new(killed));
        }
        yes()
    }

    fn is_member(&self, user: &str) -> bool {
        let state = self.state.borrow();
        state
            .groups
            .get("openuvr")
            .is_some_and(|group| group.contains(user))
    }

    /// Simulates a command that this user runs.
    fn as_user(&self, user: &str, words: &[&str]) -> io::Result<Output> {
        match words {
            ["prlimit", ..] => {
                let limits = self.text("/etc/security/limits.d/60-openuvr.conf");
                let granted = limits.is_some_and(|text| text.contains("@openuvr - rtprio 49"));
                prints(match granted && self.is_member(user) {
                    true => "RTPRIO 49\nMEMLOCK unlimited\n",
                    false => "RTPRIO 0\nMEMLOCK 8388608\n",
                })
            }
            ["test", "-w", "/dev/uinput"] => {
                answer(self.is_member(user) && self.mode("/dev/uinput") == 0o660)
            }
            _ => panic!("unknown command {words:?}"),
        }
    }

    fn firewalld(&self, words: &[&str]) -> io::Result<Output> {
        let state = self.state.borrow().clone();
        let Some(entries) = state.firewalld else {
            return Ok(Output {
                status: Some(252),
                ..Output::default()
            });
        };
        let (kind, rest) = match words {
            ["--permanent", rest @ ..] => ("permanent", rest),
            rest => ("runtime", rest),
        };
        match rest {
            ["--state"] => yes(),
            ["--get-default-zone"] => prints("public\n"),
            ["--get-services"] => prints(state.services),
            ["--zone=public", verb] => {
                let (verb, entry) = verb.trim_start_matches('-').split_once('-').unwrap();
                let entry = format!("{kind} {entry}");
                let set = |effect: fn(&mut BTreeSet<String>, String)| {
                    let words = [&["firewall-cmd"][..], words].concat();
                    self.change(&words, |state| {
                        effect(state.firewalld.as_mut().unwrap(), entry.clone());
                    })
                };
                match verb {
                    "query" => answer(entries.contains(&entry)),
                    "add" => set(|entries, entry| assert!(entries.insert(entry))),
                    _ => set(|entries, entry| assert!(entries.remove(&entry))),
                }
            }
            _ => panic!("unknown command firewall-cmd {words:?}"),
        }
    }
}

impl Runner for Machine {
    fn run(&self, words: &[&str]) -> io::Result<Output> {
        match words {
            ["id", "-un"] => prints("ada\n"),
            ["id", "-un", "1000"] => prints("ada\n"),
            ["id", "-un", user] => prints(&format!("{user}\n")),
            ["id", "-u", user] => answer(["ada", "bob", "root", "1000"].contains(user)),
            ["runuser", "-u", user, "--", rest @ ..] => self.as_user(user, rest),
            ["prlimit" | "test", ..] => self.as_user("ada", words),
            ["getent", "group", name] => match self.state.borrow().groups.get(*name) {
                None => answer(false),
                Some(members) => {
                    let members: Vec<&str> = members.iter().map(String::as_str).collect();
                    let id = rustix::process::getegid().as_raw();
                    prints(&format!("{name}:x:{id}:{}\n", members.join(",")))
                }
            },
            ["groupadd", "--system", name] => self.change(words, |state| {
                let before = state.groups.insert((*name).to_owned(), BTreeSet::new());
                assert_eq!(before, None);
            }),
            ["groupdel", name] => self.change(words, |state| {
                assert!(state.groups.remove(*name).is_some());
            }),
            ["usermod", "--append", "--groups", group, user] => self.change(words, |state| {
                state
                    .groups
                    .get_mut(*group)
                    .unwrap()
                    .insert((*user).to_owned());
            }),
            ["gpasswd", "--delete", user, group] => self.change(words, |state| {
                assert!(state.groups.get_mut(*group).unwrap().remove(*user));
            }),
            ["modprobe", "--dry-run", _] => yes(),
            ["modprobe", "--remove", _] => self.change(words, |_| {
                fs::remove_dir(self.path("/sys/module/uinput")).unwrap();
                fs::remove_dir(self.path("/sys/module")).unwrap();
                fs::remove_dir(self.path("/sys/class/misc/uinput")).unwrap();
            }),
            ["modprobe", name] => self.change(words, |_| {
                fs::create_dir_all(self.path("/sys/module").join(name)).unwrap();
                fs::create_dir_all(self.path("/sys/class/misc").join(name)).unwrap();
            }),
            ["udevadm", "control", "--reload"] => self.change(words, |_| ()),
            ["getcap", program] => match &*self.state.borrow().capabilities {
                "" => prints(""),
                text => prints(&format!("{program} {text}\n")),
            },
            ["setcap", "-r", PROGRAM] => self.change(words, |state| state.capabilities.clear()),
            ["setcap", text, PROGRAM] => self.change(words, |state| {
                (*text).clone_into(&mut state.capabilities);
            }),
            ["firewall-cmd", rest @ ..] => self.firewalld(rest),
            ["ufw", ..] if self.state.borrow().ufw.is_none() => Err(ErrorKind::NotFound.into()),
            ["ufw", "--help"] => yes(),
            ["ufw", "show", "added"] => {
                let rules = self.state.borrow().ufw.clone().unwrap();
                let rules: Vec<String> = rules.into_iter().collect();
                prints(&format!("Added user rules:\n{}\n", rules.join("\n")))
            }
            ["ufw", "allow", rule] => self.change(words, |state| {
                state
                    .ufw
                    .as_mut()
                    .unwrap()
                    .insert(format!("ufw allow {rule}"));
            }),
            ["ufw", "delete", "allow", rule] => self.change(words, |state| {
                assert!(
                    state
                        .ufw
                        .as_mut()
                        .unwrap()
                        .remove(&format!("ufw allow {rule}"))
                );
            }),
            _ => panic!("unknown command {words:?}"),
        }
    }
}

fn add(folder: &Path, all: &mut BTreeMap<PathBuf, (u32, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        let text = match path.is_dir() {
            true => String::new(),
            false => fs::read_to_string(&path).unwrap(),
        };
        if path.is_dir() {
            add(&path, all);
        }
        all.insert(path, (mode, text));
    }
}

fn answer(is_true: bool) -> io::Result<Output> {
    Ok(Output {
        status: Some(i32::from(!is_true)),
        ..Output::default()
    })
}

fn yes() -> io::Result<Output> {
    answer(true)
}

fn prints(text: &str) -> io::Result<Output> {
    Ok(Output {
        status: Some(0),
        text: text.to_owned(),
        errors: String::new(),
    })
}
