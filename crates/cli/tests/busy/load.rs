//! Sources of load.

use std::fmt::Write as _;
use std::num::NonZero;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::real_time_loops::{Pattern, RealTimeLoops};
use crate::support::{Folder, skip};

/// Threads or compilers per core. On two cores, the load average becomes eight. In the problem reports that led to
/// these tests, it was ten to fifteen, including the measured programs.
const FOR_EACH_CORE: usize = 4;

/// A kind of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// Busy loops at ordinary priority.
    Loops,
    /// A real-time loop on each core.
    RealTime(Pattern),
    /// Compilers, restarted repeatedly.
    Build,
}

impl Load {
    pub(crate) const ALL: [Load; 4] = [
        Load::Loops,
        Load::RealTime(Pattern::OFTEN),
        Load::RealTime(Pattern::LONG),
        Load::Build,
    ];

    /// Starts the load. Prints a message and returns `None` if the machine does not support it.
    pub(crate) fn start(self) -> Option<Running> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        match self {
            Load::Loops => Some(Running::Loops(Loops::start(cores * FOR_EACH_CORE))),
            Load::RealTime(pattern) => RealTimeLoops::start(pattern).map(Running::RealTime),
            Load::Build => Build::start(cores * FOR_EACH_CORE).map(Running::Build),
        }
    }
}

/// A load that ends when dropped.
#[expect(dead_code, reason = "held only for their Drop")]
pub(crate) enum Running {
    Loops(Loops),
    RealTime(RealTimeLoops),
    Build(Build),
}

/// Busy loops.
pub(crate) struct Loops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Loops {
    fn start(count: usize) -> Loops {
        let stop = Arc::<AtomicBool>::default();
        let one = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        Loops {
            threads: (0..count).map(one).collect(),
            stop,
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Shells that run one compiler after another.
pub(crate) struct Build {
    shells: Vec<Child>,
    _folder: Folder,
}

impl Build {
    fn start(count: usize) -> Option<Build> {
        if Command::new("cc").arg("--version").output().is_err() {
            skip("no C compiler is installed: apt-get install build-essential");
            return None;
        }
        let folder = Folder::new();
        let source = folder.join("functions.c");
        std::fs::write(&source, functions()).expect("a temporary file");
        let line = format!("while :; do cc -O2 -c -o /dev/null '{source}'; done");
        let shell = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", &line]).process_group(0);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::null()).spawn().expect("a shell")
        };
        Some(Build {
            shells: (0..count).map(shell).collect(),
            _folder: folder,
        })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        for shell in &mut self.shells {
            if let Some(group) = i32::try_from(shell.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = shell.wait();
        }
    }
}

/// A source that compiles in about a second.
fn functions() -> String {
    let mut text = String::new();
    for n in 0..800 {
        let _ = writeln!(
            text,
            "int f{n}(int *a, int n) {{ int s = {n}; for (int i = 0; i < n; i++) {{ a[i] = a[i] * s + i % \
             {}; s ^= a[i] >> 3; }} return s; }}",
            n + 1
        );
    }
    text
}
