//! A virtual machine with a display, a keyboard and a mouse, for tests of programs without a window system: QEMU, with
//! the image of `crates/testbed/vm`.
//!
//! An agent on a serial line runs commands. QEMU's machine protocol ([`qmp`]) reads the display and types keys. A
//! folder of this machine is `/host` in the virtual machine, read-only. The virtual machine has no network except its
//! own loopback. A machine starts by booting, or with the state of another machine ([`saved`]).

pub mod qmp;
pub mod saved;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openuvr_proto::units::Size;
use tempfile::TempDir;

use crate::child::Child;
use qmp::Qmp;

/// How long a start may take. With hardware virtualisation, a start takes seconds. With emulation, it takes ten
/// seconds, half a minute on a slow machine, or ten minutes while builds run.
const START: Duration = Duration::from_secs(900);

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(120);

/// Mounts the shared folder.
const MOUNT: &str = "busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro host /host";

/// The hardware of a virtual machine.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'a> {
    /// The folder of the image: `vmlinuz` and `initrd`.
    pub image: &'a Path,
    /// The size of the display.
    pub display: Size,
    /// The folder of this machine that the virtual machine sees as `/host`.
    pub shared: &'a Path,
    /// Memory in MiB. The smallest useful amount is 1024, of which the unpacked image takes a third.
    pub memory: u32,
}

/// A running machine. It ends when this value is dropped.
#[derive(Debug)]
pub struct Machine {
    qmp: Qmp,
    agent: BufReader<UnixStream>,
    number: u32,
    folder: TempDir,
    // Ends last.
    _process: Child,
}

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The exit status.
    pub status: i32,
    /// Standard output and standard error.
    pub text: String,
}

/// A picture of the display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The picture's size, in pixels.
    pub size: Size,
    /// Packed BGRX.
    pub bgrx: Vec<u8>,
}

impl Machine {
    /// Starts a machine.
    ///
    /// # Errors
    /// Returns an error if QEMU is missing, or if the machine does not start in time. The message contains the last
    /// lines of the machine's console.
    pub fn start(hardware: &Hardware<'_>) -> Result<Machine> {
        let mut machine = Machine::launch(hardware, &[])?;
        machine.answer("READY")?;
        machine.succeed(MOUNT)?;
        Ok(machine)
    }

    /// Starts QEMU with these additional arguments, and connects to it.
    fn launch(hardware: &Hardware<'_>, arguments: &[String]) -> Result<Machine> {
        let Hardware {
            image,
            display,
            shared,
            memory,
        } = *hardware;
        let folder = tempfile::tempdir().context("can't create a folder for the machine")?;
        let path = |name: &str| folder.path().join(name);
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args([
                "-nodefaults",
                "-no-user-config",
                "-no-reboot",
                "-display",
                "none",
            ])
            .args(["-machine", "q35", "-m", &memory.to_string()])
            .args(accelerator())
            .arg("-kernel")
            .arg(image.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.join("initrd"))
            .args([
                "-append",
                "console=tty0 console=ttyS0 panic=-1 consoleblank=0",
            ])
            .arg("-device")
            .arg(format!(
                "virtio-gpu-pci,xres={},yres={}",
                display.width, display.height
            ))
            .args(["-device", "virtio-tablet-pci"])
            .arg("-virtfs")
            .arg(format!(
                "local,path={},mount_tag=host,security_model=none,readonly=on",
                shared.display()
            ))
            .arg("-serial")
            .arg(format!("file:{}", path("console").display()))
            .arg("-serial")
            .arg(format!(
                "unix:{},server=on,wait=off",
                path("agent").display()
            ))
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", path("qmp").display()))
            .args(arguments);
        let log = path("log");
        let mut process = Child::start("virtual machine", command, Some(&log))?;
        let end = Instant::now() + START;
        let mut connect = |name: &str| loop {
            process.check()?;
            match UnixStream::connect(path(name)) {
                Ok(stream) => break Ok::<_, anyhow::Error>(stream),
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                Err(e) => break Err(e).context("QEMU did not open its socket"),
            }
        };
        let agent = connect("agent")?;
        let qmp = Qmp::new(connect("qmp")?)?;
        agent.set_read_timeout(Some(START))?;
        Ok(Machine {
            qmp,
            agent: BufReader::new(agent),
            number: 0,
            folder,
            _process: process,
        })
    }

    /// Runs a shell command to its end, for at most two minutes.
    ///
    /// # Errors
    /// Returns an error if the command does not end in time, or if the machine has ended.
    pub fn run(&mut self, command: &str) -> Result<Output> {
        self.run_within(COMMAND, command)
    }

    /// Like [`run`](Self::run), with this time limit instead of two minutes.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_within(&mut self, limit: Duration, command: &str) -> Result<Output> {
        self.number += 1;
        let number = self.number;
        let line = format!("{number} {}\n", STANDARD.encode(command));
        self.agent.get_mut().write_all(line.as_bytes())?;
        self.agent.get_mut().set_read_timeout(Some(limit))?;
        let answer = self
            .answer(&format!("DONE {number} "))
            .with_context(|| format!("no answer to the command {command:?}"))?;
        let (status, text) = answer.split_once(' ').unwrap_or((&answer, ""));
        let text = STANDARD
            .decode(text.trim())
            .context("the answer of the virtual machine is damaged")?;
        Ok(Output {
            status: status
                .trim()
                .parse()
                .context("the answer of the virtual machine is damaged")?,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// Like [`run`](Self::run), for a command that must succeed. Returns its output without trailing white space.
    ///
    /// # Errors
    /// As for [`run`](Self::run). Also returns an error, which contains the command's output, if the command fails.
    pub fn succeed(&mut self, command: &str) -> Result<String> {
        let Output { status, text } = self.run(command)?;
        if status != 0 {
            bail!("the command {command:?} failed with {status}:\n{text}");
        }
        Ok(text.trim_end().to_owned())
    }

    /// Repeats a command until it succeeds. Returns its output.
    ///
    /// # Errors
    /// As for [`run`](Self::run). Also returns an error if the command keeps failing for two minutes.
    pub fn wait_for(&mut self, command: &str) -> Result<String> {
        let end = Instant::now() + COMMAND;
        loop {
            let Output { status, text } = self.run(command)?;
            if status == 0 {
                return Ok(text);
            }
            if Instant::now() >= end {
                bail!("the command {command:?} keeps failing:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The picture in the display hardware of the machine. It does not contain a hardware pointer.
    ///
    /// # Errors
    /// Returns an error if QEMU fails.
    pub fn picture(&mut self) -> Result<Picture> {
        let file = self.folder.path().join("picture.ppm");
        self.qmp.screendump(&file)?;
        let bytes = std::fs::read(&file).context("QEMU wrote no picture")?;
        parse_ppm(&bytes).context("QEMU wrote a damaged picture")
    }

    /// Presses the keys in this order, and releases them in reverse order. Keys have QEMU's names: `a`, `ctrl`, `f2`.
    ///
    /// # Errors
    /// Returns an error if QEMU has no such key.
    pub fn press(&mut self, keys: &[&str]) -> Result<()> {
        let down = keys.iter().map(|key| (*key, true));
        let up = keys.iter().rev().map(|key| (*key, false));
        for (key, pressed) in down.chain(up) {
            self.qmp.key(key, pressed)?;
        }
        Ok(())
    }

    /// The connection to QEMU's machine protocol, for other commands.
    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.qmp
    }

    /// The last lines of the machine's console.
    #[must_use]
    pub fn console(&self) -> String {
        let text = std::fs::read(self.folder.path().join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Reads lines from the agent until one contains `start`, and returns the text after `start` in this line.
    fn answer(&mut self, start: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            let read = self.agent.read_line(&mut line);
            match read {
                Ok(0) => bail!("the virtual machine has ended:\n{}", self.console()),
                Ok(_) => {}
                Err(e) => bail!(
                    "the virtual machine does not answer: {e}\n{}",
                    self.console()
                ),
            }
            if let Some((_, rest)) = line.trim_end().split_once(start) {
                return Ok(rest.to_owned());
            }
        }
    }
}

/// QEMU's arguments for hardware virtualisation if this machine supports it, otherwise for emulation.
fn accelerator() -> [&'static str; 6] {
    match virtualises() {
        true => ["-accel", "kvm", "-cpu", "host", "-smp", "2"],
        // There is only one processor, because emulated processors wait for each other.
        false => ["-accel", "tcg", "-cpu", "max", "-smp", "1"],
    }
}

/// Whether this machine supports hardware virtualisation. The processor's flags are checked, too, because the device
/// `/dev/kvm` may exist on a machine whose processor is itself virtual and cannot virtualise.
#[must_use]
pub fn virtualises() -> bool {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    let has = flags
        .split_whitespace()
        .any(|flag| flag == "vmx" || flag == "svm");
    let opens = File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    has && opens
}

/// The folder of the image that `./dev test-vm` has built, from the environment variable `OPENUVR_VM`.
#[must_use]
pub fn image() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("OPENUVR_VM")?);
    folder.join("initrd").is_file().then_some(folder)
}

/// Parses a picture in the format P6 with 8 bits per sample.
fn parse_ppm(bytes: &[u8]) -> Option<Picture> {
    let mut rest = bytes;
    let mut words = [0_u32; 3];
    rest = rest.strip_prefix(b"P6")?;
    for word in &mut words {
        rest = rest.trim_ascii_start();
        while let Some(comment) = rest.strip_prefix(b"#") {
            let end = comment.iter().position(|byte| *byte == b'\n')?;
            rest = comment.get(end..)?.trim_ascii_start();
        }
        let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        *word = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        rest = &rest[end..];
    }
    let [width, height, 255] = words else {
        return None;
    };
    let size = Size::new(width, height);
    let pixels = rest.get(1..)?;
    if !size.is_valid() || pixels.len() != size.pixels() * 3 {
        return None;
    }
    let bgrx = pixels
        .as_chunks::<3>()
        .0
        .iter()
        .flat_map(|&[r, g, b]| [b, g, r, 0])
        .collect();
    Some(Picture { size, bgrx })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_qemu_are_read() {
        let picture = parse_ppm(b"P6\n# QEMU\n2 1\n255\n\x01\x02\x03\x04\x05\x06").unwrap();
        assert_eq!(picture.size, Size::new(2, 1));
        assert_eq!(picture.bgrx, [3, 2, 1, 0, 6, 5, 4, 0]);
        for damaged in [
            &b"P6\n2 1\n255\n\x01"[..],
            b"P5\n1 1\n255\n\x01",
            b"P6\n",
            b"P6 1 1 65535 \0",
        ] {
            assert_eq!(parse_ppm(damaged), None);
        }
    }
}
