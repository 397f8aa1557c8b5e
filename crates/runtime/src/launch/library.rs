//! Locates the libraries that are loaded into applications.

use std::path::{Path, PathBuf};

use super::LaunchError;

/// The hook's file name.
pub const LIBRARY: &str = "libopenuvr_hook.so";

/// The OpenXR runtime's file name.
pub const XR_RUNTIME: &str = "libopenuvr_xr.so";

/// The hook's absolute path: `named`, or the hook in this program's folder or in `../lib/openuvr`.
///
/// # Errors
/// Returns an error if it does not exist, or its path cannot be passed to the loader.
pub fn library(named: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let found = find(LIBRARY, named)?;
    let found = found.ok_or_else(|| LaunchError::NoLibrary(searched(named)))?;
    match found.to_string_lossy().contains([' ', ':']) {
        true => Err(LaunchError::Unquotable(found)),
        false => Ok(found),
    }
}

/// The OpenXR runtime's path, found in the same way as the hook by [`library`]. Any UTF-8 path is valid.
///
/// # Errors
/// Returns an error if it does not exist.
pub fn xr_runtime(named: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let found = find(XR_RUNTIME, named)?;
    found.ok_or_else(|| LaunchError::NoRuntime(searched(named)))
}

fn find(file: &str, named: Option<&Path>) -> Result<Option<PathBuf>, LaunchError> {
    let own = |what: &str| LaunchError::system(what.to_owned());
    Ok(match named {
        Some(named) => {
            let path = std::path::absolute(named).map_err(own("invalid path"))?;
            Some(path).filter(|path| path.is_file())
        }
        None => {
            let program = std::env::current_exe().map_err(own("can't locate this program"))?;
            beside(&program, file)
        }
    })
}

/// The searched location, as text.
fn searched(named: Option<&Path>) -> String {
    named.map_or("next to this program or in ../lib/openuvr".into(), |path| {
        path.display().to_string()
    })
}

fn beside(program: &Path, file: &str) -> Option<PathBuf> {
    let folder = program.parent()?;
    // Cargo's `deps` folder comes first, because the library next to the program may be outdated.
    let folders = [
        folder.join("deps"),
        folder.to_owned(),
        folder.join("../lib/openuvr"),
    ];
    let mut files = folders.iter().map(|folder| folder.join(file));
    files.find(|file| file.is_file())
}
