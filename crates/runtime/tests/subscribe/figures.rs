//! Statistics of a host's subscribers, locally and through a gateway socket.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::figures::SubscriberFigures;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::remote::RemoteHost;
use openuvr_runtime::sched::Scheduler;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
};

use super::remote::Outside;
use super::support::eventually;
use super::{Writer, start};

/// Waits until the statistics of the player are complete and plausible. After a stall of the machine, the frames that it
/// delayed are displayed at once, so the rate is too high for a few seconds. A stalled host does not answer in time.
fn of_the_player(read: impl Fn() -> Option<Vec<SubscriberFigures>>) -> SubscriberFigures {
    eventually("plausible statistics", || {
        let player = read()?
            .into_iter()
            .find(|of| of.kind == SubscriberKind::Client)?;
        is_plausible(&player).then_some(player)
    })
}

/// Whether the values are plausible for a pattern of 60 frames/s on a machine that may be busy.
fn is_plausible(player: &SubscriberFigures) -> bool {
    let (Some(rate), Some(latency)) = (player.frames_per_second, player.latency) else {
        return false;
    };
    (0.5..70.0).contains(&rate)
        && !latency.p50.is_zero()
        && latency.p50 <= latency.p99
        && latency.bound < Duration::from_secs(1)
}

#[test]
fn a_client_reports_and_a_recorder_does_not() {
    let streaming = start("figures");
    let host = &streaming.host;
    let player = of_the_player(|| Some(host.figures()));
    assert_eq!(player.role, Role::Player);
    let (writer, written) = Writer::new();
    let request = SubscribeRequest {
        kind: SubscriberKind::Recorder,
        ..SubscribeRequest::new(Role::Observer, "recorder")
    };
    let (id, _) = host.subscribe(request, Box::new(writer)).unwrap();
    assert_eq!(written.iter().take(30).count(), 30);
    let unknown = SubscriberFigures {
        kind: SubscriberKind::Recorder,
        role: Role::Observer,
        frames_per_second: None,
        latency: None,
        ce_share: None,
    };
    let two = eventually("both", || Some(host.figures()).filter(|all| all.len() == 2));
    assert_eq!(two[1], unknown);
    host.unsubscribe(id);
    eventually("one is left", || (host.figures().len() == 1).then_some(()));
}

#[test]
fn the_same_statistics_arrive_through_the_socket() {
    let it = Outside::start("figures-outside");
    of_the_player(|| it.remote.figures());
    let (writer, _written) = Writer::new();
    let request = SubscribeRequest {
        kind: SubscriberKind::VideoPlayer,
        ..SubscribeRequest::new(Role::Observer, "ffplay")
    };
    it.remote.subscribe(request, Box::new(writer)).unwrap();
    let (client, other) = (SubscriberKind::Client, SubscriberKind::VideoPlayer);
    eventually("both kinds", || {
        let all = it.remote.figures()?;
        let kinds: Vec<_> = all.iter().map(|of| (of.kind, of.role)).collect();
        (kinds == [(client, Role::Player), (other, Role::Observer)]).then_some(())
    });
    assert_eq!(it.host.figures().len(), 2);
    // Without a listener there are no statistics.
    let nowhere = RemoteHost::new(PathBuf::from("/nonexistent"), &Scheduler::ordinary());
    assert_eq!(nowhere.figures(), None);
}

/// A listening socket that does not behave like a host of this version.
fn listener(path: &Path) -> OwnedFd {
    let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
    let listener = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 8).unwrap();
    listener
}

#[test]
fn a_host_that_does_not_answer_blocks_no_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let scheduler = Scheduler::ordinary();
    // A stopped application: the kernel accepts the connection, but there is no answer.
    let stopped = folder.path().join("stopped");
    let _listener = listener(&stopped);
    assert_eq!(RemoteHost::new(stopped, &scheduler).figures(), None);
    // An older host, which closes the connection after an unknown request.
    let older = folder.path().join("older");
    let accepts = listener(&older);
    let ends = std::thread::spawn(move || drop(accept(&accepts).unwrap()));
    assert_eq!(RemoteHost::new(older, &scheduler).figures(), None);
    ends.join().unwrap();
}
