//! One program on a display of its own with a window manager, streamed to a client on another one.

use std::path::Path;
use std::process::Command;

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{self, ConnectionExt as _, XIEventMask};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, Window};
use x11rb::wrapper::ConnectionExt as _;

use crate::hand::Hand;
use crate::support::{
    Display, Eye, Folder, PIN, Program, client, eventually, openuvr, port_of, psnr,
};
use crate::table::{App, Door};

const SCREEN: &str = "1280x800";

/// The X key code of the letter A on every PC keyboard: no program ends at it.
const A: u8 = 30 + 8;

/// From here on two pictures of one scene are the same to an eye: what moves meanwhile, and the
/// encoder's losses, leave more. Pictures of different scenes have 10 to 15 dB.
const ALIKE: f64 = 24.0;

/// A program that runs, is streamed, and is watched.
pub(crate) struct Trial {
    client: Program,
    /// The host, or the program with the host in it.
    host: Program,
    program: Option<Program>,
    _manager: Program,
    here: Display,
    there: Display,
    folder: Folder,
    port: u16,
    window: Window,
    size: Size,
}

impl Trial {
    pub(crate) fn start(app: &App, door: Door) -> Trial {
        let here = Display::start(SCREEN).expect("Xvfb is installed");
        let there = Display::start(SCREEN).expect("Xvfb is installed");
        let folder = Folder::new();
        let manager = manager(&here);
        let dir = folder.join("host");
        let own = [
            "--config-dir",
            &dir,
            "--bind",
            "127.0.0.1:0",
            "--realtime",
            "off",
        ];
        let (host, program, window) = match door {
            Door::Screen => {
                let mut command = Command::new(app.words[0]);
                command.args(&app.words[1..]);
                let program = Program::start(app.words[0], at_home(command, &here, &folder));
                let window = main_window(&here);
                let id = format!("{window:#x}");
                let words = ["host", "--display", &here.name, "--window", &id];
                let host = Program::start("host", openuvr(&[&words, &own[..], &PIN].concat()));
                (host, Some(program), window)
            }
            Door::Hook => {
                let folder_of_tests = Path::new(env!("CARGO_BIN_EXE_openuvr")).parent();
                let hook = folder_of_tests.expect("it lies somewhere");
                let hook = hook.join("deps/libopenuvr_hook.so");
                let hook = hook.to_str().expect("a path of text");
                let words = ["run", "--hook", hook];
                let words = [&words, &own[..], &PIN, &["--"], app.words].concat();
                let host = Program::start("run", at_home(openuvr(&words), &here, &folder));
                let window = main_window(&here);
                (host, None, window)
            }
        };
        let port = port_of(&host.line("streaming"));
        let client = watch(&folder, &there, port, &[]);
        let size = Eye::open(&here).geometry(window).expect("its window");
        Trial {
            client,
            host,
            program,
            _manager: manager,
            here,
            there,
            folder,
            port,
            window,
            size,
        }
    }

    /// The size of its window, in words.
    pub(crate) fn size(&self) -> String {
        self.size.to_string()
    }

    /// Waits until the client shows what is to be seen here, and that is no empty window; how alike
    /// both are, in dB.
    pub(crate) fn picture(&self) -> f64 {
        let (here, there) = (Eye::open(&self.here), Eye::open(&self.there));
        let mut best = 0.0;
        eventually("the same picture at both ends", || {
            let (at, size) = self.place();
            let shown = there.geometry(there.client_window()?)?;
            if shown != size {
                return None;
            }
            let (one, other) = (here.part_at(at, size), there.part(size));
            let colours = one.colours();
            let painted = colours.iter().filter(|colour| **colour != [0; 3]).count();
            best = psnr(&one, &other).max(best);
            (painted > colours.len() / 50 && best >= ALIKE).then_some(())
        });
        best
    }

    /// A key at the client is one here, and this program has the keyboard.
    pub(crate) fn key(&self) {
        let watch = Watch::open(&self.here);
        Hand::at(&self.there).chord(&[A]);
        let mut codes = Vec::new();
        eventually("the key at the host", || {
            codes.extend(watch.keys());
            codes.contains(&u32::from(A)).then_some(())
        });
        let hand = Hand::at(&self.here);
        let focus = hand.conn.get_input_focus().expect("sent").reply();
        let focus = focus.expect("the server lives").focus;
        assert_eq!(top(&hand, focus), top(&hand, self.window), "its keyboard");
    }

    /// A click at the client is one here, on this program, at the same place.
    pub(crate) fn click(&self) {
        let watch = Watch::open(&self.here);
        let ((left, upper), size) = self.place();
        let half = |side: u32| i16::try_from(side / 2).expect("a side");
        let (x, y) = (half(size.width), half(size.height));
        let (hand, here) = (Hand::at(&self.there), Hand::at(&self.here));
        hand.points(x, y);
        let near = |a: i16, b: i16| (a - b).abs() <= 2;
        eventually("the pointer at the same place", || {
            let at = here.pointer();
            (near(at.0, left + x) && near(at.1, upper + y)).then_some(())
        });
        hand.button(1, true);
        hand.button(1, false);
        let mut seen = Vec::new();
        eventually("the click at the host", || {
            seen.extend(watch.buttons());
            seen.contains(&1).then_some(())
        });
    }

    /// The same with a client that holds the mouse, as players do.
    pub(crate) fn grabbed(mut self) -> Trial {
        self.client.kill();
        self.client = watch(&self.folder, &self.there, self.port, &["--grab"]);
        self
    }

    /// The mouse moves here as far as it does there.
    pub(crate) fn motion(&self) {
        let (watch, hand) = (Watch::open(&self.here), Hand::at(&self.there));
        let mut moved = (0, 0);
        let look = |moved: &mut (i64, i64)| {
            let more = watch.motion();
            *moved = (moved.0 + more.0, moved.1 + more.1);
        };
        eventually("the grab of the mouse", || {
            hand.moves(0, 1);
            look(&mut moved);
            (moved.1 > 0).then_some(())
        });
        hand.chord(&[A]);
        let mut keys = Vec::new();
        eventually("the key behind the motion", || {
            keys.extend(watch.keys_and(&mut |more| moved = (moved.0 + more.0, moved.1 + more.1)));
            keys.contains(&u32::from(A)).then_some(())
        });
        let before = moved;
        for _ in 0..20 {
            hand.moves(7, -3);
        }
        eventually("the whole motion", || {
            look(&mut moved);
            let way = (moved.0 - before.0, moved.1 - before.1);
            (way == (140, -60)).then_some(())
        });
    }

    /// Where the window lies here, and its size.
    fn place(&self) -> ((i16, i16), Size) {
        let hand = Hand::at(&self.here);
        let at = hand
            .conn
            .translate_coordinates(self.window, hand.root, 0, 0);
        let at = at.expect("sent").reply().expect("its window");
        let size = Eye::open(&self.here).geometry(self.window);
        ((at.dst_x, at.dst_y), size.expect("its window"))
    }
}

impl Drop for Trial {
    /// What programs have started themselves ends with their display.
    fn drop(&mut self) {
        self.client.kill();
        self.host.kill();
        if let Some(program) = &mut self.program {
            program.kill();
        }
    }
}

/// Where programs are found; games lie outside of root's usual path.
pub(crate) fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/games"
}

fn at_home(mut command: Command, display: &Display, folder: &Folder) -> Command {
    command
        .env("DISPLAY", &display.name)
        .env("HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("PATH", path())
        .env("LC_ALL", "C.UTF-8")
        .env("SDL_AUDIODRIVER", "dummy")
        .env("ALSOFT_DRIVERS", "null")
        .env("WINEDEBUG", "-all")
        .env("NO_AT_BRIDGE", "1");
    command
}

/// A window manager, which has begun to work.
fn manager(display: &Display) -> Program {
    let mut command = Command::new("openbox");
    command
        .arg("--sm-disable")
        .env("DISPLAY", &display.name)
        .env("HOME", "/nonexistent");
    let manager = Program::start("openbox", command);
    let hand = Hand::at(display);
    eventually("the window manager", || {
        property(&hand, b"_NET_CLIENT_LIST").map(|_| ())
    });
    manager
}

fn watch(folder: &Folder, display: &Display, port: u16, words: &[&str]) -> Program {
    let address = format!("127.0.0.1:{port}");
    let words = [&["--display", &display.name], &PIN[..], words].concat();
    let client = client(folder, "client", &address, &words);
    client.line("openuvr client: showing");
    client
}

/// The largest window that the window manager knows and that stays as large for some looks:
/// programs show splashes first, and resize themselves.
fn main_window(display: &Display) -> Window {
    let (hand, eye) = (Hand::at(display), Eye::open(display));
    let mut steady = (None, 0);
    eventually("its window", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let windows = property(&hand, b"_NET_CLIENT_LIST")?;
        let sized = windows.into_iter().filter(|window| hand.is_shown(*window));
        let sized = sized.filter_map(|window| Some((window, eye.geometry(window)?)));
        let largest = sized.max_by_key(|(_, size)| size.pixels());
        let same = largest.is_some() && largest == steady.0;
        steady = (largest, if same { steady.1 + 1 } else { 0 });
        (steady.1 >= 20).then_some(largest?.0)
    })
}

fn property(hand: &Hand, name: &[u8]) -> Option<Vec<Window>> {
    let name = hand.conn.intern_atom(false, name).expect("sent");
    let name = name.reply().expect("a name").atom;
    let any = AtomEnum::ANY;
    let value = hand.conn.get_property(false, hand.root, name, any, 0, 64);
    let value = value.expect("sent").reply().expect("the root is there");
    Some(value.value32()?.collect())
}

/// The child of the root in which a window lies.
fn top(hand: &Hand, mut window: Window) -> Window {
    loop {
        let tree = hand.conn.query_tree(window).expect("sent").reply();
        let Ok(tree) = tree else { return window };
        if tree.parent == hand.root || tree.parent == x11rb::NONE {
            return window;
        }
        window = tree.parent;
    }
}

/// Sees all keys, buttons and motion of a display, whoever gets them.
struct Watch(Hand);

impl Watch {
    fn open(display: &Display) -> Watch {
        let hand = Hand::at(display);
        let version = hand.conn.xinput_xi_query_version(2, 2).expect("sent");
        version.reply().expect("XInput 2");
        let raw = xinput::EventMask {
            deviceid: u16::from(xinput::Device::ALL_MASTER),
            mask: vec![
                XIEventMask::RAW_MOTION
                    | XIEventMask::RAW_KEY_PRESS
                    | XIEventMask::RAW_BUTTON_PRESS,
            ],
        };
        hand.conn
            .xinput_xi_select_events(hand.root, &[raw])
            .expect("sent");
        hand.conn.sync().expect("the server lives");
        Watch(hand)
    }

    fn events(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.conn.poll_for_event().expect("the server lives")).collect()
    }

    fn keys(&self) -> Vec<u32> {
        self.keys_and(&mut |_| ())
    }

    /// The keys; what moved before them goes to `moved`.
    fn keys_and(&self, moved: &mut dyn FnMut((i64, i64))) -> Vec<u32> {
        let mut keys = Vec::new();
        for event in self.events() {
            match event {
                Event::XinputRawKeyPress(event) => keys.push(event.detail),
                Event::XinputRawMotion(event) => moved(distance(&event)),
                _ => {}
            }
        }
        keys
    }

    fn buttons(&self) -> Vec<u32> {
        let pressed = |event| match event {
            Event::XinputRawButtonPress(event) => Some(event.detail),
            _ => None,
        };
        self.events().into_iter().filter_map(pressed).collect()
    }

    fn motion(&self) -> (i64, i64) {
        let mut sum = (0, 0);
        let _ = self.keys_and(&mut |(dx, dy)| sum = (sum.0 + dx, sum.1 + dy));
        sum
    }
}

fn distance(event: &xinput::RawMotionEvent) -> (i64, i64) {
    let mask = event.valuator_mask.first().copied().unwrap_or(0);
    let mut values = event.axisvalues_raw.iter().map(|v| i64::from(v.integral));
    let mut axis = |bit: u32| match mask & bit {
        0 => 0,
        _ => values.next().unwrap_or(0),
    };
    (axis(1), axis(2))
}
