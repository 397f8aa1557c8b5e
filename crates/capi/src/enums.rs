//! The paper's enums, and how they are implemented here.
//!
//! All are passed as `uint32_t` and looked up. An unknown number is an error.

use std::ffi::{c_char, c_int, c_void};

use openuvr_media::{decode, encode};
use openuvr_net::transport_selection::TransportSelector;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::transport_probe::TransportKind;

use crate::error::{Failure, Outcome};
use crate::ffi::{give_text, plain};

/// The encoder of a host, or the decoder of a MUD.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_ENCODER_TYPE {
    /// H.264 on the CPU, with libx264.
    OPENUVR_ENCODER_H264 = 1,
    /// H.264 on an NVIDIA GPU (NVENC; at the MUD NVDEC).
    OPENUVR_ENCODER_H264_CUDA = 2,
    /// Uncompressed pixels: more than 1 Gbit/s.
    OPENUVR_ENCODER_RGB = 3,
    /// H.264 on an Intel GPU (Quick Sync).
    OPENUVR_ENCODER_H264_QSV = 4,
    /// H.264 with a V4L2 memory-to-memory device, as found on single-board computers.
    OPENUVR_ENCODER_H264_V4L2 = 5,
    /// H.264 on a GPU, through VA-API.
    OPENUVR_ENCODER_H264_VAAPI = 6,
    /// H.264 on the CPU, with libopenh264.
    OPENUVR_ENCODER_OPENH264 = 7,
    /// JPEG in bands: faster, but with about five times the bitrate.
    OPENUVR_ENCODER_JPEG = 8,
}

/// The transport to the MUD.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_NETWORK_TYPE {
    /// The best transport that works, found by probing.
    OPENUVR_NETWORK_ANY = 0,
    /// TCP: not supported, because of head-of-line blocking.
    OPENUVR_NETWORK_TCP = 1,
    /// UDP.
    OPENUVR_NETWORK_UDP = 2,
    /// Raw Ethernet frames without IP, as in the paper. Requires the capability CAP_NET_RAW and a MUD on the same
    /// segment.
    OPENUVR_NETWORK_RAW = 3,
    /// Raw Ethernet frames through memory-mapped AF_PACKET rings. Never chosen by ANY: measurements show no gain.
    OPENUVR_NETWORK_RAW_RING = 4,
    /// 802.11 frames injected into a monitor interface: not implemented.
    OPENUVR_NETWORK_INJECT = 5,
    /// A plain byte stream for third-party video players: not implemented.
    OPENUVR_NETWORK_UDP_COMPAT = 6,
    /// UDP with segmentation offload (GSO).
    OPENUVR_NETWORK_UDP_GSO = 7,
    /// Raw Ethernet frames through AF_XDP, if the library was built with it.
    OPENUVR_NETWORK_XDP = 8,
}

/// The settings of `openuvr_set_feature`. After the threads are started, only the bitrate, the GOP size and the layout
/// of the pixel buffer (width, height, format, stride) can be set.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_FEATURE {
    /// Maximum frames per second, 1 to 240; default 60.
    OPENUVR_FEATURE_TARGET_FPS = 1,
    /// Maximum video bitrate in kbit/s, 100 to 1000000; default 20000, 60000 with JPEG, 1000000 with RGB.
    OPENUVR_FEATURE_BITRATE = 2,
    /// Width in pixels, 1 to 16384; default 1920.
    OPENUVR_FEATURE_WIDTH = 3,
    /// Height in pixels, 1 to 16384; default 1080.
    OPENUVR_FEATURE_HEIGHT = 4,
    /// The pixel format of the pixel buffer, an `OPENUVR_PIXEL_FORMAT`; default RGB.
    OPENUVR_FEATURE_FORMAT = 5,
    /// The port, 0 to 65535; default 4710; 0: an ephemeral port.
    OPENUVR_FEATURE_PORT = 6,
    /// Slices per picture, 1 to 64; default 8. Each slice is sent as soon as it is encoded, if the encoder permits it.
    OPENUVR_FEATURE_SLICES = 7,
    /// Encoder threads, 1 to 64; the default depends on the machine.
    OPENUVR_FEATURE_ENCODER_THREADS = 8,
    /// 1: open pairing with a random PIN; 0, the default: only if no device is paired yet.
    OPENUVR_FEATURE_PAIRING = 9,
    /// 1, the default: threads request real-time scheduling; 0: they do not.
    OPENUVR_FEATURE_REALTIME = 10,
    /// Bytes from the start of a row of the pixel buffer to the next; 0, the default: the row size, rounded
    /// up to a multiple of 4 (the default `GL_PACK_ALIGNMENT`).
    OPENUVR_FEATURE_STRIDE = 11,
    /// The encoder, an `OPENUVR_ENCODER_TYPE`. It replaces the encoder of the context.
    OPENUVR_FEATURE_ENCODER = 12,
    /// The GOP size (paper, IV-B3): the interval between key frames, 1 to 100000 frames; 0, the default: key frames
    /// only on request, that is, when a MUD joins or cannot repair a loss in another way.
    OPENUVR_FEATURE_GOP = 13,
}

/// Device ids that the MUD and the host both know. Any other id from 0 to 255 may be used as well.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_DEVICE {
    /// The mouse.
    OPENUVR_DEVICE_SYS_MOUSE = 1,
    /// The keyboard.
    OPENUVR_DEVICE_SYS_KEYBOARD = 2,
    /// A game controller.
    OPENUVR_DEVICE_SYS_GAMEPAD = 3,
    /// A head tracker.
    OPENUVR_DEVICE_SYS_HEAD = 4,
}

/// The target of the player's input at the host.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_INPUT_TO {
    /// The application, through `openuvr_next_input` or the callback.
    OPENUVR_INPUT_TO_APPLICATION = 0,
    /// An X display, through XTEST: for an application that already reads its window's events. `openuvr_set_viewport` sets
    /// the area of the picture there.
    OPENUVR_INPUT_TO_DISPLAY = 1,
    /// None: input is discarded.
    OPENUVR_INPUT_TO_NOTHING = 2,
}

/// The target of a MUD's pictures.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_SURFACE {
    /// A window of the library.
    OPENUVR_SURFACE_WINDOW = 0,
    /// The application, through `openuvr_next_frame` or the callback.
    OPENUVR_SURFACE_APPLICATION = 1,
}

use OPENUVR_ENCODER_TYPE::*;
use OPENUVR_FEATURE::*;
use OPENUVR_NETWORK_TYPE::*;

/// An encoder type, the name of its encoder at the host, and its decoder at the MUD.
pub(crate) struct EncoderWord {
    pub(crate) word: OPENUVR_ENCODER_TYPE,
    pub(crate) encoder: &'static str,
    pub(crate) decoder: Decoding,
}

/// The decoder for an encoder type at the MUD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decoding {
    /// The default decoder, on the CPU.
    Usual,
    /// A hardware decoder by name, without a fallback.
    Hardware(&'static str),
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
        Decoding::Hardware("h264_vaapi"),
    ),
    coded(OPENUVR_ENCODER_OPENH264, "openh264", Decoding::Usual),
    coded(OPENUVR_ENCODER_JPEG, "jpeg", Decoding::Usual),
];

/// A network type. If it is supported, its transport (`None` means all transports); otherwise, its name and an
/// alternative.
type NetworkWord = (
    OPENUVR_NETWORK_TYPE,
    Result<Option<TransportKind>, (&'static str, &'static str)>,
);

const NETWORKS: &[NetworkWord] = &[
    (OPENUVR_NETWORK_ANY, Ok(None)),
    (
        OPENUVR_NETWORK_TCP,
        Err((
            "TCP",
            "OPENUVR_NETWORK_UDP, which recovers losses without head-of-line blocking",
        )),
    ),
    (OPENUVR_NETWORK_UDP, Ok(Some(TransportKind::Udp))),
    (OPENUVR_NETWORK_RAW, Ok(Some(TransportKind::Raw))),
    (OPENUVR_NETWORK_RAW_RING, Ok(Some(TransportKind::Ring))),
    (
        OPENUVR_NETWORK_INJECT,
        Err(("802.11 frame injection", "OPENUVR_NETWORK_RAW")),
    ),
    (
        OPENUVR_NETWORK_UDP_COMPAT,
        Err((
            "a plain byte stream for third-party video players",
            "OPENUVR_NETWORK_UDP with a MUD of this library",
        )),
    ),
    (OPENUVR_NETWORK_UDP_GSO, Ok(Some(TransportKind::UdpGso))),
    (OPENUVR_NETWORK_XDP, Ok(Some(TransportKind::Xdp))),
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
    OPENUVR_FEATURE_GOP,
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

/// Checks whether this machine supports a host with `encoder` (of `OPENUVR_ENCODER_TYPE`) and `network` (of
/// `OPENUVR_NETWORK_TYPE`). Returns 0 or an error. After an error, `why`, if not NULL, receives the reason and, if
/// there is one, an alternative, truncated to `why_size` bytes. The check encodes a small picture and opens a socket,
/// which takes some tens of milliseconds. From any thread.
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
            // SAFETY: the caller upholds this function's requirements, which include those of the called function.
            unsafe { give_text(&failure.why, why, why_size) };
        }
        outcome
    })
}

/// Checks whether this machine supports a MUD, as `openuvr_check_support` does for a host.
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
            // SAFETY: the caller upholds this function's requirements, which include those of the called function.
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
    match TransportSelector::host(bind, only) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure::unavailable(format!(
            "{e}; use OPENUVR_NETWORK_UDP"
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
    };
    works.map_err(|e| Failure::unavailable(format!("{e}; use OPENUVR_ENCODER_H264")))?;
    match TransportSelector::client(only) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure::unavailable(format!(
            "{e}; use OPENUVR_NETWORK_UDP"
        ))),
    }
}

/// Encodes a small test picture.
fn encoder_works(word: &EncoderWord) -> Outcome<()> {
    let works = |name: &str| encode::find(name).and_then(encode::probe);
    let Err(e) = works(word.encoder) else {
        return Ok(());
    };
    let other = ENCODERS
        .iter()
        .find(|other| other.word != word.word && works(other.encoder).is_ok());
    let would = match other {
        Some(other) => format!("use {:?}", other.word),
        None => "no other encoder works on this machine either".to_owned(),
    };
    Err(Failure::unavailable(format!("{e}; {would}")))
}

pub(crate) fn encoder(word: u32) -> Outcome<&'static EncoderWord> {
    let found = ENCODERS.iter().find(|known| known.word as u32 == word);
    found.ok_or_else(|| Failure::argument(format!("{word} is not an OPENUVR_ENCODER_TYPE")))
}

pub(crate) fn network(word: u32) -> Outcome<Option<TransportKind>> {
    let found = NETWORKS.iter().find(|(known, _)| *known as u32 == word);
    match found {
        None => Err(Failure::argument(format!(
            "{word} is not an OPENUVR_NETWORK_TYPE"
        ))),
        Some((_, Ok(only))) => Ok(*only),
        Some((_, Err((what, would)))) => Err(Failure::unavailable(format!(
            "{what} is not supported: use {would}"
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

pub(crate) fn pin(pin: &str) -> Outcome<Pin> {
    Pin::parse(pin).map_err(|e| Failure::argument(format!("pin: {e}")))
}

/// Converts a number of the configuration to the type of its setting.
pub(crate) fn narrow<T: TryFrom<u32>>(what: &str, value: u32) -> Outcome<T> {
    T::try_from(value).map_err(|_| Failure::argument(format!("{what}: {value} is out of range")))
}

fn one_of<T: Copy>(all: &[T], number: impl Fn(T) -> u32, word: u32, name: &str) -> Outcome<T> {
    let found = all.iter().find(|known| number(**known) == word);
    let none = || Failure::argument(format!("{word} is not an {name}"));
    found.copied().ok_or_else(none)
}

/// The address of a pixel buffer's name, as passed to `openuvr_alloc_context`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferName(pub(crate) *const c_void);

// SAFETY: the header requires that the address stays readable until the context is closed. The threads that submit
// pictures and the thread that polls the buffer read it.
unsafe impl Send for BufferName {}
// SAFETY: as above; all accesses are reads.
unsafe impl Sync for BufferName {}

#[cfg(test)]
mod tests {
    use openuvr_media::codec::Codec;

    use super::*;

    /// No encoder of this API produces VP9, so `openuvr gateway` offers browsers H.264 only.
    #[test]
    fn browsers_need_no_other_codec_than_the_gateways() {
        for one in ENCODERS {
            let codec = encode::find(one.encoder).map(|backend| backend.codec);
            assert_ne!(codec.ok(), Some(Codec::Vp9), "{}", one.encoder);
        }
    }
}
