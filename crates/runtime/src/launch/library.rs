//! Where the hook is.

use std::path::{Path, PathBuf};

use super::LaunchError;

/// The hook's file.
pub const LIBRARY: &str = "libopenuvr_hook.so";

/// The hook: the one that was named, or that which was installed with this program, beside it or in
/// `../lib/openuvr`. An absolute path.
///
/// # Errors
/// It is not there, or can't be named to the loader.
pub fn library(named: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let own = |what: &str| LaunchError::system(what.to_owned());
    let found = match named {
        Some(named) => {
            let path = std::path::absolute(named).map_err(own("there is no such path"))?;
            Some(path).filter(|path| path.is_file())
        }
        None => beside(&std::env::current_exe().map_err(own("this program has no file"))?),
    };
    let found = found.ok_or_else(|| {
        LaunchError::NoLibrary(
            named.map_or("beside this program or in ../lib/openuvr".into(), |path| {
                path.display().to_string()
            }),
        )
    })?;
    match found.to_string_lossy().contains([' ', ':']) {
        true => Err(LaunchError::Unquotable(found)),
        false => Ok(found),
    }
}

fn beside(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    // Under cargo's folder of what it built last first: beside the program may lie an older one.
    let places = [
        folder.join("deps"),
        folder.to_owned(),
        folder.join("../lib/openuvr"),
    ];
    let mut files = places.iter().map(|place| place.join(LIBRARY));
    files.find(|file| file.is_file())
}
