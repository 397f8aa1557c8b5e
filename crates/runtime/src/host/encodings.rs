//! The renditions that a host offers, and their assignment to clients.

use std::sync::atomic::{AtomicU32, Ordering};

use openuvr_media::encode::{self, Backend, Chroma, EncoderOptions};
use openuvr_proto::id::RenditionId;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::rendition;
use serde::{Deserialize, Deserializer, Serialize};

/// The name of an encoder that [`encode::find`] knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "String")]
pub struct EncoderName(pub &'static str);

// A derived implementation would borrow the name from the input.
impl<'de> Deserialize<'de> for EncoderName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EncoderName, D::Error> {
        let name = String::deserialize(deserializer)?;
        EncoderName::try_from(name).map_err(serde::de::Error::custom)
    }
}

impl AsRef<str> for EncoderName {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl TryFrom<String> for EncoderName {
    type Error = encode::EncodeError;

    fn try_from(name: String) -> Result<EncoderName, encode::EncodeError> {
        encode::find(&name).map(|backend| EncoderName(backend.name))
    }
}

impl From<EncoderName> for String {
    fn from(name: EncoderName) -> String {
        name.0.to_owned()
    }
}

/// How the pictures of a rendition are encoded.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// The encoder.
    pub encoder: &'static Backend,
    /// The options of the encoder's library.
    pub options: EncoderOptions,
    /// Slices per frame, 1–64.
    pub slices: u8,
    /// Encoder threads, 1–64.
    pub threads: u8,
    /// Whether the encoder uses quarter-pixel motion search; if `None`, it does so for pictures of at most
    /// [`SUBPEL_PIXELS`].
    pub subpel: Option<bool>,
    /// The pixel format; `None` for the encoder's default.
    pub pixels: Option<Chroma>,
    /// The rate control; `None` for the encoder's default.
    pub rate: Option<encode::Rate>,
    /// The intra-refresh period in frames (2 or more), with
    /// [`Recovery::Refresh`](openuvr_proto::send::policy::Recovery::Refresh); `None` for refreshes only on demand.
    pub refresh_interval: Option<u16>,
    /// Frame rate (enforced by the capture), bitrate, and loss recovery. Recovery by refresh requires an encoder that
    /// supports it.
    pub rendition: rendition::Settings,
}

/// The size in pixels of the largest picture for which quarter-pixel motion search is the default: 1280 × 720. At this
/// size, the search costs 1.2 ms per frame and increases the luma PSNR by 3.5 dB (host and client on the same two
/// cores). At 1920 × 1080, it costs about 3 ms, and the picture would be late.
pub const SUBPEL_PIXELS: usize = 1280 * 720;

/// The encodings of a host. A client gets the first encoding that it can decode. Clients with the same encoding share
/// an encoder, unless each client has its own encoder.
#[derive(Debug)]
pub struct Encodings {
    /// At least one encoding, and no two with the same codec.
    all: Vec<Encoding>,
    encoder_per_client: bool,
    /// Number of single-client renditions created so far.
    own: AtomicU32,
}

/// The rendition assigned to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Assigned {
    pub(super) rendition: RenditionId,
    /// Index in [`Encodings::all`].
    pub(super) encoding: usize,
}

impl Encodings {
    /// Creates the encodings from `all`, which is in order of preference. `encoder_per_client` states whether each
    /// client has its own encoder.
    #[must_use]
    pub fn new(all: Vec<Encoding>, encoder_per_client: bool) -> Encodings {
        Encodings {
            all,
            encoder_per_client,
            own: AtomicU32::new(0),
        }
    }

    /// All encodings in order of preference.
    #[must_use]
    pub fn all(&self) -> &[Encoding] {
        &self.all
    }

    /// Whether each client has its own encoder. The encoder's rate and reference frames then follow that client's
    /// feedback.
    #[must_use]
    pub fn encoder_per_client(&self) -> bool {
        self.encoder_per_client
    }

    /// Whether the host needs ECN counts from its player.
    pub(super) fn use_l4s(&self) -> bool {
        let mut policies = self.all.iter().map(|encoding| encoding.rendition.policy);
        policies.any(|policy| policy.adaptive && policy.l4s != L4sMode::Off)
    }

    /// Assigns a rendition to a client that decodes `codecs` (bit n for codec number n). The client gets the first
    /// encoding with such a codec, or the first of all encodings if there is none.
    pub(super) fn assign(&self, codecs: u32) -> Assigned {
        let decodes = |encoding: &Encoding| codecs & 1 << encoding.encoder.codec as u8 != 0;
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

/// The wire number of an encoder's codec.
#[must_use]
pub fn codec_of(encoder: &str) -> Option<u8> {
    let backend = encode::find(encoder).ok()?;
    Some(backend.codec as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::config::Config;

    fn encodings(encoder_per_client: bool) -> Encodings {
        let config = Config {
            encoders: vec![EncoderName("x264"), EncoderName("jpeg")],
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
        let assigned: Vec<u32> = (0..3).map(|_| all.assign(u32::MAX).rendition.0).collect();
        assert_eq!(assigned, [1, 2, 3]);
    }
}
