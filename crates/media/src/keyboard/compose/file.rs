//! Finds the compose table of the user or the locale.
//!
//! Spec: Compose(5), "FILES" and "ENVIRONMENT VARIABLES".

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Table, parse};

/// Xlib's tables.
const FOLDER: &str = "/usr/share/X11/locale";

/// The table for locales without a table of their own. It is also used for locales with a charset other than UTF-8,
/// because text is sent as Unicode.
const DEFAULT_TABLE: &str = "en_US.UTF-8/Compose";

/// Maximum file size: Xlib's longest table has 650 KB.
const MAX_SIZE: u64 = 4 << 20;

/// The table selected by `XCOMPOSEFILE`, `~/.XCompose` or the locale; empty, with a log line, if
/// there is none.
pub(super) fn of_locale() -> Table {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let own = variable("XCOMPOSEFILE").map(PathBuf::from);
    let own = own.or_else(|| home().map(|home| home.join(".XCompose")));
    named(own.filter(|file| file.is_file()).unwrap_or_else(of_system))
}

pub(super) fn named(file: PathBuf) -> Table {
    let Some(text) = read(&file) else {
        tracing::warn!(
            file = %file.display(),
            "can't read a compose table, so dead keys type their own symbol: install libx11-data"
        );
        return Table::default();
    };
    parse::table(&text, &mut |name| read(&included(name)?))
}

fn read(file: &Path) -> Option<String> {
    // Devices and pipes may be endless or block, so they are refused.
    std::fs::metadata(file).ok().filter(|is| is.is_file())?;
    let mut bytes = Vec::new();
    let open = std::fs::File::open(file).ok()?;
    open.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Expands `%H`, `%L` and `%S` at the start of a file name.
fn included(name: &str) -> Option<PathBuf> {
    let (kind, rest) = match name.strip_prefix('%') {
        Some(rest) => rest.split_at_checked(1)?,
        None => return Some(PathBuf::from(name)),
    };
    let rest = rest.trim_start_matches('/');
    Some(match kind {
        "H" => home()?.join(rest),
        "S" => folder().join(rest),
        "L" => of_system(),
        _ => return None,
    })
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

fn folder() -> PathBuf {
    std::env::var_os("XLOCALEDIR").map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// The locale's table in Xlib's folder.
fn of_system() -> PathBuf {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = names.filter_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let locale = set.next().unwrap_or_default();
    let list = read(&folder().join("compose.dir")).unwrap_or_default();
    folder().join(table_of(&locale, &list).unwrap_or(DEFAULT_TABLE))
}

/// The table of a locale in `compose.dir`, which has lines of `TABLE[:] LOCALE`.
fn table_of<'a>(locale: &str, list: &'a str) -> Option<&'a str> {
    let (name, codes) = locale.split_once('.')?;
    let codes = codes.to_ascii_lowercase().replace('-', "");
    let locale = (codes == "utf8").then(|| format!("{name}.UTF-8"))?;
    list.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (table, of) = (words.next()?, words.next()?);
        (of == locale && !table.starts_with('#')).then(|| table.trim_end_matches(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_has_its_table_if_it_is_unicode() {
        let list = "# names\niso8859-1/Compose:\tde_DE.ISO8859-1\nen_US.UTF-8/Compose: de_DE.UTF-8\n\
                    pt_BR.UTF-8/Compose\t\tpt_BR.UTF-8\n";
        assert_eq!(table_of("pt_BR.utf8", list), Some("pt_BR.UTF-8/Compose"));
        assert_eq!(table_of("de_DE.UTF-8", list), Some("en_US.UTF-8/Compose"));
        assert_eq!(table_of("de_DE.ISO8859-1", list), None);
        assert_eq!(table_of("C", list), None);
    }

    #[test]
    fn unreadable_or_huge_files_are_no_table() {
        assert_eq!(read(Path::new("/dev/zero")), None);
        assert_eq!(read(Path::new("/nonexistent/Compose")), None);
        assert_eq!(included("%Q/x"), None);
        assert_eq!(included("%"), None);
        assert_eq!(included("/etc/x"), Some(PathBuf::from("/etc/x")));
    }
}
