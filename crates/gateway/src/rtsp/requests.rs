//! What arrives on a connection of RTSP, piece by piece: requests, and interleaved packets between them.

use rtsp_types::{Message, ParseError, Request};

/// A request may be so long, with its body (guess: those of players have less than one kilobyte); an
/// interleaved packet may be a little longer.
const LONGEST: usize = 16 * 1024;

/// Something whole that arrived.
#[derive(Debug)]
pub enum Received {
    /// A request.
    Request(Request<Vec<u8>>),
    /// A packet in a channel.
    Packet {
        /// The channel.
        channel: u8,
        /// The packet.
        bytes: Vec<u8>,
    },
}

/// It was no RTSP, or a longer message than any player has to send: the connection can't go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what arrived is no RTSP")]
pub struct InvalidRtsp;

/// Bytes that have arrived and were not understood yet.
#[derive(Default, Debug)]
pub struct Requests(Vec<u8>);

impl Requests {
    /// These have arrived.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one. Call until there is none, before more is put in: what is
    /// kept is then never more than the longest message and what was put in last.
    ///
    /// # Errors
    /// [`InvalidRtsp`]; nothing more comes then.
    pub fn poll(&mut self) -> Result<Option<Received>, InvalidRtsp> {
        loop {
            // Empty lines between messages are let pass, as HTTP's are.
            let blank = self
                .0
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            self.0.drain(..blank);
            if self.0.is_empty() {
                return Ok(None);
            }
            // A packet's length stands in two bytes: no more than 64 KiB.
            if let [b'$', channel, high, low, rest @ ..] = &self.0[..] {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                let (channel, Some(bytes)) = (*channel, rest.get(..length)) else {
                    return Ok(None);
                };
                let bytes = bytes.to_vec();
                self.0.drain(..4 + length);
                return Ok(Some(Received::Packet { channel, bytes }));
            }
            if self.0[0] == b'$' {
                return Ok(None);
            }
            match Message::<&[u8]>::parse(&self.0[..]) {
                Ok((Message::Request(request), length)) => {
                    let request = request.map_body(<[u8]>::to_vec);
                    self.0.drain(..length);
                    return Ok(Some(Received::Request(request)));
                }
                // Nobody was asked anything: an answer, or a packet, is let pass.
                Ok((_, length)) => drop(self.0.drain(..length)),
                Err(ParseError::Incomplete(_)) if self.0.len() < LONGEST => return Ok(None),
                Err(_) => return Err(InvalidRtsp),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rtsp_types::Method;

    use super::*;

    const OPTIONS: &[u8] = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n";

    fn all(requests: &mut Requests) -> Vec<Received> {
        std::iter::from_fn(|| requests.poll().unwrap()).collect()
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let stream = [OPTIONS, b"\r\n$\x01\x00\x03abc", OPTIONS].concat();
        for size in 1..stream.len() {
            let mut requests = Requests::default();
            let mut received = Vec::new();
            for piece in stream.chunks(size) {
                requests.put(piece);
                received.extend(all(&mut requests));
            }
            let [
                Received::Request(first),
                Received::Packet { channel: 1, bytes },
                Received::Request(_),
            ] = &received[..]
            else {
                panic!("{size}: {received:?}");
            };
            assert_eq!(
                (first.method(), &bytes[..]),
                (&Method::Options, &b"abc"[..])
            );
        }
    }

    #[test]
    fn what_is_no_rtsp_or_never_ends_is_refused() {
        for stream in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00",
            &[b'A'; LONGEST],
        ] {
            let mut requests = Requests::default();
            requests.put(stream);
            assert!(
                requests.poll().is_err(),
                "{:?}",
                &stream[..8.min(stream.len())]
            );
        }
        let mut requests = Requests::default();
        requests.put(b"SETUP rtsp://a/ RTSP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n");
        requests.put(&[b' '; LONGEST]);
        assert!(requests.poll().is_err());
    }
}
