//! The Unix socket for a portal on this machine, with limits on time and number of connections.
//!
//! Requests are answered in `portal_requests`.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use openuvr_runtime::accept_backoff::AcceptBackoff;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::portal_requests;
use crate::server::protocol;
use crate::shared::{Endpoints, Shared};

/// Maximum concurrent connections of the portal. Each browser takes one until its WebSocket is upgraded. Each request
/// of the portal itself takes one.
const CONNECTIONS: usize = 64;

/// Timeout of a connection with all its requests.
const SERVED_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens the socket. Only its owner may connect. Replaces the socket of an earlier host.
///
/// # Errors
/// Returns the system's error, for example if another file has this path, or another host listens at it.
pub(crate) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let refused = |why: io::Error| why.kind() == io::ErrorKind::ConnectionRefused;
    if std::fs::symlink_metadata(path).is_ok_and(|of| of.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
    {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts connections through the socket. Does not return.
pub(crate) async fn take(shared: Arc<Shared>, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut accepting = AcceptBackoff::new("the portal");
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tokio::time::sleep(accepting.failed(&e)).await;
                continue;
            }
        };
        accepting.succeeded();
        let shared = shared.clone();
        tokio::spawn(async move {
            serve(shared, stream).await;
            drop(place);
        });
    }
}

async fn serve(shared: Arc<Shared>, stream: UnixStream) {
    // The portal states the browser's address in each request, and `portal_requests` finds the local address.
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let endpoints = Endpoints::of(nowhere, nowhere);
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(portal_requests::answer(&shared, endpoints, request).await) }
    });
    let served = protocol()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Ok(Err(e)) = timeout(SERVED_TIMEOUT, served).await {
        tracing::debug!("connection of the portal failed: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_of_an_ended_host_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("portal");
        let first = bind(&path).unwrap();
        let taken = bind(&path).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        // The file stays after the end of the host.
        drop(first);
        assert!(path.exists());
        bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "of another program").unwrap();
        assert!(bind(&path).is_err() && path.is_file());
    }
}
