//! The study's cells: runtime, message pattern, scheduling policy, and garbage collector.

use std::fmt;

use clap::ValueEnum;
use openuvr_lab::jitter::samples::Pattern;
use serde::{Deserialize, Serialize};

/// Messaging runtimes. `studies/probes/` has a program for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Runtime {
    /// C++ threads with a mutex and a condition variable.
    Pthread,
    /// C++ Actor Framework.
    Caf,
    /// Rust threads with channels of the standard library.
    Std,
    /// Tasks of tokio.
    Tokio,
    /// Java threads with a monitor.
    Java,
    /// Pekko actors on the JVM.
    Pekko,
}

impl Runtime {
    pub(super) const ALL: [Runtime; 6] = [
        Runtime::Pthread,
        Runtime::Caf,
        Runtime::Std,
        Runtime::Tokio,
        Runtime::Java,
        Runtime::Pekko,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Runtime::Pthread => "pthread",
            Runtime::Caf => "caf",
            Runtime::Std => "std",
            Runtime::Tokio => "tokio",
            Runtime::Java => "java",
            Runtime::Pekko => "pekko",
        }
    }

    pub(super) fn is_java(self) -> bool {
        matches!(self, Runtime::Java | Runtime::Pekko)
    }
}

/// The threads' scheduling policy (sched(7)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    Other,
    Fifo,
    Rr,
    Deadline,
}

impl Policy {
    pub(super) const ALL: [Policy; 4] = [Policy::Other, Policy::Fifo, Policy::Rr, Policy::Deadline];

    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::Other => "other",
            Policy::Fifo => "fifo",
            Policy::Rr => "rr",
            Policy::Deadline => "deadline",
        }
    }
}

/// Garbage collectors of HotSpot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Collector {
    Cms,
    G1,
    Parallel,
    Serial,
    Zgc,
    Shenandoah,
}

impl Collector {
    pub(super) const ALL: [Collector; 6] = [
        Collector::Cms,
        Collector::G1,
        Collector::Parallel,
        Collector::Serial,
        Collector::Zgc,
        Collector::Shenandoah,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Collector::Cms => "cms",
            Collector::G1 => "g1",
            Collector::Parallel => "parallel",
            Collector::Serial => "serial",
            Collector::Zgc => "zgc",
            Collector::Shenandoah => "shenandoah",
        }
    }

    /// The JVM's option.
    pub(super) fn option(self) -> &'static str {
        match self {
            Collector::Cms => "-XX:+UseConcMarkSweepGC",
            Collector::G1 => "-XX:+UseG1GC",
            Collector::Parallel => "-XX:+UseParallelGC",
            Collector::Serial => "-XX:+UseSerialGC",
            Collector::Zgc => "-XX:+UseZGC",
            Collector::Shenandoah => "-XX:+UseShenandoahGC",
        }
    }
}

/// One cell of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) runtime: Runtime,
    pub(super) pattern: Pattern,
    pub(super) policy: Policy,
    /// The garbage collector; `None` for runtimes without a JVM.
    pub(super) collector: Option<Collector>,
}

/// Formats the cell's name, such as `pthread/ping-pong/other` or `pekko/flood/rr/g1`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runtime, pattern) = (self.runtime.name(), self.pattern.name());
        write!(f, "{runtime}/{pattern}/{}", self.policy.name())?;
        match self.collector {
            Some(collector) => write!(f, "/{}", collector.name()),
            None => Ok(()),
        }
    }
}

/// All cells. There are ping-pong and paced cells for every runtime with every policy, and flood cells for every
/// runtime under OTHER. Further cells compare the collectors under the two policies of the slides (OTHER and RR): with
/// Pekko in ping-pong and flood, and with Java threads in ping-pong. All other cells with a JVM use G1, the JVM's
/// default.
pub(super) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    let cell = |runtime: Runtime, pattern, policy| Cell {
        runtime,
        pattern,
        policy,
        collector: runtime.is_java().then_some(Collector::G1),
    };
    for policy in Policy::ALL {
        for pattern in [Pattern::PingPong, Pattern::Paced] {
            cells.extend(Runtime::ALL.map(|runtime| cell(runtime, pattern, policy)));
        }
    }
    cells.extend(Runtime::ALL.map(|runtime| cell(runtime, Pattern::Flood, Policy::Other)));
    for (runtime, pattern) in [
        (Runtime::Pekko, Pattern::PingPong),
        (Runtime::Pekko, Pattern::Flood),
        (Runtime::Java, Pattern::PingPong),
    ] {
        for policy in [Policy::Other, Policy::Rr] {
            cells.extend(Collector::ALL.map(|collector| Cell {
                collector: Some(collector),
                ..cell(runtime, pattern, policy)
            }));
        }
    }
    let mut names = std::collections::BTreeSet::new();
    cells.retain(|cell| names.insert(cell.to_string()));
    cells
}

impl Cell {
    /// Whether a quick study includes this cell. A quick study includes each runtime with each pattern, each collector,
    /// C++ threads under each policy, and all cells of the slides. The other cells exercise no further code.
    pub(super) fn is_in_quick(&self) -> bool {
        let Cell {
            runtime,
            pattern,
            policy,
            collector,
        } = *self;
        match (pattern, policy) {
            (Pattern::Flood, Policy::Other) => matches!(collector, None | Some(Collector::G1)),
            (Pattern::PingPong, Policy::Other) if runtime == Runtime::Java => {
                collector == Some(Collector::G1)
            }
            (_, Policy::Other) => true,
            (Pattern::PingPong, Policy::Rr) if runtime == Runtime::Pekko => {
                !matches!(collector, Some(Collector::Zgc | Collector::Shenandoah))
            }
            (Pattern::PingPong, _) => runtime == Runtime::Pthread,
            (Pattern::Paced, Policy::Fifo) => {
                matches!(runtime, Runtime::Pthread | Runtime::Std | Runtime::Java)
            }
            (Pattern::Paced, _) => matches!(runtime, Runtime::Pthread | Runtime::Std),
            (Pattern::Flood, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of the slides' two tables (runtime, policy, collector). All have the ping-pong pattern.
    const SLIDES: [[&str; 3]; 11] = [
        ["java", "other", ""],
        ["pthread", "other", ""],
        ["caf", "other", ""],
        ["pekko", "other", "cms"],
        ["pekko", "rr", "cms"],
        ["pekko", "other", "g1"],
        ["pekko", "rr", "g1"],
        ["pekko", "other", "parallel"],
        ["pekko", "rr", "parallel"],
        ["pekko", "other", "serial"],
        ["pekko", "rr", "serial"],
    ];

    #[test]
    fn every_cell_of_the_slides_occurs_once() {
        let names: Vec<String> = all().iter().map(Cell::to_string).collect();
        let once = |name: &str| names.iter().filter(|is| *is == name).count() == 1;
        for runtime in ["pthread", "caf", "java"] {
            let end = if runtime == "java" { "/g1" } else { "" };
            assert!(
                once(&format!("{runtime}/ping-pong/other{end}")),
                "{names:?}"
            );
        }
        for collector in ["cms", "g1", "parallel", "serial"] {
            for policy in ["other", "rr"] {
                assert!(once(&format!("pekko/ping-pong/{policy}/{collector}")));
            }
        }
        for policy in Policy::ALL {
            for runtime in Runtime::ALL {
                let begins = format!("{}/paced/{}", runtime.name(), policy.name());
                assert!(
                    names.iter().any(|name| name.starts_with(&begins)),
                    "{begins}"
                );
            }
        }
    }

    #[test]
    fn java_threads_and_actors_run_with_each_collector() {
        let names: Vec<String> = all().iter().map(Cell::to_string).collect();
        for collector in Collector::ALL {
            for cell in ["java/ping-pong", "pekko/ping-pong", "pekko/flood"] {
                for policy in ["other", "rr"] {
                    let wanted = format!("{cell}/{policy}/{}", collector.name());
                    let count = names.iter().filter(|name| **name == wanted).count();
                    assert_eq!(count, 1, "{wanted}");
                }
            }
        }
    }

    #[test]
    fn a_quick_study_has_each_kind_and_the_slides() {
        let quick: Vec<Cell> = all().into_iter().filter(Cell::is_in_quick).collect();
        assert!(quick.len() <= all().len() / 2, "{}", quick.len());
        let has = |wanted: &dyn Fn(&Cell) -> bool| quick.iter().any(wanted);
        for runtime in Runtime::ALL {
            for pattern in Pattern::ALL {
                assert!(has(
                    &|cell| (cell.runtime, cell.pattern) == (runtime, pattern)
                ));
            }
        }
        for policy in Policy::ALL {
            for pattern in [Pattern::PingPong, Pattern::Paced] {
                assert!(has(&|cell| (cell.policy, cell.pattern) == (policy, pattern)));
            }
        }
        for collector in Collector::ALL {
            assert!(has(&|cell| cell.collector == Some(collector)));
        }
        for [runtime, policy, collector] in SLIDES {
            let begins = format!("{runtime}/ping-pong/{policy}");
            let is = |cell: &Cell| {
                let name = cell.to_string();
                name.starts_with(&begins) && name.ends_with(collector)
            };
            assert!(has(&is), "{begins} {collector}");
        }
    }
}
