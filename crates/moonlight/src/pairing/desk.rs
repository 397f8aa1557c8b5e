//! The pairing that waits for its PIN or is being completed ([`Desk`]). One pairing runs at a time. A network with
//! several failed pairings has to wait. A network that starts pairing again and again yields to networks that do so
//! less often.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use openuvr_runtime::connection_limits::Network;
use openuvr_runtime::lock::lock;

use super::certificate::ClientCertificate;
use super::exchange::Exchange;

/// How long the user has to enter the PIN. Clients wait at least 90 s.
pub(crate) const PIN_WAIT: Duration = Duration::from_secs(120);

/// Maximum time from the PIN to the end of the pairing. Clients need a second.
const REST: Duration = Duration::from_secs(30);

/// Number of failed pairings after which a network has to wait.
const FREE_FAILURES: u32 = 3;

/// How long a network has to wait after these failures. Trying ten thousand PINs then takes four weeks.
const PENALTY: Duration = Duration::from_secs(12 * 60);

/// Maximum number of remembered networks. The oldest is forgotten.
const MAX_NETWORKS: usize = 256;

/// Why a pairing does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum DeskError {
    /// Another client is pairing.
    #[error("another client is pairing: try again in three minutes")]
    Busy,
    /// Too many pairings from the client's network failed.
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
    /// A step was refused, for example because the client did not prove that it knows the PIN.
    Failed,
    /// No PIN was entered.
    GivenUp,
}

/// The pairing in progress.
struct Running {
    number: u64,
    from: IpAddr,
    until: Instant,
    exchange: Option<Exchange>,
    /// The offered PIN's id, and the name that the user gives the client. `None` before a PIN is entered.
    offered: Option<(String, Option<String>)>,
}

#[derive(Default)]
struct State {
    /// The number of the newest pairing.
    newest: u64,
    running: Option<Running>,
    /// The failed pairings of each network.
    failures: Counts,
    /// The pairings that each network has started.
    attempts: Counts,
}

/// The number of events of each network, and the time of the last event. Once [`PENALTY`] has passed since the last
/// event, the number counts as 0.
#[derive(Default)]
struct Counts(HashMap<Network, (u32, Instant)>);

impl Counts {
    fn of(&self, now: Instant, network: Network) -> u32 {
        match self.0.get(&network) {
            Some((count, last)) if now.saturating_duration_since(*last) < PENALTY => *count,
            _ => 0,
        }
    }

    fn add(&mut self, now: Instant, network: Network) {
        let count = self.of(now, network).saturating_add(1);
        if !self.0.contains_key(&network) && self.0.len() >= MAX_NETWORKS {
            let oldest = self.0.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(network, (count, now));
    }
}

/// The running pairing, and the attempts and failures of each network.
#[derive(Default)]
pub(crate) struct Desk(Mutex<State>);

impl Desk {
    /// Starts the pairing of a client and returns the pairing's number. A running pairing from the same address is
    /// replaced, because its user has started over. A pairing that waits for its PIN is also replaced if its network
    /// had started at least two more pairings than this client's network before this call. Otherwise, a stranger could
    /// keep all other clients from pairing.
    pub(crate) fn start(&self, now: Instant, from: IpAddr) -> Result<u64, DeskError> {
        let mut state = lock(&self.0);
        let network = Network::of(from);
        if state.failures.of(now, network) >= FREE_FAILURES {
            return Err(DeskError::Blocked);
        }
        let attempts = state.attempts.of(now, network);
        let other =
            (state.running.as_ref()).filter(|running| running.from != from && now < running.until);
        if let Some(other) = other {
            let others = state.attempts.of(now, Network::of(other.from));
            if other.exchange.is_some() || others <= attempts.saturating_add(1) {
                return Err(DeskError::Busy);
            }
        }
        state.attempts.add(now, network);
        state.newest += 1;
        let number = state.newest;
        state.running = Some(Running {
            number,
            from,
            until: now + PIN_WAIT,
            exchange: None,
            offered: None,
        });
        Ok(number)
    }

    /// Whether the pairing with this number still waits for its PIN.
    pub(crate) fn waits(&self, now: Instant, number: u64) -> bool {
        let state = lock(&self.0);
        let running = state.running.as_ref();
        running.is_some_and(|r| r.number == number && r.exchange.is_none() && now < r.until)
    }

    /// The address of the client whose pairing waits for its PIN.
    pub(crate) fn waiting(&self, now: Instant) -> Option<IpAddr> {
        let state = lock(&self.0);
        let running = state.running.as_ref();
        let running = running.filter(|r| r.exchange.is_none() && now < r.until)?;
        Some(running.from)
    }

    /// Ends the wait of the pairing with this number.
    pub(crate) fn give_up(&self, number: u64) {
        let waits = |running: &mut Running| running.number == number && running.exchange.is_none();
        lock(&self.0).running.take_if(waits);
    }

    /// Called when the PIN of the pairing with this number has been entered. Returns whether the pairing still waited.
    pub(crate) fn entered(
        &self,
        now: Instant,
        number: u64,
        exchange: Exchange,
        offered: (String, Option<String>),
    ) -> bool {
        let mut state = lock(&self.0);
        let running = state.running.as_mut();
        let Some(running) = running.filter(|r| r.number == number && r.exchange.is_none()) else {
            return false;
        };
        running.exchange = Some(exchange);
        running.offered = Some(offered);
        running.until = now + REST;
        true
    }

    /// Performs a step of the pairing of the client at `from`; `None` if this client has no pairing whose PIN was
    /// entered.
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

    /// The id of the PIN that was offered for the client at `from`, and the client's name.
    pub(crate) fn offered(&self, from: IpAddr) -> Option<(String, Option<String>)> {
        let state = lock(&self.0);
        let running = state
            .running
            .as_ref()
            .filter(|running| running.from == from);
        running.and_then(|running| running.offered.clone())
    }

    /// Ends the pairing of the client at `from`. Returns whether there was one.
    pub(crate) fn end(&self, now: Instant, from: IpAddr, how: PairingEnd) -> bool {
        let mut state = lock(&self.0);
        let of_it = (state.running).take_if(|running| running.from == from);
        match (of_it, how) {
            (None, _) => return false,
            (_, PairingEnd::GivenUp) => return true,
            (_, PairingEnd::Paired) => {
                state.failures.0.remove(&Network::of(from));
                state.attempts.0.remove(&Network::of(from));
                return true;
            }
            (_, PairingEnd::Failed) => {}
        }
        state.failures.add(now, Network::of(from));
        true
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
        let first = desk.start(now, address(1)).unwrap();
        assert_eq!(desk.start(now, address(2)), Err(DeskError::Busy));
        assert!(desk.waits(now, first));
        // The first client's user starts over, so the earlier request no longer waits.
        let second = desk.start(now, address(1)).unwrap();
        assert!(!desk.waits(now, first) && desk.waits(now, second));
        assert_eq!(desk.waiting(now), Some(address(1)));
        let later = now + PIN_WAIT;
        assert!(!desk.waits(later, second));
        assert_eq!(desk.waiting(later), None);
        assert!(desk.start(later, address(2)).is_ok());
    }

    #[test]
    fn a_client_that_occupies_the_desk_yields_to_others() {
        let (desk, now) = (Desk::default(), Instant::now());
        let (stranger, owner) = (address(1), address(2));
        assert!(desk.start(now, stranger).is_ok());
        assert_eq!(desk.start(now, owner), Err(DeskError::Busy));
        // The stranger starts again as soon as its time is up.
        let later = now + PIN_WAIT;
        let second = desk.start(later, stranger).unwrap();
        let owners = desk.start(later, owner).unwrap();
        assert!(!desk.waits(later, second) && desk.waits(later, owners));
        assert_eq!(desk.start(later, stranger), Err(DeskError::Busy));
        assert_eq!(desk.waiting(later), Some(owner));
    }

    #[test]
    fn failed_pairings_make_a_network_wait() {
        let (desk, now) = (Desk::default(), Instant::now());
        for _ in 0..FREE_FAILURES {
            assert!(desk.start(now, address(1)).is_ok());
            desk.end(now, address(1), PairingEnd::Failed);
        }
        assert_eq!(desk.start(now, address(1)), Err(DeskError::Blocked));
        assert!(desk.start(now, address(2)).is_ok());
        desk.end(now, address(2), PairingEnd::Paired);
        let later = now + PENALTY;
        assert!(desk.start(later, address(1)).is_ok());
        desk.end(later, address(1), PairingEnd::Failed);
        assert!(desk.start(later, address(1)).is_ok());
    }

    #[test]
    fn given_up_pairings_neither_count_nor_forgive() {
        let (desk, now) = (Desk::default(), Instant::now());
        for _ in 0..2 * FREE_FAILURES {
            assert!(desk.start(now, address(1)).is_ok());
            desk.end(now, address(1), PairingEnd::GivenUp);
        }
        for _ in 0..FREE_FAILURES {
            assert!(desk.start(now, address(1)).is_ok());
            desk.end(now, address(1), PairingEnd::Failed);
        }
        // Without a running pairing, nothing ends.
        assert!(!desk.end(now, address(1), PairingEnd::Paired));
        assert_eq!(desk.start(now, address(1)), Err(DeskError::Blocked));
    }

    #[test]
    fn addresses_of_one_network_share_their_failures() {
        let (desk, now) = (Desk::default(), Instant::now());
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 1..=FREE_FAILURES {
            let from = of(&format!("2001:db8::{host}"));
            assert!(desk.start(now, from).is_ok());
            desk.end(now, from, PairingEnd::Failed);
        }
        assert_eq!(desk.start(now, of("2001:db8::99")), Err(DeskError::Blocked));
        assert!(desk.start(now, of("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let (desk, now) = (Desk::default(), Instant::now());
        for number in 0..2000_u32 {
            let from = IpAddr::from(number.to_be_bytes());
            desk.start(now, from).unwrap();
            desk.end(now, from, PairingEnd::Failed);
        }
        let state = lock(&desk.0);
        assert_eq!(state.failures.0.len(), MAX_NETWORKS);
        assert_eq!(state.attempts.0.len(), MAX_NETWORKS);
    }
}
