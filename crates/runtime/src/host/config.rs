//! Host configuration. The command line, a settings file, the launcher of an application or a C program fills it in.
//! Those components parse texts; this module only checks ranges and combinations.
//!
//! This module does not open the source of pictures.

mod sound;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openuvr_media::audio::{application::AppSpeaker, opus};
use openuvr_media::encode::{self, Backend, Chroma, EncoderOptions, Rate};
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_net::Link as _;
use openuvr_net::address::path_of;
use openuvr_net::transport_selection::TransportSelector;
use openuvr_proto::control::clipboard::ClipboardDirections;
use openuvr_proto::control::identity::Identity;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::{SessionUuid, TicketGate, TicketKey};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::host::{HostPolicy, SecondPlayer};
use openuvr_proto::id::ViewId;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition;
use openuvr_proto::units::Bitrate;
use serde::{Deserialize, Serialize};

pub use self::sound::Sounds;
use super::{EncoderName, Encoding, Encodings, codec_of};
use crate::PORT;
use crate::identity_store::{self, load_or_create};
use crate::machine;
use crate::sched::Scheduler;
use crate::sound_choice::SoundChoice;
use crate::store;
use crate::trust_store::DeviceStore;

/// The range of video bitrates.
pub const BITRATES: RangeInclusive<Bitrate> = Bitrate(100_000)..=Bitrate(1_000_000_000);

/// Default minimum of the adaptive rate (guess: the picture is still recognisable).
const DEFAULT_MIN_BITRATE: Bitrate = Bitrate(500_000);

/// Range of intra-refresh periods in frames. With a period of one, all frames would be key frames.
pub const REFRESHES: RangeInclusive<u16> = 2..=10_000;

/// Range of GOP sizes in frames. With a size of one, all frames are key frames. The maximum is about half an hour at 60
/// frames/s (guess).
pub const KEY_FRAME_INTERVALS: RangeInclusive<u32> = 1..=100_000;

/// Range of frame rates in Hz.
pub const RATES: RangeInclusive<f64> = 1.0..=240.0;

/// A host's configuration. [`Config::default`] is the configuration of `openuvr host` without options.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name that clients show, at most [`machine::LONGEST_NAME`] bytes; empty for this machine's name.
    pub name: String,
    /// The address to bind.
    #[serde(with = "openuvr_proto::validated::as_text")]
    pub bind: SocketAddr,
    /// Forces a transport; `None` for all transports that work.
    pub link: Option<TransportKind>,
    /// The configuration folder, which contains the keys and known devices; `None` for [`store::config_dir`].
    pub config_dir: Option<PathBuf>,
    /// Allows a new device to pair with this PIN.
    pub pin: Option<Pin>,
    /// Allows a new device to pair with a random PIN. Without `pin` and `pair`, a random PIN is allowed only if no
    /// device is known and tickets are not accepted.
    pub pair: bool,
    /// Duration of the pairing window, in seconds.
    pub pairing_timeout: u32,
    /// The key of a portal whose tickets are accepted. Pairing is then opened at the start only if `pin` or `pair` is
    /// set.
    pub ticket_key: Option<TicketKey>,
    /// The portal's id of this session. It is required with [`Config::ticket_key`].
    pub ticket_session: Option<SessionUuid>,
    /// Policy for a second player.
    pub second_player: SecondPlayer,
    /// Maximum number of observers, 0–64.
    pub max_observers: u16,
    /// How the application reads keys, unless the client overrides it.
    pub keys: Keys,
    /// The encoders in order of preference. A client gets the first encoder whose codec it can decode.
    pub encoders: Vec<EncoderName>,
    /// Options of the encoder's library, under the library's names. If there are options, exactly one encoder in
    /// `encoders` must accept options.
    pub encoder_options: EncoderOptions,
    /// Whether each client has its own encoder.
    pub encoder_per_client: bool,
    /// Slices per frame, 1–64.
    pub slices: u8,
    /// Encoder threads, 1–64; `None` for [`encoder_threads`].
    pub encoder_threads: Option<u8>,
    /// Whether the encoder uses quarter-pixel motion search; if `None`, the picture size decides.
    pub subpel: Option<bool>,
    /// The pixel format; `None` for the encoder's default.
    pub pixels: Option<Chroma>,
    /// Whether the encoder's own rate control keeps the bitrate constant; `None` for the encoder's default.
    pub cbr: Option<bool>,
    /// Maximum frame rate in Hz, 1–240. With [`Config::follows_display`], this limit applies only while the player's
    /// display is unknown.
    pub fps: f64,
    /// Whether the player's display limits the frame rate. This has an effect only with a single encoder for all
    /// clients.
    pub follows_display: bool,
    /// Maximum frame rate in Hz for a player whose user chose a rate. If it is `None`, [`Config::fps`] is the limit,
    /// whatever rate the user chose. This has an effect only with a single encoder for all clients.
    pub max_fps: Option<f64>,
    /// Maximum video bitrate; `None` for the encoder's [`default_bitrate`].
    pub bitrate: Option<Bitrate>,
    /// Minimum adaptive bitrate; `None` for 0.5 Mb/s.
    pub min_bitrate: Option<Bitrate>,
    /// Initial bitrate; `None` for the maximum bitrate.
    pub start_bitrate: Option<Bitrate>,
    /// Whether the bitrate adapts to the link.
    pub adaptive: bool,
    /// The use of L4S: whether the player's datagrams carry ECT(1) (RFC 9331). It has no effect without `adaptive`.
    pub l4s: L4sMode,
    /// How the stream recovers from a loss.
    pub recovery: Recovery,
    /// The intra-refresh period in frames, with [`Recovery::Refresh`]; `None` for refreshes only on demand.
    pub refresh_interval: Option<u16>,
    /// Whether an unchanged picture is encoded again at a higher quality (static refinement).
    pub static_refinement: bool,
    /// Whether an unchanged picture is repeated, so that the stream keeps its frame rate.
    pub constant_frame_rate: bool,
    /// Key-frame interval in frames (GOP size); `None` for key frames only on demand.
    pub key_frame_interval: Option<u32>,
    /// Whether the pointer of the application's display is sent (shape and position).
    pub cursor: bool,
    /// The source of the sound that is sent to clients: `auto`, none, or a backend of
    /// [`openuvr_media::audio::CAPTURES`].
    pub sound: SoundChoice,
    /// The output for the player's microphone: none, or a backend of [`openuvr_media::audio::PLAYBACKS`].
    pub microphone: SoundChoice,
    /// The sound of the application in this process. If it is set, [`Config::sound`] is ignored.
    #[serde(skip)]
    pub given: Option<AppSpeaker>,
    /// Duration of a sound payload, in microseconds: 2500, 5000, 10000 or 20000.
    pub sound_frame: u32,
    /// Sound bitrate, 16 to 510 kb/s, excluding headers and repetitions.
    pub sound_bitrate: Bitrate,
    /// The allowed directions of clipboard sharing between the player and the application's display.
    pub clipboard: ClipboardDirections,
    /// The folder in which the player's game pads are provided to the application's processes; `None` if no pads are
    /// provided. These processes must load `libopenuvr_pads.so`, and their environment must contain
    /// [`openuvr_media::pad::FOLDER`].
    pub pads_folder: Option<PathBuf>,
    /// The socket for gateways in another process, see [`crate::remote`]; `None` for no socket.
    pub gateway: Option<PathBuf>,
    /// The sockets of pads that already exist in `pads_folder`.
    #[serde(skip)]
    pub seats: SeatSockets,
    /// Whether threads request real-time scheduling.
    pub realtime: bool,
    /// The cores on which the latency-critical threads run; empty for any cores.
    pub pin_cores: BTreeSet<usize>,
    /// The path of the CSV with a row for each frame and client ([`crate::csv`]). Only guests use it.
    pub csv: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: String::new(),
            bind: (Ipv6Addr::UNSPECIFIED, PORT).into(),
            link: None,
            config_dir: None,
            pin: None,
            pair: false,
            pairing_timeout: 120,
            ticket_key: None,
            ticket_session: None,
            second_player: SecondPlayer::Observe,
            max_observers: 8,
            keys: Keys::Symbol,
            encoders: vec![EncoderName("x264")],
            encoder_options: EncoderOptions::NONE,
            encoder_per_client: false,
            slices: 8,
            encoder_threads: None,
            subpel: None,
            pixels: None,
            cbr: None,
            fps: DEFAULT_FPS,
            follows_display: true,
            max_fps: None,
            bitrate: None,
            min_bitrate: None,
            start_bitrate: None,
            adaptive: true,
            l4s: L4sMode::Off,
            recovery: Recovery::ReferenceInvalidation,
            refresh_interval: None,
            static_refinement: true,
            constant_frame_rate: false,
            key_frame_interval: None,
            cursor: true,
            sound: SoundChoice::Auto,
            microphone: SoundChoice::Off,
            given: None,
            sound_frame: 5_000,
            sound_bitrate: opus::BITRATE,
            clipboard: ClipboardDirections::default(),
            pads_folder: None,
            gateway: None,
            seats: SeatSockets::default(),
            realtime: true,
            pin_cores: BTreeSet::new(),
            csv: None,
        }
    }
}

/// The result of [`Config::open`]: all components of a host except the pictures and the input.
pub struct Opened {
    /// The link to the clients.
    pub link: Arc<TransportSelector>,
    /// The endpoint for clients, as text.
    pub endpoint: String,
    /// The host's identity.
    pub identity: Identity,
    /// The known devices.
    pub devices: DeviceStore,
    /// PIN and duration of the initial pairing window, if there is one.
    pub pairing: Option<(Pin, Duration)>,
    /// Validates tickets, if enabled.
    pub tickets: Option<TicketGate>,
    /// Names, roles, limits.
    pub policy: HostPolicy,
    /// The encoders and their assignment to clients.
    pub encodings: Encodings,
    /// The sound for clients, and the output for the player's microphone.
    pub sounds: Sounds,
}

impl Config {
    /// Opens everything that the configuration names.
    ///
    /// # Errors
    /// Returns a one-line error if a value is out of range or a device cannot be opened.
    pub fn open(&self) -> Result<Opened, String> {
        let encodings = Encodings::new(self.encodings()?, self.encoder_per_client);
        let mut policy = self.policy()?;
        let only = self.link;
        check_unicast(self.bind)?;
        let sounds = self.sounds()?;
        policy.streams.extend(sounds.streams());
        let tickets = self.tickets()?;
        let link = TransportSelector::host(self.bind, only).map_err(|e| e.to_string())?;
        let dir = match &self.config_dir {
            Some(dir) => dir.clone(),
            None => store::config_dir().map_err(|e| e.to_string())?,
        };
        let identity =
            load_or_create(&dir, identity_store::KeyOwner::Host).map_err(|e| e.to_string())?;
        let devices = DeviceStore::open(&dir).map_err(|e| e.to_string())?;
        let pin = match self.pin.clone() {
            None if self.pair || tickets.is_none() && devices.devices().is_empty() => {
                Some(Pin::generate().map_err(|e| e.to_string())?)
            }
            pin => pin,
        };
        let span = Duration::from_secs(self.pairing_timeout.into());
        Ok(Opened {
            endpoint: endpoint(&link, only),
            link: Arc::new(link),
            identity,
            devices,
            pairing: pin.map(|pin| (pin, span)),
            tickets,
            policy,
            encodings,
            sounds,
        })
    }

    /// Validates the values without opening anything.
    ///
    /// # Errors
    /// Returns a one-line error that names the value that is out of range.
    pub fn check(&self) -> Result<(), String> {
        self.encodings()?;
        self.policy()?;
        self.check_audio()?;
        self.tickets()?;
        check_unicast(self.bind)
    }

    /// The gate that validates a portal's tickets, if tickets are enabled.
    fn tickets(&self) -> Result<Option<TicketGate>, String> {
        match (self.ticket_key, self.ticket_session) {
            (None, None) => Ok(None),
            (Some(key), Some(session)) => Ok(Some(TicketGate::new(key, session))),
            _ => Err("ticket_key and ticket_session require each other: set both".to_owned()),
        }
    }

    /// The scheduler for the host's threads.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        let scheduler = match self.realtime {
            true => Scheduler::new(),
            false => Scheduler::ordinary(),
        };
        scheduler.pinned_to(self.pin_cores.clone())
    }

    fn policy(&self) -> Result<HostPolicy, String> {
        let codecs = self.encoders.iter().filter_map(|name| codec_of(name.0));
        let name = match self.name.as_str() {
            "" => machine::name(),
            name => machine::checked(name)?,
        };
        within("max_observers", self.max_observers, 0..=64)?;
        Ok(HostPolicy {
            name,
            codecs: codecs.fold(0, |all, codec| all | 1 << codec),
            second_player: self.second_player,
            max_observers: self.max_observers.into(),
            keys: self.keys,
            streams: Vec::new(),
        })
    }

    /// The encodings, one for each encoder.
    ///
    /// # Errors
    /// Returns an error if a value is out of range, an encoder is unknown, or an encoder would never be used. An error
    /// about a value contains the allowed range.
    pub fn encodings(&self) -> Result<Vec<Encoding>, String> {
        let backends = encode::find_all(&self.encoders).map_err(|e| format!("encoder: {e}"))?;
        let takers = backends.iter().filter(|found| found.options.is_some());
        if !self.encoder_options.is_empty() && takers.count() != 1 {
            return Err(
                "encoder_options: list exactly one encoder that has options, such as x264"
                    .to_owned(),
            );
        }
        backends
            .into_iter()
            .map(|found| self.encoding(found))
            .collect()
    }

    fn encoding(&self, backend: &'static Backend) -> Result<Encoding, String> {
        let range = self.range(backend.name)?;
        if self.recovery == Recovery::Refresh && !backend.refreshes {
            return Err(format!(
                "recovery: the encoder {} does not support intra refresh",
                backend.name
            ));
        }
        let threads = self.encoder_threads.unwrap_or_else(encoder_threads);
        within("slices", self.slices, 1..=encode::Settings::MAX_PARTS)?;
        within("encoder_threads", threads, 1..=encode::Settings::MAX_PARTS)?;
        within("fps", self.fps, RATES)?;
        if let Some(most) = self.max_fps {
            within("max_fps", most, RATES)?;
        }
        // A rendition can set the frame rate only if it is the only one, because all renditions share the pictures of
        // one capture.
        let one = !self.encoder_per_client && self.encoders.len() == 1;
        if let Some(every) = self.key_frame_interval {
            within("key_frame_interval", every, KEY_FRAME_INTERVALS)?;
        }
        if self.recovery == Recovery::None && self.key_frame_interval.is_none() {
            return Err("recovery = \"none\" requires key_frame_interval".to_owned());
        }
        if let Some(every) = self.refresh_interval {
            within("refresh_interval", every, REFRESHES)?;
            if self.recovery != Recovery::Refresh {
                return Err("refresh_interval requires recovery = \"intra-refresh\"".to_owned());
            }
        }
        Ok(Encoding {
            encoder: backend,
            options: match backend.options {
                Some(_) => self.encoder_options.clone(),
                None => EncoderOptions::NONE,
            },
            slices: self.slices,
            threads,
            subpel: self.subpel,
            pixels: self.pixels,
            rate: self.cbr.map(|cbr| match cbr {
                true => Rate::Cbr(range.max),
                false => Rate::Own,
            }),
            refresh_interval: self.refresh_interval,
            rendition: rendition::Settings {
                view: ViewId::FIRST,
                policy: rendition::PolicySettings {
                    fps: self.fps,
                    range,
                    adaptive: self.adaptive,
                    l4s: self.l4s,
                    recovery: self.recovery,
                    key_frame_interval: self.key_frame_interval,
                },
                static_refinement: self.static_refinement,
                constant_rate: self.constant_frame_rate,
                follows_display: self.follows_display && one,
                max_fps: self.max_fps.filter(|_| one),
            },
        })
    }

    /// The bitrate range.
    fn range(&self, encoder: &str) -> Result<Range, String> {
        let max = self.bitrate.unwrap_or(default_bitrate(encoder));
        let min = self.min_bitrate.unwrap_or(DEFAULT_MIN_BITRATE.min(max));
        let start = self.start_bitrate.unwrap_or(max);
        let bits = |rate: &Bitrate| rate.0;
        let bounds = bits(BITRATES.start())..=bits(BITRATES.end());
        within("bitrate", max.0, bounds.clone())?;
        within("min_bitrate", min.0, *bounds.start()..=max.0)?;
        within("start_bitrate", start.0, min.0..=max.0)?;
        Ok(Range { min, start, max })
    }
}

/// Default frame rate in Hz: the refresh rate of most displays.
pub const DEFAULT_FPS: f64 = 60.0;

/// The default bitrate for this encoder. JPEG at quality 70 took 54 Mbit/s, measured with a game at 1280x720 and 60
/// frames/s.
#[must_use]
pub fn default_bitrate(encoder: &str) -> Bitrate {
    Bitrate::from_mbps(match encoder {
        "jpeg" => 60,
        "raw" => 1000,
        _ => 20,
    })
}

/// Default number of encoder threads on a machine that the host shares with the application. Two threads halve the time
/// per picture (measured with host and client on the same two cores: 0.6 ms less at 720p and 1.5 ms at 1080p). Four
/// threads on a large machine are a guess.
#[must_use]
pub fn encoder_threads() -> u8 {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => 1,
        2..8 => 2,
        _ => 4,
    }
}

/// Refuses multicast and broadcast addresses, and link-local addresses without an interface. A socket can be bound to a
/// multicast or broadcast address, but no client can reach the host at it.
fn check_unicast(bind: SocketAddr) -> Result<(), String> {
    let ip = bind.ip();
    let refused = |what: &str| {
        Err(format!(
            "bind: {ip} is {what}: use an address of this machine, or [::] for all"
        ))
    };
    match bind {
        _ if ip.is_multicast() => refused("a multicast address"),
        SocketAddr::V4(_) if is_broadcast(bind) => refused("a broadcast address"),
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            Err(format!(
                "bind: {ip} is ambiguous (link-local): add the interface's number, which `ip link` shows, as in \
             [{ip}%2]:{}",
                bind.port()
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the kernel treats `to` as a broadcast address: the limited broadcast address, or the broadcast address of a
/// local network.
fn is_broadcast(to: SocketAddr) -> bool {
    let any = (Ipv4Addr::UNSPECIFIED, 0);
    let refused = UdpSocket::bind(any).and_then(|socket| socket.connect((to.ip(), PORT)));
    // connect(2) fails with EACCES for a broadcast address without SO_BROADCAST.
    let refused = refused.is_err_and(|why| why.kind() == ErrorKind::PermissionDenied);
    refused || to.ip() == Ipv4Addr::BROADCAST
}

/// The UDP address in an [`Opened::endpoint`]; `None` if only raw Ethernet is used.
#[must_use]
pub fn udp_address(endpoint: &str) -> Option<SocketAddr> {
    let address = endpoint.strip_prefix("UDP ")?.split(',').next()?;
    address.parse().ok()
}

/// The endpoint for clients, as text.
fn endpoint(link: &TransportSelector, only: Option<TransportKind>) -> String {
    match link.local_addr() {
        Some(address) => {
            let transport = link.transport(path_of(address)).name();
            let mut text = format!("UDP {address}, {transport}");
            let stations = link.stations().unwrap_or_default();
            for (n, (name, _)) in stations.iter().enumerate() {
                text += if n == 0 {
                    " and raw Ethernet on "
                } else {
                    ", "
                };
                text += name;
            }
            text
        }
        None => {
            let through = match only {
                Some(TransportKind::Xdp) => " through AF_XDP",
                Some(TransportKind::Ring) => " through mapped rings",
                _ => "",
            };
            let mut text = format!("raw Ethernet{through}, port {}", link.port());
            for (name, mac) in link.stations().unwrap_or_default() {
                text += &format!(", {mac} ({name})");
            }
            text
        }
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    what: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(format!("{what}: must be {least} to {most}, not {value}"))
}

#[cfg(test)]
mod tests;
