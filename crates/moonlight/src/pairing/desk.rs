//! Where pairings wait for their PIN: one at a time, and few from a network that was refused.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use openuvr_runtime::lock::lock;

use super::certificate::ClientCertificate;
use super::exchange::Exchange;

/// How long a person has to enter the PIN; clients wait 90 s and more.
pub(crate) const PIN_WAIT: Duration = Duration::from_secs(120);

/// From the PIN to the end: clients need a second.
const REST: Duration = Duration::from_secs(30);

/// Failed pairings of a network before it has to wait …
const FREE_FAILURES: u32 = 3;

/// … and for how long: ten thousand PINs take four weeks then.
const PENALTY: Duration = Duration::from_secs(12 * 60);

/// Remembered networks; the oldest is forgotten.
const MAX_NETWORKS: usize = 256;

/// Why no pairing begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum DeskError {
    /// Another client is pairing.
    #[error("another client is pairing: try again in two minutes")]
    Busy,
    /// Too many pairings from its network failed.
    #[error("too many failed pairings: try again in twelve minutes")]
    Blocked,
}

/// A client in its first step.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) salt: [u8; 16],
    pub(crate) certificate: ClientCertificate,
}

/// How a pairing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PairingEnd {
    /// The client has paired.
    Paired,
    /// A PIN was entered, and the client did not prove it.
    Failed,
    /// No PIN was entered.
    GivenUp,
}

/// The pairing that runs.
struct Running {
    from: IpAddr,
    until: Instant,
    exchange: Option<Exchange>,
    /// The offer of its PIN: its id, and the name that a person gives the client.
    offered: Option<(String, Option<String>)>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// Failures of each network, and the time of the last.
    failures: HashMap<IpAddr, (u32, Instant)>,
}

/// The desk.
#[derive(Default)]
pub(crate) struct Desk(Mutex<State>);

/// The unit of limits: an IPv4 address, or the first 64 bits of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
    }
}

impl Desk {
    /// A client begins to pair. A running pairing from the same address is replaced: its user has started over.
    pub(crate) fn start(&self, now: Instant, from: IpAddr) -> Result<(), DeskError> {
        let mut state = lock(&self.0);
        let blocked = state
            .failures
            .get(&network(from))
            .is_some_and(|(count, last)| {
                *count >= FREE_FAILURES && now.saturating_duration_since(*last) < PENALTY
            });
        if blocked {
            return Err(DeskError::Blocked);
        }
        let other =
            (state.running.as_ref()).filter(|running| running.from != from && now < running.until);
        if other.is_some() {
            return Err(DeskError::Busy);
        }
        state.running = Some(Running {
            from,
            until: now + PIN_WAIT,
            exchange: None,
            offered: None,
        });
        Ok(())
    }

    /// Whether a client still waits for its PIN.
    pub(crate) fn waits(&self, now: Instant, from: IpAddr) -> bool {
        let state = lock(&self.0);
        let running = state.running.as_ref();
        running.is_some_and(|r| r.from == from && r.exchange.is_none() && now < r.until)
    }

    /// The PIN was entered.
    pub(crate) fn entered(
        &self,
        now: Instant,
        exchange: Exchange,
        offered: (String, Option<String>),
    ) {
        if let Some(running) = &mut lock(&self.0).running {
            running.exchange = Some(exchange);
            running.offered = Some(offered);
            running.until = now + REST;
        }
    }

    /// Does a step of the pairing of the client at `from`; `None`: none runs.
    pub(crate) fn step<T>(
        &self,
        now: Instant,
        from: IpAddr,
        step: impl FnOnce(&mut Exchange) -> T,
    ) -> Option<T> {
        let mut state = lock(&self.0);
        let running = state.running.as_mut();
        let running = running.filter(|running| running.from == from && now < running.until)?;
        running.exchange.as_mut().map(step)
    }

    /// The offer of the PIN of the client at `from`: its id, and the client's name.
    pub(crate) fn offered(&self, from: IpAddr) -> Option<(String, Option<String>)> {
        let state = lock(&self.0);
        let running = state
            .running
            .as_ref()
            .filter(|running| running.from == from);
        running.and_then(|running| running.offered.clone())
    }

    /// The pairing of the client at `from` is over.
    pub(crate) fn end(&self, now: Instant, from: IpAddr, how: PairingEnd) {
        let mut state = lock(&self.0);
        let of_it = (state.running).take_if(|running| running.from == from);
        match (of_it, how) {
            (None, _) | (_, PairingEnd::GivenUp) => return,
            (_, PairingEnd::Paired) => {
                state.failures.remove(&network(from));
                return;
            }
            (_, PairingEnd::Failed) => {}
        }
        let known = state.failures.contains_key(&network(from));
        if !known && state.failures.len() >= MAX_NETWORKS {
            let oldest = state.failures.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                state.failures.remove(&oldest);
            }
        }
        let entry = state.failures.entry(network(from)).or_insert((0, now));
        if now.saturating_duration_since(entry.1) >= PENALTY {
            entry.0 = 0;
        }
        *entry = (entry.0.saturating_add(1), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_client_pairs_at_a_time() {
        let (desk, now) = (Desk::default(), Instant::now());
        assert_eq!(desk.start(now, address(1)), Ok(()));
        assert_eq!(desk.start(now, address(2)), Err(DeskError::Busy));
        assert!(desk.waits(now, address(1)) && !desk.waits(now, address(2)));
        // Its user starts over.
        assert_eq!(desk.start(now, address(1)), Ok(()));
        let later = now + PIN_WAIT;
        assert!(!desk.waits(later, address(1)));
        assert_eq!(desk.start(later, address(2)), Ok(()));
    }

    #[test]
    fn failed_pairings_make_a_network_wait() {
        let (desk, now) = (Desk::default(), Instant::now());
        for _ in 0..FREE_FAILURES {
            assert_eq!(desk.start(now, address(1)), Ok(()));
            desk.end(now, address(1), PairingEnd::Failed);
        }
        assert_eq!(desk.start(now, address(1)), Err(DeskError::Blocked));
        assert_eq!(desk.start(now, address(2)), Ok(()));
        desk.end(now, address(2), PairingEnd::Paired);
        let later = now + PENALTY;
        assert_eq!(desk.start(later, address(1)), Ok(()));
        desk.end(later, address(1), PairingEnd::Failed);
        assert_eq!(desk.start(later, address(1)), Ok(()));
    }

    #[test]
    fn given_up_pairings_neither_count_nor_forgive() {
        let (desk, now) = (Desk::default(), Instant::now());
        for _ in 0..2 * FREE_FAILURES {
            assert_eq!(desk.start(now, address(1)), Ok(()));
            desk.end(now, address(1), PairingEnd::GivenUp);
        }
        for _ in 0..FREE_FAILURES {
            assert_eq!(desk.start(now, address(1)), Ok(()));
            desk.end(now, address(1), PairingEnd::Failed);
        }
        // Without a running pairing nothing ends.
        desk.end(now, address(1), PairingEnd::Paired);
        assert_eq!(desk.start(now, address(1)), Err(DeskError::Blocked));
    }

    #[test]
    fn addresses_of_one_network_share_their_failures() {
        let (desk, now) = (Desk::default(), Instant::now());
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 1..=FREE_FAILURES {
            let from = of(&format!("2001:db8::{host}"));
            assert_eq!(desk.start(now, from), Ok(()));
            desk.end(now, from, PairingEnd::Failed);
        }
        assert_eq!(desk.start(now, of("2001:db8::99")), Err(DeskError::Blocked));
        assert_eq!(desk.start(now, of("2001:db8:0:1::1")), Ok(()));
    }

    #[test]
    fn memory_is_bounded() {
        let (desk, now) = (Desk::default(), Instant::now());
        for number in 0..2000_u32 {
            let from = IpAddr::from(number.to_be_bytes());
            desk.start(now, from).unwrap();
            desk.end(now, from, PairingEnd::Failed);
        }
        assert_eq!(lock(&desk.0).failures.len(), MAX_NETWORKS);
    }
}
