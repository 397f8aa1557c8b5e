//! The protocol between a launcher and the host in the launched application: environment variables, the settings that
//! the host receives once, and the host's reports ([`LaunchReport`]).
//!
//! Each message is one datagram, a [frame](openuvr_ipc::frame) of crate `ipc`. Launcher and host first send a
//! [greeting](openuvr_ipc::hello). The protocol between host and client is in crate `proto`.

use openuvr_ipc::frame::Message;
use openuvr_proto::units::Size;
use serde::{Deserialize, Serialize};

pub use openuvr_ipc::launch_report::LaunchReport;

use crate::host::config::Config;

/// The variable with the socket's path for a process that contains the hook. Without it, the hook does nothing.
pub const SOCKET: &str = "OPENUVR_RUN";

/// The variable with the socket's path for a process that links `libopenuvr`. Such a process needs no hook, and
/// [`SOCKET`] would activate one.
pub const API_SOCKET: &str = "OPENUVR_API";

/// The variable with the per-eye resolution for the OpenXR runtime: `WIDTHxHEIGHT`, in pixels.
pub const EYE: &str = "OPENUVR_XR_EYE";

/// The file in the configuration folder with the OpenXR runtime's [`LaunchSettings`] for applications that were not
/// started by an OpenUVR program.
pub const XR_SETTINGS: &str = "xr-runtime.toml";

/// The settings of a host in an application's process. The process receives them once, before the host starts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchSettings {
    /// Whether the player's input goes to the application's display.
    pub input: bool,
    /// Streams only the window whose title or class contains this text; `None` selects the largest window.
    pub window: Option<String>,
    /// The per-eye resolution, used if [`EYE`] is not set.
    pub eye: Option<Size>,
    /// Whether the launcher has gateways, which connect to the host at a socket next to [`SOCKET`].
    pub gateways: bool,
    /// The host.
    pub host: Config,
}

impl Message for LaunchSettings {
    /// Maximum length in bytes: far more than the few numbers, names and paths need (PATH_MAX is 4096).
    const MAX_LEN: usize = 32 << 10;
}

impl LaunchSettings {
    /// The settings as TOML, for [`XR_SETTINGS`].
    ///
    /// # Errors
    /// Returns an error if a path in them is not UTF-8.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|e| format!("can't serialise the settings: {e}"))
    }

    /// Parses [`XR_SETTINGS`].
    ///
    /// # Errors
    /// Returns a one-line error if the text is not UTF-8, or if it has an invalid or unknown key.
    pub fn from_toml(text: &[u8]) -> Result<LaunchSettings, String> {
        let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
        toml::from_str(text).map_err(|e| {
            let why = e.message();
            format!("invalid settings: {why}; repeat `openuvr xr install`")
        })
    }
}

#[cfg(test)]
mod tests {
    use openuvr_ipc::frame::{from_bytes, to_bytes};
    use openuvr_proto::control::pairing::Pin;
    use openuvr_proto::units::Bitrate;

    use super::*;

    #[test]
    fn launch_settings_survive_a_round_trip() {
        let settings = LaunchSettings {
            input: true,
            window: Some("glx".into()),
            eye: Some(Size::new(960, 960)),
            gateways: true,
            host: Config {
                bind: "[fe80::1%2]:4710".parse().unwrap(),
                pin: Some(Pin::parse("0042").unwrap()),
                bitrate: Some(Bitrate(5_000_000)),
                ..Config::default()
            },
        };
        let bytes = to_bytes(&settings).unwrap();
        assert_eq!(from_bytes(&bytes), Ok(settings.clone()));
        let text = settings.to_toml().unwrap();
        assert_eq!(LaunchSettings::from_toml(text.as_bytes()), Ok(settings));
        let refused = LaunchSettings::from_toml(b"input = 7").unwrap_err();
        assert!(refused.contains("invalid type: integer `7`"), "{refused}");
    }
}
