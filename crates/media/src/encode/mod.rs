//! Encode: a picture goes in, slices come out, each the moment it is ready.
//!
//! A new encoder is one file with one [`Backend`] and one line in the table `BACKENDS`.

use openuvr_proto::id::FrameId;
use openuvr_proto::units::{Bitrate, Size};

use crate::codec::MAX_PIXELS;
use crate::picture::{Picture, PixelFormat};

pub use crate::codec::Codec;
pub use probe::{PROBE_SIZE, Probe, probe};

pub mod avcodec;
mod h264;
mod h264_sei;
pub mod jpeg;
pub mod null;
pub mod openh264;
mod probe;
pub mod raw;
mod slice_order;
pub mod x264;

/// The encoders, best first.
pub static BACKENDS: &[Backend] = &[
    x264::BACKEND,
    jpeg::BACKEND,
    openh264::BACKEND,
    avcodec::BACKENDS[0],
    avcodec::BACKENDS[1],
    avcodec::BACKENDS[2],
    avcodec::BACKENDS[3],
    avcodec::BACKENDS[4],
    raw::BACKEND,
    null::BACKEND,
];

/// Opens the encoder that is called `name` in [`BACKENDS`].
///
/// # Errors
/// [`EncodeError`] if there is none of that name (the text lists those there are), if `settings`
/// are out of range or not for it, or if the backend can't be opened. Never another one instead.
pub fn open(name: &str, settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    let backend = find(name)?;
    settings.check(backend.codec)?;
    let refused = |what: &str, wanted: &str, there: Vec<&str>| {
        EncodeError(format!(
            "the encoder {name} has no {what} {wanted}: choose {}, or another encoder",
            there.join(" or ")
        ))
    };
    if !backend.pixels.contains(&settings.pixels) {
        let there = backend.pixels.iter().map(|pixels| pixels.name()).collect();
        return Err(refused("pixels", settings.pixels.name(), there));
    }
    match (settings.rate, backend.rates) {
        (Rate::Cbr(_), RateSupport::Own) => return Err(refused("rate mode", "cbr", vec!["own"])),
        (Rate::Own, RateSupport::Cbr) => return Err(refused("rate mode", "own", vec!["cbr"])),
        _ => {}
    }
    if settings.refresh.is_some() && !backend.refreshes {
        let all = BACKENDS.iter().filter(|backend| backend.refreshes);
        let there = all.map(|backend| backend.name).collect::<Vec<_>>();
        return Err(EncodeError(format!(
            "the encoder {name} has no intra refresh: choose {}, or another answer to losses",
            there.join(" or ")
        )));
    }
    (backend.open)(settings)
}

/// The encoder that is called `name` in [`BACKENDS`].
///
/// # Errors
/// [`EncodeError`] if there is none of that name; the text lists those there are.
pub fn find(name: &str) -> Result<&'static Backend, EncodeError> {
    BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
            EncodeError(format!(
                "there is no encoder \"{name}\": choose one of {}",
                names.join(", ")
            ))
        })
}

/// The encoders of these names, for clients that get the first whose codec they decode.
///
/// # Errors
/// [`EncodeError`] if there is none of a name, if none is named, or if one would never be used: it is
/// named twice, or one before it makes the same codec.
pub fn find_all<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Backend>, EncodeError> {
    let mut found: Vec<&Backend> = Vec::new();
    for name in names {
        let backend = find(name.as_ref())?;
        let name = backend.name;
        if let Some(before) = found.iter().find(|before| before.codec == backend.codec) {
            return Err(EncodeError(match before.name {
                same if same == name => format!("{name} is named twice"),
                other => format!(
                    "{other} and {name} both make {}: no client would ever get {name}",
                    backend.codec.name()
                ),
            }));
        }
        found.push(backend);
    }
    match found.is_empty() {
        true => Err(EncodeError(
            "name at least one encoder, such as x264".to_owned(),
        )),
        false => Ok(found),
    }
}

/// As what a picture's colours are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pixels {
    /// Brightness at each pixel, colour at each fourth (4:2:0).
    Nv12,
    /// Red, green and blue at each pixel: nothing is converted.
    Rgb444,
    /// Brightness and colour at each pixel (4:4:4).
    Yuv444,
}

impl Pixels {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pixels::Nv12 => "nv12",
            Pixels::Rgb444 => "rgb444",
            Pixels::Yuv444 => "yuv444",
        }
    }
}

/// Who decides how many bits a picture gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rate {
    /// The caller, with the quantiser of each [`FrameRequest`].
    #[default]
    Own,
    /// The codec library, where it can: this rate, and no picture longer than its share of it.
    /// [`FrameRequest::qp`] is not looked at.
    Cbr(Bitrate),
}

/// When an intra refresh crosses the picture, after which it is clean whatever was lost before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// When [`FrameRequest::refresh`] wants one. It advances by a column of macroblocks in each frame.
    OnDemand,
    /// In addition every so many frames, 2 or more; where the picture has more columns, each refresh
    /// advances so fast that it is through when the next begins.
    Every(u16),
}

/// Who can decide it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateSupport {
    /// The caller only.
    Own,
    /// The codec library only.
    Cbr,
    /// Whoever shall.
    Either,
}

/// What an encoder is opened with. A change of any of it is a new configuration epoch.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Size of the pictures; sides even for 4:2:0 formats (the capture pads).
    pub size: Size,
    /// Highest number of frames a second, a hint for the bit stream's timing information.
    pub fps: u32,
    /// Slices a picture, 1–64; an encoder that can't slice makes one.
    pub slices: u8,
    /// Encoder threads, 1–64.
    pub threads: u8,
    /// Whether motion is searched to quarters of a pixel, where the codec has motion: better
    /// pictures for more time.
    pub subpel: bool,
    /// As what colours are coded.
    pub pixels: Pixels,
    /// Who decides how many bits a picture gets.
    pub rate: Rate,
    /// Whether intra refreshes are made. Then no frame refers to another than the newest.
    pub refresh: Option<Refresh>,
}

impl Settings {
    /// One slice, one thread, and nothing special, for pictures of `size` at 60 frames/s.
    #[must_use]
    pub const fn of(size: Size) -> Settings {
        Settings {
            size,
            fps: 60,
            slices: 1,
            threads: 1,
            subpel: false,
            pixels: Pixels::Nv12,
            rate: Rate::Own,
            refresh: None,
        }
    }

    /// Highest [`Settings::fps`]: no display does more.
    pub const MAX_FPS: u32 = 1000;
    /// Highest [`Settings::slices`] and [`Settings::threads`].
    pub const MAX_PARTS: u8 = 64;

    /// Whether a `codec` can be opened with them; [`open`] has asked when a backend is called.
    ///
    /// # Errors
    /// [`EncodeError`] names the first that is out of range, and the range.
    pub fn check(&self, codec: Codec) -> Result<(), EncodeError> {
        let Settings { size, fps, .. } = *self;
        let parts = 1..=Self::MAX_PARTS;
        let wrong = if !size.is_valid() || size.pixels() > MAX_PIXELS {
            format!(
                "a picture of {size}: sides are 1 to {} and the whole at most {MAX_PIXELS} pixels",
                Size::MAX_SIDE
            )
        } else if codec == Codec::H264
            && self.pixels == Pixels::Nv12
            && (size.width % 2 != 0 || size.height % 2 != 0)
        {
            format!("an H.264 picture of {size}: sides are even")
        } else if matches!(codec, Codec::H264 | Codec::Jpeg) && macroblocks(size).is_none() {
            format!("a picture of {size}: its blocks of 16x16 are at most 65535")
        } else if !(1..=Self::MAX_FPS).contains(&fps) {
            format!("{fps} frames/s: the range is 1 to {}", Self::MAX_FPS)
        } else if !parts.contains(&self.slices) {
            format!(
                "{} slices: the range is 1 to {}",
                self.slices,
                Self::MAX_PARTS
            )
        } else if !parts.contains(&self.threads) {
            format!(
                "{} encoder threads: the range is 1 to {}",
                self.threads,
                Self::MAX_PARTS
            )
        } else {
            return Ok(());
        };
        Err(EncodeError(format!(
            "the encoder can't be opened for {wrong}"
        )))
    }
}

/// Columns and rows of the macroblocks (16 × 16 pixels) that cover `size`; `None` if
/// [`Slice::first_mb`] can't count them.
#[must_use]
pub fn macroblocks(size: Size) -> Option<(u16, u16)> {
    let columns = u16::try_from(size.width.div_ceil(16)).ok()?;
    let rows = u16::try_from(size.height.div_ceil(16)).ok()?;
    columns.checked_mul(rows).map(|_| (columns, rows))
}

/// Whether `picture` is what an encoder opened for `size` and `format` can read to its end.
fn check_picture(
    picture: &Picture<'_>,
    size: Size,
    format: PixelFormat,
) -> Result<(), EncodeError> {
    let (width, height) = (size.width as usize, size.height as usize);
    let rows: &[(usize, usize)] = match format {
        PixelFormat::Bgrx | PixelFormat::Rgbx => &[(width * 4, height)],
        PixelFormat::Bgr | PixelFormat::Rgb => &[(width * 3, height)],
        PixelFormat::Nv12 => &[(width, height), (width, height / 2)],
        PixelFormat::I420 => &[
            (width, height),
            (width / 2, height / 2),
            (width / 2, height / 2),
        ],
        PixelFormat::I444 | PixelFormat::Gbr => &[(width, height); 3],
    };
    let fits = rows
        .iter()
        .zip(&picture.planes)
        .all(|(&(row, rows), plane)| {
            plane.stride >= row
                && (plane.stride.checked_mul(rows - 1))
                    .is_some_and(|start| plane.data.len() >= start.saturating_add(row))
        });
    if picture.size == size && picture.format == format && fits {
        return Ok(());
    }
    Err(EncodeError(format!(
        "the encoder was opened for whole {format:?} pictures of {size} and got {:?} of {} with \
         {} bytes in the first plane: open a new one when the size changes",
        picture.format,
        picture.size,
        picture.planes[0].data.len()
    )))
}

/// What one frame is asked to be.
#[derive(Clone, Copy, Debug)]
pub struct FrameRequest<'a> {
    /// Its name, also its presentation time stamp in the bit stream.
    pub frame: FrameId,
    /// Whether it must be an IDR (key) frame.
    pub key_frame: bool,
    /// Otherwise the frame that it refers to: the newest, or an older one among the
    /// [`Encoder::memory`] newest; what is between is forgotten. [`FrameId::NONE`]: the newest.
    pub reference: FrameId,
    /// Whether an intra refresh should begin: with this frame, or with the one behind the refresh
    /// that is under way. Only with [`Settings::refresh`].
    pub refresh: bool,
    /// Quantiser, in H.264's scale 0 (best) to 51.
    pub qp: u8,
    /// Only these macroblocks are coded, the others stay as the decoder has them; `None`: all. Only
    /// with [`Encoder::supports_partial`], for a frame that refers to the newest one.
    pub part: Option<MacroblockRange>,
    /// For each macroblock, in raster order, whether it need not be looked at: the picture has not
    /// changed there since the frame that this one refers to, which is the newest, and it was coded
    /// at least as well then. `None`: nothing is known. Not together with [`FrameRequest::part`].
    pub unchanged: Option<&'a [bool]>,
}

/// Some of a picture's macroblocks, in raster order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacroblockRange {
    /// The first one.
    pub first_mb: u16,
    /// How many.
    pub mbs: u16,
}

/// A part of a frame that is ready to leave.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Place in the frame, counted from 0 in bit stream order; slices come in this order.
    pub index: u8,
    /// First macroblock in raster order, or 0 where the codec has none.
    pub first_mb: u16,
    /// How many macroblocks it covers, or 0 where the codec has none.
    pub mbs: u16,
    /// Whether it is the frame's last.
    pub last: bool,
    /// The same in each slice of a frame: an intra refresh begins with it, and if nothing is
    /// lost from it on, the picture is clean, to the bit, so many frames later.
    pub clean_after: Option<u16>,
    /// The bytes; for H.264 in Annex B form, parameter sets in front of a key frame's slice 0.
    pub bytes: &'a [u8],
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Whether it came out as a key frame.
    pub key_frame: bool,
    /// Bytes of all its slices.
    pub bytes: usize,
    /// See [`Slice::clean_after`].
    pub clean_after: Option<u16>,
}

/// An opened encoder, owned by the media thread.
pub trait Encoder: Send {
    /// The pixel format that [`Encoder::encode`] takes.
    fn input(&self) -> PixelFormat;

    /// The one that it takes of a picture that comes as `given`: the same, where it need not be
    /// converted.
    fn input_for(&self, _given: PixelFormat) -> PixelFormat {
        self.input()
    }

    /// How many slices each frame has.
    fn slices(&self) -> u8;

    /// How many of the newest frames the next one may refer to: 1 is the last one only, 0 means
    /// that each frame is a key frame.
    fn memory(&self) -> u8 {
        1
    }

    /// Whether a frame can be coded of which only a part changes ([`FrameRequest::part`]).
    fn supports_partial(&self) -> bool {
        false
    }

    /// Encodes one picture and hands each slice to `sink` as soon as it is ready, in order, from
    /// this or another thread, never two at a time, all before the call returns.
    ///
    /// # Errors
    /// [`EncodeError`] if the frame could not be encoded; the encoder stays usable and the next
    /// frame must be asked for as a key frame.
    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError>;

    /// Another bitrate from the next frame on. Only an encoder that keeps the rate itself
    /// ([`Rate::Cbr`]) has something to do.
    ///
    /// # Errors
    /// [`EncodeError`] if it can't; the old one then stays.
    fn retarget(&mut self, _bitrate: Bitrate) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// An encoder that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it is and needs.
    pub about: &'static str,
    /// What it makes.
    pub codec: Codec,
    /// As what it can code colours, the usual first.
    pub pixels: &'static [Pixels],
    /// Who can decide how many bits a picture gets.
    pub rates: RateSupport,
    /// Whether it can make intra refreshes ([`Settings::refresh`]).
    pub refreshes: bool,
    /// Opens it.
    pub open: fn(&Settings) -> Result<Box<dyn Encoder>, EncodeError>,
}

impl Backend {
    /// Settings as it usually has them, for pictures of `size`; `bitrate` counts where the codec
    /// library keeps the rate.
    #[must_use]
    pub fn settings(&self, size: Size, bitrate: Bitrate) -> Settings {
        let usual = Settings::of(size);
        Settings {
            pixels: self.pixels.first().copied().unwrap_or(usual.pixels),
            rate: match self.rates {
                RateSupport::Own | RateSupport::Either => Rate::Own,
                RateSupport::Cbr => Rate::Cbr(bitrate),
            },
            ..usual
        }
    }
}

/// Why an encoder can't be opened or did not encode: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(pub String);
