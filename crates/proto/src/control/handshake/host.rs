//! The host's side of many concurrent handshakes. It keeps no state for a client before the client has proved its
//! address, and trusts no client before the client has proved its identity.

mod finish;
mod shown_ticket;
mod typed_pin;

use std::collections::VecDeque;
use std::time::Duration;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes as _, IntoBytes};
use zeroize::{Zeroize, Zeroizing};

use super::begin_keys::BeginKeys;
use super::layout::{
    Answer, AnswerPayload, Challenge, Hello, Kind, Opening, Pattern, Reason, ReceivedBegin,
    Refused, TicketPayload,
};
use super::noise::{Noise, Prologue, is_tagged, ticket_begin_key};
use super::{
    Established, HALF_OPEN_TIMEOUT, HandshakeError, MAX_HALF_OPEN, PAIRINGS_PER_NETWORK,
    PAIRINGS_PER_SECOND, RECONNECTIONS_PER_DEVICE, RECONNECTIONS_PER_SECOND, Versions,
};
use crate::control::budget::Budget;
use crate::control::cookie::CookieJar;
use crate::control::identity::{
    ClientId, DeviceName, Identity, NoRandomness, PublicKey, random, sha256,
};
use crate::control::negotiate::Role;
use crate::control::pairing::{PairingWindow, Pin, PinExchange, SPAKE_MESSAGE, TryDenied};
use crate::control::ticket::{SignedTicket, TicketGate, TicketRefused, UnixTime};
use crate::id::{PathId, SessionId};
use crate::time::Instant;

pub use self::typed_pin::{PinRefused, foreign_key};

/// The handshakes of one host with all its clients. Pass every datagram of the handshake plane to it. It answers each
/// datagram at most once, and an answer is never longer than the datagram.
pub struct HostHandshake {
    identity: Identity,
    versions: Versions,
    cookies: CookieJar,
    window: Option<PairingWindow>,
    windows: u64,
    /// The handshakes, oldest first; at most [`MAX_HALF_OPEN`] of each pattern.
    halves: VecDeque<HalfOpen>,
    /// The budget for pairings, by network.
    pairings: Budget<[u8; 16]>,
    /// The budget for tickets, by network.
    ticket_holders: Budget<[u8; 16]>,
    /// The budget for reconnections, by device.
    reconnections: Budget<ClientId>,
    begin_keys: BeginKeys,
    /// Verifies tickets against the time in `time_of_day`.
    tickets: Option<TicketGate>,
    time_of_day: UnixTime,
    /// Events that have not been polled. A pairing window causes at most [`super::MAX_TRIES`] events for wrong PINs,
    /// and one event when it closes. Each rejected ticket causes one event.
    events: VecDeque<PairingEvent>,
}

/// The host's record of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceStatus {
    /// The host has never paired with the client, or has forgotten it.
    Unknown,
    /// The client is paired and allowed. This is its key.
    Allowed(PublicKey),
    /// The client is paired but forbidden: the host rejects this key, and the client's PINs. The host reports this only
    /// to a client that has proved possession of the key.
    Forbidden(PublicKey),
}

/// An event of the pairing window or of a ticket, for the user at the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairingEvent {
    /// A client tried a wrong PIN.
    WrongPin {
        /// The client's path.
        from: PathId,
        /// Remaining tries of the client's network in this window.
        tries_left: u32,
    },
    /// A forbidden device tried to pair with the right PIN. This counts as a wrong PIN.
    ForbiddenTried {
        /// The client's path.
        from: PathId,
        /// Remaining tries of the client's network in this window.
        tries_left: u32,
    },
    /// The window expired.
    Expired,
    /// The window closed after too many wrong PINs.
    TooManyWrong,
    /// A ticket was rejected.
    TicketRefused {
        /// The client's path.
        from: PathId,
        /// The reason.
        why: TicketRefused,
    },
}

/// The result of handling a datagram.
#[derive(Debug, Default)]
pub struct Reaction {
    /// A reply to the sender.
    pub reply: Option<Vec<u8>>,
    /// A new session: its path, its keys and its authentication method.
    pub established: Option<(PathId, Established, Paired)>,
}

/// How a client authenticated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Paired {
    /// By PIN: store the client's key under this name. The name may be empty, or another device may have the same one.
    New {
        /// The name that the device gives itself.
        name: DeviceName,
    },
    /// By ticket: do not store the client's key.
    Ticket {
        /// The name that the device gives itself.
        name: DeviceName,
        /// The highest role that the ticket grants.
        role: Role,
    },
    /// By the client's stored key, or by a key that a ticket admitted before.
    Known,
}

/// The state of the pairing window.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PairingStatus {
    /// Expiry time.
    pub(super) closes: Instant,
    /// Number of wrong PINs that the window still accepts.
    pub(super) tries_left: u32,
}

struct HalfOpen {
    from: PathId,
    of: QuotaOwner,
    /// Digest of the Begin that opened the handshake. A repeated Begin gets the same Answer.
    begin: [u8; 32],
    nonce: [u8; 16],
    session: SessionId,
    pattern: Pattern,
    version: u8,
    expires: Instant,
    answer: Vec<u8>,
    key: Zeroizing<[u8; 32]>,
    stage: Stage,
}

/// The owner of the quota against which a handshake counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuotaOwner {
    /// For pairings and tickets: the network.
    Network([u8; 16]),
    /// For reconnections: the device.
    Device(ClientId),
}

enum Stage {
    Answered(Noise, Claim),
    /// The handshake is completed. A repeated Finish gets the same reply.
    Ended {
        finish: [u8; 32],
        reply: Vec<u8>,
    },
}

/// The credential that a client presents.
enum Claim {
    /// The PIN of the window with this serial number.
    Pin { window: u64 },
    /// The client's stored key.
    Key { id: ClientId, key: PublicKey },
    /// A ticket.
    Ticket(Box<TicketClaim>),
}

/// A ticket and the device that presents it.
struct TicketClaim {
    device: PublicKey,
    name: DeviceName,
    ticket: Result<SignedTicket, TicketRefused>,
}

/// A refusal: the reason, and the seconds to wait. The wait is zero unless the host is busy.
struct Refusal(Reason, u16);

impl HostHandshake {
    /// Creates the state of a host without an open pairing window.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`] if the system provides no random bytes.
    pub fn new(identity: &Identity) -> Result<HostHandshake, HandshakeError> {
        Self::with_versions(identity, Versions::OURS)
    }

    /// Like [`HostHandshake::new`], but for a program that supports `versions`.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`] if the system provides no random bytes.
    pub fn with_versions(
        identity: &Identity,
        versions: Versions,
    ) -> Result<HostHandshake, HandshakeError> {
        Ok(HostHandshake {
            identity: identity.clone(),
            versions,
            cookies: CookieJar::new()?,
            window: None,
            windows: 0,
            halves: VecDeque::new(),
            pairings: Budget::new(PAIRINGS_PER_SECOND, PAIRINGS_PER_NETWORK),
            ticket_holders: Budget::new(PAIRINGS_PER_SECOND, PAIRINGS_PER_NETWORK),
            reconnections: Budget::new(RECONNECTIONS_PER_SECOND, RECONNECTIONS_PER_DEVICE),
            begin_keys: BeginKeys::default(),
            tickets: None,
            time_of_day: UnixTime(0),
            events: VecDeque::new(),
        })
    }

    /// Accepts tickets that `gate` admits. Call [`HostHandshake::time_of_day`] before the first ticket arrives.
    pub fn take_tickets(&mut self, gate: TicketGate) {
        self.tickets = Some(gate);
    }

    /// Whether this host accepts tickets. If it does, call [`HostHandshake::time_of_day`] before each datagram.
    #[must_use]
    pub fn takes_tickets(&self) -> bool {
        self.tickets.is_some()
    }

    /// Sets the wall-clock time against which tickets are verified.
    pub fn time_of_day(&mut self, now: UnixTime) {
        self.time_of_day = now;
    }

    /// The highest role of the device with this key; `None` if no ticket has admitted the device.
    #[must_use]
    pub fn admitted(&self, device: &PublicKey) -> Option<Role> {
        self.tickets.as_ref()?.admitted(device)
    }

    /// The next event of the pairing window or of a ticket.
    pub fn poll_event(&mut self) -> Option<PairingEvent> {
        self.events.pop_front()
    }

    /// Opens a pairing window for the time `span` from `now`, in which one client can pair with `pin`. An open window
    /// is replaced. The new window closes after its first success.
    pub fn open_pairing(&mut self, now: Instant, pin: Pin, span: Duration) {
        self.windows += 1;
        self.window = Some(PairingWindow::open(self.windows, now, pin, span));
    }

    /// The pairing window, if one is open at `now`.
    #[cfg(test)]
    pub(super) fn pairing(&self, now: Instant) -> Option<PairingStatus> {
        let window = self.window.as_ref()?;
        (now < window.closes()).then(|| PairingStatus {
            closes: window.closes(),
            tries_left: window.tries_left(),
        })
    }

    /// The number of half-open and just completed handshakes.
    #[cfg(test)]
    pub(super) fn half_open(&self) -> usize {
        self.halves.len()
    }

    /// The next time at which a handshake or the pairing window expires.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let halves = self.halves.iter().map(|half| half.expires);
        halves
            .chain(self.window.as_ref().map(PairingWindow::closes))
            .min()
    }

    /// Drops expired state.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.halves.retain(|half| now < half.expires);
        if self.window.take_if(|w| now >= w.closes()).is_some() {
            self.events.push_back(PairingEvent::Expired);
        }
    }

    /// Handles a datagram from `from`. `standing` returns the host's record of a client. It is called at most once per
    /// datagram, and only if the client has proved its address.
    ///
    /// A datagram that is not a handshake message, or is damaged, forged or late, establishes no session.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Reaction {
        self.handle_timeout(now);
        match Kind::of(datagram) {
            Some(Kind::Hello) => Reaction {
                reply: self.answer_hello(now, from, datagram),
                established: None,
            },
            Some(Kind::Begin) => Reaction {
                reply: self.answer_begin(now, from, datagram, standing),
                established: None,
            },
            Some(Kind::Finish) => self
                .answer_finish(now, from, datagram, standing)
                .unwrap_or_default(),
            Some(Kind::Challenge | Kind::Answer | Kind::Confirm | Kind::Refused) | None => {
                Reaction::default()
            }
        }
    }

    fn answer_hello(&mut self, now: Instant, from: PathId, datagram: &[u8]) -> Option<Vec<u8>> {
        let hello = Hello::parse(datagram)?;
        if self.versions.agree(hello.versions.into()).is_none() {
            return Some(self.refused(hello.nonce, &Refusal(Reason::Version, 0)));
        }
        let cookie = self.cookies.create(now, from, &hello.nonce).ok()?;
        let challenge = Challenge::new(self.versions, hello.nonce, cookie);
        Some(challenge.as_bytes().to_vec())
    }

    fn answer_begin(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Option<Vec<u8>> {
        let begin = ReceivedBegin::parse(datagram)?;
        if !self
            .cookies
            .is_valid(now, from, &begin.nonce, &begin.cookie)
        {
            return None;
        }
        let digest = sha256(&[datagram]);
        if let Some(half) = self
            .halves
            .iter()
            .find(|h| h.from == from && h.begin == digest)
        {
            return Some(half.answer.clone());
        }
        let Some(version) = self.versions.agree(begin.versions) else {
            return Some(self.refused(begin.nonce, &Refusal(Reason::Version, 0)));
        };
        match self.open(now, from, datagram, &begin, version, standing) {
            Ok(mut half) => {
                half.begin = digest;
                let answer = half.answer.clone();
                self.make_room(half.pattern);
                self.halves.push_back(half);
                Some(answer)
            }
            Err(Rejection::With(refusal)) => Some(self.refused(begin.nonce, &refusal)),
            Err(Rejection::Silently) => None,
        }
    }

    /// If the limit for this pattern is reached, evicts a handshake of this pattern: the oldest of the owner with the
    /// most handshakes.
    fn make_room(&mut self, pattern: Pattern) {
        let same = |half: &&HalfOpen| half.pattern == pattern;
        if self.halves.iter().filter(same).count() < MAX_HALF_OPEN {
            return;
        }
        let held = |of: &HalfOpen| self.halves.iter().filter(|h| h.of == of.of).count();
        // Of several equal elements, `max_by_key` returns the last. In reverse order, this is the oldest.
        let all = self.halves.iter().enumerate().rev();
        let most = all.filter(|(_, half)| same(half));
        if let Some((index, _)) = most.max_by_key(|(_, half)| held(half)) {
            self.halves.remove(index);
        }
    }

    /// Does the expensive work for a client that has proved its address: the X25519 operations of the first two Noise
    /// messages and, at pairing, one SPAKE2 exchange.
    fn open(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
        begin: &ReceivedBegin<'_>,
        version: u8,
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Result<HalfOpen, Rejection> {
        let (claim, pin) = match &begin.opening {
            Opening::Pairing(theirs) => {
                let window = self.admitting(now, from)?;
                let claim = Claim::Pin {
                    window: window.serial,
                };
                (Some(claim), Some((window.pin.clone(), theirs)))
            }
            Opening::Ticket => {
                if !is_tagged(&ticket_begin_key(&self.identity.public()), datagram) {
                    return Err(Rejection::Silently);
                }
                if self.tickets.is_none() {
                    return Err(Refusal(Reason::TicketNotTaken, 0).into());
                }
                // The client's identity is in the first Noise message, which has not been read yet.
                (None, None)
            }
            Opening::Reconnection(id) => match self.standing(id, standing) {
                // A forbidden device learns that it is forbidden only after its Finish, which proves that it has the
                // key.
                DeviceStatus::Allowed(key) | DeviceStatus::Forbidden(key) => {
                    let tagged_under = self.begin_keys.with(&self.identity, key);
                    if !tagged_under.is_some_and(|key| is_tagged(key, datagram)) {
                        return Err(Rejection::Silently);
                    }
                    (Some(Claim::Key { id: *id, key }), None)
                }
                DeviceStatus::Unknown => return Err(Refusal(Reason::UnknownDevice, 0).into()),
            },
        };
        let of = match &claim {
            Some(Claim::Key { id, .. }) => QuotaOwner::Device(*id),
            _ => QuotaOwner::Network(from.network()),
        };
        let may = match of {
            QuotaOwner::Network(network) if claim.is_none() => {
                self.ticket_holders.may(now, network)
            }
            QuotaOwner::Network(network) => self.pairings.may(now, network),
            QuotaOwner::Device(id) => self.reconnections.may(now, id),
        };
        // No reply is needed, because an honest client retries.
        if !may {
            return Err(Rejection::Silently);
        }
        let exchange = match pin {
            Some((pin, theirs)) => {
                let (exchange, ours) = PinExchange::host(&pin);
                Some((exchange.finish(theirs).ok_or(Rejection::Silently)?, ours))
            }
            None => None,
        };
        let prologue = Prologue {
            opening: begin.opening,
            nonce: begin.nonce,
            client: begin.versions,
            host: self.versions,
            version,
        };
        let peer = match &claim {
            Some(Claim::Key { key, .. }) => Some(key),
            _ => None,
        };
        let mut noise = Noise::host(&self.identity, peer, &prologue)?;
        let payload = noise.read(begin.noise).ok_or(Rejection::Silently)?;
        let claim = match claim {
            Some(claim) if payload.is_empty() => claim,
            Some(_) => return Err(Rejection::Silently),
            None => Claim::Ticket(Box::new(ticket_claim(&noise, &payload)?)),
        };
        let mut spake = [0; SPAKE_MESSAGE];
        if let Some((psk, ours)) = exchange {
            noise.set_psk(&psk)?;
            spake = ours;
        }
        let pattern = begin.opening.pattern();
        let session = self.free_session()?;
        let key = Zeroizing::new(random()?);
        let mut payload = AnswerPayload {
            session: U32::new(session.0),
            key: *key,
            spake,
        };
        let sealed = noise.write(payload.as_bytes())?;
        payload.key.zeroize();
        let answer =
            Answer::new(session, pattern, begin.nonce, &sealed).ok_or(Rejection::Silently)?;
        Ok(HalfOpen {
            from,
            of,
            begin: [0; 32],
            nonce: begin.nonce,
            session,
            pattern,
            version,
            expires: now + HALF_OPEN_TIMEOUT,
            answer: answer.as_bytes().to_vec(),
            key,
            stage: Stage::Answered(noise, claim),
        })
    }

    /// The host's record of a client. A client that a ticket has admitted counts as allowed.
    fn standing(
        &self,
        id: &ClientId,
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> DeviceStatus {
        let admitted = || self.tickets.as_ref()?.admitted_key(id);
        match standing(id) {
            DeviceStatus::Unknown => {
                admitted().map_or(DeviceStatus::Unknown, DeviceStatus::Allowed)
            }
            known => known,
        }
    }

    /// The pairing window, if it now accepts a try from this path; otherwise the rejection.
    fn admitting(&self, now: Instant, from: PathId) -> Result<&PairingWindow, Rejection> {
        let closed = Refusal(Reason::PairingClosed, 0);
        let Some(window) = &self.window else {
            return Err(closed.into());
        };
        match window.admits(now, from.network()) {
            Ok(()) => Ok(window),
            Err(TryDenied::Closed) => Err(closed.into()),
            Err(TryDenied::Wait(wait)) => {
                let seconds = u16::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u16::MAX);
                Err(Refusal(Reason::Busy, seconds.max(1)).into())
            }
        }
    }

    fn free_session(&self) -> Result<SessionId, NoRandomness> {
        loop {
            let session = SessionId(u32::from_le_bytes(random()?));
            if session != SessionId(0) && self.halves.iter().all(|half| half.session != session) {
                return Ok(session);
            }
        }
    }

    fn refused(&self, nonce: [u8; 16], refusal: &Refusal) -> Vec<u8> {
        let refused = self.refusal(SessionId(0), nonce, refusal);
        refused.as_bytes().to_vec()
    }

    fn refusal(&self, session: SessionId, nonce: [u8; 16], refusal: &Refusal) -> Refused {
        let Refusal(reason, retry_after) = *refusal;
        Refused::new(session, self.versions, nonce, reason, retry_after)
    }
}

/// The ticket and the device in the first message. The first message may be a replay; only the Finish proves that the
/// client is live.
fn ticket_claim(noise: &Noise, payload: &[u8]) -> Result<TicketClaim, Rejection> {
    let payload = TicketPayload::ref_from_bytes(payload).map_err(|_| Rejection::Silently)?;
    Ok(TicketClaim {
        device: noise.peer().ok_or(Rejection::Silently)?,
        name: payload.name(),
        ticket: SignedTicket::from_bytes(payload.ticket()),
    })
}

/// How the host rejects a client.
enum Rejection {
    /// Without a reply. Possible reasons: no honest client sends such a message, the budget is used up, or the machine
    /// provides no random bytes.
    Silently,
    With(Refusal),
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Rejection {
        Rejection::With(refusal)
    }
}

impl From<HandshakeError> for Rejection {
    fn from(_: HandshakeError) -> Rejection {
        Rejection::Silently
    }
}

impl From<NoRandomness> for Rejection {
    fn from(_: NoRandomness) -> Rejection {
        Rejection::Silently
    }
}
