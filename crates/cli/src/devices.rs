//! `openuvr devices`: access control for clients of a host.

mod pair;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use openuvr_runtime::store::config_dir;
use openuvr_runtime::trust_store::{Device, DeviceStore};

/// List, pair, allow, forbid or remove the devices of this host
///
/// Changes take effect at once, even on a running host: a forbidden or removed device loses its
/// session.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder for keys and devices [default: $XDG_CONFIG_HOME/openuvr or ~/.config/openuvr]
    #[arg(long, value_name = "FOLDER", global = true)]
    config_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Show every device with its name, fingerprint, permission, first pairing and last visit
    List,
    /// Open pairing at the running hosts that use the folder of --config-dir
    Pair(pair::Args),
    /// Allow a forbidden device again
    Allow(DeviceArg),
    /// Forbid a device: hosts refuse its key, and refuse to pair with it even if the PIN is correct
    Forbid(DeviceArg),
    /// Remove a device: it has to pair again, with a new PIN
    Forget(DeviceArg),
}

#[derive(clap::Args, Debug)]
struct DeviceArg {
    /// Device name, or at least the first four digits of its fingerprint
    #[arg(value_name = "NAME|FINGERPRINT")]
    device: String,
}

/// Executes the command and prints the result.
///
/// # Errors
/// Returns an error with a one-line message if a file cannot be read or written, or if the name matches no device or several
/// devices.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    print!("{}", outcome(args, now)?);
    Ok(())
}

fn outcome(args: Args, now: u64) -> anyhow::Result<String> {
    let dir = args.config_dir.map_or_else(config_dir, Ok)?;
    let mut store = DeviceStore::open(&dir)?;
    let (device, done) = match args.command {
        Command::List => return Ok(table(store.devices(), now)),
        Command::Pair(wanted) => return pair::open(&dir, &wanted, now),
        Command::Allow(device) => (store.set_allowed(&device.device, true)?, "allowed"),
        Command::Forbid(device) => (store.set_allowed(&device.device, false)?, "forbidden"),
        Command::Forget(device) => (store.forget(&device.device)?, "forgotten"),
    };
    Ok(format!(
        "{done}: {} ({})\n",
        device.title(),
        device.key.fingerprint()
    ))
}

fn table(devices: &[Device], now: u64) -> String {
    if devices.is_empty() {
        return "No devices are paired with this host.\n".to_owned();
    }
    let width = devices
        .iter()
        .map(|d| d.title().chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    let mut text = String::new();
    let mut row = |cells: [&str; 5]| {
        let [name, fingerprint, state, paired, seen] = cells;
        let _ = writeln!(
            text,
            "{name:width$}  {fingerprint:19}  {state:9}  {paired:14}  {seen}"
        );
    };
    row(["NAME", "FINGERPRINT", "STATE", "FIRST PAIRED", "LAST SEEN"]);
    for device in devices {
        row([
            &device.title(),
            &device.key.fingerprint(),
            if device.allowed {
                "allowed"
            } else {
                "forbidden"
            },
            &ago(device.first_paired, now),
            &ago(device.last_seen, now),
        ]);
    }
    text
}

/// The age of `then` at `now`, both in seconds since 1970.
fn ago(then: u64, now: u64) -> String {
    let Some(seconds) = now.checked_sub(then) else {
        return "in the future".to_owned();
    };
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use openuvr_proto::control::handshake::DeviceStatus;
    use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn call(dir: &Path, words: &[&str]) -> anyhow::Result<String> {
        let dir = dir.to_str().unwrap();
        let folder = ["--config-dir", dir];
        let line = ["devices"].iter().chain(words).chain(&folder);
        outcome(Line::try_parse_from(line)?.args, 1_000_000)
    }

    #[test]
    fn devices_are_listed_and_changed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("keys");
        let empty = call(&dir, &["list"]).unwrap();
        assert_eq!(empty, "No devices are paired with this host.\n");
        let mut store = DeviceStore::open(&dir).unwrap();
        let (attic, cellar) = (PublicKey([1; 32]), PublicKey([2; 32]));
        store
            .pair(attic, &DeviceName::new("the attic"), 1_000_000 - 90_000)
            .unwrap();
        store
            .pair(cellar, &DeviceName::new("cellar"), 1_000_000 - 200)
            .unwrap();
        let (a, c) = (attic.fingerprint(), cellar.fingerprint());
        assert_eq!(
            call(&dir, &["forbid", "the attic"]).unwrap(),
            format!("forbidden: the attic ({a})\n")
        );
        assert_eq!(
            call(&dir, &["list"]).unwrap(),
            format!(
                "NAME       FINGERPRINT          STATE      FIRST PAIRED    LAST SEEN\n\
                 the attic  {a}  forbidden  1 day ago       1 day ago\n\
                 cellar     {c}  allowed    3 minutes ago   3 minutes ago\n"
            )
        );
        call(&dir, &["allow", &a[..9]]).unwrap();
        call(&dir, &["forget", &c]).unwrap();
        store.refresh().unwrap();
        let standing = store.standing(&ClientId::of(&attic));
        assert_eq!(standing, DeviceStatus::Allowed(attic));
        assert_eq!(store.devices().len(), 1);
        #[cfg(feature = "moonlight")]
        for (words, why) in [
            (&["pair", "--moonlight", "12"][..], "the four digits"),
            (
                &["pair", "--moonlight", "1234", "--pin", "123456"][..],
                "--pin",
            ),
            (&["pair", "--name", "attic"][..], "--moonlight"),
        ] {
            let told = call(&dir, words).unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
        }
        let why = call(&dir, &["forget", "unknown"]).unwrap_err().to_string();
        assert!(
            why.contains("no device has the name or fingerprint 'unknown'"),
            "{why}"
        );
    }
}
