//! How the portal asks a provider: HTTP/1.1 with TLS, one connection for a request, a bounded answer. Redirects are
//! not followed, so that a provider can't send the portal elsewhere.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// How long a provider may take for an answer; a guess. A person waits meanwhile.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer, in bytes; a guess: descriptions and keys of large providers have some 20 kB.
const MAX_RESPONSE: usize = 512 * 1024;

/// Why a provider is not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// It is not `https://`, nor a server of this machine.
    #[error("{0} is not asked: only https:// is, and http:// of this machine")]
    Scheme(String),
    /// No connection, or it broke.
    #[error("{0}")]
    Connection(String),
    /// It takes too long.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Late,
    /// The answer is longer than [`MAX_RESPONSE`], or broke off.
    #[error("the answer broke off, or is longer than {MAX_ANSWER} bytes")]
    Answer,
}

/// Why no provider can be asked at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// The file of certificates can't be used.
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    /// TLS can't be set up.
    #[error("TLS can't be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// Asks providers.
pub(super) struct Http {
    tls: TlsConnector,
}

impl Http {
    /// Servers are trusted whose certificate the system's authorities have signed, or one in the file `ca` (PEM).
    pub(super) fn new(ca: Option<&Path>) -> Result<Http, TrustError> {
        let mut roots = RootCertStore::empty();
        // Those that can't be read are left out, as browsers do it.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca {
            let wrong = |why: String| TrustError::File {
                path: path.to_owned(),
                why,
            };
            let text = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
            let mut count = 0;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|why| wrong(why.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|why| wrong(why.to_string()))?;
                count += 1;
            }
            if count == 0 {
                return Err(wrong("it holds no certificate in PEM form".to_owned()));
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Http {
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    async fn request(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = timeout(TIMEOUT, self.exchange(request)).await;
        answer.map_err(|_| HttpError::Late)?
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let secure = is_secure(&uri).ok_or_else(|| HttpError::Scheme(uri.to_string()))?;
        let host = host(&uri);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let connected = TcpStream::connect((host, port)).await;
        let failed = |why: io::Error| HttpError::Connection(format!("{host}:{port}: {why}"));
        let stream = connected.map_err(failed)?;
        match secure {
            false => send(stream, request, &uri).await,
            true => {
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|why| HttpError::Connection(why.to_string()))?;
                let stream = self.tls.connect(name, stream).await.map_err(failed)?;
                send(stream, request, &uri).await
            }
        }
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.request(request))
    }
}

/// Whether it is asked with TLS; none: not at all.
pub(super) fn is_secure(uri: &Uri) -> Option<bool> {
    match uri.scheme_str() {
        Some("https") => Some(true),
        Some("http") if matches!(host(uri), "localhost" | "127.0.0.1" | "::1") => Some(false),
        _ => None,
    }
}

/// The host, an address of IPv6 without its brackets.
fn host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    let inner = host.strip_prefix('[').and_then(|of| of.strip_suffix(']'));
    inner.unwrap_or(host)
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: HttpRequest,
    uri: &Uri,
) -> Result<HttpResponse, HttpError> {
    let failed = |why: &dyn std::fmt::Display| HttpError::Connection(why.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    // It ends with the sender.
    tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    let authority = uri.authority().map_or("", |of| of.as_str());
    let authority = HeaderValue::from_str(authority).map_err(|e| failed(&e))?;
    head.headers.insert(HOST, authority);
    let path = uri.path_and_query().map_or("/", |of| of.as_str());
    head.uri = path.parse().map_err(|e| failed(&e))?;
    let request = Request::from_parts(head, Full::new(Bytes::from(body)));
    let answer = sender.send_request(request).await.map_err(|e| failed(&e))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await;
    let body = body.map_err(|_| HttpError::Answer)?.to_bytes();
    Ok(HttpResponse::from_parts(head, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_asked_of_this_machine_alone() {
        let of = |uri: &str| is_secure(&uri.parse().unwrap());
        assert_eq!(of("https://id.example.org/x"), Some(true));
        assert_eq!(of("http://127.0.0.1:3000/"), Some(false));
        assert_eq!(of("http://[::1]:3000/"), Some(false));
        assert_eq!(of("http://localhost.example.org/"), None);
        assert_eq!(of("http://id.example.org/"), None);
    }
}
