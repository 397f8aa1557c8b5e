//! The settings of a host that lives in an application's process.

use super::{HostConfig, Setting, Settings as _};

/// What only a host with a process of its own has a choice of: its source, and what is written outside the
/// application.
const OUTSIDE: [&str; 12] = [
    "source",
    "display",
    "virtual",
    "place",
    "window",
    "region",
    "size",
    "clip",
    "for",
    "submit",
    "scene-fps",
    "handoffs",
];

impl HostConfig {
    /// The settings of a host inside an application's process, which has no choice of what only a host outside can do,
    /// nor of `also`.
    pub(in crate::config) fn table_inside(also: &[&str]) -> impl Iterator<Item = Setting> {
        let settings = HostConfig::table().into_iter();
        settings.map(|setting| match setting.key {
            key if OUTSIDE.contains(&key) || also.contains(&key) => setting.fixed(),
            _ => setting,
        })
    }
}
