//! Settings of `openuvr host`.

mod choices;
mod in_process;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Command};
use openuvr_gateway_settings::{IceServer, ProxyNetwork, PublicAddress, WebOrigin};
use openuvr_media::audio::opus;
use openuvr_media::codec::Codec;
use openuvr_media::encode::{self, Chroma, EncoderOptions, automatic};
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_proto::control::clipboard::ClipboardDirections;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::{SessionUuid, TicketKey};
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::config::{
    BITRATES, Config, DEFAULT_FPS, RATES, REFRESHES, default_bitrate,
};
use openuvr_runtime::host::{EncoderName, SoundCodec};
use openuvr_runtime::sound_choice::SoundChoice;
use openuvr_scene::source::Submit;
use tracing::Level;

use super::kind::{
    LinkName, Realtime, Region, TableMode, WindowName, address, address_or, bitrate, choice, cores,
    count, encoder_options, encoders, flag, ice_servers, list, number, optional, path, pin,
    public_addresses, region, rtsp_token, seconds, size, sound, text, ticket_key, time, uuid,
    web_origins, web_proxies, window,
};
use super::{
    ConfigError, Default, Effective, Environment, LONGEST_NAME, NO_DISPLAY, NO_WAYLAND_DISPLAY,
    Setting, Settings, app_args, check_distinct, settings,
};

pub(crate) use choices::PadsKind;
pub use choices::SourceKind;
use choices::{DisplayKind, InputKind, Rate, SoundFrame, Subpel};
pub(crate) use choices::{RateMode, WebRateControl};

settings! {
    /// The configuration of a host.
    HostConfig is "host" {
        about: "Stream a display, a window or a virtual display to clients";
        examples: "\
Examples:
  openuvr host                              the whole display; new clients pair with the PIN shown
  openuvr host --window blender             one window, even while others cover it
  openuvr host --virtual 1920x1080 -- blender
                                            an application on a virtual display
  openuvr host --fps 120 --bitrate 80M      for a fast wired network
  openuvr host --pair                       pair another device
  openuvr host --csv run.csv --duration 60s      measure for one minute
  openuvr host --encoder x264,jpeg          JPEG for clients with --codec jpeg, H.264 for all others
  openuvr host --web --encoder libvpx-vp9,x264
                                            VP9 for browsers, H.264 for all others
  openuvr host --window blender --save      keep these settings in ~/.config/openuvr/host.toml

--FLAG=false disables a flag, --OPTION '' unsets a saved option. If an option is repeated, the last
one applies; encoder options add up. -h prints short help, --help the full help.";
        check_consistency: HostConfig::find_contradiction;
        check_environment: HostConfig::check_requirements;

        "Video source" {
            /// Picture source.
            /// `x11`: an X display. `wayland`: the session of a Wayland compositor, such as sway. `portal`: a screen
            /// that GNOME, KDE or another desktop shares through its portal; the user chooses the screen in a dialog.
            /// `pattern`: a moving test pattern, to test a link without an application. `clip`: a video file, for
            /// measurements with reproducible pictures. `scene`: the scene of `openuvr scene`, which the host renders
            /// on its display and submits without capture. `--display`, `--window`, `--region`, `--virtual` and `--fit`
            /// select `x11` if this option is not set.
            source: Option<SourceKind> = "source", optional(choice()),
                Default::Unset("x11; in a Wayland session: wayland, or portal if the compositor permits no capture");
            /// X display.
            /// The host captures this display with --source x11, and injects input into it.
            display: Option<String> = "display", optional(text("DISPLAY", 255)),
                Default::From("$DISPLAY", |s| s.display.clone());
            /// Wayland display, by name or the path of its socket.
            /// With --source wayland, the host captures this display and sends input to it.
            wayland_display: Option<String> = "wayland-display", optional(text("DISPLAY", 255)),
                Default::UnlessGiven(["display", "source"], &Default::From("$WAYLAND_DISPLAY", |s| s.wayland.clone()));
            /// Output of the Wayland display, such as DP-1.
            output: Option<String> = "output", optional(text("NAME", 255)),
                Default::Unset("the first output");
            /// Start a virtual display of this size and stream it.
            /// Use it instead of --display on a headless machine, or to leave an existing display untouched. By
            /// default, the virtual display is an X server without a screen (Xvfb). The host starts the command after
            /// `--` on this display, and ends when the command ends; if the command is a launcher, the host waits until
            /// the launched program has no window. Without a command, the display is empty; the host prints the
            /// display's name, so that programs of the same user can open it. No window manager runs on the display
            /// unless you start one; see --place.
            virtual_display: Option<Size> = "virtual", optional(size()),
                Default::Unset("use the existing display");
            /// The kind of the virtual display.
            /// `xvfb`: an X server, for X11 applications. `wayland`: OpenUVR's own compositor, for Wayland
            /// applications. It places windows as with --place, and needs no other program for input and the clipboard.
            virtual_with: DisplayKind = "virtual-with", choice(), Default::Is("xvfb");
            /// Place windows on the virtual display: the first one fills it.
            /// Dialogs and other windows are centred over the first window, and the newest window has the keyboard
            /// focus. The host is then the display's window manager: start no other one, unless it can replace the host
            /// (`openbox --replace`). Without this option, windows stay where applications put them.
            place: bool = "place", flag(), Default::Is("false");
            /// Resize the display to the player's window.
            /// While a player is connected, the display has the size of the player's window. On an X display, a mode of
            /// this size is set with RandR; if the display has no monitor (Xvfb, the dummy driver), a new mode is added
            /// within the server's limits. A virtual X display grows up to 3840x2160, or to its initial size if that is
            /// larger; a virtual Wayland display changes its size without RandR, up to 4096x4096. Applications see a
            /// monitor change. The original size is restored when the player leaves and when the host ends. If the
            /// display cannot be resized, the picture is scaled, as without this option. A Moonlight client requests a
            /// mode with a size and a rate: an X display gets both (a virtual one grows up to 4096x4096), and a virtual
            /// Wayland display gets only the size.
            fit: Option<bool> = "fit", optional(flag()),
                Default::Unset("true with --virtual and --moonlight but without --window or --region; otherwise false");
            /// Capture one window instead of the whole display.
            /// Select it by a part of its title or class, ignoring case, or by its id as printed by xwininfo. If
            /// several windows match, the largest is captured. The window is captured even while others cover it. With
            /// --source wayland, use a part of its title or application id. The compositor must support
            /// ext-image-copy-capture, and `--input none` is required, since the positions of Wayland windows are
            /// unknown.
            window: Option<WindowName> = "window", optional(window()),
                Default::Unset("the whole display");
            /// Capture a region instead of the whole display.
            /// Width, height, left edge and top edge, in pixels.
            region: Option<Region> = "region", optional(region()),
                Default::Unset("the whole display");
            /// Size of the test pattern or the scene.
            /// Only with --source pattern or --source scene; displays and windows have their own size.
            size: Option<Size> = "size", optional(size()), Default::Unset("1280x720");
            /// File played by --source clip.
            /// The format is YUV4MPEG2 with 8-bit 4:2:0 frames (ffmpeg -i FILM -pix_fmt yuv420p FILE.y4m). The host
            /// plays the file forwards and backwards in a loop. Each frame carries a bar code.
            clip: Option<PathBuf> = "clip", optional(path("FILE")), Default::Unset("");
            /// Maximum frame rate.
            /// A frame is captured when the application has drawn, not on a timer. If the application draws faster than
            /// this rate, the host skips frames and sends the newest one. The actual rate may exceed this maximum by up
            /// to 5 %, since the clocks of displays and games are not exact. Moonlight clients choose their own rate,
            /// up to this maximum or, without this option, up to 240 frames/s.
            fps: Option<f64> = "fps", optional(number(1.0..=240.0, "frames/s")),
                Default::Unset("60, or less on a slower display");
            /// Repeat the picture at the stream's frame rate while nothing changes.
            /// By default, the host sends only a few frames while nothing changes: the frames of static refinement, and
            /// repeated pictures for the receivers that need them (two per second for video players and recordings,
            /// five per second for Moonlight clients). Some video players, editors and measurements need a constant
            /// frame rate. With H.264, a repeated picture takes a few hundred bytes; with jpeg and raw, it takes as
            /// many bytes as the picture itself. The column `repeats` of --csv marks repetitions.
            constant_frame_rate: bool = "constant-frame-rate", flag(), Default::Is("false");
            /// Send the pointer's shape and position.
            /// The client draws the pointer, so that it moves without waiting for a frame.
            cursor: bool = "cursor", flag(), Default::Is("true");
        }
        "Picture quality" {
            /// Video encoder.
            /// `x264`: H.264 on the CPU. `openh264`: H.264 on the CPU with a permissive licence, at twice the encoding
            /// time of x264. `jpeg`: half the encoding time of x264 and no error propagation, at five times the bitrate
            /// (54 Mbit/s for a game of 1280x720 at 60 frames/s). `h264_` and `hevc_` followed by `nvenc`, `qsv`,
            /// `vaapi`, `amf`, `vulkan` or `v4l2m2m`: hardware encoders through libavcodec (unverified on hardware, see
            /// docs/hardware.md). `auto`: the first hardware encoder of H.264 that works on this machine, otherwise
            /// x264, or openh264 if libx264 is missing. `libx264` and `libx265`: x264 and x265 through libavcodec, for
            /// comparison. Every other H.264 or HEVC encoder of the installed libavcodec can also be selected, by its
            /// name. `libvpx-vp9`: VP9 on the CPU, only for browsers (`--web`); with `libvpx-vp9,x264`, all other
            /// clients get H.264. Video players receive H.264 only. `raw`: uncompressed pixels (1.8 Gbit/s for 1280x720
            /// at 60 frames/s). `null`: frames without pictures, to test a link. An unavailable encoder is an error. If
            /// a hardware encoder of H.264 fails during the stream, x264 replaces it, or openh264 if x264 can't be
            /// opened. With several encoders, such as x264,jpeg, each client gets the stream of the first encoder whose
            /// codec it can decode; each encoder runs only while a client uses it.
            encoders: Vec<EncoderName> = "encoder", encoders(), Default::Is("x264");
            /// Option of the encoder's library; may be repeated.
            /// NAME is the option's name in that library. For x264: `preset`, `tune`, and every parameter in the full
            /// help of the program x264, such as `ref`, `me` or `merange`; if `preset` is given, --subpel has no
            /// effect. For an encoder of libavcodec: every option of `ffmpeg -h encoder=NAME`. For VA-API and Vulkan
            /// encoders, `device` selects the device (`device=/dev/dri/renderD129`). The host refuses to start if an
            /// option is unknown, has a wrong value, would delay pictures, or is set by the host itself. In a settings
            /// file, the options are a table, which these flags replace as a whole.
            encoder_options: EncoderOptions = "encoder-option", encoder_options(), Default::Unset("none");
            /// Run one encoder per client.
            /// By default, all clients get the same frames, at the rate of the player's link. With this option, each
            /// client has its own rate and loss recovery, at the cost of one encoder per client. The player's encoder
            /// has priority over the encoders for observers.
            encoder_per_client: bool = "encoder-per-client", flag(), Default::Is("false");
            /// Maximum video bitrate, in bits per second.
            /// The limit includes repair and header overhead. Suffixes: K (thousand), M (million), G (billion).
            bitrate: Option<Bitrate> = "bitrate", optional(bitrate(BITRATES)),
                Default::Unset("20M; 60M with --encoder jpeg, 1G with --encoder raw");
            /// Congestion control.
            /// `adaptive`: the bitrate drops within a few frames when the link's queue grows. It also drops when the
            /// loss, measured over 200 datagrams or more, is clearly above 15 %. It rises again, up to --bitrate, when
            /// the link has spare capacity. `constant`: the bitrate is always --bitrate.
            rate: Rate = "rate", choice(), Default::Is("adaptive");
            /// Use of L4S, the low-latency service of some networks (RFC 9330).
            /// `auto`: over UDP, the player's packets request L4S in their ECN field. L4S queues then mark packets, and
            /// the bitrate follows the marks before a long queue forms. If the network overwrites the field, the host
            /// stops requesting L4S. `on`, for measurements: as `auto`, but the host continues to request L4S even if
            /// the network overwrites the field. `off`: the host never requests L4S. L4S requires `--rate adaptive`,
            /// and a client that reports the marks.
            l4s: L4sMode = "l4s", choice(), Default::Is("off");
            /// Minimum of the adaptive bitrate.
            min_bitrate: Option<Bitrate> = "min-bitrate", optional(bitrate(BITRATES)),
                Default::Unset("500K, or --bitrate if that is less");
            /// Initial adaptive bitrate.
            start_bitrate: Option<Bitrate> = "start-bitrate", optional(bitrate(BITRATES)),
                Default::Unset("--bitrate");
            /// Recovery of pictures damaged by packet loss.
            /// `reference-invalidation`: the next frame refers to the newest frame that arrived complete; an encoder
            /// that does not support this sends a key frame. `key-frame`: the host sends a key frame, which is large.
            /// `intra-refresh` (x264 only): one macroblock column (16 pixels) per frame is intra-coded until the whole
            /// picture is refreshed. No frame becomes large, but refreshing a picture 1280 pixels wide takes 79 frames.
            /// `none`, for comparisons: the host neither sends FEC nor repairs losses; a picture stays damaged until the
            /// next key frame of `--key-frame-interval`.
            recovery: Recovery = "recovery", choice(), Default::Is("reference-invalidation");
            /// Period of continuous intra refresh, in frames.
            /// Periodic intra refresh repairs a loss within one to two periods, without feedback, but the refreshed
            /// columns cost quality. It requires `--recovery intra-refresh`. Without this option, pictures are
            /// refreshed only on demand.
            refresh_interval: Option<u16> = "refresh-interval", optional(count(REFRESHES, "frames")),
                Default::Unset("on demand");
            /// Pixel format: chroma subsampling and colour space.
            /// `420`: 4:2:0. `444`: 4:4:4, for text and drawings (x264, jpeg). `rgb`: RGB without colour conversion
            /// (x264, raw); on a CPU, the slower encoding costs more time than the omitted conversion saves.
            pixels: Option<Chroma> = "chroma", optional(choice()),
                Default::Unset("420; rgb with --encoder raw");
            /// Slices per frame.
            /// More slices let the client decode earlier, at some cost in quality. x264 and jpeg send a slice as soon
            /// as this slice and all slices above it are encoded. openh264 sends the slices of a frame together.
            /// libavcodec's encoders make one slice.
            slices: u8 = "slices", count(1..=64, "slices"), Default::Is("8");
            /// Encoder threads.
            /// Each thread encodes a band of the picture; the slices of the bands are sent in order.
            encoder_threads: Option<u8> = "encoder-threads", optional(count(1..=64, "threads")),
                Default::Unset("2; 1 on a single core, 4 with 8 or more cores");
            /// Quarter-pixel motion search.
            /// It makes motion sharper at the same bitrate, and costs about 0.5 ms per frame at 1280x720.
            /// `auto`: use it only for pictures up to 1280x720.
            subpel: Subpel = "subpel", choice(), Default::Is("auto");
            /// Key-frame interval (GOP size).
            /// For recordings and comparisons; by default, a key frame is sent only when a client needs one.
            key_frame_interval: Option<u32> = "key-frame-interval",
                optional(count(1..=100_000, "frames")), Default::Unset("on demand");
            /// Rate control.
            /// `own`: the host sets the quantiser before each frame, without added latency. `cbr`, for narrow links:
            /// the encoder first analyses each frame, and then keeps its size within one frame's share of the bitrate.
            rate_control: Option<RateMode> = "rate-control", optional(choice()),
                Default::Unset("own; cbr if the encoder supports only cbr");
            /// Static refinement: improve a still picture until it is nearly exact.
            static_refinement: bool = "static-refinement", flag(), Default::Is("true");
        }
        "Network and clients" {
            /// Listen address for clients.
            /// `[::]` means all addresses of the machine, including IPv4. With port 0, the system chooses a port.
            bind: SocketAddr = "bind", address(), Default::Is("[::]:4710");
            /// Announce this host on the local network through multicast DNS.
            /// `openuvr hosts`, and `openuvr client` without an address, list the host's name, address, key fingerprint
            /// and pairing state, and the streamed application. A host is not announced if only this machine can reach
            /// it (as with --bind 127.0.0.1:4710) or if it uses only raw Ethernet.
            discoverable: bool = "discoverable", flag(), Default::Is("true");
            /// Force a transport.
            /// By default, each client gets the best transport that works; the host reports it when the client joins.
            /// `udp-gso`: UDP with segmentation offload. `udp`: UDP, each datagram separately. `raw`: Ethernet without
            /// IP, for clients on the same segment; it needs the capability CAP_NET_RAW, and the host is then
            /// unreachable over IP. `raw-ring`: `raw` through memory-mapped rings at the host. `xdp`: `raw` through
            /// AF_XDP, if built in; with several interfaces, it needs `--bind` with an address of the interface to use.
            link: Option<LinkName> = "link", optional(choice()), Default::Unset("all available transports");
            /// Open pairing with this PIN.
            /// Other users of this machine may see it in the process list; `--pair` avoids that.
            pin: Option<Pin> = "pin", optional(pin()), Default::Unset("a random PIN when pairing opens");
            /// Open pairing with a random PIN, shown on the terminal.
            /// By default, pairing opens only if no device is paired yet.
            pair: bool = "pair", flag(), Default::Is("false");
            /// Time for which pairing stays open.
            pairing_timeout: Duration = "pairing-timeout", seconds(), Default::Is("2m");
            /// Policy for a second player.
            /// `refuse`: reject it. `observe`: admit it as an observer. `take-over`: as `observe`, unless it requests a
            /// take-over. In that case, give it the player's role, and make the previous player an observer (or
            /// disconnect the previous player if --max-observers is reached).
            second_player: SecondPlayer = "second-player", choice(), Default::Is("observe");
            /// Maximum number of observers.
            max_observers: u16 = "max-observers", count(0..=64, "clients"), Default::Is("8");
            /// Target of the player's keyboard and mouse input.
            /// `xtest`: input goes to the display (through XTEST on X11). `none`: input is ignored.
            input: Option<InputKind> = "input", optional(choice()),
                Default::Unset("xtest; none with --source pattern or --source clip");
            /// Directions of clipboard sharing with the player.
            /// `to-host`: text copied at the player can be pasted at the host. `to-client`: text copied at the host can
            /// be pasted at the player. `both`: both directions. `off`: neither. Only text of up to 1 MB is shared;
            /// copied passwords are shared, too. Observers never share the clipboard.
            clipboard: ClipboardDirections = "clipboard", choice(), Default::Is("off");
            /// Game pads of the player.
            /// `auto`: with `openuvr run`, a library in the game's process emulates the pads, and one pad is present
            /// from the start. With `openuvr host`, uinput emulates the pads if this user may write to /dev/uinput;
            /// otherwise, there are no pads. `0` to `4` (only with `openuvr run`): this number of pads is present from
            /// the start; further pads are hot-plugged. `uinput` (only with `openuvr host`): uinput emulates the pads;
            /// if uinput fails, the host does not start. `off`: no pads.
            pads: PadsKind = "pads", choice(), Default::Is("auto");
            /// Key mapping, unless the client selects one.
            /// `symbol`, for text: a key types the same symbol as at the client, whatever the layouts. `position`, for
            /// games: a key keeps its physical position, so that WASD is ZQSD on a French keyboard.
            keys: Keys = "key-mapping", choice(), Default::Is("symbol");
            /// Name of this host, as shown at clients.
            name: String = "name", text("NAME", LONGEST_NAME),
                Default::From("this machine's name", Environment::machine_text);
            /// Folder for keys and paired devices.
            config_dir: PathBuf = "config-dir", path("FOLDER"),
                Default::From("$XDG_CONFIG_HOME/openuvr or ~/.config/openuvr", Environment::config_dir_text);
        }
        "Portal" {
            /// Public key of the portal whose tickets admit clients.
            /// Clients with a ticket need no PIN and are not listed by `openuvr devices`. A ticket admits one device to
            /// the session of --ticket-session, and names the highest role that the device may have. The device stays
            /// admitted while this host runs, even after the ticket has expired. With this option, pairing with a PIN
            /// is closed at the start, unless --pair or --pin is given.
            ticket_key: Option<TicketKey> = "ticket-key", optional(ticket_key()),
                Default::Unset("no tickets");
            /// UUID of this session at the portal.
            ticket_session: Option<SessionUuid> = "ticket-session", optional(uuid()),
                Default::Unset("");
            /// End after this time without a client and without a lease renewal.
            /// The portal renews and ends the lease over HTTPS at the address of --web, or over --portal-socket. It
            /// uses signed tokens, which the host verifies with --ticket-key. See docs/security.md.
            lease: Option<Duration> = "lease", optional(time()), Default::Unset("no lease");
            /// Serve only the portal at the address of --web: no page, no log-in.
            /// For a portal that serves the page and relays the signalling of its browsers; media goes directly
            /// between browser and host.
            portal_only: bool = "portal-only", flag(), Default::Is("false");
            /// Serve the portal at this Unix socket, without a TCP port.
            /// For a portal on this machine. --web then only sets the address for media.
            portal_socket: Option<PathBuf> = "portal-socket", optional(path("SOCKET")), Default::Unset("");
        }
        "Browsers" {
            /// Serve browsers: a page over HTTPS, media over UDP on the same port.
            /// A browser plays or watches like a client: it pairs with a PIN, is listed by `openuvr devices`, and
            /// receives the same stream, in H.264 or VP9 (see --encoder). `--web` without a value uses [::]:4711.
            /// docs/clients.md lists the supported features.
            web: Option<SocketAddr> = "web", optional(address_or("[::]:4711")),
                Default::Unset("disabled");
            /// Certificate chain of the page, in PEM format.
            /// By default, the host generates a certificate and renews it. Browsers warn about it at the first visit:
            /// compare its fingerprint with the fingerprint that the host shows, or make browsers trust the host's
            /// certificate authority (`openuvr web-certificate`).
            web_cert: Option<PathBuf> = "web-cert", optional(path("FILE")),
                Default::Unset("generated by the host");
            /// Private key of the certificate, in PEM format.
            web_key: Option<PathBuf> = "web-key", optional(path("FILE")), Default::Unset("");
            /// STUN and TURN servers for browsers (ICE).
            /// For browsers that cannot reach the host directly, for example on a network that permits UDP only to a
            /// relay. Separate the servers by commas. Each server is stun:HOST[:PORT] or
            /// turn:USER:SECRET@HOST[:PORT][?transport=tcp]; for TLS, write turns: instead of turn:. The relay must be
            /// able to reach this host. Only logged-in pages receive the list. The host also queries the stun: servers
            /// for its public address and announces this address to pages. Other users of the machine can read command
            /// lines: put servers with a secret into the settings file or the file of --ice-servers-file.
            ice_servers: Vec<IceServer> = "ice-servers", ice_servers(), Default::Unset("none");
            /// File with STUN and TURN servers, one per line.
            /// These servers are added to the servers of --ice-servers. Only this user should be able to read the file.
            ice_servers_file: Option<PathBuf> = "ice-servers-file", optional(path("FILE")), Default::Unset("");
            /// Public addresses of this host behind NAT, IP[:PORT].
            /// For a host behind a home router, or on a cloud machine with a private address. Pages use these addresses
            /// for media, and the host shows the page's URL with each of them. The NAT must forward TCP and UDP to the
            /// port of --web, which is also the default port of the addresses. Separate the addresses by commas. See
            /// docs/clients.md.
            public_address: Vec<PublicAddress> = "public-address", public_addresses(), Default::Unset("local addresses");
            /// Origins of the page behind a reverse proxy, https://NAME[:PORT].
            /// Write each origin as the browser's address bar shows it, and separate origins by commas. By default, the
            /// origin must match the request's Host header. docs/clients.md has configurations for nginx and Caddy.
            web_origin: Vec<WebOrigin> = "web-origin", web_origins(), Default::Unset("the origin of the Host header");
            /// Trusted reverse proxies in front of the page, IP[/BITS].
            /// The limits on log-ins and wrong PINs use the proxies' X-Forwarded-For header to identify the browser.
            /// Separate the proxies by commas.
            web_proxy: Vec<ProxyNetwork> = "web-proxy", web_proxies(), Default::Unset("none");
            /// Congestion control for a browser that plays.
            /// `reports`: the bitrate follows the page's report on each frame, as for other clients. `gcc`: the bitrate
            /// follows Google Congestion Control, which most WebRTC services use; its input is the browser's
            /// transport-wide feedback (TWCC). With `--rate constant`, neither value has an effect.
            web_rate_control: WebRateControl = "web-rate-control", choice(), Default::Is("reports");
        }
        "Video players" {
            /// Serve video players over RTSP (ffplay, mpv, VLC, GStreamer).
            /// Video players receive the same H.264 stream as clients, and the sound, both unencrypted. `--rtsp`
            /// without a value uses [::]:8554. docs/clients.md has command lines for playback with low latency.
            rtsp: Option<SocketAddr> = "rtsp", optional(address_or("[::]:8554")),
                Default::Unset("disabled");
            /// Secret part of the URL: 8 to 64 letters, digits, - and _.
            /// It grants access to the stream.
            rtsp_token: Option<String> = "rtsp-token", optional(rtsp_token()),
                Default::Unset("generated once by the host");
            /// Sound codec for video players.
            /// `opus`: the sound that clients receive. `aac`: AAC-LC, for players without Opus, encoded by libavcodec
            /// at --sound-bitrate. AAC arrives about 40 ms later than Opus.
            rtsp_sound: SoundCodec = "rtsp-sound", choice(), Default::Is("opus");
        }
        "Moonlight" {
            /// Serve Moonlight clients: phones, televisions, consoles, desktops.
            /// Moonlight clients can play. They receive the same H.264 stream as other clients, and the sound, each
            /// encrypted if the client supports that. `--moonlight` without a value uses [::]:47989; the other ports of
            /// the protocol have fixed offsets from this port. During pairing, the client shows a PIN; enter it at the
            /// host: openuvr devices pair --moonlight PIN. See docs/moonlight.md.
            moonlight: Option<SocketAddr> = "moonlight", optional(address_or("[::]:47989")),
                Default::Unset("disabled");
            /// Applications that Moonlight clients start on the virtual display.
            /// A TOML file with an entry [[applications]] for each application: name, command (a list of words) and,
            /// optionally, icon (a PNG file). `openuvr applications scan` prints such entries. The entries can also be
            /// at the end of the host's settings file. One application runs at a time, on a display with the client's
            /// mode.
            applications: Option<PathBuf> = "applications", optional(list("FILE")),
                Default::Unset("the display, or the program after --");
        }
        "Recording" {
            /// Record the stream into this file (fragmented MP4).
            /// The file contains the H.264 stream and the sound that clients receive; recording needs no additional
            /// encoder. A recording counts as an observer for --max-observers. If the host is killed, the end of the
            /// recording is missing (one second at most). See docs/clients.md.
            record: Option<PathBuf> = "record", optional(path("FILE")), Default::Unset("no recording");
            /// Overwrite an existing file of --record.
            record_overwrite: bool = "record-overwrite", flag(), Default::Is("false");
            /// Sound codec of the recording.
            /// `opus`: the sound that clients receive. `aac`: AAC-LC, for players and editors without Opus, encoded by
            /// libavcodec at --sound-bitrate.
            record_sound: SoundCodec = "record-sound", choice(), Default::Is("opus");
        }
        "Sound" {
            /// Sound source.
            /// `auto`: the current default sink of PulseAudio or PipeWire, or no sound if neither runs; with `openuvr
            /// run`, the game's sound, which is then played only at the clients. `off`: no sound. `pulse:NAME`: the
            /// sink or source with this name (`pactl list short`). `alsa:DEVICE`: the ALSA device with this name
            /// (`arecord -L`), for machines without a sound server. `tone:440`: a test tone.
            sound: SoundChoice = "sound", sound("SOURCE", 255), Default::Is("auto");
            /// Destination of the player's microphone.
            /// `off`: clients do not send the microphone. `on`: a virtual source, from which applications can record;
            /// applications started by `openuvr run` or on a virtual display use it by default. `pulse:SINK`: the
            /// host plays the sound on this sink.
            microphone: SoundChoice = "microphone", sound("SINK", 255), Default::Is("off");
            /// Duration of a sound packet, in milliseconds.
            /// Shorter packets arrive earlier, but have more overhead: sound in 2.5 ms packets takes about twice the
            /// network bitrate of sound in 10 ms packets.
            sound_frame: SoundFrame = "sound-frame", choice(), Default::Is("5");
            /// Sound bitrate, in bits per second.
            /// The bitrate excludes headers and repetitions. Each packet is repeated at least once, if it fits into the
            /// datagram of the next packet.
            sound_bitrate: Bitrate = "sound-bitrate", bitrate(SOUND_BITRATES), Default::Is("128k");
        }
        "Measurement and operation" {
            /// CSV file with a row for each frame and client.
            /// Each row has a timestamp in nanoseconds for each stage, the frame's bytes and datagrams, and its outcome.
            csv: Option<PathBuf> = "csv", optional(path("FILE")), Default::Unset("");
            /// Trace file for ui.perfetto.dev.
            trace: Option<PathBuf> = "trace", optional(path("FILE")), Default::Unset("");
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
            /// Use at least as many cores as encoder threads. The application should run on other cores.
            pin_cores: BTreeSet<usize> = "pin-cores", cores(), Default::Is("off");
            /// Log level.
            log: Level = "log", choice(), Default::Is("info");
        }
        "Experiments" {
            /// Submission mode of the scene.
            /// `free`: the scene renders continuously, and the newest frame is sent. `lock-step`: the scene renders the
            /// next frame when the previous one has been encoded and sent. Only with --source scene.
            submit: Option<Submit> = "submit", optional(choice()), Default::Unset("free");
            /// Frame rate of the scene.
            /// Only with --source scene; --fps does not limit it.
            scene_fps: Option<f64> = "scene-fps", optional(number(0.1..=1000.0, "frames/s")),
                Default::Unset("60");
        }
    }
}

/// The default size of the test pattern, which is the smallest HD size.
const PATTERN: Size = Size::new(1280, 720);

/// The useful range of Opus bitrates for two channels.
const SOUND_BITRATES: RangeInclusive<Bitrate> =
    Bitrate(*opus::BITRATES.start())..=Bitrate(*opus::BITRATES.end());

/// The captured object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// The whole display.
    Display,
    /// One window.
    Window(WindowName),
    /// A region of the display.
    Region(Region),
    /// The test pattern of this size.
    Pattern(Size),
    /// A file.
    Clip(PathBuf),
    /// The scene, in this size.
    Scene(Size),
}

impl HostConfig {
    /// The subcommand with all flags and the application's command line.
    pub(crate) fn command() -> Command {
        let command = <HostConfig as Settings>::command();
        let command = command
            .override_usage("openuvr host [OPTIONS] [-- APP [ARGS]...]  (APP with --virtual)");
        let help = "Program to start on the virtual display, with its arguments";
        command.arg(app_args::arg("APP", help).last(true))
    }

    /// The configuration, and the application's command line, which is empty if there is no application.
    ///
    /// # Errors
    /// See [`Settings::from_matches`]. Also returns an error if an application is given without a virtual display, or
    /// in addition to configured applications.
    pub(crate) fn with_application(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<HostConfig>, Vec<OsString>)> {
        let words = app_args::command_line(matches);
        let effective = HostConfig::from_matches(matches)?;
        if !words.is_empty() && effective.config.virtual_display.is_none() {
            let why = "an application after -- needs a virtual display: use --virtual 1920x1080, or start it with \
                       `openuvr run`";
            return Err(ConfigError(why.to_owned()).into());
        }
        if !words.is_empty() && effective.config.applications.is_some() {
            let why = "an application after -- cannot be combined with --applications: leave out one of them, or unset a \
                       saved list with --applications ''";
            return Err(ConfigError(why.to_owned()).into());
        }
        Ok((effective, words))
    }

    /// The warning of `--encoder auto`, if it replaced x264 with another software encoder.
    pub(crate) fn encoder_warning(&self) -> Option<&'static str> {
        let choice = automatic::previous_choice()?;
        let used = self.encoders.contains(&EncoderName(choice.backend.name));
        choice.warning.as_deref().filter(|_| used)
    }

    /// The picture source: as set, otherwise as the session and the other settings suggest.
    pub(crate) fn source(&self) -> SourceKind {
        let x11 = self.window.is_some() || self.region.is_some() || self.virtual_display.is_some();
        match self.source {
            Some(source) => source,
            None if self.wayland_display.is_some() && !x11 && !self.fits() => SourceKind::Wayland,
            None => SourceKind::X11,
        }
    }

    /// The captured object.
    pub(crate) fn subject(&self) -> Subject {
        match (self.source(), &self.window, self.region) {
            (SourceKind::Pattern, ..) => Subject::Pattern(self.size.unwrap_or(PATTERN)),
            (SourceKind::Clip, ..) => Subject::Clip(self.clip.clone().unwrap_or_default()),
            (SourceKind::Scene, ..) => Subject::Scene(self.size.unwrap_or(PATTERN)),
            (SourceKind::X11 | SourceKind::Wayland, Some(window), _) => {
                Subject::Window(window.clone())
            }
            (SourceKind::X11, None, Some(region)) => Subject::Region(region),
            (SourceKind::Wayland | SourceKind::Portal, ..) | (SourceKind::X11, None, None) => {
                Subject::Display
            }
        }
    }

    /// The target video bitrate in bits per second: the configured one, or otherwise the lowest default of the
    /// encoders.
    pub(crate) fn bitrate(&self) -> Bitrate {
        let usual = self.encoders.iter().map(|name| default_bitrate(name.0));
        self.bitrate.or(usual.min()).unwrap_or_default()
    }

    /// Parses a bitrate within the limits of the setting.
    ///
    /// # Errors
    /// Returns an error if the text is not an allowed bitrate. The message states the range.
    pub(crate) fn parse_bitrate(text: &str) -> Result<Bitrate, ConfigError> {
        let kind = bitrate(BITRATES);
        let refused = || ConfigError(format!("{text:?} must be {}", kind.allowed));
        (kind.parse)(text).ok_or_else(refused)
    }

    /// Whether the virtual display is a Wayland compositor of this process.
    pub(crate) fn is_wayland(&self) -> bool {
        self.virtual_display.is_some() && self.virtual_with == DisplayKind::Wayland
    }

    /// Whether the display takes the size of the player's window. By default, only a whole virtual display of a host
    /// with `--moonlight` does so, because Moonlight clients choose a display mode.
    pub(crate) fn fits(&self) -> bool {
        let modes = self.virtual_display.is_some() && self.moonlight.is_some();
        let part = self.window.is_some() || self.region.is_some();
        self.fit.unwrap_or(modes && !part)
    }

    /// Whether the source captures at fixed intervals instead of when an application draws.
    fn is_timed(&self) -> bool {
        matches!(
            self.subject(),
            Subject::Pattern(_) | Subject::Clip(_) | Subject::Scene(_)
        )
    }

    /// Whether input is injected into the display.
    pub(crate) fn injects(&self) -> bool {
        match self.input {
            Some(input) => input == InputKind::Xtest,
            None => !matches!(self.source(), SourceKind::Pattern | SourceKind::Clip),
        }
    }

    fn find_contradiction(&self) -> Result<(), ConfigError> {
        let source = self.source();
        let (x11, session) = (source == SourceKind::X11, source == SourceKind::Wayland);
        let (clip, scene) = (source == SourceKind::Clip, source == SourceKind::Scene);
        let portal = source == SourceKind::Portal;
        let words = match () {
            () if self.window.is_some() && self.region.is_some() => {
                "--window and --region are mutually exclusive: use one of them"
            }
            () if !x11 && self.region.is_some() => "--region requires --source x11",
            () if !x11 && !session && self.window.is_some() => {
                "--window requires --source x11 or --source wayland"
            }
            () if session && matches!(self.window, Some(WindowName::Id(_))) => {
                "--window with an id selects a window of an X display: it requires --source x11"
            }
            () if session && self.window.is_some() && self.injects() => {
                "--window with --source wayland supports no input: add --input none"
            }
            () if clip != self.clip.is_some() => {
                "--source clip and --clip require each other: use --source clip --clip FILE"
            }
            () if (x11 || session || portal || clip) && self.size.is_some() => {
                "--size requires --source pattern or --source scene: displays, windows and clips have their own size"
            }
            () if !x11 && self.virtual_display.is_some() => {
                "--virtual requires --source x11: the virtual display is the source"
            }
            () if self.virtual_with == DisplayKind::Wayland && self.virtual_display.is_none() => {
                "--virtual-with sets the kind of the virtual display: it requires --virtual"
            }
            () if self.place && self.virtual_display.is_none() => {
                "--place places windows on the virtual display: it requires --virtual"
            }
            () if self.is_wayland() && self.subject() != Subject::Display => {
                "--virtual-with wayland streams the whole display: leave out --window and --region"
            }
            () if self.applications.is_some()
                && (self.virtual_display.is_none() || self.moonlight.is_none()) =>
            {
                "--applications requires --virtual and --moonlight: Moonlight clients start the applications on a \
                 virtual display"
            }
            () if self.output.is_some() && !session => {
                "--output selects an output of a Wayland session: it requires --source wayland"
            }
            () if (session || portal) && self.fits() => {
                "--fit cannot resize the display with --source wayland or --source portal: leave out --fit"
            }
            () if self.fits() && self.subject() != Subject::Display => {
                "--fit resizes the whole display: it cannot be combined with --window, --region or a --source other \
                 than x11"
            }
            () if matches!(self.pads, PadsKind::Seats(_)) => {
                "--pads with a number is for openuvr run: use --pads auto, uinput or off"
            }
            () if !scene && (self.submit.is_some() || self.scene_fps.is_some()) => {
                "--submit and --scene-fps require --source scene"
            }
            () => {
                self.check_gateways()?;
                return self.check_encoding();
            }
        };
        Err(ConfigError(words.to_owned()))
    }

    /// Checks the settings of gateways and portal sessions for consistency.
    pub(super) fn check_gateways(&self) -> Result<(), ConfigError> {
        let words = match () {
            () if self.ticket_key.is_some() != self.ticket_session.is_some() => {
                "--ticket-key and --ticket-session require each other: use both"
            }
            () if self.lease.is_some() && (self.ticket_key.is_none() || self.web.is_none()) => {
                "--lease requires --web, --ticket-key and --ticket-session: a portal renews the lease by signed tokens"
            }
            () if (self.portal_only || self.portal_socket.is_some()) && self.lease.is_none() => {
                "--portal-only and --portal-socket are for portal sessions: they require --lease"
            }
            () if self.web_cert.is_some() != self.web_key.is_some() => {
                "--web-cert and --web-key require each other: use both"
            }
            () if self.web.is_none() && self.web_cert.is_some() => {
                "--web-cert and --web-key require --web"
            }
            () if self.web.is_none() && !self.ice_servers.is_empty() => {
                "--ice-servers is for browsers: it requires --web"
            }
            () if self.web.is_none() && self.ice_servers_file.is_some() => {
                "--ice-servers-file is for browsers: it requires --web"
            }
            () if self.web.is_none() && !self.public_address.is_empty() => {
                "--public-address is for browsers: it requires --web"
            }
            () if self.web.is_none()
                && !(self.web_origin.is_empty() && self.web_proxy.is_empty()) =>
            {
                "--web-origin and --web-proxy are for browsers: they require --web"
            }
            () if self.record.is_none() && self.record_overwrite => {
                "--record-overwrite requires --record"
            }
            () if self.rtsp.is_none() && self.rtsp_token.is_some() => {
                "--rtsp-token is for video players: it requires --rtsp"
            }
            () => return Ok(()),
        };
        Err(ConfigError(words.to_owned()))
    }

    fn check_requirements(&self) -> Result<(), ConfigError> {
        self.check_files()?;
        self.check_encoder_options()?;
        if self.source() == SourceKind::Wayland {
            return match self.wayland_display {
                Some(_) => Ok(()),
                None => Err(ConfigError(NO_WAYLAND_DISPLAY.to_owned())),
            };
        }
        if self.source() == SourceKind::Portal {
            return Ok(());
        }
        let shown = matches!(self.source(), SourceKind::X11 | SourceKind::Scene);
        let display = self.display.is_some() || self.virtual_display.is_some();
        if (shown || self.injects()) && !display {
            let why = format!(
                "{NO_DISPLAY}; to start an application on a virtual display, use --virtual 1280x720 -- COMMAND"
            );
            return Err(ConfigError(why));
        }
        Ok(())
    }

    /// Checks that no output file equals another output file, the clip or the key of the page.
    pub(super) fn check_files(&self) -> Result<(), ConfigError> {
        let microphone = match self.microphone.backend() {
            Some(("wav", file)) => file.map(Path::new),
            _ => None,
        };
        check_distinct(&[
            ("clip", self.clip.as_deref()),
            ("web-key", self.web_key.as_deref()),
            ("csv", self.csv.as_deref()),
            ("microphone", microphone),
            ("record", self.record.as_deref()),
            ("trace", self.trace.as_deref()),
        ])
    }

    /// Checks the encoder settings for consistency.
    pub(super) fn check_encoding(&self) -> Result<(), ConfigError> {
        let above = |rate: Option<Bitrate>| rate.is_some_and(|rate| rate > self.bitrate());
        let (min, start) = (self.min_bitrate, self.start_bitrate);
        let refresh = self.recovery == Recovery::Refresh;
        let backends = encode::find_all(&self.encoders);
        let backends = backends.map_err(|e| ConfigError(format!("encoder: {e}")))?;
        let words = match () {
            () if self.rate == Rate::Constant && (min.is_some() || start.is_some()) => {
                "--min-bitrate and --start-bitrate require --rate adaptive"
            }
            () if self.rate == Rate::Constant && self.l4s != L4sMode::Off => {
                "--l4s requires --rate adaptive: a constant bitrate cannot follow the network's marks"
            }
            () if above(min) || above(start) => {
                "--min-bitrate and --start-bitrate must not be above --bitrate"
            }
            () if (self.rtsp.is_some() || self.moonlight.is_some())
                && !backends.iter().any(|backend| backend.codec == Codec::H264) =>
            {
                "--rtsp and --moonlight require H.264: add x264 to --encoder"
            }
            () if refresh && !backends.iter().all(|backend| backend.refreshes) => {
                "the encoder does not support intra refresh: choose --encoder x264, or another --recovery"
            }
            () if !refresh && self.refresh_interval.is_some() => {
                "--refresh-interval sets the period of intra refresh: it requires --recovery intra-refresh"
            }
            () if self.recovery == Recovery::None && self.key_frame_interval.is_none() => {
                "--recovery none repairs pictures only by periodic key frames: it requires --key-frame-interval"
            }
            () if !self.encoder_options.is_empty()
                && backends.iter().filter(|b| b.options.is_some()).count() != 1 =>
            {
                "--encoder-option requires exactly one encoder that takes options, such as x264"
            }
            () => return Ok(()),
        };
        Err(ConfigError(words.to_owned()))
    }

    /// Checks the options of the encoder's library. Only the library knows its options, so the check opens the encoder.
    pub(super) fn check_encoder_options(&self) -> Result<(), ConfigError> {
        let all = self.encoders.iter();
        let mut all = all.filter_map(|name| encode::find(name.0).ok());
        match all.find(|backend| backend.options.is_some()) {
            Some(backend) => encode::check_options(backend, &self.encoder_options)
                .map_err(|why| ConfigError(why.to_string())),
            None => Ok(()),
        }
    }
}

impl From<&HostConfig> for Config {
    fn from(config: &HostConfig) -> Config {
        Config {
            name: config.name.clone(),
            bind: config.bind,
            link: config.link.map(|link| link.0),
            config_dir: Some(config.config_dir.clone()),
            pin: config.pin.clone(),
            pair: config.pair,
            pairing_timeout: u32::try_from(config.pairing_timeout.as_secs()).unwrap_or(u32::MAX),
            ticket_key: config.ticket_key,
            ticket_session: config.ticket_session,
            second_player: config.second_player,
            max_observers: config.max_observers,
            keys: config.keys,
            clipboard: config.clipboard,
            // A game gets the folder from its environment.
            pads_folder: None,
            gateway: None,
            seats: SeatSockets::default(),
            encoders: config.encoders.clone(),
            encoder_options: config.encoder_options.clone(),
            encoder_per_client: config.encoder_per_client,
            slices: config.slices,
            encoder_threads: config.encoder_threads,
            subpel: config.subpel.requested(),
            pixels: config.pixels,
            cbr: config.rate_control.map(|mode| mode == RateMode::Cbr),
            fps: config.fps.unwrap_or(DEFAULT_FPS),
            follows_display: config.fps.is_none() && !config.is_timed(),
            max_fps: (!config.is_timed()).then(|| config.fps.unwrap_or(*RATES.end())),
            bitrate: config.bitrate,
            min_bitrate: config.min_bitrate,
            start_bitrate: config.start_bitrate,
            adaptive: config.rate == Rate::Adaptive,
            l4s: config.l4s,
            recovery: config.recovery,
            refresh_interval: config.refresh_interval,
            static_refinement: config.static_refinement,
            constant_frame_rate: config.constant_frame_rate,
            key_frame_interval: config.key_frame_interval,
            cursor: config.cursor,
            sound: config.sound.clone(),
            microphone: config.microphone.clone(),
            given: None,
            sound_frame: config.sound_frame.0,
            sound_bitrate: config.sound_bitrate,
            realtime: config.realtime == Realtime::Auto,
            pin_cores: config.pin_cores.clone(),
            // The stream writes no CSV file: `openuvr host` writes the file, together with the live table.
            csv: None,
        }
    }
}
