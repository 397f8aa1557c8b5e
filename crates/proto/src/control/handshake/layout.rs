//! The bytes of the six handshake messages and of Refused.
//!
//! Every message is a fixed-length structure of bytes. Therefore, parsing only checks that the length is right, that
//! reserved bytes are zero, and that fields with few valid values have one of them. Numbers are little-endian. A host's
//! reply is never longer than the message that it answers.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{PLANE, Versions};
use crate::control::cookie::COOKIE;
use crate::control::identity::{ClientId, DeviceName};
use crate::control::pairing::SPAKE_MESSAGE;
use crate::control::ticket::TicketRefused;
use crate::id::SessionId;

/// The header of every handshake datagram. The first 8 bytes are common to all planes.
///
/// ```text
///  0         1       2      4         8      9         10     12
///  | version | plane | zero | session | kind | pattern | zero |
///  | 1       | 0     |      | u32     |      |         |      |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    version: u8,
    plane: u8,
    zero: [u8; 2],
    session: U32,
    kind: u8,
    pattern: u8,
    zero2: [u8; 2],
}

/// The message type. Any two values differ in at least two bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    Hello = 0x03,
    Challenge = 0x05,
    Begin = 0x06,
    Answer = 0x09,
    Finish = 0x0a,
    Confirm = 0x0c,
    Refused = 0x0f,
}

impl Kind {
    /// The kind of `datagram`; `None` if it is not a handshake message.
    pub(super) fn of(datagram: &[u8]) -> Option<Kind> {
        let (head, _) = Head::ref_from_prefix(datagram).ok()?;
        let kind = match head.kind {
            0x03 => Kind::Hello,
            0x05 => Kind::Challenge,
            0x06 => Kind::Begin,
            0x09 => Kind::Answer,
            0x0a => Kind::Finish,
            0x0c => Kind::Confirm,
            0x0f => Kind::Refused,
            _ => return None,
        };
        let ours =
            head.version == 1 && head.plane == PLANE && head.zero == [0; 2] && head.zero2 == [0; 2];
        ours.then_some(kind)
    }
}

/// The Noise pattern of a handshake. Begin and all later messages except Refused contain it; the other messages contain
/// zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Pattern {
    /// `Noise_XXpsk3_25519_ChaChaPoly_BLAKE2s`
    Pairing = 1,
    /// `Noise_KK_25519_ChaChaPoly_BLAKE2s`
    Reconnection = 2,
    /// `Noise_IK_25519_ChaChaPoly_BLAKE2s`
    Ticket = 3,
}

impl Head {
    pub(super) fn new(kind: Kind, session: SessionId, pattern: Option<Pattern>) -> Head {
        Head {
            version: 1,
            plane: PLANE,
            zero: [0; 2],
            session: U32::new(session.0),
            kind: kind as u8,
            pattern: pattern.map_or(0, |pattern| pattern as u8),
            zero2: [0; 2],
        }
    }

    pub(super) fn session(&self) -> SessionId {
        SessionId(self.session.get())
    }

    pub(super) fn pattern(&self) -> Option<Pattern> {
        match self.pattern {
            1 => Some(Pattern::Pairing),
            2 => Some(Pattern::Reconnection),
            3 => Some(Pattern::Ticket),
            _ => None,
        }
    }

    /// Whether session and pattern are zero, as in Hello and Challenge.
    fn is_early(&self) -> bool {
        self.session.get() == 0 && self.pattern == 0
    }
}

/// A version range on the wire: `| min | max |`, one byte each.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Range {
    min: u8,
    max: u8,
}

impl From<Versions> for Range {
    fn from(versions: Versions) -> Range {
        Range {
            min: versions.min,
            max: versions.max,
        }
    }
}

impl From<Range> for Versions {
    fn from(range: Range) -> Versions {
        Versions {
            min: range.min,
            max: range.max,
        }
    }
}

/// Client: starts a handshake. The padding prevents amplification: no reply to a Hello is longer.
///
/// ```text
///  0      12         14     16      32        96
///  | Head | versions | zero | nonce | padding |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Hello {
    pub(super) head: Head,
    pub(super) versions: Range,
    zero: [u8; 2],
    pub(super) nonce: [u8; 16],
    padding: [u8; 64],
}

impl Hello {
    pub(super) fn new(versions: Versions, nonce: [u8; 16]) -> Hello {
        Hello {
            head: Head::new(Kind::Hello, SessionId(0), None),
            versions: versions.into(),
            zero: [0; 2],
            nonce,
            padding: [0; 64],
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<Hello> {
        let hello = Hello::read_from_bytes(datagram).ok()?;
        let whole = hello.head.is_early() && hello.zero == [0; 2] && hello.padding == [0; 64];
        whole.then_some(hello)
    }
}

/// Host: requests proof of the client's address.
///
/// ```text
///  0      12         14     16      32       52
///  | Head | versions | zero | nonce | cookie |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Challenge {
    pub(super) head: Head,
    pub(super) versions: Range,
    zero: [u8; 2],
    pub(super) nonce: [u8; 16],
    pub(super) cookie: [u8; COOKIE],
}

impl Challenge {
    pub(super) fn new(versions: Versions, nonce: [u8; 16], cookie: [u8; COOKIE]) -> Challenge {
        Challenge {
            head: Head::new(Kind::Challenge, SessionId(0), None),
            versions: versions.into(),
            zero: [0; 2],
            nonce,
            cookie,
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<Challenge> {
        let challenge = Challenge::read_from_bytes(datagram).ok()?;
        (challenge.head.is_early() && challenge.zero == [0; 2]).then_some(challenge)
    }
}

/// Client: starts the key exchange. `client` and `tag` are zero at pairing; `spake` is zero at reconnection. In both
/// cases, Noise 1 consists of an ephemeral key and the tag of an empty payload. A Begin is as long as its Answer.
///
/// ```text
///  0      12         14     16      32       52       68      101       149       161   193
///  | Head | versions | zero | nonce | cookie | client | spake | Noise 1 | padding | tag |
/// ```
/// tag = HMAC-SHA256(key of the two identities, all preceding bytes): see `begin_key`
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Begin {
    pub(super) head: Head,
    pub(super) versions: Range,
    zero: [u8; 2],
    pub(super) nonce: [u8; 16],
    pub(super) cookie: [u8; COOKIE],
    client: [u8; 16],
    pub(super) spake: [u8; SPAKE_MESSAGE],
    pub(super) noise: [u8; NOISE_1],
    padding: [u8; 12],
    pub(super) tag: [u8; 32],
}

/// Length of Noise 1: ephemeral key and tag.
pub(super) const NOISE_1: usize = 32 + 16;

impl Begin {
    pub(super) fn new(
        versions: Versions,
        nonce: [u8; 16],
        cookie: [u8; COOKIE],
        opening: &Opening,
        noise: [u8; NOISE_1],
    ) -> Begin {
        let (client, spake) = match opening {
            Opening::Pairing(spake) => ([0; 16], *spake),
            Opening::Reconnection(client) => (client.0, [0; SPAKE_MESSAGE]),
            Opening::Ticket => ([0; 16], [0; SPAKE_MESSAGE]),
        };
        Begin {
            head: Head::new(Kind::Begin, SessionId(0), Some(opening.pattern())),
            versions: versions.into(),
            zero: [0; 2],
            nonce,
            cookie,
            client,
            spake,
            noise,
            padding: [0; 12],
            tag: [0; 32],
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<(&Begin, Opening)> {
        let begin = Begin::ref_from_bytes(datagram).ok()?;
        if begin.head.session() != SessionId(0) || begin.zero != [0; 2] || begin.padding != [0; 12]
        {
            return None;
        }
        let opening = match begin.head.pattern()? {
            Pattern::Pairing if begin.client == [0; 16] && begin.tag == [0; 32] => {
                Opening::Pairing(begin.spake)
            }
            Pattern::Reconnection if begin.spake == [0; SPAKE_MESSAGE] => {
                Opening::Reconnection(ClientId(begin.client))
            }
            _ => return None,
        };
        Some((begin, opening))
    }
}

/// Client: starts the key exchange with a ticket. Noise 1 consists of an ephemeral key, the sealed static key and a
/// sealed [`TicketPayload`]. This message is longer than its Answer.
///
/// ```text
///  0      12         14     16      32       52        471   503
///  | Head | versions | zero | nonce | cookie | Noise 1 | tag |
/// ```
/// tag = HMAC-SHA256(key of the host's identity, all preceding bytes): see `ticket_begin_key`
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TicketBegin {
    head: Head,
    versions: Range,
    zero: [u8; 2],
    nonce: [u8; 16],
    cookie: [u8; COOKIE],
    noise: [u8; TICKET_NOISE_1],
    pub(super) tag: [u8; 32],
}

/// Length of Noise 1 with a ticket: ephemeral key, sealed static key, sealed payload.
pub(super) const TICKET_NOISE_1: usize = 32 + 48 + size_of::<TicketPayload>() + 16;

impl TicketBegin {
    pub(super) fn new(
        versions: Versions,
        nonce: [u8; 16],
        cookie: [u8; COOKIE],
        noise: [u8; TICKET_NOISE_1],
    ) -> TicketBegin {
        TicketBegin {
            head: Head::new(Kind::Begin, SessionId(0), Some(Pattern::Ticket)),
            versions: versions.into(),
            zero: [0; 2],
            nonce,
            cookie,
            noise,
            tag: [0; 32],
        }
    }

    fn parse(datagram: &[u8]) -> Option<&TicketBegin> {
        let begin = TicketBegin::ref_from_bytes(datagram).ok()?;
        let ours = begin.head.session() == SessionId(0)
            && begin.head.pattern() == Some(Pattern::Ticket)
            && begin.zero == [0; 2];
        ours.then_some(begin)
    }
}

/// The payload that is sealed in Noise 1 of a [`TicketBegin`]: the client's name, and its ticket followed by zeros.
/// There is room for longer tickets of later versions.
///
/// ```text
///  0      65       67       323
///  | name | length | ticket |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TicketPayload {
    name: [u8; NAME],
    length: U16,
    ticket: [u8; 256],
}

impl TicketPayload {
    /// Returns `None` if the ticket is too long.
    pub(super) fn new(name: &DeviceName, ticket: &[u8]) -> Option<TicketPayload> {
        let mut payload = TicketPayload {
            name: name_to_bytes(name),
            length: U16::new(u16::try_from(ticket.len()).ok()?),
            ticket: [0; 256],
        };
        payload
            .ticket
            .get_mut(..ticket.len())?
            .copy_from_slice(ticket);
        Some(payload)
    }

    pub(super) fn name(&self) -> DeviceName {
        name_from_bytes(&self.name)
    }

    /// The ticket's bytes; empty if the length is invalid.
    pub(super) fn ticket(&self) -> &[u8] {
        let length = usize::from(self.length.get());
        self.ticket.get(..length).unwrap_or_default()
    }
}

/// A Begin of any pattern, as parsed by the host.
pub(super) struct ReceivedBegin<'a> {
    pub(super) versions: Versions,
    pub(super) nonce: [u8; 16],
    pub(super) cookie: [u8; COOKIE],
    pub(super) noise: &'a [u8],
    pub(super) opening: Opening,
}

impl ReceivedBegin<'_> {
    pub(super) fn parse(datagram: &[u8]) -> Option<ReceivedBegin<'_>> {
        if let Some(begin) = TicketBegin::parse(datagram) {
            return Some(ReceivedBegin {
                versions: begin.versions.into(),
                nonce: begin.nonce,
                cookie: begin.cookie,
                noise: &begin.noise,
                opening: Opening::Ticket,
            });
        }
        let (begin, opening) = Begin::parse(datagram)?;
        Some(ReceivedBegin {
            versions: begin.versions.into(),
            nonce: begin.nonce,
            cookie: begin.cookie,
            noise: &begin.noise,
            opening,
        })
    }
}

/// The part of a Begin that depends on the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opening {
    /// The client's SPAKE2 message.
    Pairing([u8; SPAKE_MESSAGE]),
    /// The client's id.
    Reconnection(ClientId),
    /// A ticket, sealed for the host.
    Ticket,
}

impl Opening {
    pub(super) fn pattern(&self) -> Pattern {
        match self {
            Opening::Pairing(_) => Pattern::Pairing,
            Opening::Reconnection(_) => Pattern::Reconnection,
            Opening::Ticket => Pattern::Ticket,
        }
    }
}

/// Host: completes the host's side of the key exchange. The session id is in the head *and* sealed in Noise 2. Noise 2
/// contains a static key only at pairing. In the other patterns, Noise 2 is 48 bytes shorter and is followed by zeros.
///
/// ```text
///  0      12      28        193
///  | Head | nonce | Noise 2 |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) nonce: [u8; 16],
    noise: [u8; NOISE_2],
}

/// Length of Noise 2 at pairing: ephemeral key, sealed static key, sealed payload.
const NOISE_2: usize = 32 + 48 + size_of::<AnswerPayload>() + 16;

impl Answer {
    /// Returns `None` if the length of `noise` does not match `pattern`.
    pub(super) fn new(
        session: SessionId,
        pattern: Pattern,
        nonce: [u8; 16],
        noise: &[u8],
    ) -> Option<Answer> {
        let mut answer = Answer {
            head: Head::new(Kind::Answer, session, Some(pattern)),
            nonce,
            noise: [0; NOISE_2],
        };
        let length = Self::noise_length(pattern);
        (noise.len() == length).then(|| answer.noise[..length].copy_from_slice(noise))?;
        Some(answer)
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<Answer> {
        let answer = Answer::read_from_bytes(datagram).ok()?;
        let length = Self::noise_length(answer.head.pattern()?);
        let whole = answer.noise[length..].iter().all(|&byte| byte == 0);
        (whole && answer.head.session() != SessionId(0)).then_some(answer)
    }

    pub(super) fn noise(&self) -> &[u8] {
        let length = self.head.pattern().map_or(0, Self::noise_length);
        &self.noise[..length]
    }

    fn noise_length(pattern: Pattern) -> usize {
        match pattern {
            Pattern::Pairing => NOISE_2,
            Pattern::Reconnection | Pattern::Ticket => NOISE_2 - 48,
        }
    }
}

/// The payload that is sealed in Noise 2. `key` authenticates the Finish, and a Refused that answers the Finish.
/// `spake` is zero except at pairing.
///
/// ```text
///  0         4     36      69
///  | session | key | spake |
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct AnswerPayload {
    pub(super) session: U32,
    pub(super) key: [u8; 32],
    pub(super) spake: [u8; SPAKE_MESSAGE],
}

/// Client: proves the client's identity. At pairing, Noise 3 consists of the sealed static key and the sealed name. In
/// the other patterns, two Noise messages suffice: Noise 3 is zero, and the tag proves that the client has read the
/// Answer.
///
/// ```text
///  0      12        141   173
///  | Head | Noise 3 | tag |     tag = HMAC-SHA256(key, all preceding bytes)
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Finish {
    pub(super) head: Head,
    pub(super) noise: [u8; NOISE_3],
    pub(super) tag: [u8; 32],
}

/// Length of Noise 3: sealed static key, sealed name.
pub(super) const NOISE_3: usize = 48 + NAME + 16;

impl Finish {
    pub(super) fn new(session: SessionId, pattern: Pattern, noise: [u8; NOISE_3]) -> Finish {
        Finish {
            head: Head::new(Kind::Finish, session, Some(pattern)),
            noise,
            tag: [0; 32],
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<Finish> {
        Finish::read_from_bytes(datagram).ok()
    }
}

/// Length of a name on the wire: one byte for its length, then its bytes, then zeros.
pub(super) const NAME: usize = 1 + DeviceName::MAX;

pub(super) fn name_to_bytes(name: &DeviceName) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let text = name.as_str().as_bytes();
    bytes[0] = u8::try_from(text.len()).unwrap_or(0);
    bytes[1..=text.len()].copy_from_slice(text);
    bytes
}

pub(super) fn name_from_bytes(bytes: &[u8]) -> DeviceName {
    let (length, text) = bytes.split_first().unwrap_or((&0, &[]));
    let text = text.get(..usize::from(*length)).unwrap_or_default();
    DeviceName::new(&String::from_utf8_lossy(text))
}

/// Host: accepts the client.
///
/// ```text
///  0      12    44
///  | Head | tag |     tag = HMAC-SHA256(confirm key of the session, Head)
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Confirm {
    pub(super) head: Head,
    pub(super) tag: [u8; 32],
}

impl Confirm {
    pub(super) fn new(session: SessionId, pattern: Pattern) -> Confirm {
        Confirm {
            head: Head::new(Kind::Confirm, session, Some(pattern)),
            tag: [0; 32],
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<Confirm> {
        Confirm::read_from_bytes(datagram).ok()
    }
}

/// Host: refuses the client. Before an Answer, the tag is zero, because there is no key yet.
///
/// ```text
///  0      12         14       15     16      32            34     36    68
///  | Head | versions | reason | zero | nonce | retry after | zero | tag |
///                                            | s, u16      |      tag = HMAC-SHA256(key, all preceding bytes)
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Refused {
    pub(super) head: Head,
    pub(super) versions: Range,
    reason: u8,
    zero: u8,
    pub(super) nonce: [u8; 16],
    pub(super) retry_after: U16,
    zero2: [u8; 2],
    pub(super) tag: [u8; 32],
}

/// The reason for a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Reason {
    Version = 1,
    PairingClosed = 2,
    UnknownDevice = 3,
    Busy = 4,
    PairingFailed = 5,
    Forbidden = 6,
    TicketNotTaken = 7,
    TicketMalformed = 8,
    TicketVersion = 9,
    TicketForged = 10,
    TicketOtherSession = 11,
    TicketOtherKey = 12,
    TicketExpired = 13,
    TicketTooLong = 14,
    TicketUsed = 15,
    TicketFull = 16,
}

/// The reason on the wire for each ticket refusal.
const TICKET_REASONS: [(Reason, TicketRefused); 10] = [
    (Reason::TicketNotTaken, TicketRefused::NotTaken),
    (Reason::TicketMalformed, TicketRefused::Malformed),
    (Reason::TicketVersion, TicketRefused::Version),
    (Reason::TicketForged, TicketRefused::Forged),
    (Reason::TicketOtherSession, TicketRefused::OtherSession),
    (Reason::TicketOtherKey, TicketRefused::OtherKey),
    (Reason::TicketExpired, TicketRefused::Expired),
    (Reason::TicketTooLong, TicketRefused::TooLong),
    (Reason::TicketUsed, TicketRefused::Used),
    (Reason::TicketFull, TicketRefused::Full),
];

impl Reason {
    /// The ticket refusal for this reason; `None` for other reasons.
    pub(super) fn of_ticket(self) -> Option<TicketRefused> {
        let found = TICKET_REASONS.iter().find(|(reason, _)| *reason == self);
        found.map(|(_, refused)| *refused)
    }
}

impl From<TicketRefused> for Reason {
    fn from(why: TicketRefused) -> Reason {
        let found = TICKET_REASONS.iter().find(|(_, refused)| *refused == why);
        found.map_or(Reason::TicketMalformed, |(reason, _)| *reason)
    }
}

impl Refused {
    pub(super) fn new(
        session: SessionId,
        versions: Versions,
        nonce: [u8; 16],
        reason: Reason,
        retry_after: u16,
    ) -> Refused {
        Refused {
            head: Head::new(Kind::Refused, session, None),
            versions: versions.into(),
            reason: reason as u8,
            zero: 0,
            nonce,
            retry_after: U16::new(retry_after),
            zero2: [0; 2],
            tag: [0; 32],
        }
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<(Refused, Reason)> {
        let refused = Refused::read_from_bytes(datagram).ok()?;
        let reason = match refused.reason {
            1 => Reason::Version,
            2 => Reason::PairingClosed,
            3 => Reason::UnknownDevice,
            4 => Reason::Busy,
            5 => Reason::PairingFailed,
            6 => Reason::Forbidden,
            // A Refused with an unknown reason is ignored.
            byte => TICKET_REASONS.iter().find(|(of, _)| *of as u8 == byte)?.0,
        };
        let whole = refused.zero == 0
            && refused.zero2 == [0; 2]
            && refused.head.pattern == 0
            && (reason == Reason::Busy) == (refused.retry_after.get() != 0);
        whole.then_some((refused, reason))
    }
}
