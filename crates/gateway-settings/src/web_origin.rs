//! The origins under which reverse proxies serve the page.

use std::fmt;
use std::str::FromStr;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};

/// An origin (RFC 6454) at which browsers show the page, if it differs from `https://` with the host's own name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebOrigin(String);

/// The text is not an origin of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected https://NAME[:PORT]")]
pub struct InvalidWebOrigin;

impl FromStr for WebOrigin {
    type Err = InvalidWebOrigin;

    fn from_str(text: &str) -> Result<WebOrigin, InvalidWebOrigin> {
        let uri: Uri = text.parse().map_err(|_| InvalidWebOrigin)?;
        let path = uri.path_and_query().map_or("", PathAndQuery::as_str);
        let authority = uri.authority().map_or("", Authority::as_str);
        let plain = !authority.is_empty() && !authority.contains('@') && matches!(path, "" | "/");
        if uri.scheme() != Some(&Scheme::HTTPS) || !plain {
            return Err(InvalidWebOrigin);
        }
        let authority = authority.to_ascii_lowercase();
        // Browsers omit the default port.
        let authority = authority.strip_suffix(":443").unwrap_or(&authority);
        Ok(WebOrigin(format!("https://{authority}")))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl WebOrigin {
    /// Whether the text denotes this origin.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }

    /// The origin's host name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        let authority = self.0.trim_start_matches("https://");
        match authority.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or(v6),
            None => authority.split(':').next().unwrap_or(authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_parsed_and_compared() {
        let of = |text: &str| text.parse::<WebOrigin>().map(|origin| origin.to_string());
        assert_eq!(
            of("https://Play.Example.org/").unwrap(),
            "https://play.example.org"
        );
        assert_eq!(
            of("https://play.example.org:443").unwrap(),
            "https://play.example.org"
        );
        assert_eq!(
            of("https://[2001:db8::1]:8443").unwrap(),
            "https://[2001:db8::1]:8443"
        );
        let origin: WebOrigin = "https://[2001:db8::1]:8443".parse().unwrap();
        assert_eq!(origin.host(), "2001:db8::1");
        for bad in [
            "",
            "play.example.org",
            "http://play.example.org",
            "https://",
            "https://play.example.org/page",
            "https://me@play.example.org",
            "https://play.example.org/?a",
            "null",
        ] {
            assert_eq!(of(bad), Err(InvalidWebOrigin), "{bad}");
        }
    }
}
