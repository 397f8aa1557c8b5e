//! What the portal signs: tickets for people, and tokens with which it asks sessions itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use http_body_util::{BodyExt as _, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::AUTHORIZATION;
use hyper_util::rt::TokioIo;
use openuvr_proto::control::identity::NoRandomness;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{
    Action, Actions, ControlToken, Holder, MAX_OPEN_TICKET_LIFE, MAX_TICKET_LIFE, SessionUuid,
    Ticket, TicketSigner, UnixTime,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime as TlsTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::figures::Figures;
use crate::launch::{Endpoint, SessionId};
use crate::store::{Store, StoreError};

/// The name of the key in the database.
const KEY: &str = "tickets";

/// How long a token of the portal's own is good for: one request.
const TOKEN_LIFE: Duration = Duration::from_secs(60);

/// How long a session may take to answer; a guess.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer that is read, in bytes: that of some hundred subscribers, of which a host has 64.
const MAX_ANSWER: usize = 32 * 1024;

/// Why there is no signature, or no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random(#[from] NoRandomness),
    /// The database failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The key in the database is none.
    #[error("the key of tickets in the database is damaged: restore the database")]
    Key,
    /// The session can't be reached.
    #[error("it does not answer: {0}")]
    Connection(String),
    /// It says no.
    #[error("it answers {0}")]
    Refused(hyper::StatusCode),
}

/// The portal's key.
pub(crate) struct Tickets {
    signer: TicketSigner,
}

impl Tickets {
    /// The key that the database keeps, or a new one.
    pub(crate) async fn open(store: &Store) -> Result<Tickets, ControlError> {
        let new = hex(TicketSigner::generate()?.seed().as_slice());
        let kept = store.key(KEY, &new).await?;
        let seed = unhex(&kept).ok_or(ControlError::Key)?;
        let signer = TicketSigner::from_seed(&seed).ok_or(ControlError::Key)?;
        Ok(Tickets { signer })
    }

    /// The half that sessions are told.
    pub(crate) fn public(&self) -> String {
        self.signer.public().to_string()
    }

    /// A ticket for this holder, as text, and until when it must be shown.
    pub(crate) fn ticket(
        &self,
        session: SessionId,
        role: Role,
        holder: Holder,
    ) -> Result<(String, u64), ControlError> {
        // Half of what a host takes, so that clocks may differ.
        let life = match holder {
            Holder::FirstToCome => MAX_OPEN_TICKET_LIFE,
            Holder::Key(_) => MAX_TICKET_LIFE,
        };
        let not_after = now().plus(life / 2);
        let ticket = Ticket {
            session: SessionUuid(session.bytes()),
            role,
            holder,
            not_after,
            id: Ticket::new_id()?,
        };
        Ok((ticket.sign(&self.signer).to_string(), not_after.0))
    }

    /// Keeps a session alive; what it says of its subscribers, if it says that.
    pub(crate) async fn renew(
        &self,
        session: SessionId,
        at: &Endpoint,
    ) -> Result<Option<Figures>, ControlError> {
        let token = ControlToken {
            session: SessionUuid(session.bytes()),
            actions: Actions::of(&[Action::Status, Action::Renew]),
            not_after: now().plus(TOKEN_LIFE),
            id: Ticket::new_id()?,
        };
        let token = token.sign(&self.signer);
        let asked = ask(at, "POST", "/session/renew", &token);
        let answer = timeout(PATIENCE, asked).await;
        let late = |_| ControlError::Connection(format!("not within {} s", PATIENCE.as_secs()));
        match answer.map_err(late)?? {
            (status, body) if status.is_success() => Ok(Figures::read(Instant::now(), &body)),
            (status, _) => Err(ControlError::Refused(status)),
        }
    }
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.unwrap_or_default().as_secs())
}

/// Asks a session's gateway, which must have the certificate that the session has said. An answer that is too long,
/// or breaks off, is empty: what was asked for is done.
async fn ask(
    at: &Endpoint,
    method: &str,
    path: &str,
    token: &str,
) -> Result<(hyper::StatusCode, Bytes), ControlError> {
    let failed = |why: &dyn std::fmt::Display| ControlError::Connection(why.to_string());
    let authority = at.web.trim_start_matches("https://");
    let address: SocketAddr =
        (authority.parse()).map_err(|_| failed(&"its address has no number"))?;
    let stream = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
    let name = ServerName::from(address.ip());
    let stream = connector(&at.fingerprint)
        .map_err(|e| failed(&e))?
        .connect(name, stream)
        .await
        .map_err(|e| failed(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    // It ends with the sender.
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", authority)
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .body(String::new())
        .map_err(|e| failed(&e))?;
    let answer = sender.send_request(request).await.map_err(|e| failed(&e))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    Ok((status, body.unwrap_or_default()))
}

fn connector(fingerprint: &str) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(default_provider());
    let verifier = Pinned {
        fingerprint: fingerprint.to_owned(),
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Takes the one certificate whose hash the session has said to its launcher. Nobody else vouches for it.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: TlsTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let hash = digest::digest(&digest::SHA256, certificate);
        let pairs: Vec<String> = hash
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        match pairs.join(":").eq_ignore_ascii_case(&self.fingerprint) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::General(
                "it has another certificate than the session has said".to_owned(),
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
