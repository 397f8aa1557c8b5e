//! Establishes a session: tries the host's addresses and performs the handshake with the first address that answers.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::control::handshake::{
    ClientHandshake, Established, HANDSHAKE_TIMEOUT, HandshakeError, Trust,
};
use openuvr_proto::control::identity::{DeviceName, Identity};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::config::Opened;
use super::transport_probing::ethernet_paths;
use super::{Shared, StopReason};

impl Opened {
    /// Whether the host answers at one of its addresses within `timeout`. Call it before prompting for a PIN. Only the
    /// first handshake message is sent, which costs the host nothing and does not count as a PIN attempt. If there is
    /// no answer over IP within a second, raw Ethernet is also tried. This function blocks, so call it before the
    /// client is started.
    ///
    /// # Errors
    /// Returns an error if the host's answer rules out a session.
    pub fn host_responds(&self, timeout: Duration) -> Result<bool, HandshakeError> {
        let began = clock::now();
        let until = began + timeout;
        // The PIN is arbitrary, because no message sent here depends on it.
        let trust = Trust::Pin(Pin::generate()?);
        let mut greeting = ClientHandshake::new(began, &self.identity, self.name.clone(), trust)?;
        let mut batch = RecvBatch::default();
        let mut paths = self.paths.clone();
        let mut without_ip = self.only.is_none().then_some(began + IP_TIMEOUT);
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
                    // Ignore errors, because the datagram is retransmitted if there is no answer.
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

/// Parameters of a connection attempt.
pub(super) struct ConnectOptions<'a> {
    pub(super) identity: &'a Identity,
    pub(super) name: &'a DeviceName,
    /// How the host is authenticated.
    pub(super) trust: &'a Trust,
    /// Candidate paths to the host.
    pub(super) paths: &'a [PathId],
    /// The forced transport, if any.
    pub(super) only: Option<TransportKind>,
    /// Whether the client reconnects to a lost host. If so, each attempt is short, because the round-trip time is
    /// known. All attempts together end after [`RECONNECT_ROUND`], because the host may return at another address.
    pub(super) lost: bool,
}

/// The reason why no session was established.
pub(super) enum ConnectError {
    Handshake(HandshakeError),
    /// Nothing could be sent to the host, for example because there is no network or a local firewall blocks it. This
    /// error is transient.
    Unsent(String),
    /// Receiving failed permanently.
    Broken(String),
}

impl From<HandshakeError> for ConnectError {
    fn from(e: HandshakeError) -> ConnectError {
        ConnectError::Handshake(e)
    }
}

impl ConnectError {
    /// Whether a retry may succeed if the host was reached before. Apart from a refused ticket, an unauthenticated
    /// refusal never ends reconnection, because an on-path attacker can forge it.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            ConnectError::Handshake(e) => matches!(
                e,
                HandshakeError::TimedOut { .. }
                    | HandshakeError::Busy { .. }
                    | HandshakeError::NotTheHost
                    | HandshakeError::UnknownDevice
                    | HandshakeError::PairingClosed
                    | HandshakeError::Version { .. }
            ),
            ConnectError::Unsent(_) => true,
            ConnectError::Broken(_) => false,
        }
    }

    /// The warning to show to the user; `None` for a plain timeout.
    pub(super) fn warning(self) -> Option<String> {
        match self {
            ConnectError::Handshake(HandshakeError::TimedOut { .. }) => None,
            ConnectError::Handshake(e) => Some(format!("{e}; reconnecting")),
            ConnectError::Unsent(why) | ConnectError::Broken(why) => Some(why),
        }
    }

    /// The stop reason to show to the user.
    pub(super) fn stop_reason(self, only: Option<TransportKind>) -> StopReason {
        match (self, only) {
            (ConnectError::Handshake(HandshakeError::TimedOut { after }), Some(transport))
                if transport.is_ethernet() =>
            {
                StopReason::Failed(format!(
                    "link {} is unavailable: no answer from the host over raw Ethernet in {} s: check that raw \
                     Ethernet is enabled there (the host prints its transports when it starts), and that the \
                     network carries non-IP frames",
                    transport.name(),
                    after.as_secs()
                ))
            }
            (ConnectError::Handshake(e), _) => StopReason::Handshake(e),
            (ConnectError::Unsent(why), _) => {
                StopReason::Failed(format!("host unreachable: {why}"))
            }
            (ConnectError::Broken(why), _) => StopReason::Failed(why),
        }
    }
}

/// If the host has several addresses and one does not answer within this time, the next address is tried (RFC 8305,
/// section 5, recommends 250 ms). When all of them have been tried, each is tried again, for a longer time.
const DIAL_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a lost host's old addresses are tried before its name is resolved again.
const RECONNECT_ROUND: Duration = Duration::from_secs(2);

/// If there is no answer over IP within this time, `Opened::host_responds` also tries raw Ethernet. So does `connect`
/// for a host with one address. For a host with several addresses, `connect` tries raw Ethernet after it has tried each
/// address once.
const IP_TIMEOUT: Duration = Duration::from_secs(1);

/// Performs the handshake at the first address that answers. Returns `None` if the client stops.
pub(super) fn connect(
    shared: &Shared,
    options: &ConnectOptions<'_>,
    batch: &mut RecvBatch,
) -> Result<Option<Established>, ConnectError> {
    let began = clock::now();
    let limit = match options.lost {
        true => RECONNECT_ROUND,
        false => HANDSHAKE_TIMEOUT,
    };
    let mut paths = options.paths.to_vec();
    let mut turn = 0;
    // A send error is reported only if sending failed for every address.
    let (mut sent, mut unsent) = (false, None);
    while !shared.stopping() {
        let Some(path) = paths.get(turn % paths.len().max(1)) else {
            break;
        };
        shared.paths.reset(*path);
        let (round, alone) = (turn / paths.len(), paths.len() == 1);
        let timeout = match (alone, round) {
            // The host may be reachable only over raw Ethernet, which is tried next.
            (true, 0) if options.only.is_none() => Some(IP_TIMEOUT),
            (true, _) if options.lost => Some(IP_TIMEOUT),
            (true, _) => None,
            // Each round waits longer, because distant hosts answer later.
            (false, round) => {
                Some(DIAL_TIMEOUT * (1 << round.min(if options.lost { 1 } else { 5 })))
            }
        };
        match dial(shared, options, timeout, batch)? {
            DialOutcome::Connected(established) => return Ok(Some(*established)),
            DialOutcome::Stopped => return Ok(None),
            DialOutcome::NoAnswer => {
                let why = shared.unsent();
                sent |= why.is_none();
                unsent = why.or(unsent);
            }
        }
        if clock::now().since(began) >= limit {
            return Err(match unsent {
                Some(why) if !sent => ConnectError::Unsent(why),
                _ => HandshakeError::TimedOut { after: limit }.into(),
            });
        }
        turn += 1;
        if turn == options.paths.len() && options.only.is_none() {
            // There was no answer over IP: the host may use only raw Ethernet.
            paths.extend(ethernet_paths(&shared.link, options.paths));
        }
    }
    Ok(None)
}

enum DialOutcome {
    Connected(Box<Established>),
    NoAnswer,
    Stopped,
}

/// Performs the handshake over the current path. Gives up if the first answer does not arrive within `timeout`.
fn dial(
    shared: &Shared,
    options: &ConnectOptions<'_>,
    timeout: Option<Duration>,
    batch: &mut RecvBatch,
) -> Result<DialOutcome, ConnectError> {
    let path = shared.paths.current();
    let began = clock::now();
    let mut give_up = timeout.map(|timeout| began + timeout);
    let mut handshake = ClientHandshake::new(
        began,
        options.identity,
        options.name.clone(),
        options.trust.clone(),
    )?;
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
            return Err(ConnectError::Broken(format!("receiving failed: {e}")));
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

/// Waits between two attempts and discards arriving datagrams.
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
