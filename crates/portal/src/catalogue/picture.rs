//! The picture of an application. The operator provides the file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum length in bytes; a guess: a phone on a slow link must load a page of pictures.
const MAX_PICTURE: u64 = 1024 * 1024;

/// A picture with its media type.
pub(crate) struct Picture {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Picture {
    /// Reads the picture and detects its type from its content. SVG is not supported, because it can contain scripts.
    pub(crate) fn open(path: &Path) -> io::Result<Picture> {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(MAX_PICTURE + 1)
            .read_to_end(&mut bytes)?;
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        if bytes.len() as u64 > MAX_PICTURE {
            return Err(wrong("longer than 1 MiB"));
        }
        let kind = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => "image/webp",
            _ => return Err(wrong("not PNG, JPEG or WebP")),
        };
        Ok(Picture { kind, bytes })
    }
}
