//! Selects the environment variables that a session inherits. The selection is an allow list, because the portal's
//! environment may contain passwords, tokens and internal addresses.

use std::ffi::OsString;

/// Variables that programs need: paths, user folders, locale and time zone, graphics drivers, logging, and the user's
/// runtime folder.
const NAMES: [&str; 26] = [
    "CUDA_VISIBLE_DEVICES",
    "DRI_PRIME",
    "EGL_PLATFORM",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Name prefixes of further variables that programs need, for example for sound and graphics.
const PREFIXES: [&str; 15] = [
    "ALSA_",
    "GALLIUM_",
    "LC_",
    "LIBGL_",
    "LP_",
    "MESA_",
    "NVIDIA_",
    "OPENUVR_",
    "PIPEWIRE_",
    "PULSE_",
    "VDPAU_",
    "VK_",
    "XKB_",
    "XR_",
    "__",
];

/// The prefix of the portal's own variables, which are excluded unless the operator names them.
const PORTAL: &str = "OPENUVR_PORTAL_";

/// The variables that a session inherits. `more` contains additional names that the operator configures.
pub(super) fn allowed(
    all: impl Iterator<Item = (OsString, OsString)>,
    more: &[String],
) -> impl Iterator<Item = (OsString, OsString)> {
    all.filter(|(name, _)| name.to_str().is_some_and(|name| is_allowed(name, more)))
}

fn is_allowed(name: &str, more: &[String]) -> bool {
    let known = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    known && !name.starts_with(PORTAL) || more.iter().any(|of| of == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_gets_only_allowed_variables() {
        let more = ["SITE_LICENCE".to_owned()];
        for name in [
            "PATH",
            "LC_ALL",
            "PULSE_SERVER",
            "VK_ICD_FILENAMES",
            "SITE_LICENCE",
        ] {
            assert!(is_allowed(name, &more), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "DBUS_SESSION_BUS_ADDRESS",
            "OPENUVR_PORTAL_DATABASE",
            "PGPASSWORD",
            "SSH_AUTH_SOCK",
            "site_licence",
        ] {
            assert!(!is_allowed(name, &more), "{name}");
        }
    }
}
