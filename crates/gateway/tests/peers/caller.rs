//! A browser's requests without a browser: HTTPS, the log-in with a key, and the WebSocket.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use openuvr_gateway::login::PURPOSE;
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::support::{PIN, Rig, TIMEOUT, connect_from};

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// One browser: its key and cookie.
pub(crate) struct Caller {
    pub(crate) gateway: SocketAddr,
    /// Its media address.
    pub(crate) here: IpAddr,
    /// Source address of the browser's connections; `None` for the default address of the loopback network.
    pub(crate) from: Option<[u8; 4]>,
    config: Arc<ClientConfig>,
    key: EcdsaKeyPair,
    pub(crate) cookie: String,
}

impl Caller {
    /// A new browser.
    pub(crate) fn new(rig: &Rig) -> Caller {
        Caller::elsewhere(rig, rig.address(), rig.address().ip())
    }

    /// A browser that reaches the page at `gateway`, from `here`.
    pub(crate) fn elsewhere(rig: &Rig, gateway: SocketAddr, here: IpAddr) -> Caller {
        let mut roots = RootCertStore::empty();
        let pem = std::fs::read(rig.folder.path().join("host/web-authority.pem")).unwrap();
        roots
            .add(CertificateDer::from_pem_slice(&pem).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Caller {
            gateway,
            here,
            from: None,
            config: Arc::new(config),
            key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            cookie: String::new(),
        }
    }

    /// A logged-in browser.
    pub(crate) fn known(rig: &Rig) -> Caller {
        let mut caller = Caller::new(rig);
        let answer = caller.log_in(PIN);
        assert_eq!(answer.status, 200, "{answer:?}");
        caller
    }

    /// The page's own origin.
    pub(crate) fn origin(&self) -> String {
        format!("https://{}", self.gateway)
    }

    pub(crate) fn secure(&self) -> Secure {
        let stream = match self.from {
            Some(from) => connect_from(from, self.gateway),
            None => TcpStream::connect(self.gateway).unwrap(),
        };
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let name = "openuvr.local".try_into().unwrap();
        let connection = ClientConnection::new(self.config.clone(), name).unwrap();
        StreamOwned::new(connection, stream)
    }

    /// Sends a request. `headers` are whole lines.
    pub(crate) fn request(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = self.secure();
        let mut text = format!("{request} HTTP/1.1\r\nhost: {}\r\n", self.gateway);
        for line in headers {
            text += &format!("{line}\r\n");
        }
        let length = body.len();
        text += &format!("content-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A peer may close the connection without a TLS close_notify after a complete response.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn own(&self) -> String {
        format!("origin: {}", self.origin())
    }

    pub(crate) fn challenge(&self) -> String {
        let answer = self.request("POST /login/challenge", &[&self.own()], "");
        let challenge = answer.json()["challenge"].as_str().map(str::to_owned);
        challenge.unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// The body of a log-in signed for this origin.
    pub(crate) fn body(&self, challenge: &str, origin: &str, pin: &str) -> String {
        let signed = format!("{PURPOSE}\n{origin}\n{challenge}");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        json!({
            "key": hex(self.key.public_key().as_ref()),
            "signature": hex(signature.unwrap().as_ref()),
            "challenge": challenge,
            "name": "a caller",
            "pin": pin,
        })
        .to_string()
    }

    pub(crate) fn log_in(&mut self, pin: &str) -> Answer {
        let body = self.body(&self.challenge(), &self.origin(), pin);
        let answer = self.request("POST /login", &[&self.own()], &body);
        let cookie = answer.head.lines().find_map(|line| {
            let value = line.strip_prefix("set-cookie: ")?;
            value.split(';').next().map(str::to_owned)
        });
        self.cookie = cookie.unwrap_or_default();
        answer
    }

    /// The WebSocket, or the HTTP status of the refusal.
    pub(crate) fn websocket(&self, query: &str, origin: &str) -> Result<WebSocket<Secure>, u16> {
        let url = format!("wss://{}/signalling?{query}", self.gateway);
        let mut request = url.into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("origin", origin.parse().unwrap());
        headers.insert("cookie", self.cookie.parse().unwrap());
        match tungstenite::client(request, self.secure()) {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// The next signalling message; `None` if the WebSocket is closed.
pub(crate) fn next(socket: &mut WebSocket<Secure>) -> Option<Value> {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

pub(crate) fn send_message(socket: &mut WebSocket<Secure>, message: &Value) {
    let _ = socket.send(Message::text(message.to_string()));
}

/// The device list, as read by `openuvr devices`.
pub(crate) fn devices(folder: &Path) -> openuvr_runtime::trust_store::DeviceStore {
    openuvr_runtime::trust_store::DeviceStore::open(&folder.join("host")).unwrap()
}
