//! Libraries that are opened at run time and that both encoders and decoders use, and memory that
//! both sides share with X servers. What only one side uses is there.
#![allow(unsafe_code)]

use std::ffi::OsStr;

pub(crate) mod avcodec;
pub(crate) mod memory;
pub(crate) mod turbojpeg;

/// Opens the first of `files` that there is.
///
/// # Errors
/// The dynamic linker's own words about the last one.
///
/// # Safety
/// The library runs its initialisers: it must be one that has none with preconditions. A path that
/// the person names is theirs to trust, like a program that they run.
pub(crate) unsafe fn open(
    files: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<libloading::Library, String> {
    let mut reason = "no name was tried".to_owned();
    for file in files {
        // SAFETY: the caller's duty.
        match unsafe { libloading::Library::new(file.as_ref()) } {
            Ok(library) => return Ok(library),
            Err(error) => reason = words(&error),
        }
    }
    Err(reason)
}

/// The dynamic linker's own words, which libloading keeps one level down.
pub(crate) fn words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or(error.to_string(), ToString::to_string)
}
