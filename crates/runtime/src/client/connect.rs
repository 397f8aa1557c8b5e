//! The way to a session: by PIN the first time, by key afterwards.

use std::time::Duration;

use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::control::handshake::{
    ClientHandshake, Established, GIVE_UP, HandshakeError, Trust,
};
use openuvr_proto::control::identity::{DeviceName, Identity, PublicKey};
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::PathId;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::ladder::ethernet_paths;
use super::{Over, Shared};
use crate::clock;

/// Who meets whom.
pub(super) struct Acquaintance<'a> {
    pub(super) identity: &'a Identity,
    pub(super) name: &'a DeviceName,
    pub(super) pin: Option<&'a Pin>,
    pub(super) known: Option<PublicKey>,
    /// Where the host may be, and the one transport that will do.
    pub(super) paths: &'a [PathId],
    pub(super) only: Option<Rung>,
}

/// A session, and whether the PIN was used for it.
pub(super) struct Met {
    pub(super) established: Established,
    pub(super) paired: bool,
}

/// Shakes hands with the host: by its key if it is known, and if the host does not know us any
/// more (or is not known) by the PIN. `None` if the client is to stop.
pub(super) fn shake_hands(
    shared: &Shared,
    who: &Acquaintance<'_>,
    batch: &mut RecvBatch,
) -> Result<Option<Met>, HandshakeError> {
    if let Some(key) = who.known {
        match attempt(shared, who, &Trust::Known(key), batch) {
            // Forgotten there, or a host that was set up anew: the person gave a PIN for that.
            Err(HandshakeError::UnknownDevice | HandshakeError::NotTheHost)
                if who.pin.is_some() => {}
            outcome => {
                return outcome.map(|e| {
                    e.map(|established| Met {
                        established,
                        paired: false,
                    })
                });
            }
        }
    }
    let Some(pin) = who.pin else {
        return Err(HandshakeError::UnknownDevice);
    };
    let outcome = attempt(shared, who, &Trust::Pin(pin.clone()), batch)?;
    Ok(outcome.map(|established| Met {
        established,
        paired: true,
    }))
}

/// A host that has several addresses is tried at the next one after this time without an answer
/// (RFC 8305, section 5, recommends 250 ms).
const DIAL: Duration = Duration::from_millis(250);

fn attempt(
    shared: &Shared,
    who: &Acquaintance<'_>,
    trust: &Trust,
    batch: &mut RecvBatch,
) -> Result<Option<Established>, HandshakeError> {
    let began = clock::now();
    let mut paths = who.paths.to_vec();
    let mut turn = 0;
    while !shared.stopping() {
        let Some(path) = paths.get(turn % paths.len().max(1)) else {
            break;
        };
        shared.paths.begin(*path);
        let (round, alone) = (turn / paths.len(), paths.len() == 1);
        let patience = match (alone, round) {
            // It may be a host without IP.
            (true, 0) if who.only.is_none() => Some(DIAL * 4),
            (true, _) => None,
            // Far hosts answer later.
            (false, round) => Some(DIAL * (1 << round.min(5))),
        };
        match dial(shared, who, trust, patience, batch)? {
            Dialled::Met(established) => return Ok(Some(*established)),
            Dialled::Stopped => return Ok(None),
            Dialled::Silent if clock::now().since(began) >= GIVE_UP => {
                return Err(HandshakeError::TimedOut { after: GIVE_UP });
            }
            Dialled::Silent => turn += 1,
        }
        if turn == who.paths.len() && who.only.is_none() {
            // Nobody answers over IP: a host that is to use raw Ethernet alone does not.
            paths.extend(ethernet_paths(&shared.link, who.paths));
        }
    }
    Ok(None)
}

enum Dialled {
    Met(Box<Established>),
    Silent,
    Stopped,
}

/// Shakes hands over the path that is set, as long as it takes, or for so long as nobody answers.
fn dial(
    shared: &Shared,
    who: &Acquaintance<'_>,
    trust: &Trust,
    patience: Option<Duration>,
    batch: &mut RecvBatch,
) -> Result<Dialled, HandshakeError> {
    let path = shared.paths.now();
    let began = clock::now();
    let mut give_up = patience.map(|patience| began + patience);
    let mut handshake = ClientHandshake::new(began, who.identity, who.name.clone(), trust.clone())?;
    while !shared.stopping() {
        let now = clock::now();
        if give_up.is_some_and(|at| at <= now) {
            return Ok(Dialled::Silent);
        }
        match handshake.handle_timeout(now) {
            Err(HandshakeError::TimedOut { .. }) => return Ok(Dialled::Silent),
            other => other?,
        }
        while let Some(datagram) = handshake.poll_transmit(now) {
            // Sent again if nothing comes back.
            let _ = shared.link.send(path, &datagram, datagram.len());
        }
        let until = handshake.next_timeout().into_iter().chain(give_up).min();
        let timeout = until.map_or(Duration::from_millis(100), |at| at.since(clock::now()));
        if shared.link.recv(batch, Some(timeout)).is_err() {
            return Err(HandshakeError::TimedOut {
                after: Duration::ZERO,
            });
        }
        for (from, datagram) in batch.iter() {
            if from != path || plane_of(datagram) != Ok(Plane::Handshake) {
                continue;
            }
            give_up = None;
            if let Some(established) = handshake.handle_datagram(clock::now(), datagram)? {
                return Ok(Dialled::Met(Box::new(established)));
            }
        }
    }
    Ok(Dialled::Stopped)
}

/// What it means for the person that no session came about.
pub(super) fn no_answer(error: HandshakeError, only: Option<Rung>) -> Over {
    match (error, only) {
        (HandshakeError::TimedOut { after }, Some(rung)) if rung.is_ethernet() => {
            Over::Failed(format!(
                "no link {}: no answer from the host over raw Ethernet in {} s: may it use raw \
                 Ethernet there (it says so when it starts), and does the network carry other than \
                 IP?",
                rung.name(),
                after.as_secs()
            ))
        }
        (error, _) => Over::Handshake(error),
    }
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
