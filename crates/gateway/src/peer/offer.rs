//! The options of connections, and the reasons to refuse a browser's offer.

use super::MAX_CANDIDATES;
use crate::RateControl;
use crate::video_codec::VideoCodec;

/// The options of all connections.
#[derive(Clone, Debug)]
pub(crate) struct MediaOptions {
    /// The host's codecs.
    pub(crate) codecs: Vec<VideoCodec>,
    /// The congestion control.
    pub(crate) rate_control: RateControl,
}

/// Why a browser's offer was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferRefused {
    /// The offer cannot be parsed, or contradicts an earlier one.
    #[error("invalid session description: {0}")]
    Sdp(String),
    /// The browser has sent too many addresses in this connection.
    #[error("more than {MAX_CANDIDATES} network addresses in one connection: reload the page")]
    Addresses,
    /// The offer has no video in a codec of the host. The first field names the host's codecs, and the second one
    /// contains a further remedy or is empty.
    #[error("the browser does not offer to receive {0}: use a browser that supports it{1}")]
    NoVideo(String, &'static str),
}

impl OfferRefused {
    /// The refusal of an offer without these codecs.
    pub(super) fn without(codecs: &[VideoCodec]) -> OfferRefused {
        let names: Vec<_> = codecs.iter().map(|codec| codec.name()).collect();
        let remedy = match codecs.contains(&VideoCodec::H264) {
            true => "",
            false => ", or add x264 to the host's --encoder",
        };
        OfferRefused::NoVideo(names.join(" or "), remedy)
    }
}
