//! What a person has decided beforehand: how large an eye's picture is, and how the host is to be.

use std::path::PathBuf;

use openuvr_proto::units::Size;
use openuvr_runtime::line::{EYE, Order, SOCKET, XR_ORDER};
use openuvr_runtime::store;

/// Frames a second, where neither a person nor a display says anything else: what most headsets show.
pub(crate) const USUAL_FPS: f64 = 90.0;

/// Where nothing else is said: what a machine without a GPU can draw and code 90 times a second.
const USUAL_EYE: Size = Size::new(640, 640);

/// The size of an eye's picture that applications are told to draw.
pub(crate) fn eye() -> Size {
    let told = || match source()? {
        Source::File(file) => order(&file).ok()?.eye,
        Source::Launcher => None,
    };
    let said = std::env::var(EYE).ok().or_else(told);
    said.and_then(|text| parse(&text)).unwrap_or(USUAL_EYE)
}

/// `WIDTHxHEIGHT`, if both eyes side by side are a picture that can be streamed.
fn parse(text: &str) -> Option<Size> {
    let (width, height) = text.split_once('x')?;
    let size = Size::new(width.parse().ok()?, height.parse().ok()?);
    let both = Size::new(size.width.checked_mul(2)?, size.height);
    both.is_valid().then_some(size)
}

/// Where the host is told what to do; `None`: there is to be none.
pub(crate) enum Source {
    /// By the program that started this application.
    Launcher,
    /// By a file, of a person who uses this runtime for all applications.
    File(PathBuf),
}

pub(crate) fn source() -> Option<Source> {
    if std::env::var_os(SOCKET).is_some() {
        return Some(Source::Launcher);
    }
    let file = store::config_dir().ok()?.join(XR_ORDER);
    file.is_file().then_some(Source::File(file))
}

/// What a file says.
///
/// # Errors
/// One line.
pub(crate) fn order(file: &std::path::Path) -> Result<Order, String> {
    let text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Order::read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eye_has_a_size_that_can_be_streamed_twice() {
        assert_eq!(parse("1832x1920"), Some(Size::new(1832, 1920)));
        for bad in ["", "640", "640x", "0x640", "640x640x2", "70000x1", "-1x5"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
