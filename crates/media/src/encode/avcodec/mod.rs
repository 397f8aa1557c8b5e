//! H.264 and HEVC with encoders of libavcodec, which is loaded at run time. Encoders are selected by name: the hardware
//! encoders, and, for comparison, libx264 and libx265. They return complete pictures, and each picture is sent as one
//! slice. Therefore, no part of a picture is sent before the picture is completely encoded.
//!
//! libavcodec controls the rate ([`Rate::Cbr`]), because it offers no quantiser per picture. Only `libx264` and
//! `libx265` have been tested; the options of the hardware encoders follow FFmpeg's documentation.
//!
//! A running libx264 follows a new bitrate at once. For the other encoders, a new bitrate costs a key frame, and most
//! of them must be opened again (`NewBitrate`). They therefore keep their bitrate until the new bitrate differs
//! considerably.

mod kinds;
mod limits;
mod sys;
pub mod vp9;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openuvr_proto::units::Bitrate;

use self::kinds::{Kind, Memory, NewBitrate};
use super::h264::{Unit, deliver, units};
use super::{
    Backend, Codec, EncodeError, Encoded, Encoder, EncoderOptions, FrameRequest, Opening, Rate,
    Settings, Slice, check_picture, hevc, macroblocks, options,
};
use crate::picture::{Picture, PixelFormat};

/// The entries in the table of encoders.
pub const BACKENDS: [Backend; kinds::COUNT] = kinds::backends();

/// The device types of libavutil that encoders and decoders of libavcodec use.
pub const DEVICES: [&str; 4] = ["vaapi", "cuda", "qsv", "vulkan"];

/// Checks whether the default device of the type `kind` can be opened. `kind` is one of [`DEVICES`].
///
/// # Errors
/// [`EncodeError`] with the library's message in one line.
pub fn try_device(kind: &str) -> Result<(), EncodeError> {
    sys::try_device(kind).map_err(EncodeError)
}

/// Finds an H.264 or HEVC encoder of the installed libavcodec that is not in [`BACKENDS`].
pub(super) fn by_name(name: &str) -> Option<&'static Backend> {
    // The list has at most one entry per encoder of the library, so its memory is bounded.
    static FOUND: Mutex<Vec<&'static Backend>> = Mutex::new(Vec::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = found.iter().copied().find(|known| known.name == name) {
        return Some(known);
    }
    let codec = sys::codec_of(name)?;
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let backend: &'static Backend = Box::leak(Box::new(kinds::other(name, codec)));
    found.push(backend);
    Some(backend)
}

/// Poll interval while waiting for a coded picture.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Maximum number of polls for a coded picture: at least 30 frames at 60 Hz, because the first picture of a hardware
/// encoder starts a driver (guess). The polls are counted instead of the time. Otherwise, a short suspension of this
/// process or machine would count as a failure, and the host would use another encoder from then on.
const MAX_POLLS: u32 = 2500;

/// Key-frame interval without requests: the largest value that every encoder accepts, 4.6 hours at
/// 60 Hz.
const KEY_FRAME_INTERVAL: u32 = 1_000_000;

/// The range, relative to the bitrate of an encoder, in which a new bitrate does not justify a key frame (guesses). In
/// this range, the encoder exceeds the link's rate by at most 11 %, and leaves at most 20 % of the rate unused. The
/// lower limit is closer to 1, because a decrease is more urgent: the link is full.
const TOLERATED: (f64, f64) = (0.9, 1.25);

struct Avcodec {
    name: &'static str,
    codec: Codec,
    library: sys::Encoder,
    input: PixelFormat,
    /// The settings of the open encoder.
    settings: Settings,
    options: EncoderOptions,
    /// The requested rate. It may differ from the rate in `settings`.
    wanted: Rate,
    /// 0 for a codec without macroblocks.
    total_mbs: u32,
    /// The newest parameter sets, because not every encoder repeats them.
    sets: Vec<u8>,
    joined: Vec<u8>,
    /// Whether the last frame failed, so that references can't be trusted.
    broken: bool,
}

fn open(opening: &Opening<'_>) -> Result<Box<dyn Encoder>, EncodeError> {
    let Opening {
        backend,
        settings,
        options,
    } = *opening;
    limits::check(backend.name, options)?;
    let total_mbs = match backend.codec {
        Codec::Hevc => 0,
        _ => macroblocks(settings.size)
            .map_or(0, |(columns, rows)| u32::from(columns) * u32::from(rows)),
    };
    let (library, input) = open_library(backend.name, settings, options)?;
    tracing::debug!(encoder = backend.name, size = %settings.size, "opened an encoder of libavcodec");
    Ok(Box::new(Avcodec {
        name: backend.name,
        codec: backend.codec,
        library,
        input,
        settings: *settings,
        options: options.clone(),
        wanted: settings.rate,
        total_mbs,
        sets: Vec::new(),
        joined: Vec::new(),
        broken: true,
    }))
}

/// Opens the encoder `name` with the first pixel format in its table entry that libavcodec accepts.
///
/// # Errors
/// Returns an error if libavcodec accepts none of these formats. If the encoder opens without `options`, the error
/// names the first option that prevents the opening.
fn open_library(
    name: &str,
    settings: &Settings,
    options: &EncoderOptions,
) -> Result<(sys::Encoder, PixelFormat), EncodeError> {
    let kind = Kind::of(name);
    let attempt = |options: &EncoderOptions| {
        let mut refused = String::new();
        for input in kind.inputs {
            let common = common(kind, settings, *input);
            let order = sys::Order {
                name,
                common: &common,
                kind,
                options,
                input: *input,
                size: settings.size,
            };
            match sys::Encoder::open(&order) {
                Ok(library) => return Ok((library, *input)),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    };
    let why = match attempt(options) {
        Ok(opened) => return Ok(opened),
        Err(why) => why,
    };
    if !options.is_empty() && attempt(&EncoderOptions::NONE).is_ok() {
        for (count, (option, value)) in (1..).zip(options.iter()) {
            if let Err(why) = attempt(&options.first(count)) {
                let why = format!(
                    "{name} does not accept the value {value:?} ({why}); ffmpeg -h encoder={name} lists the options"
                );
                return Err(options::refused(option, &why));
            }
        }
    }
    Err(EncodeError(format!("{name} can't be used: {why}")))
}

/// The options common to all encoders.
fn common(kind: &Kind, settings: &Settings, input: PixelFormat) -> Vec<(&'static str, String)> {
    let word = |(name, value): (&'static str, &str)| (name, value.to_owned());
    let format = match kind.memory {
        Memory::Main => sys::format_name(input),
        Memory::Device(device) => device,
    };
    let threads = if kind.slice_threads {
        settings.threads
    } else {
        1
    };
    let mut all: Vec<(&str, String)> = vec![
        ("video_size", settings.size.to_string()),
        ("pixel_format", format.into()),
        ("time_base", format!("1/{}", settings.fps)),
        ("g", KEY_FRAME_INTERVAL.to_string()),
        ("threads", threads.to_string()),
    ];
    all.extend(
        [
            ("bf", "0"),
            ("flags", "+low_delay"),
            ("color_primaries", "bt709"),
            ("color_trc", "bt709"),
            ("colorspace", "bt709"),
            ("color_range", "tv"),
        ]
        .map(word),
    );
    if let Rate::Cbr(bitrate) = settings.rate {
        all.extend(rate(bitrate, settings.fps));
    }
    all
}

/// The options for a constant bitrate. The rate-control buffer holds one frame, so that no frame is much larger than
/// its share of the bitrate.
fn rate(bitrate: Bitrate, fps: u32) -> [(&'static str, String); 3] {
    let rate = bitrate.0.min(2_000_000_000);
    [
        ("b", rate.to_string()),
        ("maxrate", rate.to_string()),
        ("bufsize", (rate / u64::from(fps).max(1)).to_string()),
    ]
}

/// Whether the bitrate `wanted` justifies a key frame of an encoder with the bitrate `current`.
fn is_worth_a_key_frame(current: Bitrate, wanted: Bitrate) -> bool {
    let (current, wanted) = (current.0 as f64, wanted.0 as f64);
    let (low, high) = TOLERATED;
    wanted < current * low || wanted > current * high
}

/// Waits for the last submitted picture.
fn receive(library: &mut sys::Encoder) -> Result<(), String> {
    for _ in 0..MAX_POLLS {
        if library.receive()? {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Err("it delays pictures".into())
}

/// Encodes a picture, waits for the coded picture with `receive`, and checks that the coded picture belongs to this
/// frame.
fn code(
    library: &mut sys::Encoder,
    picture: &Picture<'_>,
    ask: &FrameRequest<'_>,
    key_frame: bool,
    receive: impl FnOnce(&mut sys::Encoder) -> Result<(), String>,
) -> Result<(), String> {
    // Coded pictures of failed frames are discarded, because they would be mistaken for the picture of this frame.
    while library.receive()? {}
    library.send(picture, ask.frame.0.into(), key_frame)?;
    receive(library)?;
    match library.packet() {
        (pts, _) if pts != i64::from(ask.frame.0) => {
            Err("the encoder returned a picture of another frame".into())
        }
        (_, []) => Err("the encoder returned an empty picture".into()),
        _ => Ok(()),
    }
}

impl Avcodec {
    /// Gives the encoder the requested bitrate in two cases. In the first case, this bitrate differs enough from the
    /// current bitrate to justify a key frame. In the second case, the next picture is a key frame anyway
    /// (`key_frame`), and the encoder need not be opened again. Returns whether the bitrate was set. The next picture
    /// must then be a key frame.
    fn follow(&mut self, key_frame: bool) -> Result<bool, EncodeError> {
        let (Rate::Cbr(current), Rate::Cbr(wanted)) = (self.settings.rate, self.wanted) else {
            return Ok(false);
        };
        if wanted == current {
            return Ok(false);
        }
        let new_bitrate = Kind::of(self.name).new_bitrate;
        // A requested key frame alone does not justify opening the encoder again, which may take longer than several
        // frames.
        let free = key_frame && new_bitrate == NewBitrate::KeyFrame;
        if !free && !is_worth_a_key_frame(current, wanted) {
            return Ok(false);
        }
        match new_bitrate {
            NewBitrate::Reopened => self.reopen()?,
            NewBitrate::Running | NewBitrate::KeyFrame => self.set_rate(wanted)?,
        }
        Ok(true)
    }

    /// Opens the encoder again with the requested rate. If this fails, the old encoder remains.
    fn reopen(&mut self) -> Result<(), EncodeError> {
        let settings = Settings {
            rate: self.wanted,
            ..self.settings
        };
        let (library, input) = open_library(self.name, &settings, &self.options)?;
        if input != self.input {
            return Err(EncodeError(format!(
                "{} now requires another pixel format: choose another encoder",
                self.name
            )));
        }
        (self.library, self.settings) = (library, settings);
        self.sets.clear();
        Ok(())
    }

    /// Sets the bitrate of the running encoder.
    fn set_rate(&mut self, bitrate: Bitrate) -> Result<(), EncodeError> {
        for (name, value) in rate(bitrate, self.settings.fps) {
            (self.library.set(name, &value)).map_err(|why| {
                EncodeError(format!(
                    "{} can't change its bitrate: {why}; choose another encoder",
                    self.name
                ))
            })?;
        }
        self.settings.rate = Rate::Cbr(bitrate);
        Ok(())
    }
}

impl Encoder for Avcodec {
    fn input(&self) -> PixelFormat {
        self.input
    }

    fn slices(&self) -> u8 {
        1
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        check_picture(picture, self.settings.size, self.input)?;
        let mut key_frame = ask.key_frame || self.broken;
        key_frame |= self.follow(key_frame)?;
        self.broken = true;
        code(&mut self.library, picture, ask, key_frame, receive).map_err(|why| {
            EncodeError(format!(
                "{} could not encode frame {}: {why}; the next frame must be a key frame",
                self.name, ask.frame.0
            ))
        })?;
        let (_, packet) = self.library.packet();
        let parts: Vec<&[u8]> = units(packet).collect();
        let encoded = match self.codec {
            Codec::Hevc => hevc::deliver(&parts, &mut self.sets, &mut self.joined, sink)?,
            _ => {
                let parts = with_sets(parts, &mut self.sets);
                deliver(&parts, (1, self.total_mbs), &mut self.joined, sink)?
            }
        };
        if key_frame && !encoded.key_frame {
            return Err(EncodeError(format!(
                "{} did not encode frame {} as the requested key frame: choose another encoder",
                self.name, ask.frame.0
            )));
        }
        self.broken = false;
        Ok(encoded)
    }

    fn retarget(&mut self, bitrate: Bitrate) -> Result<(), EncodeError> {
        if Kind::of(self.name).new_bitrate == NewBitrate::Running {
            self.set_rate(bitrate)?;
        }
        self.wanted = Rate::Cbr(bitrate);
        Ok(())
    }
}

/// The units of a picture. If a key frame has no parameter sets, the sets in `sets` are inserted, because not every
/// encoder repeats them. `sets` holds the newest parameter sets.
fn with_sets<'a>(mut parts: Vec<&'a [u8]>, sets: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    let is_set = |unit: &&[u8]| Unit::of(unit) == Unit::ParameterSet;
    let came: Vec<u8> = (parts.iter().copied().filter(is_set))
        .flatten()
        .copied()
        .collect();
    if !came.is_empty() {
        *sets = came;
    } else if parts.iter().any(|unit| is_key(unit)) {
        parts.insert(0, sets);
    }
    parts
}

fn is_key(unit: &[u8]) -> bool {
    matches!(
        Unit::of(unit),
        Unit::Slice {
            key_frame: true,
            ..
        }
    )
}
