//! Desktop entries (Desktop Entry Specification 1.5).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use freedesktop_desktop_entry::{DesktopEntry, Iter};

use super::Places;
use crate::Application;

/// The category of games (Desktop Menu Specification).
const GAME: &str = "Game";

/// Sizes of icons in pixels, the best for box art first.
const SIZES: [u16; 8] = [256, 512, 192, 128, 96, 64, 48, 32];

/// Visible entries with a command that needs no terminal: games or, with `all`, all of them.
pub(super) fn entries(places: &Places, all: bool) -> Vec<Application> {
    let roots = [&places.data].into_iter().chain(&places.shared);
    let locales: Vec<String> = places.locale.iter().cloned().collect();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for root in roots {
        // The search returns canonical paths.
        let Ok(folder) = root.join("applications").canonicalize() else {
            continue;
        };
        for path in Iter::new(std::iter::once(folder.clone())) {
            // A user's entry replaces the machine's entry with the same name, even to hide it.
            let Ok(id) = path.strip_prefix(&folder).map(Path::to_owned) else {
                continue;
            };
            if !seen.insert(id) {
                continue;
            }
            let entry = DesktopEntry::from_path(&path, Some(&locales[..]));
            let application = entry
                .ok()
                .and_then(|entry| of(places, &entry, &locales, all));
            found.extend(application);
        }
    }
    found
}

fn of(places: &Places, entry: &DesktopEntry, locales: &[String], all: bool) -> Option<Application> {
    let is_game = || {
        let categories = entry.categories().unwrap_or_default();
        categories.contains(&GAME)
    };
    let hidden = entry.no_display() || entry.hidden() || entry.terminal();
    if entry.type_() != Some("Application") || hidden || !(all || is_game()) {
        return None;
    }
    let is_there = |program: &str| {
        let there = |folder: &PathBuf| folder.join(program).exists();
        // Joining an absolute path replaces the folder.
        places.programs.iter().any(there)
    };
    if entry.try_exec().is_some_and(|program| !is_there(program)) {
        return None;
    }
    Some(Application {
        name: entry.name(locales)?.into_owned(),
        command: entry.parse_exec().ok()?,
        icon: entry.icon().and_then(|icon| find_icon(places, icon)),
    })
}

/// The PNG file of an icon. `icon` is a path, or a name. A name is searched in the theme hicolor, on which all others
/// are based, and in the folder `pixmaps` (Icon Theme Specification).
fn find_icon(places: &Places, icon: &str) -> Option<PathBuf> {
    let path = Path::new(icon);
    if path.is_absolute() {
        let is_png = path.extension().is_some_and(|end| end == "png");
        return (is_png && path.exists()).then(|| path.to_owned());
    }
    let file = format!("{}.png", icon.trim_end_matches(".png"));
    let roots = [&places.data].into_iter().chain(&places.shared);
    let mut candidates = roots.flat_map(|root| {
        let themed = SIZES.map(|size| {
            root.join(format!("icons/hicolor/{size}x{size}/apps"))
                .join(&file)
        });
        themed.into_iter().chain([root.join("pixmaps").join(&file)])
    });
    candidates.find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    const GAME_ENTRY: &str = "[Desktop Entry]\nType=Application\nName=Neverball\nName[de]=Niemalsball\n\
        Categories=Game;ArcadeGame;\nExec=\"/opt/never ball/run\" --window %U\nIcon=neverball\n";

    #[test]
    fn games_are_found_with_command_name_and_icon() {
        let (root, mut places) = machine(&[
            ("usr/share/applications/neverball.desktop", GAME_ENTRY),
            ("usr/share/icons/hicolor/48x48/apps/neverball.png", ""),
            ("usr/share/icons/hicolor/128x128/apps/neverball.png", ""),
            (
                "usr/share/applications/editor.desktop",
                "[Desktop Entry]\nType=Application\nName=Editor\nCategories=Utility;\nExec=edit %f\n",
            ),
        ]);
        let games = entries(&places, false);
        assert_eq!(games.len(), 1, "{games:?}");
        assert_eq!(games[0].name, "Neverball");
        assert_eq!(games[0].command, ["/opt/never ball/run", "--window"]);
        let icon = "usr/share/icons/hicolor/128x128/apps/neverball.png";
        assert_eq!(games[0].icon, Some(root.path().join(icon)));
        assert_eq!(entries(&places, true).len(), 2);
        places.locale = Some("de_DE".to_owned());
        assert_eq!(entries(&places, false)[0].name, "Niemalsball");
    }

    #[test]
    fn entries_that_no_menu_shows_are_left_out() {
        let entry = |more: &str| {
            format!("[Desktop Entry]\nType=Application\nName=a\nCategories=Game;\nExec=a\n{more}\n")
        };
        let texts = [
            entry("NoDisplay=true"),
            entry("Terminal=true"),
            entry("TryExec=missing"),
            "[Desktop Entry]\nType=Link\nName=a\nCategories=Game;\nURL=a\n".to_owned(),
            "[Desktop Entry]\nType=Application\nName=a\nCategories=Game;\n".to_owned(),
            "no entry".to_owned(),
        ];
        let files: Vec<(String, &str)> = (texts.iter().enumerate())
            .map(|(n, text)| (format!("usr/share/applications/{n}.desktop"), text.as_str()))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let (_root, places) = machine(&files);
        assert!(entries(&places, true).is_empty());
        // A user's entry hides the machine's entry.
        let (_root, places) = machine(&[
            ("usr/share/applications/a.desktop", &entry("")),
            (
                "home/.local/share/applications/a.desktop",
                &entry("Hidden=true"),
            ),
            ("usr/share/applications/b.desktop", &entry("TryExec=there")),
            ("usr/bin/there", ""),
        ]);
        assert_eq!(entries(&places, false).len(), 1);
    }
}
