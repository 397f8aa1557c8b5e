//! The library that `openuvr run` loads into games.

use openuvr_runtime::launch;

use super::finding::Finding;

/// Whether the library is installed where `openuvr run` searches.
pub(super) fn findings() -> Vec<Finding> {
    let name = "hook library";
    vec![match launch::library(None) {
        Ok(path) => Finding::ok(name, path.display().to_string()),
        Err(why) => {
            let why = why.to_string();
            let (why, remedy) = why.split_once(": ").unwrap_or((&why, ""));
            Finding::better(name, why, remedy)
        }
    }]
}
