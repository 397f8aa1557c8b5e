//! Starts an OpenXR application on OpenUVR's OpenXR runtime, and installs this runtime as the user's active one.
//!
//! The OpenXR loader reads one manifest: the file that `XR_RUNTIME_JSON` names, if this variable is set; otherwise
//! `openxr/1/active_runtime.json` in the user's configuration folder, if it exists; otherwise a system-wide file.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use openuvr_proto::units::Size;

use crate::launch_protocol::{LaunchSettings, SOCKET};
use crate::store::{config_dir, ensure_dir, write_whole};

use super::{LaunchError, Socket};

pub use crate::launch_protocol::EYE;

/// The file in OpenUVR's configuration folder with the [`LaunchSettings`] of applications that were not started by an
/// OpenUVR program.
pub use crate::launch_protocol::XR_SETTINGS;

/// The loader's manifest file, relative to the user's configuration folder.
const ACTIVE: &str = "openxr/1/active_runtime.json";

/// The command that starts `words`, a program and its arguments, on the OpenXR runtime `library`. Its environment names
/// the path of `socket`. `eye` is the per-eye resolution; `None` selects the runtime's default.
///
/// # Errors
/// Returns an error if `words` is empty, the path of `library` is not UTF-8, or the manifest cannot be written to the
/// socket's folder.
pub fn xr_command(
    words: &[OsString],
    library: &Path,
    socket: &Socket,
    eye: Option<Size>,
) -> Result<Command, LaunchError> {
    let [program, arguments @ ..] = words else {
        return Err(LaunchError::NoApplication);
    };
    let file = socket.folder().join("openxr.json");
    let written = fs::write(&file, manifest(library)?);
    written.map_err(LaunchError::system(
        "can't write the OpenXR runtime's manifest",
    ))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("XR_RUNTIME_JSON", file)
        .env(EYE, eye.map_or(String::new(), |eye| eye.to_string()))
        .env(SOCKET, socket.path());
    Ok(command)
}

/// The manifest for the loader.
fn manifest(library: &Path) -> Result<Vec<u8>, LaunchError> {
    let path = library.to_str();
    let path = path.ok_or_else(|| LaunchError::NotUtf8(library.to_owned()))?;
    let manifest = serde_json::json!({
        "file_format_version": "1.0.0",
        "runtime": { "name": "OpenUVR", "library_path": path },
    });
    let text = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from);
    text.map_err(LaunchError::system("can't serialise the manifest"))
}

/// The manifest of the user's active runtime. `ours` is OpenUVR's configuration folder.
fn active(ours: &Path) -> PathBuf {
    ours.parent().unwrap_or(ours).join(ACTIVE)
}

/// Whether the manifest names OpenUVR's runtime.
fn is_ours(file: &Path) -> bool {
    let text = fs::read(file).unwrap_or_default();
    let manifest = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
    manifest["runtime"]["name"] == "OpenUVR"
}

/// Makes `library` the user's active OpenXR runtime, and stores the settings for its host. Returns the manifest's path.
///
/// # Errors
/// Returns an error if another runtime is active, which is kept, or if the files cannot be written.
pub fn install(library: &Path, settings: &LaunchSettings) -> Result<PathBuf, LaunchError> {
    let ours = config_dir().map_err(|e| LaunchError::Settings(e.to_string()))?;
    install_in(&ours, library, settings)
}

/// [`install`] for the configuration folder `ours`.
fn install_in(
    ours: &Path,
    library: &Path,
    settings: &LaunchSettings,
) -> Result<PathBuf, LaunchError> {
    let file = active(ours);
    if file.symlink_metadata().is_ok() && !is_ours(&file) {
        return Err(LaunchError::OtherRuntime(file));
    }
    let manifest = manifest(library)?;
    let text = settings.to_toml().map_err(LaunchError::Settings)?;
    // Hosts refuse a key folder that other users may write to.
    ensure_dir(ours).map_err(|e| LaunchError::Settings(e.to_string()))?;
    if let Some(folder) = file.parent() {
        let failed = LaunchError::system(format!("can't write {}", folder.display()));
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // The settings may hold a PIN, so only this user may read them.
    let write = |file: &Path, content: &[u8]| {
        write_whole(file, content).map_err(|e| LaunchError::Settings(e.to_string()))
    };
    write(&ours.join(XR_SETTINGS), text.as_bytes())?;
    write(&file, &manifest)?;
    Ok(file)
}

/// Undoes [`install`]. Returns `false` if nothing was installed.
///
/// # Errors
/// Returns an error if the files cannot be removed.
pub fn uninstall() -> Result<bool, LaunchError> {
    let ours = config_dir().map_err(|e| LaunchError::Settings(e.to_string()))?;
    let file = active(&ours);
    let remove = |file: &Path| match fs::remove_file(file) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(LaunchError::system(format!(
            "can't remove {}",
            file.display()
        ))(e)),
        result => Ok(result.is_ok()),
    };
    let removed = remove(&ours.join(XR_SETTINGS))?;
    Ok((is_ours(&file) && remove(&file)?) || removed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_manifest_needs_a_path_in_utf8() {
        assert!(manifest(Path::new("/a b:c/libopenuvr_xr.so")).is_ok());
        let library = Path::new(OsStr::from_bytes(b"/a\xff/libopenuvr_xr.so"));
        assert!(matches!(manifest(library), Err(LaunchError::NotUtf8(path)) if path == library));
    }

    #[test]
    fn an_installed_runtime_is_writable_only_by_its_user() {
        let temporary = crate::store::tests::private_folder();
        let ours = temporary.path().join("openuvr");
        let library = Path::new("/lib/libopenuvr_xr.so");
        let settings = LaunchSettings::default();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let file = install_in(&ours, library, &settings).unwrap();
        assert!(is_ours(&file));
        assert_eq!(mode(&ours), 0o700);
        // A settings file that another program wrote may be readable by other users.
        let settings_file = ours.join(XR_SETTINGS);
        fs::set_permissions(&settings_file, fs::Permissions::from_mode(0o644)).unwrap();
        install_in(&ours, library, &settings).unwrap();
        assert_eq!(mode(&settings_file), 0o600);
    }
}
