//! A virtual display: a private Xvfb, stopped when dropped.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use openuvr_proto::units::Size;
use openuvr_runtime::launch::{Authority, xvfb};
use rustix::process::geteuid;
use x11rb::protocol::xproto::{ConnectionExt as _, Family, HostMode};
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

use crate::child::Child;

/// A running virtual display.
#[derive(Debug)]
pub struct VirtualDisplay {
    name: String,
    server: Child,
    /// Kept while the server reads it.
    _authority: Authority,
}

impl VirtualDisplay {
    /// Starts one with a single screen of `size` and 24 bit colour, with OpenGL in software.
    ///
    /// It chooses a free display number, so that any number can run concurrently.
    pub fn start(size: Size) -> Result<VirtualDisplay> {
        let authority = Authority::make_in(&std::env::temp_dir())?;
        let mut server = Child::start("virtual display", xvfb(size, &authority), None)
            .context("a virtual display needs Xvfb: apt install xvfb")?;
        let mut line = String::new();
        if let Some(out) = server.stdout() {
            // Xvfb writes its number when it is ready, or closes the pipe at its end.
            BufReader::new(out).read_line(&mut line)?;
        }
        let number = line.trim();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!("Xvfb ended before it reported a display: run `Xvfb -displayfd 1` to see why");
        }
        let name = format!(":{number}");
        admit_own_user(number, &authority)
            .with_context(|| format!("the virtual display {name} does not answer"))?;
        Ok(VirtualDisplay {
            name,
            server,
            _authority: authority,
        })
    }

    /// What to put after `--display`, such as `:99`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's process id.
    pub fn id(&self) -> u32 {
        self.server.id()
    }
}

/// Makes the server admit all processes of this user by their peer credentials: a measurement
/// connects to several displays at once, among them the user's with cookies in other files.
fn admit_own_user(number: &str, authority: &Authority) -> Result<()> {
    let stream = UnixStream::connect(format!("/tmp/.X11-unix/X{number}"))?;
    let (stream, _) = DefaultStream::from_unix_stream(stream)?;
    let (protocol, cookie) = authority.credentials();
    let conn = RustConnection::connect_to_stream_with_auth_info(stream, 0, protocol, cookie)?;
    // X.Org's server: Xsecurity(7), "SERVER INTERPRETED ACCESS TYPES".
    let user = format!("localuser\0#{}", geteuid().as_raw());
    let (mode, family) = (HostMode::INSERT, Family::SERVER_INTERPRETED);
    conn.change_hosts(mode, family, user.as_bytes())?.check()?;
    conn.sync()?;
    Ok(())
}

/// A display for a test, or `None` (with a message) without Xvfb; in CI that is a failure.
///
/// # Panics
/// In CI, without Xvfb.
#[allow(clippy::print_stderr, reason = "the harness of a test keeps it")]
#[must_use]
pub fn for_test(size: Size) -> Option<VirtualDisplay> {
    match VirtualDisplay::start(size) {
        Ok(display) => Some(display),
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{error:#}");
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_displays_run_side_by_side_and_clean_up() {
        let Some(one) = for_test(Size::new(320, 240)) else {
            return;
        };
        let Some(two) = for_test(Size::new(640, 480)) else {
            return;
        };
        assert_ne!(one.name(), two.name());
        for (display, width) in [(&one, 320), (&two, 640)] {
            let (conn, screen) = x11rb::connect(Some(display.name())).unwrap();
            use x11rb::connection::Connection as _;
            assert_eq!(conn.setup().roots[screen].width_in_pixels, width);
        }
        let socket = format!("/tmp/.X11-unix/X{}", &one.name()[1..]);
        assert!(std::path::Path::new(&socket).exists());
        drop(one);
        assert!(
            !std::path::Path::new(&socket).exists(),
            "it takes its socket with it"
        );
    }
}
