//! The pings of clients, which show where to send video and sound, and the start of both streams.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::host::codec_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::audio;
use crate::door::Door;
use crate::session::{Outlet, PING_WORDS, Session, StreamParameters};
use crate::video::{Packetizer, VideoCipher, VideoSubscriber};

/// The host's encoder whose stream all clients decode.
const H264: &str = "x264";

/// Interval at which the thread checks whether the Moonlight server stops.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum datagrams read in a row from one socket. A client pings twice a second.
const MAX_DATAGRAMS: usize = 64;

/// Serves the pings of video and sound until the Moonlight server stops.
pub(crate) fn serve(door: &Door, video: &UdpSocket, sound: &UdpSocket) {
    while !door.is_closing() {
        let timeout = Timespec::try_from(POLL_INTERVAL).ok();
        let mut polled = [
            PollFd::new(video, PollFlags::IN),
            PollFd::new(sound, PollFlags::IN),
        ];
        // If `poll` is interrupted or fails, the loop retries.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            continue;
        }
        read(video, |words, from| {
            if let Some(session) = pinged(door, words, from, |session| &session.video) {
                start(door, &session);
            }
        });
        read(sound, |words, from| {
            pinged(door, words, from, |session| &session.sound);
        });
    }
}

/// Reads pings. Each has a token of sixteen bytes and a counter, which is ignored.
fn read(socket: &UdpSocket, mut each: impl FnMut(&[u8; PING_WORDS], SocketAddr)) {
    let mut bytes = [0; 64];
    for _ in 0..MAX_DATAGRAMS {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                if let Some(words) = bytes[..length].first_chunk() {
                    each(words, from);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            // The error is ignored, because it belongs to an earlier packet that its client refused.
            Err(_) => {}
        }
    }
}

fn pinged(
    door: &Door,
    words: &[u8; PING_WORDS],
    from: SocketAddr,
    outlet: impl Fn(&Session) -> &Outlet,
) -> Option<Arc<Session>> {
    let address: IpAddr = from.ip().to_canonical();
    let session = door.sessions.of_ping(words, address)?;
    outlet(&session).found(from);
    session.note_message(Instant::now());
    Some(session)
}

/// Starts the streams of a session, if they are due to start.
fn start(door: &Door, session: &Arc<Session>) {
    let Some(parameters) = session.start() else {
        return;
    };
    let client = &session.owner.title;
    match subscribe(door, session, &parameters) {
        Ok(role) => {
            let heard = door.sound && audio::listen(&*door.host, session, &parameters);
            let (role, size, address) = (role.name(), session.mode.size, session.owner.address);
            tracing::debug!(client, role, %address, ?size, heard, "a Moonlight client receives the stream");
        }
        Err(error) => {
            (door.announce)(&format!("cannot stream to {client}: {error}"));
            door.end(session);
        }
    }
}

fn subscribe(
    door: &Door,
    session: &Arc<Session>,
    parameters: &StreamParameters,
) -> Result<Role, String> {
    let codec = codec_of(H264).ok_or("this host does not encode H.264")?;
    let cipher = match parameters.seals_video {
        true => Some(VideoCipher::new(&session.launch.key).map_err(|e| e.to_string())?),
        false => None,
    };
    let packetizer = Packetizer::new(parameters.packet_size, parameters.least_parity, cipher);
    let packetizer = packetizer.map_err(|e| e.to_string())?;
    let mode = parameters.mode;
    let request = SubscribeRequest {
        kind: SubscriberKind::Other,
        intake: Intake::Unacknowledged,
        codecs: 1 << codec,
        software: "Moonlight".to_owned(),
        constraints: ClientConstraints {
            bitrate: Some(Bitrate(parameters.bitrate)),
            size: Some(mode.size),
            fps: None,
            chosen_fps: mode.rate.try_into().ok(),
        },
        display: Some(mode.size),
        device: Some(session.owner.device),
        ..SubscribeRequest::new(Role::Player, &session.owner.title)
    };
    let awaited = door.fits.then_some(mode.size);
    let subscriber = VideoSubscriber::new(session.clone(), packetizer, awaited);
    let subscribed = door.host.subscribe(request, Box::new(subscriber));
    let (id, grant) = subscribed.map_err(|why| why.to_string())?;
    if grant.role != Role::Player {
        session.observes();
    }
    if let Some(closed) = session.subscribed(id) {
        door.host.unsubscribe(closed);
    }
    Ok(grant.role)
}
