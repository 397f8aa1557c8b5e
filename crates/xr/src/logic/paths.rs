//! Paths: strings with a fixed syntax. The application refers to them by numbers (OpenXR 1.0, section 6).

use std::collections::HashMap;

use openxr_sys as xr;

use crate::ffi::Outcome;

/// Maximum number of paths of an instance (guess: profiles have some hundreds).
const MAX_PATHS: usize = 1 << 14;

/// The paths of an instance.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    texts: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Paths {
    /// The number of a path (`xrStringToPath`).
    pub(crate) fn number(&mut self, text: &str) -> Outcome<xr::Path> {
        if !is_well_formed(text) {
            return Err(xr::Result::ERROR_PATH_FORMAT_INVALID);
        }
        if let Some(number) = self.numbers.get(text) {
            return Ok(xr::Path::from_raw(*number));
        }
        if self.texts.len() >= MAX_PATHS {
            return Err(xr::Result::ERROR_PATH_COUNT_EXCEEDED);
        }
        self.texts.push(text.to_owned());
        let number = self.texts.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        Ok(xr::Path::from_raw(number))
    }

    /// The string of a path (`xrPathToString`).
    pub(crate) fn text(&self, path: xr::Path) -> Outcome<&str> {
        let index = path.into_raw().checked_sub(1);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let text = index.and_then(|index| self.texts.get(index));
        text.map(String::as_str)
            .ok_or(xr::Result::ERROR_PATH_INVALID)
    }
}

/// Whether a string is a path: a sequence of names, each preceded by `/`. Names consist of lower-case letters, digits,
/// `-`, `_` and `.`.
fn is_well_formed(text: &str) -> bool {
    let letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c);
    let name = |name: &str| name.bytes().all(letter) && !name.bytes().all(|c| c == b'.');
    text.len() < xr::MAX_PATH_LENGTH
        && text
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(name))
}

/// Whether a string is a valid name of an action or action set: a single path component.
pub(crate) fn is_name(text: &str) -> bool {
    let letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c);
    text.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number() {
        let mut paths = Paths::default();
        let left = paths.number("/user/hand/left").unwrap();
        assert_ne!(left, paths.number("/user/hand/right").unwrap());
        assert_eq!(paths.number("/user/hand/left"), Ok(left));
        assert_eq!(paths.text(left), Ok("/user/hand/left"));
        for bad in [0, 3, u64::MAX] {
            let text = paths.text(xr::Path::from_raw(bad));
            assert_eq!(text, Err(xr::Result::ERROR_PATH_INVALID));
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        let long = format!("/{}", "a".repeat(xr::MAX_PATH_LENGTH));
        let bad = [
            "", "/", "user", "/user/", "//user", "/User", "/user/..", "/a b", &long,
        ];
        for bad in bad {
            let number = Paths::default().number(bad);
            assert_eq!(number, Err(xr::Result::ERROR_PATH_FORMAT_INVALID), "{bad}");
        }
        assert!(Paths::default().number("/a-b/c_d/.e.1").is_ok());
    }

    #[test]
    fn paths_are_bounded() {
        let mut paths = Paths::default();
        for count in 0..MAX_PATHS {
            paths.number(&format!("/p{count}")).unwrap();
        }
        let exceeded = Err(xr::Result::ERROR_PATH_COUNT_EXCEEDED);
        assert_eq!(paths.number("/one-more"), exceeded);
        assert!(paths.number("/p7").is_ok());
    }
}
