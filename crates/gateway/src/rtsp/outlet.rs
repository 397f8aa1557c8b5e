//! Output of a track: to the player's UDP ports, or interleaved in the RTSP connection.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::net::sockopt;

/// Kernel send buffer for datagrams: two key frames of 1080p (guess).
const SOCKET_BUFFER: usize = 1 << 20;

/// Number of port pairs to try.
const PORT_ATTEMPTS: usize = 32;

/// Maximum queued messages per connection, each of at most 1.2 kB: a quarter of a second at 40 Mb/s. A writer thread
/// that gets no processor time for that long loses neither frames nor sound. When the queue is full, frames wait for
/// room (`Intake::Steady`), and sound is dropped.
const QUEUE_LENGTH: usize = 1024;

/// Write timeout after which a player counts as disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Two sockets with adjacent ports, the first of which is even (RFC 3550 section 11).
#[derive(Debug)]
pub(super) struct UdpPair {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
}

impl UdpPair {
    /// Opens a pair at the local address `at`, for a player's ports at `to`. The ports of `at` and `to` are ignored.
    pub(super) fn open(at: SocketAddr, to: SocketAddr, ports: (u16, u16)) -> io::Result<UdpPair> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..PORT_ATTEMPTS {
            let first = UdpSocket::bind(with_port(at, 0))?;
            let port = first.local_addr()?.port();
            // An even port is paired with the next higher port, and an odd port with the next lower one.
            match UdpSocket::bind(with_port(at, port ^ 1)) {
                Ok(second) => {
                    let (rtp, rtcp) = match port % 2 {
                        0 => (first, second),
                        _ => (second, first),
                    };
                    return UdpPair { rtp, rtcp }.connect(to, ports);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect(self, to: SocketAddr, ports: (u16, u16)) -> io::Result<UdpPair> {
        // The socket is connected, so that the kernel drops datagrams from other sources.
        self.rtp.connect(with_port(to, ports.0))?;
        self.rtcp.connect(with_port(to, ports.1))?;
        self.rtp.set_nonblocking(true)?;
        self.rtcp.set_nonblocking(true)?;
        // The result is ignored, because the kernel may grant less.
        let _ = sockopt::set_socket_send_buffer_size(&self.rtp, SOCKET_BUFFER);
        Ok(self)
    }

    pub(super) fn ports(&self) -> io::Result<(u16, u16)> {
        Ok((
            self.rtp.local_addr()?.port(),
            self.rtcp.local_addr()?.port(),
        ))
    }
}

/// The address with another port. A link-local IPv6 address keeps its interface, without which the kernel refuses the
/// address.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Queues messages to a connection: responses, and framed packets (RFC 2326 section 10.12).
#[derive(Clone, Debug)]
pub(super) struct Writer(SyncSender<Vec<u8>>);

/// The writer thread has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterClosed;

impl Writer {
    /// Creates a writer that writes messages in order. The second value is the body of its thread.
    pub(super) fn new(stream: TcpStream) -> (Writer, impl FnOnce() + Send + 'static) {
        let (sender, receiver) = sync_channel(QUEUE_LENGTH);
        (Writer(sender), move || write_all(stream, &receiver))
    }

    /// Stops writing after the queued messages. Returns whether the queue had room for the request.
    pub(super) fn finish(&self) -> bool {
        !matches!(self.0.try_send(Vec::new()), Err(TrySendError::Full(_)))
    }

    /// Waits for room. An empty message stops the writer.
    pub(super) fn put(&self, message: Vec<u8>) -> Result<(), WriterClosed> {
        self.0.send(message).map_err(|_| WriterClosed)
    }

    /// Queues the message, or drops it if there is no room. Returns whether it was queued.
    pub(super) fn offer(&self, message: Vec<u8>) -> Result<bool, WriterClosed> {
        match self.0.try_send(message) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(WriterClosed),
        }
    }
}

fn write_all(mut stream: TcpStream, messages: &Receiver<Vec<u8>>) {
    // Without a timeout, a player that does not read would block this thread indefinitely.
    if stream.set_write_timeout(Some(WRITE_TIMEOUT)).is_err() {
        return;
    }
    while let Ok(message) = messages.recv() {
        if message.is_empty() || stream.write_all(&message).is_err() {
            break;
        }
    }
    // The shutdown ends the blocking read of the connection's thread.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// Output of one track.
#[derive(Debug)]
pub(super) enum Outlet {
    Udp(UdpPair),
    Interleaved { rtp: u8, rtcp: u8, writer: Writer },
}

/// Result of sending a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendOutcome {
    /// The packet was sent or queued. A packet that the network refuses counts as sent, too.
    Sent,
    /// The queue or the socket's buffer is full.
    Full,
    /// The player has disconnected.
    Gone,
}

impl Outlet {
    /// Sends an RTP packet. If the connection's queue is full, the call waits if `waits` is set, and otherwise drops
    /// the packet.
    pub(super) fn rtp(&self, packet: &[u8], waits: bool) -> SendOutcome {
        match self {
            Outlet::Udp(pair) => datagram(&pair.rtp, packet),
            Outlet::Interleaved { rtp, writer, .. } => interleaved(writer, *rtp, packet, waits),
        }
    }

    pub(super) fn rtcp(&self, packet: &[u8]) -> SendOutcome {
        match self {
            Outlet::Udp(pair) => datagram(&pair.rtcp, packet),
            Outlet::Interleaved { rtcp, writer, .. } => interleaved(writer, *rtcp, packet, false),
        }
    }
}

fn datagram(socket: &UdpSocket, packet: &[u8]) -> SendOutcome {
    match socket.send(packet) {
        Ok(_) => SendOutcome::Sent,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => SendOutcome::Full,
        // An error does not mean that the player is gone: its port may not be open yet, or the network may be down
        // temporarily. The RTSP timeout detects a lost player.
        Err(_) => SendOutcome::Sent,
    }
}

fn interleaved(writer: &Writer, channel: u8, packet: &[u8], waits: bool) -> SendOutcome {
    let Ok(length) = u16::try_from(packet.len()) else {
        return SendOutcome::Full;
    };
    let [high, low] = length.to_be_bytes();
    let mut message = Vec::with_capacity(4 + packet.len());
    message.extend_from_slice(&[b'$', channel, high, low]);
    message.extend_from_slice(packet);
    let taken = match waits {
        true => writer.put(message).map(|()| true),
        false => writer.offer(message),
    };
    match taken {
        Ok(true) => SendOutcome::Sent,
        Ok(false) => SendOutcome::Full,
        Err(WriterClosed) => SendOutcome::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, SocketAddrV6};

    use super::*;

    const HERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let ip = "fe80::1".parse().unwrap();
        let at = |port| SocketAddr::V6(SocketAddrV6::new(ip, port, 0, 7));
        assert_eq!(with_port(at(8554), 5000), at(5000));
    }

    #[test]
    fn pairs_have_neighbouring_ports_and_hear_only_their_player() {
        let player = UdpSocket::bind(HERE).unwrap();
        let port = player.local_addr().unwrap().port();
        let pairs: Vec<UdpPair> = (0..8)
            .map(|_| UdpPair::open(HERE, HERE, (port, port)).unwrap())
            .collect();
        for pair in &pairs {
            let (rtp, rtcp) = pair.ports().unwrap();
            assert!(rtp % 2 == 0 && rtcp == rtp + 1);
        }
        let outlet = Outlet::Udp(UdpPair::open(HERE, HERE, (port, port)).unwrap());
        assert_eq!(outlet.rtp(b"one", false), SendOutcome::Sent);
        let mut buffer = [0; 16];
        assert_eq!(player.recv(&mut buffer).unwrap(), 3);
        let Outlet::Udp(pair) = &outlet else {
            unreachable!()
        };
        let stranger = UdpSocket::bind(HERE).unwrap();
        stranger
            .send_to(b"evil", pair.rtcp.local_addr().unwrap())
            .unwrap();
        player
            .send_to(b"good", pair.rtcp.local_addr().unwrap())
            .unwrap();
        pair.rtcp.set_nonblocking(false).unwrap();
        let length = pair.rtcp.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"good");
    }

    #[test]
    fn a_full_connection_leaves_out_or_waits() {
        let (sender, receiver) = sync_channel(1);
        let writer = Writer(sender);
        let outlet = Outlet::Interleaved {
            rtp: 0,
            rtcp: 1,
            writer,
        };
        assert_eq!(outlet.rtp(b"abc", false), SendOutcome::Sent);
        assert_eq!(outlet.rtp(b"abc", false), SendOutcome::Full);
        assert_eq!(receiver.recv().unwrap(), b"$\x00\x00\x03abc");
        assert_eq!(outlet.rtcp(b"r"), SendOutcome::Sent);
        assert_eq!(receiver.recv().unwrap(), b"$\x01\x00\x01r");
        drop(receiver);
        assert_eq!(outlet.rtp(b"abc", true), SendOutcome::Gone);
    }
}
