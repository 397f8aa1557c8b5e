//! A client of which a test controls each step.
#![allow(dead_code, reason = "each test uses part of it")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS12;
use rustls::{
    ALL_VERSIONS, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    StreamOwned, SupportedProtocolVersion,
};

/// Timeout of an answer. No answer takes this long, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of pings. Clients ping less often.
const PING_INTERVAL: Duration = Duration::from_millis(100);

/// The key of the client's sessions.
const KEY: [u8; 16] = [5; 16];

/// The salt of the client's pairings.
const SALT: [u8; 16] = [3; 16];

/// A client.
pub(crate) struct Peer {
    certificate: String,
    key: String,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The text of an element.
pub(crate) fn element(document: &str, name: &str) -> String {
    let (_, rest) = document
        .split_once(&format!("<{name}>"))
        .unwrap_or_else(|| {
            panic!("no {name} in {document}");
        });
    rest.split_once("</").unwrap().0.to_owned()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends these bytes and returns everything that the host sends until it closes the connection.
pub(crate) fn exchange(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(to);
    // A host that refuses may close first.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Requests a document over HTTP.
pub(crate) fn get(to: SocketAddr, target: &str) -> String {
    let request = format!("GET /{target} HTTP/1.1\r\nHost: host\r\n\r\n");
    String::from_utf8(exchange(to, request.as_bytes())).unwrap()
}

impl Peer {
    pub(crate) fn new() -> Peer {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let parameters = CertificateParams::new(Vec::new()).unwrap();
        Peer {
            certificate: parameters.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The target of the first step of pairing.
    pub(crate) fn first_step(&self) -> String {
        let certificate = hex(self.certificate.as_bytes());
        format!(
            "pair?phrase=getservercert&salt={}&clientcert={certificate}",
            hex(&SALT)
        )
    }

    /// Takes the steps after the first, with this PIN. Returns the answer to the last step.
    pub(crate) fn further_steps(&self, to: SocketAddr, pin: &str) -> String {
        let salted = digest(&SHA256, &[&SALT[..], pin.as_bytes()].concat());
        let key = || UnboundCipherKey::new(&AES_128, &salted.as_ref()[..16]).unwrap();
        let mut challenge = vec![1; 16];
        let encrypting = EncryptingKey::ecb(key()).unwrap();
        encrypting
            .less_safe_encrypt(&mut challenge, EncryptionContext::None)
            .unwrap();
        let answer = get(to, &format!("pair?clientchallenge={}", hex(&challenge)));
        let mut response = unhex(&element(&answer, "challengeresponse"));
        let decrypting = DecryptingKey::ecb(key()).unwrap();
        let response = decrypting
            .decrypt(&mut response, DecryptionContext::None)
            .unwrap();
        let own = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        // The certificate ends with its signature (RFC 5280 section 4.1), which has 2048 bits.
        let signature = &own[own.len() - 256..];
        let secret = [7; 16];
        let parts = [&response[32..], signature, &secret].concat();
        let mut commitment = digest(&SHA256, &parts).as_ref().to_vec();
        encrypting
            .less_safe_encrypt(&mut commitment, EncryptionContext::None)
            .unwrap();
        let target = format!("pair?serverchallengeresp={}", hex(&commitment));
        let answer = get(to, &target);
        assert_eq!(unhex(&element(&answer, "pairingsecret")).len(), 16 + 256);
        get(
            to,
            &format!("pair?clientpairingsecret={}", self.signed(&secret)),
        )
    }

    /// Pairs with this PIN while `enter` enters a PIN at the host. Returns whether the pairing has succeeded.
    pub(crate) fn pairs(&self, to: SocketAddr, pin: &str, enter: impl FnOnce()) -> bool {
        let first = std::thread::scope(|scope| {
            let first = scope.spawn(|| get(to, &self.first_step()));
            enter();
            first.join().unwrap()
        });
        assert_eq!(element(&first, "paired"), "1", "{first}");
        element(&self.further_steps(to, pin), "paired") == "1"
    }

    /// A secret with its signature.
    pub(crate) fn signed(&self, secret: &[u8]) -> String {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let key = RsaKeyPair::from_pkcs8(key.secret_der()).unwrap();
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            secret,
            &mut signature,
        )
        .unwrap();
        hex(&[secret, &signature].concat())
    }

    /// Requests a document over HTTPS with this client's certificate.
    pub(crate) fn get_protected(&self, to: SocketAddr, target: &str) -> String {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        protected(to, target, Some((certificate, key)))
    }

    /// Opens an HTTPS connection from the address `from` and completes its handshake.
    pub(crate) fn handshake_from(&self, from: IpAddr, to: SocketAddr) -> Connection {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let family = AddressFamily::INET;
        let socket = socket(family, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // With TLS 1.2, the last message of the handshake is the host's, so the host has completed it, too.
        let mut stream = tls(stream, Some((certificate, key)), &[&TLS12]);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        Connection(stream)
    }

    /// The target of `launch`. The additional parameter `more` overrides an earlier one with the same name.
    pub(crate) fn launch(application: &str, more: &str) -> String {
        let key = hex(&KEY);
        format!("launch?appid={application}&mode=640x384x60&rikey={key}&rikeyid=1&corever=1&{more}")
    }
}

/// A client's streams after PLAY.
pub(crate) struct Streams {
    /// The token of the client's pings.
    words: String,
    /// The host's port for video.
    pub(crate) video: SocketAddr,
    /// The number for the client's control connection.
    pub(crate) connect_data: u32,
    socket: UdpSocket,
}

/// Performs the RTSP handshake of a session with this mode (width, height, rate). Returns the host's answer to ANNOUNCE
/// as an error if the host refuses it. Requests are numbered from `first` on.
pub(crate) fn play(
    rtsp: SocketAddr,
    first: u32,
    (width, height, rate): (u32, u32, u32),
) -> Result<Streams, String> {
    let ask = |number: u32, request: String| {
        let number = first + number;
        let request = request.replace("\r\n\r\n", &format!("\r\nCSeq: {number}\r\n\r\n"));
        opened(&exchange(rtsp, &sealed(number, &request)))
    };
    let after = |text: &str, name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        rest.split("\r\n").next().unwrap().to_owned()
    };
    let video = ask(0, "SETUP streamid=video/0/0 RTSP/1.0\r\n\r\n".to_owned());
    let control = ask(1, "SETUP streamid=control/13/0 RTSP/1.0\r\n\r\n".to_owned());
    let body = [
        "a=x-ml-general.featureFlags:3".to_owned(),
        "a=x-ss-general.encryptionEnabled:1".to_owned(),
        format!("a=x-nv-video[0].clientViewportWd:{width}"),
        format!("a=x-nv-video[0].clientViewportHt:{height}"),
        format!("a=x-nv-video[0].maxFPS:{rate}"),
        "a=x-nv-video[0].packetSize:1360".to_owned(),
        "a=x-ml-video.configuredBitrateKbps:8000".to_owned(),
    ]
    .join("\r\n");
    let length = body.len();
    let announce = format!("ANNOUNCE x RTSP/1.0\r\nContent-length: {length}\r\n\r\n");
    let announced = ask(2, announce + &body);
    if !announced.starts_with("RTSP/1.0 200") {
        return Err(announced);
    }
    let played = ask(3, "PLAY / RTSP/1.0\r\n\r\n".to_owned());
    assert!(played.starts_with("RTSP/1.0 200"), "{played}");
    let port = after(&video, "server_port=").parse().unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PING_INTERVAL)).unwrap();
    Ok(Streams {
        words: after(&video, "X-SS-Ping-Payload: "),
        video: SocketAddr::new(rtsp.ip(), port),
        connect_data: after(&control, "X-SS-Connect-Data: ").parse().unwrap(),
        socket,
    })
}

impl Streams {
    /// Pings and waits for the next video packet. `None` if no packet arrives within the interval of pings.
    pub(crate) fn packet(&self) -> Option<Vec<u8>> {
        let ping = [self.words.as_bytes(), &[0; 4]].concat();
        self.socket.send_to(&ping, self.video).unwrap();
        let mut bytes = vec![0; 2048];
        let length = self.socket.recv(&mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }
}

/// Requests a document over HTTPS.
pub(crate) fn protected(
    to: SocketAddr,
    target: &str,
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> String {
    tls_get(&mut tls(connect(to), client, ALL_VERSIONS), target)
}

/// A connection with a complete handshake.
pub(crate) struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// Requests a document.
    pub(crate) fn get(&mut self, target: &str) -> String {
        tls_get(&mut self.0, target)
    }
}

fn tls(
    stream: TcpStream,
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    versions: &[&'static SupportedProtocolVersion],
) -> StreamOwned<ClientConnection, TcpStream> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyHost));
    let config = match client {
        Some((certificate, key)) => config
            .with_client_auth_cert(vec![certificate], key)
            .unwrap(),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("host").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, stream)
}

fn tls_get(stream: &mut StreamOwned<ClientConnection, TcpStream>, target: &str) -> String {
    let request = format!("GET /{target} HTTP/1.1\r\nHost: host\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Seals an RTSP request as a client does.
pub(crate) fn sealed(number: u32, request: &str) -> Vec<u8> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).unwrap());
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[10..].copy_from_slice(b"CR");
    let mut body = request.as_bytes().to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::empty(), &mut body)
        .unwrap();
    let length = u32::try_from(body.len()).unwrap() | 1 << 31;
    [
        &length.to_be_bytes()[..],
        &number.to_be_bytes(),
        tag.as_ref(),
        &body,
    ]
    .concat()
}

/// Seals a message of the control stream as a client does.
pub(crate) fn sealed_control(number: u32, contents: &[u8]) -> Vec<u8> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).unwrap());
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[10..].copy_from_slice(b"CC");
    let mut body = contents.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::empty(), &mut body)
        .unwrap();
    // The number and the tag have 20 bytes.
    let length = u16::try_from(20 + body.len()).unwrap();
    [
        &1_u16.to_le_bytes()[..],
        &length.to_le_bytes(),
        &number.to_le_bytes(),
        tag.as_ref(),
        &body,
    ]
    .concat()
}

/// The text of a sealed RTSP response.
pub(crate) fn opened(response: &[u8]) -> String {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).unwrap());
    let mut nonce = [0; 12];
    for (at, byte) in response[4..8].iter().rev().enumerate() {
        nonce[at] = *byte;
    }
    nonce[10..].copy_from_slice(b"HR");
    let mut body = response[24..].to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = key
        .open_in_place_separate_tag(nonce, Aad::empty(), &response[8..24], &mut body)
        .unwrap();
    String::from_utf8(opened.to_vec()).unwrap()
}

/// Accepts any certificate of a host.
#[derive(Debug)]
struct AnyHost;

impl ServerCertVerifier for AnyHost {
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
        default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
