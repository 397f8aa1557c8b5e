//! What a host is told, in plain words and numbers: what another process, a C program or a file can
//! say.
//!
//! What it is not: it knows no options of a command line, and opens no source of pictures.

mod sound;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openuvr_media::audio::{application::Given, opus};
use openuvr_media::encode::{self, Backend, Pixels, Rate};
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_net::Link as _;
use openuvr_net::address::path_of;
use openuvr_net::ladder::Ladder;
use openuvr_proto::control::clipboard::ClipboardWays;
use openuvr_proto::control::identity::Identity;
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketGate;
use openuvr_proto::host::{HostPolicy, SecondPlayer};
use openuvr_proto::id::ViewId;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition;
use openuvr_proto::units::Bitrate;
use serde::{Deserialize, Serialize};

pub use self::sound::Sounds;
use super::{CLIPBOARD_WAYS, Encoding, Encodings, codec_of};
use crate::PORT;
use crate::identity_store::{self, load_or_create};
use crate::machine;
use crate::sched::Scheduler;
use crate::store;
use crate::trust_store::DeviceStore;

/// What the video may aim at.
pub const BITRATES: RangeInclusive<Bitrate> = Bitrate(100_000)..=Bitrate(1_000_000_000);

/// The least that an adaptive rate goes down to by itself (guess: a picture to recognise).
const DEFAULT_MIN_BITRATE: Bitrate = Bitrate(500_000);

/// Frames in which all of a picture is refreshed; with less than two there would be only key frames.
pub const REFRESHES: RangeInclusive<u16> = 2..=10_000;

/// Frames a second.
const RATES: RangeInclusive<f64> = 1.0..=240.0;

/// What a host is told. [`Config::default`] is what `openuvr host` does without options.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Its name at clients, at most [`machine::LONGEST_NAME`] bytes; empty: this machine's.
    pub name: String,
    /// Where clients reach it.
    pub bind: SocketAddr,
    /// The only transport that will do, by its [`Rung::name`]; `None`: all that work.
    pub link: Option<String>,
    /// The folder of keys and known devices; `None`: [`store::config_dir`].
    pub config_dir: Option<PathBuf>,
    /// Lets in a new device that knows this PIN.
    pub pin: Option<String>,
    /// Lets in a new device with a random PIN. Without either, that happens if no device is known.
    pub pair: bool,
    /// How long pairing stays open, in seconds.
    pub pair_for: u32,
    /// The key of a portal whose tickets are taken, as [`TicketKey`](openuvr_proto::control::ticket::TicketKey)
    /// writes it; then pairing is open only if that is asked for.
    pub ticket_key: Option<String>,
    /// Which session of the portal this is, by its UUID; with [`Config::ticket_key`].
    pub ticket_session: Option<String>,
    /// What a second player gets: `refuse`, `observe` or `take-over`.
    pub second_player: String,
    /// Most clients that only watch, 0–64.
    pub max_observers: u16,
    /// How its application reads keys, if a client's person says nothing else: `symbol` or `position`.
    pub keys: String,
    /// The encoders by their names in [`encode::BACKENDS`], the most wanted first: a client gets the first
    /// whose codec it decodes.
    pub encoders: Vec<String>,
    /// Whether each client gets an encoder of its own.
    pub each_its_own: bool,
    /// Slices a frame, 1–64.
    pub slices: u8,
    /// Encoder threads, 1–64; `None`: [`encoder_threads`].
    pub encoder_threads: Option<u8>,
    /// Whether motion is searched to quarters of a pixel; `None`: as the picture's size allows.
    pub subpel: Option<bool>,
    /// As what colours are coded, by [`Pixels::name`]; `None`: as the encoder usually does.
    pub pixels: Option<String>,
    /// Whether the encoder decides how many bits a picture gets; `None`: who usually does.
    pub cbr: Option<bool>,
    /// Most frames a second, 1–240; with [`Config::follows_display`], where the player's display is not
    /// known.
    pub fps: f64,
    /// Whether as many frames are sent at most as the player's display shows: with one encoder for all
    /// clients only.
    pub follows_display: bool,
    /// Bits per second that the video takes at most; `None`: what the encoder needs to be of use.
    pub bitrate: Option<u64>,
    /// The adaptive rate never goes below it; `None`: 0.5 Mb/s.
    pub min_bitrate: Option<u64>,
    /// Where the adaptive rate starts; `None`: at the highest.
    pub start_bitrate: Option<u64>,
    /// Whether the rate follows the link.
    pub adaptive: bool,
    /// What answers a loss: `skip-back`, `key-frame` or `refresh`.
    pub recovery: String,
    /// With `refresh`, all of the picture is refreshed every so many frames; `None`: only on need.
    pub refresh_every: Option<u16>,
    /// Whether a picture that does not move is sent again in better quality.
    pub top_up: bool,
    /// Every so many-th frame is a key frame; `None`: only on need.
    pub key_frame_every: Option<u32>,
    /// Whether the pointer of the application's display is sent: its shape and place.
    pub cursor: bool,
    /// The sound that clients may hear, in the words of [`crate::sound_choice::SoundChoice`]: `auto`, `off`, or
    /// a backend of [`openuvr_media::audio::CAPTURES`] and its device.
    pub sound: String,
    /// Where the player's microphone is heard: `off`, or a playback and its device, such as `pulse:SINK`.
    pub microphone: String,
    /// The sound that clients may hear is what the application of this process gives; [`Config::sound`] is not
    /// looked at then.
    #[serde(skip)]
    pub given: Option<Given>,
    /// How long a payload of sound is, in microseconds: 2500, 5000, 10000 or 20000.
    pub sound_frame: u32,
    /// Bits per second that sound takes, 16 000 to 510 000, without headers and repetitions.
    pub sound_bitrate: u64,
    /// Which ways text that is copied goes between the player and the application's display, by
    /// [`CLIPBOARD_WAYS`]: `off`, `to-host`, `to-client` or `both`.
    pub clipboard: String,
    /// In which folder the player's game pads are shown to the application's processes, which then have
    /// `libopenuvr_pads.so` and [`openuvr_media::pad::FOLDER`] in their environment; `None`: nowhere.
    pub pads_folder: Option<PathBuf>,
    /// Where gateways of another process reach the host: see [`crate::remote`]; `None`: nowhere.
    pub gateway: Option<PathBuf>,
    /// The pads that are there already in that folder.
    #[serde(skip)]
    pub seats: SeatSockets,
    /// Whether threads ask for real-time scheduling.
    pub realtime: bool,
    /// The cores of the threads that must not wait; empty: any.
    pub pin_cores: BTreeSet<usize>,
    /// Write a row for each frame and client here ([`crate::csv`]), if a guest is told this.
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
            pair_for: 120,
            ticket_key: None,
            ticket_session: None,
            second_player: "observe".into(),
            max_observers: 8,
            keys: "symbol".into(),
            encoders: vec!["x264".into()],
            each_its_own: false,
            slices: 8,
            encoder_threads: None,
            subpel: None,
            pixels: None,
            cbr: None,
            fps: DEFAULT_FPS,
            follows_display: true,
            bitrate: None,
            min_bitrate: None,
            start_bitrate: None,
            adaptive: true,
            recovery: "skip-back".into(),
            refresh_every: None,
            top_up: true,
            key_frame_every: None,
            cursor: true,
            sound: "auto".into(),
            microphone: "off".into(),
            given: None,
            sound_frame: 5_000,
            sound_bitrate: opus::BITRATE.0,
            clipboard: "off".into(),
            pads_folder: None,
            gateway: None,
            seats: SeatSockets::default(),
            realtime: true,
            pin_cores: BTreeSet::new(),
            csv: None,
        }
    }
}

/// What [`Config::open`] opened: all of a host but its pictures and its input.
pub struct Opened {
    /// The way to the clients.
    pub link: Arc<Ladder>,
    /// Where clients reach it, in words.
    pub endpoint: String,
    /// Who this host is.
    pub identity: Identity,
    /// Whom it knows.
    pub devices: DeviceStore,
    /// With what a new device may pair, and how long.
    pub pairing: Option<(Pin, Duration)>,
    /// What takes tickets, if they are taken.
    pub tickets: Option<TicketGate>,
    /// Names, roles, limits.
    pub policy: HostPolicy,
    /// How pictures are encoded, and for whom.
    pub encodings: Encodings,
    /// What clients may hear and say.
    pub sounds: Sounds,
}

impl Config {
    /// Opens what it names.
    ///
    /// # Errors
    /// One line: what is out of range, or can't be opened.
    pub fn open(&self) -> Result<Opened, String> {
        let encodings = Encodings::new(self.encodings()?, self.each_its_own);
        let mut policy = self.policy()?;
        let only = self.only()?;
        check_unicast(self.bind)?;
        let sounds = self.sounds()?;
        policy.streams.extend(sounds.streams());
        let pin = match &self.pin {
            Some(pin) => Some(Pin::parse(pin).map_err(|e| format!("pin: {e}"))?),
            None => None,
        };
        let tickets = self.tickets()?;
        let link = Ladder::host(self.bind, only).map_err(|e| e.to_string())?;
        let dir = match &self.config_dir {
            Some(dir) => dir.clone(),
            None => store::config_dir().map_err(|e| e.to_string())?,
        };
        let identity =
            load_or_create(&dir, identity_store::KeyOwner::Host).map_err(|e| e.to_string())?;
        let devices = DeviceStore::open(&dir).map_err(|e| e.to_string())?;
        let pin = match pin {
            None if self.pair || tickets.is_none() && devices.devices().is_empty() => {
                Some(Pin::generate().map_err(|e| e.to_string())?)
            }
            pin => pin,
        };
        let span = Duration::from_secs(self.pair_for.into());
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

    /// Looks at what can be looked at before anything is opened.
    ///
    /// # Errors
    /// One line: what is out of range.
    pub fn check(&self) -> Result<(), String> {
        self.encodings()?;
        self.policy()?;
        self.only()?;
        self.check_audio()?;
        self.tickets()?;
        self.clipboard_ways()?;
        check_unicast(self.bind)
    }

    /// What takes tickets, if they are taken.
    fn tickets(&self) -> Result<Option<TicketGate>, String> {
        match (&self.ticket_key, &self.ticket_session) {
            (None, None) => Ok(None),
            (Some(key), Some(session)) => {
                let key = key.parse().map_err(|e| format!("ticket_key: {e}"))?;
                let session = session
                    .parse()
                    .map_err(|e| format!("ticket_session: {e}"))?;
                Ok(Some(TicketGate::new(key, session)))
            }
            _ => Err("ticket_key and ticket_session belong together: give both".to_owned()),
        }
    }

    /// Which ways clipboard text goes.
    ///
    /// # Errors
    /// One line: which there are.
    pub fn clipboard_ways(&self) -> Result<ClipboardWays, String> {
        one_of("clipboard", &self.clipboard, &CLIPBOARD_WAYS)
    }

    /// How urgent its threads are.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        let scheduler = match self.realtime {
            true => Scheduler::new(),
            false => Scheduler::ordinary(),
        };
        scheduler.pinned_to(self.pin_cores.clone())
    }

    fn only(&self) -> Result<Option<Rung>, String> {
        let named = |name: &String| {
            let all = Rung::ALL.map(|transport| (transport.name(), transport));
            one_of("link", name, &all)
        };
        self.link.as_ref().map(named).transpose()
    }

    fn policy(&self) -> Result<HostPolicy, String> {
        let second = [
            ("refuse", SecondPlayer::Refuse),
            ("observe", SecondPlayer::Observe),
            ("take-over", SecondPlayer::TakeOver),
        ];
        let keys = [Keys::Symbol, Keys::Position].map(|keys| (keys.name(), keys));
        let codecs = self.encoders.iter().filter_map(|name| codec_of(name));
        let name = match self.name.as_str() {
            "" => machine::name(),
            name => machine::checked(name)?,
        };
        within("max_observers", self.max_observers, 0..=64)?;
        Ok(HostPolicy {
            name,
            codecs: codecs.fold(0, |all, codec| all | 1 << codec),
            second_player: one_of("second_player", &self.second_player, &second)?,
            max_observers: self.max_observers.into(),
            keys: one_of("keys", &self.keys, &keys)?,
            streams: Vec::new(),
        })
    }

    /// How pictures are encoded, by each of the encoders.
    ///
    /// # Errors
    /// What is out of range, and the range; an encoder that there is not, or that no client would ever
    /// get.
    pub fn encodings(&self) -> Result<Vec<Encoding>, String> {
        let backends = encode::find_all(&self.encoders).map_err(|e| format!("encoder: {e}"))?;
        backends
            .into_iter()
            .map(|found| self.encoding(found))
            .collect()
    }

    fn encoding(&self, backend: &Backend) -> Result<Encoding, String> {
        let range = self.range(backend.name)?;
        let pixels = [Pixels::Nv12, Pixels::Rgb444, Pixels::Yuv444].map(|p| (p.name(), p));
        let named = |name: &String| one_of("pixels", name, &pixels);
        let recovery = [
            ("skip-back", Recovery::SkipBack),
            ("key-frame", Recovery::KeyFrame),
            ("refresh", Recovery::Refresh),
        ];
        let recovery = one_of("recovery", &self.recovery, &recovery)?;
        if recovery == Recovery::Refresh && !backend.refreshes {
            return Err(format!(
                "recovery: the encoder {} can't refresh a picture by parts",
                backend.name
            ));
        }
        let threads = self.encoder_threads.unwrap_or_else(encoder_threads);
        within("slices", self.slices, 1..=encode::Settings::MAX_PARTS)?;
        within("encoder_threads", threads, 1..=encode::Settings::MAX_PARTS)?;
        within("fps", self.fps, RATES)?;
        if let Some(every) = self.key_frame_every {
            within("key_frame_every", every, 1..=100_000)?;
        }
        if let Some(every) = self.refresh_every {
            within("refresh_every", every, REFRESHES)?;
            one_of("recovery", &self.recovery, &[("refresh", ())])?;
        }
        Ok(Encoding {
            encoder: backend.name.to_owned(),
            slices: self.slices,
            threads,
            subpel: self.subpel,
            pixels: self.pixels.as_ref().map(named).transpose()?,
            rate: self.cbr.map(|cbr| match cbr {
                true => Rate::Cbr(range.max),
                false => Rate::Own,
            }),
            refresh_every: self.refresh_every,
            rendition: rendition::Settings {
                view: ViewId::FIRST,
                policy: rendition::PolicySettings {
                    fps: self.fps,
                    range,
                    adaptive: self.adaptive,
                    recovery,
                    key_frame_every: self.key_frame_every,
                },
                top_up: self.top_up,
                // All renditions are made of the pictures that one capture gives.
                follows_display: self.follows_display
                    && !self.each_its_own
                    && self.encoders.len() == 1,
            },
        })
    }

    /// Between what the rate may vary.
    fn range(&self, encoder: &str) -> Result<Range, String> {
        let max = self.bitrate.map_or(default_bitrate(encoder), Bitrate);
        let min = self.min_bitrate.map_or(DEFAULT_MIN_BITRATE.min(max), Bitrate);
        let start = self.start_bitrate.map_or(max, Bitrate);
        let bits = |rate: &Bitrate| rate.0;
        let bounds = bits(BITRATES.start())..=bits(BITRATES.end());
        within("bitrate", max.0, bounds.clone())?;
        within("min_bitrate", min.0, *bounds.start()..=max.0)?;
        within("start_bitrate", start.0, min.0..=max.0)?;
        Ok(Range { min, start, max })
    }
}

/// Frames a second where nobody says how many: what most displays show.
pub const DEFAULT_FPS: f64 = 60.0;

/// Bits per second that the encoder of this name needs to be of use. JPEG of quality 70 took
/// 54 Mbit/s, measured at 1280x720 and 60 frames/s of a game.
#[must_use]
pub fn default_bitrate(encoder: &str) -> Bitrate {
    Bitrate::from_mbps(match encoder {
        "jpeg" => 60,
        "raw" => 1000,
        _ => 20,
    })
}

/// Threads for an encoder that shares the machine with the application: two halve the time of a
/// picture (measured on two cores, both ends on them: 0.6 ms less at 720p and 1.5 ms at 1080p); four
/// on a large machine are a guess.
#[must_use]
pub fn encoder_threads() -> u8 {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => 1,
        2..8 => 2,
        _ => 4,
    }
}

/// Refuses an address that is not that of one machine: a socket takes it, and no client ever reaches
/// it there.
fn check_unicast(bind: SocketAddr) -> Result<(), String> {
    let ip = bind.ip();
    let refused = |what: &str| {
        Err(format!(
            "bind: {ip} is {what}: give an address of this machine, or [::] for all"
        ))
    };
    match bind {
        _ if ip.is_multicast() => refused("a multicast address"),
        SocketAddr::V4(_) if is_broadcast(bind) => refused("a broadcast address"),
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            Err(format!(
                "bind: {ip} is the same on each interface: say which by its number (ip link), such as \
             [{ip}%2]:{}",
                bind.port()
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the kernel takes it for one: that of all networks, or of one of ours.
fn is_broadcast(to: SocketAddr) -> bool {
    let any = (Ipv4Addr::UNSPECIFIED, 0);
    let refused = UdpSocket::bind(any).and_then(|socket| socket.connect((to.ip(), PORT)));
    // connect(2): a socket that was not made for broadcasts may not.
    let refused = refused.is_err_and(|why| why.kind() == ErrorKind::PermissionDenied);
    refused || to.ip() == Ipv4Addr::BROADCAST
}

/// The address of UDP that a [`Opened::endpoint`] names; `None` where there is only raw Ethernet.
#[must_use]
pub fn udp_address(endpoint: &str) -> Option<SocketAddr> {
    let address = endpoint.strip_prefix("UDP ")?.split(',').next()?;
    address.parse().ok()
}

/// Where clients reach this host.
fn endpoint(link: &Ladder, only: Option<Rung>) -> String {
    match link.local_addr() {
        Some(address) => {
            let transport = link.rung(path_of(address)).name();
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
                Some(Rung::Xdp) => " through AF_XDP",
                Some(Rung::Ring) => " through mapped rings",
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

fn one_of<T: Copy>(what: &str, word: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("{what}: {word:?} must be one of {}", names.join(", "))
    })
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
    Err(format!("{what}: {value} must be {least} to {most}"))
}

#[cfg(test)]
mod tests;
