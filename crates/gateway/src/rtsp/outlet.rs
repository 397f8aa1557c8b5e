//! Where the packets of a track go: to the player's ports, or into its connection.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::net::sockopt;

/// What the kernel may hold of datagrams: two key frames of 1080p (guess).
const SOCKET_BUFFER: usize = 1 << 20;

/// Pairs of ports that are tried.
const TRIES: usize = 32;

/// Messages that wait for a connection, of 1.2 kB at most: a quarter of a second of 40 Mb/s, so that a thread without a
/// processor for as long costs neither pictures nor sound. Frames that find no room wait before (`Intake::Steady`), sound
/// is lost.
const WAITING: usize = 1024;

/// A player that takes nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(10);

/// Two sockets with neighbouring ports, the first of which is even (RFC 3550 section 11).
#[derive(Debug)]
pub(super) struct UdpPair {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
}

impl UdpPair {
    /// At our address `at`, for a player's ports at `to`.
    pub(super) fn open(at: IpAddr, to: IpAddr, ports: (u16, u16)) -> io::Result<UdpPair> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let first = UdpSocket::bind((at, 0))?;
            let port = first.local_addr()?.port();
            // The neighbour above an even port, below an odd one.
            match UdpSocket::bind((at, port ^ 1)) {
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

    fn connect(self, to: IpAddr, ports: (u16, u16)) -> io::Result<UdpPair> {
        // Connected: the kernel lets in nobody else's datagrams.
        self.rtp.connect(SocketAddr::new(to, ports.0))?;
        self.rtcp.connect(SocketAddr::new(to, ports.1))?;
        self.rtp.set_nonblocking(true)?;
        self.rtcp.set_nonblocking(true)?;
        // The kernel gives what it may.
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

/// A message on its way into a connection: an answer, or a packet in its frame (RFC 2326 section 10.12).
#[derive(Clone, Debug)]
pub(super) struct Writer(SyncSender<Vec<u8>>);

/// Nobody reads any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterClosed;

impl Writer {
    /// Writes in this order whatever is put into it; the second is what a thread has to run.
    pub(super) fn new(stream: TcpStream) -> (Writer, impl FnOnce() + Send + 'static) {
        let (sender, receiver) = sync_channel(WAITING);
        (Writer(sender), move || write_all(stream, &receiver))
    }

    /// Behind what waits nothing more is written; whether there was room to say so.
    pub(super) fn finish(&self) -> bool {
        !matches!(self.0.try_send(Vec::new()), Err(TrySendError::Full(_)))
    }

    /// Waits for room. An empty message ends it.
    pub(super) fn put(&self, message: Vec<u8>) -> Result<(), WriterClosed> {
        self.0.send(message).map_err(|_| WriterClosed)
    }

    /// Leaves it out where there is no room now; whether it was taken.
    pub(super) fn offer(&self, message: Vec<u8>) -> Result<bool, WriterClosed> {
        match self.0.try_send(message) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(WriterClosed),
        }
    }
}

fn write_all(mut stream: TcpStream, messages: &Receiver<Vec<u8>>) {
    // Without a limit a player that reads nothing would keep this thread for ever.
    if stream.set_write_timeout(Some(STALLED)).is_err() {
        return;
    }
    while let Ok(message) = messages.recv() {
        if message.is_empty() || stream.write_all(&message).is_err() {
            break;
        }
    }
    // Whoever reads from it hears that it is over.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// One track's way to its player.
#[derive(Debug)]
pub(super) enum Outlet {
    Udp(UdpPair),
    Interleaved { rtp: u8, rtcp: u8, writer: Writer },
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendOutcome {
    /// It is on its way.
    Sent,
    /// There is no room.
    Full,
    /// The player is gone.
    Gone,
}

impl Outlet {
    /// Sends a packet of RTP; into a connection that is full it `waits`, or leaves it out.
    pub(super) fn rtp(&self, packet: &[u8], waits: bool) -> SendOutcome {
        match self {
            Outlet::Udp(pair) => datagram(&pair.rtp, packet),
            Outlet::Interleaved { rtp, writer, .. } => interleaved(writer, *rtp, packet, waits),
        }
    }

    /// Sends a packet of RTCP.
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
        // A player whose port is not open yet, or a network that is down for a moment: RTSP says when it
        // is over.
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
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn pairs_have_neighbouring_ports_and_hear_only_their_player() {
        let player = UdpSocket::bind((HERE, 0)).unwrap();
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
        let stranger = UdpSocket::bind((HERE, 0)).unwrap();
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
