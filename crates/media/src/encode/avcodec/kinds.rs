//! The encoders of libavcodec that are known by name, with their options for minimal delay: no B-frames, no look-ahead,
//! one picture in flight, key frames on request.
//!
//! Sources of the options' names and values:
//! - FFmpeg's documentation ("Codecs", sections "VAAPI encoders", "QSV encoders", "AMD AMF", "libx264, libx264rgb" and
//!   "libx265");
//! - the output of `ffmpeg -h encoder=NAME` of FFmpeg 5.1;
//! - for Vulkan and AMF, `vulkan_encode.h`, `hw_base_encode.h` and `amfenc_*.c` of FFmpeg 7.1.
//!
//! The hardware encoders are unverified.
//!
//! libavcodec offers neither a choice of the reference picture nor an intra refresh on request for these encoders, so
//! the host recovers from losses with key frames. Some encoders have an option for a periodic intra refresh
//! (`intra-refresh` of NVENC, `int_ref_type` of QSV, `intra_refresh_mb` of AMF).

use std::borrow::Cow;

use super::super::{Backend, Chroma, Codec, RateSupport};
use super::limits;
use crate::picture::PixelFormat;

/// An encoder of libavcodec.
pub(super) struct Kind {
    name: &'static str,
    about: &'static str,
    codec: Codec,
    /// Names and values of options that the encoder must accept, in addition to the options that all encoders have.
    pub(super) options: &'static [(&'static str, &'static str)],
    /// Names and values of options that some versions of the encoder lack. A missing option is not an error.
    pub(super) hints: &'static [(&'static str, &'static str)],
    /// The accepted pixel formats, the preferred one first.
    pub(super) inputs: &'static [PixelFormat],
    pub(super) memory: Memory,
    /// Whether the encoder's threads work on the same picture. An encoder whose threads work on different pictures gets
    /// only one thread, because more threads would delay the pictures.
    pub(super) slice_threads: bool,
    pub(super) new_bitrate: NewBitrate,
    hardware: bool,
}

/// How an encoder gets a new bitrate. The source is FFmpeg's code: `libx264.c`, `libx265.c`, `nvenc.c`, `qsvenc.c` and
/// `v4l2_m2m_enc.c`. The encoders of VA-API, AMF and Vulkan set up their rate control only when they are opened. Only
/// newer versions of QSV read the bitrate again (`update_bitrate`), so QSV is opened again, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NewBitrate {
    /// The running encoder reads the options of the rate at each picture (`reconfig_encoder` of `libx264.c`).
    Running,
    /// Like `Running`, but a changed option makes the next picture a key frame (`forceIDR` in `nvenc.c`).
    KeyFrame,
    /// The encoder must be opened again, so the next picture is a key frame.
    Reopened,
}

/// The memory from which an encoder takes pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// Main memory. If the encoder uses a device, it uploads the pictures itself.
    Main,
    /// The memory of a device of this type. The device's opaque pixel format has the same name as the type.
    Device(&'static str),
}

impl Kind {
    /// A software encoder that takes pictures from main memory, without options.
    pub(super) const PLAIN: Kind = Kind {
        hardware: false,
        ..HARDWARE
    };

    /// The kind of the encoder `name`: an entry of [`KINDS`], otherwise [`OTHER`].
    pub(super) fn of(name: &str) -> &'static Kind {
        let known = KINDS.iter().find(|kind| kind.name == name);
        known.unwrap_or(&OTHER)
    }

    /// The value for the configured option `name`. If the option is a list to which the host adds entries, the result
    /// contains these entries, too.
    pub(super) fn completed<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        let mut lists = (self.options.iter()).filter(|(list, _)| limits::LISTS.contains(list));
        match lists.find(|(list, _)| *list == name) {
            Some((_, own)) => format!("{own}:{value}").into(),
            None => value.into(),
        }
    }

    /// The entry in the table of encoders.
    const fn backend(&self) -> Backend {
        Backend {
            name: self.name,
            about: self.about,
            codec: self.codec,
            pixels: &[Chroma::Yuv420],
            rates: RateSupport::Cbr,
            refreshes: false,
            options: Some("ffmpeg -h encoder=NAME"),
            hardware: self.hardware,
            open: super::open,
        }
    }
}

/// The backend of an encoder that is not in [`KINDS`].
pub(super) const fn other(name: &'static str, codec: Codec) -> Backend {
    Backend {
        name,
        codec,
        ..OTHER.backend()
    }
}

/// Number of entries in [`KINDS`].
pub(super) const COUNT: usize = KINDS.len();

/// The entries in the table of encoders, one per entry of [`KINDS`].
pub(super) const fn backends() -> [Backend; COUNT] {
    let mut all = [OTHER.backend(); COUNT];
    let mut n = 0;
    while n < COUNT {
        all[n] = KINDS[n].backend();
        n += 1;
    }
    all
}

const HARDWARE: Kind = Kind {
    name: "",
    about: "",
    codec: Codec::H264,
    options: &[],
    hints: &[],
    inputs: &[PixelFormat::Nv12],
    memory: Memory::Main,
    slice_threads: false,
    new_bitrate: NewBitrate::Reopened,
    hardware: true,
};

/// The kind of encoders that are not in [`KINDS`]. It has only hints, because the encoders' options are unknown.
const OTHER: Kind = Kind {
    about: "an encoder of libavcodec; whole pictures",
    hints: &[
        ("tune", "zerolatency"),
        ("forced-idr", "1"),
        ("forced_idr", "1"),
        ("async_depth", "1"),
        ("rc-lookahead", "0"),
    ],
    inputs: &[PixelFormat::Nv12, PixelFormat::I420],
    // The encoder may use the video unit of a small board.
    hardware: true,
    ..HARDWARE
};

const KINDS: &[Kind] = &[
    Kind {
        name: "h264_nvenc",
        about: "H.264 by an NVIDIA GPU, through libavcodec; whole pictures",
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
        hints: NVENC_HINTS,
        new_bitrate: NewBitrate::KeyFrame,
        ..HARDWARE
    },
    Kind {
        name: "h264_qsv",
        about: "H.264 by an Intel GPU (Quick Sync), through libavcodec; whole pictures",
        options: &[
            ("preset", "veryfast"),
            ("async_depth", "1"),
            ("forced_idr", "1"),
            ("profile", "baseline"),
        ],
        hints: QSV_HINTS,
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "h264_v4l2m2m",
        about: "H.264 by a small board's video unit (V4L2), through libavcodec; whole pictures",
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "h264_vaapi",
        about: "H.264 by a GPU's driver (VA-API), through libavcodec; whole pictures",
        options: &[
            ("rc_mode", "CBR"),
            ("coder", "cavlc"),
            ("profile", "constrained_baseline"),
            ("sei", "0"),
        ],
        hints: DEVICE_HINTS,
        memory: Memory::Device("vaapi"),
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "h264_amf",
        about: "H.264 by an AMD GPU (AMF), through libavcodec; whole pictures",
        options: &[
            ("usage", "ultralowlatency"),
            ("quality", "speed"),
            ("rc", "cbr"),
            ("profile", "constrained_baseline"),
        ],
        hints: &[
            ("coder", "cavlc"),
            ("preanalysis", "0"),
            ("frame_skipping", "0"),
            ("forced_idr", "1"),
            ("max_b_frames", "0"),
        ],
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "h264_vulkan",
        about: "H.264 by a GPU's driver (Vulkan Video), through libavcodec 61 or newer; whole pictures",
        options: &[
            ("rc_mode", "cbr"),
            ("tune", "ull"),
            ("usage", "stream"),
            ("content", "rendered"),
            ("profile", "constrained_baseline"),
        ],
        hints: DEVICE_HINTS,
        memory: Memory::Device("vulkan"),
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "hevc_nvenc",
        about: "HEVC by an NVIDIA GPU, through libavcodec; whole pictures",
        codec: Codec::Hevc,
        options: &[
            ("preset", "p1"),
            ("tune", "ull"),
            ("zerolatency", "1"),
            ("delay", "0"),
            ("rc", "cbr"),
            ("profile", "main"),
            ("forced-idr", "1"),
        ],
        hints: NVENC_HINTS,
        new_bitrate: NewBitrate::KeyFrame,
        ..HARDWARE
    },
    Kind {
        name: "hevc_qsv",
        about: "HEVC by an Intel GPU (Quick Sync), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        options: &[
            ("preset", "veryfast"),
            ("async_depth", "1"),
            ("forced_idr", "1"),
            ("profile", "main"),
        ],
        hints: &[("gpb", "0"), ("low_delay_brc", "1")],
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "hevc_v4l2m2m",
        about: "HEVC by a small board's video unit (V4L2), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "hevc_vaapi",
        about: "HEVC by a GPU's driver (VA-API), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        options: &[("rc_mode", "CBR"), ("profile", "main"), ("sei", "0")],
        hints: DEVICE_HINTS,
        memory: Memory::Device("vaapi"),
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "hevc_amf",
        about: "HEVC by an AMD GPU (AMF), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        options: &[
            ("usage", "ultralowlatency"),
            ("quality", "speed"),
            ("rc", "cbr"),
            ("profile", "main"),
        ],
        hints: &[
            ("preanalysis", "0"),
            ("skip_frame", "0"),
            ("forced_idr", "1"),
        ],
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "hevc_vulkan",
        about: "HEVC by a GPU's driver (Vulkan Video), through libavcodec 61 or newer; whole pictures",
        codec: Codec::Hevc,
        options: &[
            ("rc_mode", "cbr"),
            ("tune", "ull"),
            ("usage", "stream"),
            ("content", "rendered"),
            ("profile", "main"),
        ],
        hints: DEVICE_HINTS,
        memory: Memory::Device("vulkan"),
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
    Kind {
        name: "libx264",
        about: "H.264 by libx264 through libavcodec: whole pictures, for comparison with x264",
        options: &[
            ("preset", "ultrafast"),
            ("tune", "zerolatency"),
            ("profile", "baseline"),
            ("forced-idr", "1"),
        ],
        slice_threads: true,
        hardware: false,
        new_bitrate: NewBitrate::Running,
        ..HARDWARE
    },
    Kind {
        name: "libx265",
        about: "HEVC by libx265 through libavcodec: whole pictures, several times x264's encoding time",
        codec: Codec::Hevc,
        options: &[
            ("preset", "ultrafast"),
            ("tune", "zerolatency"),
            ("forced-idr", "1"),
            // Without these parameters, libx265 writes to the process's standard error, and encodes requested key
            // frames as pictures that are not IDR.
            ("x265-params", "log-level=none:open-gop=0"),
        ],
        inputs: &[PixelFormat::I420],
        hardware: false,
        new_bitrate: NewBitrate::Reopened,
        ..HARDWARE
    },
];

const NVENC_HINTS: &[(&str, &str)] = &[
    ("rc-lookahead", "0"),
    ("b_ref_mode", "disabled"),
    ("multipass", "disabled"),
];

const QSV_HINTS: &[(&str, &str)] = &[("look_ahead", "0"), ("low_delay_brc", "1"), ("cavlc", "1")];

/// Hints for the encoders that share FFmpeg's base class for devices (`hw_base_encode.h`).
const DEVICE_HINTS: &[(&str, &str)] = &[("async_depth", "1"), ("b_depth", "1")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_entry_and_fits_its_name() {
        let all = backends();
        for (n, (backend, kind)) in all.iter().zip(KINDS).enumerate() {
            assert_eq!(
                (backend.name, Kind::of(backend.name).name),
                (kind.name, kind.name)
            );
            assert!(
                all[..n].iter().all(|other| other.name != backend.name),
                "{} occurs twice",
                backend.name
            );
            let named = match backend.codec {
                Codec::Hevc => ["hevc_", "libx265"],
                _ => ["h264_", "libx264"],
            };
            assert!(
                named.iter().any(|start| backend.name.starts_with(start)),
                "{}",
                backend.name
            );
            assert_eq!(backend.hardware, !backend.name.starts_with("lib"));
            if let Memory::Device(device) = kind.memory {
                assert!(backend.name.ends_with(device), "{}", backend.name);
            }
        }
        assert!(Kind::of("h264_rkmpp").name.is_empty());
    }

    #[test]
    fn a_configured_list_keeps_the_entries_of_the_host() {
        let kind = Kind::of("libx265");
        let list = kind.completed("x265-params", "aq-mode=1:ref=2");
        assert_eq!(list, "log-level=none:open-gop=0:aq-mode=1:ref=2");
        assert_eq!(kind.completed("preset", "fast"), "fast");
        let none = Kind::of("libx264").completed("x264-params", "ref=2");
        assert_eq!(none, "ref=2");
    }

    #[test]
    fn no_kind_delays_pictures() {
        // If an option can delay pictures, its value here must not delay them.
        for kind in KINDS.iter().chain([&OTHER]) {
            for (name, value) in kind.options.iter().chain(kind.hints) {
                let why = limits::delay(limits::DELAYING, name, value);
                assert_eq!(why, None, "{}: {name}={value}", kind.name);
            }
        }
    }
}
