//! What `openuvr host` can be told.

mod inside;
mod words;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command};
use openuvr_gateway::PublicAddress;
use openuvr_gateway::forwarded::{ProxyNetwork, WebOrigin};
use openuvr_gateway::ice::IceServer;
use openuvr_media::audio::opus;
use openuvr_media::encode::{self, Pixels};
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_proto::control::clipboard::ClipboardWays;
use openuvr_proto::control::ticket::{SessionUuid, TicketKey};
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::config::{BITRATES, Config, REFRESHES, USUAL_FPS, usual_bitrate};
use tracing::Level;

use super::kind::{
    Choice, LinkName, Pin, Realtime, Region, TableMode, WindowName, address, address_or, bitrate,
    choice, choices, cores, count, flag, ice_servers, number, optional, path, pin,
    public_addresses, region, size, text, ticket_key, time, uuid, web_origins, web_proxies, window,
};
use super::{
    Default, Effective, LONGEST_NAME, NO_DISPLAY, Refused, Setting, Settings, Surroundings, apart,
    command_words, settings,
};
use crate::scene::source::Submit;

pub(crate) use words::PadsKind;
pub use words::SourceKind;
pub(crate) use words::{EncoderName, RateMode};
use words::{InputKind, Rate, SoundFrame, Subpel};

settings! {
    /// The configuration of a host.
    HostConfig is "host" {
        about: "Stream this machine's X display, or a window of it, to clients";
        examples: "\
Examples:
  openuvr host                              the whole display; a new client needs the PIN shown
  openuvr host --window blender             one window, also while others cover it
  openuvr host --virtual 1920x1080 -- blender
                                            an application on a display of its own
  openuvr host --fps 120 --bitrate 80M      for a fast wired network
  openuvr host --pair                       let in one more device
  openuvr host --csv run.csv --for 60s      measure for a minute
  openuvr host --encoder x264,jpeg          JPEG for clients with --codec jpeg, H.264 for all others
  openuvr host --window blender --save      keep these settings in ~/.config/openuvr/host.toml

--FLAG=false turns a flag off, --OPTION '' unsets an option that was saved; of an option given twice
the last counts. --help says more on each than -h.";
        agree: HostConfig::contradiction;
        can_begin: HostConfig::finds_all;

        "What is shown" {
            /// Where pictures come from.
            /// `x11` is an X display; `pattern` is a moving test picture made by the host itself,
            /// for trying a link without an application; `clip` plays a file, for measurements
            /// that want the same pictures every time; `scene` is the room of `openuvr scene`,
            /// drawn by the host itself on its display and submitted without a capture.
            source: SourceKind = "source", choice(), Default::Is("x11");
            /// The X display.
            /// Captured if the source is x11, and where input goes to.
            display: Option<String> = "display", optional(text("DISPLAY", 255)),
                Default::From("$DISPLAY", |s| s.display.clone());
            /// Start a virtual display of this size, and stream it.
            /// In place of --display: an X server without a screen (Xvfb), for a machine without one, or to
            /// leave the one that is there alone. What stands behind `--` is started on it, and the host
            /// ends with it; else it is empty, for programs of this user that are told its name, which is
            /// printed. No window manager runs there unless you start one; see --place.
            virtual_display: Option<Size> = "virtual", optional(size()),
                Default::Unset("the display that is there");
            /// On a virtual display, an only window fills it.
            /// Dialogs and further windows lie centred over it, and the newest has the keyboard: for an
            /// application without a window manager. One that is started all the same must take over
            /// (`--replace`). Otherwise windows lie where applications put them.
            place: bool = "place", flag(), Default::Is("false");
            /// Give the display the size of the player's window.
            /// While somebody plays, by RandR: a mode of that size, or on a display without a monitor (Xvfb,
            /// the dummy driver) a new one, no larger than the server allows; a virtual display up to
            /// 3840x2160, or its own size. Applications see it as if a monitor had been changed. It gets
            /// its own size back when the player leaves, and at the end. Where that can't be, the picture
            /// is scaled, as it is without this.
            fit: bool = "fit", flag(), Default::Is("false");
            /// One window instead of the whole display.
            /// A part of its title or class in any case (of several, the largest window), or its
            /// id as xwininfo shows it. It is captured even while others cover it.
            window: Option<WindowName> = "window", optional(window()),
                Default::Unset("the whole display");
            /// A part of the display instead of the whole.
            /// Width, height, and the left and upper edge, in pixels.
            region: Option<Region> = "region", optional(region()),
                Default::Unset("the whole display");
            /// The size of the test picture or the scene.
            /// Only with these sources; a display and a window have a size of their own.
            size: Option<Size> = "size", optional(size()), Default::Unset("1280x720");
            /// The file that the source clip plays.
            /// YUV4MPEG2 with 4:2:0 frames of 8 bits (ffmpeg -i FILM -pix_fmt yuv420p FILE.y4m), to
            /// and fro without end, each frame with a bar code.
            clip: Option<PathBuf> = "clip", optional(path("FILE")), Default::Unset("");
            /// Most frames a second.
            /// A cap: a picture is taken when the application has drawn, never by the clock. Of
            /// pictures that come faster, the newest is sent. Up to 5 % more are let by, since the
            /// clocks of displays and games are not exact.
            fps: Option<f64> = "fps", optional(number(1.0..=240.0, "frames/s")),
                Default::Unset("60, or less on a slower display");
            /// Send the pointer's shape and place.
            /// The client draws it, so that it moves without waiting for a picture.
            cursor: bool = "cursor", flag(), Default::Is("true");
        }
        "Picture quality" {
            /// What encodes.
            /// `x264` is H.264 on the processor; `openh264` too, with a permissive licence and twice
            /// the time; `jpeg` takes half of x264's time and no harm from losses, but wants five times
            /// the network (54 Mbit/s for a game of 1280x720 at 60 frames/s). `h264_nvenc`, `h264_qsv`,
            /// `h264_v4l2m2m` and `h264_vaapi` are hardware, through libavcodec, which also has
            /// `libx264`, to compare. `raw` sends the pixels as they are (1.8 Gbit/s); `null` sends
            /// frames without pictures, to try a link. One that does not work here is an error. Several
            /// with commas between, such as x264,jpeg: a client gets the first that it can decode, and
            /// each runs only while a client takes it.
            encoders: Vec<EncoderName> = "encoder", choices(), Default::Is("x264");
            /// An encoder for each client.
            /// Without it all clients get the same frames, at the rate that the player's link carries.
            /// With it each link's rate and losses are its own, and every client costs an encoder; those
            /// of clients that only watch run behind the player's.
            each_its_own: bool = "each-its-own", flag(), Default::Is("false");
            /// Bits per second that the video takes at most.
            /// Repairs and headers included. With K, M or G for thousands, millions and billions.
            bitrate: Option<Bitrate> = "bitrate", optional(bitrate(BITRATES)),
                Default::Unset("20M; 60M with the encoder jpeg, 1G with raw");
            /// Whether the rate follows what the link carries.
            /// `adaptive`: down within a few frames when the link's queue grows or a tenth is lost,
            /// up again when there is room, never above --bitrate; `constant`: always --bitrate.
            rate: Rate = "rate", choice(), Default::Is("adaptive");
            /// The adaptive rate never goes below this.
            min_bitrate: Option<Bitrate> = "min-bitrate", optional(bitrate(BITRATES)),
                Default::Unset("500K, or --bitrate if that is less");
            /// Where the adaptive rate starts.
            start_bitrate: Option<Bitrate> = "start-bitrate", optional(bitrate(BITRATES)),
                Default::Unset("--bitrate");
            /// How a picture that was damaged by a loss is made clean again.
            /// `skip-back`: the next frame builds on the newest one that arrived whole, where the
            /// encoder can; else, and with `key-frame`, a whole new picture is sent, which is large.
            /// `refresh` (x264 only): each frame carries a column of 16 pixels of a new one, until all
            /// of it is new. Nothing becomes large, but 1280 pixels take 79 frames.
            recovery: Recovery = "recovery", choice(), Default::Is("skip-back");
            /// Refresh the picture all the time, all of it in so many frames.
            /// Also called periodic intra refresh. A loss is mended after one to two such times without
            /// anybody asking; the columns that are new in each frame cost quality. Only with
            /// `--recovery refresh`, which without it refreshes on demand.
            refresh_every: Option<u16> = "refresh-every", optional(count(REFRESHES, "frames")),
                Default::Unset("only on need");
            /// As what colours are encoded.
            /// `nv12`: brightness at each pixel, colour at each fourth. `yuv444`: both at each pixel,
            /// for text and drawings (x264, jpeg). `rgb444`: as they are, nothing is converted (x264,
            /// raw): on a processor that takes longer than the conversion that it saves.
            pixels: Option<Pixels> = "pixels", optional(choice()),
                Default::Unset("nv12; rgb444 with the encoder raw");
            /// Parts of a picture, each sent as soon as it is encoded.
            /// More let the client decode earlier, and cost some quality.
            slices: u8 = "slices", count(1..=64, "slices"), Default::Is("8");
            /// Threads of the encoder.
            /// Each encodes a band of the picture; the bands' slices leave in order.
            encoder_threads: Option<u8> = "encoder-threads", optional(count(1..=64, "threads")),
                Default::Unset("2; 1 on a single core, 4 from 8 cores on");
            /// Search motion to quarters of a pixel.
            /// Sharper moving pictures at the same bitrate, for about a millisecond at 1280x720.
            /// `auto`: up to that size; above, time is short.
            subpel: Subpel = "subpel", choice(), Default::Is("auto");
            /// Make every so many-th frame a key frame, wanted or not.
            /// The size of a group of pictures, for comparison; without it a key frame comes only
            /// when a client needs one.
            key_frame_every: Option<u32> = "key-frame-every",
                optional(count(1..=100_000, "frames")), Default::Unset("only on need");
            /// Who decides how many bits a picture gets.
            /// `own`: the host, before each picture, which costs no time; `cbr`: the encoder
            /// itself, which looks at the picture first, and keeps each within its share of the
            /// bitrate: for a narrow link.
            rate_mode: Option<RateMode> = "rate-mode", optional(choice()),
                Default::Unset("own; cbr where the encoder has no other");
            /// Improve the picture while nothing moves, until it is exact.
            top_up: bool = "top-up", flag(), Default::Is("true");
        }
        "Network and clients" {
            /// Where clients reach this host.
            /// `[::]` is every address of the machine, IPv4 included; with port 0 the system chooses.
            bind: SocketAddr = "bind", address(), Default::Is("[::]:4710");
            /// Let clients on this network find this host by multicast DNS.
            /// `openuvr hosts` and `openuvr client` without an address list it, with its name, what it
            /// shows, its key's fingerprint and whether pairing is open. Not a host that only this machine
            /// reaches, such as with --bind 127.0.0.1:4710, nor one with raw Ethernet alone.
            discoverable: bool = "discoverable", flag(), Default::Is("true");
            /// The only transport that will do.
            /// Without it each client gets the best that works, shown when it joins. `udp-gso` lets
            /// the kernel split batches, `udp` sends each datagram by itself. `raw` is Ethernet
            /// without IP, for clients on the same segment; it needs the capability CAP_NET_RAW, and
            /// nobody reaches this host by IP then. `raw-ring` is `raw` through mapped rings on this
            /// side, `xdp` through AF_XDP, if it was built in; that with several interfaces wants
            /// `--bind` with an address of the one that is meant.
            link: Option<LinkName> = "link", optional(choice()), Default::Unset("all that work");
            /// Let in a new device that knows this PIN.
            /// Opens pairing with a PIN of your choice. Other users of this machine may see it in
            /// the list of processes; `--pair` has no such problem.
            pin: Option<Pin> = "pin", optional(pin()), Default::Unset("a random one");
            /// Let in a new device with a random PIN, shown on the terminal.
            /// Without it, pairing opens only if no device is known yet.
            pair: bool = "pair", flag(), Default::Is("false");
            /// How long pairing stays open.
            pair_for: Duration = "pair-for", time(), Default::Is("2m");
            /// What a client gets who wants to play while another does.
            /// `refuse`: nothing; `observe`: it may watch; `take-over`: the player's role, and the
            /// other one watches.
            second_player: SecondPlayer = "second-player", choice(), Default::Is("observe");
            /// Most clients that only watch.
            max_observers: u16 = "max-observers", count(0..=64, "clients"), Default::Is("8");
            /// Where the players' keys and clicks go.
            /// `xtest` plays them into the X display, `none` ignores them.
            input: Option<InputKind> = "input", optional(choice()),
                Default::Unset("xtest; none without a display as source");
            /// Which ways clipboard text goes between the display and the player.
            /// `to-host`: what the player copies can be pasted here; `to-client`: what is copied here
            /// can be pasted at the player's; `both`; `off`: neither. Text up to 1 MB; it may be a
            /// password. Never to or from clients that only watch.
            clipboard: ClipboardWays = "clipboard", choice(), Default::Is("off");
            /// How the player's game pads reach the application.
            /// `auto`: for a game of `openuvr run` through a library in its process, with one pad that is
            /// there before a client is, otherwise through uinput if this user may write to /dev/uinput;
            /// `0` to `4`, for `openuvr run`: so many are there from the game's start, the others come and
            /// go; `uinput`: by it, or the host does not start; `off`: not at all.
            pads: PadsKind = "pads", choice(), Default::Is("auto");
            /// How the application reads keys, where a client's user does not choose.
            /// `symbol`: a key types at the host what it types at the client, whatever the layouts:
            /// for text. `position`: it is the key in the same place: for games, whose WASD is then
            /// ZQSD on a French keyboard.
            keys: Keys = "keys", choice(), Default::Is("symbol");
            /// This host's name at clients.
            name: String = "name", text("NAME", LONGEST_NAME),
                Default::From("this machine's name", Surroundings::machine_text);
            /// Folder of keys and known devices.
            config_dir: PathBuf = "config-dir", path("FOLDER"),
                Default::From("$XDG_CONFIG_HOME/openuvr or ~/.config/openuvr", Surroundings::config_dir_text);
        }
        "A portal" {
            /// Let in who shows a ticket of the portal with this key.
            /// Without a PIN, and without being listed by `openuvr devices`: for the session that
            /// --ticket-session names, in the role that the ticket says, as long as this host runs. Pairing
            /// by PIN is then open only with --pair or --pin.
            ticket_key: Option<TicketKey> = "ticket-key", optional(ticket_key()),
                Default::Unset("no tickets");
            /// Which session of the portal this is.
            ticket_session: Option<SessionUuid> = "ticket-session", optional(uuid()),
                Default::Unset("");
            /// End after so long without anybody connected and without renewal.
            /// The portal renews and stops it by HTTPS at the page's address (--web), with tokens that it
            /// signs with the key of --ticket-key. docs/security.md says more.
            lease: Option<Duration> = "lease", optional(time()), Default::Unset("no end of that kind");
            /// Answer only the portal at the address of --web: no page, no log-in.
            /// For a portal that serves the page itself and carries the signalling of its browsers; media goes
            /// between browser and host.
            portal_only: bool = "portal-only", flag(), Default::Is("false");
            /// Answer the portal at this Unix socket instead, and at no TCP port.
            /// For a portal on this machine. --web then names the address of media alone.
            portal_socket: Option<PathBuf> = "portal-socket", optional(path("SOCKET")), Default::Unset("");
        }
        "Browsers" {
            /// Let browsers in: a page by HTTPS, media by UDP on the same port.
            /// A browser plays or watches like a client: it pairs by PIN, is listed by `openuvr devices`,
            /// and gets the same H.264 as all others. Alone it means [::]:4711. docs/clients.md says what
            /// browsers can do.
            web: Option<SocketAddr> = "web", optional(address_or("[::]:4711")),
                Default::Unset("no browsers");
            /// The page's certificate: a chain in PEM form.
            /// Without it the host makes one for itself, and renews it. Browsers ask about it at the first visit:
            /// compare the fingerprint that the host shows, or let them trust it (`openuvr web-certificate`).
            web_cert: Option<PathBuf> = "web-cert", optional(path("FILE")),
                Default::Unset("one that the host makes");
            /// The key of that certificate, in PEM form.
            web_key: Option<PathBuf> = "web-key", optional(path("FILE")), Default::Unset("");
            /// Servers of STUN and TURN that the page asks for ways to this host.
            /// For browsers behind a network that lets no UDP through but to a relay: stun:HOST[:PORT],
            /// turn:USER:SECRET@HOST[:PORT][?transport=tcp], turns: for TLS, with commas between. The relay
            /// has to reach this host. Only pages that have logged in hear of them. Of those with stun: the host
            /// asks, too, where they see it, and tells pages so. Other users of the machine read command lines:
            /// name servers with a secret in the file of settings, or by web-ice-file.
            web_ice: Vec<IceServer> = "web-ice", ice_servers(), Default::Unset("the browser's own addresses");
            /// A file with such servers, one a line.
            /// They are added to those of web-ice. The file should be readable for this user alone.
            web_ice_file: Option<PathBuf> = "web-ice-file", optional(path("FILE")), Default::Unset("");
            /// Addresses that a translator gives this host, IP[:PORT].
            /// For a host behind a home router, or on a cloud machine with a private address: pages are told
            /// of them for media, and the person for the page. Without a port it is that of --web; the
            /// translator has to pass TCP and UDP on to there. With commas between. docs/clients.md says more.
            web_address: Vec<PublicAddress> = "web-address", public_addresses(), Default::Unset("the host's own addresses");
            /// Origins of the page behind a reverse proxy, https://NAME[:PORT].
            /// As the browser's address bar shows them. Without it only pages count whose name is the one that the
            /// request names (the header Host). With commas between. docs/clients.md has settings of nginx and Caddy.
            web_origin: Vec<WebOrigin> = "web-origin", web_origins(), Default::Unset("the host's own names");
            /// Addresses of reverse proxies in front of the page, IP[/BITS].
            /// Their header X-Forwarded-For counts: log-ins and wrong PINs are counted by the browser's own address.
            /// With commas between.
            web_proxy: Vec<ProxyNetwork> = "web-proxy", web_proxies(), Default::Unset("none");
        }
        "Video players" {
            /// Let video players watch, by RTSP: ffplay, mpv, VLC, GStreamer.
            /// They get the same H.264 as all others, and the sound, not encrypted. Alone it means [::]:8554.
            /// docs/clients.md has command lines of players that show it soon.
            rtsp: Option<SocketAddr> = "rtsp", optional(address_or("[::]:8554")),
                Default::Unset("no video players");
            /// What the URL must contain: 8 to 64 letters, digits, - and _.
            /// Whoever knows it may watch.
            rtsp_token: Option<String> = "rtsp-token", optional(text("TOKEN", 64)),
                Default::Unset("one that the host makes and keeps");
        }
        "Recording" {
            /// Record what is streamed into this file, a fragmented MP4.
            /// The same H.264 as all others get, and the sound: nothing is coded for it. It takes one of the
            /// places of --max-observers. The file is playable up to its last half second however the host
            /// ends. docs/clients.md says more.
            record: Option<PathBuf> = "record", optional(path("FILE")), Default::Unset("no recording");
            /// Replace the file of --record if it is there already.
            record_overwrite: bool = "record-overwrite", flag(), Default::Is("false");
        }
        "Sound" {
            /// What clients hear.
            /// `auto`: what this machine plays on its default sink, by PulseAudio or PipeWire, if one runs, also
            /// when another sink becomes the default; with `openuvr run` what the game plays, which is then heard at the clients alone. `off`: nothing; `pulse:NAME`: what goes to that sink, or comes from that source (`pactl list short`);
            /// `tone:440`: a test tone.
            sound: String = "sound", text("SOURCE", 255), Default::Is("auto");
            /// Where the player's microphone is heard.
            /// `off`: nowhere, and it is not sent; `on`: at a source of its own, which applications record from
            /// (with `openuvr run` and `--virtual` without further ado); `pulse:SINK`: it is played there.
            microphone: String = "microphone", text("SINK", 255), Default::Is("off");
            /// How long a packet of sound is, in milliseconds.
            /// Shorter ones arrive earlier and cost more: 2.5 ms about twice what 10 ms do.
            sound_frame: SoundFrame = "sound-frame", choice(), Default::Is("5");
            /// Bits per second of sound.
            /// Headers come on top, and repetitions where the link loses.
            sound_bitrate: Bitrate = "sound-bitrate", bitrate(SOUND_BITRATES), Default::Is("128k");
        }
        "Measuring and running" {
            /// Write a row for each frame and client.
            /// When each stage happened, in nanoseconds, what the frame cost and how it ended.
            csv: Option<PathBuf> = "csv", optional(path("FILE")), Default::Unset("");
            /// Write a trace for ui.perfetto.dev.
            trace: Option<PathBuf> = "trace", optional(path("FILE")), Default::Unset("");
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
            /// As many as the encoder has threads, or more; the application should be elsewhere.
            pin_cores: BTreeSet<usize> = "pin-cores", cores(), Default::Is("off");
            /// How much is logged.
            log: Level = "log", choice(), Default::Is("info");
        }
        "For experiments" {
            /// Whether the scene waits for the host.
            /// `free`: it draws on, and the newest picture is sent; `lock-step`: it draws the next
            /// when the last one is encoded and sent. Only with the source scene.
            submit: Option<Submit> = "submit", optional(choice()), Default::Unset("free");
            /// Frames a second of the scene.
            /// Only with the source scene, whose pictures --fps does not hold back.
            scene_fps: Option<f64> = "scene-fps", optional(number(0.1..=1000.0, "frames/s")),
                Default::Unset("60");
        }
    }
}

/// The test picture's size if none is given: the smallest that is called HD.
const PATTERN: Size = Size::new(1280, 720);

/// What Opus is of use with for two channels.
const SOUND_BITRATES: RangeInclusive<Bitrate> =
    Bitrate(*opus::BITRATES.start())..=Bitrate(*opus::BITRATES.end());

/// What is captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// All of the display.
    Display,
    /// One window.
    Window(WindowName),
    /// A part of the display.
    Region(Region),
    /// The test pattern of this size.
    Pattern(Size),
    /// This file.
    Clip(PathBuf),
    /// The scene, of this size.
    Scene(Size),
}

impl HostConfig {
    /// The subcommand with all flags and the application.
    pub(crate) fn command() -> Command {
        let command = <HostConfig as Settings>::command();
        let command = command
            .override_usage("openuvr host [OPTIONS] [-- APP [ARGS]...]  (APP with --virtual)");
        let help = "The program to start on the virtual display, with its arguments";
        command.arg(command_words::arg("APP", help).last(true))
    }

    /// The configuration, and the application with its arguments; no words if none is to be started.
    ///
    /// # Errors
    /// See [`Settings::from_matches`]; an application without a virtual display.
    pub(crate) fn with_application(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<HostConfig>, Vec<OsString>)> {
        let words = command_words::given(matches);
        let effective = HostConfig::from_matches(matches)?;
        if !words.is_empty() && effective.config.virtual_display.is_none() {
            let why = "an application is started on a virtual display: give --virtual 1920x1080, or start \
                       it with `openuvr run`";
            return Err(Refused(why.to_owned()).into());
        }
        Ok((effective, words))
    }

    /// What is captured.
    pub(crate) fn subject(&self) -> Subject {
        match (self.source, &self.window, self.region) {
            (SourceKind::Pattern, ..) => Subject::Pattern(self.size.unwrap_or(PATTERN)),
            (SourceKind::Clip, ..) => Subject::Clip(self.clip.clone().unwrap_or_default()),
            (SourceKind::Scene, ..) => Subject::Scene(self.size.unwrap_or(PATTERN)),
            (SourceKind::X11, Some(window), _) => Subject::Window(window.clone()),
            (SourceKind::X11, None, Some(region)) => Subject::Region(region),
            (SourceKind::X11, None, None) => Subject::Display,
        }
    }

    /// Bits per second that the video aims at; of several encoders the least.
    pub(crate) fn bitrate(&self) -> Bitrate {
        let usual = self.encoders.iter().map(|name| usual_bitrate(name.0));
        self.bitrate.or(usual.min()).unwrap_or_default()
    }

    /// A bitrate as the setting takes it.
    ///
    /// # Errors
    /// What is allowed.
    pub(crate) fn read_bitrate(text: &str) -> Result<Bitrate, Refused> {
        let kind = bitrate(BITRATES);
        let refused = || Refused(format!("{text:?} must be {}", kind.allowed));
        (kind.parse)(text).ok_or_else(refused)
    }

    /// Whether input goes to the display (or nowhere).
    pub(crate) fn injects(&self) -> bool {
        match self.input {
            Some(input) => input == InputKind::Xtest,
            None => !matches!(self.source, SourceKind::Pattern | SourceKind::Clip),
        }
    }

    fn contradiction(&self) -> Result<(), Refused> {
        let x11 = self.source == SourceKind::X11;
        let clip = self.source == SourceKind::Clip;
        let scene = self.source == SourceKind::Scene;
        let words = match () {
            () if self.window.is_some() && self.region.is_some() => {
                "window and region exclude each other: give one of them"
            }
            () if !x11 && (self.window.is_some() || self.region.is_some()) => {
                "window and region are parts of a display: they need the source x11"
            }
            () if clip != self.clip.is_some() => {
                "the source clip and a file to play belong together: --source clip --clip FILE"
            }
            () if (x11 || clip) && self.size.is_some() => {
                "size is that of the test picture or the scene: it needs the source pattern or scene"
            }
            () if !x11 && self.virtual_display.is_some() => {
                "virtual brings an X display: it needs the source x11"
            }
            () if self.fit && self.subject() != Subject::Display => {
                "fit changes the size of the whole display: not with window, region or another source"
            }
            () if matches!(self.pads, PadsKind::Seats(_)) => {
                "pads that are there from the start are for a game of openuvr run: auto, uinput or off"
            }
            () if !scene && (self.submit.is_some() || self.scene_fps.is_some()) => {
                "submit and scene-fps belong to the scene: they need the source scene"
            }
            () => {
                self.gateways_agree()?;
                return self.encoding_agrees();
            }
        };
        Err(Refused(words.to_owned()))
    }

    /// Refuses what contradicts itself in what lets others than our own clients in.
    pub(super) fn gateways_agree(&self) -> Result<(), Refused> {
        let words = match () {
            () if self.ticket_key.is_some() != self.ticket_session.is_some() => {
                "ticket-key and ticket-session belong together: give both"
            }
            () if self.lease.is_some() && (self.ticket_key.is_none() || self.web.is_none()) => {
                "a portal renews a lease by the page: lease needs web, ticket-key and ticket-session"
            }
            () if (self.portal_only || self.portal_socket.is_some()) && self.lease.is_none() => {
                "portal-only and portal-socket are for a session of a portal: they need lease"
            }
            () if self.web_cert.is_some() != self.web_key.is_some() => {
                "web-cert and web-key belong together: give both"
            }
            () if self.web.is_none() && self.web_cert.is_some() => {
                "web-cert and web-key are the page's: they need web"
            }
            () if self.web.is_none() && !self.web_ice.is_empty() => {
                "web-ice is for browsers: it needs web"
            }
            () if self.web.is_none() && self.web_ice_file.is_some() => {
                "web-ice-file is for browsers: it needs web"
            }
            () if self.web.is_none() && !self.web_address.is_empty() => {
                "web-address is for browsers: it needs web"
            }
            () if self.web.is_none()
                && !(self.web_origin.is_empty() && self.web_proxy.is_empty()) =>
            {
                "web-origin and web-proxy are about the page: they need web"
            }
            () if self.record.is_none() && self.record_overwrite => {
                "record-overwrite is about the file of a recording: it needs record"
            }
            () if self.rtsp.is_none() && self.rtsp_token.is_some() => {
                "rtsp-token is of the URL for video players: it needs rtsp"
            }
            () => return Ok(()),
        };
        Err(Refused(words.to_owned()))
    }

    fn finds_all(&self) -> Result<(), Refused> {
        self.files_are_apart()?;
        let shown = matches!(self.source, SourceKind::X11 | SourceKind::Scene);
        let display = self.display.is_some() || self.virtual_display.is_some();
        if (shown || self.injects()) && !display {
            return Err(Refused(NO_DISPLAY.to_owned()));
        }
        Ok(())
    }

    /// Refuses records that would overwrite each other, or the clip.
    pub(super) fn files_are_apart(&self) -> Result<(), Refused> {
        apart(&[
            ("clip", self.clip.as_deref()),
            ("csv", self.csv.as_deref()),
            ("record", self.record.as_deref()),
            ("trace", self.trace.as_deref()),
        ])
    }

    /// Refuses what contradicts itself in how pictures are encoded.
    pub(super) fn encoding_agrees(&self) -> Result<(), Refused> {
        let above = |rate: Option<Bitrate>| rate.is_some_and(|rate| rate > self.bitrate());
        let (min, start) = (self.min_bitrate, self.start_bitrate);
        let refresh = self.recovery == Recovery::Refresh;
        let names: Vec<&str> = self.encoders.iter().map(|name| name.0).collect();
        let backends = encode::find_all(&names).map_err(|e| Refused(format!("encoder: {e}")))?;
        let words = match () {
            () if self.rate == Rate::Constant && (min.is_some() || start.is_some()) => {
                "min-bitrate and start-bitrate are for a rate that varies: they need rate adaptive"
            }
            () if above(min) || above(start) => {
                "min-bitrate and start-bitrate must not be above bitrate"
            }
            () if refresh && !backends.iter().all(|backend| backend.refreshes) => {
                "this encoder can't refresh a picture part by part: choose x264, or another recovery"
            }
            () if !refresh && self.refresh_every.is_some() => {
                "refresh-every is how often a picture is refreshed: it needs recovery refresh"
            }
            () => return Ok(()),
        };
        Err(Refused(words.to_owned()))
    }
}

impl From<&HostConfig> for Config {
    fn from(config: &HostConfig) -> Config {
        Config {
            name: config.name.clone(),
            bind: config.bind,
            link: config.link.map(|link| link.0.name().to_owned()),
            config_dir: Some(config.config_dir.clone()),
            pin: config.pin.as_ref().map(|pin| pin.digits().to_owned()),
            pair: config.pair,
            pair_for: u32::try_from(config.pair_for.as_secs()).unwrap_or(u32::MAX),
            ticket_key: config.ticket_key.map(|key| key.to_string()),
            ticket_session: config.ticket_session.map(|session| session.to_string()),
            second_player: config.second_player.word().to_owned(),
            max_observers: config.max_observers,
            keys: config.keys.name().to_owned(),
            clipboard: config.clipboard.word().to_owned(),
            // A game is told where by its environment.
            pads_folder: None,
            gateway: None,
            seats: SeatSockets::default(),
            encoders: (config.encoders.iter().map(|name| name.0.to_owned())).collect(),
            each_its_own: config.each_its_own,
            slices: config.slices,
            encoder_threads: config.encoder_threads,
            subpel: config.subpel.wanted(),
            pixels: config.pixels.map(|pixels| pixels.name().to_owned()),
            cbr: config.rate_mode.map(|mode| mode == RateMode::Cbr),
            fps: config.fps.unwrap_or(USUAL_FPS),
            // A pattern, a clip and the scene come by the clock.
            follows_display: config.fps.is_none()
                && !matches!(
                    config.subject(),
                    Subject::Pattern(_) | Subject::Clip(_) | Subject::Scene(_)
                ),
            bitrate: config.bitrate.map(|rate| rate.0),
            min_bitrate: config.min_bitrate.map(|rate| rate.0),
            start_bitrate: config.start_bitrate.map(|rate| rate.0),
            adaptive: config.rate == Rate::Adaptive,
            recovery: config.recovery.word().to_owned(),
            refresh_every: config.refresh_every,
            top_up: config.top_up,
            key_frame_every: config.key_frame_every,
            cursor: config.cursor,
            sound: config.sound.clone(),
            microphone: config.microphone.clone(),
            given: None,
            sound_frame: config.sound_frame.0,
            sound_bitrate: config.sound_bitrate.0,
            realtime: config.realtime == Realtime::Auto,
            pin_cores: config.pin_cores.clone(),
            // The program writes it, with the table.
            csv: None,
        }
    }
}
