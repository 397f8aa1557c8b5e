//! The signals with which a person ends programs, and which the game is to get.

use anyhow::{Context as _, Result};
use openuvr_runtime::launch::Sent;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

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
