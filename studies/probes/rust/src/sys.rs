//! Maps the sample file into memory.

use std::fs::File;
use std::io;

/// Maps the whole file for the lifetime of the program.
pub(crate) fn map(file: &File) -> io::Result<&'static mut [u8]> {
    let mut options = memmap2::MmapOptions::new();
    options.populate();
    // SAFETY: the file has just been created with its full size. The runner only reads it. The probe never reads its
    // own records back, so changes by another process cannot affect the probe.
    let mapped = unsafe { options.map_mut(file)? };
    let mapped = Box::leak(Box::new(mapped));
    Ok(&mut mapped[..])
}
