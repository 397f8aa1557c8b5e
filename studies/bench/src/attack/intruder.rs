//! An application that runs in a session and tries to reach X displays: it captures the root window and presses a key.
//! Then it reports the results.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use serde::{Deserialize, Serialize};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, ImageFormat, KEY_PRESS_EVENT, KEY_RELEASE_EVENT,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::{DefaultStream, RustConnection};

/// The subcommand.
pub(crate) const NAME: &str = "intrude";

/// The name of the report file in the application's home directory.
pub(super) const REPORT: &str = "intruded.json";

/// How long the application runs after its report. If it ended early, its session would end with it.
const STAYS: Duration = Duration::from_secs(600);

/// The key code of the left Shift key, for all keyboards of X servers on Linux. Pressed alone, it types nothing.
const SHIFT: u8 = 50;

/// Try to reach another display from within a session; started by openuvr lab attack
#[derive(clap::Args, Clone, Debug)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The number of the other display
    #[arg(value_name = "NUMBER")]
    other: u32,
}

/// Tries both sockets of the session's own display and of the other display, then waits.
///
/// # Errors
/// Returns an error if this program is not in a session, or cannot write its report.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let set = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (home, display) = (set("HOME")?, set("DISPLAY")?);
    let own = number_of(&display)
        .with_context(|| format!("{display} is not a display of this machine"))?;
    let cookie = Cookie::read(Path::new(&set("XAUTHORITY")?))?;
    let mut tries = Vec::new();
    for (of_own, number) in [(true, own), (false, args.other)] {
        for way in SOCKET_KINDS {
            for cookie in [None, Some(&cookie)] {
                tries.push(Attempt {
                    own: of_own,
                    way,
                    cookie: cookie.is_some(),
                    came: reach(number, way, cookie),
                });
            }
        }
    }
    let report = Path::new(&home).join(REPORT);
    let begun = report.with_extension("new");
    // The rename makes the report appear only when it is complete.
    fs::write(&begun, serde_json::to_vec(&tries)?)
        .and_then(|()| fs::rename(&begun, &report))
        .with_context(|| format!("can't write {}", report.display()))?;
    clock::sleep_until(clock::now() + STAYS);
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// Whether the attempt was at the session's own display.
    pub(super) own: bool,
    pub(super) way: SocketKind,
    /// Whether the attempt used the cookie of the session's own display.
    pub(super) cookie: bool,
    pub(super) came: AttemptResult,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum SocketKind {
    /// A socket in the abstract namespace. It is visible in sandboxes that share this machine's network namespace.
    Abstract,
    /// A socket in the file system.
    Path,
}

pub(super) const SOCKET_KINDS: [SocketKind; 2] = [SocketKind::Abstract, SocketKind::Path];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum AttemptResult {
    /// There is no such socket.
    NoSocket,
    /// The server refuses the connection.
    Refused,
    /// The server accepts the connection.
    In { looked: bool, typed: bool },
}

/// An X authority cookie.
pub(super) struct Cookie {
    protocol: Vec<u8>,
    data: Vec<u8>,
}

impl Cookie {
    /// Reads the first cookie of an authority file.
    ///
    /// # Errors
    /// Returns an error if the file contains no cookie.
    pub(super) fn read(file: &Path) -> Result<Cookie> {
        let shown = file.display();
        let bytes = fs::read(file).with_context(|| format!("can't read {shown}"))?;
        Cookie::parse(&bytes).with_context(|| format!("there is no cookie in {shown}"))
    }

    /// Parses the format of Xau(3): the family, then address, number, name and data. Each of these four is preceded by
    /// its length.
    fn parse(bytes: &[u8]) -> Option<Cookie> {
        let (_, rest) = bytes.split_at_checked(2)?;
        let (_, rest) = part(rest)?;
        let (_, rest) = part(rest)?;
        let (protocol, rest) = part(rest)?;
        let (data, _) = part(rest)?;
        Some(Cookie {
            protocol: protocol.to_vec(),
            data: data.to_vec(),
        })
    }
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

/// The display number in the name of a display of this machine, such as `:12.0`.
pub(super) fn number_of(display: &str) -> Option<u32> {
    let number = display.strip_prefix(':')?.split('.').next()?;
    number.parse().ok()
}

/// Connects to a display of this machine, captures its root window and presses a key.
pub(super) fn reach(display: u32, way: SocketKind, cookie: Option<&Cookie>) -> AttemptResult {
    let path = format!("/tmp/.X11-unix/X{display}");
    let connected = match way {
        SocketKind::Abstract => SocketAddr::from_abstract_name(&path)
            .and_then(|address| UnixStream::connect_addr(&address)),
        SocketKind::Path => UnixStream::connect(&path),
    };
    let stream = connected.and_then(DefaultStream::from_unix_stream);
    let Ok((stream, _)) = stream else {
        return AttemptResult::NoSocket;
    };
    let (protocol, data) = match cookie {
        Some(cookie) => (cookie.protocol.clone(), cookie.data.clone()),
        None => (Vec::new(), Vec::new()),
    };
    match RustConnection::connect_to_stream_with_auth_info(stream, 0, protocol, data) {
        Ok(conn) => AttemptResult::In {
            looked: look(&conn).is_ok(),
            typed: press(&conn).is_ok(),
        },
        Err(_) => AttemptResult::Refused,
    }
}

fn look(conn: &RustConnection) -> Result<()> {
    let screen = conn
        .setup()
        .roots
        .first()
        .context("the display has no screen")?;
    let format = ImageFormat::Z_PIXMAP;
    conn.get_image(format, screen.root, 0, 0, 16, 16, u32::MAX)?
        .reply()?;
    Ok(())
}

fn press(conn: &RustConnection) -> Result<()> {
    let now = x11rb::CURRENT_TIME;
    for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
        conn.xtest_fake_input(kind, SHIFT, now, x11rb::NONE, 0, 0, 0)?
            .check()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;
    use openuvr_xserver::fixture::has_xvfb;
    use openuvr_xserver::{Authority, Xvfb};

    use super::*;

    #[test]
    fn a_cookie_is_found_in_an_authority_file() {
        let file = b"\xff\xff\0\0\0\0\0\x12MIT-MAGIC-COOKIE-1\0\x04abcd";
        let cookie = Cookie::parse(file).unwrap();
        assert_eq!(cookie.protocol, b"MIT-MAGIC-COOKIE-1");
        assert_eq!(cookie.data, b"abcd");
        for end in 0..file.len() {
            assert!(Cookie::parse(&file[..end]).is_none());
        }
    }

    #[test]
    fn a_display_of_another_machine_has_no_number_here() {
        assert_eq!(number_of(":12.0"), Some(12));
        assert_eq!(number_of(":7"), Some(7));
        assert_eq!(number_of("there:7"), None);
        assert_eq!(number_of(":"), None);
    }

    #[test]
    fn a_display_accepts_only_its_cookie() {
        if !has_xvfb() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::make(folder.path().join("xauthority")).unwrap();
        let server = Xvfb::start(Size::new(64, 64), Some(authority), &[], |_| ()).unwrap();
        let number = number_of(&server.display).unwrap();
        let right = Cookie::read(server.authority().unwrap()).unwrap();
        let wrong = Cookie {
            protocol: right.protocol.clone(),
            data: vec![7; right.data.len()],
        };
        let whole = AttemptResult::In {
            looked: true,
            typed: true,
        };
        for way in SOCKET_KINDS {
            assert_eq!(reach(number, way, Some(&right)), whole, "{way:?}");
            assert_eq!(
                reach(number, way, Some(&wrong)),
                AttemptResult::Refused,
                "{way:?}"
            );
            assert_eq!(reach(number, way, None), AttemptResult::Refused, "{way:?}");
        }
        // No server uses this number, because servers choose the lowest free one. The number of an ended server could
        // belong to a server of another test.
        for way in SOCKET_KINDS {
            assert_eq!(reach(60_000, way, Some(&right)), AttemptResult::NoSocket);
        }
    }
}
