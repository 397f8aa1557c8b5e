//! The renditions that a host offers: which encoders, and which of them a client gets.

use std::sync::atomic::{AtomicU32, Ordering};

use openuvr_media::encode::{self, Pixels};
use openuvr_proto::id::RenditionId;
use openuvr_proto::send::rendition;

/// How the pictures of a rendition are encoded.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// The encoder's name in [`encode::BACKENDS`].
    pub encoder: String,
    /// Slices a frame, 1–64.
    pub slices: u8,
    /// Encoder threads, 1–64.
    pub threads: u8,
    /// Whether motion is searched to quarters of a pixel; `None`: for pictures of at most
    /// [`SUBPEL_PIXELS`].
    pub subpel: Option<bool>,
    /// As what colours are coded; `None`: as the encoder usually does.
    pub pixels: Option<Pixels>,
    /// Who decides how many bits a picture gets; `None`: who usually does with this encoder.
    pub rate: Option<encode::Rate>,
    /// With [`Recovery::Refresh`](openuvr_proto::send::policy::Recovery::Refresh): an intra
    /// refresh every so many frames, 2 or more, wanted or not; `None`: only those that are wanted.
    pub refresh_every: Option<u16>,
    /// Frame rate (which the capture enforces), bit rate, and what is done about losses; recovery by
    /// refresh needs an encoder that can.
    pub rendition: rendition::Settings,
}

/// The largest picture whose motion is searched to quarters of a pixel by itself: 1280 × 720, where
/// it costs 1.2 ms a frame and gains 3.5 dB of luma (two cores, both ends on them); at 1920 × 1080 it
/// costs about 3 ms, and the picture would come late.
pub const SUBPEL_PIXELS: usize = 1280 * 720;

/// The encodings of a host. A client gets the first that it can decode, together with all who get the
/// same, or an encoder of its own.
#[derive(Debug)]
pub struct Encodings {
    /// At least one; no two of one codec.
    all: Vec<Encoding>,
    encoder_per_client: bool,
    /// Renditions of one client each until now.
    own: AtomicU32,
}

/// Which rendition a client gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Assigned {
    pub(super) rendition: RenditionId,
    /// Its place in [`Encodings::all`].
    pub(super) encoding: usize,
}

impl Encodings {
    /// The most wanted first; `encoder_per_client`: an encoder for each client.
    #[must_use]
    pub fn new(all: Vec<Encoding>, encoder_per_client: bool) -> Encodings {
        Encodings {
            all,
            encoder_per_client,
            own: AtomicU32::new(0),
        }
    }

    /// All of them, the most wanted first.
    #[must_use]
    pub fn all(&self) -> &[Encoding] {
        &self.all
    }

    /// Whether each client has its own encoder, whose rate and references follow what this client says.
    #[must_use]
    pub fn encoder_per_client(&self) -> bool {
        self.encoder_per_client
    }

    /// What a client gets that decodes `codecs` (bit n for codec number n): the first that is among them,
    /// else the first of all.
    pub(super) fn assign(&self, codecs: u32) -> Assigned {
        let decodes = |encoding: &Encoding| {
            let codec = codec_of(&encoding.encoder);
            codec.is_some_and(|codec| codecs & 1 << codec != 0)
        };
        let encoding = self.all.iter().position(decodes).unwrap_or(0);
        let number = match self.encoder_per_client {
            true => self.own.fetch_add(1, Ordering::Relaxed),
            false => u32::try_from(encoding).unwrap_or(u32::MAX - 1),
        };
        Assigned {
            rendition: RenditionId(number + 1),
            encoding,
        }
    }
}

/// The number on the wire of what an encoder makes.
#[must_use]
pub fn codec_of(encoder: &str) -> Option<u8> {
    encode::BACKENDS
        .iter()
        .find(|b| b.name == encoder)
        .map(|b| b.codec as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::config::Config;

    fn encodings(encoder_per_client: bool) -> Encodings {
        let config = Config {
            encoders: vec!["x264".into(), "jpeg".into()],
            ..Config::default()
        };
        Encodings::new(config.encodings().unwrap(), encoder_per_client)
    }

    #[test]
    fn a_client_gets_the_first_encoder_it_can_decode() {
        let [h264, jpeg] = ["x264", "jpeg"].map(|name| 1 << codec_of(name).unwrap());
        let all = encodings(false);
        let got = |codecs| {
            let Assigned {
                rendition,
                encoding,
            } = all.assign(codecs);
            (rendition.0, encoding)
        };
        assert_eq!(got(h264), (1, 0));
        assert_eq!(got(jpeg), (2, 1));
        assert_eq!(got(h264 | jpeg), (1, 0));
        assert_eq!(got(jpeg), (2, 1), "shared with the one before");
    }

    #[test]
    fn each_client_gets_a_rendition_of_its_own() {
        let all = encodings(true);
        let given: Vec<u32> = (0..3).map(|_| all.assign(u32::MAX).rendition.0).collect();
        assert_eq!(given, [1, 2, 3]);
    }
}
