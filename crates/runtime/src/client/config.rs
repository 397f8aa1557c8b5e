//! Client configuration as plain text and numbers, for use by a C program or a command line.
//!
//! This module opens no window and does not prompt for a PIN.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use openuvr_media::audio::{self, AudioPlayback, application::AppMicrophone, render::Renderer};
use openuvr_media::codec::Codec;
use openuvr_media::decode;
use openuvr_net::address::{address_of, path_of, path_of_station, station_of};
use openuvr_net::ether::Station;
use openuvr_net::neighbour;
use openuvr_net::transport_selection::TransportSelector;
use openuvr_proto::control::identity::{DeviceName, Identity, PublicKey};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::streams::{HOST_AUDIO, MICROPHONE};
use openuvr_proto::control::ticket::SignedTicket;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;

use super::{
    AudioSink, ClientSetup, MicrophoneSource, OpenSurface, SearchHost, StereoSettings, Target,
    Volume,
};
use crate::identity_store::{self, load_or_create};
use crate::machine;
use crate::sched::Scheduler;
use crate::sound_choice::SoundChoice;
use crate::store;
use crate::trust_store::HostStore;

/// Host key and ticket issued by a portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortalCredentials {
    /// The host's key.
    pub host: PublicKey,
    /// The ticket to present to the host.
    pub ticket: SignedTicket,
}

/// A client's configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The host.
    pub host: Target,
    /// The PIN that the host shows, for one pairing. The client does not use it with a known host.
    pub pin: Option<String>,
    /// Host key and ticket from a portal. They replace the PIN and the stored keys of known hosts.
    pub portal: Option<PortalCredentials>,
    /// Whether to pair even if the host is known.
    pub pair_again: bool,
    /// Whether to only observe.
    pub observe: bool,
    /// Whether to take over the player role, if the host allows it.
    pub take_over: bool,
    /// Forces a transport; `None` for the best transport that works.
    pub link: Option<TransportKind>,
    /// The name that the host shows, at most [`machine::LONGEST_NAME`] bytes; empty for this machine's name.
    pub name: String,
    /// The configuration folder, which contains the keys and known hosts; `None` for [`store::config_dir`].
    pub config_dir: Option<PathBuf>,
    /// The name of a decoder in [`decode::BACKENDS`], which replaces the other decoders of its codec; `None` for the
    /// first decoder of each codec in that table.
    pub decoder: Option<String>,
    /// Limits for the video that the client requests.
    pub constraints: ClientConstraints,
    /// Whether [`Config::decoder`] is the only decoder. A host that does not offer that decoder's codec then refuses
    /// the client.
    pub only_decoder: bool,
    /// The only accepted codec; `None` for all codecs that can be decoded.
    pub codec: Option<Codec>,
    /// Audio output, as parsed by [`SoundChoice`]: `auto`, `off`, or a backend of
    /// [`openuvr_media::audio::PLAYBACKS`] and its device.
    pub sound: String,
    /// The microphone: `off`, `on` (the default source), or a backend of [`openuvr_media::audio::CAPTURES`]
    /// and its device.
    pub microphone: String,
    /// The object from which the application in this process reads the sound. If it is set, [`Config::sound`] is
    /// ignored.
    pub taken: Option<AppMicrophone>,
    /// Volume in percent, 0 to [`Volume::MAX_PERCENT`]; 100 leaves the samples unchanged.
    pub volume: u32,
    /// Software name and version, for the host's log.
    pub software: String,
    /// Whether threads request real-time scheduling.
    pub realtime: bool,
    /// The cores on which the latency-critical threads run; empty for any cores.
    pub pin_cores: BTreeSet<usize>,
}

impl Config {
    /// The configuration of a player that connects to `host`, with default values.
    #[must_use]
    pub fn new(host: Target) -> Config {
        Config {
            host,
            pin: None,
            portal: None,
            pair_again: false,
            observe: false,
            take_over: false,
            link: None,
            name: String::new(),
            config_dir: None,
            decoder: None,
            constraints: ClientConstraints::default(),
            only_decoder: false,
            codec: None,
            sound: "auto".into(),
            microphone: "off".into(),
            taken: None,
            volume: 100,
            software: format!("openuvr {}", env!("CARGO_PKG_VERSION")),
            realtime: true,
            pin_cores: BTreeSet::new(),
        }
    }
}

/// The result of [`Config::open`]: all components of a client except the surface and the input.
pub struct Opened {
    /// The client's identity.
    pub identity: Identity,
    /// The device name that the client announces.
    pub name: DeviceName,
    /// The known hosts.
    pub hosts: HostStore,
    /// The name or address, with the port, under which the host is stored.
    pub host: String,
    /// The host's address as configured.
    pub target: Target,
    /// The host's addresses, best first.
    pub paths: Vec<PathId>,
    /// Searches for the host when it is lost: see [`ClientSetup::search`]. [`Config::open`] sets `None`.
    pub search: Option<SearchHost>,
    /// The PIN for one pairing.
    pub pin: Option<Pin>,
    /// Host key and ticket from a portal.
    pub portal: Option<PortalCredentials>,
    /// Whether to pair even if the host is known.
    pub pair_again: bool,
    /// The session offer.
    pub offer: Offer,
    /// The chosen decoder, if any.
    pub decoder: Option<decode::Backend>,
    /// H.264 decoders that do not work on this machine, each with the reason.
    pub unusable: Vec<String>,
    /// The transports to the host.
    pub link: Arc<TransportSelector>,
    /// The forced transport, if any.
    pub only: Option<TransportKind>,
    /// Audio output.
    pub audio: Option<AudioSink>,
    /// The microphone.
    pub microphone: Option<MicrophoneSource>,
    /// The reason why there is no sound although it was requested.
    pub no_sound_reason: Option<String>,
}

impl Opened {
    /// Whether pairing requires a PIN and none was given. Without credentials from a portal, pairing is required if the
    /// host is unknown or `pair_again` is set.
    #[must_use]
    pub fn needs_pin(&self) -> bool {
        self.pin.is_none()
            && self.portal.is_none()
            && (self.pair_again || self.hosts.key(&self.host).is_none())
    }

    /// The setup of a client with this surface. The surface's window is the only input source. The client has no head
    /// pose, clipboard, game pads or overlay, and does not reconnect to a lost host.
    #[must_use]
    pub fn setup(self, surface: OpenSurface, scheduler: Scheduler) -> ClientSetup {
        ClientSetup {
            identity: self.identity,
            name: self.name,
            hosts: self.hosts,
            host: self.host,
            target: self.target,
            paths: self.paths,
            search: self.search,
            pin: self.pin,
            portal: self.portal,
            pair_again: self.pair_again,
            offer: self.offer,
            decoder: self.decoder,
            link: self.link,
            only: self.only,
            surface,
            input: None,
            send_input: true,
            head: None,
            motion: None,
            eyes: StereoSettings::default(),
            audio: self.audio,
            microphone: self.microphone,
            clipboard: None,
            pads: None,
            overlay: false,
            reconnect: false,
            scheduler,
        }
    }

    /// Whether a PIN was given but is not used, because the host is known.
    #[must_use]
    pub fn ignores_pin(&self) -> bool {
        self.pin.is_some() && !self.pair_again && self.hosts.key(&self.host).is_some()
    }
}

impl Config {
    /// Opens everything that the configuration names. Resolves the host's name, so it may block for seconds.
    ///
    /// # Errors
    /// Returns a one-line error if a value is out of range or unknown, or a device cannot be opened.
    pub fn open(&self) -> Result<Opened, String> {
        let pin = match &self.pin {
            Some(pin) => Some(Pin::parse(pin).map_err(|e| format!("pin: {e}"))?),
            None => None,
        };
        let name = match self.name.as_str() {
            "" => machine::name(),
            name => machine::checked(name)?,
        };
        let decoder = self.decoder.as_deref().map(decode::find).transpose();
        let decoder = decoder.map_err(|e| e.to_string())?;
        let dir = match &self.config_dir {
            Some(dir) => dir.clone(),
            None => store::config_dir().map_err(|e| e.to_string())?,
        };
        let identity = load_or_create(&dir, identity_store::KeyOwner::Client);
        let identity = identity.map_err(|e| e.to_string())?;
        let hosts = HostStore::open(&dir).map_err(|e| e.to_string())?;
        let (link, only, paths) = reach(&self.host, self.link)?;
        let (audio, no_sound_reason) = self.audio(&paths)?;
        let microphone = self.microphone()?;
        let (decodable, unusable) = decodable(decoder, self.only_decoder)?;
        let codecs = match self.codec {
            None => decodable,
            Some(only) if decodable & 1 << only as u8 != 0 => 1 << only as u8,
            Some(only) => return Err(format!("no decoder for {} on this machine", only.name())),
        };
        let role = match self.observe {
            true => Role::Observer,
            false => Role::Player,
        };
        Ok(Opened {
            identity,
            name: DeviceName::new(&name),
            hosts,
            host: format!("{}:{}", self.host.host, self.host.port),
            target: self.host.clone(),
            paths,
            search: None,
            pin,
            portal: self.portal,
            pair_again: self.pair_again,
            offer: Offer {
                role,
                take_over: self.take_over,
                codecs,
                name,
                software: self.software.clone(),
                constraints: self.constraints,
                streams: [
                    audio.is_some().then_some(HOST_AUDIO),
                    microphone.is_some().then_some(MICROPHONE),
                ]
                .into_iter()
                .flatten()
                .collect(),
            },
            decoder: decoder.copied(),
            unusable,
            link: Arc::new(link),
            only,
            audio,
            microphone,
            no_sound_reason,
        })
    }

    /// The audio output, or the reason why there is none. The output is opened once as a check.
    ///
    /// A host on this machine captures the machine's sound output. Playing its sound on the same output would cause
    /// feedback, so `auto` then means no sound.
    fn audio(&self, host: &[PathId]) -> Result<(Option<AudioSink>, Option<String>), String> {
        if self.volume > Volume::MAX_PERCENT {
            let (volume, loudest) = (self.volume, Volume::MAX_PERCENT);
            return Err(format!(
                "volume: must be 0 to {loudest} percent, not {volume}"
            ));
        }
        let volume = Arc::new(Volume::new(self.volume));
        if let Some(taken) = self.taken.clone() {
            Renderer::open().map_err(|why| why.to_string())?;
            let open = Box::new(move || Ok(Box::new(taken.playback()) as Box<dyn AudioPlayback>));
            return Ok((Some(AudioSink { open, volume }), None));
        }
        let choice = playback_choice(&self.sound)?;
        let Some((name, device)) = choice.backend() else {
            return Ok((None, None));
        };
        let here =
            |path: &PathId| station_of(*path).is_none() && address_of(*path).ip().is_loopback();
        if choice == SoundChoice::Auto && host.iter().any(here) {
            let why = "the host is this machine and would capture the sound that the client plays: use --sound pulse:SINK";
            return Ok((None, Some(format!("no sound: {why}"))));
        }
        let (name, settings) = (
            name.to_owned(),
            audio::Settings {
                device: device.map(str::to_owned),
                ..audio::Settings::default()
            },
        );
        let tried = Renderer::open().and_then(|_| audio::open_playback(&name, &settings).map(drop));
        if let Err(why) = tried {
            return choice
                .fallback(&why.to_string())
                .map(|why| (None, Some(why)));
        }
        // If the output is a file, the check has created it, and each session appends to it.
        let settings = audio::Settings {
            resume: true,
            ..settings
        };
        let sink = AudioSink {
            open: Box::new(move || audio::open_playback(&name, &settings)),
            volume,
        };
        Ok((Some(sink), None))
    }

    /// The microphone, if it is shared with the host. It is opened once as a check, without using its samples.
    fn microphone(&self) -> Result<Option<MicrophoneSource>, String> {
        let choice = microphone_choice(&self.microphone)?;
        let Some((name, device)) = choice.backend() else {
            return Ok(None);
        };
        let (name, device) = (name.to_owned(), device.map(str::to_owned));
        let settings = audio::Settings {
            device,
            ..audio::Settings::default()
        };
        (audio::open_capture(&name, &settings).map(drop))
            .and_then(|()| audio::opus::version().map(drop))
            .map_err(|why| format!("microphone: {why}"))?;
        Ok(Some(MicrophoneSource {
            open: Box::new(move || audio::open_capture(&name, &settings)),
        }))
    }

    /// The scheduler for the client's threads.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        let scheduler = match self.realtime {
            true => Scheduler::new(),
            false => Scheduler::ordinary(),
        };
        scheduler.pinned_to(self.pin_cores.clone())
    }
}

/// Parses [`Config::sound`] without opening a device.
///
/// # Errors
/// Returns one line if the backend is unknown.
pub fn playback_choice(words: &str) -> Result<SoundChoice, String> {
    let choice = SoundChoice::parse(words);
    let names = audio::PLAYBACKS.iter().map(|backend| backend.name);
    choice.check(&["auto", "off"], names)?;
    Ok(choice)
}

/// Parses a configured microphone without opening a device.
///
/// # Errors
/// Returns one line if the backend is unknown.
pub fn microphone_choice(words: &str) -> Result<SoundChoice, String> {
    let words = match words {
        // The sound server's name for the default source, which is usually a microphone. Without a device name, the
        // backend would record the monitor of a sink.
        "on" => "pulse:@DEFAULT_SOURCE@",
        "auto" => return Err("microphone: choose off, on, or a device".to_owned()),
        words => words,
    };
    let choice = SoundChoice::parse(words);
    let names = audio::CAPTURES.iter().map(|backend| backend.name);
    (choice.check(&["off", "on"], names)).map_err(|why| format!("microphone: {why}"))?;
    Ok(choice)
}

/// The codecs that can be decoded on this machine, one bit each, and the H.264 decoders that do not work, each with the
/// reason. Only the first decoder in the table is tried for each codec. The `chosen` decoder, if any, replaces the
/// table's decoders of the same codec. With `only`, no other decoder is tried.
fn decodable(chosen: Option<&decode::Backend>, only: bool) -> Result<(u32, Vec<String>), String> {
    if let Some(chosen) = chosen {
        // Report an error instead of silently falling back to another decoder.
        decode::probe(chosen).map_err(|e| e.to_string())?;
    }
    let of = |codec: u8| 1_u32 << codec;
    let mut seen = chosen.map_or(0, |chosen| of(chosen.codec as u8));
    let mut bits = seen;
    let mut unusable = Vec::new();
    if only && chosen.is_some() {
        return Ok((bits, unusable));
    }
    for backend in decode::BACKENDS {
        let bit = of(backend.codec as u8);
        if seen & bit != 0 {
            // An earlier backend of the same codec takes precedence.
            continue;
        }
        seen |= bit;
        match (backend.open)() {
            Ok(_) => bits |= bit,
            // Report only H.264 decoders, because hosts send H.264 by default.
            Err(e) if backend.codec == Codec::H264 => {
                unusable.push(format!("{}: {e}", backend.name));
            }
            Err(e) => tracing::debug!(decoder = backend.name, %e, "not usable"),
        }
    }
    Ok((bits, unusable))
}

/// Opens a link to a host. Returns the link, the forced transport, and the host's paths.
fn reach(
    target: &Target,
    only: Option<TransportKind>,
) -> Result<(TransportSelector, Option<TransportKind>, Vec<PathId>), String> {
    let text = |e: openuvr_net::LinkError| e.to_string();
    let only = match target.ethernet() {
        Some(_) if only.is_some_and(|transport| !transport.is_ethernet()) => {
            return Err(
                "a host specified by its Ethernet address can't be reached over UDP: use --link raw, or its IP \
                 address"
                    .to_owned(),
            );
        }
        Some(_) => only.or(Some(TransportKind::Raw)),
        None => only,
    };
    // Open the link first, so that a missing privilege is reported even if the host is unreachable.
    let link = TransportSelector::client(only).map_err(text)?;
    let paths = paths_to(target, only)?;
    let station = paths.first().and_then(|path| station_of(*path));
    if let (Some(TransportKind::Xdp), Some(station)) = (only, station) {
        link.open_xdp(station.interface).map_err(text)?;
    }
    Ok((link, only, paths))
}

/// The paths to a host, best first. Resolves the host's name and, if raw Ethernet is forced, looks up the host's entry
/// in the neighbour table. May block for seconds.
pub(super) fn paths_to(
    target: &Target,
    only: Option<TransportKind>,
) -> Result<Vec<PathId>, String> {
    if let Some((interface, mac)) = target.ethernet() {
        let interface = neighbour::interface(interface).map_err(|e| e.to_string())?;
        let port = target.port;
        return Ok(vec![path_of_station(Station {
            mac,
            interface,
            port,
        })]);
    }
    let addresses = target.resolve();
    let addresses = addresses.map_err(|e| {
        format!(
            "can't find the host {:?} ({e}): check the name, or use an address that `ip address` shows at the host",
            target.host
        )
    })?;
    if addresses.is_empty() {
        return Err(format!("the name {:?} has no address", target.host));
    }
    let Some(transport) = only.filter(|transport| transport.is_ethernet()) else {
        return Ok(addresses.into_iter().map(path_of).collect());
    };
    let found = addresses.into_iter().map(neighbour::resolve);
    let (stations, reasons): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    if let (true, Some(Err(why))) = (stations.is_empty(), reasons.into_iter().next()) {
        return Err(format!("link {} is unavailable: {why}", transport.name()));
    }
    Ok(stations
        .into_iter()
        .flatten()
        .map(path_of_station)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_this_machine_is_not_heard_by_itself() {
        let config = Config::new("127.0.0.1".parse().expect("an address"));
        let paths = [path_of(([127, 0, 0, 1], 4710).into())];
        let (audio, no_sound_reason) = config.audio(&paths).expect("no error");
        assert!(audio.is_none());
        assert!(no_sound_reason.expect("why").contains("this machine"));
        let named = Config {
            sound: "null".into(),
            ..config
        };
        let (audio, no_sound_reason) = named.audio(&paths).expect("null is always available");
        assert!(
            audio.is_some() && no_sound_reason.is_none(),
            "{no_sound_reason:?}"
        );
    }
}
