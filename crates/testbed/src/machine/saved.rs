//! The state of a machine in a file: further machines start with this state instead of booting. An emulated processor
//! boots in ten seconds, and takes over a state in one second.
//!
//! The state contains memory, including the file system, and devices; it does not contain the shared folder. A machine
//! with a saved state continues with the clocks and with the random numbers of this state, so all machines that start
//! with the same state draw the same random numbers. Start several machines with the same state only if they do not
//! communicate with each other.
//!
//! Spec: QEMU, `docs/devel/migration.rst`.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{Hardware, MOUNT, Machine, START};

/// Maximum rate at which a state is saved, in bytes per second. QEMU's default is for networks.
const RATE: u64 = 1 << 40;

/// A saved state. Its file has no name, so the file vanishes with this value, or with this process.
#[derive(Debug)]
pub struct Saved(File);

impl Saved {
    /// A path under which other processes can open the file.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

impl Machine {
    /// Saves the machine's state in `folder`, and ends the machine. A state has about half of the size of the machine's
    /// memory.
    ///
    /// # Errors
    /// Returns an error if the shared folder is in use, or if QEMU fails, for example because the disk is full.
    pub fn save(mut self, folder: &Path) -> Result<Saved> {
        // QEMU refuses to save a machine that has mounted the folder.
        self.succeed("busybox umount /host")?;
        let file = tempfile::tempfile_in(folder)
            .with_context(|| format!("can't create a file in {}", folder.display()))?;
        let saved = Saved(file);
        let rate = json!({ "max-bandwidth": RATE });
        self.qmp.execute("migrate-set-parameters", &rate)?;
        let to = json!({ "uri": format!("exec:cat >{}", saved.path()) });
        self.qmp.execute("migrate", &to)?;
        self.qmp
            .wait_for_status("query-migrate", "completed", START)
            .context("can't save the state of the machine")?;
        Ok(saved)
    }

    /// Starts a machine with a saved state. The hardware must be the same, except for the shared folder.
    ///
    /// # Errors
    /// Returns an error if QEMU is missing, or if it does not accept the state.
    pub fn resume(hardware: &Hardware<'_>, saved: &Saved) -> Result<Machine> {
        let from = format!("exec:cat {}", saved.path());
        let mut machine = Machine::launch(hardware, &["-incoming".to_owned(), from])?;
        machine
            .qmp
            .wait_for_status("query-status", "running", START)
            .context("can't start a machine with a saved state")?;
        machine.succeed(MOUNT)?;
        Ok(machine)
    }
}
