//! Real-time scheduling of the threads and displays of a measurement.
//!
//! Host and client set their own scheduling. If the system refuses real-time scheduling, this is not an error here,
//! because a measurement reads the actual policy back from the kernel.

mod sys;

/// Whether to request real-time scheduling.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sched {
    /// Where the system allows it
    Auto,
    /// Ordinary scheduling, also of host and client
    #[default]
    Off,
}

/// A participant in a measurement. The scheduling of the application is never changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Participant {
    /// An X server: its clients wait for it.
    Display,
    /// Reads bar codes.
    Reader,
    /// Presses keys.
    Injector,
    /// The program that measures the floor: it copies pixels from one display to the other, without a stream.
    Copier,
}

impl Participant {
    /// The SCHED_FIFO priority. It is above the priorities of encoding, decoding and composing threads (20 to 24), so
    /// that a finished picture is seen while the next one is in progress. It is below the priorities of audio, input,
    /// receiving and sending threads (43 to 45). A display takes precedence over the clients that wait for it.
    const fn priority(self) -> u8 {
        match self {
            Participant::Display => 42,
            Participant::Reader | Participant::Injector => 41,
            Participant::Copier => 40,
        }
    }
}

impl Sched {
    /// Schedules the thread (or single-threaded process) `id` for its role.
    pub fn raise(self, id: u32, part: Participant) {
        if self == Sched::Auto {
            let _ = sys::schedule(id, part.priority());
        }
    }

    /// Schedules the calling thread for its role.
    pub fn raise_me(self, part: Participant) {
        self.raise(0, part);
    }

    /// Restores ordinary scheduling of the calling thread.
    pub fn lower_me(self) {
        if self == Sched::Auto {
            let _ = sys::schedule(0, 0);
        }
    }
}
