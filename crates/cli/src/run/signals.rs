//! The signals that would end this program. They are forwarded to the game instead.

use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_proto::time::Instant;
use openuvr_runtime::launch::ForwardedSignal;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

/// If the game still runs this long after a signal, the command that kills it is printed (guess: as long as the grace
/// period of `openuvr host --virtual`).
pub(super) const GRACE_PERIOD: Duration = Duration::from_secs(3);

/// The caught signals.
pub(super) struct Signals(SignalsInfo<WithRawSiginfo>);

impl Signals {
    /// Catches the signals; from then on they do not end this program.
    pub(super) fn catch() -> Result<Signals> {
        let signals = [SIGINT, SIGTERM, SIGHUP];
        Ok(Signals(
            SignalsInfo::new(signals).context("can't catch signals")?,
        ))
    }

    /// The pending signals. If the user types a signal at the terminal (Ctrl-C, for example), the kernel sends it to
    /// the game, too.
    pub(super) fn pending(&mut self) -> Vec<ForwardedSignal> {
        let pending = self.0.pending();
        let sent = pending.filter_map(|info| {
            Some(ForwardedSignal {
                signal: Signal::from_named_raw(info.si_signo)?,
                typed: info.si_code == libc::SI_KERNEL,
            })
        });
        sent.collect()
    }
}

/// Detects a game that is still running after a signal. The game is not killed, only reported: a shell or a debugger
/// handles Ctrl-C itself, and a game may ask whether to save.
#[derive(Default)]
pub(super) struct GracePeriod {
    signalled_at: Option<Instant>,
    reported: bool,
}

impl GracePeriod {
    /// Records these signals. Returns true, only once, when the grace period is over.
    pub(super) fn is_over(&mut self, signals: &[ForwardedSignal], now: Instant) -> bool {
        if !signals.is_empty() {
            self.signalled_at.get_or_insert(now);
        }
        let waited = |signalled_at| now.since(signalled_at) >= GRACE_PERIOD;
        self.signalled_at.is_some_and(waited) && !std::mem::replace(&mut self.reported, true)
    }
}
