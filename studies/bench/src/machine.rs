//! The machine and its load during a run. Without them, a latency figure is meaningless.
//!
//! All values come from `/proc` (proc(5)), except those of the energy counters (`energy`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::read_to_string;
use std::path::Path;

use openuvr_proto::time::Instant;
use serde::Serialize;

use crate::energy::Energy;
use openuvr_clock as clock;

/// Ticks per second in `/proc`: USER_HZ, which is 100 on every architecture that we run on.
const USER_HZ: f64 = 100.0;

/// Name of the audio threads in host and client.
const AUDIO_THREAD: &str = "ouvr-audio";

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn this() -> Machine {
        let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = info
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(':'))
            .map_or_else(
                || std::env::consts::ARCH.into(),
                |(_, name)| name.trim().into(),
            );
        let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().into(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, kernel } = self;
        write!(f, "{cpu}, {cores} cores, Linux {kernel}")
    }
}

/// The counters of the machine and of our processes at one time: CPU time, traffic of the loopback device, and energy.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    at: Instant,
    /// Ticks in which a processor was busy.
    busy: u64,
    /// Ticks that the hypervisor gave to other guests (steal).
    stolen: u64,
    /// CPU ticks of each process of our process tree.
    own: BTreeMap<u32, u64>,
    /// CPU time of each such process's audio thread, in nanoseconds. Processes without an audio thread are absent.
    audio: BTreeMap<u32, u64>,
    loopback_bytes: u64,
    energy: Option<Energy>,
}

/// The usage between two [`Load`]s.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Used {
    /// Cores used by all processes outside our process tree.
    pub(crate) other_cores: f64,
    /// Cores that the hypervisor gave to other guests (steal). `other_cores` includes them.
    pub(crate) stolen_cores: f64,
    /// Cores used by each process of our process tree.
    pub(crate) cores: BTreeMap<u32, f64>,
    /// Cores used by the audio thread of each process that has one.
    pub(crate) audio_cores: BTreeMap<u32, f64>,
    /// Megabits per second of all traffic on the network namespace's loopback device.
    pub(crate) loopback_mbps: f64,
    /// Energy of all processor packages in joules, of all processes; `None` without a readable energy counter.
    pub(crate) package_joules: Option<f64>,
}

impl Load {
    /// The current state.
    pub(crate) fn now() -> Load {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let fields: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // The fields are user, nice, system, idle, iowait, irq, softirq and steal. Guest time is part of user.
        let busy = [0, 1, 2, 5, 6, 7]
            .iter()
            .filter_map(|&index| fields.get(index))
            .sum();
        let processes = processes();
        let own: BTreeMap<u32, u64> = family(&processes, std::process::id())
            .into_iter()
            .filter_map(|id| Some((id, processes.get(&id)?.1)))
            .collect();
        let audio = own.keys().filter_map(|id| Some((*id, audio_ns(*id)?)));
        Load {
            at: clock::now(),
            busy,
            stolen: fields.get(7).copied().unwrap_or(0),
            audio: audio.collect(),
            own,
            loopback_bytes: loopback_bytes(),
            energy: Energy::now(),
        }
    }

    pub(crate) fn since(&self, earlier: &Load) -> Used {
        let seconds = self.at.since(earlier.at).as_secs_f64().max(0.001);
        let cores = |ticks: u64| ticks as f64 / USER_HZ / seconds;
        let grown: BTreeMap<u32, u64> = self
            .own
            .iter()
            .map(|(&id, &ticks)| {
                (
                    id,
                    ticks.saturating_sub(earlier.own.get(&id).copied().unwrap_or(0)),
                )
            })
            .collect();
        let own: u64 = grown.values().sum();
        let busy = self.busy.saturating_sub(earlier.busy);
        let bytes = self.loopback_bytes.saturating_sub(earlier.loopback_bytes);
        Used {
            other_cores: cores(busy.saturating_sub(own)),
            stolen_cores: cores(self.stolen.saturating_sub(earlier.stolen)),
            cores: grown
                .into_iter()
                .map(|(id, ticks)| (id, cores(ticks)))
                .collect(),
            audio_cores: (self.audio.iter())
                .filter_map(|(id, ns)| {
                    let ns = ns.saturating_sub(*earlier.audio.get(id)?);
                    Some((*id, ns as f64 / 1e9 / seconds))
                })
                .collect(),
            loopback_mbps: bytes as f64 * 8.0 / 1e6 / seconds,
            package_joules: (self.energy.as_ref().zip(earlier.energy.as_ref()))
                .and_then(|(now, before)| now.since(before)),
        }
    }
}

impl Used {
    /// Cores used by this process.
    pub(crate) fn of(&self, id: u32) -> f64 {
        self.cores.get(&id).copied().unwrap_or(0.0)
    }

    /// Cores used by this process's audio thread, or `None` if it has no audio thread.
    pub(crate) fn of_audio(&self, id: u32) -> Option<f64> {
        self.audio_cores.get(&id).copied()
    }

    /// Cores used by this process and its living descendants.
    pub(crate) fn of_family(&self, id: u32) -> f64 {
        let family = family(&processes(), id);
        family.into_iter().map(|id| self.of(id)).sum()
    }
}

/// A living descendant of process `of` whose command line satisfies `wanted`.
pub(crate) fn descendant(of: u32, wanted: impl Fn(&[&str]) -> bool) -> Option<u32> {
    let mut family = family(&processes(), of);
    family.remove(&of);
    family.into_iter().find(|id| {
        let line = read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
        wanted(&words)
    })
}

/// CPU time of a process's living threads, in nanoseconds (`schedstat`, which is finer than ticks).
pub(crate) fn process_ns(id: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks.filter_map(|task| on_cpu_ns(&task.path())).sum()
}

/// Memory of a process and its living descendants, in MiB: proportional set size (PSS, proc_pid_smaps(5)). `None` if it
/// cannot be read.
pub(crate) fn memory_mib(id: u32) -> Option<f64> {
    let pss = |id: &u32| {
        let text = read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let family = family(&processes(), id);
    let kib: Vec<f64> = family.iter().filter_map(pss).collect();
    (!kib.is_empty()).then(|| kib.iter().sum::<f64>() / 1024.0)
}

/// A thread and its scheduling policy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) struct Thread {
    pub(crate) process: String,
    pub(crate) thread: String,
    /// The scheduling policy, such as `OTHER` or `FIFO 50`.
    pub(crate) policy: String,
}

/// The threads of our whole process tree. Threads with the same process, name and policy are one entry, with their
/// number.
pub(crate) fn threads() -> BTreeMap<Thread, usize> {
    let mut threads = BTreeMap::new();
    for id in family(&processes(), std::process::id()) {
        let process = read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{id}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let Ok(stat) = read_to_string(task.path().join("stat")) else {
                continue;
            };
            let Some((name, fields)) = split_stat(&stat) else {
                continue;
            };
            let thread = Thread {
                process: process.trim().into(),
                thread: name.into(),
                policy: policy(&fields),
            };
            *threads.entry(thread).or_insert(0) += 1;
        }
    }
    threads
}

/// The scheduling policies of one process's threads, and the number of threads with each policy. Empty if the process
/// has ended.
pub(crate) fn policies(id: u32) -> BTreeMap<String, usize> {
    let mut policies = BTreeMap::new();
    let tasks = std::fs::read_dir(format!("/proc/{id}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let stat = read_to_string(task.path().join("stat")).unwrap_or_default();
        if let Some((_, fields)) = split_stat(&stat) {
            *policies.entry(policy(&fields)).or_insert(0) += 1;
        }
    }
    policies
}

/// Field 41 is the policy, field 40 the real-time priority, and field 19 the nice value. Fields are counted from 1; the
/// process id is field 1, and the name is field 2.
fn policy(fields: &[&str]) -> String {
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("?");
    match field(41) {
        "0" if field(19) == "0" => "OTHER".into(),
        "0" => format!("OTHER nice {}", field(19)),
        "1" => format!("FIFO {}", field(40)),
        "2" => format!("RR {}", field(40)),
        "3" => "BATCH".into(),
        "5" => "IDLE".into(),
        "6" => "DEADLINE".into(),
        other => format!("policy {other}"),
    }
}

/// Returns the name, and the fields from the third onwards. The name is in parentheses and may itself contain
/// parentheses.
fn split_stat(stat: &str) -> Option<(&str, Vec<&str>)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    Some((
        stat.get(open + 1..close)?,
        stat.get(close + 1..)?.split_whitespace().collect(),
    ))
}

/// CPU time of a process's audio thread, in nanoseconds (`schedstat`, which is finer than ticks).
fn audio_ns(id: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).ok()?;
    let mut tasks = tasks.flatten().map(|task| task.path());
    let audio = tasks.find(|task| {
        let name = read_to_string(task.join("comm")).unwrap_or_default();
        name.trim() == AUDIO_THREAD
    })?;
    on_cpu_ns(&audio)
}

/// CPU time of the thread with this `/proc` folder, in nanoseconds.
fn on_cpu_ns(task: &Path) -> Option<u64> {
    let text = read_to_string(task.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The parent and the used ticks of every process. The ticks of an ended child count for its parent after the parent
/// has waited for it.
fn processes() -> BTreeMap<u32, (u32, u64)> {
    let Ok(dir) = std::fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    dir.flatten()
        .filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = read_to_string(entry.path().join("stat")).ok()?;
            let (_, fields) = split_stat(&stat)?;
            let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
            let ticks = (14..=17).map(|field| number(field).unwrap_or(0)).sum();
            Some((id, (u32::try_from(number(4)?).ok()?, ticks)))
        })
        .collect()
}

/// A process and all its descendants.
fn family(processes: &BTreeMap<u32, (u32, u64)>, of: u32) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([of]);
    loop {
        let before = family.len();
        for (&id, (parent, _)) in processes {
            if family.contains(parent) {
                family.insert(id);
            }
        }
        if family.len() == before {
            return family;
        }
    }
}

fn loopback_bytes() -> u64 {
    read_to_string("/proc/net/dev")
        .unwrap_or_default()
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("lo:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// If other processes use more cores than this, measured times are unreliable.
pub(crate) const QUIET: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_are_parsed() {
        let (name, fields) = split_stat("12 (a) (b c)) S 1 12 12 0").unwrap();
        assert_eq!((name, fields[0], fields[1]), ("a) (b c)", "S", "1"));
        assert!(split_stat("nonsense").is_none());
    }

    #[test]
    fn a_family_is_found_in_any_order_of_ids() {
        let processes = BTreeMap::from([
            (2, (9, 0)),
            (9, (5, 0)),
            (5, (1, 0)),
            (7, (1, 0)),
            (3, (2, 0)),
        ]);
        assert_eq!(family(&processes, 5), BTreeSet::from([2, 3, 5, 9]));
    }

    #[test]
    fn a_descendant_is_found_by_its_command_line() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let own = std::process::id();
        // Just after `spawn`, the kernel may report an empty command line for the child.
        let end = clock::now() + std::time::Duration::from_secs(20);
        let mut found = None;
        while found.is_none() && clock::now() < end {
            found = descendant(own, |words| words == ["sleep", "1000"]);
        }
        assert_eq!(found, Some(child.id()));
        assert_eq!(descendant(child.id(), |_| true), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process_ns(child.id()), 0);
        assert!(process_ns(own) > 0);
    }

    #[test]
    fn this_machine_and_this_thread_are_described() {
        let machine = Machine::this();
        assert!(machine.cores >= 1 && !machine.kernel.is_empty() && !machine.cpu.is_empty());
        let own = threads();
        assert!(own.values().sum::<usize>() >= 1);
        assert!(
            own.keys().all(|thread| !thread.policy.contains('?')),
            "{own:?}"
        );
        let load = Load::now();
        assert!(load.own.contains_key(&std::process::id()));
        assert!(load.since(&load).other_cores >= 0.0);
    }
}
