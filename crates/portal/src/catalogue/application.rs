//! An application of the catalogue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum length of a name in characters: the limit of a Kubernetes label.
const MAX_NAME: usize = 63;

/// How an application's frames are captured. The names are the values of the option `--capture` of `openuvr session`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CaptureMethod {
    /// From a virtual display.
    #[default]
    Screen,
    /// From inside the game's process, by the hook.
    Run,
    /// An OpenXR application.
    Xr,
    /// By the application itself, which links libopenuvr.
    Api,
}

impl CaptureMethod {
    /// The method's name in the catalogue and in a session's command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            CaptureMethod::Screen => "screen",
            CaptureMethod::Run => "run",
            CaptureMethod::Xr => "xr",
            CaptureMethod::Api => "api",
        }
    }
}

/// An application that can be started.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Application {
    /// Identifier in URLs.
    pub(crate) name: String,
    /// Display name.
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) picture: Option<PathBuf>,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) capture: CaptureMethod,
    /// Size in pixels, such as `1280x720`.
    pub(crate) size: Option<String>,
    /// Whether a single window fills the display, with dialogs centred on it.
    pub(crate) place: bool,
    pub(crate) gpus: u32,
    pub(crate) millicores: u32,
    /// Memory limit in bytes; 0 means the engine's default.
    pub(crate) memory: u64,
    pub(crate) max_duration: Option<Duration>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Whether each user has a folder for the application's saves.
    pub(crate) saves: bool,
    /// The users that may start the application; `None` if all users may.
    pub(crate) users: Option<Vec<String>>,
    pub(crate) zone: Option<String>,
    /// Whether the application runs in a sandbox.
    pub(crate) sandbox: bool,
    /// Paths that the sandboxed application can read in addition to the system's files.
    pub(crate) readable: Vec<PathBuf>,
    /// The system account under which the application runs.
    pub(crate) application_user: Option<String>,
    /// Whether sessions of the application serve Moonlight clients.
    pub(crate) moonlight: bool,
    /// Whether the root file system of the application's container is writable.
    pub(crate) writable_root: bool,
}

/// An entry of the applications file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApplication {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: String,
    picture: Option<PathBuf>,
    command: Vec<String>,
    #[serde(default)]
    capture: CaptureMethod,
    size: Option<String>,
    place: Option<bool>,
    #[serde(default)]
    gpus: u32,
    #[serde(default)]
    millicores: u32,
    #[serde(default)]
    memory_mib: u64,
    hours: Option<f64>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    saves: bool,
    users: Option<Vec<String>>,
    zone: Option<String>,
    #[serde(default)]
    sandbox: bool,
    #[serde(default)]
    readable: Vec<PathBuf>,
    application_user: Option<String>,
    #[serde(default)]
    moonlight: bool,
    #[serde(default)]
    writable_root: bool,
}

impl Application {
    /// Parses an entry of the file. Relative paths of pictures are resolved against `folder`.
    ///
    /// # Errors
    /// Returns the problem, in one line.
    pub(super) fn read(table: toml::Table, folder: &Path) -> Result<Application, String> {
        let written: RawApplication = table
            .try_into()
            .map_err(|why: toml::de::Error| super::one_line(why.message()))?;
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &written.name;
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins || name.ends_with('-') || name.len() > MAX_NAME || !name.chars().all(allowed) {
            return Err(format!(
                "the name {name:?} must consist of at most {MAX_NAME} lower-case letters, digits and hyphens, and must \
                 not begin or end with a hyphen"
            ));
        }
        if written.command.first().is_none_or(String::is_empty) {
            return Err("command is empty".to_owned());
        }
        if let Some(size) = &written.size
            && !is_size(size)
        {
            return Err(format!(
                "size {size:?} must be WIDTHxHEIGHT, from 16x16 to 8192x8192"
            ));
        }
        let hours = written.hours.filter(|hours| *hours > 0.0 && *hours < 1e4);
        if hours.is_none() && written.hours.is_some() {
            return Err("hours must be more than 0 and less than 10000".to_owned());
        }
        let memory = written.memory_mib.checked_mul(1 << 20);
        let Some(memory) = memory.filter(|bytes| i64::try_from(*bytes).is_ok()) else {
            return Err("memory_mib is too large".to_owned());
        };
        if !written.readable.is_empty() && !written.sandbox {
            return Err("readable requires sandbox = true".to_owned());
        }
        if written.readable.iter().any(|path| !path.is_absolute()) {
            return Err("readable must list absolute paths".to_owned());
        }
        if written.application_user.is_some() && written.capture != CaptureMethod::Screen {
            return Err("application_user requires capture = \"screen\": with other capture methods, the host runs in \
                        the application".to_owned());
        }
        Ok(Application {
            title: written.title.unwrap_or_else(|| written.name.clone()),
            name: written.name,
            description: written.description,
            picture: written.picture.map(|picture| folder.join(picture)),
            command: written.command,
            capture: written.capture,
            size: written.size,
            place: written.place.unwrap_or(true),
            gpus: written.gpus,
            millicores: written.millicores,
            memory,
            max_duration: hours.map(|hours| Duration::from_secs_f64(hours * 3600.0)),
            environment: written.environment,
            saves: written.saves,
            users: written.users,
            zone: written.zone,
            sandbox: written.sandbox,
            readable: written.readable,
            application_user: written.application_user,
            moonlight: written.moonlight,
            writable_root: written.writable_root,
        })
    }

    /// Whether this user may start the application.
    pub(crate) fn is_for(&self, user: &str) -> bool {
        let users = self.users.as_ref();
        users.is_none_or(|users| users.iter().any(|of| of == user))
    }
}

fn is_size(text: &str) -> bool {
    let sides = text.split_once('x').map(|(w, h)| [w, h]);
    sides.is_some_and(|sides| {
        sides
            .iter()
            .all(|side| side.parse().is_ok_and(|n: u32| (16..=8192).contains(&n)))
    })
}
