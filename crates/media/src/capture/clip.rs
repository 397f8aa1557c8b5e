//! A clip: pictures from a file, each with a bar code, played forwards and backwards in a loop at a fixed rate. It
//! serves measurements that need the same pictures each time.
//!
//! The file is YUV4MPEG2 ("y4m") with 8-bit 4:2:0 frames, read as BT.709 in limited range: the
//! output of ffmpeg, and the format of standard test sequences. The captured picture is BGRX, as an
//! X display stores it, and can be recomputed from the file.
//!
//! A clip has no sound and no interlacing. It can't replace an application in latency measurements, because its
//! pictures have never been on a screen.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use yuv::{
    BufferStoreMut, YuvConversionMode, YuvPlanarImage, YuvPlanarImageMut, YuvRange,
    YuvStandardMatrix, bgra_to_yuv420, yuv420_to_bgra,
};

use super::{Capture, CaptureError, CaptureEvent, Waker};
use crate::barcode::{self, Stamp};
use crate::codec::MAX_PIXELS;
use crate::picture::Picture;

/// The pictures of a file.
#[derive(Debug)]
pub struct Clip {
    file: File,
    size: Size,
    /// Bytes before the first frame.
    head: u64,
    count: u32,
    /// One frame as stored in the file.
    planes: Vec<u8>,
}

impl Clip {
    /// Opens a file and checks its frames.
    ///
    /// # Errors
    /// [`CaptureError`] with the defect and its position.
    pub fn open(path: &Path) -> Result<Clip, CaptureError> {
        let wrong = |what: &dyn std::fmt::Display| {
            CaptureError(format!(
                "the clip {} can't be played: {what}",
                path.display()
            ))
        };
        let file = File::open(path).map_err(|error| wrong(&error))?;
        let len = file.metadata().map_err(|error| wrong(&error))?.len();
        let mut head = vec![0; MAX_HEAD.min(usize::try_from(len).unwrap_or(MAX_HEAD))];
        file.read_exact_at(&mut head, 0).map_err(|e| wrong(&e))?;
        let (size, head) = parse_head(&head).map_err(|what| wrong(&what))?;
        let (head, each) = (head as u64, frame_len(size) as u64);
        let count = u32::try_from((len - head) / each).unwrap_or(u32::MAX);
        if count == 0 {
            return Err(wrong(&"it contains no complete frame"));
        }
        for index in 0..count {
            let mut marker = [0; FRAME.len()];
            let at = head + u64::from(index) * each;
            let read = file.read_exact_at(&mut marker, at);
            if read.is_err() || marker != *FRAME {
                return Err(wrong(&format!("frame {index} does not begin with `FRAME`")));
            }
        }
        Ok(Clip {
            file,
            size,
            head,
            count,
            planes: vec![0; frame_len(size) - FRAME.len()],
        })
    }

    /// The size of each picture; its sides are even.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Number of pictures; at least one.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Writes picture `index` (from 0) to `bgrx`, which is resized to fit. The result is the same
    /// each time.
    ///
    /// # Errors
    /// [`CaptureError`] if `index` is out of range or the file can't be read.
    pub fn read(&mut self, index: u32, bgrx: &mut Vec<u8>) -> Result<(), CaptureError> {
        let each = frame_len(self.size) as u64;
        let at = self.head + u64::from(index) * each + FRAME.len() as u64;
        self.file
            .read_exact_at(&mut self.planes, at)
            .map_err(|error| CaptureError(format!("frame {index} of the clip: {error}")))?;
        let Size { width, height } = self.size;
        let (luma, chroma) = self.planes.split_at(self.size.pixels());
        let (u, v) = chroma.split_at(chroma.len() / 2);
        let image = YuvPlanarImage {
            y_plane: luma,
            y_stride: width,
            u_plane: u,
            u_stride: width / 2,
            v_plane: v,
            v_stride: width / 2,
            width,
            height,
        };
        bgrx.resize(self.size.pixels() * 4, 0);
        yuv420_to_bgra(&image, bgrx, width * 4, RANGE, MATRIX)
            .map_err(|error| CaptureError(format!("frame {index} of the clip: {error}")))
    }
}

const RANGE: YuvRange = YuvRange::Limited;
const MATRIX: YuvStandardMatrix = YuvStandardMatrix::Bt709;
const FRAME: &[u8; 6] = b"FRAME\n";

/// The maximum length of the header line: more than twice the length of ffmpeg's header line.
const MAX_HEAD: usize = 256;

/// Bytes of a frame in the file.
fn frame_len(size: Size) -> usize {
    FRAME.len() + size.pixels() / 2 * 3
}

/// Parses the header line: the picture size and the line's length.
fn parse_head(bytes: &[u8]) -> Result<(Size, usize), String> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let line = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    let mut words = line.unwrap_or_default().split(' ');
    if words.next() != Some("YUV4MPEG2") {
        return Err(
            "not a YUV4MPEG2 file; convert it (ffmpeg -i FILM -pix_fmt yuv420p FILE.y4m)".into(),
        );
    }
    let mut size = Size::default();
    for word in words {
        let side = || {
            word.get(1..)
                .and_then(|side| side.parse().ok())
                .unwrap_or(0)
        };
        match word.as_bytes().first() {
            Some(b'W') => size.width = side(),
            Some(b'H') => size.height = side(),
            Some(b'C') if !matches!(word, "C420" | "C420jpeg" | "C420mpeg2" | "C420paldv") => {
                return Err(format!(
                    "unsupported colour format {word}; only C420 is supported"
                ));
            }
            Some(b'I') if word != "Ip" && word != "I?" => {
                return Err(format!(
                    "interlaced ({word}); only progressive (Ip) is supported"
                ));
            }
            _ => {}
        }
    }
    let even = size.width % 2 == 0 && size.height % 2 == 0;
    let rows = barcode::height(size.width.max(barcode::MIN_WIDTH));
    if !size.is_valid() || size.pixels() > MAX_PIXELS {
        return Err(format!(
            "its size is {size}; each side must be 1 to {} pixels, and the area at most {MAX_PIXELS} pixels",
            Size::MAX_SIDE
        ));
    }
    if !even {
        return Err(format!("its size is {size}; both sides must be even"));
    }
    if size.width < barcode::MIN_WIDTH || size.height < rows {
        let least = barcode::MIN_WIDTH;
        return Err(format!(
            "its size is {size}; the bar code needs a width of at least {least} and a height of at least {rows}"
        ));
    }
    Ok((size, end.unwrap_or(0) + 1))
}

/// Writes a clip.
#[derive(Debug)]
pub struct ClipWriter {
    out: BufWriter<File>,
    size: Size,
    planes: Vec<u8>,
}

impl ClipWriter {
    /// Creates a file for pictures of `size`, both sides even.
    ///
    /// # Errors
    /// Returns I/O errors, or [`io::ErrorKind::Other`] for a size that can't be played.
    pub fn create(path: &Path, size: Size, fps: u32) -> io::Result<ClipWriter> {
        let Size { width, height } = size;
        let head = format!("YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420jpeg\n");
        parse_head(head.as_bytes()).map_err(io::Error::other)?;
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(head.as_bytes())?;
        Ok(ClipWriter {
            out,
            size,
            planes: vec![0; size.pixels() / 2 * 3],
        })
    }

    /// Adds a BGRX picture without row padding.
    ///
    /// # Errors
    /// Returns I/O errors, or an error if there are too few bytes.
    pub fn add(&mut self, bgrx: &[u8]) -> io::Result<()> {
        let Size { width, height } = self.size;
        let (luma, chroma) = self.planes.split_at_mut(self.size.pixels());
        let (u, v) = chroma.split_at_mut(chroma.len() / 2);
        let mut image = YuvPlanarImageMut {
            y_plane: BufferStoreMut::Borrowed(luma),
            y_stride: width,
            u_plane: BufferStoreMut::Borrowed(u),
            u_stride: width / 2,
            v_plane: BufferStoreMut::Borrowed(v),
            v_stride: width / 2,
            width,
            height,
        };
        let mode = YuvConversionMode::Balanced;
        bgra_to_yuv420(&mut image, bgrx, width * 4, RANGE, MATRIX, mode)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.out.write_all(FRAME)?;
        self.out.write_all(&self.planes)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The index of the picture that frame `frame` (counted from 1) shows, in a clip of `count` pictures. Pictures play
/// forwards, then backwards, so that there is no cut.
#[must_use]
pub fn picture_index(frame: u32, count: u32) -> u32 {
    let turn = 2 * u64::from(count.max(2) - 1);
    let at = u64::from(frame.max(1) - 1) % turn;
    let place = at.min(turn - at);
    u32::try_from(place).unwrap_or(0).min(count.max(1) - 1)
}

/// A clip that is playing. The frame number in the bar code counts the frame periods since opening, starting at 1.
/// Missed frames, for example while the machine sleeps, are skipped, so delays do not accumulate.
#[derive(Debug)]
pub struct Player {
    clip: Clip,
    begin: Instant,
    /// Frame period in nanoseconds.
    period: u64,
    frame: u32,
    picture: Vec<u8>,
    waker: Waker,
}

impl Player {
    /// Plays a clip at `fps` frames per second (0.1 to 1000, fractions allowed).
    ///
    /// # Errors
    /// [`CaptureError`] if the rate is out of range, the file can't be played, or no file
    /// descriptor is left.
    pub fn open(path: &Path, fps: f64) -> Result<Player, CaptureError> {
        if !(0.1..=1000.0).contains(&fps) {
            return Err(CaptureError(format!(
                "a clip at {fps} frames/s can't be played: choose 0.1 to 1000"
            )));
        }
        let period = Duration::from_secs_f64(1.0 / fps).as_nanos();
        Ok(Player {
            clip: Clip::open(path)?,
            begin: clock::now(),
            period: u64::try_from(period).unwrap_or(u64::MAX),
            frame: 0,
            picture: Vec::new(),
            waker: Waker::new()?,
        })
    }

    /// Renders the due frame if it is new. Returns whether it is new.
    fn advance(&mut self) -> Result<bool, CaptureError> {
        let now = clock::now();
        let passed = now.since(self.begin).as_nanos() / u128::from(self.period);
        let due = u32::try_from(passed).unwrap_or(u32::MAX - 1) + 1;
        if due == self.frame {
            return Ok(false);
        }
        let index = picture_index(due, self.clip.count);
        self.clip.read(index, &mut self.picture)?;
        self.frame = due;
        let stamp = Stamp {
            frame: due,
            drawn_us: u64::try_from(now.0).unwrap_or(0) / 1000,
            inputs: 0,
        };
        let size = self.clip.size;
        // `Clip::open` has checked the size.
        let _ = barcode::draw(&mut self.picture, size.width as usize * 4, size, &stamp);
        Ok(true)
    }
}

impl Capture for Player {
    fn size(&self) -> Size {
        self.clip.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            if self.advance()? {
                return Ok(CaptureEvent::Frame);
            }
            let now = clock::now();
            if give_up.is_some_and(|give_up| now >= give_up) {
                return Ok(CaptureEvent::TimedOut);
            }
            let due = u64::from(self.frame).saturating_mul(self.period);
            let due = self.begin + Duration::from_nanos(due);
            let until = give_up.map_or(due, |give_up| give_up.min(due));
            let wait = Timespec::try_from(until.since(now)).ok();
            let mut fds = [PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN)];
            match poll(&mut fds, wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(CaptureError(format!(
                        "can't wait for the next frame of the clip: {error}"
                    )));
                }
            }
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        let stride = self.clip.size.width as usize * 4;
        (self.frame != 0).then(|| Picture::bgrx(self.clip.size, &self.picture, stride))
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::{NamedTempFile, TempPath};

    use super::*;

    const SIZE: Size = Size::new(320, 64);

    /// A file with this many grey pictures, each lighter than the previous picture; deleted on drop.
    fn grey(count: u8) -> TempPath {
        let path = NamedTempFile::new().unwrap().into_temp_path();
        let mut writer = ClipWriter::create(&path, SIZE, 60).unwrap();
        for light in 0..count {
            writer
                .add(&vec![20 + light * 20; SIZE.pixels() * 4])
                .unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn written_clips_are_read_back() {
        let file = grey(3);
        let mut clip = Clip::open(&file).unwrap();
        assert_eq!((clip.size(), clip.count()), (SIZE, 3));
        let mut bgrx = Vec::new();
        for (index, light) in [(0, 20), (2, 60), (1, 40)] {
            clip.read(index, &mut bgrx).unwrap();
            assert_eq!(bgrx.len(), SIZE.pixels() * 4);
            let near = |p: &[u8]| p[..3].iter().all(|v| v.abs_diff(light) <= 2);
            assert!(bgrx.chunks_exact(4).all(near), "{:?}", &bgrx[..4]);
        }
        assert!(clip.read(3, &mut bgrx).is_err());
    }

    #[test]
    fn frames_play_forwards_and_backwards() {
        let places: Vec<u32> = (1..=9).map(|frame| picture_index(frame, 4)).collect();
        assert_eq!(places, [0, 1, 2, 3, 2, 1, 0, 1, 2]);
        assert!((0..5).all(|frame| picture_index(frame, 1) == 0));
        assert!((1..2000).all(|frame| picture_index(frame, 300) < 300));
    }

    #[test]
    fn each_frame_has_the_picture_of_its_number() {
        let file = grey(5);
        let mut player = Player::open(&file, 200.0).unwrap();
        assert!(player.picture().is_none());
        let (mut clip, mut want, mut last) = (Clip::open(&file).unwrap(), Vec::new(), 0);
        for _ in 0..20 {
            assert_eq!(player.next(None).unwrap(), CaptureEvent::Frame);
            let picture = player.picture().unwrap();
            let stamp = barcode::read(&picture).unwrap();
            assert!(stamp.frame > last, "no frame repeats");
            last = stamp.frame;
            clip.read(picture_index(stamp.frame, 5), &mut want).unwrap();
            let below = barcode::height(SIZE.width) as usize * SIZE.width as usize * 4;
            assert_eq!(picture.planes[0].data[below..], want[below..]);
        }
        player.waker().wake();
        assert_eq!(player.next(None).unwrap(), CaptureEvent::Woken);
    }

    #[test]
    fn unplayable_clips_are_refused() {
        for head in [
            "",
            "RIFF\n",
            "YUV4MPEG2 W320 H64 C444\n",
            "YUV4MPEG2 W320 H64 It\n",
            "YUV4MPEG2 W321 H64\n",
            "YUV4MPEG2 W64 H64\n",
            "YUV4MPEG2 H64\n",
            "YUV4MPEG2 W320 H64",
        ] {
            assert!(parse_head(head.as_bytes()).is_err(), "{head:?}");
        }
        let fine = "YUV4MPEG2 W320 H64 F30:1 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2\nFRAME\n";
        assert_eq!(parse_head(fine.as_bytes()), Ok((SIZE, fine.len() - 6)));
        let file = grey(2);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..100]).unwrap();
        let error = Clip::open(&file).unwrap_err().to_string();
        assert!(error.contains("no complete frame"), "{error}");
        std::fs::write(&file, [&bytes, &bytes[..]].concat()).unwrap();
        let error = Clip::open(&file).unwrap_err().to_string();
        assert!(error.contains("frame 2 does not begin"), "{error}");
        assert!(Player::open(&file, 0.0).is_err());
    }

    proptest! {
        #[test]
        fn no_header_line_panics(words in "(YUV4MPEG2)?( [WHCFIA][0-9:a-z]{0,8}){0,6}\n?é?") {
            if let Ok((size, len)) = parse_head(words.as_bytes()) {
                prop_assert!(size.is_valid() && len <= words.len());
            }
        }
    }
}
