//! The icon of an application for which the catalogue has no picture. It comes from the desktop entry of the
//! application's program on this machine.
//!
//! Follows Desktop Entry Specification 1.5. From Icon Theme Specification 0.13, this module supports only the theme
//! hicolor and the folder `pixmaps`, because applications install their icons there. Only PNG icons are supported,
//! because SVG can contain scripts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum length of a desktop entry in bytes, and maximum number of entries in a folder. Both are guesses: an entry
/// with all languages has 60 kB, and a desktop has a few hundred entries.
const MAX_ENTRY: u64 = 256 * 1024;
const MAX_ENTRIES: usize = 4096;

/// Icon sizes in pixels, best first. A tile of the page is about 240 pixels wide.
const SIZES: [u32; 8] = [256, 512, 192, 128, 96, 72, 64, 48];

/// The programs of this machine that have icons.
pub(super) struct Icons {
    /// Folders of `XDG_DATA_DIRS`, highest priority first.
    folders: Vec<PathBuf>,
    /// Icon name by program name.
    named: BTreeMap<String, String>,
}

impl Icons {
    /// Reads the desktop entries of this machine.
    pub(super) fn of_this_machine() -> Icons {
        // The default value of `XDG_DATA_DIRS` in the XDG Base Directory Specification.
        let folders = std::env::var_os("XDG_DATA_DIRS").filter(|all| !all.is_empty());
        let folders = folders.unwrap_or_else(|| "/usr/local/share:/usr/share".into());
        Icons::in_folders(std::env::split_paths(&folders).collect())
    }

    fn in_folders(folders: Vec<PathBuf>) -> Icons {
        let mut named = BTreeMap::new();
        for folder in &folders {
            let entries = fs::read_dir(folder.join("applications"))
                .into_iter()
                .flatten();
            let mut paths: Vec<PathBuf> = entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension() == Some(OsStr::new("desktop")))
                .take(MAX_ENTRIES)
                .collect();
            // Several entries may start the same program with different arguments. The entry with the shortest file
            // name usually starts the program without special arguments.
            paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
            for path in paths {
                if let Some((program, icon)) = read(&path) {
                    named.entry(program).or_insert(icon);
                }
            }
        }
        Icons { folders, named }
    }

    /// The icon of the program that a command starts.
    pub(super) fn of(&self, program: &str) -> Option<PathBuf> {
        let icon = self.named.get(base_name(program)?)?;
        if Path::new(icon).is_absolute() {
            return Some(PathBuf::from(icon)).filter(|path| is_png(path));
        }
        // An icon name with a path separator could point outside of the icon folders.
        if icon.contains('/') {
            return None;
        }
        let name = icon.strip_suffix(".png").unwrap_or(icon);
        let file = format!("{name}.png");
        let in_theme = SIZES.iter().flat_map(|size| {
            let place = format!("icons/hicolor/{size}x{size}/apps/{file}");
            self.folders.iter().map(move |folder| folder.join(&place))
        });
        let unthemed = self
            .folders
            .iter()
            .map(|folder| folder.join("pixmaps").join(&file));
        in_theme.chain(unthemed).find(|path| is_png(path))
    }
}

/// The program and the icon of a desktop entry. `None` if the entry is unreadable, or has no program or no icon.
fn read(path: &Path) -> Option<(String, String)> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(MAX_ENTRY)
        .read_to_string(&mut text)
        .ok()?;
    let lines = text.lines().map(str::trim);
    let group = lines
        .skip_while(|line| *line != "[Desktop Entry]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let pairs = group.filter_map(|line| line.split_once('='));
    let mut entry: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in pairs {
        entry.entry(key.trim()).or_insert(value.trim());
    }
    // The program is the first word of `Exec`. The word may be quoted.
    let exec = entry.get("Exec")?;
    let program = match exec.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => exec.split_whitespace().next()?,
    };
    let icon = entry.get("Icon").filter(|icon| !icon.is_empty())?;
    Some((base_name(program)?.to_owned(), (*icon).to_owned()))
}

fn base_name(program: &str) -> Option<&str> {
    Path::new(program).file_name()?.to_str()
}

fn is_png(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("png")) && path.is_file()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A data folder with these files.
    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn a_programs_icon_is_found_by_its_desktop_entry() {
        let small = "icons/hicolor/48x48/apps/org.example.Gears.png";
        let large = "icons/hicolor/256x256/apps/org.example.Gears.png";
        let system = folder(&[
            (
                "applications/org.example.Gears.desktop",
                "[Desktop Entry]\nName=Gears\nExec=/usr/games/gears --full %U\nIcon=org.example.Gears\n",
            ),
            (
                "applications/org.example.Gears-editor.desktop",
                "[Desktop Entry]\nExec=gears --edit\nIcon=other\n",
            ),
            (
                "applications/quoted.desktop",
                "# c\n[Desktop Entry]\nExec=\"/opt/my game/play\" x\nIcon = play.png\n[Desktop Action a]\nIcon=none\n",
            ),
            (
                "applications/out.desktop",
                "[Desktop Entry]\nExec=out\nIcon=../../secret\n",
            ),
            ("applications/none.desktop", "[Desktop Entry]\nExec=none\n"),
            ("applications/broken.desktop", "Exec=broken\nIcon=play\n"),
            ("pixmaps/play.png", ""),
            ("secret.png", ""),
            (small, ""),
            (large, ""),
        ]);
        let icons = Icons::in_folders(vec![PathBuf::from("/nowhere"), system.path().to_owned()]);
        assert_eq!(icons.of("gears"), Some(system.path().join(large)));
        assert_eq!(
            icons.of("/usr/games/gears"),
            Some(system.path().join(large))
        );
        assert_eq!(
            icons.of("play"),
            Some(system.path().join("pixmaps/play.png"))
        );
        for without in ["out", "none", "broken", "unknown", "", "/"] {
            assert_eq!(icons.of(without), None, "{without}");
        }
    }
}
