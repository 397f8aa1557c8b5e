//! Cores that do not sleep: the kernel's PM QoS request for CPU latency, as in `cyclictest`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// The request's device (Documentation/power/pm_qos_interface.rst of Linux).
const DEVICE: &str = "/dev/cpu_dma_latency";

/// While this value exists, no core of the machine enters an idle state that takes time to leave. Idle cores poll, at
/// full power.
#[derive(Debug)]
pub(super) struct Awake {
    /// The request ends when the file is closed.
    _request: File,
}

impl Awake {
    /// Makes the request.
    ///
    /// # Errors
    /// Returns the system's error message and a remedy.
    pub(super) fn request() -> Result<Awake, String> {
        let failed = |error: std::io::Error| format!("{DEVICE}: {error}; run as root");
        let mut file = OpenOptions::new()
            .write(true)
            .open(DEVICE)
            .map_err(failed)?;
        // The tolerated latency, µs.
        file.write_all(&0_i32.to_ne_bytes()).map_err(failed)?;
        Ok(Awake { _request: file })
    }
}
