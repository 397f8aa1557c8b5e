//! Settings of `openuvr xr`: the settings of a host, except for its source and display.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};
use openuvr_proto::units::Size;

use super::host::HostConfig;
use super::kind::{optional, path, size};
use super::{ConfigError, Default, Effective, RawValues, Setting, Settings, app_args, settings};

settings! {
    /// The settings that a host does not have.
    XrSettings is "xr" {
        about: "Start an OpenXR application and stream its pictures";
        examples: "\
Examples:
  openuvr xr -- hello_xr -g Vulkan2         new clients pair with the PIN shown
  openuvr xr --eye 960x960 -- godot --path game
  openuvr xr install                        for all OpenXR applications of this user
  openuvr xr uninstall

For OpenXR applications that draw with Vulkan or OpenGL. The client is the headset; no display is
needed. `openuvr xr` forwards Ctrl-C to the application, and exits with the application's exit code.
The options of `openuvr xr install` apply to all applications that load the default runtime. Only
paired devices may connect to these applications.
--FLAG=false disables a flag, --OPTION '' unsets a saved option. If an option is repeated, the last
one applies. -h prints short help, --help the full help.";
        check_consistency: |_| Ok(());
        check_environment: |_| Ok(());

        "Video source" {
            /// Recommended per-eye resolution for applications.
            /// Both eyes are sent as one picture, side by side.
            eye: Option<Size> = "eye", optional(size()), Default::Unset("640x640");
            /// OpenXR runtime library.
            runtime: Option<PathBuf> = "runtime", optional(path("FILE")),
                Default::Unset("libopenuvr_xr.so next to this program, or in ../lib/openuvr");
        }
    }
}

/// Settings that OpenXR applications do not use. These applications appear on no X display, and use the client's
/// controllers.
const DISPLAY_SETTINGS: [&str; 7] = [
    "fit",
    "cursor",
    "input",
    "clipboard",
    "key-mapping",
    "pads",
    "microphone",
];

/// The configuration of `openuvr xr`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct XrConfig {
    /// The per-eye resolution.
    pub(crate) eye: Option<Size>,
    /// The runtime library.
    pub(crate) runtime: Option<PathBuf>,
    /// The settings of the host inside the application.
    pub(crate) host: HostConfig,
}

impl Settings for XrConfig {
    const ROLE: &'static str = XrSettings::ROLE;
    const ABOUT: &'static str = XrSettings::ABOUT;
    const EXAMPLES: &'static str = XrSettings::EXAMPLES;

    fn table() -> Vec<Setting> {
        let host = HostConfig::table_in_process(&DISPLAY_SETTINGS);
        XrSettings::table().into_iter().chain(host).collect()
    }

    fn typed(values: &RawValues) -> Result<XrConfig, ConfigError> {
        let XrSettings { eye, runtime } = XrSettings::typed(values)?;
        let host = HostConfig::typed(values)?;
        Ok(XrConfig { eye, runtime, host })
    }

    fn check_consistency(&self) -> Result<(), ConfigError> {
        self.host.check_gateways()?;
        self.host.check_encoding()
    }

    fn check_environment(&self) -> Result<(), ConfigError> {
        self.host.check_files()?;
        self.host.check_encoder_options()
    }
}

impl XrConfig {
    /// The subcommand with all flags, the application's command line, and its own subcommands.
    pub(crate) fn command() -> Command {
        let command = <XrConfig as Settings>::command();
        let install = <XrConfig as Settings>::command()
            .name(INSTALL)
            .about("Make OpenUVR the default OpenXR runtime of this user")
            .after_help("");
        let uninstall =
            Command::new(UNINSTALL).about("Restore the previous default OpenXR runtime");
        command
            .override_usage(
                "openuvr xr [OPTIONS] -- APP [ARGS]...\n       openuvr xr install|uninstall",
            )
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand(install)
            .subcommand(uninstall)
            .arg(app_args::required("APP"))
    }

    /// The configuration and the application's command line.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_application(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<XrConfig>, Vec<OsString>)> {
        Ok((
            XrConfig::from_matches(matches)?,
            app_args::program(matches)?,
        ))
    }
}

/// The subcommand that makes OpenUVR the user's default OpenXR runtime.
pub(crate) const INSTALL: &str = "install";
pub(crate) const UNINSTALL: &str = "uninstall";
