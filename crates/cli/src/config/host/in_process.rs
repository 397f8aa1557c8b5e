//! Settings of a host inside an application's process.

use super::{HostConfig, Setting, Settings as _};

/// Settings that make sense only for a host with its own process, such as its source.
const OWN_PROCESS_ONLY: [&str; 16] = [
    "source",
    "display",
    "wayland-display",
    "output",
    "virtual",
    "virtual-with",
    "place",
    "window",
    "region",
    "size",
    "clip",
    "duration",
    "submit",
    "scene-fps",
    "scheduling-trace",
    "applications",
];

impl HostConfig {
    /// The settings of a host inside an application's process. The settings in [`OWN_PROCESS_ONLY`] and `also` are
    /// fixed to their defaults.
    pub(in crate::config) fn table_in_process(also: &[&str]) -> impl Iterator<Item = Setting> {
        let settings = HostConfig::table().into_iter();
        settings.map(|setting| match setting.key {
            key if OWN_PROCESS_ONLY.contains(&key) || also.contains(&key) => setting.fixed(),
            _ => setting,
        })
    }
}
