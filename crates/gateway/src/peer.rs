//! One browser's WebRTC connection: `str0m`'s state, fed by two threads under one lock. The subscriber's
//! thread turns slices into packets and sends them, the gateway's takes what arrives, and sends sound. So a slice
//! is on the wire without a hand-over to another thread. Neither waits for the network: what a full socket does
//! not take is lost, and asked for again. No thread that serves our own clients takes the lock.

mod track;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use str0m::change::SdpOffer;
use str0m::channel::ChannelId;
use str0m::media::MediaKind;
use str0m::net::{Protocol, Receive};
use str0m::rtp::Extension;
use str0m::{Candidate, Event, Input, Output, Rtc};
use tokio::sync::Notify;

use self::track::Track;
pub(crate) use self::track::{Packet, Sound, video_ticks};
use crate::addresses::base;
use crate::media_sockets::MediaSockets;

/// How often the browser's receiver reports are summed up.
const STATS_EVERY: Duration = Duration::from_millis(500);

/// What happened that nobody has taken yet, at most; more is lost, as in a full socket.
const EVENTS: usize = 512;

/// Bytes of a message of the page at most: more than it says at once.
const LONGEST: usize = 16 << 10;

/// Bytes that may wait for the browser in the reliable channel: it has gone where more wait.
const UNREAD: usize = 1 << 20;

/// Bytes that wait there of which nothing else is late: two pieces of clipboard text.
const READ: usize = 16 << 10;

/// Addresses besides the socket's own that a browser is told of at most: whoever answers in the name of a STUN server
/// may change them again and again.
const ADDRESSES: usize = 16;

/// Number of the header extension in an offer of ours; the browser's offer has its own.
const PLAYOUT_DELAY_ID: u8 = 9;

/// Names of the data channels, which the page opens: unordered without repetition, in the messages of
/// `proto::wire::control` …
pub const CONTROL_CHANNEL: &str = "control";
/// … and ordered, in JSON and the messages of `proto::control::negotiate`.
pub const NOTICE_CHANNEL: &str = "told";

/// Something that a browser did.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// Media can flow.
    Connected,
    /// Its picture is broken (PLI or FIR).
    KeyFrame,
    /// A message of [`CONTROL_CHANNEL`].
    Control(Vec<u8>),
    /// JSON of [`NOTICE_CHANNEL`].
    Notice(Vec<u8>),
    /// Bytes of [`NOTICE_CHANNEL`].
    ToldBytes(Vec<u8>),
    /// [`NOTICE_CHANNEL`] is open.
    ToldOpen,
    /// What its receiver reports say of the link.
    Link {
        /// The share that is lost; `None`: no report came.
        loss: Option<f64>,
        /// There and back.
        round_trip: Option<Duration>,
    },
}

/// Why a browser's offer was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferRefused {
    /// It can't be read, or does not agree with what was said before.
    #[error("the session description is not understood: {0}")]
    Sdp(String),
    /// It has no video, or none that is H.264 in packetization mode 1.
    #[error("the browser offers no H.264 (packetization-mode=1) to receive: use one that has it")]
    NoH264,
}

/// A connection.
pub(crate) struct Peer {
    state: Mutex<State>,
    sockets: Arc<MediaSockets>,
    /// The newest frame of which something left; 0: none.
    pub(crate) newest: AtomicU32,
    /// There is something for the gateway's thread: an event, or an earlier timeout.
    pub(crate) woken: Notify,
}

struct State {
    rtc: Rtc,
    /// Where the browser reaches it …
    local: SocketAddr,
    /// … and where one reaches it whose datagrams come by the other family, if it was told of an address of that.
    other: Option<SocketAddr>,
    /// The addresses that it was told of besides.
    told_of: Vec<SocketAddr>,
    video: Option<Track>,
    sound: Option<Track>,
    control: Option<ChannelId>,
    told: Option<ChannelId>,
    events: VecDeque<PeerEvent>,
    /// When `str0m` is to be called again.
    next: Instant,
    traffic: Traffic,
}

/// What went over the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Datagrams sent.
    pub(crate) datagrams: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Datagrams that the socket did not take.
    pub(crate) overflowed: u64,
    /// Events that nobody took in time.
    pub(crate) events_lost: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Traffic) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.overflowed += other.overflowed;
        self.events_lost += other.events_lost;
    }
}

impl Peer {
    /// Answers an offer that came to the address `local` of this machine, which others reach at `known`, too: the
    /// connection, and the answer.
    pub(crate) fn answer(
        sockets: Arc<MediaSockets>,
        (local, known): (SocketAddr, &[SocketAddr]),
        offer: &str,
    ) -> Result<(Peer, String), OfferRefused> {
        let now = Instant::now();
        let words = |e: &dyn std::fmt::Display| OfferRefused::Sdp(e.to_string());
        let mut rtc = Rtc::builder()
            .set_rtp_mode(true)
            .clear_codecs()
            .enable_opus(true, false)
            .enable_h264(true)
            .set_extension(PLAYOUT_DELAY_ID, Extension::PlayoutDelay)
            .set_stats_interval(Some(STATS_EVERY))
            .set_sctp_max_buffered_amount(UNREAD)
            .build(now);
        let offer = SdpOffer::from_sdp_string(offer).map_err(|e| words(&e))?;
        let candidate = Candidate::host(local, Protocol::Udp).map_err(|e| words(&e))?;
        rtc.add_local_candidate(candidate);
        let mut state = State {
            rtc,
            local,
            other: None,
            told_of: Vec::new(),
            video: None,
            sound: None,
            control: None,
            told: None,
            events: VecDeque::new(),
            next: now,
            traffic: Traffic::default(),
        };
        state.reached_at(known, &sockets);
        let answer = (state.rtc.sdp_api().accept_offer(offer)).map_err(|e| words(&e))?;
        state.settle(now, &sockets);
        let answer = answer.to_sdp_string();
        // Of what it offered, the answer names what both have; tracks are known when media can flow.
        if !has_h264(&answer) {
            return Err(OfferRefused::NoH264);
        }
        let peer = Peer {
            state: Mutex::new(state),
            sockets,
            newest: AtomicU32::new(0),
            woken: Notify::new(),
        };
        Ok((peer, answer))
    }

    /// Answers a later offer on this connection, in which the browser looks for another way. What it sent or took
    /// before goes on. One that is refused may have changed the way all the same.
    pub(crate) fn answer_again(&self, offer: &str) -> Result<String, OfferRefused> {
        let words = |e: &dyn std::fmt::Display| OfferRefused::Sdp(e.to_string());
        let offer = SdpOffer::from_sdp_string(offer).map_err(|e| words(&e))?;
        let mut state = self.lock();
        let answer = (state.rtc.sdp_api().accept_offer(offer)).map_err(|e| words(&e))?;
        state.settle(Instant::now(), &self.sockets);
        drop(state);
        self.woken.notify_one();
        Ok(answer.to_sdp_string())
    }

    /// Others reach the socket at these addresses now: those of which the browser does not know, as candidates in the
    /// words of RFC 8839.
    pub(crate) fn reached_at(&self, known: &[SocketAddr]) -> Vec<String> {
        self.with(|state| state.reached_at(known, &self.sockets))
    }

    /// The browser has one more address. One that means nothing here (a name of multicast DNS) changes
    /// nothing: its first packet shows where it is.
    pub(crate) fn candidate(&self, words: &str) {
        if let Ok(candidate) = Candidate::from_sdp_string(words) {
            self.with(|state| state.rtc.add_remote_candidate(candidate));
        }
    }

    /// A datagram came from `source`; whether it is this connection's.
    pub(crate) fn receive(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        let mut state = self.lock();
        let here = match source.is_ipv4() == state.local.is_ipv4() {
            true => state.local,
            false => state.other.unwrap_or(state.local),
        };
        let received = Receive::new(Protocol::Udp, source, here, datagram);
        let Ok(received) = received else {
            return false;
        };
        let now = Instant::now();
        let input = Input::Receive(now, received);
        if !state.rtc.accepts(&input) {
            return false;
        }
        if let Err(e) = state.rtc.handle_input(input) {
            tracing::debug!(%source, "a datagram was refused: {e}");
        }
        state.settle(now, &self.sockets);
        drop(state);
        self.woken.notify_one();
        true
    }

    /// Sends a packet of video.
    pub(crate) fn video(&self, packets: &[Packet]) -> Traffic {
        self.with(|state| {
            for packet in packets {
                let State { rtc, video, .. } = state;
                let Some(track) = video else { break };
                track.write_video(rtc, packet);
                state.settle(Instant::now(), &self.sockets);
            }
            state.traffic
        })
    }

    /// Sends a packet of sound.
    pub(crate) fn sound(&self, sound: &Sound<'_>) {
        self.with(|state| {
            if let State {
                rtc,
                sound: Some(track),
                ..
            } = state
            {
                track.write_sound(rtc, sound);
            }
        });
    }

    /// Says something that may be lost.
    pub(crate) fn send_control(&self, message: &[u8]) {
        self.with(|state| {
            if let Some(mut channel) = state.control.and_then(|id| state.rtc.channel(id)) {
                // A full channel loses it.
                let _ = channel.write(true, message);
            }
        });
    }

    /// Says something that arrives, and in order; whether the browser reads what was said before.
    pub(crate) fn send_notice(&self, text: &str) -> bool {
        self.write_notice(false, text.as_bytes())
    }

    /// The same in bytes.
    pub(crate) fn send_notice_bytes(&self, bytes: &[u8]) -> bool {
        self.write_notice(true, bytes)
    }

    fn write_notice(&self, binary: bool, message: &[u8]) -> bool {
        self.with(|state| {
            let Some(mut channel) = state.told.and_then(|id| state.rtc.channel(id)) else {
                return true;
            };
            channel.buffered_amount() + message.len() <= UNREAD
                && channel.write(binary, message).unwrap_or(false)
        })
    }

    /// Whether the browser has read so much of what it was told that more makes no queue.
    pub(crate) fn is_read(&self) -> bool {
        self.with(|state| {
            let channel = state.told.and_then(|id| state.rtc.channel(id));
            channel.is_none_or(|mut channel| channel.buffered_amount() <= READ)
        })
    }

    /// What has happened, and when [`Peer::tick`] is due.
    pub(crate) fn poll(&self) -> (Vec<PeerEvent>, Instant) {
        let mut state = self.lock();
        (state.events.drain(..).collect(), state.next)
    }

    /// The time that [`Peer::poll`] named has come.
    pub(crate) fn tick(&self) {
        self.with(|_| ());
    }

    /// Whether it is still there.
    pub(crate) fn is_alive(&self) -> bool {
        self.lock().rtc.is_alive()
    }

    /// Whether the browser takes sound.
    pub(crate) fn takes_sound(&self) -> bool {
        self.lock().sound.is_some()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    /// Says goodbye.
    pub(crate) fn close(&self) {
        self.with(|state| {
            let _ = state.rtc.close();
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and sends what follows from it.
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.next;
        let done = what(&mut state);
        state.settle(Instant::now(), &self.sockets);
        let wake = !state.events.is_empty() || state.next < before;
        drop(state);
        if wake {
            self.woken.notify_one();
        }
        done
    }
}

impl State {
    /// See [`Peer::reached_at`].
    fn reached_at(&mut self, known: &[SocketAddr], sockets: &MediaSockets) -> Vec<String> {
        let mut added = Vec::new();
        for address in known {
            let room = self.told_of.len() < ADDRESSES;
            if !room || *address == self.local || self.told_of.contains(address) {
                continue;
            }
            self.told_of.push(*address);
            if address.is_ipv4() == self.local.is_ipv4() {
                added.push(Candidate::server_reflexive(
                    *address,
                    self.local,
                    Protocol::Udp,
                ));
                continue;
            }
            // A browser that came by one family may reach the host by the other, too.
            if self.other.is_none() {
                self.other = base(sockets.main(), *address);
                let own = self.other.map(|own| Candidate::host(own, Protocol::Udp));
                added.extend(own);
            }
            let from = self.other.filter(|own| own != address);
            added.extend(from.map(|own| Candidate::server_reflexive(*address, own, Protocol::Udp)));
        }
        let added = added.into_iter().flatten();
        let added = added.filter_map(|candidate| {
            let taken = self.rtc.add_local_candidate(candidate);
            taken.map(Candidate::to_sdp_string)
        });
        added.collect()
    }

    /// Lets `str0m` do what it has to: each change wants all its output taken before the next.
    fn settle(&mut self, now: Instant, sockets: &MediaSockets) {
        self.drain(now, sockets);
        if let Err(e) = self.rtc.handle_input(Input::Timeout(now)) {
            tracing::debug!("a connection ends: {e}");
            self.rtc.disconnect();
        }
        self.drain(now, sockets);
    }

    fn drain(&mut self, now: Instant, sockets: &MediaSockets) {
        loop {
            match self.rtc.poll_output() {
                Ok(Output::Timeout(at)) => {
                    self.next = at;
                    return;
                }
                Ok(Output::Transmit(transmit)) => {
                    self.traffic.datagrams += 1;
                    self.traffic.bytes += transmit.contents.len() as u64;
                    let sent = sockets.send_to(&transmit.contents, transmit.destination);
                    if sent.is_err() {
                        self.traffic.overflowed += 1;
                    }
                }
                Ok(Output::Event(event)) => self.event(event),
                Err(e) => {
                    tracing::debug!("a connection ends: {e}");
                    self.rtc.disconnect();
                    self.next = now + STATS_EVERY;
                    return;
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        if let Event::ChannelData(data) = &event
            && data.data.len() > LONGEST
        {
            self.traffic.events_lost += 1;
            return;
        }
        let told = match event {
            Event::Connected => PeerEvent::Connected,
            Event::MediaAdded(added) => {
                let track = Track::of(&self.rtc, added.mid);
                match added.kind {
                    MediaKind::Video if self.video.is_none() => self.video = track,
                    MediaKind::Audio if self.sound.is_none() => self.sound = track,
                    _ => {}
                }
                return;
            }
            Event::ChannelOpen(id, label) => match label.as_str() {
                CONTROL_CHANNEL => {
                    self.control.get_or_insert(id);
                    return;
                }
                NOTICE_CHANNEL if self.notices.is_none() => {
                    self.notices = Some(id);
                    PeerEvent::ToldOpen
                }
                _ => return,
            },
            Event::ChannelData(data) if Some(data.id) == self.control => {
                PeerEvent::Control(data.data)
            }
            Event::ChannelData(data) if Some(data.id) == self.notices => match data.binary {
                true => PeerEvent::ToldBytes(data.data),
                false => PeerEvent::Notice(data.data),
            },
            Event::KeyframeRequest(_) => PeerEvent::KeyFrame,
            Event::MediaEgressStats(stats) if self.is_video(stats.mid) => PeerEvent::Link {
                loss: stats.loss.map(f64::from),
                round_trip: stats.rtt,
            },
            _ => return,
        };
        if self.events.len() < EVENTS {
            self.events.push_back(told);
        } else {
            self.traffic.events_lost += 1;
        }
    }

    fn is_video(&self, mid: str0m::media::Mid) -> bool {
        self.video.as_ref().is_some_and(|track| track.mid == mid)
    }
}

/// Whether a session description names H.264 in packetization mode 1.
fn has_h264(sdp: &str) -> bool {
    let formats = sdp.lines().filter_map(|line| {
        let (pt, codec) = line.strip_prefix("a=rtpmap:")?.split_once(' ')?;
        codec
            .to_ascii_uppercase()
            .starts_with("H264/")
            .then_some(pt)
    });
    let mut modes = formats.map(|pt| format!("a=fmtp:{pt} "));
    modes.any(|fmtp| {
        let mut lines = sdp.lines().filter(|line| line.starts_with(&fmtp));
        lines.any(|line| line.contains("packetization-mode=1"))
    })
}
