//! The browser's end of a connection. Like the gateway, it uses `str0m`. It runs on a thread of the test.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_gateway::{CONTROL_CHANNEL, NOTICE_CHANNEL};
use openuvr_proto::id::FrameId;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::wire::control::{Message, Messages};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use serde_json::{Value, json};
use str0m::change::SdpAnswer;
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::format::Codec;
use str0m::media::{Direction, KeyframeRequestKind, MediaKind, Mid};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{Extension, RtpPacket};
use str0m::{Candidate, Event, Input, Output, Rtc};
use tokio_tungstenite::tungstenite::{self, WebSocket};

use super::caller::{Caller, Secure, next, send_message};
use super::support::TIMEOUT;

const ID: &str = "connection-1";

/// The payload type that `str0m` assigns to Opus.
const OPUS: u8 = 111;

/// A received item.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A video packet.
    Packet(Box<RtpPacket>),
    /// A sound packet: its timestamp and payload length.
    Sound(u32, usize),
    Control(Vec<u8>),
    Notice(Value),
    NoticeBytes,
    Open,
}

pub(crate) struct Remote {
    pub(crate) socket: WebSocket<Secure>,
    udp: UdpSocket,
    rtc: Rtc,
    video: Mid,
    control: ChannelId,
    told: ChannelId,
    /// Drops one in this many media datagrams; 0 drops none.
    pub(crate) loses_each: u32,
    count: u32,
    /// The gateway's session description.
    pub(crate) answer: String,
    /// Received items that have not been consumed.
    early: VecDeque<Arrived>,
}

/// A socket at this address, with a buffer for the time during which the test is starved.
fn socket(here: IpAddr) -> UdpSocket {
    let udp = UdpSocket::bind((here, 0)).unwrap();
    let _ = set_socket_recv_buffer_size_force(&udp, 8 << 20)
        .or_else(|_| set_socket_recv_buffer_size(&udp, 8 << 20));
    udp
}

/// Creates a socket at this address, and a connection that can receive VP8 and these codecs. The caller makes the
/// offer.
fn offer(here: IpAddr, codecs: &[Codec]) -> (UdpSocket, Rtc) {
    let udp = socket(here);
    let mut rtc = Rtc::builder()
        .set_rtp_mode(true)
        .clear_codecs()
        .enable_opus(true, false)
        .enable_vp8(true)
        .enable_h264(codecs.contains(&Codec::H264))
        .enable_vp9(codecs.contains(&Codec::Vp9))
        .set_extension(9, Extension::PlayoutDelay)
        .build(Instant::now());
    let here = udp.local_addr().unwrap();
    rtc.add_local_candidate(Candidate::host(here, Protocol::Udp).unwrap());
    (udp, rtc)
}

impl Remote {
    /// Sends an offer. Returns the answer. The error is a message that arrived instead of an answer.
    pub(crate) fn offer(
        caller: &Caller,
        query: &str,
        codecs: &[Codec],
    ) -> Result<Remote, Box<(Value, WebSocket<Secure>)>> {
        Remote::labelled(caller, query, codecs, NOTICE_CHANNEL)
    }

    /// Like `Remote::offer`, with this label of the reliable channel.
    fn labelled(
        caller: &Caller,
        query: &str,
        codecs: &[Codec],
        reliable: &str,
    ) -> Result<Remote, Box<(Value, WebSocket<Secure>)>> {
        let mut socket = caller.websocket(query, &caller.origin()).unwrap();
        send_message(
            &mut socket,
            &json!({ "type": "connect", "connectionId": ID }),
        );
        let connect = next(&mut socket).unwrap();
        assert_eq!(connect["type"], "connect");
        assert_eq!(connect["connectionId"], ID);
        let (udp, mut rtc) = offer(caller.here, codecs);
        let mut api = rtc.sdp_api();
        let video = api.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
        api.add_media(MediaKind::Audio, Direction::RecvOnly, None, None, None);
        let control = api.add_channel_with_config(ChannelConfig {
            label: CONTROL_CHANNEL.to_owned(),
            ordered: false,
            reliability: Reliability::MaxRetransmits { retransmits: 0 },
            ..ChannelConfig::default()
        });
        let told = api.add_channel(reliable.to_owned());
        let (sdp, pending) = api.apply().unwrap();
        let data = json!({ "connectionId": ID, "sdp": sdp.to_sdp_string() });
        let message = json!({ "type": "offer", "from": ID, "data": data });
        send_message(&mut socket, &message);
        let answer = next(&mut socket).unwrap();
        if answer["type"] != "answer" {
            return Err(Box::new((answer, socket)));
        }
        assert_eq!(answer["from"], ID);
        let sdp = answer["data"]["sdp"].as_str().unwrap();
        let described = SdpAnswer::from_sdp_string(sdp).unwrap();
        rtc.sdp_api().accept_answer(pending, described).unwrap();
        Ok(Remote {
            socket,
            udp,
            rtc,
            video,
            control,
            told,
            loses_each: 0,
            count: 0,
            answer: sdp.to_owned(),
            early: VecDeque::new(),
        })
    }

    /// Waits for a clock request of the host and answers with this time.
    pub(crate) fn tells_the_time(&mut self, now: PeerInstant) {
        let asked = self.wait("a clock request", |arrived| match arrived {
            Arrived::Control(body) if body[0] < 0xf0 => {
                Messages::new(&body).find_map(|message| match message {
                    Ok(Message::Ping { asked }) => Some(asked),
                    _ => None,
                })
            }
            _ => None,
        });
        self.send_control(&Message::Pong {
            asked,
            received: now,
            answered: now,
        });
    }

    /// Waits for the message about a sent frame.
    pub(crate) fn names_a_frame(&mut self) -> FrameId {
        self.wait("a frame's message", |arrived| match arrived {
            Arrived::Control(body) if body[0] == 0xf0 => {
                let newest = body.len() - 40;
                let number = body[newest..newest + 4].try_into().unwrap();
                Some(FrameId(u32::from_le_bytes(number)))
            }
            _ => None,
        })
    }

    /// A connection for H.264 with both channels open.
    pub(crate) fn connected(caller: &Caller, query: &str) -> Remote {
        Remote::with_codecs(caller, query, &[Codec::H264])
    }

    /// A connection for these codecs with both channels open.
    pub(crate) fn with_codecs(caller: &Caller, query: &str, codecs: &[Codec]) -> Remote {
        let mut remote = match Remote::offer(caller, query, codecs) {
            Ok(remote) => remote,
            Err(refused) => panic!("{}", refused.0),
        };
        let (mut open, mut early) = (0, VecDeque::new());
        remote.wait("the channels", |arrived| {
            match arrived {
                Arrived::Open => open += 1,
                other => early.push_back(other),
            }
            (open == 2).then_some(())
        });
        early.append(&mut remote.early);
        remote.early = early;
        remote
    }

    /// A connection that gets pictures, but whose reliable channel has a label that the gateway does not know.
    pub(crate) fn without_notices(caller: &Caller) -> Remote {
        let remote = Remote::labelled(caller, "", &[Codec::H264], "unknown");
        let mut remote = remote.unwrap_or_else(|refused| panic!("{}", refused.0));
        remote.wait("a packet", |arrived| {
            matches!(arrived, Arrived::Packet(_)).then_some(())
        });
        remote
    }

    /// Runs ICE until the gateway sends a signalling message, and returns that message. Nothing else may arrive.
    pub(crate) fn message_before_media(&mut self) -> Value {
        self.socket.get_ref().sock.set_nonblocking(true).unwrap();
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let arrived = self.turn();
            assert!(arrived.is_empty(), "{arrived:?}");
            match self.socket.read() {
                Ok(tungstenite::Message::Text(text)) => {
                    self.socket.get_ref().sock.set_nonblocking(false).unwrap();
                    return serde_json::from_str(&text).unwrap();
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(e)) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => panic!("{e}"),
            }
        }
        panic!("no message");
    }

    /// Adds an address of the gateway.
    pub(crate) fn candidate(&mut self, words: &str) {
        let candidate = Candidate::from_sdp_string(words).unwrap();
        self.rtc.add_remote_candidate(candidate);
    }

    /// Restarts ICE, as a browser does after a network change: new credentials and another port.
    pub(crate) fn restart(&mut self) {
        self.udp = socket(self.udp.local_addr().unwrap().ip());
        self.early.clear();
        let here = self.udp.local_addr().unwrap();
        let mut api = self.rtc.sdp_api();
        api.ice_restart(false);
        let (sdp, pending) = api.apply().unwrap();
        let data = json!({ "connectionId": ID, "sdp": sdp.to_sdp_string() });
        send_message(
            &mut self.socket,
            &json!({ "type": "offer", "from": ID, "data": data }),
        );
        let answer = next(&mut self.socket).unwrap();
        assert_eq!(answer["type"], "answer", "{answer}");
        let sdp = answer["data"]["sdp"].as_str().unwrap();
        let answer = SdpAnswer::from_sdp_string(sdp).unwrap();
        self.rtc.sdp_api().accept_answer(pending, answer).unwrap();
        // The ICE restart removed the previous candidates.
        let candidate = Candidate::host(here, Protocol::Udp).unwrap();
        self.rtc.add_local_candidate(candidate);
    }

    /// Offers an ICE restart with this number of additional addresses. Returns the reply.
    pub(crate) fn offers_addresses(&mut self, count: u16) -> Value {
        let mut api = self.rtc.sdp_api();
        api.ice_restart(false);
        let (sdp, _) = api.apply().unwrap();
        let mut sdp = sdp.to_sdp_string();
        for port in 0..count {
            sdp += &format!("a=candidate:1 1 udp 1 192.0.2.1 {port} typ host\r\n");
        }
        let data = json!({ "connectionId": ID, "sdp": sdp });
        send_message(
            &mut self.socket,
            &json!({ "type": "offer", "from": ID, "data": data }),
        );
        next(&mut self.socket).unwrap()
    }

    /// Receives until `find` returns a value.
    pub(crate) fn wait<T>(&mut self, what: &str, mut find: impl FnMut(Arrived) -> Option<T>) -> T {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let arrived = self.turn();
            self.early.extend(arrived);
            while let Some(arrived) = self.early.pop_front() {
                if let Some(found) = find(arrived) {
                    return found;
                }
            }
        }
        panic!("timeout: {what}");
    }

    fn turn(&mut self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        let at = self.drain(&mut arrived);
        let left = at.saturating_duration_since(Instant::now());
        let left = left.clamp(Duration::from_millis(1), Duration::from_millis(50));
        self.udp.set_read_timeout(Some(left)).unwrap();
        let mut datagram = [0; 2048];
        let here = self.udp.local_addr().unwrap();
        if let Ok((length, source)) = self.udp.recv_from(&mut datagram) {
            let datagram = &datagram[..length];
            // 128 to 191: RTP and RTCP (RFC 7983).
            let media = (128..192).contains(&datagram[0]);
            self.count += u32::from(media);
            let lost = media && self.loses_each > 0 && self.count.is_multiple_of(self.loses_each);
            if !lost {
                let received = Receive::new(Protocol::Udp, source, here, datagram).unwrap();
                let input = Input::Receive(Instant::now(), received);
                self.rtc.handle_input(input).unwrap();
            }
        } else {
            let input = Input::Timeout(Instant::now());
            self.rtc.handle_input(input).unwrap();
        }
        self.drain(&mut arrived);
        arrived
    }

    fn drain(&mut self, arrived: &mut Vec<Arrived>) -> Instant {
        loop {
            match self.rtc.poll_output().unwrap() {
                Output::Timeout(at) => return at,
                Output::Transmit(transmit) => {
                    let _ = self.udp.send_to(&transmit.contents, transmit.destination);
                }
                Output::Event(Event::RtpPacket(packet)) if *packet.header.payload_type == OPUS => {
                    let time = packet.header.timestamp;
                    arrived.push(Arrived::Sound(time, packet.payload.len()));
                }
                Output::Event(Event::RtpPacket(packet)) => {
                    arrived.push(Arrived::Packet(Box::new(packet)));
                }
                Output::Event(Event::ChannelOpen(..)) => arrived.push(Arrived::Open),
                Output::Event(Event::ChannelData(data)) if data.id == self.control => {
                    arrived.push(Arrived::Control(data.data));
                }
                Output::Event(Event::ChannelData(data)) if data.binary => {
                    arrived.push(Arrived::NoticeBytes);
                }
                Output::Event(Event::ChannelData(data)) => {
                    arrived.push(Arrived::Notice(serde_json::from_slice(&data.data).unwrap()));
                }
                Output::Event(_) => {}
            }
        }
    }

    /// Sends an unreliable message.
    pub(crate) fn send_control(&mut self, message: &Message<'_>) {
        let mut body = Vec::new();
        message.write(&mut body);
        self.send_control_bytes(&body);
    }

    pub(crate) fn send_control_bytes(&mut self, body: &[u8]) {
        self.drain(&mut Vec::new());
        let mut channel = self.rtc.channel(self.control).unwrap();
        channel.write(true, body).unwrap();
        self.drain(&mut Vec::new());
    }

    pub(crate) fn send_notice(&mut self, message: &Value) {
        self.drain(&mut Vec::new());
        let mut channel = self.rtc.channel(self.told).unwrap();
        channel
            .write(false, message.to_string().as_bytes())
            .unwrap();
        self.drain(&mut Vec::new());
    }

    pub(crate) fn wants_key_frame(&mut self, kind: KeyframeRequestKind) {
        self.early.clear();
        let mut api = self.rtc.direct_api();
        let stream = api.stream_rx_by_mid(self.video, None).unwrap();
        stream.request_keyframe(kind);
        self.rtc
            .handle_input(Input::Timeout(Instant::now()))
            .unwrap();
        self.drain(&mut Vec::new());
    }
}
