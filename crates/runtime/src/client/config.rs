//! What a client is told, in plain words and numbers: what a C program or a command line can say.
//!
//! What it is not: it opens no window and asks nobody for a PIN.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use openuvr_media::audio::{self, AudioPlayback, application::Taken, render::Renderer};
use openuvr_media::codec::Codec;
use openuvr_media::decode;
use openuvr_net::address::{address_of, path_of, path_of_station, station_of};
use openuvr_net::ether::Station;
use openuvr_net::ladder::Ladder;
use openuvr_net::neighbour;
use openuvr_proto::control::identity::{DeviceName, Identity, PublicKey};
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::negotiate::{Offer, Role, Wishes};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::streams::{HOST_AUDIO, MICROPHONE};
use openuvr_proto::control::ticket::SignedTicket;
use openuvr_proto::id::PathId;

use super::{AudioSink, MicrophoneSource, Target, Volume};
use crate::identity_store::{self, load_or_create};
use crate::machine;
use crate::sched::Scheduler;
use crate::sound_choice::SoundChoice;
use crate::store;
use crate::trust_store::HostStore;

/// What a portal says of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortalWord {
    /// Its key.
    pub host: PublicKey,
    /// What it is to be shown.
    pub ticket: SignedTicket,
}

/// What a client is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The host.
    pub host: Target,
    /// The PIN that it shows, for one pairing; not used for a host that is known.
    pub pin: Option<String>,
    /// What a portal says of the host; then neither PIN nor known hosts are looked at.
    pub portal: Option<PortalWord>,
    /// Whether to pair although the host is known.
    pub pair_again: bool,
    /// Whether it only watches.
    pub observe: bool,
    /// Whether it takes the player's role from whoever has it, if the host allows it.
    pub take_over: bool,
    /// The only transport that will do; `None`: the best that works.
    pub link: Option<Rung>,
    /// Its name at the host, at most [`machine::LONGEST_NAME`] bytes; empty: this machine's.
    pub name: String,
    /// The folder of keys and known hosts; `None`: [`store::config_dir`].
    pub config_dir: Option<PathBuf>,
    /// What decodes H.264, by its name in [`decode::BACKENDS`]; `None`: the first that can.
    pub decoder: Option<String>,
    /// What is wanted of the video.
    pub wishes: Wishes,
    /// Whether it decodes with [`Config::decoder`] or not at all: a host that encodes otherwise refuses
    /// it.
    pub only_decoder: bool,
    /// The only codec that is taken; `None`: whichever can be decoded.
    pub codec: Option<Codec>,
    /// Where sound goes, in the words of [`SoundChoice`]: `auto`, `off`, or a backend of
    /// [`openuvr_media::audio::PLAYBACKS`] and its device.
    pub sound: String,
    /// The person's microphone: `off`, `on` (the usual one), or a backend of
    /// [`openuvr_media::audio::CAPTURES`] and its device.
    pub microphone: String,
    /// The application of this process takes the sound; [`Config::sound`] is not looked at then.
    pub taken: Option<Taken>,
    /// How loud it is, in per cent, 0 to [`Volume::LOUDEST`]: 100 leaves samples as they are.
    pub volume: u32,
    /// The software and its version, for the host's log.
    pub software: String,
    /// Whether threads ask for real-time scheduling.
    pub realtime: bool,
    /// The cores of the threads that must not wait; empty: any.
    pub pin_cores: BTreeSet<usize>,
}

impl Config {
    /// A player at `host`, with what is usual.
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
            wishes: Wishes::default(),
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

/// What [`Config::open`] opened: all of a client but its surface and its input.
pub struct Opened {
    /// Who this client is.
    pub identity: Identity,
    /// What it calls itself.
    pub name: DeviceName,
    /// Whom it knows.
    pub hosts: HostStore,
    /// The host, as it is remembered.
    pub host: String,
    /// The host, as it was named.
    pub target: Target,
    /// Its addresses, best first.
    pub paths: Vec<PathId>,
    /// The PIN for one pairing.
    pub pin: Option<Pin>,
    /// What a portal says of the host.
    pub portal: Option<PortalWord>,
    /// Whether to pair although the host is known.
    pub pair_again: bool,
    /// What is asked of the host.
    pub offer: Offer,
    /// What decodes H.264, if it was chosen.
    pub decoder: Option<decode::Backend>,
    /// What else could decode H.264, and why it can't here.
    pub unusable: Vec<String>,
    /// The ways there.
    pub link: Arc<Ladder>,
    /// The one transport that will do.
    pub only: Option<Rung>,
    /// Where sound goes.
    pub audio: Option<AudioSink>,
    /// The person's microphone.
    pub microphone: Option<MicrophoneSource>,
    /// Why it goes nowhere, where it could.
    pub silent: Option<String>,
}

impl Opened {
    /// Whether a PIN is missing: the host is not known, or is to be paired with again.
    #[must_use]
    pub fn needs_pin(&self) -> bool {
        self.pin.is_none()
            && self.portal.is_none()
            && (self.pair_again || self.hosts.key(&self.host).is_none())
    }

    /// Whether there is a PIN that is not used, because the host is known.
    #[must_use]
    pub fn needs_no_pin(&self) -> bool {
        self.pin.is_some() && !self.pair_again && self.hosts.key(&self.host).is_some()
    }
}

impl Config {
    /// Opens what it names. Asks the name service: may block for seconds.
    ///
    /// # Errors
    /// One line: what is out of range, unknown, or can't be opened.
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
        let (audio, silent) = self.audio(&paths)?;
        let microphone = self.microphone()?;
        let (decodable, unusable) = decodable(decoder, self.only_decoder)?;
        let codecs = match self.codec {
            None => decodable,
            Some(only) if decodable & 1 << only as u8 != 0 => 1 << only as u8,
            Some(only) => return Err(format!("{} can't be decoded here", only.name())),
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
            pin,
            portal: self.portal,
            pair_again: self.pair_again,
            offer: Offer {
                role,
                take_over: self.take_over,
                codecs,
                name,
                software: self.software.clone(),
                wishes: self.wishes,
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
            silent,
        })
    }

    /// Where sound goes, and else why nowhere. It is opened once to see whether it can be.
    ///
    /// A host on this machine records what this machine plays: to play that again would be heard again, and so
    /// on without end.
    fn audio(&self, host: &[PathId]) -> Result<(Option<AudioSink>, Option<String>), String> {
        if self.volume > Volume::LOUDEST {
            let (volume, loudest) = (self.volume, Volume::LOUDEST);
            return Err(format!("volume: {volume} per cent must be 0 to {loudest}"));
        }
        let volume = Arc::new(Volume::new(self.volume));
        if let Some(taken) = self.taken.clone() {
            Renderer::open().map_err(|why| why.to_string())?;
            let open = Box::new(move || Ok(Box::new(taken.playback()) as Box<dyn AudioPlayback>));
            return Ok((Some(AudioSink { open, volume }), None));
        }
        let choice = SoundChoice::parse(&self.sound);
        let names = audio::PLAYBACKS.iter().map(|backend| backend.name);
        choice.check(&["auto", "off"], names)?;
        let Some((name, device)) = choice.backend() else {
            return Ok((None, None));
        };
        let here =
            |path: &PathId| station_of(*path).is_none() && address_of(*path).ip().is_loopback();
        if choice == SoundChoice::Auto && host.iter().any(here) {
            let why =
                "the host is this machine: name the device that is to play (--sound pulse:SINK)";
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
                .without(&why.to_string())
                .map(|why| (None, Some(why)));
        }
        let sink = AudioSink {
            open: Box::new(move || audio::open_playback(&name, &settings)),
            volume,
        };
        Ok((Some(sink), None))
    }

    /// The person's microphone, if the host may hear it. It is opened once to see whether it can be; nothing of
    /// that is kept.
    fn microphone(&self) -> Result<Option<MicrophoneSource>, String> {
        let words = match self.microphone.as_str() {
            // The sound server's name for the usual source: no sink's monitor.
            "on" => "pulse:@DEFAULT_SOURCE@",
            "auto" => return Err("microphone: choose off, on, or a device".to_owned()),
            words => words,
        };
        let choice = SoundChoice::parse(words);
        let names = audio::CAPTURES.iter().map(|backend| backend.name);
        (choice.check(&["off", "on"], names)).map_err(|why| format!("microphone: {why}"))?;
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

    /// How urgent its threads are.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        let scheduler = match self.realtime {
            true => Scheduler::new(),
            false => Scheduler::ordinary(),
        };
        scheduler.pinned_to(self.pin_cores.clone())
    }
}

/// The codecs that can be decoded here, a bit each, of H.264 with what was chosen; and why what
/// decodes H.264 does not, where it is so.
fn decodable(chosen: Option<&decode::Backend>, only: bool) -> Result<(u32, Vec<String>), String> {
    if let Some(chosen) = chosen {
        // Never silently another one.
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
            // Not what would be opened.
            continue;
        }
        seen |= bit;
        match (backend.open)() {
            Ok(_) => bits |= bit,
            // What hosts send unless they are told otherwise.
            Err(e) if backend.codec == Codec::H264 => {
                unusable.push(format!("{}: {e}", backend.name));
            }
            Err(e) => tracing::debug!(decoder = backend.name, %e, "not usable"),
        }
    }
    Ok((bits, unusable))
}

/// Opens a link to a host: the link, the one transport that will do, and the host's paths.
fn reach(
    target: &Target,
    only: Option<Rung>,
) -> Result<(Ladder, Option<Rung>, Vec<PathId>), String> {
    let said = |e: openuvr_net::LinkError| e.to_string();
    let only = match target.ethernet() {
        Some(_) if only.is_some_and(|rung| !rung.is_ethernet()) => {
            return Err(
                "a host that is named by its Ethernet address is reached by raw Ethernet alone, \
                 not by UDP: choose another link"
                    .to_owned(),
            );
        }
        Some(_) => only.or(Some(Rung::Raw)),
        None => only,
    };
    // The privilege first: it is wanted without a host, too.
    let link = Ladder::client(only).map_err(said)?;
    let paths = paths_to(target, only)?;
    let station = paths.first().and_then(|path| station_of(*path));
    if let (Some(Rung::Xdp), Some(station)) = (only, station) {
        link.open_xdp(station.interface).map_err(said)?;
    }
    Ok((link, only, paths))
}

/// The paths to a host, best first. Asks the name service, and the neighbours if nothing but raw
/// Ethernet will do: may block for seconds.
pub(super) fn paths_to(target: &Target, only: Option<Rung>) -> Result<Vec<PathId>, String> {
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
            "can't find the host {:?} ({e}): check the name, or give the address that `ip address` \
             shows there",
            target.host
        )
    })?;
    if addresses.is_empty() {
        return Err(format!("the name {:?} has no address", target.host));
    }
    let Some(rung) = only.filter(|rung| rung.is_ethernet()) else {
        return Ok(addresses.into_iter().map(path_of).collect());
    };
    let found = addresses.into_iter().map(neighbour::find);
    let (stations, reasons): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    if let (true, Some(Err(why))) = (stations.is_empty(), reasons.into_iter().next()) {
        return Err(format!("no link {}: {why}", rung.name()));
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
        let (audio, silent) = config.audio(&paths).expect("no error");
        assert!(audio.is_none());
        assert!(silent.expect("why").contains("this machine"));
        let named = Config {
            sound: "null".into(),
            ..config
        };
        let (audio, silent) = named.audio(&paths).expect("it is always there");
        assert!(audio.is_some() && silent.is_none(), "{silent:?}");
    }
}
