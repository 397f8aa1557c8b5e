//! Game pads for an application, without kernel devices. Each process of the application loads a second library.
//! Through a folder, the host in one process provides its pads to all processes. Some pads may exist before there is a
//! host.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use openuvr_media::input_sink::pads::seats::Seats;
use openuvr_media::pad::{DEVICES, FIRST_EVENT, FOLDER};

use super::{LaunchError, Socket};

/// The library's file name, in the hook's folder.
pub const PADS_LIBRARY: &str = "libopenuvr_pads.so";

/// Makes SDL (2.0.22 and later) scan `/dev/input` itself, because udev does not know these pads.
const WITHOUT_UDEV: &str = "SDL_JOYSTICK_DISABLE_UDEV";

/// Names a device for all versions of SDL. SDL 1.2 scans `event0` to `event31` itself.
const DEVICE: &str = "SDL_JOYSTICK_DEVICE";

/// The folder of kernel devices.
const KERNELS: &str = "/dev/input";

/// Provides game pads to an application's processes. The folder of the pads is in the socket's folder, and is removed
/// with it.
#[derive(Debug)]
pub struct GamePads {
    library: PathBuf,
    folder: PathBuf,
    seats: Seats,
}

impl GamePads {
    /// Prepares pads for an application. `hook` is the absolute path of the hook. The first `seats` pads always exist;
    /// others are hot-plugged.
    ///
    /// # Errors
    /// Returns an error if the library is not in the hook's folder, or the folder cannot be written to.
    pub fn prepare(hook: &Path, socket: &mut Socket, seats: u8) -> Result<GamePads, LaunchError> {
        let library = hook.with_file_name(PADS_LIBRARY);
        if !library.is_file() {
            return Err(LaunchError::NoPads(library));
        }
        let folder = socket.folder().join("pads");
        let seats = Seats::make(&folder, seats).map_err(LaunchError::system(format!(
            "no game pads: {} can't be used",
            folder.display()
        )))?;
        socket.set_seats(seats.sockets().clone());
        let pads = GamePads {
            library,
            folder,
            seats,
        };
        pads.sync_devices();
        Ok(pads)
    }

    /// Provides the pads to a command created by [`command`](super::command).
    pub fn attach_to(&self, command: &mut Command) {
        let set = |name: &str| {
            let mut all = command.get_envs();
            all.find_map(|(n, value)| value.filter(|_| n == OsStr::new(name)))
        };
        let mut preload = set("LD_PRELOAD").unwrap_or_default().to_owned();
        if !preload.is_empty() {
            preload.push(":");
        }
        preload.push(&self.library);
        command.env("LD_PRELOAD", preload).env(FOLDER, &self.folder);
        let mut set_default = |name: &str, value: &str| {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        };
        set_default(WITHOUT_UDEV, "1");
        if !self.seats.sockets().0.is_empty() {
            set_default(DEVICE, &format!("{KERNELS}/event{FIRST_EVENT}"));
        }
    }

    /// Releases the buttons of the pads that always exist. Call this after the process that served them has ended.
    pub fn release_all(&self) {
        self.seats.reset();
    }

    /// Updates the folder's links to the kernel's current devices. Call this regularly.
    pub fn sync_devices(&self) {
        let devices = self.folder.join(DEVICES);
        let names = |folder: &Path| -> Vec<_> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        let kernels = names(Path::new(KERNELS));
        for name in &kernels {
            let link = devices.join(name);
            match fs::symlink_metadata(&link) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    // A device that cannot be linked is not provided.
                    let _ = std::os::unix::fs::symlink(Path::new(KERNELS).join(name), &link);
                }
                _ => {}
            }
        }
        for name in names(&devices)
            .iter()
            .filter(|name| !kernels.contains(name))
        {
            let link = devices.join(name);
            // The pads' own entries are regular files.
            if fs::symlink_metadata(&link).is_ok_and(|found| found.is_symlink()) {
                let _ = fs::remove_file(link);
            }
        }
    }
}
