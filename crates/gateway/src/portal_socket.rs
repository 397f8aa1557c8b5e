//! The Unix socket through which a portal on this machine comes: who connects there, with a limit in time and number.
//!
//! What it is not: it answers nothing itself (`portal_door`).

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::portal_door;
use crate::server::{HEAD, HEAD_WITHIN, SERVED_WITHIN};
use crate::shared::{Ends, Shared};

/// Connections of the portal at a time: one for each browser, and those of its own.
const CONNECTIONS: usize = 64;

/// After an error of the system's it is not asked again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the socket: only its owner may connect.
///
/// # Errors
/// The system's. A socket that is there already is one.
pub(crate) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Takes connections through the socket for ever.
pub(crate) async fn take(shared: Arc<Shared>, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::debug!("no connection was taken: {e}");
                sleep(PAUSE).await;
                continue;
            }
        };
        shared.counters.taken.add(1);
        let shared = shared.clone();
        tokio::spawn(async move {
            serve(shared, stream).await;
            drop(place);
        });
    }
}

async fn serve(shared: Arc<Shared>, stream: UnixStream) {
    // Both are told anew by the portal, for each browser.
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let ends = Ends {
        theirs: nowhere,
        ours: nowhere,
    };
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(portal_door::answer(&shared, ends, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Ok(Err(e)) = timeout(SERVED_WITHIN, served).await {
        tracing::debug!("a connection of the portal ended: {e}");
    }
}
