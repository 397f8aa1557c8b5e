//! H.264 with the encoders of libavcodec, which are loaded at run time and selected by name: hardware, and libx264 for
//! comparison. They return complete pictures, each of which is sent as one slice. Therefore, no part of a picture is
//! sent before the picture is completely encoded.
//!
//! The library controls the rate ([`Rate::Cbr`]), because it offers no quantiser per picture. Only `libx264` has been
//! tested; the hardware options follow the drivers' documentation.

mod sys;
pub mod vp9;

use std::time::{Duration, Instant};

use openuvr_proto::units::Bitrate;

use super::h264::{Unit, deliver, units};
use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, FrameRequest, Rate, RateSupport,
    Settings, Slice, check_picture, macroblocks,
};
use crate::picture::{Picture, PixelFormat};

/// The table entries.
pub const BACKENDS: [Backend; 5] = [
    Backend {
        name: "h264_nvenc",
        about: "H.264 by an NVIDIA GPU, through libavcodec; whole pictures",
        open: |settings| open(&NVENC, settings),
        ..COMMON
    },
    Backend {
        name: "h264_qsv",
        about: "H.264 by an Intel GPU (Quick Sync), through libavcodec; whole pictures",
        open: |settings| open(&QSV, settings),
        ..COMMON
    },
    Backend {
        name: "h264_v4l2m2m",
        about: "H.264 by a small board's video unit (V4L2), through libavcodec; whole pictures",
        open: |settings| open(&V4L2, settings),
        ..COMMON
    },
    Backend {
        name: "h264_vaapi",
        about: "H.264 by a GPU's driver (VA-API), through libavcodec; whole pictures",
        open: |settings| open(&VAAPI, settings),
        ..COMMON
    },
    Backend {
        name: "libx264",
        about: "H.264 by libx264 through libavcodec: whole pictures, for comparison with x264",
        open: |settings| open(&LIBX264, settings),
        ..COMMON
    },
];

const COMMON: Backend = Backend {
    name: "",
    about: "",
    codec: Codec::H264,
    pixels: &[Chroma::Yuv420],
    rates: RateSupport::Cbr,
    refreshes: false,
    open: |settings| open(&LIBX264, settings),
};

/// An encoder of libavcodec, and its options in addition to the common ones. Together, the options select minimal
/// delay, no B frames, CAVLC (for concealment of lost pictures), and key frames on request.
struct Kind {
    name: &'static str,
    /// Names and values from FFmpeg's documentation of the codec.
    options: &'static [(&'static str, &'static str)],
    /// Whether the encoder's pictures must lie in GPU memory.
    uploads: bool,
}

const NVENC: Kind = Kind {
    name: "h264_nvenc",
    options: &[
        ("preset", "p1"),
        ("tune", "ull"),
        ("zerolatency", "1"),
        ("delay", "0"),
        ("rc", "cbr"),
        ("profile", "baseline"),
        ("coder", "cavlc"),
        ("forced-idr", "1"),
    ],
    uploads: false,
};

const QSV: Kind = Kind {
    name: "h264_qsv",
    options: &[
        ("preset", "veryfast"),
        ("async_depth", "1"),
        ("forced_idr", "1"),
        ("profile", "baseline"),
    ],
    uploads: false,
};

const V4L2: Kind = Kind {
    name: "h264_v4l2m2m",
    options: &[],
    uploads: false,
};

const VAAPI: Kind = Kind {
    name: "h264_vaapi",
    options: &[
        ("async_depth", "1"),
        ("rc_mode", "CBR"),
        ("coder", "cavlc"),
        ("profile", "constrained_baseline"),
    ],
    uploads: true,
};

const LIBX264: Kind = Kind {
    name: "libx264",
    options: &[
        ("preset", "ultrafast"),
        ("tune", "zerolatency"),
        ("profile", "baseline"),
        ("forced-idr", "1"),
    ],
    uploads: false,
};

/// Timeout of a hardware picture: 30 frames at 60 Hz, because the first picture starts a driver (guess).
const PICTURE_TIMEOUT: Duration = Duration::from_millis(500);

/// Poll interval while waiting for a hardware picture.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Key-frame interval without requests: the largest value that every encoder accepts, 4.6 hours at
/// 60 Hz.
const KEY_FRAME_INTERVAL: u32 = 1_000_000;

struct Avcodec {
    name: &'static str,
    library: sys::Encoder,
    settings: Settings,
    total_mbs: u32,
    /// The newest parameter sets, because not every encoder repeats them.
    sets: Vec<u8>,
    joined: Vec<u8>,
    /// Whether the last frame failed, so that references can't be trusted.
    broken: bool,
}

fn open(kind: &'static Kind, settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    settings.check(Codec::H264)?;
    if kind.uploads {
        return Err(EncodeError(format!(
            "{} needs pictures in GPU memory, and this version of OpenUVR does not \
             copy them there: choose another encoder",
            kind.name
        )));
    }
    let (columns, rows) = macroblocks(settings.size).ok_or_else(|| {
        EncodeError(format!(
            "{} has too many macroblocks for H.264",
            settings.size
        ))
    })?;
    let all = options(kind, settings);
    let library = sys::Encoder::open(kind.name, &all, settings.size, PixelFormat::Nv12)
        .map_err(|why| EncodeError(format!("the encoder {} can't be used: {why}", kind.name)))?;
    Ok(Box::new(Avcodec {
        name: kind.name,
        library,
        settings: *settings,
        total_mbs: u32::from(columns) * u32::from(rows),
        sets: Vec::new(),
        joined: Vec::new(),
        broken: true,
    }))
}

/// The options, in the order in which they are set.
fn options(kind: &Kind, settings: &Settings) -> Vec<(&'static str, String)> {
    let word = |(name, value): (&'static str, &str)| (name, value.to_owned());
    let mut all: Vec<(&str, String)> = vec![
        ("video_size", settings.size.to_string()),
        ("pixel_format", "nv12".into()),
        ("time_base", format!("1/{}", settings.fps)),
        ("g", KEY_FRAME_INTERVAL.to_string()),
        ("threads", settings.threads.to_string()),
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
    all.extend(kind.options.iter().copied().map(word));
    all
}

/// A rate-control buffer of one frame, so that no frame is much larger than its share.
fn rate(bitrate: Bitrate, fps: u32) -> [(&'static str, String); 3] {
    let rate = bitrate.0.min(2_000_000_000);
    [
        ("b", rate.to_string()),
        ("maxrate", rate.to_string()),
        ("bufsize", (rate / u64::from(fps).max(1)).to_string()),
    ]
}

impl Avcodec {
    /// Waits for the last submitted picture.
    fn receive(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while !self.library.receive()? {
            if begin.elapsed() >= PICTURE_TIMEOUT {
                return Err("it delays pictures".into());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn code(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        key_frame: bool,
    ) -> Result<(), String> {
        // Pictures of failed frames are discarded, because they would be mistaken for this one.
        while self.library.receive()? {}
        self.library.send(picture, ask.frame.0.into(), key_frame)?;
        self.receive()?;
        match self.library.packet() {
            (pts, _) if pts != i64::from(ask.frame.0) => {
                Err("the encoder returned another frame".into())
            }
            (_, []) => Err("the encoder returned an empty picture".into()),
            _ => Ok(()),
        }
    }
}

impl Encoder for Avcodec {
    fn input(&self) -> PixelFormat {
        PixelFormat::Nv12
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
        check_picture(picture, self.settings.size, PixelFormat::Nv12)?;
        let key_frame = ask.key_frame || self.broken;
        self.broken = true;
        self.code(picture, ask, key_frame).map_err(|why| {
            EncodeError(format!(
                "{} could not encode frame {}: {why}; ask for a key frame",
                self.name, ask.frame.0
            ))
        })?;
        let (_, packet) = self.library.packet();
        let mut parts: Vec<&[u8]> = units(packet).collect();
        let sets = |parts: &[&[u8]]| -> Vec<u8> {
            let sets = parts.iter().filter(|u| Unit::of(u) == Unit::ParameterSet);
            sets.copied().flatten().copied().collect()
        };
        let came = sets(&parts);
        if !came.is_empty() {
            self.sets = came;
        } else if parts.iter().any(|unit| is_key(unit)) {
            parts.insert(0, &self.sets);
        }
        let encoded = deliver(&parts, (1, self.total_mbs), &mut self.joined, sink)?;
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
        for (name, value) in rate(bitrate, self.settings.fps) {
            (self.library.set(name, &value)).map_err(|why| {
                EncodeError(format!("{} can't change its bitrate: {why}", self.name))
            })?;
        }
        self.settings.rate = Rate::Cbr(bitrate);
        Ok(())
    }
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
