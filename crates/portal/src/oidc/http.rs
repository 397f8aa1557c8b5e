//! HTTP client for requests to providers: HTTP/1.1 with TLS, one connection per request, and bounded responses. The
//! client does not follow redirects, so that a provider cannot direct the portal to another server.

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

/// Timeout for a response; a guess. A user waits for the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a response in bytes; a guess. Metadata and keys of large providers have about 20 kB.
const MAX_RESPONSE: usize = 512 * 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The URI is not allowed. Only `https`, and `http` to this machine, are allowed.
    #[error("{0} refused: only https://, or http:// on this machine, is allowed")]
    Scheme(String),
    /// The connection could not be established, or has failed.
    #[error("{0}")]
    Connection(String),
    /// Timeout.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    Late,
    /// The response is longer than [`MAX_RESPONSE`], or incomplete.
    #[error("the response is incomplete, or longer than {MAX_RESPONSE} bytes")]
    Answer,
}

/// Why the client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// The certificate file is not usable.
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The client.
pub(super) struct Http {
    tls: TlsConnector,
}

impl Http {
    /// Creates a client that trusts the system's authorities, and the authorities in the PEM file `ca`.
    pub(super) fn new(ca: Option<&Path>) -> Result<Http, TrustError> {
        let mut roots = RootCertStore::empty();
        // Unreadable certificates are skipped, as in browsers.
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
                return Err(wrong("no certificate in PEM form".to_owned()));
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

/// Whether the URI requires TLS; `None` if the URI is not allowed.
pub(super) fn is_secure(uri: &Uri) -> Option<bool> {
    match uri.scheme_str() {
        Some("https") => Some(true),
        Some("http") if matches!(host(uri), "localhost" | "127.0.0.1" | "::1") => Some(false),
        _ => None,
    }
}

/// The host. The brackets of an IPv6 address are removed.
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
    // This task ends when `sender` is dropped.
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
    fn plain_http_is_limited_to_this_machine() {
        let of = |uri: &str| is_secure(&uri.parse().unwrap());
        assert_eq!(of("https://id.example.org/x"), Some(true));
        assert_eq!(of("http://127.0.0.1:3000/"), Some(false));
        assert_eq!(of("http://[::1]:3000/"), Some(false));
        assert_eq!(of("http://localhost.example.org/"), None);
        assert_eq!(of("http://id.example.org/"), None);
    }
}
