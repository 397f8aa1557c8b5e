//! Where the libraries are that are loaded into applications.

use std::path::{Path, PathBuf};

use super::LaunchError;

/// The hook's file.
pub const LIBRARY: &str = "libopenuvr_hook.so";

/// The file of the OpenXR runtime.
pub const XR_RUNTIME: &str = "libopenuvr_xr.so";

/// The hook: the one that was named, or that which was installed with this program, beside it or in
/// `../lib/openuvr`. An absolute path.
///
/// # Errors
/// It is not there, or can't be named to the loader.
pub fn library(named: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let found = find(LIBRARY, named)?;
    let found = found.ok_or_else(|| LaunchError::NoLibrary(place(named)))?;
    match found.to_string_lossy().contains([' ', ':']) {
        true => Err(LaunchError::Unquotable(found)),
        false => Ok(found),
    }
}

/// The OpenXR runtime, likewise; its path may hold anything that is UTF-8.
///
/// # Errors
/// It is not there.
pub fn xr_runtime(named: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let found = find(XR_RUNTIME, named)?;
    found.ok_or_else(|| LaunchError::NoRuntime(place(named)))
}

fn find(file: &str, named: Option<&Path>) -> Result<Option<PathBuf>, LaunchError> {
    let own = |what: &str| LaunchError::system(what.to_owned());
    Ok(match named {
        Some(named) => {
            let path = std::path::absolute(named).map_err(own("there is no such path"))?;
            Some(path).filter(|path| path.is_file())
        }
        None => {
            let program = std::env::current_exe().map_err(own("this program has no file"))?;
            beside(&program, file)
        }
    })
}

/// Where was looked, in words.
fn place(named: Option<&Path>) -> String {
    named.map_or("beside this program or in ../lib/openuvr".into(), |path| {
        path.display().to_string()
    })
}

fn beside(program: &Path, file: &str) -> Option<PathBuf> {
    let folder = program.parent()?;
    // Under cargo's folder of what it built last first: beside the program may lie an older one.
    let places = [
        folder.join("deps"),
        folder.to_owned(),
        folder.join("../lib/openuvr"),
    ];
    let mut files = places.iter().map(|place| place.join(file));
    files.find(|file| file.is_file())
}
