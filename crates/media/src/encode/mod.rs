//! Encode: turns a picture into slices, each delivered as soon as it is ready.
//!
//! A new encoder needs one file with one [`Backend`], one entry in `GROUPS`, and a description in the help of
//! `--encoder`. CONTRIBUTING.md has the steps.

use openuvr_proto::id::FrameId;
use openuvr_proto::units::{Bitrate, Size};
use serde::{Deserialize, Serialize};

use crate::codec::MAX_PIXELS;
use crate::picture::{Picture, PixelFormat};

pub use crate::codec::Codec;
pub use options::EncoderOptions;
pub use probe::{PROBE_SIZE, Probe, check_options, probe, probe_at};

pub mod automatic;
pub mod avcodec;
mod h264;
mod h264_sei;
mod hevc;
pub mod jpeg;
pub mod null;
pub mod openh264;
mod options;
mod probe;
pub mod raw;
mod slice_order;
pub mod x264;

/// The parts of [`BACKENDS`].
const GROUPS: [&[Backend]; 3] = [
    &[x264::BACKEND, jpeg::BACKEND, openh264::BACKEND],
    &avcodec::BACKENDS,
    &[avcodec::vp9::BACKEND, raw::BACKEND, null::BACKEND],
];

/// The number of encoders in [`GROUPS`].
const COUNT: usize = GROUPS[0].len() + GROUPS[1].len() + GROUPS[2].len();

/// The encoders of [`GROUPS`] in one table.
const TABLE: [Backend; COUNT] = {
    let mut all = [x264::BACKEND; COUNT];
    let (mut group, mut next) = (0, 0);
    while group < GROUPS.len() {
        let mut n = 0;
        while n < GROUPS[group].len() {
            all[next] = GROUPS[group][n];
            n += 1;
            next += 1;
        }
        group += 1;
    }
    all
};

/// The encoders, in the order of the help and of `openuvr doctor`.
pub static BACKENDS: &[Backend] = &TABLE;

/// Opens the encoder `name` without options: calls [`find`], then [`open_with`].
///
/// # Errors
/// [`EncodeError`] if the name is unknown (the text lists the valid names), or if [`open_with`] fails.
pub fn open(name: &str, settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    open_with(&Opening {
        backend: find(name)?,
        settings,
        options: &EncoderOptions::NONE,
    })
}

/// Opens an encoder.
///
/// # Errors
/// [`EncodeError`] if the settings are out of range or not supported, if an option is refused, or if the backend can't
/// be opened. There is no fallback.
pub fn open_with(opening: &Opening<'_>) -> Result<Box<dyn Encoder>, EncodeError> {
    let Opening {
        backend,
        settings,
        options,
    } = *opening;
    let name = backend.name;
    settings.check(backend.codec)?;
    if let (None, Some((option, _))) = (backend.options, options.iter().next()) {
        let why = format!("the encoder {name} has no options; remove the option, or choose x264");
        return Err(options::refused(option, &why));
    }
    let refused = |what: &str, wanted: &str, there: Vec<&str>| {
        EncodeError(format!(
            "the encoder {name} does not support {what} {wanted}: choose {}, or another encoder",
            there.join(" or ")
        ))
    };
    if !backend.pixels.contains(&settings.pixels) {
        let there = backend.pixels.iter().map(|pixels| pixels.name()).collect();
        return Err(refused("chroma", settings.pixels.name(), there));
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
            "the encoder {name} does not support intra refresh: choose the encoder {}, or another --recovery",
            there.join(" or ")
        )));
    }
    (backend.open)(opening)
}

/// Finds the encoder `name`: one of [`BACKENDS`], [`automatic::choice`] for `auto`, or any other H.264 or HEVC encoder of
/// the installed libavcodec.
///
/// # Errors
/// [`EncodeError`] if the name is unknown; the text lists the valid names.
pub fn find(name: &str) -> Result<&'static Backend, EncodeError> {
    if name == automatic::NAME {
        return Ok(automatic::choice().backend);
    }
    let listed = BACKENDS.iter().find(|backend| backend.name == name);
    listed.or_else(|| avcodec::by_name(name)).ok_or_else(|| {
        let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
        EncodeError(format!(
            "unknown encoder \"{name}\": choose auto or one of {}, or an H.264 or HEVC encoder of the installed libavcodec \
             (ffmpeg -encoders)",
            names.join(", ")
        ))
    })
}

/// Finds the encoders with these names. A client gets the first encoder whose codec it can decode.
///
/// # Errors
/// [`EncodeError`] if a name is unknown, if `names` is empty, or if an encoder has the same codec as an earlier
/// encoder: the later encoder would never be used.
pub fn find_all<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Backend>, EncodeError> {
    let mut found: Vec<&Backend> = Vec::new();
    for name in names {
        let backend = find(name.as_ref())?;
        let name = backend.name;
        if let Some(before) = found.iter().find(|before| before.codec == backend.codec) {
            return Err(EncodeError(match before.name {
                same if same == name => format!("the encoder {name} is listed twice"),
                other => format!(
                    "{other} and {name} both encode {}, so {name} would never be used: remove one of the encoders",
                    backend.codec.name()
                ),
            }));
        }
        found.push(backend);
    }
    match found.is_empty() {
        true => Err(EncodeError(
            "expected at least one encoder, such as x264".to_owned(),
        )),
        false => Ok(found),
    }
}

/// The colour format of coded pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Chroma {
    /// Subsampled chroma (4:2:0).
    #[serde(rename = "420")]
    Yuv420,
    /// Red, green and blue at full resolution, without conversion.
    #[serde(rename = "rgb")]
    Rgb,
    /// Full-resolution chroma (4:4:4).
    #[serde(rename = "444")]
    Yuv444,
}

impl Chroma {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Chroma::Yuv420 => "420",
            Chroma::Rgb => "rgb",
            Chroma::Yuv444 => "444",
        }
    }
}

/// The rate control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rate {
    /// The caller controls the rate with the quantiser of each [`FrameRequest`].
    #[default]
    Own,
    /// The codec library controls the rate, if supported: it keeps this bitrate, and no picture is
    /// much larger than its share of the bitrate. [`FrameRequest::qp`] is ignored.
    Cbr(Bitrate),
}

/// The schedule of intra refreshes. After a refresh, earlier losses have no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// When [`FrameRequest::refresh`] requests a refresh. The refresh advances by one column of macroblocks per frame.
    OnDemand,
    /// On demand, and also periodically. The period is in frames, and is at least 2. If the picture has more columns
    /// than the period has frames, a refresh advances fast enough to complete within the period.
    Every(u16),
}

/// The supported rate controls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateSupport {
    /// The caller only.
    Own,
    /// The codec library only.
    Cbr,
    /// The caller or the codec library, as the settings select.
    Either,
}

/// An encoder's settings. To change a setting, open a new encoder, which starts a new configuration epoch. An open
/// encoder can change only the bitrate of [`Rate::Cbr`], by [`Encoder::retarget`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Size of the pictures. Both sides must be even for H.264, HEVC and VP9 with 4:2:0 chroma (see
    /// [`Converter::padded`](crate::convert::Converter::padded)).
    pub size: Size,
    /// Maximum frame rate, a hint for the bit stream's timing information.
    pub fps: u32,
    /// Slices per picture, 1–64; an encoder without slices produces one.
    pub slices: u8,
    /// Encoder threads, 1–64.
    pub threads: u8,
    /// Whether motion search has quarter-pixel precision, if the codec has motion compensation. This improves the
    /// picture, but takes more time.
    pub subpel: bool,
    /// The colour format.
    pub pixels: Chroma,
    /// The rate control.
    pub rate: Rate,
    /// The schedule of intra refreshes; `None`: no refreshes. With refreshes, each frame refers only to the frame
    /// before it.
    pub refresh: Option<Refresh>,
}

impl Settings {
    /// Settings with one slice, one thread, and defaults otherwise, for pictures of `size` at 60
    /// frames/s.
    #[must_use]
    pub const fn of(size: Size) -> Settings {
        Settings {
            size,
            fps: 60,
            slices: 1,
            threads: 1,
            subpel: false,
            pixels: Chroma::Yuv420,
            rate: Rate::Own,
            refresh: None,
        }
    }

    /// Maximum of [`Settings::fps`] (guess: no display needs more).
    pub const MAX_FPS: u32 = 1000;
    /// Maximum of [`Settings::slices`] and [`Settings::threads`].
    pub const MAX_PARTS: u8 = 64;

    /// Checks the settings for a `codec`; [`open_with`] calls this function before it opens the encoder.
    ///
    /// # Errors
    /// [`EncodeError`] with the first invalid value, and the valid values.
    pub fn check(&self, codec: Codec) -> Result<(), EncodeError> {
        let Settings { size, fps, .. } = *self;
        let parts = 1..=Self::MAX_PARTS;
        let wrong = if !size.is_valid() || size.pixels() > MAX_PIXELS {
            format!(
                "a picture of {size}: each side must be 1 to {} pixels, and the area at most {MAX_PIXELS} pixels",
                Size::MAX_SIDE
            )
        } else if codec.needs_even_sides()
            && self.pixels == Chroma::Yuv420
            && (size.width % 2 != 0 || size.height % 2 != 0)
        {
            format!(
                "{} with 4:2:0 chroma and a picture of {size}: width and height must be even",
                codec.name()
            )
        } else if matches!(codec, Codec::H264 | Codec::Jpeg) && macroblocks(size).is_none() {
            format!("a picture of {size}: at most 65535 blocks of 16x16 are supported")
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
/// [`Slice::first_mb`] can't number them.
#[must_use]
pub fn macroblocks(size: Size) -> Option<(u16, u16)> {
    let columns = u16::try_from(size.width.div_ceil(16)).ok()?;
    let rows = u16::try_from(size.height.div_ceil(16)).ok()?;
    columns.checked_mul(rows).map(|_| (columns, rows))
}

/// Checks that an encoder for `size` and `format` can read all of `picture`.
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
        "the encoder expects complete {format:?} pictures of {size}, but got a {:?} picture of {} with \
         {} bytes in the first plane: open a new encoder when the size changes",
        picture.format,
        picture.size,
        picture.planes[0].data.len()
    )))
}

/// The parameters of one frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameRequest<'a> {
    /// The frame's id, which is also its presentation timestamp in the bit stream.
    pub frame: FrameId,
    /// Whether the frame must be an IDR (key) frame.
    pub key_frame: bool,
    /// The reference of a frame that is not a key frame: one of the [`Encoder::memory`] newest frames. Frames newer
    /// than the reference are discarded. [`FrameId::NONE`] means the newest frame.
    pub reference: FrameId,
    /// Whether to start an intra refresh, with this frame or after the current refresh. Requires
    /// [`Settings::refresh`].
    pub refresh: bool,
    /// Quantiser, on H.264's scale from 0 (best) to 51.
    pub qp: u8,
    /// The macroblocks to code; the decoder repeats all other macroblocks. `None` means all. Requires
    /// [`Encoder::supports_partial`]; the reference frame must be the newest frame.
    pub part: Option<MacroblockRange>,
    /// For each macroblock, in raster order, whether it is unchanged since the reference frame. The reference frame
    /// must be the newest frame. The encoder skips such a macroblock if the reference frame's quality was at least as
    /// good. `None` if the changes are unknown. Can't be combined with [`FrameRequest::part`].
    pub unchanged: Option<&'a [bool]>,
}

/// A range of a picture's macroblocks, in raster order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacroblockRange {
    /// The first macroblock.
    pub first_mb: u16,
    /// The number of macroblocks.
    pub mbs: u16,
}

/// A slice of a frame that is ready to send.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Index in the frame, from 0 in bit stream order; slices are delivered in this order.
    pub index: u8,
    /// First macroblock in raster order, or 0 if the codec has no macroblocks.
    pub first_mb: u16,
    /// Number of macroblocks, or 0 if the codec has no macroblocks.
    pub mbs: u16,
    /// Whether this is the frame's last slice.
    pub last: bool,
    /// Set if an intra refresh starts with this frame. If nothing is lost from this frame on, the picture is bit-exact
    /// this many frames later. All slices of a frame have the same value.
    pub clean_after: Option<u16>,
    /// The bytes; for H.264 in Annex B format, with parameter sets in a key frame's slice 0.
    pub bytes: &'a [u8],
}

/// The result of encoding a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Whether the frame is a key frame.
    pub key_frame: bool,
    /// Total size of the frame's slices.
    pub bytes: usize,
    /// See [`Slice::clean_after`].
    pub clean_after: Option<u16>,
}

/// An open encoder. The thread of its rendition owns it.
pub trait Encoder: Send {
    /// The pixel format accepted by [`Encoder::encode`].
    fn input(&self) -> PixelFormat;

    /// The accepted format for pictures in the format `given`. It is `given` if no conversion is
    /// needed.
    fn input_for(&self, _given: PixelFormat) -> PixelFormat {
        self.input()
    }

    /// Number of slices per frame.
    fn slices(&self) -> u8;

    /// Number of newest frames that the next frame may refer to: 1 means only the previous frame, 0 means that each
    /// frame is a key frame.
    fn memory(&self) -> u8 {
        1
    }

    /// Whether the encoder can code a part of a frame ([`FrameRequest::part`]).
    fn supports_partial(&self) -> bool {
        false
    }

    /// Encodes one picture and passes each slice to `sink` as soon as it is ready, in order. The
    /// sink may be called from this or another thread, but never concurrently, and all calls end
    /// before this method returns.
    ///
    /// # Errors
    /// [`EncodeError`] if the frame could not be encoded; the encoder stays usable, and the next
    /// frame must be a key frame.
    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError>;

    /// Sets the bitrate from the next frame on. Only for encoders in which the codec library controls the rate
    /// ([`Rate::Cbr`]). If a new bitrate requires a key frame, the encoder may ignore a small change.
    ///
    /// # Errors
    /// [`EncodeError`] on failure; the old bitrate then remains in effect.
    fn retarget(&mut self, _bitrate: Bitrate) -> Result<(), EncodeError> {
        Ok(())
    }
}

/// An encoder that can be selected by name.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line with a description and requirements.
    pub about: &'static str,
    /// Its codec.
    pub codec: Codec,
    /// The supported colour formats, the default first.
    pub pixels: &'static [Chroma],
    /// The supported rate controls.
    pub rates: RateSupport,
    /// Whether the encoder supports intra refreshes ([`Settings::refresh`]).
    pub refreshes: bool,
    /// The command that lists the options of the encoder's library; `None` if the encoder takes no [`EncoderOptions`].
    pub options: Option<&'static str>,
    /// Whether the encoder uses a device. A device may be missing, and may fail at any time.
    pub hardware: bool,
    /// Opens the encoder. Call [`open_with`] instead, which checks the settings first.
    pub open: fn(&Opening<'_>) -> Result<Box<dyn Encoder>, EncodeError>,
}

/// A request to open an encoder.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The encoder.
    pub backend: &'a Backend,
    /// The settings of the encoder.
    pub settings: &'a Settings,
    /// The options of the encoder's library.
    pub options: &'a EncoderOptions,
}

impl Backend {
    /// The encoder's default settings for pictures of `size`. `bitrate` is used only if the encoder requires rate
    /// control by the codec library.
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

/// Why an encoder can't be opened or has failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(pub String);
