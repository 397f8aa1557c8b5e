//! A host's sound configuration.

use std::sync::Arc;
use std::time::Duration;

use openuvr_media::audio::{self, opus, render::Renderer};
use openuvr_proto::control::streams::{HOST_AUDIO, MICROPHONE, StreamOffer};

use super::super::{AudioSink, AudioSource};
use super::{Config, within};
use crate::sound_choice::SoundChoice;
use crate::sound_player::Volume;

/// The sound for clients, and the output for the player's microphone.
pub struct Sounds {
    /// The sound sent to clients.
    pub audio: Option<AudioSource>,
    /// The reason why there is no sound although it was requested.
    pub no_sound_reason: Option<String>,
    /// The output for the player's microphone.
    pub microphone: Option<AudioSink>,
}

impl Sounds {
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamOffer> + use<> {
        let audio = self.audio.is_some().then_some(HOST_AUDIO);
        let microphone = self.microphone.is_some().then_some(MICROPHONE);
        audio.into_iter().chain(microphone)
    }
}

impl Config {
    /// Opens the configured devices.
    pub(super) fn sounds(&self) -> Result<Sounds, String> {
        self.check_audio()?;
        let (audio, no_sound_reason) = self.audio()?;
        Ok(Sounds {
            audio,
            no_sound_reason,
            microphone: self.microphone()?,
        })
    }

    /// The sound source, or the reason why there is none. The source is opened once as a check.
    fn audio(&self) -> Result<(Option<AudioSource>, Option<String>), String> {
        let bitrate = self.sound_bitrate;
        if let Some(given) = self.given.clone() {
            opus::Encoder::open(bitrate, true).map_err(|why| why.to_string())?;
            let source = AudioSource {
                frame: self.audio_settings(None).frame,
                open: Box::new(move || Ok(Box::new(given.capture()))),
                bitrate,
            };
            return Ok((Some(source), None));
        }
        let choice = &self.sound;
        let Some((name, device)) = choice.backend() else {
            return Ok((None, None));
        };
        let (name, settings) = (name.to_owned(), self.audio_settings(device));
        let tried = audio::open_capture(&name, &settings).map(drop);
        let tried = tried.and_then(|()| opus::Encoder::open(bitrate, true));
        if let Err(why) = tried {
            return choice
                .fallback(&why.to_string())
                .map(|why| (None, Some(why)));
        }
        let source = AudioSource {
            frame: settings.frame,
            open: Box::new(move || audio::open_capture(&name, &settings)),
            bitrate,
        };
        Ok((Some(source), None))
    }

    /// The output for the player's microphone, if configured. It is opened once as a check.
    fn microphone(&self) -> Result<Option<AudioSink>, String> {
        let Some((name, device)) = self.microphone.backend() else {
            return Ok(None);
        };
        let (name, settings) = (name.to_owned(), self.audio_settings(device));
        (Renderer::open().and_then(|_| audio::open_playback(&name, &settings)))
            .map_err(|why| format!("microphone: {why}"))?;
        // If the output is a file, the check has created it, and each session appends to it.
        let settings = audio::Settings {
            resume: true,
            ..settings
        };
        Ok(Some(AudioSink {
            open: Box::new(move || audio::open_playback(&name, &settings)),
            volume: Arc::new(Volume::new(100)),
        }))
    }

    fn audio_settings(&self, device: Option<&str>) -> audio::Settings {
        audio::Settings {
            device: device.map(str::to_owned),
            frame: Duration::from_micros(self.sound_frame.into()),
            ..audio::Settings::default()
        }
    }

    /// Checks the values without opening a device.
    pub(super) fn check_audio(&self) -> Result<(), String> {
        within("sound_bitrate", self.sound_bitrate.0, opus::BITRATES)?;
        if self.given.is_none() {
            let names = audio::CAPTURES.iter().map(|backend| backend.name);
            self.sound.check(&["auto", "off"], names)?;
        }
        if self.microphone == SoundChoice::Auto {
            return Err(
                "microphone: auto is not supported: choose off, on, or a sink such as pulse:SINK"
                    .to_owned(),
            );
        }
        let names = audio::PLAYBACKS.iter().map(|backend| backend.name);
        (self.microphone.check(&["off", "on"], names))
            .map_err(|why| format!("microphone: {why}"))?;
        match self.sound_frame {
            2_500 | 5_000 | 10_000 | 20_000 => Ok(()),
            other => Err(format!(
                "sound_frame: must be 2500, 5000, 10000 or 20000 \u{b5}s, not {other}"
            )),
        }
    }
}
