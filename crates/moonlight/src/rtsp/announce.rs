//! The client's ANNOUNCE: attributes of a session description (RFC 8866 section 5.13), one per line.
//!
//! Names and meanings are those of `SdpGenerator.c` of moonlight-common-c.

use crate::session::{Mode, StreamParameters};

/// Bits of the masks that state which streams client and host can encrypt and want to encrypt.
pub(super) const SEALS_CONTROL: u32 = 1;
pub(super) const SEALS_VIDEO: u32 = 2;
pub(super) const SEALS_SOUND: u32 = 4;

/// Feature of the client: its pings repeat the host's token, and its control connection repeats the host's number.
const KNOWS_SESSIONS: u32 = 2;

/// Maximum parity packets that a client may demand. Clients demand 2.
const MAX_LEAST_PARITY: u32 = 16;

/// Accepted video bitrates, in the protocol's unit of 1000 b/s. Lower rates are not enough for a picture, and higher
/// rates are implausible.
const BITRATES: std::ops::RangeInclusive<u32> = 100..=1_000_000;

/// Why an announcement is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidAnnounce {
    /// An attribute is missing or invalid.
    #[error("the attribute {0} is missing or invalid")]
    Attribute(&'static str),
    /// The client lacks a feature that the host requires for security.
    #[error("the client is too old: {0}; update Moonlight")]
    TooOld(&'static str),
    /// The client wants a codec that is not offered.
    #[error("the client requests a codec other than H.264")]
    Codec,
}

/// Parses the parameters in the body of an ANNOUNCE.
///
/// # Errors
/// [`InvalidAnnounce`] if the announcement is refused.
pub fn parameters(body: &[u8]) -> Result<StreamParameters, InvalidAnnounce> {
    use InvalidAnnounce::{Attribute, TooOld};
    let text = String::from_utf8_lossy(body);
    let value = |name: &str| -> Option<u32> {
        text.lines().find_map(|line| {
            let (known, value) = line.strip_prefix("a=")?.split_once(':')?;
            (known == name).then(|| value.trim().parse().ok())?
        })
    };
    let needed = |name: &'static str| value(name).ok_or(Attribute(name));
    let seals = value("x-ss-general.encryptionEnabled").unwrap_or(0);
    if seals & SEALS_CONTROL == 0 {
        return Err(TooOld("it does not encrypt the control stream"));
    }
    if value("x-ml-general.featureFlags").unwrap_or(0) & KNOWS_SESSIONS == 0 {
        return Err(TooOld("it sends no session identifier"));
    }
    if value("x-nv-vqos[0].bitStreamFormat").unwrap_or(0) != 0 {
        return Err(InvalidAnnounce::Codec);
    }
    let rate = needed("x-nv-video[0].maxFPS")?;
    let mode = Mode::new(
        needed("x-nv-video[0].clientViewportWd")?,
        needed("x-nv-video[0].clientViewportHt")?,
        u16::try_from(rate).map_err(|_| Attribute("x-nv-video[0].maxFPS"))?,
    );
    let mode = mode.map_err(|_| Attribute("x-nv-video[0].clientViewportWd"))?;
    let bitrate = value("x-ml-video.configuredBitrateKbps")
        .or_else(|| value("x-nv-vqos[0].bw.maximumBitrateKbps"))
        .filter(|bitrate| BITRATES.contains(bitrate))
        .ok_or(Attribute("x-ml-video.configuredBitrateKbps"))?;
    let packet_size = needed("x-nv-video[0].packetSize")?;
    let least_parity = value("x-nv-vqos[0].fec.minRequiredFecPackets").unwrap_or(0);
    let surround = value("x-nv-audio.surround.enable").unwrap_or(0) != 0;
    let channels = match surround {
        true => needed("x-nv-audio.surround.numChannels")?,
        false => 2,
    };
    let sound_millis = value("x-nv-aqos.packetDuration").unwrap_or(5);
    let small = |name, value: u32| u8::try_from(value).map_err(|_| Attribute(name));
    Ok(StreamParameters {
        mode,
        bitrate: u64::from(bitrate) * 1000,
        packet_size: usize::try_from(packet_size).unwrap_or(usize::MAX),
        least_parity: usize::try_from(least_parity.min(MAX_LEAST_PARITY)).unwrap_or(0),
        seals_video: seals & SEALS_VIDEO != 0,
        seals_sound: seals & SEALS_SOUND != 0,
        sound_millis: small("x-nv-aqos.packetDuration", sound_millis)?,
        channels: small("x-nv-audio.surround.numChannels", channels)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 12] = [
        "a=x-ml-general.featureFlags:3 ",
        "a=x-ss-general.encryptionEnabled:7 ",
        "a=x-nv-video[0].clientViewportWd:1280 ",
        "a=x-nv-video[0].clientViewportHt:720 ",
        "a=x-nv-video[0].maxFPS:60 ",
        "a=x-nv-video[0].packetSize:1360 ",
        "a=x-ml-video.configuredBitrateKbps:10000 ",
        "a=x-nv-vqos[0].fec.minRequiredFecPackets:2 ",
        "a=x-nv-vqos[0].bitStreamFormat:0 ",
        "a=x-nv-audio.surround.numChannels:2 ",
        "a=x-nv-audio.surround.enable:0 ",
        "a=x-nv-aqos.packetDuration:5 ",
    ];

    fn parsed(lines: &[&str]) -> Result<StreamParameters, InvalidAnnounce> {
        parameters(lines.join("\r\n").as_bytes())
    }

    fn with(name: &str, line: &str) -> Result<StreamParameters, InvalidAnnounce> {
        let mut lines = ALL.to_vec();
        lines.retain(|old| !old.contains(name));
        lines.push(line);
        parsed(&lines)
    }

    #[test]
    fn a_clients_announcement_is_parsed() {
        let parameters = parsed(&ALL).unwrap();
        assert_eq!(parameters.mode, Mode::new(1280, 720, 60).unwrap());
        assert_eq!(parameters.bitrate, 10_000_000);
        assert_eq!((parameters.packet_size, parameters.least_parity), (1360, 2));
        assert!(parameters.seals_video && parameters.seals_sound);
        assert_eq!((parameters.sound_millis, parameters.channels), (5, 2));
    }

    #[test]
    fn old_clients_are_told_to_update() {
        for name in ["encryptionEnabled", "featureFlags"] {
            let why = with(name, "").unwrap_err();
            assert!(matches!(why, InvalidAnnounce::TooOld(_)), "{why}");
        }
        let without_control = with("encryptionEnabled", "a=x-ss-general.encryptionEnabled:6");
        assert!(matches!(without_control, Err(InvalidAnnounce::TooOld(_))));
    }

    #[test]
    fn absurd_attributes_are_refused() {
        for (name, line) in [
            ("clientViewportWd", ""),
            ("clientViewportWd", "a=x-nv-video[0].clientViewportWd:0"),
            ("clientViewportHt", "a=x-nv-video[0].clientViewportHt:16384"),
            ("maxFPS", "a=x-nv-video[0].maxFPS:1000"),
            ("maxFPS", "a=x-nv-video[0].maxFPS:-60"),
            (
                "configuredBitrateKbps",
                "a=x-ml-video.configuredBitrateKbps:0",
            ),
            ("packetSize", "a=x-nv-video[0].packetSize:abc"),
            ("packetDuration", "a=x-nv-aqos.packetDuration:256"),
            ("bitStreamFormat", "a=x-nv-vqos[0].bitStreamFormat:1"),
        ] {
            assert!(with(name, line).is_err(), "{line}");
        }
        assert!(parameters(&[0xff; 100]).is_err());
    }
}
