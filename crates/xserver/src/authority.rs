//! The access cookie of a server.
//!
//! Xvfb admits every user of the machine unless it has an authority file. This module gives Xvfb an authority file with
//! a random cookie (Xsecurity(7), MIT-MAGIC-COOKIE-1). Then only programs that can read the file can connect, through
//! the socket in the file system or through the abstract socket. The abstract socket is visible to sandboxes and
//! containers with the host's network. It stays enabled, because Xvfb 21.1 uses it to find free display numbers
//! (`-displayfd`). Without this socket, two servers would take the same number.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::StartError;

/// The cookie of a display, in a file that the server and its clients read (`XAUTHORITY`). The file is removed when
/// this value is dropped.
pub struct Authority {
    file: PathBuf,
    cookie: [u8; 16],
}

impl fmt::Debug for Authority {
    /// Omits the cookie, because it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// The name of the authorization protocol in an authority file.
    pub const PROTOCOL: &[u8] = b"MIT-MAGIC-COOKIE-1";

    /// Creates a cookie in a new `file`, readable only by this user.
    ///
    /// # Errors
    /// [`StartError`] if the file can't be written or already exists.
    pub fn make(file: PathBuf) -> Result<Authority, StartError> {
        let mut cookie = [0; 16];
        random(&mut cookie)?;
        let mut options = OpenOptions::new();
        let operation = format!(
            "can't write the cookie of the virtual display to {}",
            file.display()
        );
        let opened = options.write(true).create_new(true).mode(0o600).open(&file);
        let opened = opened.map_err(system(operation.clone()))?;
        // If the write fails, the drop of this value removes the new file.
        let authority = Authority { file, cookie };
        (&opened)
            .write_all(&entry(&cookie))
            .map_err(system(operation))?;
        Ok(authority)
    }

    /// The file's path, for `XAUTHORITY`.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The cookie. A program that has it may connect to the server.
    #[must_use]
    pub fn cookie(&self) -> &[u8] {
        &self.cookie
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn system(operation: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    |why| StartError::System(operation.into(), why)
}

fn random(bytes: &mut [u8]) -> Result<(), StartError> {
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(bytes));
    read.map_err(system("no random numbers: can't read /dev/urandom"))
}

/// An entry of an authority file, for any display (Xau(3): FamilyWild, and lengths in network order).
fn entry(cookie: &[u8; 16]) -> Vec<u8> {
    let mut entry = vec![0xff, 0xff, 0, 0, 0, 0];
    for part in [Authority::PROTOCOL, cookie] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        entry.extend(length.to_be_bytes());
        entry.extend(part);
    }
    entry
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn an_authority_entry_is_laid_out_as_xau_reads_it() {
        let entry = entry(&[7; 16]);
        assert_eq!(entry[..8], [0xff, 0xff, 0, 0, 0, 0, 0, 18]);
        assert_eq!(&entry[8..26], b"MIT-MAGIC-COOKIE-1");
        assert_eq!(entry[26..28], [0, 16]);
        assert_eq!(entry[28..], [7; 16]);
    }

    #[test]
    fn each_authority_has_a_cookie_and_a_private_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["one", "other"].map(|name| folder.path().join(name));
        let [one, other] = files.map(|file| Authority::make(file).unwrap());
        let [first, second] = [&one, &other].map(|of| std::fs::read(of.file()).unwrap());
        assert_ne!(first, second);
        let mode = std::fs::metadata(one.file()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let file = one.file().to_owned();
        let again = Authority::make(file.clone()).unwrap_err().to_string();
        assert!(again.contains("can't write the cookie"), "{again}");
        assert!(file.exists(), "an existing file is not removed");
        drop(one);
        assert!(!file.exists());
    }
}
