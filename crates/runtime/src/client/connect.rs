//! The way to a session: greets the host at its addresses and shakes hands with it.

use std::time::Duration;

use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::control::handshake::{
    ClientHandshake, Established, GIVE_UP, HandshakeError, Trust,
};
use openuvr_proto::control::identity::{DeviceName, Identity};
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::PathId;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::config::Opened;
use super::ladder::ethernet_paths;
use super::{Shared, StopReason};
use crate::clock;

impl Opened {
    /// Whether somebody answers at one of the host's addresses within `timeout`, before a person is
    /// asked for a PIN. It is greeted only, which costs the host nothing and is no try with a PIN;
    /// over raw Ethernet too, where nobody answers over IP within a second. Blocks; before a client
    /// is started with this.
    ///
    /// # Errors
    /// What answers says that no session will come about.
    pub fn is_answered(&self, timeout: Duration) -> Result<bool, HandshakeError> {
        let began = clock::now();
        let until = began + timeout;
        // Nothing is sent that depends on it.
        let trust = Trust::Pin(Pin::generate()?);
        let mut greeting = ClientHandshake::new(began, &self.identity, self.name.clone(), trust)?;
        let mut batch = RecvBatch::default();
        let mut paths = self.paths.clone();
        let mut without_ip = self.only.is_none().then_some(began + IP_FIRST);
        while clock::now() < until {
            let now = clock::now();
            match greeting.handle_timeout(now) {
                Err(HandshakeError::TimedOut { .. }) => return Ok(false),
                other => other?,
            }
            if without_ip.take_if(|at| now >= *at).is_some() {
                paths.extend(ethernet_paths(&self.link, &self.paths));
            }
            while let Some(datagram) = greeting.poll_transmit(now) {
                for path in &paths {
                    // Sent again if nothing comes back.
                    let _ = self.link.send(*path, &datagram, datagram.len());
                }
            }
            let next = greeting.next_timeout().into_iter().chain([until]);
            let next = next.chain(without_ip).min();
            let timeout = next.unwrap_or(until).since(clock::now());
            if self.link.recv(&mut batch, Some(timeout)).is_err() {
                return Ok(false);
            }
            for (from, datagram) in batch.iter() {
                if paths.contains(&from) && plane_of(datagram) == Ok(Plane::Handshake) {
                    greeting.handle_datagram(clock::now(), datagram)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Who calls whom.
pub(super) struct Caller<'a> {
    pub(super) identity: &'a Identity,
    pub(super) name: &'a DeviceName,
    /// How the host is recognised.
    pub(super) trust: &'a Trust,
    /// Where the host may be, and the one transport that will do.
    pub(super) paths: &'a [PathId],
    pub(super) only: Option<Rung>,
    /// Whether there was a session before: it is known how far the host is, and that it may come back at
    /// any of its addresses at any time.
    pub(super) lost: bool,
}

/// Why no session came about.
pub(super) enum NoSession {
    Handshake(HandshakeError),
    /// Nothing could be sent to the host: no network, a firewall of this machine. It may pass.
    Unsent(String),
    /// Nothing can be received any more.
    Broken(String),
}

impl From<HandshakeError> for NoSession {
    fn from(e: HandshakeError) -> NoSession {
        NoSession::Handshake(e)
    }
}

impl NoSession {
    /// Whether a host that was met before may be met again later. What nobody has proven to be the
    /// host's word never ends the search for it: anybody on the way can say it.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            NoSession::Handshake(e) => matches!(
                e,
                HandshakeError::TimedOut { .. }
                    | HandshakeError::Busy { .. }
                    | HandshakeError::NotTheHost
                    | HandshakeError::UnknownDevice
                    | HandshakeError::PairingClosed
                    | HandshakeError::Version { .. }
            ),
            NoSession::Unsent(_) => true,
            NoSession::Broken(_) => false,
        }
    }

    /// Why it can't be met now, if there is more to tell than that it is silent.
    pub(super) fn trouble(self) -> Option<String> {
        match self {
            NoSession::Handshake(HandshakeError::TimedOut { .. }) => None,
            NoSession::Handshake(e) => Some(format!("{e}; looking for the host again meanwhile")),
            NoSession::Unsent(why) | NoSession::Broken(why) => Some(why),
        }
    }

    /// What it means for the person.
    pub(super) fn over(self, only: Option<Rung>) -> StopReason {
        match (self, only) {
            (NoSession::Handshake(HandshakeError::TimedOut { after }), Some(rung))
                if rung.is_ethernet() =>
            {
                StopReason::Failed(format!(
                    "no link {}: no answer from the host over raw Ethernet in {} s: may it use raw \
                     Ethernet there (it says so when it starts), and does the network carry other \
                     than IP?",
                    rung.name(),
                    after.as_secs()
                ))
            }
            (NoSession::Handshake(e), _) => StopReason::Handshake(e),
            (NoSession::Unsent(why), _) => {
                StopReason::Failed(format!("the host can't be reached: {why}"))
            }
            (NoSession::Broken(why), _) => StopReason::Failed(why),
        }
    }
}

/// A host that has several addresses is tried at the next one after this time without an answer
/// (RFC 8305, section 5, recommends 250 ms).
const DIAL: Duration = Duration::from_millis(250);

/// A lost host is looked for so long where it was, before it is asked where its name leads now.
const LOST: Duration = Duration::from_secs(2);

/// A host that does not answer over IP in this time may be one that uses raw Ethernet alone.
const IP_FIRST: Duration = Duration::from_secs(1);

/// Shakes hands with the host, wherever it answers first. `None` if the client is to stop.
pub(super) fn shake_hands(
    shared: &Shared,
    who: &Caller<'_>,
    batch: &mut RecvBatch,
) -> Result<Option<Established>, NoSession> {
    let began = clock::now();
    let mut paths = who.paths.to_vec();
    let mut turn = 0;
    // Of an address that can't be sent to nothing is said if another can.
    let (mut sent, mut unsent) = (false, None);
    while !shared.stopping() {
        let Some(path) = paths.get(turn % paths.len().max(1)) else {
            break;
        };
        shared.paths.begin(*path);
        let (round, alone) = (turn / paths.len(), paths.len() == 1);
        let timeout = match (alone, round) {
            // It may be a host without IP.
            (true, 0) if who.only.is_none() => Some(IP_FIRST),
            (true, _) if who.lost => Some(IP_FIRST),
            (true, _) => None,
            // Far hosts answer later.
            (false, round) => Some(DIAL * (1 << round.min(if who.lost { 1 } else { 5 }))),
        };
        match dial(shared, who, timeout, batch)? {
            DialOutcome::Connected(established) => return Ok(Some(*established)),
            DialOutcome::Stopped => return Ok(None),
            DialOutcome::NoAnswer => {
                let why = shared.unsent();
                sent |= why.is_none();
                unsent = why.or(unsent);
            }
        }
        if clock::now().since(began) >= if who.lost { LOST } else { GIVE_UP } {
            return Err(match unsent {
                Some(why) if !sent => NoSession::Unsent(why),
                _ => HandshakeError::TimedOut { after: GIVE_UP }.into(),
            });
        }
        turn += 1;
        if turn == who.paths.len() && who.only.is_none() {
            // Nobody answers over IP: a host that is to use raw Ethernet alone does not.
            paths.extend(ethernet_paths(&shared.link, who.paths));
        }
    }
    Ok(None)
}

enum DialOutcome {
    Connected(Box<Established>),
    NoAnswer,
    Stopped,
}

/// Shakes hands over the path that is set, as long as it takes, or for so long as nobody answers.
fn dial(
    shared: &Shared,
    who: &Caller<'_>,
    timeout: Option<Duration>,
    batch: &mut RecvBatch,
) -> Result<DialOutcome, NoSession> {
    let path = shared.paths.now();
    let began = clock::now();
    let mut give_up = timeout.map(|timeout| began + timeout);
    let mut handshake =
        ClientHandshake::new(began, who.identity, who.name.clone(), who.trust.clone())?;
    while !shared.stopping() {
        let now = clock::now();
        if give_up.is_some_and(|at| at <= now) {
            return Ok(DialOutcome::NoAnswer);
        }
        match handshake.handle_timeout(now) {
            Err(HandshakeError::TimedOut { .. }) => return Ok(DialOutcome::NoAnswer),
            other => other?,
        }
        while let Some(datagram) = handshake.poll_transmit(now) {
            shared.send(path, &datagram);
        }
        let until = handshake.next_timeout().into_iter().chain(give_up).min();
        let timeout = until.map_or(Duration::from_millis(100), |at| at.since(clock::now()));
        if let Err(e) = shared.link.recv(batch, Some(timeout)) {
            return Err(NoSession::Broken(format!("receiving failed: {e}")));
        }
        for (from, datagram) in batch.iter() {
            if from != path || plane_of(datagram) != Ok(Plane::Handshake) {
                continue;
            }
            give_up = None;
            if let Some(established) = handshake.handle_datagram(clock::now(), datagram)? {
                return Ok(DialOutcome::Connected(Box::new(established)));
            }
        }
    }
    Ok(DialOutcome::Stopped)
}

/// Waits out a pause between two attempts, throwing away what arrives.
pub(super) fn pause(shared: &Shared, span: Duration, batch: &mut RecvBatch) {
    let until = clock::now() + span;
    while !shared.stopping() && clock::now() < until {
        if shared
            .link
            .recv(batch, Some(until.since(clock::now())))
            .is_err()
        {
            std::thread::sleep(until.since(clock::now()));
        }
    }
}
