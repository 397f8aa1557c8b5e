//! Addresses of a host's services in URLs.

use std::net::{IpAddr, SocketAddr};

/// Host and port for the URL of a service that listens at `address`. `name` is this machine's host name.
pub(super) fn authority(address: SocketAddr, name: &str) -> String {
    let port = address.port();
    match address.ip() {
        ip if ip.is_unspecified() => format!("{name}:{port}"),
        IpAddr::V4(v4) => format!("{v4}:{port}"),
        IpAddr::V6(v6) => format!("[{v6}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_what_others_can_reach() {
        let of = |address: &str| authority(address.parse().expect("an address"), "desk");
        assert_eq!(of("0.0.0.0:4711"), "desk:4711");
        assert_eq!(of("[::]:4711"), "desk:4711");
        assert_eq!(of("192.0.2.1:80"), "192.0.2.1:80");
        assert_eq!(of("[2001:db8::1]:80"), "[2001:db8::1]:80");
    }
}
