//! The mapping of the sample file.

use std::fs::File;
use std::io;

/// Maps a whole file, for as long as the program runs.
pub(crate) fn map(file: &File) -> io::Result<&'static mut [u8]> {
    let mut options = memmap2::MmapOptions::new();
    options.populate();
    // SAFETY: the file was just made by us, at its full size. The runner reads it meanwhile; a probe
    // never reads back what it wrote, so that nobody can make it act on changed bytes.
    let mapped = unsafe { options.map_mut(file)? };
    let mapped = Box::leak(Box::new(mapped));
    Ok(&mut mapped[..])
}
