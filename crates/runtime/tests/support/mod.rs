//! Shared code of host and client tests.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test fails there")]

#[path = "../../../media/tests/stalls/mod.rs"]
pub(crate) mod stalls;

use std::path::Path;
use std::time::{Duration, Instant};

use openuvr_media::input_source::InputSource;
use openuvr_media::present::Presenter;
use openuvr_proto::control::negotiate::ClientConstraints;
use openuvr_proto::control::pairing::Pin;
use openuvr_runtime::client::{self, ClientRuntime, ClientSetup, Target};

/// Timeout, which is longer than any step takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest stall after which a thread may miss frames: almost two frame intervals at 60 frames/s.
pub(crate) const STALLED: Duration = Duration::from_millis(30);

/// A capacity of more pictures and notices than a test produces.
pub(crate) const MANY: usize = 65_536;

/// Polls until `look` returns a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a client of the host at this port. Its presenter is made by `surface`.
pub(crate) fn client(
    (port, pin): (u16, &Pin),
    folder: &Path,
    constraints: ClientConstraints,
    input: Option<Box<dyn InputSource>>,
    surface: impl FnMut() -> Box<dyn Presenter> + Send + 'static,
) -> ClientRuntime {
    let target: Target = format!("127.0.0.1:{port}").parse().unwrap();
    let config = client::config::Config {
        pin: Some(pin.to_string()),
        config_dir: Some(folder.join(format!("client-{port}"))),
        realtime: false,
        sound: "off".to_owned(),
        constraints,
        ..client::config::Config::new(target)
    };
    start(&config, input, surface)
}

/// Starts a client with this configuration. Its presenter is made by `surface`.
pub(crate) fn start(
    config: &client::config::Config,
    input: Option<Box<dyn InputSource>>,
    mut surface: impl FnMut() -> Box<dyn Presenter> + Send + 'static,
) -> ClientRuntime {
    let opened = config.open().unwrap();
    let client = ClientRuntime::start(ClientSetup {
        input,
        ..opened.setup(
            Box::new(move |_, _, _| Ok((surface(), None))),
            config.scheduler(),
        )
    });
    client.unwrap()
}
