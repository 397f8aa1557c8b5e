//! Reverse proxies in front of the page: the origins under which they serve it, and the browser's address, which they
//! pass in `X-Forwarded-For`. The header is trusted only from configured proxies, since any client can send it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper::http::uri::{Authority, PathAndQuery, Scheme, Uri};

/// The header, as nginx, Caddy, HAProxy and Apache write it: the addresses along the path, the nearest last.
pub(crate) const FORWARDED_FOR: &str = "x-forwarded-for";

/// Maximum number of entries that are read: each is a proxy on the path (a guess: no deployment has more).
const ENTRIES: usize = 16;

/// The addresses of proxies: one, or a network of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyNetwork {
    address: IpAddr,
    bits: u32,
}

/// The text is neither an address nor a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not IP[/BITS]")]
pub struct InvalidProxyNetwork;

impl FromStr for ProxyNetwork {
    type Err = InvalidProxyNetwork;

    /// `127.0.0.1`, `10.0.0.0/8`, `2001:db8::/64`.
    fn from_str(text: &str) -> Result<ProxyNetwork, InvalidProxyNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidProxyNetwork)?;
        let width = width(address);
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => width,
            Some(bits) if digits(bits) => bits.parse().map_err(|_| InvalidProxyNetwork)?,
            Some(_) => return Err(InvalidProxyNetwork),
        };
        match bits <= width {
            true => Ok(ProxyNetwork { address, bits }),
            false => Err(InvalidProxyNetwork),
        }
    }
}

impl fmt::Display for ProxyNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == width(self.address) {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

impl ProxyNetwork {
    fn contains(self, other: IpAddr) -> bool {
        let width = width(self.address);
        let number = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        let same_family = self.address.is_ipv4() == other.is_ipv4();
        let differ = number(self.address) ^ number(other);
        same_family && differ.checked_shr(width - self.bits).unwrap_or(0) == 0
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Whether the address belongs to a configured proxy.
#[must_use]
pub fn is_proxy(proxies: &[ProxyNetwork], address: IpAddr) -> bool {
    let address = address.to_canonical();
    proxies.iter().any(|proxy| proxy.contains(address))
}

/// The address of the browser behind a request from `peer` with these `X-Forwarded-For` values: the nearest address
/// that is not a proxy. An invalid entry ends the search with the address of the proxy that added it.
pub fn browser<'a>(
    peer: IpAddr,
    forwarded_for: impl DoubleEndedIterator<Item = &'a str>,
    proxies: &[ProxyNetwork],
) -> IpAddr {
    let mut nearest = peer.to_canonical();
    let entries = forwarded_for.rev().flat_map(|value| value.rsplit(','));
    for entry in entries.take(ENTRIES) {
        if !is_proxy(proxies, nearest) {
            break;
        }
        let Some(address) = entry_address(entry.trim()) else {
            break;
        };
        nearest = address.to_canonical();
    }
    nearest
}

/// An entry: an address, or one with a port, which some proxies add.
fn entry_address(entry: &str) -> Option<IpAddr> {
    if let Ok(address) = entry.parse() {
        return Some(address);
    }
    let with_port: Option<std::net::SocketAddr> = entry.parse().ok();
    with_port.map(|at| at.ip())
}

/// An origin of the page (RFC 6454) besides `https://` and the host's own name, as shown in a browser's address bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebOrigin(String);

/// The text is not an origin of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not https://NAME[:PORT]")]
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
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }

    /// Its host name or address.
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

    fn proxies(text: &str) -> Vec<ProxyNetwork> {
        text.split(' ').map(|one| one.parse().unwrap()).collect()
    }

    fn browser_of(peer: &str, values: &[&str], of: &str) -> String {
        browser(peer.parse().unwrap(), values.iter().copied(), &proxies(of)).to_string()
    }

    #[test]
    fn a_header_counts_from_named_proxies_alone() {
        let one = "127.0.0.1";
        let header = &["203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", header, one), "203.0.113.7");
        assert_eq!(browser_of("::ffff:127.0.0.1", header, one), "203.0.113.7");
        assert_eq!(browser_of("192.0.2.1", header, one), "192.0.2.1");
        assert_eq!(browser_of("127.0.0.1", &[], one), "127.0.0.1");
        // Entries from the browser precede those that the proxy adds.
        let claimed = &["10.0.0.1, 203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", claimed, one), "203.0.113.7");
        let lines = &["10.0.0.1", "203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", lines, one), "203.0.113.7");
        // Two proxies, one behind the other.
        let chain = &["203.0.113.7, 10.1.2.3"][..];
        assert_eq!(browser_of("127.0.0.1", chain, one), "10.1.2.3");
        let two = "127.0.0.1 10.0.0.0/8";
        assert_eq!(browser_of("127.0.0.1", chain, two), "203.0.113.7");
        // With a port, and invalid entries.
        assert_eq!(
            browser_of("127.0.0.1", &["[2001:db8::7]:99"], one),
            "2001:db8::7"
        );
        assert_eq!(
            browser_of("127.0.0.1", &["203.0.113.7:99"], one),
            "203.0.113.7"
        );
        assert_eq!(browser_of("127.0.0.1", &["unknown"], one), "127.0.0.1");
        assert_eq!(browser_of("127.0.0.1", &[""], one), "127.0.0.1");
        // All are proxies.
        let long = vec!["127.0.0.1"; 1000].join(",");
        assert_eq!(browser_of("127.0.0.1", &[&long], one), "127.0.0.1");
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let contains =
            |network: &str, address: &str| is_proxy(&proxies(network), address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("2001:db8::/64", "2001:db8::1"));
        assert!(!contains("2001:db8::/64", "2001:db8:0:1::1"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for good in ["127.0.0.1", "10.0.0.0/8", "2001:db8::/64"] {
            let network: ProxyNetwork = good.parse().unwrap();
            assert_eq!(network.to_string(), good);
        }
        for bad in [
            "",
            "proxy",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "1.2.3.4:80",
        ] {
            assert_eq!(
                bad.parse::<ProxyNetwork>(),
                Err(InvalidProxyNetwork),
                "{bad}"
            );
        }
    }

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
