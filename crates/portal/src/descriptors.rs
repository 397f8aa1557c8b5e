//! The limit on open file descriptors.
//!
//! Systems set a low soft limit (1,024) for programs that use select(2), and a higher hard limit. The portal raises its
//! own soft limit to the hard limit, but restores the original soft limit for the programs that it starts.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tracing::debug;

/// The original soft limit.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Returns the resulting soft limit.
pub(crate) fn raise() -> usize {
    let original = ORIGINAL.get_or_init(|| getrlimit(Resource::Nofile));
    let raised = Rlimit {
        current: original.maximum,
        maximum: original.maximum,
    };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        debug!("cannot raise the descriptor limit: {why}");
    }
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Restores the original limit for a started program.
pub(crate) fn give(program: Pid) {
    if let Some(original) = ORIGINAL.get()
        && let Err(why) = prlimit(Some(program), Resource::Nofile, *original)
    {
        debug!("cannot restore the descriptor limit of a program: {why}");
    }
}
