//! A request: the path and the query of a GET (RFC 9112). The rest of the request is ignored.

/// Maximum header length. The longest request of clients carries a certificate and has about 5 KiB.
pub(super) const MAX_HEADER: usize = 24 * 1024;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The path, without the slash.
    pub path: String,
    /// The text after the question mark.
    pub query: String,
}

/// The bytes are not a request, or the request is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a GET request")]
pub struct InvalidRequest;

impl Request {
    /// Parses a header; `None` if its end is missing.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the bytes are not a request, or if the request is too long.
    pub fn parse(bytes: &[u8]) -> Result<Option<Request>, InvalidRequest> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if end.unwrap_or(bytes.len()) > MAX_HEADER {
            return Err(InvalidRequest);
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let header = std::str::from_utf8(&bytes[..end]).map_err(|_| InvalidRequest)?;
        let line = header.split("\r\n").next().unwrap_or_default();
        let mut words = line.split(' ');
        let (Some("GET"), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(InvalidRequest);
        };
        if !version.starts_with("HTTP/1.") {
            return Err(InvalidRequest);
        }
        let target = target.strip_prefix('/').ok_or(InvalidRequest)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Some(Request {
            path: path.to_owned(),
            query: query.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query_are_parsed() {
        let text = b"GET /serverinfo?uniqueid=01&uuid=2 HTTP/1.1\r\nHost: a\r\n\r\n";
        let request = Request::parse(text).unwrap().unwrap();
        assert_eq!(request.path, "serverinfo");
        assert_eq!(request.query, "uniqueid=01&uuid=2");
        for end in 0..text.len() {
            assert_eq!(Request::parse(&text[..end]), Ok(None));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bad in [
            "\r\n\r\n",
            "POST /pair HTTP/1.1\r\n\r\n",
            "GET pair HTTP/1.1\r\n\r\n",
            "GET /pair\r\n\r\n",
            "GET /pair HTTP/2\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Request::parse(bad.as_bytes()), Err(InvalidRequest), "{bad}");
        }
        assert_eq!(Request::parse(&[b'a'; MAX_HEADER + 1]), Err(InvalidRequest));
        assert_eq!(
            Request::parse(b"GET /\xff HTTP/1.1\r\n\r\n"),
            Err(InvalidRequest)
        );
    }
}
