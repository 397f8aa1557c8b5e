//! One browser's WebRTC connection: the state of `str0m`, used by two threads under one mutex. The subscriber's thread
//! packetizes and sends slices, so that a slice is sent without a thread switch. The gateway's thread handles received
//! packets and sends sound. Neither thread waits for the network. Packets that a full socket rejects are lost, and
//! retransmitted on request. No thread that serves native clients takes the mutex.

mod offer;
mod track;

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openuvr_proto::units::Bitrate;
use str0m::bwe::BweKind;
use str0m::change::SdpOffer;
use str0m::channel::ChannelId;
use str0m::media::MediaKind;
use str0m::net::{Protocol, Receive};
use str0m::rtp::Extension;
use str0m::{Candidate, Event, Input, Output, Rtc};
use tokio::sync::Notify;

pub(crate) use self::offer::{MediaOptions, OfferRefused};
use self::track::Track;
pub(crate) use self::track::{Packet, Sound, video_ticks};
use crate::RateControl;
use crate::addresses::base;
use crate::media_sockets::MediaSockets;
use crate::video_codec::{self, VideoCodec};

/// Interval of statistics from the browser's receiver reports.
const STATS_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of queued events. Additional events are dropped, like datagrams at a full socket.
const MAX_EVENTS: usize = 512;

/// Maximum length of a message from the page in bytes. Every message of the page is shorter.
const MAX_LENGTH: usize = 16 << 10;

/// Maximum number of bytes queued in the reliable channel. If there are more, the browser counts as disconnected.
const MAX_UNREAD: usize = 1 << 20;

/// Maximum queue length in bytes at which the next part of a clipboard text may be queued: two parts. A queue of this
/// length does not delay other messages.
const READ: usize = 16 << 10;

/// Maximum number of addresses announced in addition to the socket's own. An attacker in place of a STUN server could change
/// them repeatedly.
const MAX_ADDRESSES: usize = 16;

/// Maximum number of the browser's addresses during a connection, including those that an ICE restart has replaced (a
/// guess: a browser has some dozens, and restarts ICE some dozens of times). `str0m` sets no limit.
const MAX_CANDIDATES: usize = 4096;

/// Maximum number of source addresses from which a connection accepts datagrams, up to the next ICE restart (a guess: a
/// browser uses a few). For each of them, `str0m` keeps an address of the browser until that restart.
const MAX_SOURCES: usize = 1024;

/// Number of the header extension for the playout delay in offers of the gateway. `str0m` requires a number, although
/// the gateway makes no offers: browsers make them, and choose the number.
const PLAYOUT_DELAY_ID: u8 = 9;

/// The unordered, unreliable data channel, with messages of `proto::wire::control`. The page opens both channels.
pub const CONTROL_CHANNEL: &str = "control";
/// The ordered, reliable data channel, with JSON and messages of `proto::control::negotiate`.
pub const NOTICE_CHANNEL: &str = "told";

#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// Media can flow.
    Connected,
    /// The browser requests a key frame (PLI or FIR).
    KeyFrame,
    /// A message of [`CONTROL_CHANNEL`].
    Control(Vec<u8>),
    /// JSON of [`NOTICE_CHANNEL`].
    Notice(Vec<u8>),
    /// Bytes of [`NOTICE_CHANNEL`].
    NoticeBytes(Vec<u8>),
    /// [`NOTICE_CHANNEL`] is open.
    NoticesOpen,
    /// Link statistics from receiver reports.
    Link {
        /// Packet loss, 0 to 1; `None` if there was no report.
        loss: Option<f64>,
        /// Round-trip time.
        round_trip: Option<Duration>,
    },
    /// A new rate estimate of the connection's congestion control.
    Estimate(Bitrate),
}

pub(crate) struct Peer {
    state: Mutex<State>,
    sockets: Arc<MediaSockets>,
    /// The host's codecs that the browser supports. There is at least one.
    codecs: Vec<VideoCodec>,
    /// The newest frame of which a packet was sent; 0 if there is none.
    pub(crate) newest: AtomicU32,
    /// Wakes the gateway's thread because of an event or an earlier timeout.
    pub(crate) woken: Notify,
}

struct State {
    rtc: Rtc,
    /// The address at which the browser reaches the gateway.
    local: SocketAddr,
    /// The address for datagrams of the other address family, if such an address was announced.
    other: Option<SocketAddr>,
    /// Other announced addresses.
    announced: Vec<SocketAddr>,
    /// Number of the browser's addresses so far.
    candidates: usize,
    sources: Sources,
    video: Option<Track>,
    sound: Option<Track>,
    control: Option<ChannelId>,
    notices: Option<ChannelId>,
    events: VecDeque<PeerEvent>,
    /// When `str0m` must be called next.
    next: Instant,
    traffic: Traffic,
    /// The newest rate estimate of the congestion control.
    estimate: Option<Bitrate>,
}

/// The source addresses of accepted datagrams. Their number is limited, because an observer of the network can repeat a
/// STUN request of the browser from many addresses.
#[derive(Default)]
struct Sources(HashSet<SocketAddr>);

impl Sources {
    /// Whether a datagram from this address is accepted: the address is known, or there is room for another address.
    fn admits(&mut self, source: SocketAddr) -> bool {
        self.0.contains(&source) || (self.0.len() < MAX_SOURCES && self.0.insert(source))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Datagrams sent.
    pub(crate) datagrams: u64,
    /// Bytes of the sent datagrams.
    pub(crate) bytes: u64,
    /// Datagrams rejected by the socket.
    pub(crate) overflowed: u64,
    /// Events dropped because the queue was full or a message was too long.
    pub(crate) events_lost: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Traffic) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.overflowed += other.overflowed;
        self.events_lost += other.events_lost;
    }

    /// Counts a datagram of `length` bytes, which the socket sent or rejected.
    fn count_datagram(&mut self, length: usize, sent: bool) {
        if sent {
            self.datagrams += 1;
            self.bytes += length as u64;
        } else {
            self.overflowed += 1;
        }
    }
}

impl Peer {
    /// Answers an offer that arrived at the local address `local`. `known` are other addresses of this machine. Returns the
    /// connection and the answer.
    pub(crate) fn answer(
        sockets: Arc<MediaSockets>,
        (local, known): (SocketAddr, &[SocketAddr]),
        offer: &str,
        options: &MediaOptions,
    ) -> Result<(Peer, String), OfferRefused> {
        let now = Instant::now();
        let words = |e: &dyn std::fmt::Display| OfferRefused::Sdp(e.to_string());
        let rate = |rate: Bitrate| str0m::bwe::Bitrate::kbps(rate.0 / 1000);
        let estimate = match options.rate_control {
            RateControl::Gcc { start, max } => Some((rate(start), rate(max))),
            RateControl::Reports => None,
        };
        let mut rtc = Rtc::builder()
            .set_rtp_mode(true)
            .clear_codecs()
            .enable_opus(true, false)
            .enable_h264(options.codecs.contains(&VideoCodec::H264))
            .enable_vp9(options.codecs.contains(&VideoCodec::Vp9))
            .enable_bwe(estimate.map(|(start, _)| start))
            .set_extension(PLAYOUT_DELAY_ID, Extension::PlayoutDelay)
            .set_stats_interval(Some(STATS_INTERVAL))
            .set_sctp_max_buffered_amount(MAX_UNREAD)
            .build(now);
        let candidates = candidates_in(offer);
        let offer = SdpOffer::from_sdp_string(offer).map_err(|e| words(&e))?;
        let candidate = Candidate::host(local, Protocol::Udp).map_err(|e| words(&e))?;
        rtc.add_local_candidate(candidate);
        let mut state = State {
            rtc,
            local,
            other: None,
            announced: Vec::new(),
            candidates,
            sources: Sources::default(),
            video: None,
            sound: None,
            control: None,
            notices: None,
            events: VecDeque::new(),
            next: now,
            traffic: Traffic::default(),
            estimate: None,
        };
        state.reached_at(known, &sockets);
        let answer = (state.rtc.sdp_api().accept_offer(offer)).map_err(|e| words(&e))?;
        state.settle(now, &sockets);
        if let Some((_, max)) = estimate {
            state.rtc.bwe().set_bitrate(str0m::bwe::Bitrate::ZERO, max);
            state.settle(now, &sockets);
        }
        let answer = answer.to_sdp_string();
        // The answer lists the formats that both peers support. The tracks themselves are known only when media can
        // flow.
        let video = video_codec::first_video(&answer);
        let codecs = options.codecs.iter().copied();
        let codecs: Vec<_> = codecs.filter(|codec| codec.is_in(video)).collect();
        if codecs.is_empty() {
            return Err(OfferRefused::without(&options.codecs));
        }
        let peer = Peer {
            state: Mutex::new(state),
            sockets,
            codecs,
            newest: AtomicU32::new(0),
            woken: Notify::new(),
        };
        Ok((peer, answer))
    }

    /// Answers a later offer on this connection (ICE restart). Media continues. Even a refused offer may have changed
    /// the network path.
    pub(crate) fn answer_again(&self, offer: &str) -> Result<String, OfferRefused> {
        let words = |e: &dyn std::fmt::Display| OfferRefused::Sdp(e.to_string());
        let mut state = self.lock();
        if !state.may_add_candidates(candidates_in(offer)) {
            return Err(OfferRefused::Addresses);
        }
        let offer = SdpOffer::from_sdp_string(offer).map_err(|e| words(&e))?;
        let before = state.rtc.direct_api().local_ice_credentials();
        let answer = (state.rtc.sdp_api().accept_offer(offer)).map_err(|e| words(&e))?;
        if state.rtc.direct_api().local_ice_credentials() != before {
            // `str0m` has forgotten the addresses, and no longer accepts a repeated request with the previous
            // credentials.
            state.sources = Sources::default();
        }
        state.settle(Instant::now(), &self.sockets);
        drop(state);
        self.woken.notify_one();
        Ok(answer.to_sdp_string())
    }

    /// Sets the addresses at which the socket is reachable. Returns the new addresses as candidates (RFC 8839).
    pub(crate) fn reached_at(&self, known: &[SocketAddr]) -> Vec<String> {
        self.with(|state| state.reached_at(known, &self.sockets))
    }

    /// Adds an address of the browser. An address that cannot be resolved here (multicast DNS) is ignored, because the first
    /// packet reveals it. Addresses beyond [`MAX_CANDIDATES`] are ignored, too.
    pub(crate) fn candidate(&self, words: &str) {
        if let Ok(candidate) = Candidate::from_sdp_string(words) {
            self.with(|state| {
                if state.may_add_candidates(1) {
                    state.rtc.add_remote_candidate(candidate);
                }
            });
        }
    }

    /// Handles a datagram from `source`. Returns whether it belongs to this connection.
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
        if !state.sources.admits(source) {
            return true;
        }
        if let Err(e) = state.rtc.handle_input(input) {
            tracing::debug!(%source, "invalid datagram: {e}");
        }
        state.settle(now, &self.sockets);
        drop(state);
        self.woken.notify_one();
        true
    }

    /// Sends video packets. Returns the traffic of the connection so far.
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

    /// Sends a sound packet.
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

    /// Sends an unreliable message.
    pub(crate) fn send_control(&self, message: &[u8]) {
        self.with(|state| {
            if let Some(mut channel) = state.control.and_then(|id| state.rtc.channel(id)) {
                // If the channel is full, the message is dropped.
                let _ = channel.write(true, message);
            }
        });
    }

    /// Sends a message reliably and in order. Returns `false` if too many earlier messages are unread.
    pub(crate) fn send_notice(&self, text: &str) -> bool {
        self.write_notice(false, text.as_bytes())
    }

    /// Sends bytes as [`Peer::send_notice`] sends text.
    pub(crate) fn send_notice_bytes(&self, bytes: &[u8]) -> bool {
        self.write_notice(true, bytes)
    }

    fn write_notice(&self, binary: bool, message: &[u8]) -> bool {
        self.with(|state| {
            let Some(mut channel) = state.notices.and_then(|id| state.rtc.channel(id)) else {
                return true;
            };
            channel.buffered_amount() + message.len() <= MAX_UNREAD
                && channel.write(binary, message).unwrap_or(false)
        })
    }

    /// Whether the browser has read enough of its messages for the next part of a clipboard text.
    pub(crate) fn is_read(&self) -> bool {
        self.with(|state| {
            let channel = state.notices.and_then(|id| state.rtc.channel(id));
            channel.is_none_or(|mut channel| channel.buffered_amount() <= READ)
        })
    }

    /// The queued events, and when [`Peer::tick`] is due.
    pub(crate) fn poll(&self) -> (Vec<PeerEvent>, Instant) {
        let mut state = self.lock();
        (state.events.drain(..).collect(), state.next)
    }

    /// Call this at the time that [`Peer::poll`] returned.
    pub(crate) fn tick(&self) {
        self.with(|_| ());
    }

    /// Whether the connection is open.
    pub(crate) fn is_alive(&self) -> bool {
        self.lock().rtc.is_alive()
    }

    /// Whether the browser accepts sound.
    pub(crate) fn takes_sound(&self) -> bool {
        self.lock().sound.is_some()
    }

    /// The host's codecs that the browser supports.
    pub(crate) fn codecs(&self) -> &[VideoCodec] {
        &self.codecs
    }

    /// The newest rate estimate of the congestion control; `None` without an estimate.
    pub(crate) fn estimate(&self) -> Option<Bitrate> {
        self.lock().estimate
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    pub(crate) fn close(&self) {
        self.with(|state| {
            let _ = state.rtc.close();
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and sends the resulting packets.
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
            let room = self.announced.len() < MAX_ADDRESSES;
            if !room || *address == self.local || self.announced.contains(address) {
                continue;
            }
            self.announced.push(*address);
            if address.is_ipv4() == self.local.is_ipv4() {
                added.push(Candidate::server_reflexive(
                    *address,
                    self.local,
                    Protocol::Udp,
                ));
                continue;
            }
            // A browser that connected over one address family may also reach the host over the other family.
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

    /// Counts further addresses of the browser. Returns whether all addresses so far are within the limit.
    fn may_add_candidates(&mut self, more: usize) -> bool {
        self.candidates = self.candidates.saturating_add(more);
        self.candidates <= MAX_CANDIDATES
    }

    /// Drains `str0m`. After each change, all its output must be processed before the next change.
    fn settle(&mut self, now: Instant, sockets: &MediaSockets) {
        self.drain(now, sockets);
        if let Err(e) = self.rtc.handle_input(Input::Timeout(now)) {
            tracing::debug!("connection failed: {e}");
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
                    let sent = sockets.send_to(&transmit.contents, transmit.destination);
                    (self.traffic).count_datagram(transmit.contents.len(), sent.is_ok());
                }
                Ok(Output::Event(event)) => self.event(event),
                Err(e) => {
                    tracing::debug!("connection failed: {e}");
                    self.rtc.disconnect();
                    self.next = now + STATS_INTERVAL;
                    return;
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        if let Event::ChannelData(data) = &event
            && data.data.len() > MAX_LENGTH
        {
            self.traffic.events_lost += 1;
            return;
        }
        let event = match event {
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
                    PeerEvent::NoticesOpen
                }
                _ => return,
            },
            Event::ChannelData(data) if Some(data.id) == self.control => {
                PeerEvent::Control(data.data)
            }
            Event::ChannelData(data) if Some(data.id) == self.notices => match data.binary {
                true => PeerEvent::NoticeBytes(data.data),
                false => PeerEvent::Notice(data.data),
            },
            Event::KeyframeRequest(_) => PeerEvent::KeyFrame,
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                let estimate = Bitrate(estimate.as_u64());
                self.estimate = Some(estimate);
                PeerEvent::Estimate(estimate)
            }
            Event::MediaEgressStats(stats) if self.is_video(stats.mid) => PeerEvent::Link {
                loss: stats.loss.map(f64::from),
                round_trip: stats.rtt,
            },
            _ => return,
        };
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.traffic.events_lost += 1;
        }
    }

    fn is_video(&self, mid: str0m::media::Mid) -> bool {
        self.video.as_ref().is_some_and(|track| track.mid == mid)
    }
}

/// The number of addresses in a session description (RFC 8839 section 5.1).
fn candidates_in(sdp: &str) -> usize {
    sdp.matches("a=candidate:").count()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use str0m::change::SdpAnswer;
    use str0m::media::Direction;

    use super::*;

    #[test]
    fn repeated_requests_from_many_addresses_are_bounded() {
        let mut sources = Sources::default();
        let from = |port: usize| SocketAddr::from(([192, 0, 2, 1], u16::try_from(port).unwrap()));
        assert!((0..MAX_SOURCES).all(|port| sources.admits(from(port))));
        assert!(!sources.admits(from(MAX_SOURCES)));
        assert!(sources.admits(from(0)));
    }

    /// The browser's next STUN request. Time passes only as far as `now` is advanced here.
    fn request(browser: &mut Rtc, now: &mut Instant) -> Vec<u8> {
        for _ in 0..1000 {
            match browser.poll_output().unwrap() {
                Output::Transmit(packet) if packet.contents.starts_with(&[0, 1]) => {
                    return packet.contents.to_vec();
                }
                Output::Timeout(at) => {
                    *now = at.max(*now);
                    browser.handle_input(Input::Timeout(*now)).unwrap();
                }
                _ => {}
            }
        }
        panic!("no request");
    }

    #[test]
    fn an_ice_restart_makes_room_for_other_addresses() {
        let main = UdpSocket::bind("127.0.0.1:0").unwrap();
        main.set_nonblocking(true).unwrap();
        let local = main.local_addr().unwrap();
        let sockets = Arc::new(MediaSockets::new(main).unwrap());
        let options = MediaOptions {
            codecs: vec![VideoCodec::H264],
            rate_control: RateControl::Reports,
        };
        let mut now = Instant::now();
        let mut browser = Rtc::builder()
            .set_rtp_mode(true)
            .clear_codecs()
            .enable_h264(true)
            .build(now);
        // No program listens at this address.
        let at = |number: usize| {
            let [.., high, low] = number.to_be_bytes();
            SocketAddr::from(([127, 77, high, low], 1))
        };
        let candidate = |number| Candidate::host(at(number), Protocol::Udp).unwrap();
        browser.add_local_candidate(candidate(0));
        let mut api = browser.sdp_api();
        api.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
        let (offer, pending) = api.apply().unwrap();
        let (peer, answer) =
            Peer::answer(sockets, (local, &[]), &offer.to_sdp_string(), &options).unwrap();
        let answer = SdpAnswer::from_sdp_string(&answer).unwrap();
        browser.sdp_api().accept_answer(pending, answer).unwrap();
        let repeated = request(&mut browser, &mut now);
        assert!((0..=MAX_SOURCES).all(|number| peer.receive(at(number), &repeated)));
        assert!(!peer.lock().sources.0.contains(&at(MAX_SOURCES)));

        let mut api = browser.sdp_api();
        api.ice_restart(false);
        let (offer, pending) = api.apply().unwrap();
        let answer = peer.answer_again(&offer.to_sdp_string()).unwrap();
        let answer = SdpAnswer::from_sdp_string(&answer).unwrap();
        browser.sdp_api().accept_answer(pending, answer).unwrap();
        // The restart removed the previous address.
        browser.add_local_candidate(candidate(MAX_SOURCES));
        let next = request(&mut browser, &mut now);
        assert!(peer.receive(at(MAX_SOURCES), &next));
        assert!(peer.lock().sources.0.contains(&at(MAX_SOURCES)));
    }

    #[test]
    fn a_rejected_datagram_does_not_count_as_sent() {
        let mut traffic = Traffic::default();
        traffic.count_datagram(100, true);
        traffic.count_datagram(200, false);
        let expected = Traffic {
            datagrams: 1,
            bytes: 100,
            overflowed: 1,
            events_lost: 0,
        };
        assert_eq!(traffic, expected);
    }
}
