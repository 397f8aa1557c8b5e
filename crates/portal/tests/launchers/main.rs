//! One test suite for all launchers. For each engine, there is a module in this folder and a line in the table at the
//! end of this file.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod clusters;
mod local;
mod scale;
mod suite;
#[path = "../portal/support.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

#[test]
#[ignore = "needs a cluster of Kubernetes: ./dev test-cluster kubernetes"]
fn a_pod_of_kubernetes_writes_only_to_its_volumes() {
    suite::writes_only_to_its_volumes(&mut clusters::Kubernetes::start());
}

/// Creates a test for each engine and each case of the suite. Cases that need daemons are `#[ignore]`d; a test tier
/// runs them.
macro_rules! engines {
    ($($(#[$attribute:meta])* $engine:ident: $start:expr;)*) => {$(
        mod $engine {
            engines!(@cases [$(#[$attribute])*] $start;
                runs_and_answers
                is_started_once
                is_found_again
                ends_with_all_that_it_started
                ends_by_itself
                reports_every_exit_code_as_its_own
                keeps_its_log
                is_killed_externally
                waits_until_there_is_room
                prints_no_endpoint
                is_stopped_before_it_runs
                reaches_its_time_limit
                is_lost
                goes_on_without_its_engine
            );
        }
    )*};
    (@cases $attributes:tt $start:expr; $($case:ident)*) => {
        $(engines!(@one $attributes $start; $case);)*
    };
    (@one [$(#[$attribute:meta])*] $start:expr; $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            crate::suite::$case(&mut $start);
        }
    };
}

mod on {
    engines! {
        local: crate::local::Machine::start();
        #[ignore = "needs a cluster of Kubernetes: ./dev test-cluster kubernetes"]
        kubernetes: crate::clusters::Kubernetes::start();
        #[ignore = "needs the daemons of Slurm: ./dev test-cluster slurm"]
        slurm: crate::clusters::Slurm::start();
    }
}
