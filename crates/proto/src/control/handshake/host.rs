//! The host's side: many clients at a time, nothing stored for one that has not shown its address,
//! nothing believed of one that has not shown its identity.

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

/// The handshakes of one host with all its clients. Give it every datagram of the handshake plane;
/// it answers each at most once, never with more bytes than it got.
pub struct HostHandshake {
    identity: Identity,
    versions: Versions,
    cookies: CookieJar,
    window: Option<PairingWindow>,
    windows: u64,
    /// Oldest first; at most [`MAX_HALF_OPEN`] of each pattern.
    halves: VecDeque<HalfOpen>,
    /// What is done for those that pair, by their network …
    pairings: Budget<[u8; 16]>,
    /// … for those that show tickets …
    ticket_holders: Budget<[u8; 16]>,
    /// … and for known devices.
    reconnections: Budget<ClientId>,
    begin_keys: BeginKeys,
    /// What takes tickets, and the time by which it judges them.
    tickets: Option<TicketGate>,
    time_of_day: UnixTime,
    /// At most [`super::MAX_TRIES`] and its end for each window that a person opened.
    events: VecDeque<PairingEvent>,
}

/// What a client is to this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceStatus {
    /// Never met, or forgotten.
    Unknown,
    /// Met and welcome; its key.
    Allowed(PublicKey),
    /// Met, and not to be let in, neither by its key, which this is, nor by a PIN. It is told so
    /// when it has proven the key, and to nobody else.
    Forbidden(PublicKey),
}

/// What happened to the pairing window, for the person at the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairingEvent {
    /// A client tried a wrong PIN.
    WrongPin {
        /// Where it is.
        from: PathId,
        /// How often it may try again in this window.
        tries_left: u32,
    },
    /// A device that is forbidden tried to pair, with the right PIN; it counts as a wrong one.
    ForbiddenTried {
        /// Where it is.
        from: PathId,
        /// How often it may try again in this window.
        tries_left: u32,
    },
    /// The window closed because its time was over.
    Expired,
    /// The window closed because of so many wrong PINs.
    TooManyWrong,
    /// A ticket let nobody in.
    TicketRefused {
        /// Where it was shown.
        from: PathId,
        /// What is wrong with it.
        why: TicketRefused,
    },
}

/// What a datagram brought.
#[derive(Debug, Default)]
pub struct Reaction {
    /// A datagram to send back to where it came from.
    pub reply: Option<Vec<u8>>,
    /// A session that begins: its path, its keys, and how the client came.
    pub established: Option<(PathId, Established, Paired)>,
}

/// How a client came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Paired {
    /// By PIN: store its key, under the name it gave (which may be empty or another device's).
    New {
        /// What the device calls itself.
        name: DeviceName,
    },
    /// By a ticket: it is not stored.
    Ticket {
        /// What the device calls itself.
        name: DeviceName,
        /// As what it may come at most.
        role: Role,
    },
    /// By its stored key, or one that a ticket let in before.
    Known,
}

/// The state of the pairing window.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PairingStatus {
    /// When it closes by itself.
    pub(super) closes: Instant,
    /// Wrong PINs that it still takes.
    pub(super) tries_left: u32,
}

struct HalfOpen {
    from: PathId,
    of: QuotaOwner,
    /// Names the Begin that opened it, so that a repeated one gets the same Answer.
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

/// With whom a handshake shares its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuotaOwner {
    /// One that pairs or shows a ticket: with its network.
    Network([u8; 16]),
    /// One that is known: with itself.
    Device(ClientId),
}

enum Stage {
    Answered(Noise, Claim),
    /// Over; a repeated Finish gets the same reply.
    Ended {
        finish: [u8; 32],
        reply: Vec<u8>,
    },
}

/// What the client wants to be let in for.
enum Claim {
    /// The PIN of the window with this serial number.
    Pin { window: u64 },
    /// Its stored key.
    Key { id: ClientId, key: PublicKey },
    /// What its ticket says.
    Ticket(Box<TicketClaim>),
}

/// Who shows a ticket, and which.
struct TicketClaim {
    device: PublicKey,
    name: DeviceName,
    ticket: Result<SignedTicket, TicketRefused>,
}

/// The end of a handshake that was refused: why, and the wait in seconds if it is for being busy.
struct Refusal(Reason, u16);

impl HostHandshake {
    /// A host that knows how to answer, with no pairing window open.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`].
    pub fn new(identity: &Identity) -> Result<HostHandshake, HandshakeError> {
        Self::with_versions(identity, Versions::OURS)
    }

    /// Like [`HostHandshake::new`], for a program that speaks `versions`.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`].
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

    /// From now on `gate` takes tickets. Before [`HostHandshake::time_of_day`] it takes none.
    pub fn take_tickets(&mut self, gate: TicketGate) {
        self.tickets = Some(gate);
    }

    /// Whether it takes tickets: then it has to be told the time of day before each datagram.
    #[must_use]
    pub fn takes_tickets(&self) -> bool {
        self.tickets.is_some()
    }

    /// What time it is by the clock of the world, for tickets alone.
    pub fn time_of_day(&mut self, now: UnixTime) {
        self.time_of_day = now;
    }

    /// As what the device with this key may come at most, if a ticket let it in.
    #[must_use]
    pub fn admitted(&self, device: &PublicKey) -> Option<Role> {
        self.tickets.as_ref()?.admitted(device)
    }

    /// What happened to the pairing window, and to tickets, since the last call.
    pub fn poll_event(&mut self) -> Option<PairingEvent> {
        self.events.pop_front()
    }

    /// Lets one client pair by `pin` within `span` from `now`. A window that was open closes; this
    /// one closes after its first success too.
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

    /// Handshakes that are half open or have just ended.
    #[cfg(test)]
    pub(super) fn half_open(&self) -> usize {
        self.halves.len()
    }

    /// When something ends by itself: a half-open handshake, or the pairing window.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let halves = self.halves.iter().map(|half| half.expires);
        halves
            .chain(self.window.as_ref().map(PairingWindow::closes))
            .min()
    }

    /// Drops what has ended at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.halves.retain(|half| now < half.expires);
        if self.window.take_if(|w| now >= w.closes()).is_some() {
            self.events.push_back(PairingEvent::Expired);
        }
    }

    /// Takes a datagram from `from`. `standing` says what the host knows of a client; it is asked
    /// at most once, only about a client that has shown its address.
    ///
    /// What is no handshake message, damaged, forged or late brings an empty reaction.
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

    /// If there are as many of this pattern as may be, drops the oldest of whoever has most of them.
    fn make_room(&mut self, pattern: Pattern) {
        let same = |half: &&HalfOpen| half.pattern == pattern;
        if self.halves.iter().filter(same).count() < MAX_HALF_OPEN {
            return;
        }
        let held = |of: &HalfOpen| self.halves.iter().filter(|h| h.of == of.of).count();
        // The last of the largest is what is found.
        let all = self.halves.iter().enumerate().rev();
        let most = all.filter(|(_, half)| same(half));
        if let Some((index, _)) = most.max_by_key(|(_, half)| held(half)) {
            self.halves.remove(index);
        }
    }

    /// The expensive work for a client that has shown its address: at most four X25519 operations
    /// and, at pairing, one SPAKE2 exchange.
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
                // Who it is, its first message says.
                (None, None)
            }
            Opening::Reconnection(id) => match self.standing(id, standing) {
                // A forbidden one hears of it at its Finish, which shows that it has the key.
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
        // An honest client asks again.
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

    /// What a client is to this host, which may also know it from a ticket.
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

    /// The pairing window, if it takes a try from there now.
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

/// Who shows which ticket, by the first message. That the client is there now, its Finish shows.
fn ticket_claim(noise: &Noise, payload: &[u8]) -> Result<TicketClaim, Rejection> {
    let payload = TicketPayload::ref_from_bytes(payload).map_err(|_| Rejection::Silently)?;
    Ok(TicketClaim {
        device: noise.peer().ok_or(Rejection::Silently)?,
        name: payload.name(),
        ticket: SignedTicket::from_bytes(payload.ticket()),
    })
}

/// How a client is turned away.
enum Rejection {
    /// It sent what no honest client sends, or the machine has no randomness.
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
