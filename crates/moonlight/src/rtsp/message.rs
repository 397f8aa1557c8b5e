//! RTSP messages (RFC 2326 sections 4 to 7) in the form that Moonlight clients write and read. The target of a request
//! need not be a URL.

use std::fmt::Write as _;

/// Maximum lengths of header and body. An ANNOUNCE of clients has about 3 KiB.
const MAX_HEADER: usize = 4 * 1024;
const MAX_BODY: usize = 12 * 1024;

/// Longest request.
pub(super) const MAX_REQUEST: usize = MAX_HEADER + MAX_BODY;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its target: `streamid=video/0/0`, `/`, or a URL.
    pub target: String,
    /// Its number.
    pub number: u32,
    /// The name of the session.
    pub session: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// The bytes are not a request, or the request is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an RTSP request")]
pub struct InvalidRequest;

impl Request {
    /// Parses a request; `None` if its end is missing.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the bytes are not a request, or if the request is too long.
    pub fn parse(bytes: &[u8]) -> Result<Option<Request>, InvalidRequest> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return match bytes.len() > MAX_HEADER {
                true => Err(InvalidRequest),
                false => Ok(None),
            };
        };
        if end > MAX_HEADER {
            return Err(InvalidRequest);
        }
        let header = std::str::from_utf8(&bytes[..end]).map_err(|_| InvalidRequest)?;
        let mut lines = header.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let mut word = || words.next().filter(|word| !word.is_empty());
        let (Some(method), Some(target), Some("RTSP/1.0"), None) = (word(), word(), word(), word())
        else {
            return Err(InvalidRequest);
        };
        let (mut number, mut session, mut length) = (None, None, 0);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(InvalidRequest)?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("cseq") {
                number = value.parse().ok();
            } else if name.eq_ignore_ascii_case("session") {
                session = Some(value.to_owned());
            } else if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().map_err(|_| InvalidRequest)?;
            }
        }
        if length > MAX_BODY {
            return Err(InvalidRequest);
        }
        let Some(body) = bytes[end + 4..].get(..length) else {
            return Ok(None);
        };
        Ok(Some(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            number: number.ok_or(InvalidRequest)?,
            session,
            body: body.to_vec(),
        }))
    }
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// 200, or another status of RFC 2326 section 7.1.1.
    pub status: u16,
    /// Headers other than the number of the request (`CSeq`).
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}

impl Response {
    /// A response without headers and body.
    #[must_use]
    pub fn of(status: u16) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// The response's bytes, as the response to request `number`.
    #[must_use]
    pub fn bytes(&self, number: u32) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            454 => "Session Not Found",
            455 => "Method Not Valid in This State",
            _ => "Refused",
        };
        let mut text = format!("RTSP/1.0 {} {reason}\r\nCSeq: {number}\r\n", self.status);
        for (name, value) in &self.headers {
            // Writing to a string cannot fail.
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETUP: &str = "SETUP streamid=video/0/0 RTSP/1.0\r\nCSeq: 4\r\nSession:  AB \r\n\r\n";

    #[test]
    fn requests_of_clients_are_parsed() {
        let request = Request::parse(SETUP.as_bytes()).unwrap().unwrap();
        assert_eq!(request.method, "SETUP");
        assert_eq!(request.target, "streamid=video/0/0");
        assert_eq!(
            (request.number, request.session.as_deref()),
            (4, Some("AB"))
        );
        let announce = "ANNOUNCE x RTSP/1.0\r\nCSeq: 5\r\nContent-length: 3\r\n\r\nabcd";
        let request = Request::parse(announce.as_bytes()).unwrap().unwrap();
        assert_eq!(request.body, b"abc");
    }

    #[test]
    fn a_request_is_awaited_until_its_end() {
        for end in 0..SETUP.len() {
            assert_eq!(Request::parse(&SETUP.as_bytes()[..end]), Ok(None), "{end}");
        }
        let announce = "ANNOUNCE x RTSP/1.0\r\nCSeq: 5\r\nContent-length: 3\r\n\r\nab";
        assert_eq!(Request::parse(announce.as_bytes()), Ok(None));
    }

    #[test]
    fn other_bytes_are_refused() {
        for bad in [
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nCSeq: 1\r\n\r\n",
            "PLAY / RTSP/1.0 x\r\nCSeq: 1\r\n\r\n",
            "PLAY / RTSP/1.0\r\n\r\n",
            "PLAY / RTSP/1.0\r\nCSeq: -1\r\n\r\n",
            "PLAY / RTSP/1.0\r\nCSeq: 1\r\nno header\r\n\r\n",
            "PLAY / RTSP/1.0\r\nCSeq: 1\r\nContent-length: 99999999\r\n\r\n",
            "PLAY / RTSP/1.0\r\nCSeq: 1\r\nContent-length: x\r\n\r\n",
        ] {
            assert_eq!(Request::parse(bad.as_bytes()), Err(InvalidRequest), "{bad}");
        }
        assert_eq!(Request::parse(&[b'a'; 5000]), Err(InvalidRequest));
        assert_eq!(
            Request::parse(b"\xff / RTSP/1.0\r\n\r\n"),
            Err(InvalidRequest)
        );
    }

    #[test]
    fn responses_have_the_number_of_their_request() {
        let response = Response::of(200).with("Session", "AB");
        let expected = "RTSP/1.0 200 OK\r\nCSeq: 7\r\nSession: AB\r\n\r\n";
        assert_eq!(response.bytes(7), expected.as_bytes());
    }
}
