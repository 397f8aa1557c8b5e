//! One pass through a capture. It assigns datagrams to streams, splits merged ones, and counts other packets. It ends
//! at an implausible clock step.

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::Serialize;

use super::kind::{Content, Kind};
use super::merged::{LARGEST, Segmentation, content_behind};
use crate::capture::datagram::{Datagram, Endpoint, NoDatagram};
use crate::capture::{self, CaptureError, CaptureInfo, Packet};
use crate::wifi::Direction;

/// Opens a capture. Each pass calls this function, and so starts at the beginning of the capture.
pub type Open<'a> = dyn FnMut() -> io::Result<Box<dyn Read>> + 'a;

/// The analysed part of a capture, in nanoseconds relative to the capture's first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Start.
    pub from: u64,
    /// Duration. `None` means until the end of the capture.
    pub lasting: Option<u64>,
}

/// Identifies a stream: datagrams of one kind from one endpoint to another. RTP datagrams also have the same source,
/// and OpenUVR datagrams the same session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// The kind.
    pub kind: Kind,
    /// SSRC, or session identifier.
    pub id: u32,
    /// Whether a TURN channel carries it.
    pub relayed: bool,
}

/// Sender and receiver. Each is a machine (an endpoint with port 0) or, if both are on one machine, an endpoint with
/// its port.
pub type EndpointPair = (Endpoint, Endpoint);

impl StreamKey {
    /// The stream's sender and receiver.
    #[must_use]
    pub fn ends(&self) -> EndpointPair {
        match self.from.machine() == self.to.machine() {
            true => (self.from, self.to),
            false => (self.from.without_port(), self.to.without_port()),
        }
    }

    /// The stream's direction, if it comes from the server or goes to it.
    #[must_use]
    pub fn direction(&self, server: Endpoint) -> Option<Direction> {
        match self.ends() {
            (from, _) if from == server => Some(Direction::Down),
            (_, to) if to == server => Some(Direction::Up),
            _ => None,
        }
    }
}

/// A datagram of a stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamDatagram<'a> {
    /// Time, in nanoseconds since the first packet of the capture.
    pub at: u64,
    /// The datagram's stream.
    pub key: StreamKey,
    /// The datagram's kind and header.
    pub content: Content,
    /// Length on Ethernet in bytes, including the Ethernet header but not the checksum.
    pub bytes: u64,
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// Length of the whole payload in bytes.
    pub length: usize,
}

/// Statistics on the reading of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets read.
    pub packets: u64,
    /// Datagrams within the window.
    pub datagrams: u64,
    /// When the first packet was captured, in nanoseconds since 1970.
    pub origin_ns: u64,
    /// Time from the first datagram in the window to the last, in nanoseconds.
    pub lasted_ns: u64,
    /// Packets of TCP.
    pub tcp: u64,
    /// IP fragments (not reassembled).
    pub fragments: u64,
    /// Other packets.
    pub others: u64,
    /// Packets with truncated headers.
    pub cut: u64,
    /// Packets that consisted of several merged datagrams (GSO, GRO) and were split.
    pub joined: u64,
    /// Datagrams that these packets contained.
    pub joined_datagrams: u64,
    /// Number of these datagrams that were split at the stream's usual size, because their headers were not captured.
    pub joined_unseen: u64,
    /// Large packets that appear merged but can't be split. Each counts as one datagram.
    pub joined_uncut: u64,
    /// Packets with an earlier time than a previous packet.
    pub out_of_order: u64,
    /// The program that wrote the capture.
    pub application: Option<String>,
}

/// A larger step back means that the clock was set. Packets of several capture queues are out of order by milliseconds
/// at most (a guess with margin).
const LARGEST_STEP_BACK: u64 = 1_000_000_000;

/// A larger step forward means that the clock was set, or that captures were concatenated (a guess).
const LARGEST_STEP_FORWARD: u64 = 3_600_000_000_000;

/// Maximum number of streams whose usual datagram size is stored.
const MOST_SIZES: usize = 1024;

/// Reads a capture, and passes each datagram of the window to `each`.
///
/// # Errors
/// Returns an error if the capture is unreadable, has an unsupported link type, or contains an implausible clock step.
/// The statistics of the packets before the error are returned, too.
pub fn walk(
    open: &mut Open<'_>,
    window: Window,
    each: &mut dyn FnMut(&StreamDatagram<'_>),
) -> (Account, Result<(), CaptureError>) {
    let mut walk = Walk {
        window,
        ..Walk::default()
    };
    let file = match open() {
        Ok(file) => file,
        Err(error) => {
            let why = error.to_string();
            let broken = CaptureError::Broken { packets: 0, why };
            return (walk.account, Err(broken));
        }
    };
    let mut wrong = None;
    let read = capture::read(file, &mut |packet| match walk.packet(&packet, each) {
        Ok(true) => ControlFlow::Continue(()),
        Ok(false) => ControlFlow::Break(()),
        Err(why) => {
            wrong = Some(why);
            ControlFlow::Break(())
        }
    });
    if let Some((first, last)) = walk.span {
        walk.account.lasted_ns = last - first;
    }
    let result = match (read, wrong) {
        (_, Some(why)) => Err(CaptureError::Broken {
            packets: walk.account.packets,
            why,
        }),
        (Ok(CaptureInfo { application, .. }), None) => {
            walk.account.application = application;
            Ok(())
        }
        (Err(error), None) => Err(error),
    };
    (walk.account, result)
}

#[derive(Default)]
struct Walk {
    window: Window,
    account: Account,
    latest: Option<u64>,
    span: Option<(u64, u64)>,
    /// The size of the largest single datagram in each stream.
    sizes: HashMap<StreamKey, usize>,
}

impl Walk {
    /// Processes a packet. Returns whether the pass continues.
    fn packet(
        &mut self,
        packet: &Packet<'_>,
        each: &mut dyn FnMut(&StreamDatagram<'_>),
    ) -> Result<bool, String> {
        let latest = *self.latest.get_or_insert(packet.at);
        if self.account.packets == 0 {
            self.account.origin_ns = packet.at;
        }
        if packet.at.saturating_add(LARGEST_STEP_BACK) < latest {
            let by = seconds(latest - packet.at);
            return Err(format!("the clock steps back by {by} s"));
        }
        if packet.at > latest.saturating_add(LARGEST_STEP_FORWARD) {
            let by = seconds(packet.at - latest);
            return Err(format!("the clock steps forward by {by} s"));
        }
        self.account.packets += 1;
        self.account.out_of_order += u64::from(packet.at < latest);
        self.latest = Some(latest.max(packet.at));
        let at = packet.at.saturating_sub(self.account.origin_ns);
        if at < self.window.from {
            return Ok(true);
        }
        let lasting = self.window.lasting;
        if lasting.is_some_and(|lasting| at >= self.window.from.saturating_add(lasting)) {
            return Ok(false);
        }
        match Datagram::of(packet) {
            Ok(datagram) => self.datagram(at, &datagram, each),
            Err(NoDatagram::Tcp) => self.account.tcp += 1,
            Err(NoDatagram::Fragment) => self.account.fragments += 1,
            Err(NoDatagram::Other) => self.account.others += 1,
            Err(NoDatagram::Truncated) => self.account.cut += 1,
            Err(NoDatagram::Link) => {
                return Err(format!(
                    "link type {:?} is not supported: capture on an Ethernet interface, on \"any\", or as raw IP",
                    packet.link
                ));
            }
        }
        Ok(true)
    }

    fn datagram(
        &mut self,
        at: u64,
        datagram: &Datagram<'_>,
        each: &mut dyn FnMut(&StreamDatagram<'_>),
    ) {
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        let Datagram {
            from,
            to,
            payload,
            length,
            headers,
            ..
        } = *datagram;
        let (content, relayed) = Content::of(payload, length);
        let id = match content {
            Content::Rtp(rtp) => rtp.ssrc,
            Content::OpenUvr(_, sealed) => sealed.session,
            Content::Plain(_) => 0,
        };
        let kind = content.kind();
        let key = StreamKey {
            from,
            to,
            kind,
            id,
            relayed,
        };
        let mut give = |content: Content, payload: &[u8], length: usize| {
            self.account.datagrams += 1;
            each(&StreamDatagram {
                at,
                key,
                content,
                bytes: (headers + length) as u64,
                payload,
                length,
            });
        };
        let size = match Segmentation::of(payload, length, &content) {
            Segmentation::Single => {
                if length <= LARGEST && self.sizes.len() < MOST_SIZES {
                    let usual = self.sizes.entry(key).or_default();
                    *usual = (*usual).max(length);
                }
                return give(content, payload, length);
            }
            Segmentation::Every(size) => size,
            Segmentation::Unseen => match self.sizes.get(&key) {
                Some(size) => {
                    self.account.joined_unseen += length.div_ceil(*size) as u64;
                    *size
                }
                None => {
                    self.account.joined_uncut += 1;
                    return give(content, payload, length);
                }
            },
        };
        self.account.joined += 1;
        self.account.joined_datagrams += length.div_ceil(size) as u64;
        for (index, begins) in (0..length).step_by(size).enumerate() {
            let captured = payload.get(begins..).unwrap_or_default();
            let captured = &captured[..captured.len().min(size)];
            let part = size.min(length - begins);
            let content = match Content::of(captured, part).0 {
                Content::Plain(_) => content_behind(&content, index),
                own => own,
            };
            give(content, captured, part);
        }
    }
}

fn seconds(nanos: u64) -> String {
    format!("{:.1}", nanos as f64 / 1e9)
}
