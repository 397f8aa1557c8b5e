//! Settings of `openuvr client`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Command;
use openuvr_media::clipboard::OpenClipboard;
use openuvr_media::clipboard::x11::X11Clipboard;
use openuvr_media::input_source::SHORTCUTS;
use openuvr_media::motion::{Axes, MotionSettings};
use openuvr_pinning::CertificateHash;
use openuvr_proto::control::negotiate::ClientConstraints;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::display;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::video::FieldOfView;
use openuvr_runtime::client::config::{Config, microphone_choice, playback_choice};
use openuvr_runtime::client::{DrawBackend, EyeView, Reproject, StereoSettings};
use openuvr_runtime::host::config::BITRATES;
use openuvr_wayland::clipboard::WaylandClipboard;
use tracing::Level;

use super::endpoints::{
    CodecName, DecoderName, HeadSpec, InputKind, InputSpec, PresentKind, Surface, WindowSpec, head,
    input, present,
};
use super::kind::{
    LinkName, Realtime, TableMode, bitrate, choice, cores, count, flag, number, optional, path,
    pin, size, text, time,
};
use super::motion::{MotionKind, MotionOptions, axes};
use super::portal::{HostTarget, PortalAddress, fingerprint, host_target, portal};
use super::stereo::StereoOptions;
use super::via_ap::{ViaAp, interface, via_ap};
use super::{
    ConfigError, Default, Environment, LONGEST_NAME, NO_DISPLAY, Settings, check_distinct, settings,
};

/// The error message if `--present headless` has no output folder.
const MISSING_FOLDER: &str = "--present headless requires a folder: use --output FOLDER";

settings! {
    /// The configuration of a client.
    ClientConfig is "client" {
        about: "Show the stream of a host, and send keyboard and mouse input to the host";
        examples: "\
Examples:
  openuvr client                            play at the paired host found on this network
  openuvr client desk                       play; the first time, enter the host's PIN
  openuvr client 192.168.1.5 --observe      watch only
  openuvr client desk --full-screen --grab  for a game with mouse look
  openuvr client [fe80::1%eth0]:4720        by address, on another port
  openuvr client eth0/52:54:00:12:34:56     over raw Ethernet, without IP
  openuvr client --via-ap 'WIFI:T:WPA;S:OpenUVR-desk;P:KEY;;'
                                            through the access point of `openuvr ap`
  openuvr client desk --present headless --output shots --every 60
                                            no window; every 60th picture as PNG
  openuvr client --portal https://play.example.org --application openarena
                                            play through a portal; without --application, list applications
  openuvr client desk --head-pose mouse --grab --view left
                                            an OpenXR application; the mouse turns the head
  openuvr client desk --head-pose opentrack --overscan 8
                                            the same, but opentrack and a webcam track the head
  openuvr client desk --head-pose iio --motion mouse
                                            a game; this machine's inertial sensor moves the game's mouse

--FLAG=false disables a flag, --OPTION '' unsets a saved option. If an option is repeated, the last
one applies. -h prints short help, --help the full help.";
        check_consistency: ClientConfig::find_contradiction;
        check_environment: ClientConfig::check_requirements;

        "Host" {
            /// Name or address of the host, with its port if it is not 4710.
            /// By default, hosts on the local network are discovered through multicast DNS. If exactly one of them is
            /// paired, the client uses it; otherwise, the client shows a numbered list of the hosts and prompts for a
            /// number. An IPv6 address with a port needs brackets. IFACE/MAC selects raw Ethernet without IP: an
            /// interface of this machine and the host's Ethernet address. A portal's link
            /// openuvr://HOST:PORT/?key=KEY&ticket=TICKET needs no pairing.
            host: Option<HostTarget> = "host", optional(host_target()), Default::Argument;
            /// PIN shown by the host, for pairing.
            /// Needed only the first time; by default, the client prompts for it. Ignored for a paired host, except
            /// with `--pair-again`. Other users of this machine may see it in the process list.
            pin: Option<Pin> = "pin", optional(pin()), Default::OnlyFlag(&Default::Unset("prompt"));
            /// Pair again with a known host, with a new PIN.
            /// For a host that was reinstalled or has removed this client. The client replaces the stored key of the
            /// host, and shows the fingerprints of both keys.
            pair_again: bool = "pair-again", flag(), Default::OnlyFlag(&Default::Is("false"));
            /// Only watch, without input.
            observe: bool = "observe", flag(), Default::Is("false");
            /// Take over the player's role, if the host allows it.
            take_over: bool = "take-over", flag(), Default::Is("false");
            /// Force a transport.
            /// By default, the client uses and reports the best transport that works. `udp-gso`: UDP with segmentation
            /// offload. `raw`: Ethernet without IP, if host and client are on one segment and both have the capability
            /// CAP_NET_RAW. `udp`: UDP, each datagram separately. `raw-ring` (`raw` through memory-mapped rings at the
            /// client) and `xdp` (`raw` through AF_XDP, if built in) are used only on request.
            link: Option<LinkName> = "link", optional(choice()), Default::Unset("the best transport that works");
            /// Reconnect when the link fails.
            reconnect: bool = "reconnect", flag(), Default::Is("true");
            /// Name of this client, as shown at the host.
            name: String = "name", text("NAME", LONGEST_NAME),
                Default::From("this machine's name", Environment::machine_text);
            /// Folder for keys and known hosts.
            config_dir: PathBuf = "config-dir", path("FOLDER"),
                Default::From("$XDG_CONFIG_HOME/openuvr or ~/.config/openuvr", Environment::config_dir_text);
        }
        "Access point" {
            /// Join the access point of the host, and leave it at the end.
            /// The value is the text of the QR code that `openuvr ap` shows, in quotation marks, or the name of the
            /// network. The client then searches for the host on this network, unless HOST is set. NetworkManager joins
            /// the network if it manages the card; otherwise, the client needs root and wpa_supplicant. The QR
            /// code's text contains the network's key, and other users of this machine may see it in the process list.
            via_ap: Option<ViaAp> = "via-ap", optional(via_ap()), Default::Unset("");
            /// File with the key of the access point in its first line.
            ap_key_file: Option<PathBuf> = "ap-key-file", optional(path("FILE")),
                Default::Unset("from the QR code, otherwise prompt");
            /// Wireless interface for the access point.
            ap_interface: Option<String> = "ap-interface", optional(interface()),
                Default::Unset("the only free interface");
        }
        "Portal" {
            /// Play an application offered by the portal at this address.
            /// The client prompts for your account once and stores the log-in in the configuration folder, readable
            /// only by this user. Without `--application`, it lists the applications and sessions. When this client
            /// ends (by Ctrl-C, or because its window is closed), the session continues. The same command joins the
            /// session again. With `--stop-session`, the session ends with the client.
            portal: Option<PortalAddress> = "portal", optional(portal()),
                Default::OnlyFlag(&Default::Unset(""));
            /// Application or session at the portal: a name or a session id.
            /// The client joins your running session of the application, or starts a session if there is none. In a
            /// shared session of another user, it can only watch.
            application: Option<String> = "application", optional(text("NAME", 64)),
                Default::OnlyFlag(&Default::Unset("list all"));
            /// When this client ends, also end its session, even a queued one.
            stop_session: bool = "stop-session", flag(), Default::Is("false");
            /// Account at the portal.
            portal_user: Option<String> = "portal-user", optional(text("NAME", 128)),
                Default::Unset("the last account, otherwise prompt");
            /// File with the account's password in its first line.
            /// For scripts; by default, the client prompts for it. The variable OPENUVR_PORTAL_PASSWORD_FILE can also
            /// specify the file.
            portal_password_file: Option<PathBuf> = "portal-password-file", optional(path("FILE")),
                Default::Unset("prompt");
            /// Fingerprint of a portal certificate that the system does not trust.
            /// SHA-256, as printed by `openssl x509 -noout -sha256 -fingerprint`. The client stores the fingerprint
            /// with the log-in, and later certificates must match it.
            portal_fingerprint: Option<CertificateHash> = "portal-fingerprint", optional(fingerprint()),
                Default::OnlyFlag(&Default::Unset("only certificates that the system trusts"));
        }
        "Picture" {
            /// Picture output.
            /// `x11`: a window on an X display (`--display`). `wayland`: a window on $WAYLAND_DISPLAY;
            /// `wayland:DISPLAY` selects a different compositor, by the name or path of its socket. `kms`: a whole
            /// display without a window system, from a text console; `kms:CARD/CONNECTOR` selects the display, as in
            /// kms:card0/HDMI-A-1. Ctrl+Alt+F1 to F12 switch consoles. `xr`: the headset of the active OpenXR runtime;
            /// the host uses the headset's pose and controllers. `headless`: PNG files, see `--output`. `null`:
            /// pictures are decoded and discarded.
            present: PresentKind = "present", present(),
                Default::From("wayland in a Wayland session, otherwise x11", Environment::present_text);
            /// Decoder of H.264 or HEVC.
            /// `avcodec`: the CPU, which decodes an H.264 picture while it arrives. All other values are hardware
            /// decoders through libavcodec (unverified on hardware, see docs/hardware.md); they start when a picture is
            /// complete. An unavailable decoder is an error.
            decoder: Option<DecoderName> = "decoder", optional(choice()), Default::Unset("avcodec");
            /// Accept only this codec.
            /// A host with several encoders uses the first encoder whose codec the client can decode. For example,
            /// select `jpeg` on a fast network if the host prefers H.264.
            codec: Option<CodecName> = "codec", optional(choice()),
                Default::Unset("the host's first choice");
            /// X display for the `x11` window.
            display: Option<String> = "display", optional(text("DISPLAY", 255)),
                Default::From("$DISPLAY", |s| s.display.clone());
            /// Initial size of the window or, with `kms`, of the display's mode.
            /// The picture is scaled to this size. By default, the window follows the picture's size until you resize
            /// the window. The window is never larger than the screen.
            size: Option<Size> = "size", optional(size()), Default::Unset("the picture's size");
            /// Maximum picture size.
            /// The host scales larger pictures down before encoding, keeping the aspect ratio. Use it for a slow link
            /// or a small screen. Only the player can set it; observers see the player's picture.
            max_size: Option<Size> = "max-size", optional(size()), Default::Unset("unscaled");
            /// Maximum bitrate, in bits per second.
            /// The limit includes header and repair overhead; the host's own limits still apply. Only the player can
            /// set it.
            bitrate: Option<Bitrate> = "bitrate", optional(bitrate(BITRATES)),
                Default::Unset("the host's limit");
            /// Full-screen window.
            full_screen: bool = "full-screen", flag(), Default::Is("false");
            /// Show each picture at once, even in the middle of a refresh.
            /// With `wayland`, this needs a compositor with tearing control, and usually works in full screen only.
            /// With `kms`, it needs driver support.
            tearing: bool = "tearing", flag(), Default::Is("false");
            /// Show the rows of a picture as they are decoded.
            /// This works with `x11` (unless the window scales the picture) and with `kms`. The upper rows become
            /// visible milliseconds earlier than if the picture is shown as a whole; the last rows do not. Until the
            /// last rows are shown, the screen shows parts of two frames, with a visible edge in fast motion. With
            /// `kms`, the display then reports no presentation times.
            present_slices: bool = "present-slices", flag(), Default::Is("false");
            /// Show latency figures over the picture.
            /// Ctrl+Alt+Shift+L toggles them.
            overlay: bool = "overlay", flag(), Default::Is("false");
            /// Folder for the PNG files of `headless`.
            output: Option<PathBuf> = "output", optional(path("FOLDER")), Default::Unset("");
            /// Write every Nth picture of `headless`.
            /// The last picture is always written, as last.png.
            every: Option<u32> = "every", optional(count(1..=1_000_000, "pictures")),
                Default::Unset("only the last picture");
        }
        "Virtual reality" {
            /// Head-pose source for OpenXR applications.
            /// `none`: no head poses. `mouse`: while the window has grabbed the mouse (`--grab`, Ctrl+Alt+Shift+G), the
            /// mouse turns the head; W A S D or the arrow keys and Page Up and Page Down move it, and Q and E lean it.
            /// `script:FILE`: a file that is played in a loop; each line is seconds,x,y,z,yaw,pitch,roll, in metres and
            /// degrees. `opentrack` or `opentrack:ADDRESS:PORT`: opentrack's output "UDP over network", by default at
            /// 127.0.0.1:4242. `iio` or `iio:FOLDER`: a gyroscope and an accelerometer of this machine, by default
            /// those in /sys/bus/iio/devices. Ctrl+Alt+Shift+C sets the head's current direction as straight ahead.
            head: HeadSpec = "head-pose", head(), Default::Is("none");
            /// Which eyes of a stereo picture to show.
            /// `both`: side by side. `left` or `right`: one eye. `anaglyph`: for glasses with a red filter on the left and a
            /// cyan one on the right. Ctrl+Alt+Shift+E cycles through them.
            view: EyeView = "view", choice(), Default::Is("both");
            /// Reproject pictures to the current head pose.
            /// Each picture of an OpenXR application carries the head pose for which it was rendered. The client
            /// rotates the picture by the head's rotation since that pose, at the display's refresh rate, even without
            /// new pictures. `auto`: on if head poses are sent to the host (`--head-pose`), otherwise off.
            reproject: Reproject = "reproject", choice(), Default::Is("auto");
            /// Renderer of reprojected pictures.
            /// `gl`: OpenGL 3.3, synchronised with the display. `software`: the CPU, with up to two threads. `auto`:
            /// `gl` on a GPU, otherwise `software`, which is faster than software OpenGL (llvmpipe and the like). If
            /// `gl` does not work, a message is printed, and `software` is used.
            reproject_backend: DrawBackend = "reproject-backend", choice(), Default::Is("auto");
            /// Extra field of view on each side, for reprojection.
            /// It avoids black edges while the head turns. The required angle is the head's angular speed times the
            /// round-trip time.
            overscan: f64 = "overscan", number(0.0..=40.0, "degrees"), Default::Is("0");
            /// Reprojection rate.
            /// For a display that does not report its refresh rate, such as a virtual one. With `kms`, it is also the rate
            /// of the display's mode.
            refresh: Option<f64> = "refresh", optional(number(1.0..=1000.0, "times a second")),
                Default::Unset("the display's refresh rate, or 60 if it is unknown");
            /// Field of view of each eye, horizontal and vertical.
            /// OpenXR applications render this field of view, plus `--overscan` on each side.
            fov: Option<f64> = "fov", optional(number(20.0..=160.0, "degrees")), Default::Unset("90");
            /// Interpupillary distance.
            ipd: Option<f64> = "ipd", optional(number(0.0..=200.0, "mm")), Default::Unset("63");
        }
        "Sound" {
            /// Output device for the host's sound.
            /// `auto`: PulseAudio or PipeWire, if one of them runs and the host is another machine; otherwise none.
            /// `off`: none, and the host sends no sound. `pulse:SINK`: that sink (`pactl list short sinks`).
            /// `wav:FILE`: a WAV file. `null`: the sound is decoded and discarded.
            sound: String = "sound", text("DEVICE", 4096), Default::Is("auto");
            /// Sound volume.
            /// 0 is silent; loud passages may be distorted above 100.
            volume: u32 = "volume", count(0..=200, "per cent"), Default::Is("100");
        }
        "Input" {
            /// Microphone to send, if the host accepts one.
            /// `off`: none. `on`: the default source of PulseAudio or PipeWire. `pulse:SOURCE`: that source
            /// (`pactl list short sources`). `alsa:DEVICE`: that ALSA device (`arecord -L`). Only the player's
            /// microphone is sent.
            microphone: String = "microphone", text("SOURCE", 255), Default::Is("off");
            /// Input source.
            /// `window`: the keyboard and mouse events of the window. `script`: the file of `--input-script`. `none`:
            /// no input. `evdev:DEVICES`: these input devices, separated by commas, such as
            /// evdev:/dev/input/event3,/dev/input/mice. At the host, the devices have the numbers 0, 1 and so on. To
            /// give a device another number, write the number and = before it, as in evdev:7=/dev/input/event3. Other
            /// programs still receive the events of these devices.
            input: Option<InputKind> = "input", optional(input()),
                Default::Unset("window if there is one, otherwise none");
            /// File of input events to play; - is the standard input.
            /// Each line is a command, such as `key KEY_A`, `move 0.5 0.5` or `wait 20ms`. At the end of the script,
            /// the client ends.
            input_script: Option<PathBuf> = "input-script", optional(path("FILE")), Default::Unset("");
            /// Grab the mouse and keyboard.
            /// For games with mouse look, since the client then sends relative motion. Window-manager shortcuts such as
            /// Alt+Tab go to the host, too. Ctrl+Alt+Shift+G releases both.
            grab: bool = "grab", flag(), Default::Is("false");
            /// Share the clipboard with a host that allows it.
            /// The host selects the directions: text copied at the client can be pasted at the host, or the other way
            /// round, or both. By default, the host allows neither direction. Only the player shares its clipboard, and
            /// only with `--present x11` or `wayland`.
            clipboard: bool = "clipboard", flag(), Default::Is("true");
            /// Send the input of this machine's game pads.
            /// The client sends the input of up to four pads while its window has the focus, if the host accepts game
            /// pads. With `--input none` or `--observe`, the client sends no pad input. It uses pads in /dev/input that
            /// this user may read, including pads that are plugged in later. Other programs still receive the events of
            /// these pads.
            pads: bool = "pads", flag(), Default::Is("true");
            /// Button mappings of game pads.
            /// A file in the format of SDL's game-controller database (gamecontrollerdb.txt): one line per pad. Pads
            /// known to the kernel need no mapping. The variable SDL_GAMECONTROLLERCONFIG is also read.
            pad_db: Option<PathBuf> = "pad-db", optional(path("FILE")), Default::Unset("the kernel's rules");
            /// Key mapping at the host.
            /// `symbol`, for text: a key types the same symbol as at the client, whatever the host's layout.
            /// `position`, for games: a key keeps its physical position, so that WASD is ZQSD on a French keyboard.
            /// Ctrl+Alt+Shift+K toggles it.
            keys: Option<Keys> = "key-mapping", optional(choice()),
                Default::Unset("position with --grab, otherwise as set at the host");
        }
        "Games controlled by a head sensor" {
            /// Use head poses as input for an unmodified game.
            /// `mouse`: head rotation moves the mouse, for games that turn the view with the mouse. `pad`: the head's
            /// angle from the centre deflects the right stick of the first game pad, if the host accepts pads; if the
            /// client has no pad, the host gets a virtual pad. `off`: the client sends head poses, for OpenXR
            /// applications. `mouse` and `pad` require `--head-pose` with a sensor, and work only while the window has
            /// the focus. Ctrl+Alt+Shift+C recentres: it reverses the mouse motion that came from the head, and returns
            /// the stick to its centre.
            motion: MotionKind = "motion", choice(), Default::Is("off");
            /// Head angles for horizontal and vertical motion of the mouse or stick.
            /// The first angle moves the mouse or stick to the right, the second down. Each is yaw (to the right),
            /// pitch (down), roll (to the right shoulder) or none. A `-` before an angle inverts it. Examples:
            /// `-yaw,pitch`, `pitch,yaw`, `roll,none`.
            motion_axes: Axes = "motion-axes", axes(), Default::Is("yaw,pitch");
            /// Speed of the mouse.
            /// Set it so that a quarter turn of the head is a quarter turn in the game. The game's own mouse
            /// sensitivity also scales the motion. Fractions of a count are added to the next motion.
            motion_gain: Option<f64> = "motion-gain", optional(number(0.1..=1000.0, "counts per degree")),
                Default::Unset("10");
            /// Head angle at which the stick is fully deflected.
            motion_range: Option<f64> = "motion-range", optional(number(1.0..=180.0, "degrees")),
                Default::Unset("30");
            /// Head rotation that has no effect.
            /// The stick ignores this angle around its centre. To suppress tremor, the mouse ignores twice this angle
            /// after each change of direction.
            motion_dead_zone: Option<f64> = "motion-dead-zone", optional(number(0.0..=45.0, "degrees")),
                Default::Unset("0 for the mouse, 2 for the stick");
        }
        "Measurement and operation" {
            /// CSV file with a row for each frame.
            csv: Option<PathBuf> = "csv", optional(path("FILE")), Default::Unset("");
            /// Folder for records of thread scheduling latency.
            /// One file per wake-up site, for `openuvr lab jitter analyse FOLDER/*.jitter`.
            scheduling_trace: Option<PathBuf> = "scheduling-trace", optional(path("FOLDER")), Default::Unset("");
            /// Live table of stage times.
            /// `auto`: show the table only on a terminal. `on`: show it without a terminal, too, as plain lines. `off`:
            /// show no table.
            table: TableMode = "table", choice(), Default::Is("auto");
            /// Stop after this time.
            lasting: Option<Duration> = "duration", optional(time()), Default::Unset("run until Ctrl-C");
            /// Real-time scheduling.
            /// `auto`: use it if the system permits it. Without real-time scheduling, a busy machine adds milliseconds
            /// of latency.
            realtime: Realtime = "realtime", choice(), Default::Is("auto");
            /// Pin latency-critical threads to these cores.
            /// Use at least as many cores as decoder threads. Applications should run on other cores.
            pin_cores: BTreeSet<usize> = "pin-cores", cores(), Default::Is("off");
            /// Log level.
            log: Level = "log", choice(), Default::Is("info");
        }
    }
}

/// The default interpupillary distance in millimetres, the mean of adults.
const USUAL_IPD: f64 = 63.0;

/// The default field of view of each eye, in degrees.
const USUAL_FOV: f64 = 90.0;

/// The maximum rendered half angle in degrees. At 90 degrees the image plane would be infinite.
const WIDEST: f64 = 80.0;

impl ClientConfig {
    /// The configured eyes, with the overscan; `None` if nothing is configured.
    pub(crate) fn configured_eyes(&self) -> Option<display::Eyes> {
        if self.fov.is_none() && self.ipd.is_none() && self.overscan <= 0.0 {
            return None;
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the seven digits of an f32 are enough"
        )]
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

    /// The runtime's configuration for a client of `host`.
    pub(crate) fn runtime_config(&self, host: HostTarget) -> Config {
        let config = self;
        Config {
            portal: host.word,
            pin: config.pin.as_ref().map(Pin::to_string),
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
            constraints: ClientConstraints {
                bitrate: config.bitrate,
                size: config.max_size,
                // The rate is known when the display has been opened.
                fps: None,
                chosen_fps: None,
            },
            ..Config::new(host.target)
        }
    }
}

impl ClientConfig {
    /// The subcommand with all flags. Its help ends with the window's shortcuts.
    pub(crate) fn command() -> Command {
        let mut end = String::from("Keyboard shortcuts of the window (not sent to the host):\n");
        for shortcut in SHORTCUTS {
            end += &format!("  {}  {}\n", shortcut.keys, shortcut.does);
        }
        let examples = <ClientConfig as Settings>::EXAMPLES;
        <ClientConfig as Settings>::command()
            // A `-` before an axis inverts it, so the value may begin with a hyphen.
            .mut_arg("motion-axes", |arg| arg.allow_hyphen_values(true))
            .after_help(format!("{end}\n{examples}"))
    }

    /// Changes the configuration to that of an observer.
    pub(crate) fn watch(&mut self) {
        self.observe = true;
        self.take_over = false;
        (self.bitrate, self.max_size) = (None, None);
        self.head = HeadSpec(None);
        self.motion = MotionKind::Off;
    }

    /// The picture output.
    ///
    /// # Errors
    /// Returns an error if a required setting is missing. A configuration that [`Settings::from_matches`]
    /// returns has all required settings.
    pub(crate) fn surface(&self) -> Result<Surface, ConfigError> {
        let missing = |words: &str| ConfigError(words.to_owned());
        let window = WindowSpec {
            size: self.size,
            full_screen: self.full_screen,
            grab: self.grab,
            keys: self.keys,
            tearing: self.tearing,
            slices: self.present_slices,
        };
        Ok(match &self.present {
            PresentKind::X11 => Surface::X11 {
                display: self.display.clone().ok_or_else(|| missing(NO_DISPLAY))?,
                window,
            },
            PresentKind::Wayland(display) => Surface::Wayland {
                display: display.clone(),
                window,
            },
            PresentKind::Kms(display) => Surface::Kms {
                display: display.clone(),
                refresh: self.refresh,
                window,
            },
            PresentKind::Xr => Surface::Xr,
            PresentKind::Headless => Surface::Headless {
                output: self.output.clone().ok_or_else(|| missing(MISSING_FOLDER))?,
                every: self.every,
            },
            PresentKind::Null => Surface::Null,
        })
    }

    /// The shared clipboard, which is that of the window's display.
    pub(crate) fn shared_clipboard(&self) -> Option<OpenClipboard> {
        let open: OpenClipboard = match &self.present {
            PresentKind::X11 => {
                let display = self.display.clone()?;
                Arc::new(move |watch, most| {
                    Ok(Box::new(X11Clipboard::open(&display, watch, most)?))
                })
            }
            PresentKind::Wayland(display) => {
                let display = display.clone();
                Arc::new(move |watch, most| {
                    let opened = WaylandClipboard::open(display.as_deref(), watch, most)?;
                    Ok(Box::new(opened))
                })
            }
            // Only the displays of window systems have a clipboard.
            PresentKind::Kms(_) | PresentKind::Xr | PresentKind::Headless | PresentKind::Null => {
                return None;
            }
        };
        self.clipboard.then_some(open)
    }

    /// The mapping of head poses to input; `None` if they are sent as poses.
    pub(crate) fn motion_settings(&self) -> Option<MotionSettings> {
        self.motion_options().settings()
    }

    fn motion_options(&self) -> MotionOptions {
        MotionOptions {
            motion: self.motion,
            axes: self.motion_axes,
            gain: self.motion_gain,
            range: self.motion_range,
            dead_zone: self.motion_dead_zone,
        }
    }

    /// Whether this machine's game pads are sent.
    pub(crate) fn sends_pads(&self) -> bool {
        self.pads && !self.observe && self.input != Some(InputKind::None)
    }

    fn check_requirements(&self) -> Result<(), ConfigError> {
        let poses = self.head.0.as_deref();
        let poses = poses.and_then(|spec| spec.strip_prefix("script:"));
        check_distinct(&[
            ("input-script", self.input_script.as_deref()),
            ("head-pose", poses.map(Path::new)),
            ("pad-db", self.pad_db.as_deref()),
            ("csv", self.csv.as_deref()),
            ("sound", self.sound.strip_prefix("wav:").map(Path::new)),
        ])?;
        match (&self.portal, &self.application) {
            // The client only lists the portal's applications and sessions.
            (Some(_), None) => Ok(()),
            _ => self.surface().map(drop),
        }
    }

    /// How stereo pictures are presented on a display with this refresh rate, if it is known.
    pub(crate) fn eyes(&self, refresh: Option<f64>) -> StereoSettings {
        let usual = StereoSettings::default();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an f32 suffices for a few degrees"
        )]
        let overscan = self.overscan.to_radians() as f32;
        StereoSettings {
            view: self.view,
            reproject: self.reproject,
            overscan,
            draw_with: self.reproject_backend,
            rate: self.refresh.or(refresh).unwrap_or(usual.rate),
            ..usual
        }
    }

    /// The input source.
    pub(crate) fn input_spec(&self) -> InputSpec {
        match (&self.input, &self.input_script) {
            (None | Some(InputKind::Script), Some(file)) => InputSpec::Script(file.clone()),
            (Some(InputKind::Evdev(devices)), _) => InputSpec::Devices(devices.clone()),
            (Some(InputKind::Window), _) => InputSpec::Window,
            (None, None) if self.present.is_window() => InputSpec::Window,
            _ => InputSpec::Nothing,
        }
    }

    fn slices_contradiction(&self) -> Option<&'static str> {
        let stereo = StereoOptions {
            view: self.view,
            reproject: self.reproject,
            // Poses are not sent if they are mapped to input.
            has_head: self.head != HeadSpec(None) && self.motion == MotionKind::Off,
        };
        match self.present {
            _ if !self.present_slices => None,
            PresentKind::X11 | PresentKind::Kms(_) if stereo.draws() => Some(
                "--present-slices does not support stereo pictures: leave out --view, and use --reproject off",
            ),
            PresentKind::X11 => None,
            PresentKind::Kms(_) => self.tearing.then_some(
                "--tearing and --present-slices are mutually exclusive: slices are shown without waiting for a refresh",
            ),
            PresentKind::Wayland(_) => {
                Some("--present-slices requires --present x11 or kms: a Wayland compositor takes whole pictures")
            }
            _ => Some("--present-slices requires --present x11 or kms"),
        }
    }

    /// Checks the names of the backends, but not whether they work on this machine.
    fn check_sound(&self) -> Result<(), ConfigError> {
        let sound = playback_choice(&self.sound).and(microphone_choice(&self.microphone));
        sound.map(drop).map_err(ConfigError)
    }

    fn find_contradiction(&self) -> Result<(), ConfigError> {
        let (window, files) = (
            self.present.is_window(),
            self.present == PresentKind::Headless,
        );
        let scripted = self.input == Some(InputKind::Script);
        let pairs = self.pin.is_some() || self.pair_again;
        let words = match () {
            () if files && self.output.is_none() => MISSING_FOLDER,
            () if self.observe && (self.bitrate.is_some() || self.max_size.is_some()) => {
                "--bitrate and --max-size are for the player: an observer sees the player's picture"
            }
            () if self.portal.is_some() && (self.host.is_some() || pairs) => {
                "a portal selects the host and needs no PIN: leave out HOST, --pin and --pair-again, or --portal"
            }
            () if pairs && self.host.as_ref().is_some_and(|host| host.word.is_some()) => {
                "a portal's link needs no PIN: leave out --pin and --pair-again"
            }
            () if self.portal.is_some() && self.via_ap.is_some() => {
                "a portal selects the host, so --via-ap has no effect: use either --via-ap or --portal"
            }
            () if self.via_ap.is_none()
                && (self.ap_key_file.is_some() || self.ap_interface.is_some()) =>
            {
                "--ap-key-file and --ap-interface require --via-ap"
            }
            () if matches!(self.via_ap, Some(ViaAp::Credentials(_)))
                && self.ap_key_file.is_some() =>
            {
                "the text of a QR code contains the key: leave out --ap-key-file, or set --via-ap to the name of the \
                 network"
            }
            () if self.portal.is_none() && self.application.is_some() => {
                "--application requires --portal URL"
            }
            () if self.portal.is_none() && self.portal_fingerprint.is_some() => {
                "--portal-fingerprint requires --portal URL"
            }
            () if self.observe && self.take_over => {
                "--observe and --take-over are mutually exclusive: use one of them"
            }
            () if !window
                && (self.size.is_some()
                    || self.full_screen
                    || self.grab
                    || self.keys.is_some()
                    || self.overlay) =>
            {
                "--size, --full-screen, --grab, --key-mapping and --overlay require a window: use --present x11, \
                 wayland or kms"
            }
            () if !window && self.head == HeadSpec(Some("mouse".to_owned())) => {
                "--head-pose mouse requires a window: use --present x11, wayland or kms"
            }
            () if self.present == PresentKind::Xr && self.head != HeadSpec(None) => {
                "--present xr sends the headset's own pose: leave out --head-pose"
            }
            () if self.observe && self.head != HeadSpec(None) => {
                "--head-pose is for the player: an observer sees the player's view"
            }
            () if !files && (self.output.is_some() || self.every.is_some()) => {
                "--output and --every require --present headless"
            }
            () if !window && self.input == Some(InputKind::Window) => {
                "--input window requires a window: use --present x11, wayland or kms"
            }
            () if self.tearing
                && !matches!(self.present, PresentKind::Wayland(_) | PresentKind::Kms(_)) =>
            {
                "--tearing requires --present wayland or kms"
            }
            () if scripted && self.input_script.is_none() => {
                "--input script requires a file: use --input-script FILE"
            }
            () if !scripted && self.input.is_some() && self.input_script.is_some() => {
                "--input-script can only be combined with --input script: leave out --input"
            }
            () => {
                let motion = self.motion_options().contradiction(&self.head);
                match motion.or_else(|| self.slices_contradiction()) {
                    Some(words) => words,
                    None => return self.check_sound(),
                }
            }
        };
        Err(ConfigError(words.to_owned()))
    }
}
