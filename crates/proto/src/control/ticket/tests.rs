//! Tickets are redeemed once, in time, and by their holder.

use proptest::prelude::*;

use super::*;
use crate::control::identity::ClientId;

fn signer() -> TicketSigner {
    TicketSigner::from_seed(&[7; 32]).unwrap()
}

const SESSION: SessionUuid = SessionUuid([9; 16]);
const NOW: UnixTime = UnixTime(1_800_000_000);

fn device(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

fn ticket(id: u8) -> Ticket {
    Ticket {
        session: SESSION,
        role: Role::Player,
        holder: Holder::Key(KeyHash::of(&device(1))),
        not_after: NOW.plus(Duration::from_secs(60)),
        id: [id; 16],
    }
}

fn gate() -> TicketGate {
    TicketGate::new(signer().public(), SESSION)
}

/// The result of redeeming the portal's ticket at a new gate.
fn redeemed(ticket: &Ticket, by: u8, now: UnixTime) -> Result<Role, TicketRefused> {
    gate().redeem(now, &ticket.sign(&signer()), &device(by))
}

#[test]
fn signing_is_that_of_rfc_8032() {
    // RFC 8032, section 7.1, test 1.
    let seed = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    let signer = TicketSigner::from_seed(&seed).unwrap();
    assert_eq!(signer.public().0[..4], [0xd7, 0x5a, 0x98, 0x01]);
    assert_eq!(signer.sign(b"", b"")[..4], [0xe5, 0x56, 0x43, 0x00]);
    assert_eq!(*signer.seed(), seed);
    let text = signer.public().to_string();
    assert_eq!(text.len(), 43);
    assert_eq!(text.parse(), Ok(signer.public()));
    assert!(format!("{signer:?}").contains(&text));
}

#[test]
fn a_ticket_admits_its_device_only() {
    let mut gate = gate();
    let signed = ticket(1).sign(&signer());
    let other = gate.redeem(NOW, &signed, &device(2));
    assert_eq!(other, Err(TicketRefused::OtherKey));
    assert_eq!(gate.admitted(&device(1)), None);
    assert_eq!(gate.redeem(NOW, &signed, &device(1)), Ok(Role::Player));
    assert_eq!(gate.admitted(&device(1)), Some(Role::Player));
    let id = ClientId::of(&device(1));
    assert_eq!(gate.admitted_key(&id), Some(device(1)));
    assert_eq!(gate.admitted_key(&ClientId::of(&device(2))), None);
    // The device repeats its ticket after a lost reply.
    assert_eq!(gate.redeem(NOW, &signed, &device(1)), Ok(Role::Player));
}

#[test]
fn a_ticket_names_one_session_for_any_signer() {
    for signer in [signer(), TicketSigner::generate().unwrap()] {
        let signed = ticket(1).sign(&signer);
        assert!(signed.names(SESSION));
        assert!(!signed.names(SessionUuid([8; 16])));
    }
}

#[test]
fn an_open_ticket_belongs_to_the_first_that_comes() {
    let mut gate = gate();
    let open = Ticket {
        holder: Holder::FirstUse,
        role: Role::Observer,
        ..ticket(1)
    };
    let signed = open.sign(&signer());
    assert_eq!(gate.redeem(NOW, &signed, &device(5)), Ok(Role::Observer));
    let second = gate.redeem(NOW, &signed, &device(6));
    assert_eq!(second, Err(TicketRefused::Used));
    assert_eq!(gate.redeem(NOW, &signed, &device(5)), Ok(Role::Observer));
}

#[test]
fn each_refusal_has_its_reason() {
    let late = NOW.plus(Duration::from_secs(60)).plus(CLOCK_SKEW);
    assert_eq!(redeemed(&ticket(1), 1, late), Ok(Role::Player));
    let later = UnixTime(late.0 + 1);
    assert_eq!(redeemed(&ticket(1), 1, later), Err(TicketRefused::Expired));
    let elsewhere = Ticket {
        session: SessionUuid([8; 16]),
        ..ticket(1)
    };
    let refused = redeemed(&elsewhere, 1, NOW);
    assert_eq!(refused, Err(TicketRefused::OtherSession));
    let unlimited = Ticket {
        not_after: UnixTime(u64::MAX),
        ..ticket(1)
    };
    let refused = redeemed(&unlimited, 1, NOW);
    assert_eq!(refused, Err(TicketRefused::TooLong));
    let open_long = Ticket {
        holder: Holder::FirstUse,
        not_after: NOW.plus(MAX_TICKET_LIFE),
        ..ticket(1)
    };
    let refused = redeemed(&open_long, 1, NOW);
    assert_eq!(refused, Err(TicketRefused::TooLong));
    let foreign = TicketSigner::from_seed(&[8; 32]).unwrap();
    let refused = gate().redeem(NOW, &ticket(1).sign(&foreign), &device(1));
    assert_eq!(refused, Err(TicketRefused::Forged));
    let mut newer = *ticket(1).sign(&signer()).as_bytes();
    newer[0] = 2;
    assert_eq!(
        SignedTicket::from_bytes(&newer),
        Err(TicketRefused::Version)
    );
    assert_eq!(
        SignedTicket::from_bytes(&[2; 200]),
        Err(TicketRefused::Version),
        "another version may have another length"
    );
}

#[test]
fn tickets_and_tokens_are_not_interchangeable() {
    let token = ControlToken {
        session: SESSION,
        actions: Actions::ALL,
        not_after: NOW,
        id: [1; 16],
    };
    let text = token.sign(&signer());
    let as_ticket = text.parse::<SignedTicket>();
    assert_eq!(as_ticket, Err(TicketRefused::Malformed));
    let text = ticket(1).sign(&signer()).to_string();
    let key = signer().public();
    let as_token = ControlToken::verify(&text, &key, SESSION, Action::Stop, NOW);
    assert_eq!(as_token, Err(TokenRefused::Malformed));
}

#[test]
fn a_token_permits_its_actions_only() {
    let key = signer().public();
    let token = ControlToken {
        session: SESSION,
        actions: Actions::of(&[Action::Status, Action::Renew]),
        not_after: NOW,
        id: [1; 16],
    };
    let text = token.sign(&signer());
    let verify = |action, session, now| ControlToken::verify(&text, &key, session, action, now);
    for _ in 0..2 {
        assert_eq!(verify(Action::Renew, SESSION, NOW), Ok(token));
    }
    let refused = verify(Action::Stop, SESSION, NOW);
    assert_eq!(refused, Err(TokenRefused::NotAllowed));
    let refused = verify(Action::Status, SessionUuid([1; 16]), NOW);
    assert_eq!(refused, Err(TokenRefused::OtherSession));
    let late = NOW.plus(Duration::from_secs(31));
    assert_eq!(
        verify(Action::Status, SESSION, late),
        Err(TokenRefused::Expired)
    );
    let early = UnixTime(NOW.0 - MAX_TOKEN_LIFE.as_secs() - 31);
    assert_eq!(
        verify(Action::Status, SESSION, early),
        Err(TokenRefused::Expired)
    );
    let other = TicketSigner::from_seed(&[1; 32]).unwrap().public();
    let refused = ControlToken::verify(&text, &other, SESSION, Action::Status, NOW);
    assert_eq!(refused, Err(TokenRefused::Forged));
}

#[test]
fn memory_of_used_tickets_is_bounded_and_fades() {
    let mut gate = gate();
    let numbered = |n: usize, not_after| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&n.to_le_bytes());
        let ticket = Ticket {
            id,
            not_after,
            ..ticket(0)
        };
        ticket.sign(&signer())
    };
    let soon = NOW.plus(Duration::from_secs(60));
    for n in 0..MAX_USED {
        let taken = gate.redeem(NOW, &numbered(n, soon), &device(1));
        assert_eq!(taken, Ok(Role::Player));
    }
    let one_more = numbered(MAX_USED, soon);
    let refused = gate.redeem(NOW, &one_more, &device(1));
    assert_eq!(refused, Err(TicketRefused::Full));
    assert_eq!(gate.remembered(), MAX_USED);
    let later = soon.plus(CLOCK_SKEW).plus(Duration::from_secs(1));
    let fresh = numbered(MAX_USED + 1, later);
    assert_eq!(gate.redeem(later, &fresh, &device(1)), Ok(Role::Player));
    assert_eq!(gate.remembered(), 1);
}

#[test]
fn devices_that_are_admitted_are_bounded() {
    let mut gate = gate();
    for n in 0..=MAX_ADMITTED {
        let mut key = [3; 32];
        key[..8].copy_from_slice(&n.to_le_bytes());
        let key = PublicKey(key);
        let of_its_own = Ticket {
            id: key.0[..16].try_into().unwrap(),
            holder: Holder::Key(KeyHash::of(&key)),
            ..ticket(0)
        };
        let expected = match n < MAX_ADMITTED {
            true => Ok(Role::Player),
            false => Err(TicketRefused::Full),
        };
        let taken = gate.redeem(NOW, &of_its_own.sign(&signer()), &key);
        assert_eq!(taken, expected);
    }
}

#[test]
fn uuids_have_one_form() {
    let text = "6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b";
    let uuid: SessionUuid = text.parse().unwrap();
    assert_eq!(uuid.to_string(), text);
    assert_eq!(uuid.0[0], 0x6f);
    for bad in [
        "",
        "6f1c2a345b6d4e8f9a0b1c2d3e4f5a6b",
        "6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6",
        "6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6bc",
        "6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6g",
        "6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f-a6b",
        "{f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b",
    ] {
        assert_eq!(bad.parse::<SessionUuid>(), Err(BadUuid), "{bad}");
    }
    let new = SessionUuid::generate().unwrap().to_string();
    assert_eq!(&new[14..15], "4");
    assert_ne!(new, SessionUuid::generate().unwrap().to_string());
}

#[test]
fn texts_are_validated_and_not_logged() {
    let signed = ticket(1).sign(&signer());
    let text = signed.to_string();
    assert_eq!(text.len(), 187);
    assert_eq!(text.parse(), Ok(signed));
    for bad in [
        format!("{text}="),
        format!(" {text}"),
        text[1..].to_owned(),
        text.replace(['-', '_'], "+"),
        "A".repeat(MAX_TEXT + 1),
        String::new(),
    ] {
        if bad != text {
            assert!(bad.parse::<SignedTicket>().is_err(), "{bad}");
        }
    }
    assert_eq!(format!("{signed:?}"), "SignedTicket(..)");
}

fn any_ticket() -> impl Strategy<Value = Ticket> {
    let holder = prop_oneof![
        Just(Holder::FirstUse),
        any::<[u8; 32]>().prop_map(|hash| Holder::Key(KeyHash(hash))),
    ];
    let role = prop_oneof![Just(Role::Player), Just(Role::Observer)];
    (
        any::<[u8; 16]>(),
        role,
        holder,
        any::<u64>(),
        any::<[u8; 16]>(),
    )
        .prop_map(|(session, role, holder, not_after, id)| Ticket {
            session: SessionUuid(session),
            role,
            holder,
            not_after: UnixTime(not_after),
            id,
        })
}

proptest! {
    #[test]
    fn signed_tickets_are_read_back(ticket in any_ticket()) {
        let text = ticket.sign(&signer()).to_string();
        let read = text.parse::<SignedTicket>().unwrap();
        prop_assert_eq!(read.verify(&signer().public()), Ok(ticket));
    }

    #[test]
    fn a_changed_bit_is_refused(ticket in any_ticket(), bit in 0..TICKET * 8) {
        let mut bytes = *ticket.sign(&signer()).as_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = SignedTicket::from_bytes(&bytes);
        let read = read.and_then(|changed| changed.verify(&signer().public()));
        prop_assert!(read.is_err());
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in ".{0,600}") {
        let _ = text.parse::<SignedTicket>();
        let _ = text.parse::<SessionUuid>();
        let _ = text.parse::<TicketKey>();
        let key = signer().public();
        let _ = ControlToken::verify(&text, &key, SESSION, Action::Status, NOW);
    }

    #[test]
    fn uuids_are_read_back(bytes in any::<[u8; 16]>()) {
        let uuid = SessionUuid(bytes);
        prop_assert_eq!(uuid.to_string().parse(), Ok(uuid));
    }
}
