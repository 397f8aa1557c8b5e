//! Installed games of Steam. `libraryfolders.vdf` lists the libraries, each of which has an `appmanifest_*.acf` per game.
//! Both have Valve's KeyValues form.

use std::path::{Path, PathBuf};

use super::keyvalues::{Pair, parse};
use super::{Places, files};
use crate::{Application, read_text};

/// The bit of `StateFlags` that marks a completely installed application.
const INSTALLED: u32 = 4;

/// Name prefixes of Steam components that are not games.
const PARTS: [&str; 3] = ["Proton ", "Steam Linux Runtime", "Steamworks Common"];

/// The commands that start Steam, as a native program and as a Flatpak.
const NATIVE: &[&str] = &["steam"];
const FLATPAK: &[&str] = &["flatpak", "run", "com.valvesoftware.Steam"];

pub(super) fn games(places: &Places) -> Vec<Application> {
    let home = &places.home;
    let roots = [
        (home.join(".steam/steam"), NATIVE),
        (places.data.join("Steam"), NATIVE),
        (home.join("snap/steam/common/.local/share/Steam"), NATIVE),
        (
            home.join(".var/app/com.valvesoftware.Steam/.local/share/Steam"),
            FLATPAK,
        ),
    ];
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (root, start) in roots {
        for library in libraries(&root) {
            // Several names can refer to one folder.
            let Ok(library) = library.canonicalize() else {
                continue;
            };
            if seen.contains(&library) {
                continue;
            }
            for manifest in files(&library.join("steamapps"), ".acf") {
                let text = read_text(&manifest).ok();
                found.extend(text.and_then(|text| game(&text, start)));
            }
            seen.push(library);
        }
    }
    found
}

/// The libraries of a Steam installation, including the installation itself.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let list = read_text(&root.join("steamapps/libraryfolders.vdf"));
    let mut all = vec![root.to_owned()];
    all.extend(list.ok().map(|text| paths(&text)).unwrap_or_default());
    all
}

/// The paths in a `libraryfolders.vdf`: in newer files the values of the key `path`, in older ones all strings.
#[must_use]
pub fn paths(text: &str) -> Vec<PathBuf> {
    let pairs = parse(text).unwrap_or_default().into_iter();
    let is_path = |pair: &Pair| match &pair.keys[..] {
        [_, _] => true,
        [_, _, key] => key == "path",
        _ => false,
    };
    let found = pairs.filter(|pair| is_path(pair) && pair.value.starts_with('/'));
    found.map(|pair| PathBuf::from(pair.value)).collect()
}

/// The game of a manifest; `None` if the application is not a game, or not installed. `start` is the command that
/// starts Steam.
#[must_use]
pub fn game(text: &str, start: &[&str]) -> Option<Application> {
    let pairs = parse(text)?;
    let field = |key: &str| {
        let is_it = |pair: &&Pair| matches!(&pair.keys[..], [_, name] if name == key);
        let pair = pairs.iter().find(is_it)?;
        Some(pair.value.as_str())
    };
    let number: u64 = field("appid")?.parse().ok()?;
    let name = field("name")?;
    let flags: u32 = field("StateFlags")?.parse().ok()?;
    let is_part = PARTS.iter().any(|part| name.starts_with(part));
    if is_part || flags & INSTALLED == 0 {
        return None;
    }
    let url = format!("steam://rungameid/{number}");
    let words = start.iter().map(|word| (*word).to_owned());
    Some(Application {
        name: name.to_owned(),
        command: words.chain([url]).collect(),
        icon: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    fn manifest(number: u32, name: &str, flags: u32) -> String {
        format!(
            "\"AppState\"\n{{\n\t\"appid\"\t\t\"{number}\"\n\t\"name\"\t\t\"{name}\"\n\t\"StateFlags\"\t\t\"{flags}\"\n\
             \t\"UserConfig\"\n\t{{\n\t\t\"language\"\t\t\"english\"\n\t}}\n}}\n"
        )
    }

    #[test]
    fn installed_games_of_all_libraries_are_found() {
        let (root, places) = machine(&[
            (
                "home/.local/share/Steam/steamapps/appmanifest_220.acf",
                &manifest(220, "Half-Life 2", 4),
            ),
            (
                "home/.local/share/Steam/steamapps/appmanifest_1.acf",
                &manifest(1, "Being downloaded", 1026),
            ),
            (
                "home/.local/share/Steam/steamapps/appmanifest_2.acf",
                &manifest(2, "Proton 9.0", 4),
            ),
            ("home/.local/share/Steam/steamapps/appmanifest_3.acf", "{{{"),
            (
                "disk/games/steamapps/appmanifest_70.acf",
                &manifest(70, "Half-Life", 6),
            ),
            (
                "home/.var/app/com.valvesoftware.Steam/.local/share/Steam/steamapps/appmanifest_400.acf",
                &manifest(400, "Portal", 4),
            ),
        ]);
        let disk = root.path().join("disk/games");
        let list = format!(
            "\"libraryfolders\"\n{{\n\"0\"\n{{\n\"path\" \"{}\"\n\"apps\" {{ \"70\" \"1\" }}\n}}\n\"1\" \"{0}\"\n}}\n",
            disk.display()
        );
        let folder = places.data.join("Steam/steamapps/libraryfolders.vdf");
        std::fs::write(folder, list).unwrap();
        // Steam creates the same link.
        std::fs::create_dir_all(places.home.join(".steam")).unwrap();
        let link = places.home.join(".steam/steam");
        std::os::unix::fs::symlink(places.data.join("Steam"), link).unwrap();
        let found = games(&places);
        let commands: Vec<(&str, String)> = (found.iter())
            .map(|game| (game.name.as_str(), game.command.join(" ")))
            .collect();
        let expected = [
            ("Half-Life 2", "steam steam://rungameid/220"),
            ("Half-Life", "steam steam://rungameid/70"),
            (
                "Portal",
                "flatpak run com.valvesoftware.Steam steam://rungameid/400",
            ),
        ];
        assert_eq!(
            commands,
            expected.map(|(name, words)| (name, words.to_owned()))
        );
    }

    #[test]
    fn paths_are_absolute() {
        let text = "\"libraryfolders\" { \"TimeNextStatsReport\" \"17\" \"1\" \"/games\" \"2\" \"relative\" }";
        assert_eq!(paths(text), [PathBuf::from("/games")]);
        assert!(paths("").is_empty());
    }
}
