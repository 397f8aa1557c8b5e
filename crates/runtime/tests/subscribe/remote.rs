//! Subscribers through a socket, as used by a gateway in another process.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use openuvr_ipc::hello;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::{ObserverReason, Refusal, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::host::{InputRefused, SubscribeRequest};
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::send::update::Update;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::{DropCause, Outcome};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_runtime::host::{
    Admission, AdmissionGrant, AdmitRefused, GatewayHost, HostRuntime, Notice, Payload, SoundCodec,
    SubscribeError,
};
use openuvr_runtime::remote::{GatewayListener, NAME, RemoteHost};
use openuvr_runtime::sched::Scheduler;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use tempfile::TempDir;

use super::play::{Arrived, Browser, arrives};
use super::support::{MANY, TIMEOUT, eventually};
use super::{Misbehaving, Player, Streaming, Writer, continues, start};

/// A host that listens for gateways, and a remote handle to it.
pub(crate) struct Outside {
    // The fields are dropped in this order, because the listener's threads may hold references to the host.
    pub(crate) remote: RemoteHost,
    gateways: GatewayListener,
    player: Player,
    pub(crate) host: Arc<HostRuntime>,
    received: std::sync::mpsc::Receiver<InputEvent>,
    folder: TempDir,
}

impl Outside {
    pub(crate) fn start(name: &str) -> Outside {
        let Streaming {
            player,
            host,
            received,
            _folder: folder,
        } = start(name);
        let host = Arc::new(host);
        let path = folder.path().join(NAME);
        let scheduler = Scheduler::ordinary();
        Outside {
            remote: RemoteHost::new(path.clone(), &scheduler),
            gateways: GatewayListener::open(&path, &host, &scheduler).unwrap(),
            player,
            host,
            received,
            folder,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    fn typed(&self) -> InputEvent {
        self.received.recv_timeout(TIMEOUT).expect("input")
    }
}

fn observer(name: &str) -> SubscribeRequest {
    SubscribeRequest::new(Role::Observer, name)
}

fn press(code: u16) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text: None,
        pressed: true,
    }
}

#[test]
fn a_gateway_receives_the_encoded_frames() {
    let it = Outside::start("outside");
    let (near, here) = Writer::new();
    let (far, there) = Writer::new();
    it.host.subscribe(observer("near"), Box::new(near)).unwrap();
    let (_, grant) = it.remote.subscribe(observer("far"), Box::new(far)).unwrap();
    assert_eq!(
        (grant.role, grant.observer_reason),
        (Role::Observer, Some(ObserverReason::Requested))
    );
    let far: Vec<_> = (0..60)
        .map(|_| there.recv_timeout(TIMEOUT).expect("a frame"))
        .collect();
    assert!(far[0].0.header.is_key() && far[0].0.configuration.is_some());
    let mut near = here.try_iter().chain(here.iter());
    for (frame, bytes) in &far {
        // One subscriber may miss a frame that the other receives.
        let same = near.find(|(other, _)| other.header.frame >= frame.header.frame);
        let (other, made) = same.expect("the host goes on");
        if other.header.frame == frame.header.frame {
            assert_eq!(other.header, frame.header);
            assert_eq!(&made, bytes);
        }
    }
    let names: Vec<u32> = far.iter().map(|(frame, _)| frame.header.frame.0).collect();
    assert!(far.windows(2).all(continues), "{names:?}");
}

#[test]
fn a_paused_remote_recorder_gets_every_frame() {
    let it = Outside::start("stopped-outside");
    let (far, there) = Writer::new();
    let (go, proceed) = sync_channel::<()>(1);
    let (reached, at_a_slice) = sync_channel(MANY);
    let mut slices = 0;
    let stopped = Misbehaving(far, move || {
        slices += 1;
        if slices == 3 {
            let _ = reached.send(());
            let _ = proceed.recv();
        }
    });
    let request = SubscribeRequest {
        intake: Intake::Complete,
        ..observer("far")
    };
    let notices = it.host.notices();
    it.remote.subscribe(request, Box::new(stopped)).unwrap();
    at_a_slice.recv_timeout(TIMEOUT).expect("its third slice");
    // When the socket buffers are full, the host sends no more frames to the recorder, and 30 frames wait in the
    // application's process. The host ends a connection whose buffers stay full for 10 s, so the test does not wait for
    // a fixed number of pictures, which a slow machine would take longer to display.
    let (mut sent, mut newest): (Option<u32>, u32) = (None, 0);
    while sent.is_none_or(|sent| newest < sent + 30) {
        if let Notice::Record(record) = notices.next(TIMEOUT).expect("a notice") {
            match record.subscriber.session() {
                Some(_) => newest = newest.max(record.frame.0),
                None => sent = Some(record.frame.0),
            }
        }
    }
    go.send(()).expect("it listens");
    let frames: Vec<_> = (0..300)
        .map(|_| there.recv_timeout(TIMEOUT).expect("a frame"))
        .collect();
    let names = frames.iter().map(|(frame, _)| frame.header.frame.0);
    let names: Vec<u32> = names.collect();
    let follow = names.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(follow, "{names:?}");
}

#[test]
fn a_remote_player_types_and_gives_the_role_back() {
    let it = Outside::start("types");
    let (arrives_at, arrived) = sync_channel(MANY);
    let request = SubscribeRequest {
        take_over: true,
        reports: true,
        ..SubscribeRequest::new(Role::Player, "browser")
    };
    let subscriber = Box::new(Browser::new(arrives_at));
    let (id, grant) = it.remote.subscribe(request, subscriber).unwrap();
    assert_eq!(grant.role, Role::Player);
    assert_eq!(it.typed(), InputEvent::ReleaseAll, "of the one before");

    // More events than the host's queue holds arrive in order, each with the number that the host gives it.
    let mut last = 0;
    for number in 0..4000_u16 {
        let event = press(number % 200);
        last += 1;
        eventually("room", || {
            match it.remote.input(id, event, PeerInstant(1)) {
                Ok(seq) => {
                    assert_eq!(seq.0, last);
                    Some(())
                }
                Err(InputRefused::Busy) => None,
                Err(why) => panic!("{why}"),
            }
        });
    }
    for number in 0..4000_u16 {
        assert_eq!(it.typed(), press(number % 200));
    }
    arrives(&arrived, "the echo", |arrived| match arrived {
        Arrived::Frame(header) => (header.echo.seq.0 == last).then_some(()),
        Arrived::Update(_) => None,
    });

    // The remote player gives the role back, so its input is refused from then on.
    let grant = it.remote.request_role(id, Role::Observer, false).unwrap();
    assert_eq!(grant.role, Role::Observer);
    let refused = it.remote.input(id, press(1), PeerInstant(1));
    assert_eq!(refused, Err(InputRefused::NotPlayer));
    let grant = it.remote.request_role(id, Role::Player, true).unwrap();
    assert_eq!(grant.role, Role::Player);
    // The notification of the earlier role may arrive after the grant.
    let taken = eventually("its role", || {
        it.remote.input(id, press(2), PeerInstant(1)).ok()
    });
    assert_eq!(taken.0, last + 1, "unsent input is not counted");
}

#[test]
fn a_stuck_gateway_delays_no_other_client() {
    let it = Outside::start("stuck-outside");
    let (writer, written) = Writer::new();
    let (go, gone) = sync_channel::<()>(0);
    // The subscriber blocks in its first slice until the test resumes it.
    let bad = Misbehaving(writer, move || {
        let _ = gone.recv();
    });
    let notices = it.host.notices();
    it.remote.subscribe(observer("bad"), Box::new(bad)).unwrap();
    // The frames fill the socket buffers, and then the host misses one. It ends the connection 10 s later.
    let missed = loop {
        if let Notice::Record(record) = notices.next(TIMEOUT).expect("a notice")
            && record.subscriber.session().is_none()
            && let Outcome::Dropped { why, .. } = record.outcome
            && why == DropCause::SendBufferFull
        {
            break record.frame.0;
        }
    };
    while it.player.seen.try_recv().is_ok() {}
    it.player.see(30);
    drop(go);
    // The subscriber resumes at a key frame.
    let next = loop {
        let (frame, _) = written.recv_timeout(TIMEOUT).expect("it goes on");
        assert_ne!(frame.header.frame.0, missed);
        if frame.header.frame.0 > missed {
            break frame;
        }
    };
    assert!(next.header.is_key(), "{missed} {next:?}");
}

#[test]
fn closing_a_gateway_ends_its_subscriber() {
    let it = Outside::start("goes");
    let notices = it.host.notices();
    let (writer, _) = Writer::new();
    let (id, _) = it
        .remote
        .subscribe(observer("far"), Box::new(writer))
        .unwrap();
    it.remote.unsubscribe(id);
    let ended = std::iter::from_fn(|| notices.next(TIMEOUT))
        .any(|notice| matches!(notice, Notice::Ended(..)));
    assert!(ended);
    // Later calls for this subscriber have no effect.
    it.remote.on_activity(id);
    let refused = it.remote.request_role(id, Role::Player, true);
    assert_eq!(refused, Err(Refusal::Full));
}

#[test]
fn an_application_that_ends_notifies_its_gateways() {
    let Outside {
        remote,
        mut gateways,
        host,
        player,
        received: _received,
        folder: _folder,
    } = Outside::start("ends");
    let (arrives_at, arrived) = sync_channel(MANY);
    let subscriber = Box::new(Browser::new(arrives_at));
    let (id, _) = remote.subscribe(observer("far"), subscriber).unwrap();
    host.source_ended();
    host.cancel();
    let why = arrives(&arrived, "its end", |arrived| match arrived {
        Arrived::Update(Update::Ended(why)) => Some(why),
        _ => None,
    });
    assert_eq!(why, GoodbyeReason::SourceEnded);
    gateways.close();
    drop(player);
    let (writer, _) = Writer::new();
    let refused = remote.subscribe(observer("late"), Box::new(writer));
    assert_eq!(refused.unwrap_err(), SubscribeError::Unavailable);
    assert!(
        !remote.listen(SoundCodec::Opus, Box::new(|_| true)),
        "there is no sound"
    );
    remote.feedback(
        id,
        Feedback::KeyFrame {
            last_good: openuvr_proto::id::FrameId::NONE,
            newest: openuvr_proto::id::FrameId::NONE,
        },
    );
}

#[test]
fn listeners_of_a_host_without_sound_are_dropped() {
    let it = Outside::start("silent");
    let (held, released) = sync_channel::<()>(1);
    let listener = Box::new(move |_: &Payload<'_>| held.try_send(()).is_ok());
    it.remote.listen(SoundCodec::Opus, listener);
    let why = released.recv_timeout(TIMEOUT);
    assert_eq!(why, Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_device_is_admitted_only_with_the_pin() {
    let it = Outside::start("admits");
    let ask = |pin: Option<&str>| {
        let (sender, answer) = sync_channel(1);
        let admission = Admission {
            key: PublicKey([9; 32]),
            name: DeviceName::new("a phone"),
            pin: pin.map(|digits| Pin::parse(digits).unwrap()),
            ticket: None,
            from: ([192, 0, 2, 1], 80).into(),
        };
        let answered = Box::new(move |admitted| drop(sender.send(admitted)));
        it.remote.admit(admission, answered);
        answer.recv_timeout(TIMEOUT).expect("an answer")
    };
    assert_eq!(ask(None), Err(AdmitRefused::Unknown));
    // The pairing window of the first client is closed, so this opens another.
    let span = std::time::Duration::from_secs(60);
    it.host.open_pairing(Pin::parse("271828").unwrap(), span);
    assert!(matches!(ask(Some("000000")), Err(AdmitRefused::Pin(_))));
    it.host.open_pairing(Pin::parse("271828").unwrap(), span);
    eventually("its turn", || ask(Some("271828")).ok());
    let known = AdmissionGrant {
        title: "a phone".to_owned(),
        max_role: Role::Player,
    };
    assert_eq!(ask(None), Ok(known));
}

fn stranger(path: &Path) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

#[test]
fn a_malformed_message_ends_only_its_connection() {
    let it = Outside::start("nonsense");
    let greeting = hello::hello();
    for first in [
        &b"\0"[..],
        b"\0\xff",
        b"\xff\xff\xff\xff\0\0\0\0",
        b"\x01\0\0\0\0\0\0\0\xff",
        b"\x01\0\0\0\x01\0\0\0\x02\x00",
    ] {
        // Sends the message twice: without a greeting, and after a greeting.
        for greets in [false, true] {
            let socket = stranger(&it.path());
            if greets {
                send(&socket, &greeting, SendFlags::NOSIGNAL).unwrap();
            }
            send(&socket, first, SendFlags::NOSIGNAL).unwrap();
            let mut buffer = [0; 64];
            let (_, length) = recv(&socket, &mut buffer, RecvFlags::empty()).unwrap();
            assert_eq!(buffer[..length], greeting);
            let (_, length) = recv(&socket, &mut buffer, RecvFlags::empty()).unwrap();
            assert_eq!(length, 0, "{first:?} {greets}");
        }
    }
    // An endless message is not buffered.
    let socket = stranger(&it.path());
    send(&socket, &greeting, SendFlags::NOSIGNAL).unwrap();
    let piece = [0xff; 32 << 10];
    let sent = (0..1000).take_while(|_| send(&socket, &piece, SendFlags::NOSIGNAL).is_ok());
    assert!(sent.count() < 300, "16 KiB are the limit");
    // Streaming continues while 50 silent connections are open.
    let silent: Vec<OwnedFd> = (0..50).map(|_| stranger(&it.path())).collect();
    let (writer, written) = Writer::new();
    it.remote
        .subscribe(observer("far"), Box::new(writer))
        .unwrap();
    for _ in 0..30 {
        written.recv_timeout(TIMEOUT).expect("a frame");
    }
    it.player.see(10);
    drop(silent);
}
