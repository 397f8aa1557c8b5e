//! The way to a session: by PIN the first time, by key afterwards.

use std::time::Duration;

use openuvr_net::{Link, RecvBatch};
use openuvr_proto::control::handshake::{ClientHandshake, Established, HandshakeError, Trust};
use openuvr_proto::control::identity::{DeviceName, Identity, PublicKey};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::PathId;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::Shared;
use crate::clock;

/// Who meets whom.
pub(super) struct Acquaintance<'a> {
    pub(super) identity: &'a Identity,
    pub(super) name: &'a DeviceName,
    pub(super) pin: Option<&'a Pin>,
    pub(super) known: Option<PublicKey>,
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
        match attempt(shared, who, Trust::Known(key), batch) {
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
    let outcome = attempt(shared, who, Trust::Pin(pin.clone()), batch)?;
    Ok(outcome.map(|established| Met {
        established,
        paired: true,
    }))
}

fn attempt(
    shared: &Shared,
    who: &Acquaintance<'_>,
    trust: Trust,
    batch: &mut RecvBatch,
) -> Result<Option<Established>, HandshakeError> {
    let now = clock::now();
    let mut handshake = ClientHandshake::new(now, who.identity, who.name.clone(), trust)?;
    while !shared.stopping() {
        let now = clock::now();
        handshake.handle_timeout(now)?;
        while let Some(datagram) = handshake.poll_transmit(now) {
            // Sent again if nothing comes back.
            let _ = shared.link.send(shared.path, &datagram, datagram.len());
        }
        let until = handshake.next_timeout();
        let timeout = until.map_or(Duration::from_millis(100), |at| at.since(clock::now()));
        if shared.link.recv(batch, Some(timeout)).is_err() {
            return Err(HandshakeError::TimedOut {
                after: Duration::ZERO,
            });
        }
        for (from, datagram) in batch.iter() {
            if !is_handshake(shared.path, from, datagram) {
                continue;
            }
            if let Some(established) = handshake.handle_datagram(clock::now(), datagram)? {
                return Ok(Some(established));
            }
        }
    }
    Ok(None)
}

fn is_handshake(host: PathId, from: PathId, datagram: &[u8]) -> bool {
    from == host && plane_of(datagram) == Ok(Plane::Handshake)
}

/// Waits out a pause between two attempts, throwing away what arrives.
pub(super) fn pause(shared: &Shared, span: Duration, link: &dyn Link, batch: &mut RecvBatch) {
    let until = clock::now() + span;
    while !shared.stopping() && clock::now() < until {
        if link.recv(batch, Some(until.since(clock::now()))).is_err() {
            std::thread::sleep(until.since(clock::now()));
        }
    }
}
