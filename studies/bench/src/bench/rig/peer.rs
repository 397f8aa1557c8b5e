//! Measures a sender and a receiver of another program between the displays, in the same way as a host and a client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use openuvr_testbed::child::Child;
use openuvr_testbed::hop::Meter;
use openuvr_testbed::pair::{self, Pair, Tables};
use openuvr_testbed::reader::{Reader, Sighting};

use super::fidelity::Pictures;
use super::{Case, Rig, Stream, StreamSetup};

/// The sender and receiver to measure.
#[derive(Debug)]
pub(in crate::bench) struct PeerSetup<'a> {
    /// Streams the display [`Rig::near`].
    pub(in crate::bench) sender: Command,
    /// Displays on [`Rig::far`].
    pub(in crate::bench) receiver: Command,
    pub(in crate::bench) listens: Listens,
    /// Traffic counters of the emulated link between them, if there is one.
    pub(in crate::bench) meter: Option<Meter>,
    pub(in crate::bench) seconds: f64,
    /// Number of key presses.
    pub(in crate::bench) presses: u32,
    /// The folder for logs.
    pub(in crate::bench) dir: &'a Path,
}

/// The program that starts first, because it opens the port to which the other program connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Listens {
    /// A UDP port of the receiver.
    Receiver(u16),
    /// A TCP port of the sender.
    Sender(u16),
}

impl Rig<'_> {
    /// The display on which the application draws.
    pub(in crate::bench) fn near(&self) -> &str {
        self.near.name()
    }

    /// The measured display.
    pub(in crate::bench) fn far(&self) -> &str {
        self.far.name()
    }

    /// Measures a host and a client with an emulated link between them, which counts their traffic; see
    /// [`Pair::start_over`].
    pub(in crate::bench) fn stream_over(
        &mut self,
        of: &StreamSetup<'_>,
        link: impl FnOnce(SocketAddr) -> Result<(SocketAddr, Meter)>,
    ) -> Result<Stream> {
        self.stream_by(of, |options| {
            let mut counts = None;
            let pair = Pair::start_over(options, |host| {
                let (listens, meter) = link(host)?;
                counts = Some(meter);
                Ok(listens)
            })?;
            Ok((pair, counts))
        })
    }

    /// Measures sender and receiver, without a record.
    pub(in crate::bench) fn peer(&mut self, of: PeerSetup<'_>) -> Result<Stream> {
        self.with_scene()?;
        self.meter = of.meter;
        let log = |name: &str| of.dir.join(format!("{name}.log"));
        let sender = || Child::start("sender", of.sender, Some(&log("sender")));
        let receiver = || Child::start("receiver", of.receiver, Some(&log("receiver")));
        let (mut sender, mut receiver) = match of.listens {
            Listens::Receiver(port) => {
                let receiver = listening(receiver()?, port, &pair::UDP)?;
                (sender()?, receiver)
            }
            Listens::Sender(port) => {
                let sender = listening(sender()?, port, &pair::TCP)?;
                (sender, receiver()?)
            }
        };
        let children = [("sender", sender.id()), ("receiver", receiver.id())];
        let (case, reaction_ms, pictures) =
            self.read_far(&children, of.seconds, of.presses, &mut || {
                sender.check()?;
                receiver.check()
            })?;
        receiver.stop();
        sender.stop();
        Ok(without_record(case, reaction_ms, &pictures))
    }

    /// Measures on the second display: latency for `seconds`, then key presses, then picture quality.
    pub(super) fn read_far(
        &self,
        children: &[(&'static str, u32)],
        seconds: f64,
        presses: u32,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<(Case, Vec<f64>, Pictures)> {
        let reader = Reader::start_as(self.far.name(), self.setup.sched)?;
        let any = &mut |seen: &[Sighting]| Ok(!seen.is_empty());
        let case = self.measure(
            Some(self.near.name()),
            &reader,
            children,
            seconds,
            any,
            check,
        )?;
        let reaction_ms = self.reactions(self.far.name(), &reader, presses)?;
        self.pass(self.setup.warm_up, check)?;
        Ok((case, reaction_ms, self.pictures(&reader)?))
    }
}

/// The result if no record restricts the frames that count: every displayed frame counts as complete.
pub(super) fn without_record(case: Case, reaction_ms: Vec<f64>, pictures: &Pictures) -> Stream {
    Stream {
        case,
        link: None,
        incomplete: 0,
        steps: Vec::new(),
        outcomes: BTreeMap::new(),
        wire_mbps: None,
        reaction_ms,
        psnr_db: pictures.compared().into_iter().map(|(_, db)| db).collect(),
        compared: Vec::new(),
        still_cores: None,
    }
}

fn listening(mut child: Child, port: u16, tables: &Tables) -> Result<Child> {
    pair::wait_until_bound(&mut child, port, tables)?;
    Ok(child)
}
