//! User settings: per-eye resolution and host configuration.

use std::path::PathBuf;

use openuvr_proto::units::Size;
use openuvr_runtime::launch_protocol::{EYE, LaunchSettings, SOCKET, XR_SETTINGS};
use openuvr_runtime::store;

/// Default frame rate. Many headsets have this refresh rate.
pub(crate) const DEFAULT_FPS: f64 = 90.0;

/// Default per-eye resolution. A machine without a GPU can render and encode pictures of this size at 90 Hz.
const DEFAULT_EYE_SIZE: Size = Size::new(640, 640);

/// The recommended per-eye resolution.
pub(crate) fn eye_size() -> Size {
    let configured = || match source()? {
        Source::File(file) => read(&file).ok()?.eye,
        Source::Launcher => None,
    };
    let given = std::env::var(EYE).ok();
    let size = given.map_or_else(configured, |text| text.parse().ok());
    size.filter(|size| fits(*size)).unwrap_or(DEFAULT_EYE_SIZE)
}

/// Whether both eyes side by side are a valid picture size.
fn fits(eye: Size) -> bool {
    Size::new(eye.width.saturating_mul(2), eye.height).is_valid()
}

/// Source of the host's configuration. Without it, no host starts.
pub(crate) enum Source {
    /// The launcher, which has started this application.
    Launcher,
    /// A file, for users who use this runtime for all applications.
    File(PathBuf),
}

pub(crate) fn source() -> Option<Source> {
    if std::env::var_os(SOCKET).is_some() {
        return Some(Source::Launcher);
    }
    let file = store::config_dir().ok()?.join(XR_SETTINGS);
    file.is_file().then_some(Source::File(file))
}

/// Reads the configuration file.
///
/// # Errors
/// Returns the reason, as one line of text.
pub(crate) fn read(file: &std::path::Path) -> Result<LaunchSettings, String> {
    let text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    LaunchSettings::from_toml(&text).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_eyes_side_by_side_must_be_a_valid_size() {
        let parse = |text: &str| text.parse().ok().filter(|size| fits(*size));
        assert_eq!(parse("1832x1920"), Some(Size::new(1832, 1920)));
        for bad in [
            "",
            "640",
            "640x",
            "0x640",
            "640x640x2",
            "8193x1",
            "70000x1",
            "-1x5",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
