//! Certificates from an ACME authority. The test uses pebble, which validates like a public authority.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::support::skip::skip;
use super::support::{Installation, wait};

/// Validity of pebble's certificates in seconds. The portal renews them after two thirds of this time.
const VALID: u32 = 30;

/// The authority's process. It is killed on drop.
struct Authority {
    child: Child,
    port: u16,
}

impl Authority {
    /// Starts an authority that validates names at this port. If pebble is not installed, prints a message and returns
    /// `None`.
    fn start(place: &Installation, tls_port: u16) -> Option<Authority> {
        if Command::new("pebble").arg("-h").output().is_err() {
            skip("pebble is not installed: apt-get install pebble, or ./dev test-portal");
            return None;
        }
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        place.write("authority.pem", &made.cert.pem());
        place.write("authority.key", &made.signing_key.serialize_pem());
        let (port, management) = (free_port(), free_port());
        // The validity is set twice: newer versions of pebble read it from the profile, older ones from
        // `certificateValidityPeriod`.
        let config = format!(
            r#"{{"pebble": {{
                "listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "authority.pem", "privateKey": "authority.key",
                "httpPort": 1, "tlsPort": {tls_port}, "ocspResponderURL": "",
                "externalAccountBindingRequired": false, "retryAfter": {{"authz": 1, "order": 1}},
                "certificateValidityPeriod": {VALID},
                "profiles": {{"default": {{"description": "short", "validityPeriod": {VALID}}}}}
            }}}}"#
        );
        place.write("authority.json", &config);
        let log = fs::File::create(place.path("authority.log")).unwrap();
        let child = Command::new("pebble")
            .args(["-config", "authority.json"])
            .current_dir(place.folder.path())
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let authority = Authority { child, port };
        wait("a response of the authority", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(authority)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints the logs of the portal and the authority if the test fails.
struct Logs<'a>(&'a Installation);

impl Drop for Logs<'_> {
    #[expect(clippy::print_stderr, reason = "a failed test prints why")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["log", "authority.log"] {
                let said = fs::read_to_string(self.0.path(name)).unwrap_or_default();
                eprintln!("{name}:\n{said}");
            }
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Issuer and serial number of the certificate at this port.
pub(crate) fn shown(port: u16) -> String {
    let script = format!(
        "openssl s_client -connect 127.0.0.1:{port} -servername localhost </dev/null 2>/dev/null \
         | openssl x509 -noout -issuer -serial"
    );
    let said = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

#[test]
#[ignore = "belongs to ./dev test-portal: an authority for certificates, and half a minute"]
fn a_certificate_is_ordered_kept_and_renewed() {
    let place = Installation::new();
    let _logs = Logs(&place);
    let port = free_port();
    let Some(authority) = Authority::start(&place, port) else {
        return;
    };
    let config = format!(
        "data = \"data\"\n[acme]\nnames = [\"localhost\"]\nagree = true\nca = \"authority.pem\"\n\
         directory = \"https://localhost:{}/dir\"\n",
        authority.port
    );
    place.write("portal.toml", &config);
    // `localhost` may resolve to an IPv4 or to an IPv6 address.
    let at = format!("[::]:{port}");
    let portal = place.start_at(&at);
    assert_eq!(portal.scheme, "https");
    let mut first = String::new();
    wait("a certificate of the authority", || {
        first = shown(port);
        first.to_lowercase().contains("pebble")
    });
    let mut second = String::new();
    wait("the next certificate", || {
        second = shown(port);
        second.to_lowercase().contains("pebble") && second != first
    });
    // While the authority is unavailable, a restarted portal uses the stored certificate.
    drop(authority);
    portal.kill();
    let _portal = place.start_at(&at);
    let again = shown(port);
    assert!(again.to_lowercase().contains("pebble"), "{again}");
    wait("the error in the log", || {
        let log = fs::read_to_string(place.path("log")).unwrap_or_default();
        log.contains("cannot renew the certificate, next attempt in 15 min")
    });
}
