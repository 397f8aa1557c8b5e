//! Cores that do not sleep: the kernel's quality of service for CPU latency, as `cyclictest` asks for it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// Where it is asked for (Documentation/power/pm_qos_interface.rst of Linux).
const DEVICE: &str = "/dev/cpu_dma_latency";

/// While it lives, no core of the machine enters an idle state that takes time to leave: idle cores poll,
/// at full power.
#[derive(Debug)]
pub(super) struct Awake {
    /// Closed, the request is gone.
    _request: File,
}

impl Awake {
    /// Asks for it.
    ///
    /// # Errors
    /// What the system says, with what to do.
    pub(super) fn ask() -> Result<Awake, String> {
        let failed = |error: std::io::Error| format!("{DEVICE}: {error}; run as root");
        let mut file = OpenOptions::new()
            .write(true)
            .open(DEVICE)
            .map_err(failed)?;
        // The latency that is tolerated, µs.
        file.write_all(&0_i32.to_ne_bytes()).map_err(failed)?;
        Ok(Awake { _request: file })
    }
}
