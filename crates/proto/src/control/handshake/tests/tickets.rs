//! Tests of a client with a portal's ticket, and of a host that accepts tickets.

use super::*;
use crate::control::negotiate::Role;
use crate::control::ticket::{
    Holder, KeyHash, SessionUuid, Ticket, TicketGate, TicketRefused, TicketSigner, UnixTime,
};

const SESSION: SessionUuid = SessionUuid([6; 16]);
const TIME: UnixTime = UnixTime(1_800_000_000);

fn signer() -> TicketSigner {
    TicketSigner::from_seed(&[5; 32]).unwrap()
}

fn ticket() -> Ticket {
    Ticket {
        session: SESSION,
        role: Role::Observer,
        holder: Holder::FirstUse,
        not_after: UnixTime(TIME.0 + 60),
        id: [1; 16],
    }
}

/// A host that accepts tickets, and a client with this ticket.
fn showing(ticket: &Ticket) -> World {
    let signed = ticket.sign(&signer());
    let mut world = World::new(|host| Trust::Ticket {
        host: host.public(),
        ticket: signed,
    });
    let gate = TicketGate::new(signer().public(), SESSION);
    world.host.take_tickets(gate);
    world.host.time_of_day(TIME);
    world
}

/// Connects with the same client again.
fn attempt(world: &mut World, trust: Trust) -> Result<(), HandshakeError> {
    let name = DeviceName::new("x");
    let client = ClientHandshake::new(world.now, &world.client_identity, name, trust);
    world.client = client.unwrap();
    world.run()
}

#[test]
fn a_ticket_admits_a_stranger_that_then_reconnects() {
    let mut world = showing(&ticket());
    world.run().unwrap();
    let name = DeviceName::new("the attic");
    let role = Role::Observer;
    assert_eq!(world.assert_agreed(), &Paired::Ticket { name, role });
    let key = world.client_identity.public();
    assert_eq!(world.host.admitted(&key), Some(Role::Observer));
    // The client reconnects with its key after the ticket has expired.
    world.host.time_of_day(UnixTime(TIME.0 + 10_000));
    let host = world.host_identity.public();
    attempt(&mut world, Trust::Known(host)).unwrap();
    assert_eq!(world.at_host[1].1, Paired::Known);
    assert!(world.host.poll_event().is_none());
}

#[test]
fn cleartext_contains_no_ticket() {
    let mut world = showing(&ticket());
    world.run().unwrap();
    let signed = ticket().sign(&signer());
    let part = &signed.as_bytes()[..16];
    for (_, datagram) in &world.seen {
        assert!(!datagram.windows(16).any(|bytes| bytes == part));
    }
}

#[test]
fn impairments_do_not_consume_a_ticket() {
    for seed in 0..40 {
        let mut world = showing(&ticket());
        world.random = seed;
        world.impairments = Impairments {
            loss: 30,
            twice: 20,
            delay: 40,
        };
        world.run().unwrap();
        let client = world.at_client.last().unwrap();
        let same = |(host, _): &&(Established, Paired)| host.session == client.session;
        assert!(world.at_host.iter().any(|at| same(&at)));
    }
}

#[test]
fn each_bad_ticket_is_refused_with_its_reason_at_both_ends() {
    let mut elsewhere = ticket();
    elsewhere.session = SessionUuid([7; 16]);
    let mut old = ticket();
    old.not_after = UnixTime(TIME.0 - 31);
    let mut unlimited = ticket();
    unlimited.not_after = UnixTime(u64::MAX);
    let mut of_another = ticket();
    of_another.holder = Holder::Key(KeyHash::of(&PublicKey([1; 32])));
    for (ticket, why) in [
        (elsewhere, TicketRefused::OtherSession),
        (old, TicketRefused::Expired),
        (unlimited, TicketRefused::TooLong),
        (of_another, TicketRefused::OtherKey),
    ] {
        let mut world = showing(&ticket);
        assert_eq!(world.run(), Err(HandshakeError::Ticket(why)));
        let event = world.host.poll_event();
        let expected = PairingEvent::TicketRefused { from: CLIENT, why };
        assert_eq!(event, Some(expected));
        assert!(world.at_host.is_empty());
    }
}

#[test]
fn a_used_ticket_admits_no_second_device() {
    let mut world = showing(&ticket());
    world.run().unwrap();
    world.client_identity = Identity::generate().unwrap();
    let trust = Trust::Ticket {
        host: world.host_identity.public(),
        ticket: ticket().sign(&signer()),
    };
    let again = attempt(&mut world, trust);
    assert_eq!(again, Err(HandshakeError::Ticket(TicketRefused::Used)));
    assert_eq!(world.at_host.len(), 1);
}

#[test]
fn forged_tickets_and_forbidden_devices_are_refused() {
    let mut world = showing(&ticket());
    let forged = ticket().sign(&TicketSigner::from_seed(&[6; 32]).unwrap());
    let host = world.host_identity.public();
    let trust = Trust::Ticket {
        host,
        ticket: forged,
    };
    let outcome = attempt(&mut world, trust);
    assert_eq!(outcome, Err(HandshakeError::Ticket(TicketRefused::Forged)));
    let mut world = showing(&ticket());
    world.standing = DeviceStatus::Forbidden(world.client_identity.public());
    assert_eq!(world.run(), Err(HandshakeError::Forbidden));
}

#[test]
fn a_host_without_a_portal_refuses_tickets_with_a_reason() {
    let mut world = World::new(|host| Trust::Ticket {
        host: host.public(),
        ticket: ticket().sign(&signer()),
    });
    let outcome = world.run();
    let why = TicketRefused::NotTaken;
    assert_eq!(outcome, Err(HandshakeError::Ticket(why)));
}

#[test]
fn a_ticket_for_another_host_is_not_answered() {
    let mut world = World::new(|_| Trust::Ticket {
        host: Identity::generate().unwrap().public(),
        ticket: ticket().sign(&signer()),
    });
    let gate = TicketGate::new(signer().public(), SESSION);
    world.host.take_tickets(gate);
    world.host.time_of_day(TIME);
    assert_eq!(world.run(), Err(HandshakeError::TicketUnanswered));
    assert_eq!(world.host.half_open(), 0, "no state was kept");
}

#[test]
fn a_begin_repeated_from_another_address_consumes_nothing() {
    let mut world = showing(&ticket());
    world.run().unwrap();
    let begin = world
        .seen
        .iter()
        .find(|(to, datagram)| *to == To::Host && Kind::of(datagram) == Some(Kind::Begin));
    let begin = begin.unwrap().1.clone();
    // The replayed Begin fails because its cookie is valid for one address only. No ticket is consumed, because a host
    // redeems a ticket only at the Finish.
    let reaction = world
        .host
        .handle_datagram(world.now, OTHER, &begin, &no_device);
    assert!(reaction.reply.is_none() && reaction.established.is_none());
}

#[test]
fn flipped_bits_of_a_begin_with_a_ticket_are_refused() {
    let mut world = showing(&ticket());
    world.flips = Some((Kind::Begin, 0..503 * 8));
    world.run().unwrap();
    world.assert_agreed();
}
