//! A time limit for responses. The client's own read timeout (300 s) is too long for a response, because it also
//! applies to watches.

use std::time::Duration;

use tokio::time::timeout;

/// Timeout of a request other than a watch; a guess.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for the response to a request, at most for [`TIMEOUT`].
pub(super) async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(TIMEOUT, request).await {
        Ok(response) => response,
        Err(_) => {
            let why = format!("no response within {} s", TIMEOUT.as_secs());
            Err(kube::Error::Service(why.into()))
        }
    }
}
