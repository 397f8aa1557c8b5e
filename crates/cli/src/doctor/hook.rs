//! The library that `openuvr run` loads into games.

use super::finding::Finding;
use crate::run;

/// Whether it lies where it is looked for.
pub(super) fn findings() -> Vec<Finding> {
    let name = "hook library";
    vec![match run::library(None) {
        Ok(path) => Finding::ok(name, path.display().to_string()),
        Err(why) => {
            let why = format!("{why:#}");
            let (why, remedy) = why.split_once(": ").unwrap_or((&why, ""));
            Finding::better(name, why, remedy)
        }
    }]
}
