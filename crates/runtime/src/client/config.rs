//! What a client is told, in plain words and numbers: what a C program can say.
//!
//! What it is not: it knows no options of a command line, and opens no window.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use openuvr_media::codec::Codec;
use openuvr_media::decode;
use openuvr_media::input_source::InputSource;
use openuvr_proto::control::identity::DeviceName;
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::negotiate::{Offer, Role};
use openuvr_proto::control::pairing::Pin;

use super::target::{Reached, Target};
use super::{ClientSetup, OpenSurface};
use crate::identity_store::{self, load_or_create};
use crate::sched::Scheduler;
use crate::store;
use crate::trust_store::HostStore;

/// What a client is told. [`Config::default`] is what `openuvr client` does without options, but it
/// knows no host.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The host, as a [`Target`] is written.
    pub host: String,
    /// The PIN that it shows, for the first meeting.
    pub pin: Option<String>,
    /// The only transport that will do, by its [`Rung::name`]; `None`: the best that works.
    pub link: Option<String>,
    /// The folder of keys and known hosts; `None`: [`store::config_dir`].
    pub config_dir: Option<PathBuf>,
    /// This client's name at the host.
    pub name: String,
    /// Only watch.
    pub observe: bool,
    /// Take the player's role from whoever has it.
    pub take_over: bool,
    /// Look for a lost host again.
    pub reconnect: bool,
    /// The decoder of H.264 by its name in [`decode::BACKENDS`]; `None`: the first.
    pub decoder: Option<String>,
    /// Whether threads ask for real-time scheduling.
    pub realtime: bool,
    /// The cores of the threads that must not wait; empty: any.
    pub pin_cores: BTreeSet<usize>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            host: String::new(),
            pin: None,
            link: None,
            config_dir: None,
            name: "openuvr".into(),
            observe: false,
            take_over: false,
            reconnect: true,
            decoder: None,
            realtime: true,
            pin_cores: BTreeSet::new(),
        }
    }
}

impl Config {
    /// Opens what it names; pictures go to `surface`, and `input` comes beside that of its window.
    ///
    /// # Errors
    /// One line: what is missing, out of range, or can't be opened. A host that is not known yet
    /// needs a PIN.
    pub fn open(
        &self,
        surface: OpenSurface,
        input: Option<Box<dyn InputSource>>,
        send_input: bool,
    ) -> Result<ClientSetup, String> {
        let target: Target = self.host.parse().map_err(|e| format!("{e}"))?;
        let pin = self.pin.as_deref().map(Pin::parse).transpose();
        let pin = pin.map_err(|e| format!("pin: {e}"))?;
        let decoder = match &self.decoder {
            Some(name) => Some(decode::find(name).map_err(|e| e.to_string())?),
            None => None,
        };
        let dir = match &self.config_dir {
            Some(dir) => dir.clone(),
            None => store::config_dir().map_err(|e| e.to_string())?,
        };
        let identity =
            load_or_create(&dir, identity_store::Role::Client).map_err(|e| e.to_string())?;
        let hosts = HostStore::open(&dir).map_err(|e| e.to_string())?;
        let host = target.remembered_as();
        if pin.is_none() && hosts.key(&host).is_none() {
            return Err(format!(
                "the host {host} is not known yet: give the PIN that it shows"
            ));
        }
        let (codecs, unusable) = decodable(decoder)?;
        for why in unusable {
            tracing::warn!("{why}");
        }
        let Reached { link, only, paths } = target.reach(self.only()?)?;
        let scheduler = match self.realtime {
            true => Scheduler::new(),
            false => Scheduler::ordinary(),
        };
        Ok(ClientSetup {
            identity,
            name: DeviceName::new(&self.name),
            hosts,
            host,
            paths,
            pin,
            offer: Offer {
                role: match self.observe {
                    true => Role::Observer,
                    false => Role::Player,
                },
                take_over: self.take_over,
                codecs,
                name: self.name.clone(),
                software: format!("openuvr {}", env!("CARGO_PKG_VERSION")),
            },
            decoder: decoder.copied(),
            link: Arc::new(link),
            only,
            surface,
            input,
            send_input,
            overlay: false,
            reconnect: self.reconnect,
            scheduler: scheduler.pinned_to(self.pin_cores.clone()),
        })
    }

    fn only(&self) -> Result<Option<Rung>, String> {
        let Some(name) = &self.link else {
            return Ok(None);
        };
        let found = Rung::ALL.into_iter().find(|rung| rung.name() == name);
        let found = found.ok_or_else(|| {
            let names = Rung::ALL.map(Rung::name).join(", ");
            format!("link: {name:?} must be one of {names}")
        });
        found.map(Some)
    }
}

/// The codecs that can be decoded here, a bit each; of H.264 with what was chosen. Beside it, in
/// words, why what most hosts send is not among them, if it is not.
///
/// # Errors
/// One line, if what was chosen does not decode here: never silently another one.
pub fn decodable(chosen: Option<&decode::Backend>) -> Result<(u32, Vec<String>), String> {
    if let Some(chosen) = chosen {
        decode::probe(chosen).map_err(|e| e.to_string())?;
    }
    let of = |codec: u8| 1_u32 << codec;
    let mut seen = chosen.map_or(0, |chosen| of(chosen.codec as u8));
    let mut bits = seen;
    let mut unusable = Vec::new();
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
