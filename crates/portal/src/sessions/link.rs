//! Requests to a session, through a Unix socket on this machine, or over TLS with a pinned certificate. The session
//! prints the certificate's hash for its launcher. Responses are untrusted: each step has a timeout, and a response's
//! head has a maximum length.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use openuvr_pinning::{CertificateHash, PinnedCertificate, client_config};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::launch::{Endpoint, EndpointKind, SessionId};

/// Timeout for connecting and for the response; a guess.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a response's head in bytes. A session's response head has about 200 bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Name of a session's socket in its folder (`crates/session/src/agent/folder.rs`).
const SOCKET: &str = "portal";

/// Why a session is unreachable.
#[derive(Debug, thiserror::Error)]
#[error("the session does not respond: {0}")]
pub(crate) struct Unreachable(String);

impl Unreachable {
    /// Creates the error with this reason.
    pub(super) fn because(why: impl std::fmt::Display) -> Unreachable {
        Unreachable(why.to_string())
    }
}

/// A connection to a session.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Sends a request to a session and returns its response after the head has arrived. The connection ends after the
/// response's body, unless it is upgraded.
///
/// # Errors
/// Returns an error if the session is unreachable, has a different certificate, or does not respond in time.
pub(super) async fn request(
    session: SessionId,
    at: &Endpoint,
    request: Request<String>,
) -> Result<Response<Incoming>, Unreachable> {
    let exchange = async {
        let stream = connect(session, at).await?;
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(Unreachable::because)?;
        tokio::spawn(connection.with_upgrades());
        sender
            .send_request(request)
            .await
            .map_err(Unreachable::because)
    };
    match timeout(TIMEOUT, exchange).await {
        Ok(answered) => answered,
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            Err(Unreachable::because(format!("timeout after {seconds} s")))
        }
    }
}

async fn connect(session: SessionId, at: &Endpoint) -> Result<Box<dyn Stream>, Unreachable> {
    match at.kind() {
        Some(EndpointKind::Socket(path)) => {
            is_of(path, session)?;
            let stream = UnixStream::connect(path)
                .await
                .map_err(Unreachable::because)?;
            Ok(Box::new(stream))
        }
        Some(EndpointKind::Https(authority)) => {
            let address: SocketAddr =
                (authority.parse()).map_err(|_| Unreachable::because("invalid address"))?;
            let stream = TcpStream::connect(address)
                .await
                .map_err(Unreachable::because)?;
            let name = ServerName::from(address.ip());
            let connector = connector(&at.fingerprint)?;
            let stream = connector
                .connect(name, stream)
                .await
                .map_err(Unreachable::because)?;
            Ok(Box::new(stream))
        }
        None => Err(Unreachable::because("no address")),
    }
}

/// Checks that the socket is in the session's folder, so that a session cannot make the portal connect to another
/// program.
fn is_of(socket: &Path, session: SessionId) -> Result<(), Unreachable> {
    let of_another =
        || Unreachable::because(format!("{} is not the session's socket", socket.display()));
    let folder = socket.parent().ok_or_else(of_another)?;
    let named = format!("ouvr-{}", session.to_string().replace('-', ""));
    if socket.file_name() != Some(SOCKET.as_ref()) || folder.file_name() != Some(named.as_ref()) {
        return Err(of_another());
    }
    let about = fs::symlink_metadata(folder).map_err(Unreachable::because)?;
    let private = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    match private && about.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(Unreachable::because(format!(
            "{} is not a folder that only the portal's account can write to",
            folder.display()
        ))),
    }
}

/// Creates a TLS connector. It accepts only the certificate whose hash the session has printed, and trusts no
/// authority.
fn connector(fingerprint: &str) -> Result<TlsConnector, Unreachable> {
    let provider = Arc::new(default_provider());
    let hash: CertificateHash = fingerprint.parse().map_err(Unreachable::because)?;
    let verifier = PinnedCertificate::new(hash, Arc::clone(&provider));
    let config = client_config(provider, Arc::new(verifier)).map_err(Unreachable::because)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_a_sessions_own_socket_is_used() {
        let session = SessionId::random();
        let name = format!("ouvr-{}", session.to_string().replace('-', ""));
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join(name);
        fs::create_dir(&folder).unwrap();
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o700);
        is_of(&folder.join("portal"), session).unwrap();
        is_of(&folder.join("portal"), SessionId::random()).unwrap_err();
        is_of(&folder.join("other"), session).unwrap_err();
        is_of(Path::new("/run/docker.sock"), session).unwrap_err();
        mode(0o722);
        is_of(&folder.join("portal"), session).unwrap_err();
        fs::remove_dir(&folder).unwrap();
        is_of(&folder.join("portal"), session).unwrap_err();
    }
}
