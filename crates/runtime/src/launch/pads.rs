//! Game pads for an application that the kernel shows none: a second library in its processes, and the folder
//! through which the host in one of them shows its pads to all of them. Some may be there before any host is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use openuvr_media::input_sink::pads::seats::Seats;
use openuvr_media::pad::{DEVICES, FIRST_EVENT, FOLDER};

use super::{LaunchError, Socket};

/// The library's file, beside the hook.
pub const PADS_LIBRARY: &str = "libopenuvr_pads.so";

/// What SDL (2.0.22 and later) is told, since there is no udev for these pads: to look into `/dev/input` itself.
const WITHOUT_UDEV: &str = "SDL_JOYSTICK_DISABLE_UDEV";

/// The device that SDL is told of, all of its versions; SDL 1.2 looks at `event0` to `event31` by itself.
const DEVICE: &str = "SDL_JOYSTICK_DEVICE";

/// Where the kernel has its devices.
const KERNELS: &str = "/dev/input";

/// What shows game pads to an application's processes. The folder is the socket's, and goes with it.
#[derive(Debug)]
pub struct GamePads {
    library: PathBuf,
    folder: PathBuf,
    seats: Seats,
}

impl GamePads {
    /// Prepares them for an application with the hook `hook`, an absolute path. It sees the first `seats` of them
    /// from its beginning, whether somebody holds them or not, and the others as they come and go.
    ///
    /// # Errors
    /// The library is not beside the hook, or the folder can't be written to.
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

    /// Has the processes of a command that [`command`](super::command) made see the pads.
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

    /// Who served the pads is gone: nothing is held on those that stay.
    pub fn release_all(&self) {
        self.seats.rest();
    }

    /// Has the processes see which devices the kernel has now: to be called now and then.
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
                    // What can't be linked is not seen.
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
            // Ours are files.
            if fs::symlink_metadata(&link).is_ok_and(|found| found.is_symlink()) {
                let _ = fs::remove_file(link);
            }
        }
    }
}
