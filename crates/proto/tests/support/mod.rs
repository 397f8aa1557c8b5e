//! Shared parts of the tests in this folder.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::host::{Host, HostPolicy, SecondPlayer};
use openuvr_proto::id::SessionId;
use openuvr_proto::input::keys::Keys;

/// The result of a handshake. Both peers use it.
pub(crate) fn established() -> Established {
    Established {
        session: SessionId(0x0a0b_0c0d),
        #[allow(clippy::cast_possible_truncation, reason = "32 places")]
        secret: SessionSecret(std::array::from_fn(|i| i as u8)),
        peer: PublicKey([9; 32]),
        version: 1,
    }
}

/// A host that encodes with codec 1. A second player cannot take over.
#[allow(dead_code, reason = "not every test has a host")]
pub(crate) fn host(max_observers: usize) -> Host {
    Host::new(HostPolicy {
        name: "host".into(),
        codecs: 1 << 1,
        second_player: SecondPlayer::Refuse,
        max_observers,
        keys: Keys::default(),
        streams: Vec::new(),
    })
}

/// The offer of a client that decodes these codecs, without constraints.
#[allow(dead_code, reason = "not every test has a client")]
pub(crate) fn offer(role: Role, codecs: u32) -> Offer {
    Offer {
        role,
        take_over: false,
        codecs,
        name: String::new(),
        software: String::new(),
        constraints: ClientConstraints::default(),
        streams: Vec::new(),
    }
}
