//! The client's side of the handshake. It retransmits each message until the host answers, and ends with a session or
//! one clear error.

use std::time::Duration;

use zerocopy::IntoBytes;
use zeroize::Zeroizing;

use super::layout::{
    Answer, AnswerPayload, Begin, Challenge, Confirm, Finish, Hello, Kind, NOISE_3, Opening,
    Pattern, Reason, Refused, TicketBegin, TicketPayload, name_to_bytes,
};
use super::noise::{Keys, Noise, Prologue, begin_key, is_tagged, tag, ticket_begin_key};
use super::{Established, HANDSHAKE_TIMEOUT, HandshakeError, Versions};
use crate::control::cookie::COOKIE;
use crate::control::identity::{ClientId, DeviceName, Identity, PublicKey, random};
use crate::control::pairing::{Pin, PinExchange};
use crate::control::ticket::{SignedTicket, TicketRefused};
use crate::id::SessionId;
use crate::time::Instant;

/// The first retransmission timeout. It grows by half each time, up to [`SLOWEST_RESEND`]. A local network answers in a
/// few milliseconds; the X25519 operations of a slow host take ten.
const FIRST_RESEND: Duration = Duration::from_millis(250);

/// The longest retransmission timeout. While the client repeats its Hello, a host that starts receives one within this
/// time.
const SLOWEST_RESEND: Duration = Duration::from_millis(500);

/// The client restarts from Hello when it has sent a Begin (or, except at pairing, a Finish) this many times without an
/// answer. The client's cookie may be damaged or expired, or the host may have evicted the handshake.
const SENDS_BEFORE_RESTART: u32 = 4;

/// The client waits for this time before it accepts an untagged Refused, because an on-path attacker can forge one. If
/// the Refused was forged, the host's genuine Answer normally arrives during the wait.
const REFUSAL_DELAY: Duration = Duration::from_millis(500);

/// How a client authenticates the host.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By the host's PIN, at a pairing.
    Pin(Pin),
    /// By the host's key from an earlier pairing.
    Known(PublicKey),
    /// By a portal's statement that the host has this key and accepts this ticket.
    Ticket {
        /// The host's key.
        host: PublicKey,
        /// The ticket. It is sealed for the host's key before it is sent.
        ticket: SignedTicket,
    },
}

/// A client's attempt to get a session with a host. Pass the host's datagrams to it, send the datagrams that
/// [`ClientHandshake::poll_transmit`] returns, and call [`ClientHandshake::handle_timeout`] at
/// [`ClientHandshake::next_timeout`].
pub struct ClientHandshake {
    identity: Identity,
    name: DeviceName,
    trust: Trust,
    versions: Versions,
    nonce: [u8; 16],
    deadline: Instant,
    stage: Stage,
    /// The current message. It is retransmitted until the host answers.
    datagram: Vec<u8>,
    next_send: Instant,
    wait: Duration,
    sends: u32,
    pending_refusal: Option<(Instant, HandshakeError)>,
    /// Whether a Challenge has arrived, but no valid Answer to the Begin.
    unproven: bool,
}

enum Stage {
    Asked,
    Begun(Box<Begun>),
    Finishing(Box<Finishing>),
    Over,
}

struct Begun {
    noise: Noise,
    version: u8,
    /// The SPAKE2 exchange of a pairing. It is taken out when an authentic Answer has arrived.
    exchange: Option<PinExchange>,
}

struct Finishing {
    session: SessionId,
    key: Zeroizing<[u8; 32]>,
    keys: Keys,
    peer: PublicKey,
    version: u8,
}

impl ClientHandshake {
    /// Starts a handshake at `now`. The first datagram is due at once. `name` is this device's name in the host's list.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`] if the system provides no random bytes.
    pub fn new(
        now: Instant,
        identity: &Identity,
        name: DeviceName,
        trust: Trust,
    ) -> Result<ClientHandshake, HandshakeError> {
        Self::with_versions(now, identity, name, trust, Versions::OURS)
    }

    /// Like [`ClientHandshake::new`], but for a program that supports `versions`.
    ///
    /// # Errors
    /// [`HandshakeError::NoRandomness`] if the system provides no random bytes.
    pub fn with_versions(
        now: Instant,
        identity: &Identity,
        name: DeviceName,
        trust: Trust,
        versions: Versions,
    ) -> Result<ClientHandshake, HandshakeError> {
        let nonce = random()?;
        Ok(ClientHandshake {
            identity: identity.clone(),
            name,
            trust,
            versions,
            nonce,
            deadline: now + HANDSHAKE_TIMEOUT,
            stage: Stage::Asked,
            datagram: Hello::new(versions, nonce).as_bytes().to_vec(),
            next_send: now,
            wait: FIRST_RESEND,
            sends: 0,
            pending_refusal: None,
            unproven: false,
        })
    }

    /// The datagram to send at `now`; `None` if none is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if matches!(self.stage, Stage::Over) || now < self.next_send {
            return None;
        }
        if self.sends >= SENDS_BEFORE_RESTART && self.may_restart() {
            self.restart(now);
        }
        self.next_send = now + self.wait;
        self.wait = (self.wait * 3 / 2).min(SLOWEST_RESEND);
        self.sends += 1;
        Some(self.datagram.clone())
    }

    /// The next deadline: that of a retransmission, of a pending refusal, or of the whole handshake. `None` when the
    /// handshake is over.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if matches!(self.stage, Stage::Over) {
            return None;
        }
        let pending_refusal = self.pending_refusal.map_or(self.deadline, |(due, _)| due);
        Some(self.next_send.min(self.deadline).min(pending_refusal))
    }

    /// Ends the handshake if its deadline, or that of a pending refusal, has passed.
    ///
    /// # Errors
    /// The reason for the failure: [`HandshakeError::TimedOut`], [`HandshakeError::NotTheHost`],
    /// [`HandshakeError::TicketUnanswered`], [`HandshakeError::Unconfirmed`], or the host's refusal. The handshake is
    /// then over.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), HandshakeError> {
        if matches!(self.stage, Stage::Over) {
            return Ok(());
        }
        if let Some((due, why)) = self.pending_refusal
            && now >= due
        {
            return Err(self.fail(why));
        }
        if now >= self.deadline {
            let why = match (&self.trust, &self.stage) {
                (Trust::Known(_), _) if self.unproven => HandshakeError::NotTheHost,
                (Trust::Ticket { .. }, _) if self.unproven => HandshakeError::TicketUnanswered,
                (Trust::Pin(_), Stage::Finishing(_)) => HandshakeError::Unconfirmed,
                _ => HandshakeError::TimedOut {
                    after: HANDSHAKE_TIMEOUT,
                },
            };
            return Err(self.fail(why));
        }
        Ok(())
    }

    /// Handles a datagram from the host's address. A datagram of another handshake has no effect. A damaged or forged
    /// datagram can make the handshake restart or fail.
    ///
    /// # Errors
    /// The reason for the failure. The handshake is then over.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<Option<Established>, HandshakeError> {
        let outcome = match Kind::of(datagram) {
            Some(Kind::Challenge) => self.handle_challenge(now, datagram).map(|()| None),
            Some(Kind::Answer) => self.handle_answer(now, datagram).map(|()| None),
            Some(Kind::Confirm) => Ok(self.handle_confirm(datagram)),
            Some(Kind::Refused) => self.handle_refused(now, datagram).map(|()| None),
            Some(Kind::Hello | Kind::Begin | Kind::Finish) | None => Ok(None),
        };
        outcome.map_err(|why| self.fail(why))
    }

    fn handle_challenge(&mut self, now: Instant, datagram: &[u8]) -> Result<(), HandshakeError> {
        let Some(challenge) = Challenge::parse(datagram).filter(|c| c.nonce == self.nonce) else {
            return Ok(());
        };
        if !matches!(self.stage, Stage::Asked) {
            return Ok(());
        }
        let host = Versions::from(challenge.versions);
        let Some(version) = self.versions.agree(host) else {
            return Ok(());
        };
        let (opening, exchange, peer) = match &self.trust {
            Trust::Pin(pin) => {
                let (exchange, message) = PinExchange::client(pin);
                (Opening::Pairing(message), Some(exchange), None)
            }
            Trust::Known(host) => {
                let id = ClientId::of(&self.identity.public());
                (Opening::Reconnection(id), None, Some(host))
            }
            Trust::Ticket { host, .. } => (Opening::Ticket, None, Some(host)),
        };
        let prologue = Prologue {
            opening,
            nonce: self.nonce,
            client: self.versions,
            host,
            version,
        };
        let mut noise = Noise::client(&self.identity, peer, &prologue)?;
        let begin = match &self.trust {
            Trust::Ticket { host, ticket } => {
                self.begin_with_ticket(challenge.cookie, host, ticket, &mut noise)?
            }
            Trust::Pin(_) | Trust::Known(_) => {
                let message = noise.write(&[])?;
                let message = message.try_into().map_err(|_| HandshakeError::Crypto)?;
                let cookie = challenge.cookie;
                let mut begin = Begin::new(self.versions, self.nonce, cookie, &opening, message);
                if let Some(host) = peer {
                    let key = begin_key(&self.identity, host).ok_or(HandshakeError::NotTheHost)?;
                    begin.tag = tag(&key, begin.as_bytes());
                }
                begin.as_bytes().to_vec()
            }
        };
        self.unproven = true;
        let begun = Begun {
            noise,
            version,
            exchange,
        };
        self.enter(now, Stage::Begun(Box::new(begun)), begin);
        Ok(())
    }

    fn begin_with_ticket(
        &self,
        cookie: [u8; COOKIE],
        host: &PublicKey,
        ticket: &SignedTicket,
        noise: &mut Noise,
    ) -> Result<Vec<u8>, HandshakeError> {
        let payload = TicketPayload::new(&self.name, ticket.as_bytes());
        let payload = payload.ok_or(HandshakeError::Crypto)?;
        let message = noise.write(payload.as_bytes())?;
        let message = message.try_into().map_err(|_| HandshakeError::Crypto)?;
        let mut begin = TicketBegin::new(self.versions, self.nonce, cookie, message);
        begin.tag = tag(&ticket_begin_key(host), begin.as_bytes());
        Ok(begin.as_bytes().to_vec())
    }

    fn handle_answer(&mut self, now: Instant, datagram: &[u8]) -> Result<(), HandshakeError> {
        let pattern = self.pattern();
        let Stage::Begun(begun) = &mut self.stage else {
            return Ok(());
        };
        let Some(answer) = Answer::parse(datagram)
            .filter(|a| a.nonce == self.nonce && a.head.pattern() == Some(pattern))
        else {
            return Ok(());
        };
        // After a forged Answer, snow can still read the genuine Answer, because each read derives the keys of this
        // message again.
        let Some(sealed) = begun.noise.read(answer.noise()) else {
            return Ok(());
        };
        self.unproven = false;
        let Stage::Begun(mut begun) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(());
        };
        let payload: &AnswerPayload =
            zerocopy::FromBytes::ref_from_bytes(&sealed).map_err(|_| HandshakeError::Crypto)?;
        let session = SessionId(payload.session.get());
        if session != answer.head.session() {
            // The head was changed in transit. The rest of the message was valid, but snow cannot read it twice.
            // Therefore, the handshake restarts from Hello.
            self.restart(now);
            return Ok(());
        }
        let mut message = [0; NOISE_3];
        if let Some(exchange) = begun.exchange.take() {
            let psk = exchange
                .finish(&payload.spake)
                .ok_or(HandshakeError::WrongPin)?;
            begun.noise.set_psk(&psk)?;
            let sealed = begun.noise.write(&name_to_bytes(&self.name))?;
            message = sealed.try_into().map_err(|_| HandshakeError::Crypto)?;
        }
        let peer = begun.noise.peer().ok_or(HandshakeError::Crypto)?;
        let key = Zeroizing::new(payload.key);
        let mut finish = Finish::new(session, pattern, message);
        finish.tag = tag(&key, finish.as_bytes());
        let finishing = Finishing {
            session,
            key,
            keys: begun.noise.keys()?,
            peer,
            version: begun.version,
        };
        self.enter(
            now,
            Stage::Finishing(Box::new(finishing)),
            finish.as_bytes().to_vec(),
        );
        Ok(())
    }

    fn handle_confirm(&mut self, datagram: &[u8]) -> Option<Established> {
        let Stage::Finishing(finishing) = &self.stage else {
            return None;
        };
        let confirm = Confirm::parse(datagram)?;
        if confirm.head.session() != finishing.session
            || !is_tagged(&finishing.keys.confirm, datagram)
        {
            return None;
        }
        let Stage::Finishing(finishing) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return None;
        };
        Some(Established {
            session: finishing.session,
            secret: finishing.keys.secret.clone(),
            peer: finishing.peer,
            version: finishing.version,
        })
    }

    fn handle_refused(&mut self, now: Instant, datagram: &[u8]) -> Result<(), HandshakeError> {
        let Some((refused, reason)) = Refused::parse(datagram).filter(|r| r.0.nonce == self.nonce)
        else {
            return Ok(());
        };
        let proven = match &self.stage {
            Stage::Finishing(finishing) => {
                if !is_tagged(&finishing.key, datagram) {
                    return Ok(());
                }
                true
            }
            Stage::Asked | Stage::Begun(_) => false,
            Stage::Over => return Ok(()),
        };
        let theirs = Versions::from(refused.versions);
        let why = match reason {
            Reason::Version if self.versions.agree(theirs).is_some() => return Ok(()),
            Reason::Version => HandshakeError::Version {
                ours: self.versions,
                theirs,
            },
            Reason::PairingClosed => HandshakeError::PairingClosed,
            Reason::UnknownDevice => HandshakeError::UnknownDevice,
            Reason::Busy => HandshakeError::Busy {
                retry_after: Duration::from_secs(refused.retry_after.get().into()),
            },
            // A rejection of the PIN counts only from a peer that completed the exchange. A ban of this device counts
            // only from a host that verified the device's key.
            Reason::PairingFailed | Reason::Forbidden if !proven => return Ok(()),
            Reason::PairingFailed => HandshakeError::WrongPin,
            Reason::Forbidden => HandshakeError::Forbidden,
            reason => match reason.of_ticket() {
                // A host that accepts no tickets sends this refusal before any key exchange, so the refusal also counts
                // if the host has not proved its key.
                Some(why) if proven || why == TicketRefused::NotTaken => {
                    HandshakeError::Ticket(why)
                }
                _ => return Ok(()),
            },
        };
        if proven {
            return Err(why);
        }
        let due = self
            .pending_refusal
            .map_or(now + REFUSAL_DELAY, |(due, _)| due);
        self.pending_refusal = Some((due, why));
        Ok(())
    }

    /// Whether the client may restart from Hello. At pairing, each new Finish would let its receiver test another guess
    /// of the PIN. Therefore, a client that has sent a Finish with a PIN does not restart.
    fn may_restart(&self) -> bool {
        match (&self.stage, &self.trust) {
            (Stage::Begun(_), _)
            | (Stage::Finishing(_), Trust::Known(_) | Trust::Ticket { .. }) => true,
            (Stage::Finishing(_), Trust::Pin(_)) | (Stage::Asked | Stage::Over, _) => false,
        }
    }

    fn pattern(&self) -> Pattern {
        match self.trust {
            Trust::Pin(_) => Pattern::Pairing,
            Trust::Known(_) => Pattern::Reconnection,
            Trust::Ticket { .. } => Pattern::Ticket,
        }
    }

    /// Enters `stage` and sends `datagram`. A valid Answer discards an earlier untagged refusal.
    fn enter(&mut self, now: Instant, stage: Stage, datagram: Vec<u8>) {
        if matches!(stage, Stage::Finishing(_)) {
            self.pending_refusal = None;
        }
        self.stage = stage;
        self.datagram = datagram;
        self.next_send = now;
        self.wait = FIRST_RESEND;
        self.sends = 0;
    }

    fn restart(&mut self, now: Instant) {
        self.unproven = false;
        let hello = Hello::new(self.versions, self.nonce).as_bytes().to_vec();
        self.enter(now, Stage::Asked, hello);
    }

    fn fail(&mut self, why: HandshakeError) -> HandshakeError {
        self.stage = Stage::Over;
        why
    }
}
