//! Classifies datagrams by their first bytes, according to RFC 7983 (STUN, DTLS, TURN, RTP), RFC 5761 (RTP and RTCP),
//! and OpenUVR's own cleartext header.
//!
//! This module decrypts nothing of SRTP, DTLS or OpenUVR.

use openuvr_proto::wire::header::{Header, PROTOCOL_VERSION, Plane, plane_of};

/// A kind of datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// RTP or SRTP, which have the same headers.
    Rtp,
    /// RTCP or SRTCP.
    Rtcp,
    /// DTLS, which carries WebRTC's handshake and data channels.
    Dtls,
    /// STUN: Session Traversal Utilities for NAT (RFC 8489).
    Stun,
    /// OpenUVR's media plane.
    OpenUvrMedia,
    /// OpenUVR's control plane.
    OpenUvrControl,
    /// OpenUVR's handshake.
    OpenUvrHandshake,
    /// Anything else over UDP.
    Other,
}

/// The RTP header (RFC 3550, section 5.1) without the list of contributing sources and the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtp {
    /// The marker bit. It is set in the last packet of a video frame.
    pub marker: bool,
    /// Payload type, as negotiated.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Sampling time, in ticks of the media clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

/// The cleartext header of a sealed OpenUVR datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Session identifier.
    pub session: u32,
    /// Datagram number. Each direction and each plane counts separately.
    pub number: u64,
    /// Send timestamp, in nanoseconds of the sender's clock.
    pub sent: i64,
}

/// A datagram's kind and header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// RTP.
    Rtp(Rtp),
    /// A sealed OpenUVR datagram, with its plane.
    OpenUvr(Plane, Sealed),
    /// All other kinds.
    Plain(Kind),
}

/// Length of RTP's header without the list of contributing sources and the extension.
pub const RTP_HEADER: usize = 12;

/// The magic cookie of STUN (RFC 8489, section 5).
const COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();

const STUN_HEADER: usize = 20;

/// Length of a TURN channel header, which precedes relayed data: channel number and length (RFC 8656, section 12.4).
const CHANNEL: usize = 4;

impl Content {
    /// Classifies a datagram of `length` bytes, of which `payload` was captured. Also returns whether a TURN channel
    /// carries it.
    #[must_use]
    pub fn of(payload: &[u8], length: usize) -> (Content, bool) {
        // The first byte of a channel number is 64 to 79 (RFC 7983, section 7).
        if let Some((first, inner)) = payload.split_first_chunk::<CHANNEL>()
            && (64..80).contains(&first[0])
        {
            let reported = usize::from(u16::from_be_bytes([first[2], first[3]]));
            // Over UDP, up to three bytes of padding may follow.
            if (reported..reported + 4).contains(&length.saturating_sub(CHANNEL)) {
                return (direct(inner, reported), true);
            }
        }
        (direct(payload, length), false)
    }

    /// The datagram's kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Content::Rtp(_) => Kind::Rtp,
            Content::OpenUvr(Plane::Media, _) => Kind::OpenUvrMedia,
            Content::OpenUvr(Plane::Control, _) => Kind::OpenUvrControl,
            Content::OpenUvr(Plane::Handshake, _) => Kind::OpenUvrHandshake,
            Content::Plain(kind) => *kind,
        }
    }
}

impl Kind {
    /// The kind's name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rtp => "RTP",
            Kind::Rtcp => "RTCP",
            Kind::Dtls => "DTLS",
            Kind::Stun => "STUN",
            Kind::OpenUvrMedia => "OpenUVR media",
            Kind::OpenUvrControl => "OpenUVR control",
            Kind::OpenUvrHandshake => "OpenUVR handshake",
            Kind::Other => "other UDP",
        }
    }
}

fn direct(payload: &[u8], length: usize) -> Content {
    let first = payload.first().copied().unwrap_or(0xff);
    let second = payload.get(1).copied().unwrap_or(0);
    Content::Plain(match first {
        0..=3 if is_stun(payload, length) => Kind::Stun,
        PROTOCOL_VERSION => return openuvr(payload, length),
        20..=63 => Kind::Dtls,
        // Payload types 64 to 95 are reserved for RTCP (RFC 5761, section 4).
        128..=191 if (192..=223).contains(&second) => Kind::Rtcp,
        128..=191 => match rtp(payload) {
            Some(rtp) => return Content::Rtp(rtp),
            None => Kind::Other,
        },
        _ => Kind::Other,
    })
}

fn is_stun(payload: &[u8], length: usize) -> bool {
    let reported = payload.get(2..4).map(|l| u16::from_be_bytes([l[0], l[1]]));
    payload.get(4..8) == Some(&COOKIE)
        && reported.is_some_and(|reported| {
            reported % 4 == 0 && usize::from(reported) + STUN_HEADER == length
        })
}

/// Parses RTP's header. Returns `None` if it is incomplete.
fn rtp(payload: &[u8]) -> Option<Rtp> {
    let header = payload.first_chunk::<RTP_HEADER>()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    Some(Rtp {
        marker: header[1] & 0x80 != 0,
        payload_type: header[1] & 0x7f,
        sequence: u16::from_be_bytes([header[2], header[3]]),
        timestamp: word(4),
        ssrc: word(8),
    })
}

fn openuvr(payload: &[u8], length: usize) -> Content {
    let other = Content::Plain(Kind::Other);
    let Ok(plane) = plane_of(payload) else {
        return other;
    };
    if plane == Plane::Handshake {
        return Content::Plain(Kind::OpenUvrHandshake);
    }
    // In OpenUVR's datagrams, the reserved field is zero, which distinguishes them from others.
    let Some(header) =
        Header::from_capture(payload, length).filter(|_| payload.get(2..4) == Some(&[0, 0]))
    else {
        return other;
    };
    let sealed = Sealed {
        session: header.session().0,
        number: header.number(),
        sent: header.sent().0,
    };
    match sealed.session {
        0 => other,
        _ => Content::OpenUvr(plane, sealed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Kind {
        Content::of(bytes, bytes.len()).0.kind()
    }

    fn with(first: &[u8], length: usize) -> Vec<u8> {
        let mut bytes = first.to_vec();
        bytes.resize(length, 7);
        bytes
    }

    #[test]
    fn first_bytes_decide_as_in_the_rfcs() {
        let mut stun = with(&[0, 1, 0, 80], 100);
        stun[4..8].copy_from_slice(&COOKIE);
        assert_eq!(kind(&stun), Kind::Stun);
        stun[7] = 0;
        assert_eq!(kind(&stun), Kind::Other);
        assert_eq!(kind(&with(&[22, 254, 253], 60)), Kind::Dtls);
        assert_eq!(kind(&with(&[0x80, 96], 60)), Kind::Rtp);
        assert_eq!(kind(&with(&[0x80, 0xe0], 60)), Kind::Rtp);
        assert_eq!(kind(&with(&[0x80, 200], 60)), Kind::Rtcp);
        assert_eq!(kind(&with(&[0x80, 96], 11)), Kind::Other);
        assert_eq!(kind(&with(&[0xc0], 60)), Kind::Other);
        assert_eq!(kind(&[]), Kind::Other);
    }

    #[test]
    fn turn_channel_data_is_classified() {
        let inner = with(&[0x80, 96], 61);
        let mut bytes = vec![0x40, 0, 0, 61];
        bytes.extend(&inner);
        bytes.extend([0; 3]);
        let (content, is_relayed) = Content::of(&bytes, bytes.len());
        assert!((content.kind(), is_relayed) == (Kind::Rtp, true));
        assert_eq!(kind(&with(&[0x40, 0, 1, 0], 61)), Kind::Other);
    }

    #[test]
    fn our_header_is_distinguished_from_others() {
        let mut header = vec![PROTOCOL_VERSION, 0x82, 0, 0, 9, 0, 0, 0];
        header.extend(77_u64.to_le_bytes());
        header.extend((-5_i64).to_le_bytes());
        let bytes = with(&header, 1400);
        let sealed = Sealed {
            session: 9,
            number: 77,
            sent: -5,
        };
        let want = Content::OpenUvr(Plane::Media, sealed);
        assert_eq!(Content::of(&bytes, 1400), (want, false));
        // A merged or truncated datagram has the same header.
        assert_eq!(Content::of(&bytes[..24], 60_000), (want, false));
        assert_eq!(kind(&with(&[1, 2, 3, 4], 100)), Kind::Other);
        assert_eq!(kind(&with(&[1, 0], 200)), Kind::OpenUvrHandshake);
    }
}
