//! What `openuvr client` can be told.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Command;
use openuvr_media::codec::Codec;
use openuvr_media::input_source::x11::SHORTCUTS;
use openuvr_proto::control::negotiate::Wishes;
use openuvr_proto::display;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::video::FieldOfView;
use openuvr_runtime::client::config::Config;
use openuvr_runtime::client::{DrawWith, EyeView, Eyes, Reproject};
use openuvr_runtime::host::config::BITRATES;
use tracing::Level;

use super::ends::{HeadFrom, InputKind, PresentKind, head, input};
use super::kind::{
    Choice, LinkName, Pin, Realtime, TableMode, bitrate, choice, cores, count, flag, number,
    optional, path, pin, size, text, time,
};
use super::portal::{CertificateHash, Place, PortalAddress, fingerprint, place, portal};
use super::{Default, LONGEST_NAME, NO_DISPLAY, Refused, Settings, Surroundings, apart, settings};

/// What is missing to write pictures.
const NO_FOLDER: &str = "present headless needs a folder for its pictures: give --output FOLDER";

settings! {
    /// The configuration of a client.
    ClientConfig is "client" {
        about: "Show what a host streams, and send it this machine's keyboard and mouse";
        examples: "\
Examples:
  openuvr client                            play at the paired host that is found on this network
  openuvr client desk                       play; the first time it asks for the host's PIN
  openuvr client 192.168.1.5 --observe      only watch
  openuvr client desk --full-screen --grab  for a game that turns with the mouse
  openuvr client [fe80::1%eth0]:4711        by address, on another port
  openuvr client eth0/52:54:00:12:34:56     over raw Ethernet, without IP
  openuvr client desk --present headless --output shots --every 60
                                            no window; each 60th picture as a PNG
  openuvr client --portal https://play.example.org --application openarena
                                            what a portal offers; without --application it lists that
  openuvr client desk --head mouse --grab --view left
                                            an OpenXR application; the mouse is the head
  openuvr client desk --head opentrack --overscan 8
                                            the same with opentrack and a webcam

--FLAG=false turns a flag off, --OPTION '' unsets an option that was saved; of an option given twice
the last counts. --help says more on each than -h.";
        agree: ClientConfig::contradiction;
        can_begin: ClientConfig::finds_all;

        "The host" {
            /// The host's name or address, and its port if that isn't 4710.
            /// Without it those on this network are looked for by multicast DNS: the one that is paired
            /// is taken; of several, or of new ones, a number is asked for. An IPv6 address with a port needs brackets. IFACE/MAC is an interface of this machine
            /// and the host's Ethernet address there: raw Ethernet without any IP.
            /// Or it is the link of a portal, openuvr://HOST:PORT/?key=KEY&ticket=TICKET: then nobody pairs.
            host: Option<Place> = "host", optional(place()), Default::Argument;
            /// The PIN that the host shows, for one pairing.
            /// Needed only the first time; without it the client asks on the terminal. It is not
            /// used for a host that is known. Other users of this machine may see it in the list of
            /// processes.
            pin: Option<Pin> = "pin", optional(pin()), Default::OnlyFlag(&Default::Unset("it asks"));
            /// Pair with a host that is known already, with a new PIN.
            /// For a host that was set up anew or has forgotten this client. The host's key is
            /// replaced, and both keys' fingerprints are shown.
            pair_again: bool = "pair-again", flag(), Default::OnlyFlag(&Default::Is("false"));
            /// Only watch.
            observe: bool = "observe", flag(), Default::Is("false");
            /// Take the player's role from whoever has it, if the host allows it.
            take_over: bool = "take-over", flag(), Default::Is("false");
            /// The only transport that will do.
            /// Without it the best that works is taken, and shown: `udp-gso`, where the kernel splits
            /// batches; `raw`, Ethernet without IP, where host and client are on one segment and both
            /// have the capability CAP_NET_RAW; `udp`, each datagram by itself. Never taken by
            /// themselves are `raw-ring` and `xdp`: `raw` through mapped rings, or through AF_XDP if it
            /// was built in, on this side.
            link: Option<LinkName> = "link", optional(choice()), Default::Unset("the best that works");
            /// Connect again when the link breaks.
            reconnect: bool = "reconnect", flag(), Default::Is("true");
            /// This client's name at the host.
            name: String = "name", text("NAME", LONGEST_NAME),
                Default::From("this machine's name", Surroundings::machine_text);
            /// Folder of keys and known hosts.
            config_dir: PathBuf = "config-dir", path("FOLDER"),
                Default::From("$XDG_CONFIG_HOME/openuvr or ~/.config/openuvr", Surroundings::config_dir_text);
        }
        "A portal" {
            /// Play what a portal offers: its address.
            /// It asks for your account there, once: the log-in is kept in the folder of keys, for this user
            /// alone. Without `--application` it lists what you may start and which sessions there are. Ctrl-C,
            /// or closing the window, leaves the session running, as closing the portal's page does: the same
            /// command joins it again; `--stop-session` ends it.
            portal: Option<PortalAddress> = "portal", optional(portal()),
                Default::OnlyFlag(&Default::Unset(""));
            /// What to play there: an application's name, or a session's id.
            /// Of an application of which you have a session that one is joined, and else one is started. The
            /// session of somebody who shares it is only watched.
            application: Option<String> = "application", optional(text("NAME", 64)),
                Default::OnlyFlag(&Default::Unset("list them"));
            /// End the session when this client ends, also while it waits for a place.
            stop_session: bool = "stop-session", flag(), Default::Is("false");
            /// The account there.
            portal_user: Option<String> = "portal-user", optional(text("NAME", 128)),
                Default::Unset("that of the last log-in, or it asks");
            /// A file whose first line is the account's password.
            /// For programs; without it the client asks at the terminal. The variable
            /// OPENUVR_PORTAL_PASSWORD_FILE names one, too.
            portal_password_file: Option<PathBuf> = "portal-password-file", optional(path("FILE")),
                Default::Unset("it asks");
            /// The portal's certificate, if this system does not know who signed it.
            /// Its SHA-256 fingerprint, as `openssl x509 -noout -sha256 -fingerprint` shows it; it is kept with
            /// the log-in, and must be the same from then on.
            portal_fingerprint: Option<CertificateHash> = "portal-fingerprint", optional(fingerprint()),
                Default::OnlyFlag(&Default::Unset("one that the system trusts"));
        }
        "Picture" {
            /// Where pictures go.
            /// `x11` is a window; `xr` the headset of the OpenXR runtime that is active here, whose head
            /// and controllers are the host's; `headless` writes PNG files, see `--output`; `null` decodes
            /// them and shows nothing.
            present: PresentKind = "present", choice(), Default::Is("x11");
            /// What decodes H.264.
            /// `avcodec` is the processor, which decodes while a picture arrives; the others are
            /// hardware through libavcodec, which begins when it is whole. One that does not work
            /// here is an error.
            decoder: Option<DecoderName> = "decoder", optional(choice()), Default::Unset("avcodec");
            /// Take only this kind of video.
            /// For a host with several encoders, of which a client gets the first that it can decode:
            /// `jpeg` for a fast network, although the host would rather send H.264.
            codec: Option<CodecName> = "codec", optional(choice()),
                Default::Unset("what the host sends first");
            /// The X display of the window.
            display: Option<String> = "display", optional(text("DISPLAY", 255)),
                Default::From("$DISPLAY", |s| s.display.clone());
            /// The window's size at the start.
            /// The picture is scaled to it. Without it the window has the picture's size, also when
            /// that changes, until you change it; it is never larger than the screen.
            size: Option<Size> = "size", optional(size()), Default::Unset("the picture's");
            /// The largest picture that the host is to send.
            /// It makes a larger one smaller before it encodes, in its shape: for a slow link, or a
            /// small screen. A player's wish; an observer sees what the player sees.
            max_size: Option<Size> = "max-size", optional(size()), Default::Unset("as it is");
            /// The most bits per second that the host is to send.
            /// Within the limits of the host, headers and repairs included. A player's wish.
            bitrate: Option<Bitrate> = "bitrate", optional(bitrate(BITRATES)),
                Default::Unset("what the host allows");
            /// Cover the whole screen.
            full_screen: bool = "full-screen", flag(), Default::Is("false");
            /// Show figures of the latency over the picture.
            /// Ctrl+Alt+Shift+L shows and hides them at any time.
            overlay: bool = "overlay", flag(), Default::Is("false");
            /// Folder of the PNG files of `headless`.
            output: Option<PathBuf> = "output", optional(path("FOLDER")), Default::Unset("");
            /// Write each so many pictures of `headless`.
            /// The last picture is always written, as last.png.
            every: Option<u32> = "every", optional(count(1..=1_000_000, "pictures")),
                Default::Unset("only the last");
        }
        "Virtual reality" {
            /// Whose head OpenXR applications draw for.
            /// `none`; `mouse`: while the window has the mouse (`--grab`, Ctrl+Alt+Shift+G) it looks around,
            /// W A S D or the arrows, Page Up and Page Down go, Q and E lean; `script:FILE`: lines
            /// seconds,x,y,z,yaw,pitch,roll in metres and degrees, again and again; `opentrack` or
            /// `opentrack:ADDRESS:PORT`: what opentrack's output "UDP over network" says, at 127.0.0.1:4242
            /// if nothing else is said.
            head: HeadFrom = "head", head(), Default::Is("none");
            /// Which eyes of a picture with two are shown.
            /// Of OpenXR applications: `both` side by side; `left` or `right`; `anaglyph`, for glasses with
            /// a red filter on the left and a cyan one on the right. Ctrl+Alt+Shift+E goes through them.
            view: EyeView = "view", choice(), Default::Is("both");
            /// Re-aim pictures to where the head looks now.
            /// Each picture of an OpenXR application says for which head it was drawn. It is turned by
            /// as much as the head has turned since, as often as the display shows one, also while no new
            /// one comes. `auto`: with a head (`--head`).
            reproject: Reproject = "reproject", choice(), Default::Is("auto");
            /// What draws re-aimed pictures.
            /// `gl`: OpenGL 3.3, in step with the display; `software`: two cores. `auto` takes OpenGL where a
            /// graphics card is behind it: drawn on the processor (llvmpipe and the like) it is slower than
            /// our own code. If `gl` does not work, that is told, and it is `software`.
            reproject_with: DrawWith = "reproject-with", choice(), Default::Is("auto");
            /// What is drawn beyond each side of what is shown, to re-aim.
            /// So that edges don't go black while the head turns: its speed times the round trip.
            overscan: f64 = "overscan", number(0.0..=40.0, "degrees"), Default::Is("0");
            /// How often a picture is re-aimed.
            /// For a display that does not say it, such as a virtual one.
            refresh: Option<f64> = "refresh", optional(number(1.0..=1000.0, "times a second")),
                Default::Unset("as often as the display shows one, else 60");
            /// How wide each eye sees, in degrees, across and up and down.
            /// OpenXR applications draw that much, and the `--overscan` beside it.
            fov: Option<f64> = "fov", optional(number(20.0..=160.0, "degrees")), Default::Unset("90");
            /// How far apart the eyes are, in millimetres.
            ipd: Option<f64> = "ipd", optional(number(0.0..=200.0, "mm")), Default::Unset("63");
        }
        "Sound" {
            /// Where the host's sound is played.
            /// `auto`: by PulseAudio or PipeWire, if one runs and the host is another machine; `off`: nowhere,
            /// and it is not sent;
            /// `pulse:SINK`: on that device (`pactl list short sinks`); `wav:FILE`: into a file.
            sound: String = "sound", text("DEVICE", 4096), Default::Is("auto");
            /// How loud, in per cent.
            /// 0 is silent; above 100 loud passages may be distorted.
            volume: u32 = "volume", count(0..=200, "per cent"), Default::Is("100");
        }
        "Input" {
            /// The microphone that a host which allows it hears.
            /// `off`: none; `on`: the usual one of PulseAudio or PipeWire; `pulse:SOURCE`: that one
            /// (`pactl list short sources`). Only while you play.
            microphone: String = "microphone", text("SOURCE", 255), Default::Is("off");
            /// Where input comes from.
            /// `x11` is the window; `script` is a file, see `--input-script`; `evdev:` and devices
            /// with commas between, such as evdev:/dev/input/event3,/dev/input/mice, are those
            /// devices, as 0, 1 and so on at the host or as what is before a =, as in
            /// evdev:7=/dev/input/event3. Others still read them, too.
            input: Option<InputKind> = "input", optional(input()),
                Default::Unset("x11 if there is a window, else none");
            /// A file of input events to play; - is the standard input.
            /// Each line says when and what.
            input_script: Option<PathBuf> = "input-script", optional(path("FILE")), Default::Unset("");
            /// Keep mouse and keyboard in the window.
            /// For games that turn with the mouse: it sends how far it moves. All keys go to the host,
            /// also those of the window manager, such as Alt+Tab; Ctrl+Alt+Shift+G releases both.
            grab: bool = "grab", flag(), Default::Is("false");
            /// Share the clipboard with a host that allows it.
            /// Text that is copied here can then be pasted there, or the other way round: the host
            /// chooses which, and by itself allows neither. Only while you play, in a window.
            clipboard: bool = "clipboard", flag(), Default::Is("true");
            /// Send what is done on this machine's game pads.
            /// For a host that takes them, while the window has the focus, and not with `--input none`. Those in /dev/input that
            /// this user may read are used, as they come and go; others still read them, too.
            pads: bool = "pads", flag(), Default::Is("true");
            /// A file that says where the buttons of game pads are.
            /// As SDL's game-controller database (gamecontrollerdb.txt): a line for each pad. Pads that the
            /// kernel knows need none. What the variable SDL_GAMECONTROLLERCONFIG holds counts too.
            pad_db: Option<PathBuf> = "pad-db", optional(path("FILE")), Default::Unset("the kernel's rules");
            /// What a key is at the host.
            /// `symbol`: what it types here, whatever the host's layout, for text; `position`: the
            /// key in the same place, for games: WASD is ZQSD on a French keyboard.
            /// Ctrl+Alt+Shift+K changes it at any time.
            keys: Option<Keys> = "keys", optional(choice()),
                Default::Unset("position with --grab and for games of openuvr run, else symbol");
        }
        "Measuring and running" {
            /// Write a row for each frame.
            csv: Option<PathBuf> = "csv", optional(path("FILE")), Default::Unset("");
            /// Record how long threads take to hear of each other and of their timers.
            /// A file for each place, for `openuvr lab jitter analyse FOLDER/*.jitter`.
            handoffs: Option<PathBuf> = "handoffs", optional(path("FOLDER")), Default::Unset("");
            /// Show the times of the stages while running.
            /// `auto`: on a terminal; `on`: also into a pipe, as plain lines.
            table: TableMode = "table", choice(), Default::Is("auto");
            /// End after this time.
            lasting: Option<Duration> = "for", optional(time()), Default::Unset("on Ctrl-C");
            /// Real-time scheduling.
            /// `auto`: if the system allows it; without, a busy machine adds milliseconds.
            realtime: Realtime = "realtime", choice(), Default::Is("auto");
            /// Keep the threads that must not wait on these cores.
            /// As many as the decoder has threads, or more; the application should be elsewhere.
            pin_cores: BTreeSet<usize> = "pin-cores", cores(), Default::Is("off");
            /// How much is logged.
            log: Level = "log", choice(), Default::Is("info");
        }
    }
}

/// Between the eyes, where it is not said: the mean of adults.
const USUAL_IPD: f64 = 63.0;

/// What each eye sees, where it is not said.
const USUAL_FOV: f64 = 90.0;

/// Half of what is drawn at most: at 90 degrees a plane ends nowhere.
const WIDEST: f64 = 80.0;

impl ClientConfig {
    /// What the person said of the eyes, if anything. What is left out at the sides is drawn, too.
    pub(crate) fn eyes_seen(&self) -> Option<display::Eyes> {
        if self.fov.is_none() && self.ipd.is_none() && self.overscan <= 0.0 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let [side, between] = [
            (self.fov.unwrap_or(USUAL_FOV) / 2.0 + self.overscan)
                .min(WIDEST)
                .to_radians(),
            self.ipd.unwrap_or(USUAL_IPD) / 1e3,
        ]
        .map(|v| v as f32);
        let fov = FieldOfView::new(-side, side, side, -side).ok()?;
        Some(display::Eyes {
            fov: [fov; 2],
            between,
        })
    }

    /// What a client of `host` is told.
    pub(crate) fn of_client(&self, host: Place) -> Config {
        let config = self;
        Config {
            portal: host.word,
            pin: config.pin.as_ref().map(|pin| pin.digits().to_owned()),
            pair_again: config.pair_again,
            observe: config.observe,
            take_over: config.take_over,
            link: config.link.map(|link| link.0),
            name: config.name.clone(),
            config_dir: Some(config.config_dir.clone()),
            decoder: config.decoder.map(|name| name.0.to_owned()),
            codec: config.codec.map(|name| name.0),
            sound: config.sound.clone(),
            microphone: config.microphone.clone(),
            volume: config.volume,
            realtime: config.realtime == Realtime::Auto,
            pin_cores: config.pin_cores.clone(),
            wishes: Wishes {
                bitrate: config.bitrate,
                size: config.max_size,
                // Known once the display is.
                fps: None,
            },
            ..Config::new(host.target)
        }
    }
}

impl Choice for EyeView {
    const WORDS: &'static [(&'static str, Self)] = &[
        (EyeView::Both.name(), EyeView::Both),
        (EyeView::Left.name(), EyeView::Left),
        (EyeView::Right.name(), EyeView::Right),
        (EyeView::Anaglyph.name(), EyeView::Anaglyph),
    ];
}

impl Choice for Reproject {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Reproject::Auto),
        ("on", Reproject::On),
        ("off", Reproject::Off),
    ];
}

impl Choice for DrawWith {
    const WORDS: &'static [(&'static str, Self)] = &[
        (DrawWith::Auto.name(), DrawWith::Auto),
        (DrawWith::Gl.name(), DrawWith::Gl),
        (DrawWith::Software.name(), DrawWith::Software),
    ];
}

/// A kind of video.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodecName(Codec);

impl Choice for CodecName {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("h264", CodecName(Codec::H264)),
        ("jpeg", CodecName(Codec::Jpeg)),
        ("raw", CodecName(Codec::Raw)),
    ];
}

/// A decoder: its name in `openuvr_media::decode::BACKENDS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DecoderName(pub(crate) &'static str);

impl Choice for DecoderName {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("avcodec", DecoderName("avcodec")),
        ("h264_cuvid", DecoderName("h264_cuvid")),
        ("h264_qsv", DecoderName("h264_qsv")),
        ("h264_v4l2m2m", DecoderName("h264_v4l2m2m")),
    ];
}

/// Where pictures go, with all that it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Surface {
    /// A window.
    X11 {
        /// The X display.
        display: String,
        /// The size at the start, or the picture's.
        size: Option<Size>,
        /// Whether it covers the screen.
        full_screen: bool,
        /// Whether it keeps the mouse and the keyboard.
        grab: bool,
        /// What a key is at the host, if that was chosen.
        keys: Option<Keys>,
    },
    /// The headset of the active OpenXR runtime.
    Xr,
    /// PNG files.
    Headless {
        /// The folder.
        output: PathBuf,
        /// Each so many pictures; `None`: only the last.
        every: Option<u32>,
    },
    /// Nowhere.
    Null,
}

/// Where input comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputFrom {
    /// The window.
    Window,
    /// A file, or `-` for the standard input.
    Script(PathBuf),
    /// These devices.
    Devices(String),
    /// Nowhere.
    Nothing,
}

impl ClientConfig {
    /// The subcommand with all flags, and the window's shortcuts at the end of its help.
    pub(crate) fn command() -> Command {
        let mut end = String::from("Keys of the window, which the host does not get:\n");
        for shortcut in SHORTCUTS {
            end += &format!("  {}  {}\n", shortcut.keys, shortcut.does);
        }
        let examples = <ClientConfig as Settings>::EXAMPLES;
        <ClientConfig as Settings>::command().after_help(format!("{end}\n{examples}"))
    }

    /// Makes it that of one who only watches.
    pub(crate) fn watch(&mut self) {
        self.observe = true;
        self.take_over = false;
        (self.bitrate, self.max_size) = (None, None);
        self.head = HeadFrom(None);
    }

    /// Where pictures go.
    ///
    /// # Errors
    /// What is missing for it. A configuration that came from
    /// [`Settings::from_matches`] was asked already.
    pub(crate) fn surface(&self) -> Result<Surface, Refused> {
        let missing = |words: &str| Refused(words.to_owned());
        Ok(match self.present {
            PresentKind::X11 => Surface::X11 {
                display: self.display.clone().ok_or_else(|| missing(NO_DISPLAY))?,
                size: self.size,
                full_screen: self.full_screen,
                grab: self.grab,
                keys: self.keys,
            },
            PresentKind::Xr => Surface::Xr,
            PresentKind::Headless => Surface::Headless {
                output: self.output.clone().ok_or_else(|| missing(NO_FOLDER))?,
                every: self.every,
            },
            PresentKind::Null => Surface::Null,
        })
    }

    /// The display whose clipboard the host may share: that of the window.
    pub(crate) fn clipboard_display(&self) -> Option<String> {
        let shared = self.clipboard && self.present == PresentKind::X11;
        self.display.clone().filter(|_| shared)
    }

    /// Whether this machine's game pads are for the host, if it takes any.
    pub(crate) fn sends_pads(&self) -> bool {
        self.pads && !self.observe && self.input != Some(InputKind::None)
    }

    fn finds_all(&self) -> Result<(), Refused> {
        apart(&[
            ("input-script", self.input_script.as_deref()),
            ("csv", self.csv.as_deref()),
        ])?;
        match (&self.portal, &self.application) {
            // It only lists.
            (Some(_), None) => Ok(()),
            _ => self.surface().map(drop),
        }
    }

    /// How pictures of eyes are shown, on a display with so many refreshes a second, if it says it.
    pub(crate) fn eyes(&self, refresh: Option<f64>) -> Eyes {
        let usual = Eyes::default();
        #[expect(clippy::cast_possible_truncation, reason = "it is a few degrees")]
        let overscan = self.overscan.to_radians() as f32;
        Eyes {
            view: self.view,
            reproject: self.reproject,
            overscan,
            draw_with: self.reproject_with,
            rate: self.refresh.or(refresh).unwrap_or(usual.rate),
            ..usual
        }
    }

    /// Where input comes from.
    pub(crate) fn input_from(&self) -> InputFrom {
        match (&self.input, &self.input_script) {
            (None | Some(InputKind::Script), Some(file)) => InputFrom::Script(file.clone()),
            (Some(InputKind::Evdev(devices)), _) => InputFrom::Devices(devices.clone()),
            (Some(InputKind::X11), _) => InputFrom::Window,
            (None, None) if self.present == PresentKind::X11 => InputFrom::Window,
            _ => InputFrom::Nothing,
        }
    }

    fn contradiction(&self) -> Result<(), Refused> {
        let (window, files) = (
            self.present == PresentKind::X11,
            self.present == PresentKind::Headless,
        );
        let scripted = self.input == Some(InputKind::Script);
        let words = match () {
            () if files && self.output.is_none() => NO_FOLDER,
            () if self.observe && (self.bitrate.is_some() || self.max_size.is_some()) => {
                "bitrate and max-size are a player's wishes: an observer sees what the player sees"
            }
            () if self.portal.is_some() && (self.host.is_some() || self.pin.is_some()) => {
                "a portal says which host it is, and nobody pairs: give either HOST or --portal"
            }
            () if self.portal.is_none() && self.application.is_some() => {
                "application is what a portal offers: give --portal URL, too"
            }
            () if self.observe && self.take_over => {
                "observe and take-over exclude each other: give one of them"
            }
            () if !window
                && (self.size.is_some()
                    || self.full_screen
                    || self.grab
                    || self.keys.is_some()
                    || self.overlay) =>
            {
                "size, full-screen, grab, keys and overlay need a window: present x11"
            }
            () if !window && self.head == HeadFrom(Some("mouse".to_owned())) => {
                "head mouse needs a window: present x11"
            }
            () if self.observe && self.head != HeadFrom(None) => {
                "head is a player's: an observer sees what the player's head sees"
            }
            () if !files && (self.output.is_some() || self.every.is_some()) => {
                "output and every are for pictures as files: they need present headless"
            }
            () if !window && self.input == Some(InputKind::X11) => {
                "input x11 comes from the window: it needs present x11"
            }
            () if scripted && self.input_script.is_none() => {
                "input script needs a file: give --input-script FILE"
            }
            () if !scripted && self.input.is_some() && self.input_script.is_some() => {
                "input-script needs input script, or no input at all"
            }
            () => return Ok(()),
        };
        Err(Refused(words.to_owned()))
    }
}
