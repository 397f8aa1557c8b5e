//! What `openuvr xr` can be told: what a host can, but for where its pictures come from and its display.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};
use openuvr_proto::units::Size;

use super::host::HostConfig;
use super::kind::{optional, path, size};
use super::{Default, Effective, Given, Refused, Setting, Settings, command_words, settings};

settings! {
    /// What a host has no use for.
    Own is "xr" {
        about: "Start an OpenXR application on our runtime and stream what it draws";
        examples: "\
Examples:
  openuvr xr -- hello_xr -g Vulkan2         a new client needs the PIN shown
  openuvr xr --eye 960x960 -- godot --path game
  openuvr xr install                        for all OpenXR applications of this person
  openuvr xr uninstall

For OpenXR applications that draw with Vulkan or OpenGL. The headset is the client. Nobody's display is
needed. Ctrl-C goes to the application; its exit code is this program's. What install is told with options
is what the runtime does wherever it is loaded; only devices that are paired already may come in there.
--FLAG=false turns a flag off, --OPTION '' unsets an option that was saved; of an option given twice the last
counts. --help says more on each than -h.";
        agree: |_| Ok(());
        can_begin: |_| Ok(());

        "What is shown" {
            /// How large each eye's picture is, as applications are told.
            /// Both eyes are one picture, side by side.
            eye: Option<Size> = "eye", optional(size()), Default::Unset("640x640");
            /// The library that is the runtime.
            runtime: Option<PathBuf> = "runtime", optional(path("FILE")),
                Default::Unset("libopenuvr_xr.so beside this program, or in ../lib/openuvr");
        }
    }
}

/// No display shows an OpenXR application, and what a person's hands do is its own affair.
const OF_DISPLAYS: [&str; 7] = [
    "fit",
    "cursor",
    "input",
    "clipboard",
    "keys",
    "pads",
    "microphone",
];

/// The configuration of `openuvr xr`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct XrConfig {
    /// Of an eye's picture.
    pub(crate) eye: Option<Size>,
    /// The library.
    pub(crate) runtime: Option<PathBuf>,
    /// The host inside the application.
    pub(crate) host: HostConfig,
}

impl Settings for XrConfig {
    const ROLE: &'static str = Own::ROLE;
    const ABOUT: &'static str = Own::ABOUT;
    const EXAMPLES: &'static str = Own::EXAMPLES;

    fn table() -> Vec<Setting> {
        let host = HostConfig::table_inside(&OF_DISPLAYS);
        Own::table().into_iter().chain(host).collect()
    }

    fn typed(given: &Given) -> Result<XrConfig, Refused> {
        let Own { eye, runtime } = Own::typed(given)?;
        let host = HostConfig::typed(given)?;
        Ok(XrConfig { eye, runtime, host })
    }

    fn agree(&self) -> Result<(), Refused> {
        self.host.gateways_agree()?;
        self.host.encoding_agrees()
    }

    fn can_begin(&self) -> Result<(), Refused> {
        self.host.files_are_apart()
    }
}

impl XrConfig {
    /// The subcommand with all flags and the application, and its own subcommands.
    pub(crate) fn command() -> Command {
        let command = <XrConfig as Settings>::command();
        let install = <XrConfig as Settings>::command()
            .name(INSTALL)
            .about("Make our runtime that of all OpenXR applications of this person")
            .after_help("");
        let uninstall = Command::new(UNINSTALL).about("End that");
        command
            .override_usage(
                "openuvr xr [OPTIONS] -- APP [ARGS]...\n       openuvr xr install|uninstall",
            )
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand(install)
            .subcommand(uninstall)
            .arg(command_words::required("APP"))
    }

    /// The configuration, and the application with its arguments.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_application(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<XrConfig>, Vec<OsString>)> {
        Ok((
            XrConfig::from_matches(matches)?,
            command_words::program(matches)?,
        ))
    }
}

/// The subcommand that makes our runtime the person's, and the one that ends that.
pub(crate) const INSTALL: &str = "install";
pub(crate) const UNINSTALL: &str = "uninstall";
