//! Parses the byte stream of an RTSP connection: requests, and interleaved packets between them.

use rtsp_types::{Message, ParseError, Request};

/// Maximum length of a request with its body (guess: players' requests are shorter than one kilobyte). An interleaved
/// packet may be longer, up to 64 KiB.
const MAX_LENGTH: usize = 16 * 1024;

/// A complete message.
#[derive(Debug)]
pub enum Received {
    /// A request.
    Request(Request<Vec<u8>>),
    /// An interleaved packet.
    Packet {
        /// Its channel.
        channel: u8,
        /// Its content.
        bytes: Vec<u8>,
    },
}

/// The bytes are not RTSP, or a message is too long. The connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an RTSP message")]
pub struct InvalidRtsp;

/// Received bytes that have not been parsed yet.
#[derive(Default, Debug)]
pub struct Requests(Vec<u8>);

impl Requests {
    /// Appends received bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete message. Before adding more bytes, call this until it returns `None`. This limits the buffer
    /// to the longest message plus the last addition.
    ///
    /// # Errors
    /// [`InvalidRtsp`] if the bytes are not RTSP. No more messages follow.
    pub fn poll(&mut self) -> Result<Option<Received>, InvalidRtsp> {
        loop {
            // Empty lines between messages are ignored, as in HTTP.
            let blank = self
                .0
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            self.0.drain(..blank);
            if self.0.is_empty() {
                return Ok(None);
            }
            // The packet's length field has two bytes, so a packet has at most 64 KiB.
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
                // Unsolicited responses and data are ignored.
                Ok((_, length)) => drop(self.0.drain(..length)),
                Err(ParseError::Incomplete(_)) if self.0.len() < MAX_LENGTH => return Ok(None),
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
    fn invalid_and_endless_requests_are_refused() {
        for stream in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00",
            &[b'A'; MAX_LENGTH],
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
        requests.put(&[b' '; MAX_LENGTH]);
        assert!(requests.poll().is_err());
    }
}
