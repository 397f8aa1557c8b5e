//! The attributes of an IIO device: small text files in its folder (sysfs,
//! `Documentation/ABI/testing/sysfs-bus-iio`). Changes are undone when their list is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::super::HeadPoseError;

/// Maximum length of an attribute: a page of sysfs.
const MAX_LENGTH: u64 = 4096;

/// Reads an attribute without its line end.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_LENGTH)
        .read_to_string(&mut text)?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Reads and parses an attribute; `None` if it is missing.
///
/// # Errors
/// Returns an error if the attribute can't be read or has a different form.
pub(super) fn parsed<T: FromStr>(path: &Path, form: &str) -> Result<Option<T>, HeadPoseError> {
    let text = match read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(path, &e)),
    };
    match text.trim().parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(HeadPoseError(format!(
            "{} does not contain {form}, but {:?}; the driver may be too old",
            path.display(),
            text.chars().take(60).collect::<String>()
        ))),
    }
}

/// The error for an attribute that can't be read.
pub(super) fn unreadable(path: &Path, cause: &io::Error) -> HeadPoseError {
    let remedy = match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "allow access with a udev rule, or start the client as root"
        }
        io::ErrorKind::ResourceBusy => {
            "another program uses the sensor: stop that program (systemctl stop iio-sensor-proxy)"
        }
        _ => "check the sensor and its driver (dmesg)",
    };
    HeadPoseError(format!("can't read {}: {cause}; {remedy}", path.display()))
}

/// The changed attributes of a device, restored in reverse order on drop.
#[derive(Debug, Default)]
pub(super) struct Changes(Vec<(PathBuf, String)>);

impl Changes {
    /// Sets an attribute, unless it already has this value.
    pub(super) fn set(&mut self, path: PathBuf, value: &str) -> io::Result<()> {
        let before = read(&path)?;
        if before.trim() == value {
            return Ok(());
        }
        write(&path, value)?;
        self.0.push((path, before));
        Ok(())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        for (path, before) in self.0.drain(..).rev() {
            if let Err(cause) = write(&path, &before) {
                let path = path.display();
                tracing::warn!(
                    "can't restore {path} to {before:?}: {cause}; write this value by hand"
                );
            }
        }
    }
}

/// Writes an attribute that is not restored.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    // The value is written in one call, because the kernel parses the bytes of each call separately.
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(format!("{value}\n").as_bytes())
}

/// At most `most` names in a folder, sorted.
pub(super) fn names(folder: &Path, most: usize) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.flatten().take(most);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_undone_in_reverse_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("rate"), "104\n").expect("written");
        fs::write(path("enable"), "0\n").expect("written");
        {
            let mut changes = Changes::default();
            changes.set(path("rate"), "208").expect("set");
            changes.set(path("rate"), "416").expect("set");
            changes.set(path("enable"), "0").expect("unchanged");
            assert_eq!(changes.0.len(), 2);
            assert_eq!(read(&path("rate")).expect("read"), "416");
            let missing = changes.set(path("missing"), "1");
            assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert_eq!(read(&path("rate")).expect("read"), "104");
        assert!(!path("missing").exists(), "nothing is created");
    }

    #[test]
    fn a_refusal_has_a_remedy() {
        let refusal =
            |errno: rustix::io::Errno| unreadable(Path::new("/sys/x"), &errno.into()).to_string();
        for (errno, remedy) in [
            (rustix::io::Errno::ACCESS, "udev rule"),
            (rustix::io::Errno::BUSY, "iio-sensor-proxy"),
            (rustix::io::Errno::IO, "dmesg"),
        ] {
            let refusal = refusal(errno);
            assert!(refusal.starts_with("can't read /sys/x: "), "{refusal}");
            assert!(
                refusal.contains(remedy) && !refusal.contains('\n'),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_wrong_form_is_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scale");
        assert_eq!(parsed::<f64>(&path, "a number").expect("missing"), None);
        fs::write(&path, "0.5\n").expect("written");
        assert_eq!(parsed(&path, "a number").expect("a number"), Some(0.5));
        fs::write(&path, format!("much\nmore{}", "x".repeat(9000))).expect("written");
        let wrong = parsed::<f64>(&path, "a number").unwrap_err().to_string();
        assert!(
            wrong.contains("does not contain a number") && !wrong.contains('\n'),
            "{wrong}"
        );
        assert!(wrong.len() < 300, "{wrong}");
    }
}
