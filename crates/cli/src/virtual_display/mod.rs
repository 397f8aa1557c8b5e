//! A display of the host's own: an X server without a screen (Xvfb), which lives as long as the host.
//!
//! Only this user may use it. Xvfb lets in every user of the machine unless it is told otherwise: it is
//! started with a random cookie (MIT-MAGIC-COOKIE-1) that nobody else is told, and by that it is then told to
//! let in the processes of this user.

mod application;
pub(crate) mod sys;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use x11rb::protocol::xproto::{ConnectionExt as _, Family, HostMode};
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

pub(crate) use application::Shown;

/// How long Xvfb may take to end, with its socket and its lock file, before it is killed (guess).
const END: Duration = Duration::from_secs(2);

/// How long Xvfb may take to say which number it has (guess: half a second where nothing else runs).
const START: Duration = Duration::from_secs(10);

/// A running virtual display; gone, with all that is shown on it, when dropped.
pub(crate) struct VirtualDisplay {
    name: String,
    server: Child,
    /// As long as the server looks for it.
    cookie: Cookie,
}

impl VirtualDisplay {
    /// Starts one with a screen of `size`, 24 bits deep, and OpenGL in software. Xvfb takes a number that
    /// is free.
    ///
    /// # Errors
    /// One line: Xvfb is not installed, or does not start.
    pub(crate) fn start(size: Size) -> Result<VirtualDisplay> {
        let cookie = Cookie::make()?;
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")])
            .args(["-nolisten", "tcp", "-noreset", "+extension", "GLX", "-auth"])
            .arg(&cookie.file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        sys::die_with_parent(&mut command);
        // Ctrl-C is for the host, which ends it last.
        command.process_group(0);
        let mut server = command
            .spawn()
            .context("a virtual display needs Xvfb: install it, as with apt install xvfb")?;
        let output = server.stdout.take();
        let mut display = VirtualDisplay {
            name: String::new(),
            server,
            cookie,
        };
        // It writes its number when it is ready, or closes the pipe when it ends.
        let line = output
            .map(|output| line_within(output, START))
            .transpose()?;
        let Some(line) = line.flatten() else {
            bail!(
                "Xvfb does not say within 10 s which display it has: try `Xvfb :99` by hand to see why"
            );
        };
        let number = line.trim();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!(
                "Xvfb ended without a display of {size}: try `Xvfb -displayfd 1 -screen 0 {size}x24` \
                 by hand to see why"
            );
        }
        display.name = format!(":{number}");
        admit_own_user(number, &display.cookie)
            .with_context(|| format!("the virtual display {} does not answer", display.name))?;
        Ok(display)
    }

    /// Its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        vec![self.server.id()]
    }

    /// What to put behind `--display`, such as `:99`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for VirtualDisplay {
    fn drop(&mut self) {
        // Asked to, it takes its socket and its lock file with it.
        if let Some(id) = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let until = clock::now() + END;
        while matches!(self.server.try_wait(), Ok(None)) && clock::now() < until {
            clock::sleep_until(clock::now() + Duration::from_millis(5));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The first line that comes out of a program, or what there is of it at its end; `None`: it did not come in time.
fn line_within(mut output: impl Read + AsFd, timeout: Duration) -> Result<Option<String>> {
    let until = clock::now() + timeout;
    let mut line = Vec::new();
    loop {
        let left = Timespec::try_from(until.since(clock::now()))?;
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        }
        let mut byte = [0];
        if output.read(&mut byte)? == 0 || byte == *b"\n" {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.extend(byte);
    }
}

/// Has the server let in this user's processes, by its own word on who they are.
fn admit_own_user(number: &str, cookie: &Cookie) -> Result<()> {
    let stream = UnixStream::connect(format!("/tmp/.X11-unix/X{number}"))?;
    let (stream, _) = DefaultStream::from_unix_stream(stream)?;
    let (name, bytes) = (Cookie::NAME.to_vec(), cookie.bytes.to_vec());
    let conn = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, bytes)?;
    // X.Org's server: Xsecurity(7), "SERVER INTERPRETED ACCESS TYPES".
    let user = format!("localuser\0#{}", geteuid().as_raw());
    let (mode, family) = (HostMode::INSERT, Family::SERVER_INTERPRETED);
    conn.change_hosts(mode, family, user.as_bytes())?.check()?;
    conn.sync()?;
    Ok(())
}

/// The secret by which the server knows who starts it; its file is gone when dropped.
struct Cookie {
    bytes: [u8; 16],
    file: PathBuf,
}

impl Cookie {
    const NAME: &[u8] = b"MIT-MAGIC-COOKIE-1";

    fn make() -> Result<Cookie> {
        let mut random = [0; 24];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .context("no randomness: /dev/urandom")?;
        let (name, secret) = random.split_at(8);
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(secret);
        let file = std::env::temp_dir().join(format!("openuvr-xauth-{name}"));
        let mut options = OpenOptions::new();
        // It is new, or nothing is written: others may make files in that folder.
        let opened = options.write(true).create_new(true).mode(0o600).open(&file);
        opened
            .and_then(|mut opened| opened.write_all(&entry(&bytes)))
            .with_context(|| format!("can't write {}", file.display()))?;
        Ok(Cookie { bytes, file })
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// An entry of an authority file, for any display (Xau(3): FamilyWild, and lengths in network order).
fn entry(cookie: &[u8; 16]) -> Vec<u8> {
    let mut entry = vec![0xff, 0xff, 0, 0, 0, 0];
    for part in [Cookie::NAME, cookie] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        entry.extend(length.to_be_bytes());
        entry.extend(part);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_entry_is_laid_out_as_xau_reads_it() {
        let entry = entry(&[7; 16]);
        assert_eq!(entry[..8], [0xff, 0xff, 0, 0, 0, 0, 0, 18]);
        assert_eq!(&entry[8..26], b"MIT-MAGIC-COOKIE-1");
        assert_eq!(entry[26..28], [0, 16]);
        assert_eq!(entry[28..], [7; 16]);
    }
}
