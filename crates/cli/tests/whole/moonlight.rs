//! `openuvr host --virtual --moonlight`: the display takes the mode of a Moonlight client.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[path = "../../../moonlight/tests/hostile/peer.rs"]
pub(crate) mod peer;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use openuvr_proto::units::Size;
use openuvr_xserver::fixture::has_xvfb;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use x11rb::connection::Connection as _;
use x11rb::protocol::randr::ConnectionExt as _;

use self::peer::{Peer, Streams, element, get, play};
use crate::support::{Display, Folder, Program, ScreenCapture, eventually, openuvr, skip};

const OWN: Size = Size::new(640, 360);

/// A running host with a virtual display.
pub(crate) struct Rig {
    pub(crate) folder: Folder,
    pub(crate) host: Program,
    display: Option<Display>,
    pub(crate) http: SocketAddr,
}

impl Rig {
    /// Starts a host with additional arguments. Without an application, the display is empty.
    pub(crate) fn new(more: &[&str]) -> Rig {
        let folder = Folder::new();
        let dir = folder.join("host");
        let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
        let size = OWN.to_string();
        let usual = [
            "--virtual",
            &size,
            "--realtime",
            "off",
            "--moonlight",
            "127.0.0.1:0",
        ];
        let host = Program::start("host", openuvr(&[&own[..], &usual, more].concat()));
        let line = host.line("Moonlight clients: add the host ");
        let (_, address) = line.rsplit_once(' ').unwrap();
        Rig {
            http: address.parse().unwrap(),
            folder,
            host,
            display: None,
        }
    }

    /// Finds the host's empty display.
    fn with_display(mut self) -> Rig {
        let line = self.host.line("is empty; start an application with");
        let word = |start: &str| line.split(' ').find_map(|word| word.strip_prefix(start));
        let name = word("DISPLAY=").expect("a display");
        let authority = word("XAUTHORITY=").expect("a file");
        self.display = Some(Display::of_another(name, authority));
        self
    }

    pub(crate) fn https(&self) -> SocketAddr {
        let port = element(&get(self.http, "serverinfo"), "HttpsPort");
        SocketAddr::new(self.http.ip(), port.parse().unwrap())
    }

    fn paired(&self, name: &str) -> Peer {
        let peer = Peer::new();
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| self.enter("1234", name));
            assert!(peer.pairs(self.http, "1234", || ()));
            entered.join().unwrap();
        });
        peer
    }

    /// Enters a PIN at the host, as a user does, with a name for the client.
    fn enter(&self, pin: &str, name: &str) {
        let dir = self.folder.join("host");
        let words = ["devices", "--config-dir", &dir, "pair", "--moonlight", pin];
        let entered = openuvr(&[&words[..], &["--name", name]].concat()).output();
        let entered = entered.unwrap();
        assert!(entered.status.success(), "{entered:?}");
    }

    /// The answer to `launch` with an additional parameter.
    fn launch(&self, peer: &Peer, more: &str) -> String {
        let application = element(&peer.get_protected(self.https(), "applist"), "ID");
        peer.get_protected(self.https(), &Peer::launch(&application, more))
    }

    /// The number of an application.
    fn number(&self, peer: &Peer, title: &str) -> String {
        let list = peer.get_protected(self.https(), "applist");
        let found = list
            .split("<App>")
            .find(|one| one.contains("<AppTitle>") && element(one, "AppTitle") == title);
        element(
            found.unwrap_or_else(|| panic!("no {title} in {list}")),
            "ID",
        )
    }

    /// The number of the running application, from the server information.
    fn running(&self, peer: &Peer) -> String {
        element(
            &peer.get_protected(self.https(), "serverinfo"),
            "currentgame",
        )
    }

    /// Launches the first application with this display mode, and plays.
    fn play(&self, peer: &Peer, mode: (u32, u32, u32)) -> Streams {
        let (width, height, rate) = mode;
        let launched = self.launch(peer, &format!("mode={width}x{height}x{rate}"));
        plays(&launched, mode)
    }

    /// The display's size, and its refresh rate in Hz.
    fn shown(&self) -> (Size, u32) {
        shown(self.display.as_ref().unwrap())
    }
}

/// Plays the stream that the host offers in `answer`, its answer to a request `launch` or `resume`.
fn plays(answer: &str, (width, height, rate): (u32, u32, u32)) -> Streams {
    let launched = answer;
    let url = element(launched, "sessionUrl0");
    let rtsp = url.strip_prefix("rtspenc://").unwrap().parse().unwrap();
    play(rtsp, 1, (width, height, rate)).unwrap()
}

/// A display's size, and its refresh rate in Hz.
fn shown(display: &Display) -> (Size, u32) {
    let capture = ScreenCapture::open(display);
    let size = capture.geometry(capture.root).expect("the root window");
    let conn = &capture.conn;
    let root = conn.setup().roots[0].root;
    let resources = conn.randr_get_screen_resources_current(root).unwrap();
    let resources = resources.reply().unwrap();
    let crtc = conn.randr_get_crtc_info(resources.crtcs[0], 0).unwrap();
    let crtc = crtc.reply().unwrap();
    let mut modes = resources.modes.iter();
    let mode = modes.find(|mode| mode.id == crtc.mode).unwrap();
    let pixels = u32::from(mode.htotal) * u32::from(mode.vtotal);
    let rate = (mode.dot_clock + pixels / 2).checked_div(pixels);
    (size, rate.unwrap_or(0))
}

#[test]
fn a_virtual_display_takes_the_players_mode() {
    if !has_xvfb() {
        return;
    }
    let rig = Rig::new(&[]).with_display();
    let before = rig.shown();
    assert_eq!(before.0, OWN);
    let (one, two) = (rig.paired("one"), rig.paired("two"));
    // The modes are 4:3, 21:9, portrait, portrait with more rows than most screens have, and a small one.
    for mode in [
        (1024, 768, 60),
        (2560, 1080, 144),
        (1080, 1920, 120),
        (2160, 3840, 30),
        (854, 480, 90),
    ] {
        let (width, height, rate) = mode;
        let size = Size::new(width, height);
        let streams = rig.play(&one, mode);
        // The first video packet arrives when the display already has the size. The refresh rate follows.
        eventually("video", || streams.packet());
        assert_eq!(rig.shown().0, size);
        eventually("the rate", || (rig.shown() == (size, rate)).then_some(()));
        rig.host.line(&format!("is open for {size}"));
        // An observer's mode changes nothing.
        // The player's stream must stay active. Otherwise, the host would regard the player as gone after ten seconds.
        let launched = rig.launch(&two, "mode=800x600x75");
        let _ = streams.packet();
        let watches = plays(&launched, (800, 600, 75));
        eventually("video of an observer", || {
            let _ = streams.packet();
            watches.packet()
        });
        assert_eq!(rig.shown(), (size, rate));
        two.get_protected(rig.https(), "cancel");
        one.get_protected(rig.https(), "cancel");
        eventually("the display's own size", || {
            (rig.shown() == before).then_some(())
        });
    }
    for absurd in ["0x0x60", "16384x16384x60", "1280x720x1000", "1280x720x0"] {
        let answer = rig.launch(&one, &format!("mode={absurd}"));
        assert!(answer.contains("status_code=\"400\""), "{absurd}: {answer}");
        assert_eq!(element(&answer, "gamesession"), "0", "{absurd}");
    }
    // The host also checks the mode in an ANNOUNCE request.
    let launched = rig.launch(&one, "");
    let url = element(&launched, "sessionUrl0");
    let rtsp = url.strip_prefix("rtspenc://").unwrap().parse().unwrap();
    for (first, absurd) in [
        (1, (0, 0, 60)),
        (10, (16_384, 64, 60)),
        (20, (1280, 720, 1000)),
    ] {
        let refused = play(rtsp, first, absurd).err().expect("refused");
        assert!(refused.starts_with("RTSP/1.0 400"), "{refused}");
    }
    assert_eq!(rig.shown(), before);
}

#[test]
fn a_display_that_is_not_fitted_keeps_its_size() {
    if !has_xvfb() {
        return;
    }
    let rig = Rig::new(&["--fit=false"]).with_display();
    let before = rig.shown();
    let one = rig.paired("one");
    let streams = rig.play(&one, (320, 240, 60));
    eventually("video", || streams.packet());
    // The 16:9 display is scaled to fit into the client's 4:3 mode.
    rig.host.line("is open for 320x180");
    assert_eq!(rig.shown(), before);
}

/// Whether the process with this number has ended and has been reaped by its parent.
fn is_gone(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    test_kill_process(pid.expect("a process number")).is_err()
}

#[test]
fn clients_start_share_and_quit_the_applications_of_the_list() {
    if !has_xvfb() {
        return;
    }
    let files = Folder::new();
    let at = |name: &str| files.join(name);
    let icon = at("icon.png");
    let mut encoder = png::Encoder::new(std::fs::File::create(&icon).unwrap(), 1, 1);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[9, 8, 7]).unwrap();
    drop(writer);
    let scene = env!("CARGO_BIN_EXE_openuvr");
    // Each application writes its process number, its display and the path of the cookie file to a file, in one step.
    let tells = |name: &str| {
        let file = at(name);
        format!("echo $$ $DISPLAY $XAUTHORITY >{file}.new; mv {file}.new {file}; exec")
    };
    let list = at("applications.toml");
    let text = format!(
        "[[applications]]\nname = \"One\"\ncommand = [\"sh\", \"-c\", \"{} {scene} scene --fps 30\"]\nicon = \"{icon}\"\n\
         [[applications]]\nname = \"Two\"\ncommand = [\"sh\", \"-c\", \"{} sleep 1000\"]\n\
         [[applications]]\nname = \"Three\"\ncommand = [\"/nonexistent/program\"]\n",
        tells("one"),
        tells("two"),
    );
    std::fs::write(&list, text).unwrap();
    let rig = Rig::new(&["--applications", &list]);
    rig.host.line("3 applications for Moonlight clients");
    let (first, second) = (rig.paired("first"), rig.paired("second"));
    let [one, two, three] = ["One", "Two", "Three"].map(|title| rig.number(&first, title));
    let launch = |peer: &Peer, number: &str, mode: &str| {
        peer.get_protected(rig.https(), &Peer::launch(number, mode))
    };
    // Applications with and without an icon have an image.
    let art = |number: &str| first.get_protected(rig.https(), &format!("appasset?appid={number}"));
    assert!(art(&one).contains("image/png") && art(&two).contains("image/png"));
    let failed = launch(&first, &three, "");
    assert!(failed.contains("status_code=\"503\"") && failed.contains("Three did not start"));
    assert_eq!(rig.running(&first), "0");
    let launched = launch(&first, &one, "mode=800x600x75");
    assert_eq!(element(&launched, "gamesession"), "1", "{launched}");
    let told = eventually("it runs", || std::fs::read_to_string(at("one")).ok());
    let words: Vec<&str> = told.split_whitespace().collect();
    let display = Display::of_another(words[1], words[2]);
    // The application has started on a display that already had its client's mode.
    assert_eq!(shown(&display), (Size::new(800, 600), 75));
    let streams = plays(&launched, (800, 600, 75));
    eventually("video", || streams.packet());
    assert_eq!(
        [rig.running(&first), rig.running(&second)],
        [one.clone(), one.clone()]
    );
    // While this application runs, no other can be started, but another client can join it.
    let busy = launch(&second, &two, "mode=640x480x60");
    assert!(
        busy.contains("status_code=\"400\"") && busy.contains("One already runs"),
        "{busy}"
    );
    assert_eq!(element(&busy, "gamesession"), "0");
    // The first client's stream must stay active. Otherwise, the host would regard this client as gone after ten
    // seconds.
    let _ = streams.packet();
    let target = Peer::launch(&one, "mode=640x480x60").replacen("launch", "resume", 1);
    let resumed = second.get_protected(rig.https(), &target);
    assert_eq!(element(&resumed, "resume"), "1", "{resumed}");
    let _ = streams.packet();
    let watches = plays(&resumed, (640, 480, 60));
    eventually("video of the second", || {
        let _ = streams.packet();
        watches.packet()
    });
    assert_eq!(shown(&display), (Size::new(800, 600), 75));
    // While other clients play, only the client that has started the application can quit it.
    let refused = second.get_protected(rig.https(), "cancel");
    assert!(refused.contains("status_code=\"599\""), "{refused}");
    assert!(!is_gone(words[0]));
    let quit = first.get_protected(rig.https(), "cancel");
    assert_eq!(element(&quit, "cancel"), "1", "{quit}");
    assert!(is_gone(words[0]));
    assert_eq!([rig.running(&first), rig.running(&second)], ["0", "0"]);
    eventually("the display's own size", || {
        (shown(&display).0 == OWN).then_some(())
    });
    // Now the other application is started, and then killed.
    let launched = launch(&second, &two, "mode=1024x768x60");
    assert_eq!(element(&launched, "gamesession"), "1", "{launched}");
    let told = eventually("it runs", || std::fs::read_to_string(at("two")).ok());
    assert_eq!(rig.running(&second), two);
    let pid = told.split_whitespace().next().unwrap().parse().ok();
    kill_process(pid.and_then(Pid::from_raw).unwrap(), Signal::KILL).unwrap();
    eventually("its end", || (rig.running(&second) == "0").then_some(()));
    // Then the host can start the next application.
    std::fs::remove_file(at("one")).unwrap();
    let launched = launch(&second, &one, "");
    assert_eq!(element(&launched, "gamesession"), "1", "{launched}");
    eventually("it runs again", || std::fs::read_to_string(at("one")).ok());
}

/// A process that is killed if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_foreign_client_gets_its_mode_from_the_first_frame_on() {
    let Ok(python) = std::env::var("OPENUVR_MOONLIGHT_PYTHON") else {
        skip("OPENUVR_MOONLIGHT_PYTHON names no Python with moonlight-python");
        return;
    };
    let scene = env!("CARGO_BIN_EXE_openuvr");
    let rig = Rig::new(&["--place", "--", scene, "scene", "--fps", "60"]);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../moonlight/tests/client/client.py"
    );
    let mut pin = "2718";
    for (mode, shape) in [
        ("1024x768x60", [768, 1024, 3]),
        ("1280x540x30", [540, 1280, 3]),
        ("480x854x120", [854, 480, 3]),
    ] {
        let mut command = Command::new(&python);
        command
            .arg(script)
            .args([rig.http.ip().to_string(), rig.http.port().to_string()])
            .args([&rig.folder.join("client"), pin, "60", mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = Killed(command.spawn().unwrap());
        let mut lines = BufReader::new(client.0.stdout.take().unwrap()).lines();
        let mut step = |name: &str| -> Value {
            loop {
                let line = lines
                    .next()
                    .unwrap_or_else(|| panic!("it ended before {name}"));
                let step: Option<Value> = serde_json::from_str(&line.unwrap()).ok();
                if let Some(step) = step.filter(|step| step["step"] == name) {
                    return step;
                }
            }
        };
        if !pin.is_empty() {
            step("pairs");
            rig.enter(pin, "a test");
        }
        pin = "";
        let frames = step("frames");
        assert_eq!(frames["shape"], serde_json::json!(shape), "{mode}");
        assert_eq!(frames["shapes"], 1, "{mode}");
        drop(client.0.stdin.take());
        step("quit");
    }
}
