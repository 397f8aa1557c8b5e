//! A surface without a display: writes pictures as PNG files.
//!
//! If an interval n is specified, every n-th picture is written to `frame-<id>.png`. The newest picture is written to
//! `last.png` when the surface is dropped. This surface is for inspection and tests. It is slow, because writing a file
//! takes milliseconds.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use rustix::fs::Access;

use super::convert::to_bgrx;
use super::{PresentError, Presenter, Surface};
use crate::cursor::Cursor;
use crate::picture::Picture;
use crate::window::WindowConfig;

/// Writes pictures into a directory.
#[derive(Debug)]
pub struct Headless {
    directory: PathBuf,
    every: Option<u32>,
    count: u32,
    newest: Option<(FrameId, Size)>,
    bgrx: Vec<u8>,
    cursor: Option<Cursor>,
}

/// Parses `directory[,n]` and opens the surface.
pub(super) fn open(argument: &str, _: &WindowConfig) -> Result<Surface, PresentError> {
    let (directory, every) = match argument.rsplit_once(',') {
        None => (argument, None),
        Some((directory, every)) => {
            let every = every
                .parse()
                .ok()
                .filter(|every| *every > 0)
                .ok_or_else(|| {
                    PresentError(format!("headless: {every:?} is not a whole number above 0"))
                })?;
            (directory, Some(every))
        }
    };
    Ok((Box::new(Headless::new(Path::new(directory), every)?), None))
}

impl Headless {
    /// Writes pictures into `directory`, which is created if missing: every `every`-th picture, counted from the first
    /// (`None`: none of them), and at the end the newest picture.
    ///
    /// # Errors
    /// [`PresentError`] if the directory can't be created or is not writable.
    pub fn new(directory: &Path, every: Option<u32>) -> Result<Headless, PresentError> {
        if directory.as_os_str().is_empty() {
            let what = "headless requires a directory: headless:DIRECTORY, or headless:DIRECTORY,N for every Nth picture";
            return Err(PresentError(what.to_owned()));
        }
        std::fs::create_dir_all(directory).map_err(|cause| failed(directory, &cause))?;
        rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|cause| failed(directory, &cause))?;
        Ok(Headless {
            directory: directory.to_owned(),
            every,
            count: 0,
            newest: None,
            bgrx: Vec::new(),
            cursor: None,
        })
    }

    fn write(&self, name: &str, size: Size) -> Result<(), PresentError> {
        let path = self.directory.join(name);
        let mut pixels = self.bgrx.clone();
        if let Some(cursor) = &self.cursor {
            draw(cursor, &mut pixels, size);
        }
        let rgb: Vec<u8> = pixels
            .chunks_exact(4)
            .flat_map(|p| [p[2], p[1], p[0]])
            .collect();
        let file = File::create(&path).map_err(|cause| failed(&path, &cause))?;
        let mut encoder = png::Encoder::new(BufWriter::new(file), size.width, size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::Fast);
        encoder
            .write_header()
            .and_then(|mut writer| {
                writer.write_image_data(&rgb)?;
                // Without this call, an error of the last write would be ignored.
                writer.finish()
            })
            .map_err(|cause| failed(&path, &cause))
    }
}

impl Presenter for Headless {
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        self.bgrx.resize(picture.size.pixels() * 4, 0);
        to_bgrx(picture, &mut self.bgrx)?;
        self.newest = Some((frame, picture.size));
        let due = self
            .every
            .is_some_and(|every| self.count.is_multiple_of(every));
        self.count = self.count.wrapping_add(1);
        match due {
            true => self.write(&format!("frame-{:06}.png", frame.0), picture.size),
            false => Ok(()),
        }
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        self.cursor = Some(cursor.clone());
        Ok(())
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        if let Some((_, size)) = self.newest
            && let Err(cause) = self.write("last.png", size)
        {
            tracing::warn!(%cause, "can't write the last picture");
        }
    }
}

/// Blends the pointer (premultiplied alpha) over packed BGRX pixels.
fn draw(cursor: &Cursor, bgrx: &mut [u8], size: Size) {
    let Some((x, y)) = cursor.at else { return };
    let along = |place: u16, pixels: u32, hot: u16| {
        i64::from(place) * i64::from(pixels) / 65_536 - i64::from(hot)
    };
    let left = along(x, size.width, cursor.shape.hot_x);
    let top = along(y, size.height, cursor.shape.hot_y);
    let rows = cursor
        .shape
        .argb
        .chunks_exact(usize::from(cursor.shape.width).max(1));
    for (y, row) in (top..i64::from(size.height)).zip(rows) {
        for (x, argb) in (left..i64::from(size.width)).zip(row) {
            let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
                continue;
            };
            let at = (y * size.width as usize + x) * 4;
            let [blue, green, red, alpha] = argb.to_le_bytes();
            for (under, over) in bgrx[at..at + 3].iter_mut().zip([blue, green, red]) {
                let kept = u16::from(*under) * u16::from(255 - alpha) / 255;
                *under = over.saturating_add(u8::try_from(kept).unwrap_or(u8::MAX));
            }
        }
    }
}

fn failed(path: &Path, cause: &dyn std::fmt::Display) -> PresentError {
    PresentError(format!(
        "headless: {} can't be written: {cause}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cursor::CursorShape;

    fn read(path: &Path) -> Vec<u8> {
        let file = std::io::BufReader::new(File::open(path).expect("written"));
        let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
        reader.next_frame(&mut pixels).expect("whole");
        pixels
    }

    #[test]
    fn every_second_and_the_last_picture_with_pointer() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("pictures");
        let size = Size::new(4, 2);
        let mut surface = Headless::new(&directory, Some(2)).expect("opens");
        for id in 1..=4u8 {
            let bgrx = [id, 20, 30, 0].repeat(size.pixels());
            let picture = Picture::bgrx(size, &bgrx, 16);
            surface
                .present(FrameId(u32::from(id)), &picture)
                .expect("writes");
        }
        let argb = vec![0xffff_0000, 0x8000_0080];
        let shape = CursorShape {
            width: 2,
            height: 1,
            hot_x: 0,
            hot_y: 0,
            argb,
        };
        let cursor = Cursor {
            at: Some((20_000, 0)),
            shape: Arc::new(shape),
        };
        surface.cursor(&cursor).expect("taken");
        drop(surface);

        let mut names: Vec<String> = (std::fs::read_dir(&directory).expect("there"))
            .map(|entry| {
                entry
                    .expect("readable")
                    .file_name()
                    .into_string()
                    .expect("ASCII")
            })
            .collect();
        names.sort();
        assert_eq!(names, ["frame-000001.png", "frame-000003.png", "last.png"]);
        assert_eq!(
            read(&directory.join("frame-000003.png")),
            [30, 20, 3].repeat(8)
        );
        let last = read(&directory.join("last.png"));
        assert_eq!(last[..12], [30, 20, 4, 255, 0, 0, 14, 9, 129, 30, 20, 4]);
    }

    #[test]
    fn a_full_disk_is_reported_even_for_a_small_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let size = Size::new(4, 2);
        let mut surface = Headless::new(folder.path(), Some(1)).expect("opens");
        let file = folder.path().join("frame-000001.png");
        std::os::unix::fs::symlink("/dev/full", file).expect("a link");
        let bgrx = [10, 20, 30, 0].repeat(size.pixels());
        let picture = Picture::bgrx(size, &bgrx, 16);
        let error = surface.present(FrameId(1), &picture).expect_err("refused");
        assert!(error.to_string().contains("No space left"), "{error}");
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let window = WindowConfig::default();
        let error = open("somewhere,0", &window)
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains("above 0"), "{error}");
        assert!(open("", &window).is_err());
    }
}
