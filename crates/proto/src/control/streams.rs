//! The additional streams of a session: the client offers streams, and the host grants them.
//!
//! Every session has the first view of video stream 0. Without offers, it has no other stream.

use crate::bytes::{Reader, Reject, Writer};
use crate::wire::media::{StreamId, StreamKind};

/// Maximum streams in an offer or a grant. Additional entries are ignored.
pub const MAX_STREAMS: usize = 16;

/// Audio formats. Bit n of [`StreamOffer::formats`] stands for the format with number n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum AudioFormat {
    /// One channel of signed 16-bit samples, little-endian, 48 000 a second.
    Pcm = 0,
    /// Opus (RFC 6716), two channels; samples are counted at 48 000 a second, as in RFC 7587.
    Opus = 1,
}

/// A stream that a host or client supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamOffer {
    /// Its kind and number.
    pub stream: StreamId,
    /// Whether it can carry data from the host to the client.
    pub to_client: bool,
    /// Whether it can carry data from the client to the host.
    pub to_host: bool,
    /// The supported formats: bit n for format n of the stream's kind. Unused for video, whose codec is negotiated for
    /// all views.
    pub formats: u32,
    /// Number of views of a video stream, 1 or more.
    pub views: u8,
}

/// The host's audio, as offered by hosts and clients.
pub const HOST_AUDIO: StreamOffer = StreamOffer {
    stream: StreamId::first(StreamKind::Audio),
    to_client: true,
    to_host: false,
    formats: 1 << AudioFormat::Opus as u8,
    views: 0,
};

/// A client's microphone. It is the second audio stream, because the first has the opposite direction.
pub const MICROPHONE: StreamOffer = StreamOffer {
    stream: StreamId {
        kind: StreamKind::Audio,
        number: 1,
    },
    to_client: false,
    to_host: true,
    ..HOST_AUDIO
};

/// A granted stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its kind and number.
    pub stream: StreamId,
    /// Whether it carries data from the host to the client.
    pub to_client: bool,
    /// Whether it carries data from the client to the host.
    pub to_host: bool,
    /// Number of its format.
    pub format: u8,
    /// Number of views of a video stream.
    pub views: u8,
}

const TO_CLIENT: u8 = 1;
const TO_HOST: u8 = 2;

/// Bytes of an entry's fields.
const ENTRY: u8 = 1 + 1 + 1 + 1 + 4;

/// The host's grants, given the streams that both sides offer: the common directions, the common format with the
/// highest number, and the smaller number of views.
#[must_use]
pub fn granted(host: &[StreamOffer], client: &[StreamOffer]) -> Vec<Grant> {
    let mut grants: Vec<Grant> = Vec::new();
    for asked in client.iter().take(MAX_STREAMS) {
        let known = grants.iter().any(|grant| grant.stream == asked.stream);
        let Some(can) = host.iter().find(|can| can.stream == asked.stream && !known) else {
            continue;
        };
        let video = asked.stream.kind == StreamKind::Video;
        let format = match (can.formats & asked.formats).checked_ilog2() {
            Some(highest) => u8::try_from(highest).unwrap_or(0),
            None if video => 0,
            None => continue,
        };
        let grant = Grant {
            stream: asked.stream,
            to_client: asked.to_client && can.to_client,
            to_host: asked.to_host && can.to_host,
            format,
            views: asked.views.min(can.views),
        };
        if grant.to_client || grant.to_host {
            grants.push(grant);
        }
    }
    grants
}

/// An entry on the wire.
struct Entry {
    stream: StreamId,
    directions: u8,
    views: u8,
    formats: u32,
}

fn write_entries(w: &mut Writer<'_>, entries: impl ExactSizeIterator<Item = Entry>) {
    w.u8(u8::try_from(entries.len().min(MAX_STREAMS)).unwrap_or(0));
    for entry in entries.take(MAX_STREAMS) {
        w.u8(ENTRY)
            .u8(entry.stream.kind as u8)
            .u8(entry.stream.number)
            .u8(entry.directions)
            .u8(entry.views)
            .u32(entry.formats);
    }
}

fn directions(to_client: bool, to_host: bool) -> u8 {
    (u8::from(to_client) * TO_CLIENT) | (u8::from(to_host) * TO_HOST)
}

/// Parses the entries of an offer or a grant. Skips entries of unknown kinds, and extra fields of newer peers.
fn parse_entries<T>(r: &mut Reader<'_>, read: impl Fn(Entry) -> T) -> Result<Vec<T>, Reject> {
    let count = usize::from(r.u8()?);
    let mut entries = Vec::new();
    for _ in 0..count.min(MAX_STREAMS) {
        let length = usize::from(r.u8()?);
        let mut entry = Reader::new(r.bytes(length)?);
        let Some(kind) = StreamKind::from_wire(entry.u8()?) else {
            continue;
        };
        let number = entry.u8()?;
        entries.push(read(Entry {
            stream: StreamId { kind, number },
            directions: entry.u8()?,
            views: entry.u8()?,
            formats: entry.u32()?,
        }));
    }
    Ok(entries)
}

pub(super) fn write_offers(w: &mut Writer<'_>, offers: &[StreamOffer]) {
    let entry = |offer: &StreamOffer| Entry {
        stream: offer.stream,
        directions: directions(offer.to_client, offer.to_host),
        views: offer.views,
        formats: offer.formats,
    };
    write_entries(w, offers.iter().map(entry));
}

/// Returns an empty list if the message ends before the offers, because older peers send none.
pub(super) fn parse_offers(r: &mut Reader<'_>) -> Result<Vec<StreamOffer>, Reject> {
    if r.remaining() == 0 {
        return Ok(Vec::new());
    }
    parse_entries(r, |entry| StreamOffer {
        stream: entry.stream,
        to_client: entry.directions & TO_CLIENT != 0,
        to_host: entry.directions & TO_HOST != 0,
        formats: entry.formats,
        views: entry.views,
    })
}

pub(super) fn write_grants(w: &mut Writer<'_>, grants: &[Grant]) {
    let entry = |grant: &Grant| Entry {
        stream: grant.stream,
        directions: directions(grant.to_client, grant.to_host),
        views: grant.views,
        formats: grant.format.into(),
    };
    write_entries(w, grants.iter().map(entry));
}

pub(super) fn parse_grants(r: &mut Reader<'_>) -> Result<Vec<Grant>, Reject> {
    parse_entries(r, |entry| Grant {
        stream: entry.stream,
        to_client: entry.directions & TO_CLIENT != 0,
        to_host: entry.directions & TO_HOST != 0,
        format: u8::try_from(entry.formats).unwrap_or(u8::MAX),
        views: entry.views,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIO: StreamOffer = StreamOffer {
        stream: StreamId::first(StreamKind::Audio),
        to_client: true,
        to_host: false,
        formats: 0b11,
        views: 0,
    };
    const EYES: StreamOffer = StreamOffer {
        stream: StreamId::first(StreamKind::Video),
        to_client: true,
        to_host: false,
        formats: 0,
        views: 2,
    };

    #[test]
    fn only_common_streams_are_granted() {
        let both = |offer: StreamOffer| StreamOffer {
            to_host: true,
            ..offer
        };
        let grants = granted(&[AUDIO, EYES], &[both(AUDIO), EYES]);
        let formats: Vec<_> = grants.iter().map(|g| (g.format, g.views)).collect();
        assert_eq!(formats, [(1, 0), (0, 2)]);
        assert!(grants.iter().all(|g| g.to_client && !g.to_host));
        assert_eq!(granted(&[], &[AUDIO, EYES]), []);
        assert_eq!(granted(&[AUDIO, EYES], &[]), []);
        let other = StreamOffer {
            formats: 0b100,
            ..AUDIO
        };
        assert_eq!(granted(&[AUDIO], &[other]), [], "no common format");
        let up = StreamOffer {
            to_client: false,
            to_host: true,
            ..AUDIO
        };
        assert_eq!(granted(&[AUDIO], &[up]), [], "no common direction");
        assert_eq!(granted(&[AUDIO], &[AUDIO; 40]).len(), 1, "once");
        let one = StreamOffer { views: 1, ..EYES };
        assert_eq!(granted(&[EYES], &[one])[0].views, 1);
    }

    #[test]
    fn kinds_and_fields_of_a_newer_peer_are_skipped() {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.u8(3);
        w.u8(3).u8(77).u8(0).u8(1);
        w.u8(ENTRY + 2).u8(2).u8(4).u8(1).u8(0).u32(2).u16(9);
        w.u8(ENTRY).u8(4).u8(1).u8(2).u8(0).u32(1);
        let offers = parse_offers(&mut Reader::new(&bytes)).unwrap();
        let streams = offers.iter().map(|o| (o.stream.kind, o.stream.number));
        let streams: Vec<_> = streams.collect();
        assert_eq!(streams, [(StreamKind::Audio, 4), (StreamKind::Haptics, 1)]);
        assert_eq!(parse_offers(&mut Reader::new(&[])), Ok(Vec::new()));
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(parse_offers(&mut Reader::new(cut)), Err(Reject::Truncated));
    }
}
