//! A machine with host and client in it.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use openuvr_media::barcode;
use openuvr_media::picture::Picture as View;
use openuvr_proto::units::Size;
use openuvr_testbed::machine::saved::Saved;
use openuvr_testbed::machine::{self, Hardware, Machine, Picture};

use super::DISPLAY;
use super::skip::{has_program, skip};

/// The maximum duration of each wait. It is long, because an emulated processor is fifty times slower than a real one.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The fraction of the pixels that may differ between two pictures of a text console. The blinking cursor and a line
/// may differ.
const DIFFERENT: f64 = 0.02;

/// The state of a machine that has booted. All tests start with this state if the processor is emulated.
static BOOTED: OnceLock<Saved> = OnceLock::new();

pub(crate) struct Rig {
    pub(crate) machine: Machine,
    /// More options of the host.
    pub(crate) host_options: &'static str,
    /// More options of the client.
    pub(crate) client_options: &'static str,
}

impl Rig {
    /// `None` if the test is skipped.
    pub(crate) fn start() -> Option<Rig> {
        if !has_program("qemu-system-x86_64", "qemu-system-x86") {
            return None;
        }
        let Some(image) = machine::image() else {
            skip("no virtual machine: ./dev test-vm builds it");
            return None;
        };
        let program = Path::new(env!("CARGO_BIN_EXE_openuvr"));
        let hardware = Hardware {
            image: &image,
            display: DISPLAY,
            shared: program.parent()?,
            memory: 1024,
        };
        let machine = if machine::virtualises() {
            boot(&hardware)
        } else {
            let booted = BOOTED.get_or_init(|| boot(&hardware).save(&image).unwrap());
            Machine::resume(&hardware, booted).unwrap()
        };
        Some(Rig {
            machine,
            host_options: "",
            client_options: "",
        })
    }

    /// Streams a test pattern of this size to the display.
    pub(crate) fn stream_pattern(&mut self, size: Size) {
        self.start_host_of_pattern(size);
        self.start_client("setsid", ">/tmp/client.log 2>&1");
        self.wait_for_client("showing");
    }

    pub(crate) fn start_host_of_pattern(&mut self, size: Size) {
        self.start_host(&format!("--source pattern --size {size} --fps 5"));
    }

    /// Streams an X display. A program on it lists its X events in `/tmp/events`.
    pub(crate) fn stream_events(&mut self, size: Size) {
        let Size { width, height } = size;
        self.start_x_display(size);
        self.machine
            .succeed(&format!(
                "DISPLAY=:7 setsid xev -geometry {width}x{height}+0+0 >/tmp/events 2>&1 &"
            ))
            .unwrap();
        self.machine
            .wait_for("grep -q MapNotify /tmp/events")
            .unwrap();
        self.start_host("--display :7 --fps 5");
        self.start_client("setsid", ">/tmp/client.log 2>&1");
        self.wait_for_client("showing");
    }

    pub(crate) fn start_x_display(&mut self, size: Size) {
        let server = format!("Xvfb :7 -screen 0 {size}x24 -nolisten tcp -extension GLX");
        let commands = [
            format!("setsid {server} >/tmp/x.log 2>&1 &"),
            "for n in $(seq 300); do test -S /tmp/.X11-unix/X7 && exit; sleep 0.2; done; cat /tmp/x.log; exit 1".to_owned(),
        ];
        for command in commands {
            self.machine.succeed(&command).unwrap();
        }
    }

    fn start_host(&mut self, source: &str) {
        let command = format!(
            "openuvr host {source} {} --encoder raw --sound off --pin 135790 --bind 127.0.0.1:4710 --config-dir /tmp/h",
            self.host_options
        );
        self.machine
            .succeed(&format!(
                "setsid {command} >/tmp/host.log 2>&1 & echo $! >/tmp/host.pid"
            ))
            .unwrap();
    }

    /// Starts the client through the command `before`, with these redirections.
    pub(crate) fn start_client(&mut self, before: &str, redirections: &str) {
        let command = format!(
            "openuvr client 127.0.0.1 --present kms --sound off --pin 135790 --config-dir /tmp/c {}",
            self.client_options
        );
        let shell = format!("echo $$ >/tmp/client.pid; exec {command}");
        self.machine
            .succeed(&format!("{before} sh -c '{shell}' {redirections} &"))
            .unwrap();
    }

    /// Ends the client by SIGTERM, and waits for it.
    pub(crate) fn end_client(&mut self) {
        self.machine.succeed("kill $(cat /tmp/client.pid)").unwrap();
        self.machine
            .wait_for("! test -d /proc/$(cat /tmp/client.pid)")
            .unwrap();
    }

    pub(crate) fn wait_for_client(&mut self, words: &str) {
        let waited = self
            .machine
            .wait_for(&format!("grep -q '{words}' /tmp/client.log"));
        if let Err(why) = waited {
            panic!("{why:#}\n{}", self.logs());
        }
    }

    fn logs(&mut self) -> String {
        let command = "tail -n 20 /tmp/host.log /tmp/client.log; dmesg | tail -n 20";
        self.machine
            .run(command)
            .map_or_else(|e| e.to_string(), |output| output.text)
    }

    /// The word before `after` in the client's log.
    pub(crate) fn client_log_value(&mut self, after: &str) -> String {
        let text = self.machine.succeed("cat /tmp/client.log").unwrap();
        let line = text
            .lines()
            .rev()
            .find_map(|line| Some(line.split_once(after)?.0));
        let word = line.and_then(|line| line.split_whitespace().last());
        word.unwrap_or_else(|| panic!("no line with {after}:\n{text}"))
            .to_owned()
    }

    /// The numbers of `count` different frames, as read from the display.
    pub(crate) fn frames(&mut self, count: usize) -> Vec<u32> {
        let (mut frames, end) = (Vec::new(), Instant::now() + TIMEOUT);
        while frames.len() < count {
            let picture = self.machine.picture().unwrap();
            let stride = picture.size.width as usize * 4;
            let stamp = barcode::read(&View::bgrx(picture.size, &picture.bgrx, stride));
            if let Some(stamp) = stamp
                && frames.last() != Some(&stamp.frame)
            {
                frames.push(stamp.frame);
            }
            if Instant::now() >= end {
                panic!(
                    "{frames:?} in a picture of {}\n{}",
                    picture.size,
                    self.logs()
                );
            }
        }
        frames
    }

    /// The number of the console in the foreground.
    pub(crate) fn foreground(&mut self) -> u32 {
        self.machine
            .succeed("sed s/tty// /sys/class/tty/tty0/active")
            .unwrap()
            .parse()
            .unwrap()
    }

    /// `KDGETMODE` of a console.
    pub(crate) fn display_mode(&mut self, console: u32) -> String {
        let script = "$m = pack(\"i\", -1); ioctl(F, 0x4b3b, $m) or die; print unpack(\"i\", $m)";
        self.machine
            .succeed(&format!(
                "perl -e 'open F, \"<\", \"/dev/tty{console}\" or die; {script}'"
            ))
            .unwrap()
    }

    /// Waits until the first console is in the foreground, in text mode.
    pub(crate) fn expect_text_console(&mut self) {
        self.machine
            .wait_for("test $(cat /sys/class/tty/tty0/active) = tty1")
            .unwrap();
        assert_eq!(self.display_mode(1), "0");
    }

    /// Waits until the display shows this picture of a text console again.
    pub(crate) fn wait_for_picture(&mut self, expected: &Picture) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let picture = self.machine.picture().unwrap();
            let pixels = |picture: &Picture| picture.bgrx.as_chunks::<4>().0.to_vec();
            let pairs = pixels(&picture).into_iter().zip(pixels(expected));
            let different = pairs.filter(|(one, other)| one != other).count();
            let few = different as f64 <= DIFFERENT * expected.size.pixels() as f64;
            if picture.size == expected.size && few {
                return;
            }
            if Instant::now() >= end {
                panic!(
                    "{different} pixels differ in {}\n{}",
                    picture.size,
                    self.logs()
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Boots a machine that has the program.
fn boot(hardware: &Hardware<'_>) -> Machine {
    let mut machine = Machine::start(hardware).unwrap();
    // A copy runs faster than the file in the shared folder.
    machine
        .succeed("cp /host/openuvr /usr/bin/openuvr")
        .unwrap();
    machine
        .wait_for("test -c /dev/dri/card0 && test -c /dev/input/event0")
        .unwrap();
    machine
}
