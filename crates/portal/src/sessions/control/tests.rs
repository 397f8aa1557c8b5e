//! Tests over real TLS. The peers pretend to be sessions and send arbitrary responses.

use std::sync::Arc;

use openuvr_pinning::CertificateHash;
use openuvr_proto::host::SubscriberKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// Starts a session that answers each request with these bytes. If `endless`, it repeats them.
async fn session(answer: String, endless: bool) -> Endpoint {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let fingerprint = CertificateHash::of(&certificate).to_string();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            assert!(request.starts_with(b"POST /session/renew HTTP/1.1\r\n"));
            // An endless response ends when the peer closes the connection.
            while stream.write_all(answer.as_bytes()).await.is_ok() && endless {}
            let _ = stream.shutdown().await;
        }
    });
    Endpoint {
        web: format!("https://{at}"),
        fingerprint,
        native: None,
        key: None,
    }
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
}

async fn renew(at: &Endpoint) -> Result<Option<Figures>, ControlError> {
    let tickets = Tickets {
        signer: TicketSigner::from_seed(&[3; 32]).unwrap(),
    };
    tickets.renew(SESSION.parse().unwrap(), at).await
}

#[tokio::test]
async fn older_sessions_report_no_statistics() {
    let player = r#"{"kind":"client","role":"player","frames_per_second":60.0,
        "latency_p50":0.007,"latency_p99":0.015,"latency_bound":0.001}"#;
    let at = session(
        ok(&format!(r#"{{"connected":1,"subscribers":[{player}]}}"#)),
        false,
    )
    .await;
    let figures = renew(&at).await.unwrap().unwrap();
    let groups = figures.groups(Instant::now()).unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].kind, SubscriberKind::Client);
    let older = session(ok(r#"{"connected":1,"lease":60}"#), false).await;
    assert_eq!(renew(&older).await.unwrap(), None);
}

#[tokio::test]
async fn a_long_response_renews_without_statistics() {
    let spaces = " ".repeat(MAX_RESPONSE);
    let long = ok(&format!(r#"{{"subscribers":[]{spaces}}}"#));
    assert_eq!(renew(&session(long, false).await).await.unwrap(), None);
    // The next body is too long and lacks the last chunk. The body after it is sent without end.
    let chunk = format!("{MAX_RESPONSE:x}\r\n{spaces}\r\n");
    let endless = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    assert_eq!(renew(&session(endless, false).await).await.unwrap(), None);
    let huge = format!("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{spaces}");
    assert_eq!(renew(&session(huge, true).await).await.unwrap(), None);
    let garbage = session(ok("\u{1b}[2J"), false).await;
    assert_eq!(renew(&garbage).await.unwrap(), None);
}

#[tokio::test]
async fn refusals_and_other_sessions_are_errors() {
    let no = "HTTP/1.1 403 No\r\ncontent-length: 18\r\n\r\n{\"subscribers\":[]}".to_owned();
    let refused = renew(&session(no, false).await).await;
    assert!(matches!(refused, Err(ControlError::Refused(status)) if status == 403));
    let mut other = session(ok(r#"{"subscribers":[]}"#), false).await;
    other.fingerprint = other.fingerprint.replace(char::is_numeric, "A");
    assert!(matches!(
        renew(&other).await,
        Err(ControlError::Connection(_))
    ));
}
