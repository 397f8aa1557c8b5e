//! Starting an application of OpenXR on our runtime, and making that the person's own.
//!
//! The loader of OpenXR reads a manifest: the one that `XR_RUNTIME_JSON` names, or `openxr/1/active_runtime.json`
//! in the folder of the person's settings, or one of the system's.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::line::{LaunchSettings, SOCKET};
use crate::store::config_dir;

use super::{LaunchError, Socket};

pub use crate::line::EYE;

/// What the runtime is told that no program of ours starts: an [`LaunchSettings`] in the folder of our settings.
pub use crate::line::XR_SETTINGS;

/// What the loader is told; its file, in the folder of settings of all programs.
const ACTIVE: &str = "openxr/1/active_runtime.json";

/// The command that starts `words`, a program and its arguments, on the OpenXR runtime `library`, with the way to
/// `socket`. `eye` is how large an eye's picture is to be: `WIDTHxHEIGHT`.
///
/// # Errors
/// There are no words, or the runtime can't be announced in the socket's folder.
pub fn xr_command(
    words: &[OsString],
    library: &Path,
    socket: &Socket,
    eye: &str,
) -> Result<Command, LaunchError> {
    let [program, arguments @ ..] = words else {
        return Err(LaunchError::NoApplication);
    };
    let file = socket.folder().join("openxr.json");
    let written = fs::write(&file, manifest(library)?);
    written.map_err(LaunchError::system("the OpenXR runtime can't be announced"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("XR_RUNTIME_JSON", file)
        .env(EYE, eye)
        .env(SOCKET, socket.path());
    Ok(command)
}

/// What the loader reads.
fn manifest(library: &Path) -> Result<Vec<u8>, LaunchError> {
    let path = library.to_str();
    let path = path.ok_or_else(|| LaunchError::Unquotable(library.to_owned()))?;
    let manifest = serde_json::json!({
        "file_format_version": "1.0.0",
        "runtime": { "name": "OpenUVR", "library_path": path },
    });
    let text = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from);
    text.map_err(LaunchError::system("the manifest can't be written down"))
}

/// Where the person's active runtime is said.
fn active() -> Result<PathBuf, LaunchError> {
    let ours = config_dir().map_err(|e| LaunchError::Settings(e.to_string()))?;
    let all = ours.parent().unwrap_or(&ours).to_owned();
    Ok(all.join(ACTIVE))
}

/// Whether that names a runtime of ours.
fn is_ours(file: &Path) -> bool {
    let text = fs::read(file).unwrap_or_default();
    let manifest = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
    manifest["runtime"]["name"] == "OpenUVR"
}

/// Makes `library` the person's active OpenXR runtime, whose host does what `settings` says. The file that says so.
///
/// # Errors
/// Another runtime is active, which stays so; or the files can't be written.
pub fn install(library: &Path, settings: &LaunchSettings) -> Result<PathBuf, LaunchError> {
    let file = active()?;
    if file.symlink_metadata().is_ok() && !is_ours(&file) {
        return Err(LaunchError::OtherRuntime(file));
    }
    let failed = |file: &Path| LaunchError::system(format!("can't write {}", file.display()));
    let ours = config_dir().map_err(|e| LaunchError::Settings(e.to_string()))?;
    let text = settings.text().map_err(LaunchError::Settings)?;
    let folders = [Some(&*ours), file.parent()];
    for folder in folders.into_iter().flatten() {
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    let settings_file = ours.join(XR_SETTINGS);
    // It may hold a PIN.
    let own = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&settings_file);
    own.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed(&settings_file))?;
    fs::write(&file, manifest(library)?).map_err(failed(&file))?;
    Ok(file)
}

/// Ends that; `false` if it was not so.
///
/// # Errors
/// The files can't be removed.
pub fn uninstall() -> Result<bool, LaunchError> {
    let file = active()?;
    let ours = config_dir().map_err(|e| LaunchError::Settings(e.to_string()))?;
    let remove = |file: &Path| match fs::remove_file(file) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(LaunchError::system(format!(
            "can't remove {}",
            file.display()
        ))(e)),
        result => Ok(result.is_ok()),
    };
    let settings_file = remove(&ours.join(XR_SETTINGS))?;
    Ok((is_ours(&file) && remove(&file)?) || settings_file)
}
