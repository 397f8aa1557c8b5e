//! VP9 with libvpx, through libavcodec. Only browsers (`openuvr host --web`) receive VP9, because this crate has no
//! decoder for it. Each picture is one slice, and refers only to pictures since the last key frame. After a loss, a
//! browser therefore needs a key frame, as with libavcodec's encoders of H.264.
//!
//! libvpx controls the rate ([`Rate::Cbr`]). libavcodec passes a new bitrate only to a newly opened libvpx, so a large
//! change of the rate costs a key frame. Smaller changes wait for the next key frame. In a running encoder of
//! libavcodec 59 with libvpx 1.12, the bitrate option can be set, but has no effect.
//!
//! Limits: 4:2:0 only, no slices, no intra refresh.

use openuvr_proto::units::Bitrate;

use super::kinds::Kind;
use super::sys;
use crate::encode::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, EncoderOptions, FrameRequest, Opening,
    Rate, RateSupport, Settings, Slice, check_picture,
};
use crate::picture::{Picture, PixelFormat};

const NAME: &str = "libvpx-vp9";

/// The entry in the table of encoders.
pub const BACKEND: Backend = Backend {
    name: NAME,
    about: "VP9 for browsers, by libvpx through libavcodec on the processor; whole pictures",
    codec: Codec::Vp9,
    pixels: &[Chroma::Yuv420],
    rates: RateSupport::Cbr,
    refreshes: false,
    options: None,
    hardware: false,
    open,
};

/// Key-frame interval without requests, as for libavcodec's other encoders.
const KEY_FRAME_INTERVAL: u32 = 1_000_000;

/// Speed of the real-time mode (`cpu-used`). libavcodec accepts −8 to 8, and 8 is the fastest.
const SPEED: u32 = 8;

/// Maximum size of a key frame, in percent of a frame's share of the bitrate. The value is the minimum that libwebrtc
/// uses (`LibvpxVp9Encoder::MaxIntraTarget`).
const LARGEST_KEY_FRAME: u32 = 300;

/// Number of rate-control buffers per second: a buffer holds 200 ms of coded video. Measured with libvpx 1.12 and the
/// film of this crate's tests (640x360, 60 frames/s, 1 Mb/s): with 200 ms, a frame takes 0.6 to 1.4 times its share of
/// the bitrate. With a buffer of one frame, it takes 0.4 to 2.7 times its share. With a buffer of one second, as in
/// libwebrtc, the rate is 40 % too low for a third of a second after each key frame.
const BUFFERS_PER_SECOND: u64 = 5;

struct Vp9 {
    library: sys::Encoder,
    settings: Settings,
    /// The bitrate of the open encoder.
    rate: Bitrate,
    /// The requested bitrate.
    wanted: Bitrate,
    /// Whether the last frame failed, so that references can't be trusted.
    broken: bool,
}

fn open(opening: &Opening<'_>) -> Result<Box<dyn Encoder>, EncodeError> {
    let settings = opening.settings;
    let Rate::Cbr(rate) = settings.rate else {
        return Err(EncodeError(format!(
            "{NAME} does not support the host's rate control: use --rate-control cbr"
        )));
    };
    Ok(Box::new(Vp9 {
        library: library(settings, rate)?,
        settings: *settings,
        rate,
        wanted: rate,
        broken: true,
    }))
}

fn library(settings: &Settings, rate: Bitrate) -> Result<sys::Encoder, EncodeError> {
    let all = options(settings, rate);
    let order = sys::Order {
        name: NAME,
        common: &all,
        kind: &Kind::PLAIN,
        options: &EncoderOptions::NONE,
        input: PixelFormat::I420,
        size: settings.size,
    };
    sys::Encoder::open(&order)
        .map_err(|why| EncodeError(format!("the encoder {NAME} can't be used: {why}")))
}

/// Names and values of the options, which are from FFmpeg's documentation of libvpx.
fn options(settings: &Settings, bitrate: Bitrate) -> Vec<(&'static str, String)> {
    let rate = bitrate.0.min(2_000_000_000);
    let text = |(name, value): (&'static str, &str)| (name, value.to_owned());
    let mut all: Vec<(&str, String)> = vec![
        ("video_size", settings.size.to_string()),
        ("pixel_format", "yuv420p".into()),
        ("time_base", format!("1/{}", settings.fps)),
        ("g", KEY_FRAME_INTERVAL.to_string()),
        ("threads", settings.threads.to_string()),
        // Each thread encodes tile columns. The number of columns is a power of two, and the option is its exponent.
        // libvpx uses fewer columns for a narrow picture.
        ("tile-columns", settings.threads.max(1).ilog2().to_string()),
        ("cpu-used", SPEED.to_string()),
        // Three equal rates select the mode for a constant bitrate.
        ("b", rate.to_string()),
        ("minrate", rate.to_string()),
        ("maxrate", rate.to_string()),
        ("bufsize", (rate / BUFFERS_PER_SECOND).to_string()),
        ("max-intra-rate", LARGEST_KEY_FRAME.to_string()),
    ];
    all.extend(
        [
            ("deadline", "realtime"),
            ("lag-in-frames", "0"),
            // Without alternate reference frames, which are not shown, each packet is one picture.
            ("auto-alt-ref", "0"),
            ("row-mt", "1"),
            ("flags", "+low_delay"),
            ("color_primaries", "bt709"),
            ("color_trc", "bt709"),
            ("colorspace", "bt709"),
            ("color_range", "tv"),
        ]
        .map(text),
    );
    all
}

impl Vp9 {
    /// Whether the encoder must be opened again with the requested bitrate. Opening costs a key frame. The result is
    /// therefore `true` only in two cases: the bitrates differ considerably, or they differ at all and this frame is a
    /// key frame anyway.
    fn must_reopen(&self, key_frame: bool) -> bool {
        (key_frame && self.wanted != self.rate)
            || super::is_worth_a_key_frame(self.rate, self.wanted)
    }
}

/// Receives the last submitted picture. With `lag-in-frames` 0, libvpx finishes a picture during the call that submits
/// it, so there is no need to wait.
fn receive(library: &mut sys::Encoder) -> Result<(), String> {
    match library.receive()? {
        true => Ok(()),
        false => Err("the encoder delays or drops pictures".into()),
    }
}

impl Encoder for Vp9 {
    fn input(&self) -> PixelFormat {
        PixelFormat::I420
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
        check_picture(picture, self.settings.size, PixelFormat::I420)?;
        let mut key_frame = ask.key_frame || self.broken;
        if self.must_reopen(key_frame) {
            self.library = library(&self.settings, self.wanted)?;
            self.rate = self.wanted;
            key_frame = true;
        }
        self.broken = true;
        super::code(&mut self.library, picture, ask, key_frame, receive).map_err(|why| {
            EncodeError(format!(
                "{NAME} could not encode frame {}: {why}; the next frame must be a key frame",
                ask.frame.0
            ))
        })?;
        let (_, bytes) = self.library.packet();
        let encoded = Encoded {
            key_frame: is_key_frame(bytes),
            bytes: bytes.len(),
            clean_after: None,
        };
        if key_frame && !encoded.key_frame {
            return Err(EncodeError(format!(
                "{NAME} did not encode frame {} as the requested key frame: choose another encoder",
                ask.frame.0
            )));
        }
        sink(Slice {
            index: 0,
            first_mb: 0,
            mbs: 0,
            last: true,
            clean_after: None,
            bytes,
        });
        self.broken = false;
        Ok(encoded)
    }

    fn retarget(&mut self, bitrate: Bitrate) -> Result<(), EncodeError> {
        self.wanted = bitrate;
        Ok(())
    }
}

/// Whether a frame of profile 0 is a key frame. The upper six bits of the first byte are the frame marker (two bits,
/// value 2), two bits of the profile, `show_existing_frame`, and `frame_type` (VP9 bitstream specification 6.2).
fn is_key_frame(frame: &[u8]) -> bool {
    frame
        .first()
        .is_some_and(|first| first & 0b1111_1100 == 0b1000_0000)
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;

    use super::*;

    #[test]
    fn only_a_shown_key_frame_counts() {
        for (first, key) in [(0x82, true), (0x86, false), (0x8a, false), (0x42, false)] {
            assert_eq!(is_key_frame(&[first, 0x49]), key, "{first:#x}");
        }
        assert!(!is_key_frame(&[]));
    }

    #[test]
    fn tile_columns_and_buffer_follow_threads_and_rate() {
        let settings = Settings {
            threads: 4,
            ..Settings::of(Size::new(1280, 720))
        };
        let all = options(&settings, Bitrate(10_000_000));
        let value = |name: &str| all.iter().find(|(of, _)| *of == name).map(|(_, v)| &**v);
        assert_eq!(value("tile-columns"), Some("2"));
        assert_eq!(value("bufsize"), Some("2000000"));
        assert_eq!(
            (value("b"), value("minrate")),
            (value("maxrate"), value("b"))
        );
    }
}
