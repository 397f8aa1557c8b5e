//! Keys and wheels of a real window system. xdotool generates them on the browser's display. xterm reads the keys on
//! the host's display, which has another layout. Runs with Chromium and Firefox.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use openuvr_devtools::{Browser, Tab};
use openuvr_media::input_sink::InputSink as _;
use openuvr_media::input_sink::xtest::Xtest;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;
use openuvr_xserver::{Xvfb, fixture};
use tempfile::TempDir;

use super::firefox::Firefox;
use super::support::skip::{has_program, skip};
use super::support::{PIN, Rig, eventually};

const SIZE: Size = Size::new(640, 384);

/// A French keyboard with Compose on its menu key. X key codes are Linux's plus eight.
const LAYOUT: [&str; 4] = ["-layout", "fr", "-option", "compose:menu"];
const CIRCUMFLEX: &str = "34";
const MENU: &str = "135";

/// A browser under test.
trait Driver {
    fn until(&mut self, script: &str);
}

struct Chromium(Browser, Tab);

impl Driver for Chromium {
    fn until(&mut self, script: &str) {
        self.0.until(&self.1, script);
    }
}

impl Driver for Firefox {
    fn until(&mut self, script: &str) {
        Firefox::until(self, script);
    }
}

/// Types the PIN and waits until the page plays.
fn log_in(driver: &mut dyn Driver) {
    driver.until("!!document.querySelector('#login:not([hidden])')");
    driver.until(&format!(
        "(document.querySelector('#pin').value = '{PIN}', \
         document.querySelector('#login').requestSubmit(), true)"
    ));
    driver.until("document.querySelector('#state').textContent === 'you play'");
}

/// A program on the host's display that records typed lines.
struct Terminal {
    child: Child,
    lines: PathBuf,
}

impl Terminal {
    fn start(display: &str, folder: &Path) -> Terminal {
        let lines = folder.join("lines");
        let child = Command::new("xterm")
            .args(["-u8", "-geometry", "200x60+0+0", "-e", "sh", "-c"])
            .arg("echo > \"$0\"; exec cat >> \"$0\"")
            .arg(&lines)
            .env("DISPLAY", display)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let terminal = Terminal { child, lines };
        eventually("the terminal", || std::fs::metadata(&terminal.lines).ok());
        terminal
    }

    fn typed(&self) -> String {
        std::fs::read_to_string(&self.lines).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine for the browser, because Firefox does not use loopback addresses for media. No datagram is
/// sent to find it.
fn own_address() -> IpAddr {
    let routed = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // TEST-NET-1 (RFC 5737): selects the default route.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    routed.map_or(Ipv4Addr::LOCALHOST.into(), |own| own.ip())
}

/// xdotool and related programs on one display.
struct InputTools<'a> {
    display: &'a str,
}

impl InputTools<'_> {
    fn does(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        let done = command
            .args(arguments)
            .env("DISPLAY", self.display)
            .output();
        let done = done.unwrap();
        assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
    }

    fn xdotool(&self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        self.does("xdotool", &words);
    }
}

/// Everything from the browser's display to a program at the host.
struct Desk {
    rig: Rig,
    host: Xvfb,
    browser_display: Xvfb,
    folder: TempDir,
}

impl Desk {
    /// Returns `None` if a program is not installed.
    fn new(name: &str) -> Option<Desk> {
        let rig = Rig::at(own_address(), name, SIZE, Vec::new(), |_| ());
        Some(Desk {
            host: fixture::xvfb("640x384", &[])?,
            browser_display: fixture::xvfb("1024x700", &[])?,
            folder: tempfile::tempdir().unwrap(),
            rig,
        })
    }

    fn tools(&self) -> InputTools<'_> {
        InputTools {
            display: &self.browser_display.display,
        }
    }

    fn url(&self) -> String {
        format!("https://{}/", self.rig.address())
    }

    /// Opens the host's page in Chromium.
    fn chromium(&self) -> Option<Chromium> {
        let program = super::chromium()?;
        let mut browser =
            Browser::shown(program, self.folder.path(), &self.browser_display.display);
        let tab = browser.open(&self.url());
        Some(Chromium(browser, tab))
    }

    fn firefox(&self, h264: bool) -> Option<Firefox> {
        let Some(program) = Firefox::program() else {
            skip("Firefox is not installed: apt-get install firefox-esr, or ./dev test-web");
            return None;
        };
        let display = &self.browser_display.display;
        let mut firefox = Firefox::shown(program, self.folder.path(), display, h264);
        firefox.open(&self.url());
        Some(firefox)
    }

    /// Types characters with dead keys, Compose and AltGr, and checks the received text.
    fn types(&self, driver: &mut dyn Driver) {
        log_in(driver);
        let tools = self.tools();
        let terminal = Terminal::start(&self.host.display, self.folder.path());
        let mut sink = Xtest::open(Some(&self.host.display)).unwrap();
        tools.xdotool("mousemove 500 300 click 1");
        driver.until("document.activeElement?.id === 'keys'");
        for keys in [
            // ê; ï, with Shift held for the dead key only; © with Compose; and ^ followed by p.
            format!("key {CIRCUMFLEX} key 26"),
            format!("keydown Shift_L key {CIRCUMFLEX} keyup Shift_L key 31"),
            format!("key {MENU} key o key c"),
            format!("key {CIRCUMFLEX} key 33"),
            // The US keys A and 2 type q and é in this layout. No modifier remains pressed.
            "key 38 key 11".to_owned(),
            // xdotool types these characters with AltGr, which it presses at an unused key code.
            "type ß€".to_owned(),
            "key Return".to_owned(),
        ] {
            tools.xdotool(&keys);
        }
        let typed = eventually("a line", || {
            self.pass_on(&mut sink);
            let typed = terminal.typed();
            typed.trim_start().ends_with('\n').then_some(typed)
        });
        assert_eq!(typed.trim(), "êï©^pqéß€");
        // No key is held, so the next text arrives unchanged.
        tools.xdotool("key 38 key Return");
        let typed = eventually("another line", || {
            self.pass_on(&mut sink);
            let typed = terminal.typed();
            typed.ends_with("q\n").then_some(typed)
        });
        assert_eq!(typed.trim(), "êï©^pqéß€\nq");
    }

    /// Applies the received input to the host's display.
    fn pass_on(&self, sink: &mut Xtest) {
        for event in self.rig.received.try_iter() {
            sink.apply(&event).unwrap();
        }
    }

    /// Turns the wheel by ten notches up, down and to the right, and checks the rotation at the host.
    fn turns(&self, driver: &mut dyn Driver) {
        log_in(driver);
        let tools = self.tools();
        tools.xdotool("mousemove 500 300 click 1");
        driver.until("document.activeElement?.id === 'keys'");
        for (button, notches) in [(4, 10), (5, -10)] {
            tools.xdotool(&format!("click --repeat 10 --delay 30 {button}"));
            assert_eq!(self.turned(), (0, 120 * notches));
        }
        // Button 7 scrolls to the right.
        tools.xdotool("click --repeat 10 --delay 30 7");
        assert_eq!(self.turned(), (1200, 0));
    }

    /// Total rotation of the wheel once it has stopped.
    fn turned(&self) -> (i32, i32) {
        let mut sum = (0, 0);
        let mut came = false;
        loop {
            // The wheel has stopped when no event arrives for longer than the interval between notches.
            let wait = if came {
                Duration::from_secs(2)
            } else {
                super::TIMEOUT
            };
            match self.rig.received.recv_timeout(wait) {
                Ok(InputEvent::Wheel { dx, dy }) => {
                    sum = (sum.0 + i32::from(dx), sum.1 + i32::from(dy));
                    came = true;
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return sum,
                Err(gone) => panic!("{gone}"),
            }
        }
    }
}

/// A desk with this keyboard layout, if everything is installed.
fn desk(name: &str) -> Option<Desk> {
    for (program, package) in [
        ("xdotool", "xdotool"),
        ("setxkbmap", "x11-xkb-utils"),
        ("xterm", "xterm"),
    ] {
        if !has_program(program, package) {
            return None;
        }
    }
    let desk = Desk::new(name)?;
    desk.tools().does("setxkbmap", &LAYOUT);
    Some(desk)
}

#[test]
fn composed_text_arrives_from_chromium() {
    let _turn = super::turn();
    let Some(desk) = desk("composed-chromium") else {
        return;
    };
    let Some(mut chromium) = desk.chromium() else {
        return;
    };
    desk.types(&mut chromium);
}

#[test]
fn composed_text_arrives_from_firefox() {
    let _turn = super::turn();
    let Some(desk) = desk("composed-firefox") else {
        return;
    };
    let Some(mut firefox) = desk.firefox(true) else {
        return;
    };
    desk.types(&mut firefox);
}

#[test]
fn ten_notches_are_ten_in_chromium() {
    let _turn = super::turn();
    let Some(desk) = desk("notches-chromium") else {
        return;
    };
    let Some(mut chromium) = desk.chromium() else {
        return;
    };
    desk.turns(&mut chromium);
}

#[test]
fn ten_notches_are_ten_in_firefox() {
    let _turn = super::turn();
    let Some(desk) = desk("notches-firefox") else {
        return;
    };
    let Some(mut firefox) = desk.firefox(true) else {
        return;
    };
    desk.turns(&mut firefox);
}

#[test]
fn firefox_without_h264_is_rejected_before_log_in() {
    let _turn = super::turn();
    let Some(desk) = desk("no-h264") else { return };
    let Some(mut firefox) = desk.firefox(false) else {
        return;
    };
    firefox.until("document.querySelector('#notice p').innerText.includes('no H.264')");
    assert_eq!(
        firefox.run("document.querySelector('#login').hidden"),
        serde_json::json!(true)
    );
}
