//! Parsers of wire data. An accepted value is the same after it is written and parsed again.

use openuvr_net::{MAX_DATAGRAM, ether};
use openuvr_proto::control::negotiate::Negotiation;
use openuvr_proto::control::stream::{Incoming, Outgoing, SEGMENT};
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::{Message, Messages};
use openuvr_proto::wire::fec::FecRepair;
use openuvr_proto::wire::header::{Header, Plane, plane_of};
use openuvr_proto::wire::media::Owner;
use openuvr_proto::wire::timed::{Timed, TimedWriter};
use openuvr_proto::wire::video::Fragment;

use crate::Draw;

pub(crate) fn header(bytes: &[u8]) {
    let plane = plane_of(bytes);
    if let Ok((header, parsed)) = Header::parse(bytes) {
        assert_eq!(plane, Ok(parsed));
        assert_ne!(parsed, Plane::Handshake);
        let (sent, number) = (header.sent().0, header.number());
        let again = Header::new(parsed, header.phase(), header.session(), number, sent);
        let again = format!("{again:?}");
        // The reserved bytes may differ.
        assert_eq!(
            again.split("reserved").next(),
            format!("{header:?}").split("reserved").next()
        );
    }
}

pub(crate) fn ether_frame(bytes: &[u8]) {
    if let Some(framed) = ether::parse(bytes) {
        let mut written = ether::prefix(framed.to, framed.from, framed.datagram.len()).to_vec();
        written.extend_from_slice(framed.datagram);
        assert!(bytes.starts_with(&written));
        assert!((1..=MAX_DATAGRAM).contains(&framed.datagram.len()));
    }
}

pub(crate) fn fragment(bytes: &[u8]) {
    if let Ok(fragment) = Fragment::parse(bytes) {
        let mut written = Vec::new();
        fragment.write(&mut written);
        assert_eq!(Fragment::parse(&written), Ok(fragment));
    }
}

pub(crate) fn parity(bytes: &[u8]) {
    if let Ok(parity) = FecRepair::parse(bytes) {
        assert!(matches!(Owner::of(bytes), Ok(Some(Owner::FecRepair(_)))));
        let mut written = Vec::new();
        parity.write(&mut written);
        assert_eq!(FecRepair::parse(&written), Ok(parity));
    }
}

pub(crate) fn timed(bytes: &[u8]) {
    let Ok(timed) = Timed::parse(bytes) else {
        return;
    };
    let payloads: Vec<_> = timed.payloads().collect();
    let mut written = Vec::new();
    let mut writer = TimedWriter::new(&mut written, timed.stream, &payloads[0]);
    for payload in &payloads[1..] {
        // Writing succeeds even if a time is saturated at the clock's minimum.
        assert!(writer.repeat(payload), "parsed payloads fit");
    }
    let again = Timed::parse(&written).expect("written bodies are valid");
    assert!(again.payloads().eq(payloads), "the payloads are unchanged");
}

pub(crate) fn control_messages(bytes: &[u8]) {
    let known: Vec<Message<'_>> = Messages::new(bytes).map_while(Result::ok).collect();
    let mut written = Vec::new();
    known.iter().for_each(|message| message.write(&mut written));
    let again: Result<Vec<_>, _> = Messages::new(&written).collect();
    let again = again.expect("written messages are valid");
    assert_eq!(known.len(), again.len());
    // Saturated sampling times may change in the first round trip. A second round trip changes nothing.
    let mut twice = Vec::new();
    again.iter().for_each(|message| message.write(&mut twice));
    let third: Result<Vec<_>, _> = Messages::new(&twice).collect();
    assert_eq!(Ok(again), third);
}

pub(crate) fn negotiation(bytes: &[u8]) {
    if let Ok(Some(message)) = Negotiation::parse(bytes) {
        assert_eq!(Negotiation::parse(&message.to_bytes()), Ok(Some(message)));
    }
}

/// Segments of a reliable stream at any offset, and arbitrary acknowledgements.
pub(crate) fn stream_segments(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut incoming = Incoming::default();
    let mut outgoing = Outgoing::default();
    let mut now = Instant(0);
    while !draw.is_empty() {
        let round_trip = std::time::Duration::from_millis(5);
        match draw.u8() % 6 {
            0 => {
                let near = incoming.through().wrapping_add(draw.u16().into());
                let length = usize::from(draw.u8());
                let _ = incoming.segment(near.wrapping_sub(64), draw.take(length));
            }
            1 => {
                let _ = incoming.segment(draw.u64(8), draw.take(8));
            }
            2 => {
                let bytes = [draw.u8(); SEGMENT];
                let _ = incoming.segment(incoming.through(), &bytes);
            }
            3 => {
                let length = usize::from(draw.u16());
                let _ = outgoing.push(&vec![7; length]);
            }
            4 => outgoing.acknowledge(now, draw.u64(3), round_trip),
            _ => now.0 += i64::from(draw.u32()),
        }
        let mut messages = 0;
        while let Ok(Some(_)) = incoming.message() {
            messages += 1;
            assert!(messages < 100_000);
        }
        incoming.check_invariants();
        let mut segments = 0;
        while let Some((_, bytes)) = outgoing.poll(now, round_trip) {
            assert!(!bytes.is_empty() && bytes.len() <= SEGMENT);
            segments += 1;
            assert!(segments < 100, "the window is bounded");
        }
        assert!(outgoing.next_timeout().is_none_or(|at| at > now));
    }
}

/// A ticket or a control token, as text or as bytes. A parsed ticket is written as the same text or bytes, and a parsed
/// session id as the same text in lower case.
pub fn tickets(bytes: &[u8]) {
    use openuvr_proto::control::identity::PublicKey;
    use openuvr_proto::control::ticket::{
        Action, ControlToken, SessionUuid, SignedTicket, TicketGate, TicketKey, UnixTime,
    };
    let (key, session) = (TicketKey([7; 32]), SessionUuid([9; 16]));
    let mut gate = TicketGate::new(key, session);
    if let Ok(ticket) = SignedTicket::from_bytes(bytes) {
        assert_eq!(ticket.as_bytes().as_slice(), bytes);
        assert_eq!(ticket.to_string().parse(), Ok(ticket));
        // The fuzzer can't sign a valid ticket, because it doesn't have the private key.
        let taken = gate.redeem(UnixTime(0), &ticket, &PublicKey([1; 32]));
        assert!(taken.is_err());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(ticket) = text.parse::<SignedTicket>() {
            assert_eq!(ticket.to_string(), text);
        }
        if let Ok(uuid) = text.parse::<SessionUuid>() {
            assert_eq!(uuid.to_string(), text.to_ascii_lowercase());
        }
        let token = ControlToken::verify(text, &key, session, Action::Stop, UnixTime(0));
        assert!(token.is_err());
    }
}
