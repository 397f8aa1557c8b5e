//! A media track to a browser: builds RTP packets with sequence numbers, timestamps and a playout delay of zero.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_clock as clock;
use str0m::Rtc;
use str0m::format::{Codec, PayloadParams};
use str0m::media::{MediaTime, Mid, Pt};
use str0m::rtp::{ExtensionValues, RtpWrite, SeqNo};

use crate::video_codec::VideoCodec;

/// RTP clock rate for H.264 (RFC 6184 section 8.2.1) and VP9 (RFC 9628 section 6.1) in Hz.
const VIDEO_CLOCK: i64 = 90_000;

/// A video payload.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) codec: VideoCodec,
    /// See [`crate::packetise`].
    pub(crate) payload: Arc<[u8]>,
    /// Last packet of the frame.
    pub(crate) last: bool,
    /// Capture time of the frame.
    pub(crate) captured: openuvr_proto::time::Instant,
}

/// A sound payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) captured: openuvr_proto::time::Instant,
    /// Number of preceding samples. Opus timestamps count samples, independently of clocks.
    pub(crate) samples: u64,
}

pub(super) struct Track {
    pub(super) mid: Mid,
    /// The payload type of the best format of each codec.
    formats: Vec<(Codec, Pt)>,
    /// Number of the next packet.
    seq: u64,
}

impl Track {
    /// The track `mid` in the formats that both sides support; `None` if there is none.
    pub(super) fn of(rtc: &Rtc, mid: Mid) -> Option<Track> {
        let media = rtc.media(mid)?;
        let theirs = media.remote_pts();
        let ours = rtc.codec_config().params().iter();
        let shared = ours.filter(|params| theirs.contains(&params.pt()));
        let mut ranked: Vec<_> = shared
            .filter_map(|params| Some((rank(params)?, params.spec().codec, params.pt())))
            .collect();
        ranked.sort_by_key(|(rank, ..)| Reverse(*rank));
        let mut formats: Vec<(Codec, Pt)> = Vec::new();
        for (_, codec, pt) in ranked {
            if formats.iter().all(|(known, _)| *known != codec) {
                formats.push((codec, pt));
            }
        }
        let seq = 1;
        (!formats.is_empty()).then_some(Track { mid, formats, seq })
    }

    fn payload_type(&self, codec: Codec) -> Option<Pt> {
        let mut formats = self.formats.iter();
        formats.find(|(of, _)| *of == codec).map(|(_, pt)| *pt)
    }

    pub(super) fn write_video(&mut self, rtc: &mut Rtc, packet: &Packet) {
        let codec = match packet.codec {
            VideoCodec::H264 => Codec::H264,
            VideoCodec::Vp9 => Codec::Vp9,
        };
        let Some(pt) = self.payload_type(codec) else {
            return;
        };
        let time = video_ticks(packet.captured);
        // Without this playout delay of zero, a browser delays playout by up to 20 ms for late packets.
        let extensions = ExtensionValues {
            play_delay_min: Some(MediaTime::ZERO),
            play_delay_max: Some(MediaTime::ZERO),
            ..ExtensionValues::default()
        };
        let write = self.packet(pt, packet.payload.clone(), time, packet.captured);
        let write = write
            .marker(packet.last)
            .ext_vals(extensions)
            .nackable(true);
        self.write(rtc, write);
    }

    pub(super) fn write_sound(&mut self, rtc: &mut Rtc, sound: &Sound<'_>) {
        let Some(pt) = self.payload_type(Codec::Opus) else {
            return;
        };
        // This wraps, as RTP timestamps do.
        #[allow(clippy::cast_possible_truncation)]
        let time = sound.samples as u32;
        let write = self.packet(pt, sound.payload, time, sound.captured);
        self.write(rtc, write.nackable(true));
    }

    fn packet(
        &self,
        pt: Pt,
        payload: impl Into<Arc<[u8]>>,
        time: u32,
        at: openuvr_proto::time::Instant,
    ) -> RtpWrite {
        let ago = clock::now().since(at).min(Duration::from_secs(10));
        let now = Instant::now();
        let wallclock = now.checked_sub(ago).unwrap_or(now);
        RtpWrite::new(pt, SeqNo::from(self.seq), time, wallclock, payload)
    }

    fn write(&mut self, rtc: &mut Rtc, write: RtpWrite) {
        if let Some(stream) = rtc.direct_api().stream_tx_by_mid(self.mid, None) {
            if self.seq == 1 {
                // With pacing, the congestion control spreads the packets of a key frame over 10 ms (measured).
                stream.set_unpaced(true);
            }
            stream.write_rtp(write);
            self.seq += 1;
        }
    }
}

/// Rank of a format; `None` if it is unsupported.
fn rank(params: &PayloadParams) -> Option<u8> {
    let spec = params.spec();
    match spec.codec {
        Codec::Opus => Some(0),
        Codec::Vp9 if spec.format.profile_id.unwrap_or(0) == 0 => Some(0),
        Codec::H264 if spec.format.packetization_mode == Some(1) => {
            // Constrained baseline is closest to the output of the host's encoders, and baseline is second.
            let profile = spec.format.profile_level_id.unwrap_or(0) >> 8;
            Some(match profile {
                0x42e0 => 2,
                0x4200 => 1,
                _ => 0,
            })
        }
        _ => None,
    }
}

/// A time in ticks of the video's RTP clock: 32 bits, wrapping.
pub(crate) fn video_ticks(at: openuvr_proto::time::Instant) -> u32 {
    let ticks = i128::from(at.0) * i128::from(VIDEO_CLOCK) / 1_000_000_000;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let wrapped = ticks as u32;
    wrapped
}
