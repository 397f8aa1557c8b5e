//! Which of the bench's own threads and displays are real-time.
//!
//! Host and client see to themselves. What was got is read back from the kernel and printed
//! ([`super::machine::threads`]), so a refusal is no error here.

use super::sys;

/// Whether real-time scheduling is asked for.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Sched {
    /// Where the system allows it
    Auto,
    /// Everything is scheduled like any program, host and client too
    #[default]
    Off,
}

/// Who takes part in a measurement. The application never does: it is nobody's to schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// An X server: it takes and shows pictures for those that wait for it.
    Display,
    /// Looks for bar codes.
    Reader,
    /// Presses keys.
    Injector,
    /// The floor's copier.
    Copier,
}

impl Part {
    /// The SCHED_FIFO priority: above those of encoder and decoder (20), so that a picture that is
    /// ready is seen although the next is at work; below those who receive and send (44, 45). A
    /// display goes before those that wait for it.
    const fn priority(self) -> u8 {
        match self {
            Part::Display => 42,
            Part::Reader | Part::Injector => 41,
            Part::Copier => 40,
        }
    }
}

impl Sched {
    /// Schedules the thread (or single-threaded process) `id` for its part.
    pub(super) fn raise(self, id: u32, part: Part) {
        if self == Sched::Auto {
            let _ = sys::schedule(id, part.priority());
        }
    }

    /// Schedules the calling thread for its part.
    pub(super) fn raise_me(self, part: Part) {
        self.raise(0, part);
    }

    /// Makes the calling thread ordinary again.
    pub(super) fn lower_me(self) {
        if self == Sched::Auto {
            let _ = sys::schedule(0, 0);
        }
    }
}
