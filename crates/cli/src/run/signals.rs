//! The signals with which a person ends programs, and which the game is to get.

use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_proto::time::Instant;
use openuvr_runtime::launch::Sent;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

/// A game that still runs so long after its signal is reported with the command that kills it (guess: the grace time of
/// `openuvr host --virtual`).
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Those that came.
pub(super) struct Signals(SignalsInfo<WithRawSiginfo>);

impl Signals {
    /// Takes them; without a game they end this program no more.
    pub(super) fn take() -> Result<Signals> {
        let wanted = [SIGINT, SIGTERM, SIGHUP];
        Ok(Signals(
            SignalsInfo::new(wanted).context("can't catch signals")?,
        ))
    }

    /// Those that came. What is typed at the terminal goes to all programs that were started there.
    pub(super) fn pending(&mut self) -> Vec<Sent> {
        let pending = self.0.pending();
        let sent = pending.filter_map(|info| {
            Some(Sent {
                signal: Signal::from_named_raw(info.si_signo)?,
                typed: info.si_code == libc::SI_KERNEL,
            })
        });
        sent.collect()
    }
}

/// Notices a game that goes on although it was to end. It is told of and not killed: a shell or a debugger takes
/// Ctrl-C for its own, and a game may ask whether to save.
#[derive(Default)]
pub(super) struct Patience {
    asked: Option<Instant>,
    over: bool,
}

impl Patience {
    /// These signals came. Whether it is over, which is said once.
    pub(super) fn is_over(&mut self, signals: &[Sent], now: Instant) -> bool {
        if !signals.is_empty() {
            self.asked.get_or_insert(now);
        }
        let waited = |asked| now.since(asked) >= PATIENCE;
        self.asked.is_some_and(waited) && !std::mem::replace(&mut self.over, true)
    }
}
