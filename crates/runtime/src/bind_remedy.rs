//! Remedies for an address at which a server cannot listen.

use std::io::{Error, ErrorKind};

/// The remedy for this error of bind(2), as the end of a message. It is empty for other errors.
#[must_use]
pub fn bind_remedy(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "; end the program that uses the port, or choose another port",
        ErrorKind::AddrNotAvailable => {
            "; choose an address of this machine (`ip address` lists them)"
        }
        ErrorKind::PermissionDenied => "; choose a port above 1023",
        _ if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
            "; this kernel has no IPv6: choose an IPv4 address, such as 0.0.0.0 with the same port"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_in_use_has_a_remedy() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let again = TcpListener::bind(taken.local_addr().unwrap()).unwrap_err();
        assert!(bind_remedy(&again).contains("choose another port"));
        let no_ipv6 = Error::from_raw_os_error(libc::EAFNOSUPPORT);
        assert!(bind_remedy(&no_ipv6).contains("choose an IPv4 address"));
        assert_eq!(bind_remedy(&ErrorKind::OutOfMemory.into()), "");
    }
}
