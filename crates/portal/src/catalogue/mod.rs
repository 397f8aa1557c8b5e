//! The catalogue of applications: a TOML file, reloaded when it changes. An invalid entry is reported and skipped; the
//! others are kept.

mod application;
mod icon;
mod picture;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;
use tracing::{info, warn};

pub(crate) use self::application::{Application, CaptureMethod};
use self::icon::Icons;
pub(crate) use self::picture::Picture;

/// Maximum length of the file in bytes, and maximum number of applications. Both are guesses, far above what a usable
/// page can show.
const MAX_FILE: u64 = 1024 * 1024;
const MAX_APPLICATIONS: usize = 1000;

/// The applications of one version of the file.
#[derive(Default)]
pub(crate) struct Applications {
    /// All applications, in the order of the file.
    pub(crate) all: Vec<Arc<Application>>,
    /// The skipped entries, or the reason why the file as a whole cannot be used, one line each.
    pub(crate) problems: Vec<String>,
}

impl Applications {
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Application>> {
        self.all.iter().find(|of| of.name == name)
    }
}

/// The file and its parsed content.
pub(crate) struct Catalogue {
    file: PathBuf,
    read: Mutex<(Option<Stamp>, Arc<Applications>)>,
}

/// Identifies a version of the file.
type Stamp = (SystemTime, u64);

impl Catalogue {
    pub(crate) fn new(file: PathBuf) -> Catalogue {
        Catalogue {
            file,
            read: Mutex::default(),
        }
    }

    /// The current content. Checks the file, and reloads it if it has changed.
    pub(crate) fn current(&self) -> Arc<Applications> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.file)
            .and_then(|of| Ok((of.modified()?, of.len())))
            .ok();
        if read.0 != stamp || (stamp.is_none() && read.1.problems.is_empty()) {
            let applications = open(&self.file);
            for problem in &applications.problems {
                warn!("skipped: {problem}");
            }
            info!(
                applications = applications.all.len(),
                "read {}",
                self.file.display()
            );
            *read = (stamp, Arc::new(applications));
        }
        Arc::clone(&read.1)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    application: Vec<toml::Table>,
}

fn open(file: &Path) -> Applications {
    let none = |why: String| Applications {
        all: Vec::new(),
        problems: vec![format!("{}: {why}", file.display())],
    };
    let text = match fs::metadata(file).map(|of| of.len()) {
        Ok(length) if length > MAX_FILE => return none(format!("longer than {MAX_FILE} bytes")),
        Ok(_) => fs::read_to_string(file),
        Err(why) => Err(why),
    };
    let text = match text {
        Ok(text) => text,
        Err(why) => return none(why.to_string()),
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut found = read(&text, folder).unwrap_or_else(none);
    let icons = Icons::of_this_machine();
    for application in &mut found.all {
        if application.picture.is_none() {
            let program = application.command.first();
            let icon = program.and_then(|program| icons.of(program));
            Arc::make_mut(application).picture = icon;
        }
    }
    found
}

/// Parses the file's text. Relative paths of pictures are resolved against `folder`.
///
/// # Errors
/// Returns a one-line reason if the file as a whole is invalid.
pub(crate) fn read(text: &str, folder: &Path) -> Result<Applications, String> {
    let file: File = toml::from_str(text).map_err(|why| {
        let before = why.span().and_then(|of| text.as_bytes().get(..of.start));
        let ends = |of: &[u8]| of.iter().filter(|byte| **byte == b'\n').count();
        let line = before.map_or(0, ends) + 1;
        format!("line {line}: {}", one_line(why.message()))
    })?;
    let mut found = Applications::default();
    let mut names = BTreeMap::new();
    for (table, number) in file.application.into_iter().zip(1..) {
        let name = table.get("name").and_then(toml::Value::as_str);
        let called = name.map_or(format!("application {number}"), |name| {
            format!("application {name:?}")
        });
        if number > MAX_APPLICATIONS {
            found.problems.push(format!(
                "{called} and all later applications are ignored: the limit is {MAX_APPLICATIONS}"
            ));
            break;
        }
        match Application::read(table, folder) {
            Ok(application) => {
                let first = names.insert(application.name.clone(), number);
                match first {
                    Some(first) => found.problems.push(format!(
                        "{called}: application number {first} has the same name"
                    )),
                    None => found.all.push(Arc::new(application)),
                }
            }
            Err(why) => found.problems.push(format!("{called}: {why}")),
        }
    }
    Ok(found)
}

/// Replaces control characters, so that a problem is one line of a log or a page: names in a problem may contain line
/// breaks.
fn one_line(why: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    why.chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_application_is_named_and_left_out() {
        let text = r#"
            [[application]]
            name = "gears"
            title = "Gears"
            command = ["glxgears"]
            size = "1280x720"

            [[application]]
            name = "typo"
            comand = ["glxgears"]

            [[application]]
            name = "gears"
            command = ["other"]

            [[application]]
            command = ["nameless"]

            [[application]]
            name = "../etc"
            command = ["a"]

            [[application]]
            name = "big"
            command = ["a"]
            size = "100000x1"

            [[application]]
            name = "huge"
            command = ["a"]
            memory_mib = 17592186044416

            [[application]]
            name = "lines"
            command = ["a"]
            "two\nlines" = 1

            [[application]]
            name = "last"
            command = ["a", "b"]
            capture = "run"
            place = false
        "#;
        let read = read(text, Path::new("/nowhere")).unwrap();
        let names: Vec<&str> = read.all.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["gears", "last"]);
        assert_eq!(read.named("last").unwrap().capture, CaptureMethod::Run);
        let placed = ["gears", "last"].map(|name| read.named(name).unwrap().place);
        assert_eq!(placed, [true, false]);
        let problems = read.problems.join("\n");
        for part in [
            "\"typo\": ",
            "number 1 has",
            "application 4",
            "../etc",
            "\"big\"",
            "\"huge\": memory_mib",
            "\"lines\": unknown field `two lines`",
        ] {
            assert!(problems.contains(part), "{part} is missing in {problems}");
        }
    }

    #[test]
    fn a_parse_error_is_one_line_with_its_position() {
        let why = |text: &str| read(text, Path::new("/nowhere")).err().unwrap();
        let said = why("[[application]]\nname = \"a\"\ncommand = [\n");
        assert!(
            said.starts_with("line 3: ") && !said.contains('\n'),
            "{said}"
        );
        let said = why("\"two\\nlines\" = 1");
        assert!(
            said.starts_with("line 1: unknown field `two lines`"),
            "{said}"
        );
    }

    #[test]
    fn a_missing_file_is_reported_once() {
        let catalogue = Catalogue::new("/nowhere/applications.toml".into());
        let read = catalogue.current();
        assert_eq!(read.problems.len(), 1);
        assert!(Arc::ptr_eq(&read, &catalogue.current()));
    }
}
