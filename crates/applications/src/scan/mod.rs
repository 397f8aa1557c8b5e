//! The search for applications on this machine, with one file per source. Files that are missing or damaged are skipped.

mod desktop;
mod heroic;
mod keyvalues;
mod lutris;
mod steam;

pub use self::lutris::game as lutris_game;
pub use self::steam::{game as steam_game, paths as steam_libraries};

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::{Application, LONGEST_NAME};

/// The folders of a user and of the machine (XDG Base Directory Specification).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// The home folder.
    pub home: PathBuf,
    /// `$XDG_DATA_HOME`.
    pub data: PathBuf,
    /// `$XDG_CONFIG_HOME`.
    pub config: PathBuf,
    /// `$XDG_DATA_DIRS`, the folder with the highest priority first.
    pub shared: Vec<PathBuf>,
    /// The language for names, such as `de_DE`.
    pub locale: Option<String>,
    /// `$PATH`, for the programs that desktop entries require.
    pub programs: Vec<PathBuf>,
}

impl Places {
    /// The folders of this process.
    #[must_use]
    pub fn of_process() -> Places {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let folder = |name: &str, usual: &str| {
            let given = variable(name).map(PathBuf::from);
            let given = given.filter(|path| path.is_absolute());
            given.unwrap_or_else(|| home.join(usual))
        };
        let split = |name: &str, usual: &str| {
            let text = variable(name).unwrap_or_else(|| usual.into());
            std::env::split_paths(&text).collect()
        };
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter();
        let locale = locale.filter_map(|name| std::env::var(name).ok());
        let locale = locale.into_iter().find(|value| !value.is_empty());
        let plain = |value: String| value.split(['.', '@']).next().map(str::to_owned);
        Places {
            data: folder("XDG_DATA_HOME", ".local/share"),
            config: folder("XDG_CONFIG_HOME", ".config"),
            shared: split("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
            programs: split("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/games"),
            locale: locale.and_then(plain).filter(|value| value != "C"),
            home,
        }
    }
}

/// An application with the name of its source.
struct SourcedApplication {
    source: &'static str,
    application: Application,
}

/// The applications on this machine, sorted by name: games and, with `all`, all desktop entries.
#[must_use]
pub fn scan(places: &Places, all: bool) -> Vec<Application> {
    let sources = [
        ("Steam", steam::games(places)),
        ("Lutris", lutris::games(places)),
        ("Heroic", heroic::games(places)),
        ("desktop", desktop::entries(places, all)),
    ];
    let found = sources.into_iter().flat_map(|(source, applications)| {
        let named = move |application| SourcedApplication {
            source,
            application,
        };
        applications.into_iter().map(named)
    });
    distinct(found.collect())
}

/// Keeps each command once, because the desktop entry that a launcher creates for a game duplicates the game. Appends
/// the name of the source, and if necessary a number, to a name that another application already has.
fn distinct(mut found: Vec<SourcedApplication>) -> Vec<Application> {
    let mut commands = HashSet::new();
    found.retain(|one| commands.insert(one.application.command.clone()));
    let mut names = HashSet::new();
    let mut all = Vec::new();
    for SourcedApplication {
        source,
        mut application,
    } in found
    {
        let plain = usable_name(&application.name);
        let others = (1_usize..).map(|number| match number {
            1 => with_end(&plain, &format!(" ({source})")),
            number => with_end(&plain, &format!(" ({source} {number})")),
        });
        let mut candidates = std::iter::once(plain.clone()).chain(others);
        let free = candidates.find(|name| !names.contains(name));
        if let Some(name) = free.filter(|_| !plain.is_empty()) {
            names.insert(name.clone());
            application.name = name;
            all.push(application);
        }
    }
    all.sort_by_cached_key(|application| application.name.to_lowercase());
    all
}

/// The name, shortened so that `end` fits after it.
fn with_end(name: &str, end: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(end.chars().count());
    name.chars().take(room).chain(end.chars()).collect()
}

/// The name without control characters, shortened.
fn usable_name(name: &str) -> String {
    let printable = name.trim().chars().filter(|c| !c.is_control());
    printable.take(LONGEST_NAME).collect()
}

/// The files of a folder whose names end with `end`, sorted.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let ends = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(end))
    };
    let mut paths: Vec<PathBuf> = paths.filter(ends).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod fixture {
    use tempfile::TempDir;

    use super::*;

    /// A machine with these files, by path below its root.
    pub(super) fn machine(files: &[(&str, &str)]) -> (TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (path, text) in files {
            let path = at(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let places = Places {
            home: at("home"),
            data: at("home/.local/share"),
            config: at("home/.config"),
            shared: vec![at("usr/share")],
            locale: None,
            programs: vec![at("usr/bin")],
        };
        (root, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_come_together_without_repetition() {
        let (_root, places) = fixture::machine(&[
            (
                "home/.local/share/Steam/steamapps/appmanifest_220.acf",
                "\"AppState\" { \"appid\" \"220\" \"name\" \"Half-Life 2\" \"StateFlags\" \"4\" }",
            ),
            (
                "home/.local/share/applications/hl2.desktop",
                "[Desktop Entry]\nType=Application\nName=HL2\nCategories=Game;\nExec=steam steam://rungameid/220\n",
            ),
            (
                "usr/share/applications/half.desktop",
                "[Desktop Entry]\nType=Application\nName=Half-Life 2\nCategories=Game;\nExec=half-life\n",
            ),
            (
                "home/.config/lutris/games/quake-1600000000.yml",
                "game:\n  exe: /games/quake\ngame_slug: quake\nname: Quake\n",
            ),
            ("home/.config/heroic/sideload_apps/library.json", "damaged"),
        ]);
        let found = scan(&places, false);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["Half-Life 2", "Half-Life 2 (desktop)", "Quake"]);
        assert_eq!(crate::parse(&crate::to_toml(&found)).unwrap(), found);
    }

    #[test]
    fn names_are_made_usable() {
        assert_eq!(usable_name(" a\u{7}b "), "ab");
        assert_eq!(usable_name(&"é".repeat(200)).chars().count(), LONGEST_NAME);
    }

    #[test]
    fn applications_with_equal_names_get_different_names() {
        let named = |name: &str, command: &str| SourcedApplication {
            source: "desktop",
            application: Application {
                name: name.to_owned(),
                command: vec![command.to_owned()],
                icon: None,
            },
        };
        let long = "é".repeat(LONGEST_NAME);
        let found = distinct(vec![
            named("a", "1"),
            named("a", "2"),
            named("a", "3"),
            named(&long, "4"),
            named(&long, "5"),
            named("", "6"),
        ]);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        let end = " (desktop)";
        let shortened = "é".repeat(LONGEST_NAME - end.len()) + end;
        let [shortened, long] = [shortened.as_str(), long.as_str()];
        assert_eq!(
            names,
            ["a", "a (desktop 2)", "a (desktop)", shortened, long]
        );
    }
}
