//! The variants of a host's stream for browsers: codec, constant or dynamic bitrate, and congestion control. Appendix B
//! of the paper on Unity Render Streaming compares codecs and bitrates.

use serde::Serialize;

/// A codec, which determines the encoder of the host.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Codec {
    /// H.264 by x264
    H264,
    /// VP9 by libvpx
    Vp9,
}

/// Whether the bitrate adapts to the link.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BitrateMode {
    /// Adapts to the link, up to the target bitrate
    Dynamic,
    /// Stays at the target bitrate
    Constant,
}

/// The congestion control of a dynamic bitrate.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RateControl {
    /// The host's own congestion control, based on the page's reports
    Reports,
    /// Google Congestion Control, based on transport-wide feedback
    Gcc,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Variant {
    pub(super) codec: Codec,
    pub(super) bitrate: BitrateMode,
    pub(super) rate_control: RateControl,
}

impl Variant {
    /// The host's default. Only the figures of this variant have targets.
    pub(super) const USUAL: Variant = Variant {
        codec: Codec::H264,
        bitrate: BitrateMode::Dynamic,
        rate_control: RateControl::Reports,
    };

    /// All combinations of these values. A constant bitrate has no congestion control, so it occurs once per codec.
    pub(super) fn all(
        codecs: &[Codec],
        bitrates: &[BitrateMode],
        controls: &[RateControl],
    ) -> Vec<Variant> {
        let mut all = Vec::new();
        for codec in codecs {
            for bitrate in bitrates {
                for rate_control in controls {
                    let rate_control = match bitrate {
                        BitrateMode::Dynamic => *rate_control,
                        BitrateMode::Constant => RateControl::Reports,
                    };
                    let variant = Variant {
                        codec: *codec,
                        bitrate: *bitrate,
                        rate_control,
                    };
                    if !all.contains(&variant) {
                        all.push(variant);
                    }
                }
            }
        }
        all
    }

    /// The host's options.
    pub(super) fn options(self) -> [&'static str; 6] {
        [
            "--encoder",
            match self.codec {
                Codec::H264 => "x264",
                Codec::Vp9 => "libvpx-vp9",
            },
            "--rate",
            match self.bitrate {
                BitrateMode::Dynamic => "adaptive",
                BitrateMode::Constant => "constant",
            },
            "--web-rate-control",
            match self.rate_control {
                RateControl::Reports => "reports",
                RateControl::Gcc => "gcc",
            },
        ]
    }

    /// The name of a case over this link. For [`Variant::USUAL`], it is the name of the link.
    pub(super) fn case(self, link: &str) -> String {
        if self == Variant::USUAL {
            return link.to_owned();
        }
        let codec = match self.codec {
            Codec::H264 => "H.264",
            Codec::Vp9 => "VP9",
        };
        let rate = match (self.bitrate, self.rate_control) {
            (BitrateMode::Constant, _) => "constant",
            (BitrateMode::Dynamic, RateControl::Reports) => "dynamic",
            (BitrateMode::Dynamic, RateControl::Gcc) => "GCC",
        };
        format!("{link}, {codec}, {rate}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_bitrate_has_one_variant_per_codec() {
        let all = Variant::all(
            &[Codec::H264, Codec::Vp9],
            &[BitrateMode::Dynamic, BitrateMode::Constant],
            &[RateControl::Reports, RateControl::Gcc],
        );
        let names: Vec<String> = all.iter().map(|variant| variant.case("direct")).collect();
        assert_eq!(
            names,
            [
                "direct",
                "direct, H.264, GCC",
                "direct, H.264, constant",
                "direct, VP9, dynamic",
                "direct, VP9, GCC",
                "direct, VP9, constant",
            ]
        );
        let options = all[5].options();
        assert_eq!(
            options[..4],
            ["--encoder", "libvpx-vp9", "--rate", "constant"]
        );
    }
}
