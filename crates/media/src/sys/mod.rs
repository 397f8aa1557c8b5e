//! Libraries that both encoders and decoders load at run time, and memory that both host and client share with X
//! servers. The code for a library that only one module uses is in the folder of that module.
#![allow(unsafe_code)]

use std::ffi::OsStr;

pub(crate) mod avcodec;
pub mod memory;
pub(crate) mod turbojpeg;

/// Loads the first of `files` that exists.
///
/// # Errors
/// Returns the dynamic linker's message for the last file.
///
/// # Safety
/// The library runs its initialisers, which must have no preconditions. A path set by the user is trusted, like any
/// program that the user runs.
pub unsafe fn open(
    files: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<libloading::Library, String> {
    let mut reason = "no file name given".to_owned();
    for file in files {
        // SAFETY: the caller upholds this function's contract.
        match unsafe { libloading::Library::new(file.as_ref()) } {
            Ok(library) => return Ok(library),
            Err(error) => reason = words(&error),
        }
    }
    Err(reason)
}

/// The dynamic linker's message, which libloading provides as the source of its error.
pub fn words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or(error.to_string(), ToString::to_string)
}
