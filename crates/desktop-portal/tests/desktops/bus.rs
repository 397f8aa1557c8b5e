//! A connection to a desktop's D-Bus session.

use ashpd::zbus::Connection;
use ashpd::zbus::connection::Builder;

/// Connects to the bus at this address, and runs `f` to its end.
pub(crate) fn on_bus<T>(address: &str, f: impl AsyncFnOnce(&Connection) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let bus = Builder::address(address).unwrap().build().await.unwrap();
        f(&bus).await
    })
}
