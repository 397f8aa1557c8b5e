//! What is measured: what hands over, how messages follow each other, the policy, and the collector.

use std::fmt;

use clap::ValueEnum;
use openuvr_lab::jitter::samples::Pattern;
use serde::{Deserialize, Serialize};

/// What hands messages over; each is a program of `probes/`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Runtime {
    /// C++ threads: mutex and condition variable.
    Pthread,
    /// C++ Actor Framework.
    Caf,
    /// Rust threads: channels of the standard library.
    Std,
    /// Tasks of tokio.
    Tokio,
    /// Java threads: a monitor.
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

    /// For tables.
    pub(super) fn words(self) -> &'static str {
        match self {
            Runtime::Pthread => "C++ threads",
            Runtime::Caf => "C++ actors (CAF)",
            Runtime::Std => "Rust threads",
            Runtime::Tokio => "Rust tasks (tokio)",
            Runtime::Java => "Java threads",
            Runtime::Pekko => "Pekko actors",
        }
    }

    pub(super) fn is_java(self) -> bool {
        matches!(self, Runtime::Java | Runtime::Pekko)
    }
}

/// How the threads are scheduled (sched(7)).
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

    /// What the JVM is told.
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
    /// Of a JVM alone.
    pub(super) collector: Option<Collector>,
}

/// Such as `pthread/ping-pong/other` and `pekko/flood/rr/g1`.
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

/// All cells: every runtime with every policy, ping-pong and paced; every runtime flooded; and every
/// collector with the policies of the slides, ping-pong and flooded. What is not about collectors has G1,
/// the JVM's own choice.
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
    for pattern in [Pattern::PingPong, Pattern::Flood] {
        for policy in [Policy::Other, Policy::Rr] {
            cells.extend(Collector::ALL.map(|collector| Cell {
                collector: Some(collector),
                ..cell(Runtime::Pekko, pattern, policy)
            }));
        }
    }
    let mut names = std::collections::BTreeSet::new();
    cells.retain(|cell| names.insert(cell.to_string()));
    cells
}

impl Cell {
    /// Whether a quick study leaves it out: starting a JVM takes most of its time, and a flood shows
    /// nothing more of a collector in so short a time.
    pub(super) fn is_slow(&self) -> bool {
        self.pattern == Pattern::Flood && !matches!(self.collector, None | Some(Collector::G1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_slides_is_there_once() {
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
}
