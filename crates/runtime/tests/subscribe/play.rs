//! Players other than sessions, such as browsers, together with OpenUVR clients.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use openuvr_clock as clock;
use openuvr_media::cursor::CursorShape;
use openuvr_proto::control::negotiate::{ObserverReason, Refusal, Role};
use openuvr_proto::host::{Ending, Grant, InputRefused, SubscribeRequest};
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Fidelity, FrameRecord, Outcome, Stage};
use openuvr_proto::wire::control::{GoodbyeReason, Report};
use openuvr_proto::wire::video::{EchoKind, FrameHeader};
use openuvr_runtime::host::{HostRuntime, Notice, Notices, SubscribeError};

use super::support::{MANY, TIMEOUT};
use super::{Misbehaving, Streaming, Writer, start};

/// A frame or update received by a browser.
#[derive(Debug)]
pub(crate) enum Arrived {
    Frame(FrameHeader),
    Update(Update),
}

/// A gateway's subscriber for a browser.
pub(crate) struct Browser(SyncSender<Arrived>, Option<FrameHeader>);

impl Browser {
    pub(crate) fn new(arrives: SyncSender<Arrived>) -> Browser {
        Browser(arrives, None)
    }
}

impl Subscriber for Browser {
    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        self.1 = Some(frame.header);
    }

    fn slice(&mut self, _: Instant, _: &Slice<'_>) {}

    fn end(&mut self, now: Instant) -> Progress {
        let frame = self.1.take().expect("it has begun");
        let _ = self.0.send(Arrived::Frame(frame));
        Progress::Sent(Departure {
            first: Some(now),
            last: Some(now),
            datagrams: 1,
            bytes: 1200,
            ..Departure::default()
        })
    }

    fn dropped(&mut self, _: Instant, _: FrameId, _: Stage, _: DropCause) {
        self.1 = None;
    }

    fn update(&mut self, _: Instant, update: Update) {
        let _ = self.0.send(Arrived::Update(update));
    }
}

/// Subscribes a browser that takes over the player role.
fn browser(host: &HostRuntime) -> (SubscriberId, Grant, Receiver<Arrived>) {
    let (arrives, arrived) = sync_channel(MANY);
    let request = SubscribeRequest {
        take_over: true,
        reports: true,
        ..SubscribeRequest::new(Role::Player, "browser")
    };
    let subscriber = Box::new(Browser(arrives, None));
    let (id, grant) = host.subscribe(request, subscriber).unwrap();
    (id, grant, arrived)
}

/// Waits for the first item for which `find` returns a value.
fn wait<T, U>(what: &str, mut next: impl FnMut() -> Option<T>, find: impl Fn(T) -> Option<U>) -> U {
    loop {
        let one = next().unwrap_or_else(|| panic!("timeout: {what}"));
        if let Some(found) = find(one) {
            return found;
        }
    }
}

pub(crate) fn arrives<U>(
    arrived: &Receiver<Arrived>,
    what: &str,
    find: impl Fn(Arrived) -> Option<U>,
) -> U {
    wait(what, || arrived.recv_timeout(TIMEOUT).ok(), find)
}

fn notice<U>(notices: &Notices, what: &str, find: impl Fn(Notice) -> Option<U>) -> U {
    wait(what, || notices.next(TIMEOUT), find)
}

fn role_of(notices: &Notices, what: &str) -> (SubscriberId, Role) {
    notice(notices, what, |notice| match notice {
        Notice::RoleChanged(id, role) => Some((id, role)),
        _ => None,
    })
}

fn press(code: u16) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text: None,
        pressed: true,
    }
}

#[test]
fn a_browser_takes_over_types_and_loses_the_role() {
    let Streaming { host, received, .. } = &start("browser");
    let notices = host.notices();
    let (id, grant, arrived) = browser(host);
    assert_eq!((grant.role, grant.observer_reason), (Role::Player, None));
    let (desk, role) = role_of(&notices, "the client observes");
    assert_eq!(role, Role::Observer);

    let frame = |arrived| match arrived {
        Arrived::Frame(header) => Some(header),
        Arrived::Update(_) => None,
    };
    arrives(&arrived, "its key frame", frame);

    // The client's keys are released before the browser's key arrives.
    let here = |at: Instant| PeerInstant(at.0);
    let seq = host.input(id, press(30), here(clock::now())).unwrap();
    let typed = || received.recv_timeout(TIMEOUT).expect("input");
    assert_eq!([typed(), typed()], [InputEvent::ReleaseAll, press(30)]);
    // A frame that may show the key press echoes it to the browser only.
    let shows = arrives(&arrived, "the echo", |arrived| {
        frame(arrived).filter(|header| header.echo.seq == seq)
    });
    assert_eq!(shows.echo.kind, EchoKind::Injected);
    // The record of the frame contains the browser's display report.
    let displayed = Outcome::Displayed(Fidelity::Complete);
    let (asked, first) = (clock::now(), clock::now());
    host.feedback(
        id,
        Feedback::Clock {
            asked,
            received: here(asked),
            answered: here(asked),
            heard: asked,
        },
    );
    let report = Report {
        first_received: Some(here(first)),
        ..Report::new(shows.frame, displayed)
    };
    host.feedback(id, Feedback::Frame(report));
    let record = notice(&notices, "the record", |notice| match notice {
        Notice::Record(r) => (r.subscriber == id && r.frame == shows.frame).then_some(r),
        _ => None,
    });
    assert_eq!((record.outcome, record.cost.bytes), (displayed, 1200));
    assert_eq!(
        record.client.first_received_here.map(|at| at.at),
        Some(first)
    );
    let [received_at, injected, sent] =
        [Stage::InputReceived, Stage::InputInjected, Stage::LastSent].map(|at| record.host.at(at));
    let stamps = (received_at, injected, sent);
    assert!(
        received_at.is_some() && received_at <= injected && injected < sent,
        "{stamps:?}"
    );

    // Another browser takes over. The keys of the first browser are released, and its input is refused.
    let (other, grant, _) = browser(host);
    assert_eq!(grant.role, Role::Player);
    let role = |arrived| match arrived {
        Arrived::Update(Update::Role {
            role,
            observer_reason,
        }) => Some((role, observer_reason)),
        _ => None,
    };
    let lost = arrives(&arrived, "the role is lost", role);
    assert_eq!(lost, (Role::Observer, Some(ObserverReason::TakenOver)));
    assert_eq!(typed(), InputEvent::ReleaseAll);
    let refused = host.input(id, press(31), PeerInstant(0));
    assert_eq!(refused, Err(InputRefused::NotPlayer));
    // When the second browser leaves, the role returns to the first browser. When the first browser leaves as well, the
    // role returns to the client.
    host.unsubscribe(other);
    assert_eq!(arrives(&arrived, "the role", role), (Role::Player, None));
    host.unsubscribe(id);
    let back = |notice| match notice {
        Notice::RoleChanged(other, Role::Player) => (other == desk).then_some(()),
        _ => None,
    };
    notice(&notices, "the client plays", back);
}

#[test]
fn the_newest_pointer_mouse_and_source_states_arrive() {
    let Streaming { host, .. } = &start("pointer");
    let (id, _, arrived) = browser(host);
    host.set_relative_mouse(true);
    host.source_shown(false);
    let shape = CursorShape {
        width: 2,
        height: 1,
        hot_x: 1,
        hot_y: 0,
        argb: vec![1, 2],
    };
    host.set_pointer(Some(&shape), Some((7, 9)));
    let (mut mouse, mut shown, mut pixels, mut position) = (None, None, None, None);
    while [mouse, shown].contains(&None) || pixels.is_none() || position.is_none() {
        let update = arrives(&arrived, "an update", |arrived| match arrived {
            Arrived::Update(update) => Some(update),
            Arrived::Frame(_) => None,
        });
        match update {
            Update::RelativeMouse(relative) => mouse = Some(relative),
            Update::SourceShown(now) => shown = Some(now),
            Update::CursorShape(shape) => pixels = Some(shape.argb.clone()),
            Update::CursorMoved(at) => position = at,
            Update::ControlEvent(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let all = (mouse, shown, pixels, position);
    assert_eq!(
        all,
        (Some(true), Some(false), Some(vec![1, 2]), Some((7, 9)))
    );
    host.unsubscribe(id);
    // A later subscriber gets the same state.
    let (_, _, arrived) = browser(host);
    arrives(&arrived, "the shape", |arrived| match arrived {
        Arrived::Update(Update::CursorShape(shape)) => Some(shape),
        _ => None,
    });
}

/// Collects the records of one subscriber until `find` returns a value.
fn records_until<U>(
    notices: &Notices,
    of: SubscriberId,
    records: &mut Vec<FrameRecord>,
    find: impl Fn(Notice) -> Option<U>,
) -> U {
    loop {
        let notice = notices.next(TIMEOUT).expect("a notice");
        if let Notice::Record(record) = &notice
            && record.subscriber == of
        {
            records.push(**record);
        }
        if let Some(found) = find(notice) {
            return found;
        }
    }
}

#[test]
fn each_frame_of_a_recorder_ends_once() {
    let Streaming { host, .. } = &start("ledger");
    let notices = host.notices();
    let (writer, written) = Writer::new();
    let id = super::watch(host, writer);
    let frames: Vec<u32> = std::iter::repeat_with(|| written.recv_timeout(TIMEOUT).unwrap())
        .map(|(frame, _)| frame.header.frame.0)
        .take(60)
        .collect();
    let mut records = Vec::new();
    records_until(&notices, id, &mut records, |notice| match notice {
        Notice::Record(r) => (r.subscriber == id && r.frame.0 == frames[59]).then_some(()),
        _ => None,
    });
    host.unsubscribe(id);
    let ending = records_until(&notices, id, &mut records, |notice| match notice {
        Notice::Ended(ended, ending) => (ended == id).then_some(ending),
        _ => None,
    });
    assert_eq!(ending, Ending::Goodbye(GoodbyeReason::Quit));
    let mut ends: Vec<u32> = records.iter().map(|r| r.frame.0).collect();
    ends.sort_unstable();
    let all: Vec<u32> = (ends[0]..=ends[ends.len() - 1]).collect();
    assert_eq!(ends, all, "each captured frame has one end");
    let left = records
        .iter()
        .filter(|r| r.outcome == Outcome::SentUnacknowledged);
    let left: Vec<u32> = left.map(|r| r.frame.0).collect();
    let is_left = |frame: &u32| left.contains(frame);
    assert!(frames.iter().all(is_left), "{frames:?} {left:?}");
    // A recorder reports no send timestamp.
    assert!(
        records
            .iter()
            .all(|r| r.host.at(Stage::FirstSent).is_none())
    );
    let encoded = |r: &&FrameRecord| r.outcome == Outcome::SentUnacknowledged && r.cost.bytes > 0;
    assert_eq!(records.iter().filter(encoded).count(), left.len());
}

/// Subscribes a player that runs a misbehaving closure at each slice.
fn misbehaving_player(host: &HostRuntime, does: impl FnMut() + Send + 'static) -> SubscriberId {
    let (writer, _) = Writer::new();
    let request = SubscribeRequest {
        take_over: true,
        ..SubscribeRequest::new(Role::Player, "misbehaving")
    };
    let bad = Box::new(Misbehaving(writer, does));
    let (id, grant) = host.subscribe(request, bad).unwrap();
    assert_eq!(grant.role, Role::Player);
    id
}

#[test]
fn a_player_that_blocks_or_is_slow_delays_no_observer() {
    let Streaming { host, player, .. } = &start("blocks");
    let (reached, at_a_slice) = sync_channel(MANY);
    let (go, proceed) = sync_channel::<()>(1);
    misbehaving_player(host, move || {
        let _ = reached.send(());
        let _ = proceed.recv();
    });
    at_a_slice.recv_timeout(TIMEOUT).expect("its first slice");
    player.see(120);
    assert_eq!(
        at_a_slice.try_iter().count(),
        0,
        "it blocks at its first slice"
    );
    // The player is now slow: it takes one slice per three pictures of the observer.
    for _ in 0..10 {
        go.send(()).expect("it listens");
        at_a_slice.recv_timeout(TIMEOUT).expect("its next slice");
        player.see(3);
    }
}

#[test]
fn the_role_of_a_player_that_panics_goes_to_the_next() {
    let Streaming { host, player, .. } = &start("panics-playing");
    let notices = host.notices();
    let mut slices = 0;
    let id = misbehaving_player(host, move || {
        slices += 1;
        assert!(slices < 20, "intended panic");
    });
    let (desk, role) = role_of(&notices, "the client observes");
    assert_eq!(role, Role::Observer);
    assert_eq!(role_of(&notices, "it plays again"), (desk, Role::Player));
    assert_eq!(
        host.input(id, press(30), PeerInstant(0)),
        Err(InputRefused::NotPlayer)
    );
    player.see(60);
}

#[test]
fn a_subscriber_without_a_common_codec_is_refused() {
    let Streaming { host, player, .. } = &start("refused");
    let request = SubscribeRequest {
        codecs: 0,
        ..SubscribeRequest::new(Role::Observer, "no codec")
    };
    let (writer, _) = Writer::new();
    let refused = host.subscribe(request, Box::new(writer));
    let why = SubscribeError::Refused(Refusal::NoCommonCodec);
    assert_eq!(refused.unwrap_err(), why);
    // A subscriber that requests the player role without taking it over observes until the role is free.
    let (writer, _) = Writer::new();
    let request = SubscribeRequest::new(Role::Player, "patient");
    let (id, grant) = host.subscribe(request, Box::new(writer)).unwrap();
    let waits = Some(ObserverReason::PlayerPresent);
    assert_eq!((grant.role, grant.observer_reason), (Role::Observer, waits));
    let granted = host.request_role(id, Role::Player, true);
    assert_eq!(granted.map(|grant| grant.role), Ok(Role::Player));
    player.see(10);
}
