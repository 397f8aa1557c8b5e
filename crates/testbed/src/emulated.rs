//! An emulated link in a thread of this process, between a host and a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use anyhow::{Result, bail};
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_sim::medium::Medium;
use openuvr_sim::schedule::ImpairmentSchedule;

use crate::hop::{Config, Gate, Hop, Meter, Report, Stopper};

/// The link. It ends when dropped.
#[derive(Debug)]
pub struct Emulated {
    /// The address for the client to connect to.
    pub listens: SocketAddr,
    /// Counts the traffic offered to the link.
    pub meter: Meter,
    /// Stalls the link.
    pub gate: Gate,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Report>>>,
}

/// A free port of the loopback device.
const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Emulated {
    /// Starts a link that carries datagrams to the host at `to` and back. `directions` contains the schedules for
    /// datagrams from clients and to clients; a `medium` replaces them. With `real_time`, the link's thread has
    /// real-time scheduling if this is permitted.
    ///
    /// # Errors
    /// Returns an error if no port is free, or if the thread cannot be started.
    pub fn start(
        directions: [ImpairmentSchedule; 2],
        medium: Option<Box<dyn Medium>>,
        to: SocketAddr,
        seed: u64,
        real_time: bool,
    ) -> Result<Emulated> {
        let [up, down] = directions;
        let config = Config {
            listen: ANYWHERE,
            to,
            up,
            down,
            seed,
        };
        Emulated::of(config, medium, real_time)
    }

    /// Starts a relay of this configuration.
    ///
    /// # Errors
    /// As for [`Emulated::start`]. Also returns an error if the address is in use.
    pub fn of(
        config: Config,
        medium: Option<Box<dyn Medium>>,
        real_time: bool,
    ) -> Result<Emulated> {
        let mut hop = Hop::open(config)?;
        if let Some(medium) = medium {
            hop.share(medium);
        }
        Emulated::spawn(hop, real_time)
    }

    /// Starts a relay that is ready to run.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn spawn(hop: Hop, real_time: bool) -> Result<Emulated> {
        let (listens, meter, stopper) = (hop.local_addr()?, hop.meter(), hop.stopper());
        let gate = hop.gate();
        let scheduler = if real_time {
            Scheduler::new()
        } else {
            Scheduler::ordinary()
        };
        let thread = scheduler.spawn(ThreadRole::EmulatedLink, "hop", || Ok(hop.run()?))?;
        Ok(Emulated {
            listens,
            meter,
            gate,
            stopper,
            thread: Some(thread),
        })
    }

    /// Stops the link and returns its report.
    ///
    /// # Errors
    /// Returns an error if the relay has failed.
    pub fn end(mut self) -> Result<Report> {
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
