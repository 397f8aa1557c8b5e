//! An access point, or a client of one, through NetworkManager, which owns the card.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::journal::Journal;
use crate::nmcli::{self, Profile};
use crate::programs::Program;

/// The maximum duration of a query through `nmcli`.
const ANSWER: Duration = Duration::from_secs(10);

/// The maximum duration of a start of a connection; `nmcli` itself waits for a minute.
const CONNECTION: Duration = Duration::from_secs(70);

/// The interval at which the existence of the connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// The number of successive checks that may fail before the access point counts as ended: on a busy machine, `nmcli`
/// can miss its time limit while the connection works.
const FAILED_CHECKS: u32 = 4;

/// The interval at which `stop` is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `nmcli` if NetworkManager owns the interface, otherwise `None`. NetworkManager owns no interface if it is not
/// installed or not running.
pub(crate) fn owner(interface: &str) -> Option<Program> {
    let nmcli = Program::find("nmcli")?;
    let devices = nmcli.run(&nmcli::DEVICES, ANSWER).ok()?;
    nmcli::owns(&devices, interface).then_some(nmcli)
}

/// Starts a connection. Its profile exists only in memory. Reversing the changes in the journal removes the profile and
/// restores the card's previous connection.
///
/// # Errors
/// Returns an error if NetworkManager refuses.
pub(crate) fn start(nmcli: &Program, profile: &Profile, journal: &mut Journal) -> Result<()> {
    let interface = journal.interface().to_owned();
    let words = ["-g", "GENERAL.CON-UUID", "device", "show", &interface];
    let before = nmcli.run(&words, ANSWER)?.trim().to_owned();
    journal.record(|changes| {
        changes.profile = Some(profile.name.clone());
        changes.connection = Some(before).filter(|uuid| !uuid.is_empty());
    })?;
    nmcli.run(&profile.add_arguments(), ANSWER)?;
    let secrets = journal.write("secrets", &profile.secrets())?;
    let started = nmcli.run(
        &profile.up_arguments(&secrets.to_string_lossy()),
        CONNECTION,
    );
    // `nmcli` has read the file.
    let removed = std::fs::remove_file(&secrets);
    started.with_context(|| format!("NetworkManager refuses {interface}"))?;
    removed.context("can't remove the file with the key")
}

/// Waits until `stop` is set.
///
/// # Errors
/// Returns an error if the connection ends, or if its state can't be queried several times in succession.
pub(crate) fn follow(nmcli: &Program, profile: &Profile, stop: &AtomicBool) -> Result<()> {
    let (mut check_at, mut failed) = (Instant::now() + CHECK_INTERVAL, 0);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
        if Instant::now() < check_at {
            continue;
        }
        let words = [
            "-g",
            "GENERAL.STATE",
            "connection",
            "show",
            "id",
            &profile.name,
        ];
        match nmcli.run(&words, ANSWER) {
            Ok(state) if state.trim() == "activated" => failed = 0,
            Ok(_) => bail!("the access point has ended: NetworkManager has stopped its connection"),
            Err(_) if failed < FAILED_CHECKS => failed += 1,
            Err(why) => return Err(why.context("the access point has ended")),
        }
        check_at = Instant::now() + CHECK_INTERVAL;
    }
    Ok(())
}
