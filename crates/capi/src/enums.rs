//! The words of the paper's enums, and what serves them here.
//!
//! All cross the boundary as `uint32_t` and are looked up: a number that is none of them is an error.

use std::ffi::{c_char, c_int, c_void};

use openuvr_media::{decode, encode};
use openuvr_net::ladder::Ladder;
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::pairing::Pin;

use crate::error::{Failure, Outcome};
use crate::ffi::{give_text, plain};

/// What encodes at the host. At the MUD the same word names what decodes it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_ENCODER_TYPE {
    /// H.264 on the processor, by libx264.
    OPENUVR_ENCODER_H264 = 1,
    /// H.264 by an NVIDIA GPU (NVENC; at the MUD NVDEC).
    OPENUVR_ENCODER_H264_CUDA = 2,
    /// Pixels as they are, without an encoder: more than a gigabit a second.
    OPENUVR_ENCODER_RGB = 3,
    /// H.264 by an Intel GPU (Quick Sync).
    OPENUVR_ENCODER_H264_QSV = 4,
    /// H.264 by what a small board has (V4L2 memory to memory).
    OPENUVR_ENCODER_H264_V4L2 = 5,
    /// H.264 through VA-API. It wants pictures in the GPU's memory, which is not possible yet.
    OPENUVR_ENCODER_H264_VAAPI = 6,
    /// H.264 on the processor, by libopenh264.
    OPENUVR_ENCODER_OPENH264 = 7,
    /// JPEG in bands: less time and five times the network.
    OPENUVR_ENCODER_JPEG = 8,
}

/// How video reaches the MUD.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_NETWORK_TYPE {
    /// Whatever works best between the two, found by trying.
    OPENUVR_NETWORK_ANY = 0,
    /// TCP: never, since a lost datagram would hold up all that follow.
    OPENUVR_NETWORK_TCP = 1,
    /// UDP.
    OPENUVR_NETWORK_UDP = 2,
    /// Ethernet frames without IP (the paper's). Needs the capability CAP_NET_RAW, and a MUD on the
    /// same segment.
    OPENUVR_NETWORK_RAW = 3,
    /// The same through rings of AF_PACKET that are mapped into this process. Never chosen by ANY:
    /// measured, they are no faster.
    OPENUVR_NETWORK_RAW_RING = 4,
    /// Frames of 802.11 injected into a monitor interface: not built here.
    OPENUVR_NETWORK_INJECT = 5,
    /// A bare stream of bytes for other players: not built here.
    OPENUVR_NETWORK_UDP_COMPAT = 6,
    /// UDP whose batches the kernel splits.
    OPENUVR_NETWORK_UDP_GSO = 7,
    /// Ethernet frames through AF_XDP, if the library was built with it.
    OPENUVR_NETWORK_XDP = 8,
}

/// What `openuvr_set_feature` sets. Once the thread is started, the bitrate and how the pixel buffer is
/// to be read (width, height, format, stride) may be set, the others not.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_FEATURE {
    /// Most frames a second, 1 to 240; 60 unless set.
    OPENUVR_FEATURE_TARGET_FPS = 1,
    /// Most kilobits a second that the video takes, 100 to 1000000; 20000 unless set, 60000 with
    /// JPEG, 1000000 with RGB.
    OPENUVR_FEATURE_BITRATE = 2,
    /// Pixels per row, 1 to 16384; 1920 unless set.
    OPENUVR_FEATURE_WIDTH = 3,
    /// Rows, 1 to 16384; 1080 unless set.
    OPENUVR_FEATURE_HEIGHT = 4,
    /// How the pixel buffer's bytes are to be read, an `OPENUVR_PIXEL_FORMAT`; RGB unless set.
    OPENUVR_FEATURE_FORMAT = 5,
    /// The port, 0 to 65535; 4710 unless set, 0: one that the system chooses.
    OPENUVR_FEATURE_PORT = 6,
    /// Parts of a picture, each sent as soon as it is encoded, 1 to 64; 8 unless set.
    OPENUVR_FEATURE_SLICES = 7,
    /// Threads of the encoder, 1 to 64; as suits the machine unless set.
    OPENUVR_FEATURE_ENCODER_THREADS = 8,
    /// 1: let in a new device with a random PIN; 0, as unless set: only if none is known yet.
    OPENUVR_FEATURE_PAIRING = 9,
    /// 1, as unless set: threads ask for real-time scheduling; 0: they do not.
    OPENUVR_FEATURE_REALTIME = 10,
    /// Bytes from the start of a row of the pixel buffer to the next; 0, as unless set: the least
    /// that holds a row and is a multiple of 4 (`GL_PACK_ALIGNMENT` as it is unless set).
    OPENUVR_FEATURE_STRIDE = 11,
    /// The encoder, an `OPENUVR_ENCODER_TYPE`, in place of the context's.
    OPENUVR_FEATURE_ENCODER = 12,
}

/// Devices by the ids that both ends know. Any other id from 0 to 255 may be used as well.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_DEVICE {
    /// The mouse.
    OPENUVR_DEVICE_SYS_MOUSE = 1,
    /// The keyboard.
    OPENUVR_DEVICE_SYS_KEYBOARD = 2,
    /// A game controller.
    OPENUVR_DEVICE_SYS_GAMEPAD = 3,
    /// What tells how the head is turned.
    OPENUVR_DEVICE_SYS_HEAD = 4,
}

/// Where the player's input goes at the host.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_INPUT_TO {
    /// To the application: `openuvr_next_input`, or the callback.
    OPENUVR_INPUT_TO_APPLICATION = 0,
    /// Into an X display, by XTEST: for an application that already reads its window's events.
    /// `openuvr_set_viewport` says where the picture lies there.
    OPENUVR_INPUT_TO_DISPLAY = 1,
    /// Nowhere.
    OPENUVR_INPUT_TO_NOTHING = 2,
}

/// Where a MUD's pictures go.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_SURFACE {
    /// Into a window of its own.
    OPENUVR_SURFACE_WINDOW = 0,
    /// To the application: `openuvr_next_frame`, or the callback.
    OPENUVR_SURFACE_APPLICATION = 1,
}

use OPENUVR_ENCODER_TYPE::*;
use OPENUVR_FEATURE::*;
use OPENUVR_NETWORK_TYPE::*;

/// An encoder's word: the names of what serves it at the host and at the MUD.
pub(crate) struct EncoderWord {
    pub(crate) word: OPENUVR_ENCODER_TYPE,
    pub(crate) encoder: &'static str,
    pub(crate) decoder: Decoding,
}

/// What serves an encoder's word at the MUD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decoding {
    /// What decodes it anyway, on the processor.
    Usual,
    /// Hardware, by the name of its decoder: that or nothing.
    Hardware(&'static str),
    /// Nothing: why.
    None(&'static str),
}

const fn coded(
    word: OPENUVR_ENCODER_TYPE,
    encoder: &'static str,
    decoder: Decoding,
) -> EncoderWord {
    EncoderWord {
        word,
        encoder,
        decoder,
    }
}

const ENCODERS: &[EncoderWord] = &[
    coded(OPENUVR_ENCODER_H264, "x264", Decoding::Usual),
    coded(
        OPENUVR_ENCODER_H264_CUDA,
        "h264_nvenc",
        Decoding::Hardware("h264_cuvid"),
    ),
    coded(OPENUVR_ENCODER_RGB, "raw", Decoding::Usual),
    coded(
        OPENUVR_ENCODER_H264_QSV,
        "h264_qsv",
        Decoding::Hardware("h264_qsv"),
    ),
    coded(
        OPENUVR_ENCODER_H264_V4L2,
        "h264_v4l2m2m",
        Decoding::Hardware("h264_v4l2m2m"),
    ),
    coded(
        OPENUVR_ENCODER_H264_VAAPI,
        "h264_vaapi",
        Decoding::None("nothing here decodes by VA-API"),
    ),
    coded(OPENUVR_ENCODER_OPENH264, "openh264", Decoding::Usual),
    coded(OPENUVR_ENCODER_JPEG, "jpeg", Decoding::Usual),
];

/// A network's word: its transport (`None`: all that work), or what would do in its place.
type NetworkWord = (
    OPENUVR_NETWORK_TYPE,
    Result<Option<Rung>, (&'static str, &'static str)>,
);

const NETWORKS: &[NetworkWord] = &[
    (OPENUVR_NETWORK_ANY, Ok(None)),
    (
        OPENUVR_NETWORK_TCP,
        Err((
            "TCP",
            "OPENUVR_NETWORK_UDP, whose losses are mended without waiting",
        )),
    ),
    (OPENUVR_NETWORK_UDP, Ok(Some(Rung::Udp))),
    (OPENUVR_NETWORK_RAW, Ok(Some(Rung::Raw))),
    (OPENUVR_NETWORK_RAW_RING, Ok(Some(Rung::Ring))),
    (
        OPENUVR_NETWORK_INJECT,
        Err(("the injection of 802.11 frames", "OPENUVR_NETWORK_RAW")),
    ),
    (
        OPENUVR_NETWORK_UDP_COMPAT,
        Err((
            "a bare stream for other players",
            "OPENUVR_NETWORK_UDP with a MUD of this library",
        )),
    ),
    (OPENUVR_NETWORK_UDP_GSO, Ok(Some(Rung::UdpGso))),
    (OPENUVR_NETWORK_XDP, Ok(Some(Rung::Xdp))),
];

const FEATURES: &[OPENUVR_FEATURE] = &[
    OPENUVR_FEATURE_TARGET_FPS,
    OPENUVR_FEATURE_BITRATE,
    OPENUVR_FEATURE_WIDTH,
    OPENUVR_FEATURE_HEIGHT,
    OPENUVR_FEATURE_FORMAT,
    OPENUVR_FEATURE_PORT,
    OPENUVR_FEATURE_SLICES,
    OPENUVR_FEATURE_ENCODER_THREADS,
    OPENUVR_FEATURE_PAIRING,
    OPENUVR_FEATURE_REALTIME,
    OPENUVR_FEATURE_STRIDE,
    OPENUVR_FEATURE_ENCODER,
];

const INPUTS: &[OPENUVR_INPUT_TO] = &[
    OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_APPLICATION,
    OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_DISPLAY,
    OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_NOTHING,
];

const SURFACES: &[OPENUVR_SURFACE] = &[
    OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW,
    OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION,
];

/// Whether this machine serves `encoder` (of `OPENUVR_ENCODER_TYPE`) at a host over `network` (of
/// `OPENUVR_NETWORK_TYPE`): 0, or an error, and then `why` holds the reason and what would work,
/// as far as `why_size` bytes go. It codes a small picture and opens a socket for a moment: some
/// tens of milliseconds. `why` may be NULL. From any thread.
///
/// # Safety
/// `why` is NULL or writable for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_check_support(
    encoder: u32,
    network: u32,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    plain(|| {
        let outcome = serves(encoder, network);
        if let Err(failure) = &outcome {
            // SAFETY: the caller has promised this function the same.
            unsafe { give_text(&failure.why, why, why_size) };
        }
        outcome
    })
}

/// The same for what a MUD decodes.
///
/// # Safety
/// `why` is NULL or writable for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_check_mud_support(
    decoder: u32,
    network: u32,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    plain(|| {
        let outcome = mud_serves(decoder, network);
        if let Err(failure) = &outcome {
            // SAFETY: the caller has promised this function the same.
            unsafe { give_text(&failure.why, why, why_size) };
        }
        outcome
    })
}

pub(crate) fn serves(encoder: u32, network: u32) -> Outcome<()> {
    let word = self::encoder(encoder)?;
    let only = self::network(network)?;
    encoder_works(word)?;
    let bind = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
    match Ladder::host(bind, only) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure::unavailable(format!(
            "{e}: OPENUVR_NETWORK_UDP would work"
        ))),
    }
}

pub(crate) fn mud_serves(decoder: u32, network: u32) -> Outcome<()> {
    let word = self::encoder(decoder)?;
    let only = self::network(network)?;
    let works = match word.decoder {
        Decoding::Usual => Ok(()),
        Decoding::Hardware(name) => decode::find(name)
            .and_then(decode::probe)
            .map(drop)
            .map_err(|e| e.to_string()),
        Decoding::None(why) => Err(why.to_owned()),
    };
    works.map_err(|e| Failure::unavailable(format!("{e}: OPENUVR_ENCODER_H264 would work")))?;
    match Ladder::client(only) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure::unavailable(format!(
            "{e}: OPENUVR_NETWORK_UDP would work"
        ))),
    }
}

/// Codes a small picture with it.
fn encoder_works(word: &EncoderWord) -> Outcome<()> {
    let works = |name: &str| encode::find(name).and_then(encode::probe);
    let Err(e) = works(word.encoder) else {
        return Ok(());
    };
    let other = ENCODERS
        .iter()
        .find(|other| other.word != word.word && works(other.encoder).is_ok());
    let would = match other {
        Some(other) => format!("{:?} would work", other.word),
        None => "no other encoder works here either".to_owned(),
    };
    Err(Failure::unavailable(format!("{e}: {would}")))
}

pub(crate) fn encoder(word: u32) -> Outcome<&'static EncoderWord> {
    let found = ENCODERS.iter().find(|known| known.word as u32 == word);
    found.ok_or_else(|| Failure::argument(format!("{word} is none of OPENUVR_ENCODER_TYPE")))
}

pub(crate) fn network(word: u32) -> Outcome<Option<Rung>> {
    let found = NETWORKS.iter().find(|(known, _)| *known as u32 == word);
    match found {
        None => Err(Failure::argument(format!(
            "{word} is none of OPENUVR_NETWORK_TYPE"
        ))),
        Some((_, Ok(only))) => Ok(*only),
        Some((_, Err((what, would)))) => Err(Failure::unavailable(format!(
            "{what} is not served: {would} would work"
        ))),
    }
}

pub(crate) fn feature(word: u32) -> Outcome<OPENUVR_FEATURE> {
    one_of(FEATURES, |known| known as u32, word, "OPENUVR_FEATURE")
}

pub(crate) fn input_to(word: u32) -> Outcome<OPENUVR_INPUT_TO> {
    one_of(INPUTS, |known| known as u32, word, "OPENUVR_INPUT_TO")
}

pub(crate) fn surface(word: u32) -> Outcome<OPENUVR_SURFACE> {
    one_of(SURFACES, |known| known as u32, word, "OPENUVR_SURFACE")
}

/// A PIN, as both ends are given it.
pub(crate) fn pin(pin: &str) -> Outcome<Pin> {
    Pin::parse(pin).map_err(|e| Failure::argument(format!("pin: {e}")))
}

/// A number of the configuration in the type that the settings have for it.
pub(crate) fn narrow<T: TryFrom<u32>>(what: &str, value: u32) -> Outcome<T> {
    T::try_from(value).map_err(|_| Failure::argument(format!("{what}: {value} is out of range")))
}

fn one_of<T: Copy>(all: &[T], number: impl Fn(T) -> u32, word: u32, name: &str) -> Outcome<T> {
    let found = all.iter().find(|known| number(**known) == word);
    let none = || Failure::argument(format!("{word} is none of {name}"));
    found.copied().ok_or_else(none)
}

/// A pixel buffer's name, as `openuvr_alloc_context` is given it: where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferName(pub(crate) *const c_void);

// SAFETY: it is only read on the thread that made it or gives pictures, as the header says.
unsafe impl Send for BufferName {}
// SAFETY: as above.
unsafe impl Sync for BufferName {}
