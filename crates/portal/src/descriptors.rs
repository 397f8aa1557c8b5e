//! How many files and connections this process may have open.
//!
//! Systems give a process few at first (1,024), for programs that wait with select(2), and allow it more. The portal
//! takes what it is allowed, and gives the programs that it starts what it was given itself.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tracing::debug;

/// What this process was given.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Takes as many as are allowed, and says how many that is.
pub(crate) fn raise() -> usize {
    let given = GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    let raised = Rlimit {
        current: given.maximum,
        maximum: given.maximum,
    };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        debug!("no more descriptors: {why}");
    }
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Gives a program that was started what this process was given.
pub(crate) fn give(program: Pid) {
    if let Some(given) = GIVEN.get()
        && let Err(why) = prlimit(Some(program), Resource::Nofile, *given)
    {
        debug!("a program keeps the portal's limit of descriptors: {why}");
    }
}
