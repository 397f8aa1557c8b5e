//! A file of servers, one per line. Unlike in an argument, a relay's secret in a file is not visible in the process list.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::IceServer;

/// Maximum length of the file in bytes: several hundred servers.
const MAX_LENGTH: u64 = 16 * 1024;

/// Why a file of servers is refused.
#[derive(Debug, thiserror::Error)]
pub enum IceFileError {
    /// The file can't be read.
    #[error("cannot read servers from {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// A line does not describe a server. The message omits the line, because it may contain a secret.
    #[error(
        "{}:{line}: not a server; expected one server per line: stun:HOST[:PORT] or turn:USER:SECRET@HOST[:PORT]",
        path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, counted from 1.
        line: usize,
    },
}

impl IceServer {
    /// Reads the servers of a file, one per line. Ignores empty lines and lines that begin with `#`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or a line does not describe a server.
    pub fn read_file(path: &Path) -> Result<Vec<IceServer>, IceFileError> {
        let failed = |why| IceFileError::Read {
            path: path.to_owned(),
            why,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        let length = file
            .take(MAX_LENGTH + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        if length as u64 > MAX_LENGTH {
            let why = format!("it is longer than {MAX_LENGTH} bytes");
            return Err(failed(io::Error::other(why)));
        }
        let lines = text.lines().map(str::trim).zip(1..);
        let servers = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let read = servers.map(|(server, line)| {
            server.parse().map_err(|_| IceFileError::Line {
                path: path.to_owned(),
                line,
            })
        });
        read.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_server_file_hide_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            IceServer::read_file(&path).map_err(|why| why.to_string())
        };
        let servers = read("# relays\n\n turn:me:hidden@relay:3478 \nstun:192.0.2.1\n").unwrap();
        let expected = ["turn:me:hidden@relay:3478", "stun:192.0.2.1"];
        assert_eq!(
            servers,
            expected.map(|text| text.parse::<IceServer>().unwrap())
        );
        assert_eq!(read("\n"), Ok(Vec::new()));
        let wrong = read("stun:192.0.2.1\nturn:me:hidden@relay:port").unwrap_err();
        assert!(wrong.contains(":2: not a server"), "{wrong}");
        assert!(!wrong.contains("hidden"), "{wrong}");
        let long = read(&"stun:192.0.2.1\n".repeat(1200)).unwrap_err();
        assert!(long.contains("longer than"), "{long}");
        std::fs::remove_file(&path).unwrap();
        let missing = IceServer::read_file(&path).unwrap_err().to_string();
        assert!(missing.contains("cannot read"), "{missing}");
    }
}
