//! An emulated link in a thread of this process, between a host and a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use anyhow::{Result, bail};
use openuvr_lab::wifi::live;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_testbed::hop::{Config, Hop, Meter, Report, Stopper};

/// The link; it ends when dropped.
pub(super) struct Emulated {
    /// The address for the client to connect to.
    pub(super) listens: SocketAddr,
    /// Counts the traffic offered to the link.
    pub(super) meter: Meter,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Report>>>,
}

impl Emulated {
    /// Starts to carry datagrams to the host at `to` and back, each direction on its own `course`,
    /// or over `wifi`.
    pub(super) fn start(
        [up, down]: [ImpairmentSchedule; 2],
        wifi: Option<Scenario>,
        to: SocketAddr,
        seed: u64,
        real_time: bool,
    ) -> Result<Emulated> {
        let mut hop = Hop::open(Config {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            to,
            up,
            down,
            seed,
        })?;
        if let Some(scenario) = wifi {
            hop.share(live::medium(&scenario, seed)?);
        }
        let (listens, meter, stopper) = (hop.local_addr()?, hop.meter(), hop.stopper());
        let scheduler = if real_time {
            Scheduler::new()
        } else {
            Scheduler::ordinary()
        };
        let thread = scheduler.spawn(ThreadRole::EmulatedLink, "hop", || Ok(hop.run()?))?;
        Ok(Emulated {
            listens,
            meter,
            stopper,
            thread: Some(thread),
        })
    }

    /// Stops the link and returns its report.
    pub(super) fn end(mut self) -> Result<Report> {
        self.stopper.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => report,
            _ => bail!("the link's thread panicked"),
        }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
