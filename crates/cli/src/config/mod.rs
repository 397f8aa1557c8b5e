//! Configuration. Each role has one table of settings, from which its flags, its TOML file, its help and the printed
//! configuration are generated.
//!
//! Flags override the file, and the file overrides the defaults. Values are parsed once, here, into types
//! ([`HostConfig`], [`ClientConfig`]). This module opens no device and does not interpret the values.

mod app_args;
mod client;
mod endpoints;
mod file;
mod gateway;
mod host;
pub(crate) mod kind;
mod motion;
pub(crate) mod portal;
mod print;
mod run;
mod stereo;
#[cfg(test)]
mod tests;
mod via_ap;
pub(crate) mod xr;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub(crate) use self::client::ClientConfig;
pub(crate) use self::endpoints::{InputSpec, PresentKind, Surface, WindowSpec};
pub(crate) use self::gateway::GatewayConfig;
pub use self::host::SourceKind;
#[cfg(feature = "gateway")]
pub(crate) use self::host::WebRateControl;
pub(crate) use self::host::{HostConfig, PadsKind, Subject};
use openuvr_runtime::machine::{self, LONGEST_NAME};
use openuvr_runtime::store::read_text;
use openuvr_terminal::one_line::visible;
use openuvr_terminal::usage::UsageError;

use self::kind::{Form, Kind};
pub(crate) use self::run::RunConfig;
pub(crate) use self::via_ap::ViaAp;
pub(crate) use self::xr::XrConfig;

/// Parses a time on the command line of a subcommand without settings.
///
/// # Errors
/// Returns an error if the text is not a time. The message states the format.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let kind = kind::time();
    (kind.parse)(text).ok_or(format!("not {}", kind.allowed))
}

/// A role that can be configured.
pub(crate) trait Settings: Sized {
    /// The name of the subcommand, and of its default file: `host` means `host.toml`.
    const ROLE: &'static str;
    /// A one-line description of the subcommand.
    const ABOUT: &'static str;
    /// The end of its help: examples and general rules.
    const EXAMPLES: &'static str;

    /// Its settings, in the order of the help.
    fn table() -> Vec<Setting>;

    /// All settings with their types.
    fn typed(values: &RawValues) -> Result<Self, ConfigError>;

    /// Checks that the values do not contradict each other.
    fn check_consistency(&self) -> Result<(), ConfigError>;

    /// Checks requirements on the current environment. Settings that are saved for later use need not meet them.
    fn check_environment(&self) -> Result<(), ConfigError>;

    /// The subcommand of the role, with a flag for each setting.
    fn command() -> Command {
        let all = Self::table().into_iter().filter(|setting| !setting.fixed);
        let all = all.map(|setting| setting.arg());
        Command::new(Self::ROLE)
            .about(Self::ABOUT)
            .after_help(Self::EXAMPLES)
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help(format!(
                        "Settings file (TOML) [default: ~/.config/openuvr/{}.toml if it exists]",
                        Self::ROLE
                    ))
                    .long_help(format!(
                        "A TOML file with settings. Each setting has the name of its flag, without `--`.\n\n\
                         Flags override the file, and the file overrides the defaults. Without this flag, the file is \
                         $XDG_CONFIG_HOME/openuvr/{0}.toml or ~/.config/openuvr/{0}.toml, if it exists; \
                         `--config /dev/null` reads no file. `--save` writes the file.",
                        Self::ROLE
                    )),
            )
            .arg(
                Arg::new("print-config")
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .help("Print the effective settings as TOML with their origins, and exit"),
            )
            .arg(
                Arg::new("save")
                    .long("save")
                    .action(ArgAction::SetTrue)
                    .conflicts_with("print-config")
                    .help("Update the settings file with the flags, and exit")
                    .long_help(
                        "Update the settings file with the flags, and exit.\n\n--config selects the file. The file is \
                         created if necessary and rewritten completely: unset settings become comments, and your \
                         comments are lost.",
                    ),
            )
            .args(all)
    }

    /// The effective configuration from flags, file, defaults and this process's environment.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or if a value is not allowed. The message is one line with
    /// the setting, its origin and the allowed values.
    fn from_matches(matches: &ArgMatches) -> anyhow::Result<Effective<Self>> {
        Self::from_matches_in(matches, &Environment::of_process())
    }

    /// Like [`Settings::from_matches`], for a specified environment.
    fn from_matches_in(
        matches: &ArgMatches,
        environment: &Environment,
    ) -> anyhow::Result<Effective<Self>> {
        let table = Self::table();
        let save = matches.get_flag("save");
        let named = matches.get_one::<PathBuf>("config").cloned();
        let may_be_missing = named.is_none() || save;
        let usual = || {
            let file = environment.config_dir.as_ref()?;
            Some(file.join(format!("{}.toml", Self::ROLE)))
        };
        let file = named.or_else(usual);
        let mut in_file = match &file {
            Some(path) if path.exists() || !may_be_missing => {
                let Some(text) = read_text(path)? else {
                    bail!(UsageError::new(format!(
                        "can't read the settings in {}: no such file",
                        path.display()
                    )));
                };
                file::read(&text, path, &table, Self::ROLE)?
            }
            _ => HashMap::new(),
        };
        let mut values = RawValues(HashMap::new());
        for setting in &table {
            let flag = match setting.fixed {
                true => None,
                false => setting.given(matches),
            };
            let in_file = in_file.remove(setting.key);
            let value = match flag {
                // An empty text unsets the setting.
                Some(text) if setting.optional && text.is_empty() => None,
                Some(text) => Some(setting.flag(&text)?),
                None => in_file,
            };
            let value = value.or_else(|| match setting.default {
                Default::UnlessGiven(others, default) if !values.give_only(others) => {
                    default.value(environment)
                }
                Default::UnlessGiven(..) => None,
                default => default.value(environment),
            });
            match (value, setting.default) {
                (Some(value), _) => _ = values.0.insert(setting.key, value),
                (None, Default::From(source, _)) if !setting.optional => {
                    bail!(UsageError::new(format!(
                        "--{} is missing, and its default ({source}) is unknown: use --{0} {}",
                        setting.key, setting.placeholder
                    )))
                }
                (None, _) => {}
            }
        }
        let config = Self::typed(&values)?;
        config.check_consistency()?;
        let printed = if save {
            let Some(file) = file else {
                bail!(UsageError::new(
                    "neither XDG_CONFIG_HOME nor HOME is set: use --config FILE"
                ));
            };
            let file = file::write(&file, &print::toml::<Self>(&table, &values, false))?;
            Some(format!("settings saved in {}\n", file.display()))
        } else if matches.get_flag("print-config") {
            Some(print::toml::<Self>(&table, &values, true))
        } else {
            config
                .check_environment()
                .map_err(|why| why.at(environment))?;
            None
        };
        Ok(Effective { config, printed })
    }
}

/// The result of parsing.
#[derive(Debug)]
pub(crate) struct Effective<C> {
    /// The settings.
    pub(crate) config: C,
    /// The text to print for `--print-config` or `--save`. The command ends after printing it.
    pub(crate) printed: Option<String>,
}

/// One setting of a table, without its static type.
pub(crate) struct Setting {
    key: &'static str,
    heading: &'static str,
    help: String,
    more: String,
    placeholder: &'static str,
    range: String,
    allowed: String,
    form: Form,
    default: Default,
    accepts: Box<dyn Fn(&str) -> bool>,
    /// Whether the value may be absent.
    optional: bool,
    positional: bool,
    /// Whether the setting has no flag and always keeps its default.
    fixed: bool,
}

impl Setting {
    /// Creates a setting. The first line of `docs` is the short help, and the following lines are more help.
    fn new<T: 'static>(
        key: &'static str,
        heading: &'static str,
        docs: &[&str],
        kind: Kind<T>,
        default: Default,
    ) -> Setting {
        let mut lines = docs.iter().map(|line| line.trim());
        let help = lines.next().unwrap_or_default();
        let more: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let (parse, optional) = (kind.parse, kind.absent.is_some());
        Setting {
            key,
            heading,
            help: help.trim_end_matches('.').to_owned(),
            more: more.join(" "),
            placeholder: kind.placeholder,
            range: kind.range,
            allowed: kind.allowed,
            form: kind.form,
            default,
            accepts: Box::new(move |text| parse(text).is_some()),
            optional,
            positional: matches!(default, Default::Argument),
            fixed: false,
        }
    }

    /// The same setting for the table of another role, where it is fixed to its default.
    fn fixed(self) -> Setting {
        Setting {
            fixed: true,
            ..self
        }
    }

    /// The same setting with another default, for the table of another role.
    fn with_default(self, default: Default) -> Setting {
        Setting { default, ..self }
    }

    fn arg(self) -> Arg {
        let brief = match (self.range.as_str(), self.default.words()) {
            ("", None) => String::new(),
            ("", Some(default)) => format!(" [default: {default}]"),
            (range, None) => format!(" [{range}]"),
            (range, Some(default)) => format!(" [{range}; default: {default}]"),
        };
        let long = if self.more.is_empty() {
            format!("{}{brief}", self.help)
        } else {
            format!("{}\n\n{}{brief}", self.help, self.more)
        };
        let arg = Arg::new(self.key)
            .value_parser(value_parser!(OsString))
            .value_name(self.placeholder)
            .help(format!("{}{brief}", self.help))
            .long_help(long);
        if self.positional {
            return arg;
        }
        let arg = arg.long(self.key).help_heading(self.heading);
        match self.form {
            Form::Flag => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Form::TextOr(usual) => arg.num_args(0..=1).default_missing_value(usual),
            Form::Table => arg.action(ArgAction::Append),
            _ => arg,
        }
    }

    /// The text of the setting's flag; `None` if the flag was not given. Each entry of a table is a line.
    fn given(&self, matches: &ArgMatches) -> Option<OsString> {
        let mut words = matches.get_many::<OsString>(self.key)?;
        match self.form {
            Form::Table => {
                let mut lines = OsString::new();
                for (n, word) in words.enumerate() {
                    lines.push(if n > 0 { "\n" } else { "" });
                    lines.push(word);
                }
                Some(lines)
            }
            _ => words.next_back().cloned(),
        }
    }

    /// Parses the value of the setting's flag. The value may be invalid UTF-8, which is an error.
    fn flag(&self, text: &OsStr) -> Result<Value, ConfigError> {
        let origin = Origin::Flag;
        match text.to_str() {
            Some(text) => self.check(Value {
                text: text.to_owned(),
                origin,
            }),
            None => Err(self.refused(&origin, &format!("{text:?}, which is not UTF-8"))),
        }
    }

    fn check(&self, value: Value) -> Result<Value, ConfigError> {
        if (self.accepts)(&value.text) {
            Ok(value)
        } else {
            Err(self.refused(
                &value.origin,
                &format!("`{}`", without_secret(&visible(&value.text))),
            ))
        }
    }

    fn refused(&self, origin: &Origin, instead: &str) -> ConfigError {
        let Setting { key, allowed, .. } = self;
        ConfigError(match origin {
            Origin::Flag if self.positional => {
                format!("{} must be {allowed}, not {instead}", self.placeholder)
            }
            Origin::Flag => format!("--{key} must be {allowed}, not {instead}"),
            Origin::File { path, line } => {
                format!(
                    "{}:{line}: {key} must be {allowed}, not {instead}",
                    path.display()
                )
            }
            Origin::Default | Origin::Environment(_) => {
                format!("{key} must be {allowed}, not {instead}")
            }
        })
    }
}

/// The value of a setting that is set neither by a flag nor in the file.
#[derive(Clone, Copy)]
enum Default {
    /// This value, in the text form of a flag.
    Is(&'static str),
    /// A value from the environment, and its description.
    From(&'static str, fn(&Environment) -> Option<String>),
    /// No value. The text describes the effect.
    Unset(&'static str),
    /// No value, because this is the positional argument. A role has at most one.
    Argument,
    /// No value if a flag or the file sets the first of these two settings but not the second; otherwise the inner
    /// default. The table lists both settings before this one.
    UnlessGiven([&'static str; 2], &'static Default),
    /// The inner default, for a setting that applies to one run and is never in a settings file.
    OnlyFlag(&'static Default),
}

impl Default {
    fn words(&self) -> Option<&'static str> {
        match self {
            Default::Is(words) | Default::From(words, _) => Some(words),
            Default::Unset(meaning) => (!meaning.is_empty()).then_some(meaning),
            Default::Argument => None,
            Default::OnlyFlag(default) | Default::UnlessGiven(_, default) => default.words(),
        }
    }

    fn value(&self, environment: &Environment) -> Option<Value> {
        let (text, origin) = match self {
            Default::Is(text) => ((*text).to_owned(), Origin::Default),
            Default::From(words, of) => (of(environment)?, Origin::Environment(words)),
            Default::Unset(_) | Default::Argument => return None,
            Default::OnlyFlag(default) | Default::UnlessGiven(_, default) => {
                return default.value(environment);
            }
        };
        Some(Value { text, origin })
    }
}

/// The value for messages, without the user names and secrets of servers (`turn:USER:SECRET@HOST`) and without the keys
/// of access points.
fn without_secret(text: &str) -> String {
    if let Some(text) = via_ap::without_key(text) {
        return text;
    }
    let hidden = |one: &str| match (one.split_once(':'), one.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}:…@{host}"),
        _ => one.to_owned(),
    };
    text.split(',').map(hidden).collect::<Vec<_>>().join(",")
}

/// The texts of the effective values, by key.
pub(crate) struct RawValues(HashMap<&'static str, Value>);

impl RawValues {
    /// Whether a flag or the file sets the first setting, and not the second.
    fn give_only(&self, [wanted, other]: [&str; 2]) -> bool {
        let given = |key| {
            let origin = self.0.get(key).map(|value| &value.origin);
            matches!(origin, Some(Origin::Flag | Origin::File { .. }))
        };
        given(wanted) && !given(other)
    }

    fn typed<T>(&self, key: &'static str, kind: Kind<T>) -> Result<T, ConfigError> {
        match (self.0.get(key), kind.absent) {
            (Some(value), _) => (kind.parse)(&value.text).ok_or_else(|| {
                ConfigError(format!(
                    "{key} must be {}, not `{}`",
                    kind.allowed,
                    without_secret(&value.text)
                ))
            }),
            (None, Some(absent)) => Ok(absent()),
            (None, None) => Err(ConfigError(format!(
                "{key} is missing; it must be {}",
                kind.allowed
            ))),
        }
    }
}

struct Value {
    text: String,
    origin: Origin,
}

/// The origin of a value.
enum Origin {
    Default,
    Environment(&'static str),
    File { path: PathBuf, line: usize },
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Environment(source) => write!(f, "default: {source}"),
            Origin::File { path, line } => write!(f, "file: {}:{line}", path.display()),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// The error message if a role requires an X display and none is known.
const NO_DISPLAY: &str = "no X display is known: use --display, as in --display :0, or set DISPLAY";

/// The error message if a role requires a Wayland display and none is known.
const NO_WAYLAND_DISPLAY: &str = "no Wayland display is known: use --wayland-display, as in --wayland-display \
                                  wayland-1, or set WAYLAND_DISPLAY";

/// Why the configuration is not accepted: the setting, its origin and the allowed values.
#[derive(Debug)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    /// Whether the command line or the settings would be wrong on every machine. A missing display is not a usage
    /// error, because it depends on the machine.
    pub(crate) fn is_usage_error(&self) -> bool {
        !self.0.starts_with(NO_DISPLAY) && !self.0.starts_with(NO_WAYLAND_DISPLAY)
    }

    /// The same error, with an explanation that depends on the environment.
    fn at(self, environment: &Environment) -> ConfigError {
        match &environment.wayland {
            Some(wayland) if self.0.starts_with(NO_DISPLAY) => ConfigError(format!(
                "{self}; to use the Wayland session {wayland} instead, start a client with --present wayland, or a \
                 host with --source wayland"
            )),
            _ => self,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The source of defaults.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The X display set in the environment.
    pub(crate) display: Option<String>,
    /// The Wayland display set in the environment, unless the session is an X11 session.
    pub(crate) wayland: Option<String>,
    /// The folder of settings and keys, `$XDG_CONFIG_HOME/openuvr` or `~/.config/openuvr`.
    pub(crate) config_dir: Option<PathBuf>,
    /// This machine's name, at most [`LONGEST_NAME`] bytes.
    pub(crate) machine: String,
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Environment {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        // Relative paths are invalid in these variables (XDG Base Directory Specification 0.8).
        let absolute = |name| {
            variable(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let config = absolute("XDG_CONFIG_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".config")));
        Environment {
            display: variable("DISPLAY"),
            // An X11 session may have inherited this variable from another session.
            wayland: variable("WAYLAND_DISPLAY")
                .filter(|_| variable("XDG_SESSION_TYPE").as_deref() != Some("x11")),
            config_dir: config.map(|dir| dir.join("openuvr")),
            machine: machine::name(),
        }
    }

    /// The kind of client window that fits the session: `wayland` or `x11`.
    fn present_text(&self) -> Option<String> {
        let text = if self.wayland.is_some() {
            "wayland"
        } else {
            "x11"
        };
        Some(text.to_owned())
    }

    fn config_dir_text(&self) -> Option<String> {
        self.config_dir.as_ref()?.to_str().map(str::to_owned)
    }

    fn machine_text(&self) -> Option<String> {
        Some(self.machine.clone())
    }
}

/// Checks that no two settings name the same file: one would overwrite the other.
fn check_distinct(files: &[(&str, Option<&Path>)]) -> Result<(), ConfigError> {
    let mut seen: Vec<(&str, FileIdentity)> = Vec::new();
    for (key, path) in files {
        let Some(identity) = path.and_then(FileIdentity::of) else {
            continue;
        };
        if let Some((other, _)) = seen.iter().find(|(_, seen)| *seen == identity) {
            return Err(ConfigError(format!(
                "{other} and {key} are the same file, {}: use a different one for each",
                path.unwrap_or(Path::new("")).display()
            )));
        }
        seen.push((key, identity));
    }
    Ok(())
}

/// The identity of a file.
#[derive(PartialEq)]
enum FileIdentity {
    /// An existing file: its device and inode.
    Existing(u64, u64),
    /// A new file: its absolute path.
    New(PathBuf),
}

impl FileIdentity {
    /// The identity of the file; `None` for files that several settings may share, such as /dev/null.
    fn of(path: &Path) -> Option<FileIdentity> {
        if let Ok(there) = std::fs::metadata(path) {
            return (there.is_file()).then(|| FileIdentity::Existing(there.dev(), there.ino()));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = std::fs::canonicalize(folder).ok()?;
        Some(FileIdentity::New(folder.join(path.file_name()?)))
    }
}

/// Declares a role's configuration. Each setting has a field with its type, a key, a kind, a default, and its help as a
/// doc comment. The first line of the doc comment is the short help.
macro_rules! settings {
    ($(#[$outer:meta])* $config:ident is $role:literal {
        about: $about:expr;
        examples: $examples:expr;
        check_consistency: $check_consistency:expr;
        check_environment: $check_environment:expr;
        $($heading:literal {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $key:literal, $kind:expr, $default:expr;)+
        })+
    }) => {
        $(#[$outer])*
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct $config {
            $($($(#[doc = $doc])+ pub(crate) $field: $type,)+)+
        }

        impl $crate::config::Settings for $config {
            const ROLE: &'static str = $role;
            const ABOUT: &'static str = $about;
            const EXAMPLES: &'static str = $examples;

            fn table() -> Vec<$crate::config::Setting> {
                vec![$($({
                    let kind: $crate::config::kind::Kind<$type> = $kind;
                    $crate::config::Setting::new($key, $heading, &[$($doc),+], kind, $default)
                },)+)+]
            }

            fn typed(
                values: &$crate::config::RawValues,
            ) -> Result<Self, $crate::config::ConfigError> {
                Ok(Self { $($($field: values.typed($key, $kind)?,)+)+ })
            }

            fn check_consistency(&self) -> Result<(), $crate::config::ConfigError> {
                let check_consistency: fn(&Self) -> Result<(), $crate::config::ConfigError> = $check_consistency;
                check_consistency(self)
            }

            fn check_environment(&self) -> Result<(), $crate::config::ConfigError> {
                let check_environment: fn(&Self) -> Result<(), $crate::config::ConfigError> = $check_environment;
                check_environment(self)
            }
        }
    };
}
use settings;
