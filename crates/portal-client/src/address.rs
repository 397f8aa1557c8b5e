//! The address of a portal.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The maximum length of a portal's address. A host name has up to 253 characters (RFC 1035, section 2.3.4).
const LONGEST: usize = 300;

/// The address of a portal: only a scheme, a host, and an optional port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortalAddress {
    /// Whether the scheme is HTTPS. HTTP is allowed only for loopback addresses.
    pub secure: bool,
    /// The host, and the port if there is one, as written in a URL, in lower case.
    pub authority: String,
}

impl PortalAddress {
    /// Whether the address is a loopback address.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.authority)
    }
}

impl fmt::Display for PortalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl FromStr for PortalAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<PortalAddress, ()> {
        let (secure, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(()),
            None => (true, text),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let named = !host.is_empty()
            && !host.starts_with('-')
            && (host.starts_with('[') == host.contains(':'));
        let port_is_one = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
        let fits = text.len() <= LONGEST && authority.chars().all(plain);
        // A password must not cross a network unencrypted.
        let safe = secure || is_loopback(authority);
        match named && port_is_one && fits && safe {
            true => Ok(PortalAddress {
                secure,
                authority: authority.to_ascii_lowercase(),
            }),
            false => Err(()),
        }
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portals_address_is_scheme_host_and_port() {
        let shown = |text: &str| text.parse().map(|at: PortalAddress| at.to_string());
        assert_eq!(
            shown("play.example.org"),
            Ok("https://play.example.org".to_owned())
        );
        assert_eq!(
            shown("https://Play.Example.org:8443/"),
            Ok("https://play.example.org:8443".to_owned())
        );
        assert_eq!(
            shown("https://[2001:db8::1]"),
            Ok("https://[2001:db8::1]".to_owned())
        );
        assert_eq!(
            shown("http://127.0.0.1:8080"),
            Ok("http://127.0.0.1:8080".to_owned())
        );
        assert_eq!(
            shown("http://[::1]:8080"),
            Ok("http://[::1]:8080".to_owned())
        );
        for bad in [
            "",
            "https://",
            "ftp://a",
            "http://play.example.org",
            "http://127.0.0.1.example.org",
            "https://a/b",
            "https://me@a",
            "https://a:0",
            "https://a:99999",
            "https://2001:db8::1",
            "--help",
            "https://a\nb",
        ] {
            assert_eq!(shown(bad), Err(()), "{bad:?}");
        }
    }
}
