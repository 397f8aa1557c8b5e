//! Floods by browsers and video players (log-ins with wrong signatures, and idle connections), and the victims of these
//! floods: a browser that the host knows, and a player that has the token.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use openuvr_proto::control::handshake::foreign_key;
use openuvr_proto::control::identity::PublicKey;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

use super::Attack;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of an answer, in bytes.
const LONGEST: usize = 1 << 16;

/// Prefix of a browser's signed message (`crates/gateway/src/login.rs`).
const PURPOSE: &str = "openuvr browser log-in 1";

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// The page of one's own host. Its certificate is not verified.
#[derive(Clone)]
pub struct Page {
    at: SocketAddr,
    config: Arc<ClientConfig>,
}

impl Page {
    /// The page at this address.
    ///
    /// # Errors
    /// Returns the TLS library's error if it supports no protocol version.
    pub fn new(at: SocketAddr) -> io::Result<Page> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate));
        let config = Arc::new(builder.with_no_client_auth());
        Ok(Page { at, config })
    }

    fn connect(&self, from: IpAddr) -> io::Result<Secure> {
        let stream = connected(from, self.at)?;
        let name = ServerName::IpAddress(self.at.ip().into());
        let connection = ClientConnection::new(self.config.clone(), name);
        let connection = connection.map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }

    /// Sends a POST request as the page does. Returns the status and the body of the answer.
    fn post(&self, by: &mut Secure, path: &str, body: &str) -> io::Result<(u16, String)> {
        let (host, length) = (self.at, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\norigin: https://{host}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        by.write_all(request.as_bytes())?;
        answer(by)
    }

    fn challenge(&self, by: &mut Secure) -> io::Result<String> {
        let (_, body) = self.post(by, "/login/challenge", "")?;
        let (_, rest) = body
            .split_once("\"challenge\":\"")
            .ok_or(io::ErrorKind::InvalidData)?;
        let (challenge, _) = rest.split_once('"').ok_or(io::ErrorKind::InvalidData)?;
        Ok(challenge.to_owned())
    }
}

/// Connects to `to` from the local address `from`.
fn connected(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket(family, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads an HTTP or RTSP answer. Returns its status and its body.
fn answer(by: &mut impl io::Read) -> io::Result<(u16, String)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = by.read(&mut piece)?;
        if length == 0 || bytes.len() > LONGEST {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        let mut named = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = named
            .next()
            .and_then(|(_, value)| value.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            let status = head
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse().ok());
            return Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()));
        }
    }
}

/// A browser with its own key.
pub struct Browser {
    page: Page,
    key: EcdsaKeyPair,
}

impl Browser {
    /// Creates a browser with a new key.
    ///
    /// # Errors
    /// Returns an error if the system has no randomness.
    pub fn new(page: Page) -> io::Result<Browser> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = key.map_err(io::Error::other)?;
        Ok(Browser { page, key })
    }

    /// The public key under which a host stores this browser.
    #[must_use]
    pub fn device(&self) -> PublicKey {
        foreign_key("browser P-256", self.key.public_key().as_ref())
    }

    /// Logs in from this address, without a PIN. Returns whether the host accepted the log-in.
    ///
    /// # Errors
    /// Returns an error if the page is unreachable or does not answer.
    pub fn log_in(&self, from: IpAddr) -> io::Result<bool> {
        let mut stream = self.page.connect(from)?;
        let challenge = self.page.challenge(&mut stream)?;
        let signed = format!("{PURPOSE}\nhttps://{}\n{challenge}", self.page.at);
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(io::Error::other)?;
        let body = body(
            self.key.public_key().as_ref(),
            signature.as_ref(),
            &challenge,
        );
        let (status, _) = self.page.post(&mut stream, "/login", &body)?;
        Ok(status == 200)
    }
}

fn body(key: &[u8], signature: &[u8], challenge: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!(
        r#"{{"key":"{}","signature":"{}","challenge":"{challenge}","name":"a stranger"}}"#,
        hex(key),
        hex(signature)
    )
}

/// Sends log-ins with an invalid signature, alternating with requests for challenges.
pub struct JunkLogins {
    browser: Browser,
    from: IpAddr,
    open: Option<(Secure, String)>,
}

impl JunkLogins {
    /// Creates the attack, which logs in from this address.
    ///
    /// # Errors
    /// Returns an error if the system has no randomness.
    pub fn new(page: Page, from: IpAddr) -> io::Result<JunkLogins> {
        Ok(JunkLogins {
            browser: Browser::new(page)?,
            from,
            open: None,
        })
    }

    fn post(&mut self, n: u64) -> io::Result<()> {
        let page = &self.browser.page;
        if self.open.is_none() {
            let mut stream = page.connect(self.from)?;
            let challenge = page.challenge(&mut stream)?;
            self.open = Some((stream, challenge));
        }
        let Some((stream, challenge)) = &mut self.open else {
            return Ok(());
        };
        if n.is_multiple_of(2) {
            let junk = body(
                self.browser.key.public_key().as_ref(),
                &[0x55; 64],
                challenge,
            );
            return page.post(stream, "/login", &junk).map(drop);
        }
        page.post(stream, "/login/challenge", "").map(drop)
    }
}

impl Attack for JunkLogins {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let posted = self.post(n);
        if posted.is_err() {
            // The host closed the connection, in favour of others or because it was too old.
            self.open = None;
        }
        posted
    }
}

/// Opens idle connections from several addresses, and keeps the newest of them open.
pub struct IdleConnections {
    to: SocketAddr,
    from: Vec<IpAddr>,
    most: usize,
    held: VecDeque<TcpStream>,
}

impl IdleConnections {
    /// Keeps at most `most` connections open.
    #[must_use]
    pub fn new(to: SocketAddr, from: Vec<IpAddr>, most: usize) -> IdleConnections {
        IdleConnections {
            to,
            from,
            most,
            held: VecDeque::new(),
        }
    }
}

impl Attack for IdleConnections {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let at = usize::try_from(n).unwrap_or(0) % self.from.len().max(1);
        let from = self.from.get(at).ok_or(io::ErrorKind::AddrNotAvailable)?;
        self.held.push_back(connected(*from, self.to)?);
        if self.held.len() > self.most {
            self.held.pop_front();
        }
        Ok(())
    }
}

/// Whether a video player at this address can request the description of the stream (RTSP's DESCRIBE).
///
/// # Errors
/// Returns an error if the server is unreachable or does not answer.
pub fn described(server: SocketAddr, token: &str, from: IpAddr) -> io::Result<bool> {
    let mut stream = connected(from, server)?;
    let request = format!(
        "DESCRIBE rtsp://{server}/{token} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    answer(&mut stream).map(|(status, _)| status == 200)
}

/// Accepts any certificate, because the page is one's own and the traffic is not secret.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
