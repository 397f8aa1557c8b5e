//! User settings: per-eye resolution and host configuration.

use std::path::PathBuf;

use openuvr_proto::units::Size;
use openuvr_runtime::line::{EYE, LaunchSettings, SOCKET, XR_SETTINGS};
use openuvr_runtime::store;

/// Default frame rate: that of most headsets.
pub(crate) const DEFAULT_FPS: f64 = 90.0;

/// Default per-eye resolution: a machine without a GPU can render and encode it at 90 Hz.
const DEFAULT_EYE_SIZE: Size = Size::new(640, 640);

/// The recommended per-eye resolution.
pub(crate) fn eye_size() -> Size {
    let configured = || match source()? {
        Source::File(file) => order(&file).ok()?.eye,
        Source::Launcher => None,
    };
    let text = std::env::var(EYE).ok().or_else(configured);
    text.and_then(|text| parse(&text))
        .unwrap_or(DEFAULT_EYE_SIZE)
}

/// Parses `WIDTHxHEIGHT`. Both eyes side by side must be a valid picture size.
fn parse(text: &str) -> Option<Size> {
    let (width, height) = text.split_once('x')?;
    let size = Size::new(width.parse().ok()?, height.parse().ok()?);
    let both = Size::new(size.width.checked_mul(2)?, size.height);
    both.is_valid().then_some(size)
}

/// Source of the host's configuration. Without one, no host starts.
pub(crate) enum Source {
    /// The program that started this application.
    Launcher,
    /// A file, for users that use this runtime for all applications.
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
/// One line with the reason.
pub(crate) fn order(file: &std::path::Path) -> Result<LaunchSettings, String> {
    let text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    LaunchSettings::read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_eyes_side_by_side_must_be_a_valid_size() {
        assert_eq!(parse("1832x1920"), Some(Size::new(1832, 1920)));
        for bad in ["", "640", "640x", "0x640", "640x640x2", "70000x1", "-1x5"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
