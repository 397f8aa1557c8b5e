//! Input of a browser. It arrives once and in order, and held keys are released when the browser disconnects.

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{ConfigEpoch, InputSeq};
use openuvr_proto::input::batch::InputBatch;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::input::pressed::PressedKey;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{Message, Messages, Report};
use openuvr_runtime::host::Notice;
use serde_json::json;

use super::caller::Caller;
use super::remote::{Arrived, Remote};
use super::support::{Rig, TIMEOUT};

const SIZE: Size = Size::new(320, 192);

fn key(code: u16, pressed: bool) -> InputEvent {
    let text = None;
    let code = KeyCode(code);
    InputEvent::Key {
        code,
        text,
        pressed,
    }
}

/// Events that are numbered from `first` on, and the keys that are held after them.
fn batch(first: u32, events: &[InputEvent], held: &[u16]) -> InputBatch {
    let held = held.iter().map(|code| PressedKey {
        device: None,
        code: *code,
    });
    InputBatch {
        epoch: ConfigEpoch(0),
        first: InputSeq(first),
        events: events.iter().map(|e| (*e, PeerInstant(1))).collect(),
        pressed: Some(held.collect()),
    }
}

/// Waits until everything up to this number has been acknowledged.
fn seen(remote: &mut Remote, through: u32) {
    remote.wait("the acknowledgement", |arrived| match arrived {
        Arrived::Control(body) if body[0] < 0xf0 => Messages::new(&body).find_map(|message| {
            let wanted = Message::InputAcked {
                through: InputSeq(through),
            };
            (message == Ok(wanted)).then_some(())
        }),
        _ => None,
    });
}

#[test]
fn each_event_is_applied_once_and_in_order() {
    let rig = Rig::new("order", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    let events = [key(30, true), key(48, true), key(30, false), key(48, false)];
    let all = batch(1, &events, &[]);
    // A batch after a gap is ignored.
    remote.send_control(&Message::Input(batch(3, &events[2..], &[])));
    remote.send_control(&Message::Input(batch(1, &events[..1], &[30])));
    for _ in 0..3 {
        remote.send_control(&Message::Input(all.clone()));
    }
    seen(&mut remote, 4);
    remote.send_control(&Message::Input(batch(5, &[key(46, true)], &[46])));
    seen(&mut remote, 5);
    let arrived: Vec<_> = (0..5).map(|_| rig.input()).collect();
    assert_eq!(arrived[..4], events);
    assert_eq!(arrived[4], key(46, true));
    // Keys that the page no longer holds are released even without an event.
    remote.send_control(&Message::Input(batch(6, &[], &[])));
    assert_eq!(rig.input(), key(46, false));
}

#[test]
fn a_page_that_is_closed_in_mid_press_holds_nothing() {
    let rig = Rig::new("closed", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    remote.send_control(&Message::Input(batch(1, &[key(30, true)], &[30])));
    assert_eq!(rig.input(), key(30, true));
    drop(remote);
    assert_eq!(rig.input(), InputEvent::ReleaseAll);
}

#[test]
fn an_observer_sends_no_input() {
    let rig = Rig::new("watches", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "role=watch");
    let role = |arrived| match arrived {
        Arrived::Notice(told) if told["type"] == "role" => told["plays"].as_bool(),
        _ => None,
    };
    assert!(!remote.wait("the role", role));
    remote.send_control(&Message::Input(batch(1, &[key(30, true)], &[30])));
    seen(&mut remote, 1);
    remote.send_notice(&json!({ "type": "role", "play": true, "takeOver": true }));
    assert!(remote.wait("the player's role", role));
    remote.send_control(&Message::Input(batch(2, &[key(48, true)], &[48])));
    assert_eq!(
        rig.input(),
        key(48, true),
        "input of an observer is discarded"
    );
    // Another browser connects, waits, and takes over.
    let mut second = Remote::connected(&again(&rig), "");
    assert!(!second.wait("the second's role", role));
    second.send_notice(&json!({ "type": "role", "play": true, "takeOver": true }));
    assert_eq!(rig.input(), InputEvent::ReleaseAll);
    assert!(!remote.wait("it watches", role));
    drop(second);
    assert!(remote.wait("it is player again", role));
}

/// A second device, for which pairing is opened again.
fn again(rig: &Rig) -> Caller {
    let pin = openuvr_proto::control::pairing::Pin::parse(super::support::PIN).unwrap();
    rig.host.open_pairing(pin, TIMEOUT);
    let mut caller = Caller::new(rig);
    super::support::eventually("an open pairing window", || {
        (caller.log_in(super::support::PIN).status == 200).then_some(())
    });
    caller
}

#[test]
fn reports_of_the_page_are_recorded() {
    let rig = Rig::new("reports", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "reports");
    remote.tells_the_time(PeerInstant(7_000_000_000));
    let frame = remote.names_a_frame();
    let displayed = Outcome::Displayed(Fidelity::Complete);
    let report = Report {
        first_received: Some(PeerInstant(7_100_000_000)),
        submitted: Some(std::time::Duration::from_millis(5)),
        ..Report::new(frame, displayed)
    };
    for _ in 0..3 {
        remote.send_control(&Message::Report(report));
    }
    let record = loop {
        match rig.notices.next(TIMEOUT).expect("a record") {
            Notice::Record(record) if record.frame == frame => break record,
            Notice::RoleChanged(_, role) => assert_eq!(role, Role::Player),
            _ => {}
        }
    };
    assert_eq!(record.outcome, displayed);
    assert_eq!(record.client.submitted, report.submitted);
    assert!(record.cost.bytes > 0);
}
