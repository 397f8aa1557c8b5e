//! The sound that a host is told to send.

use std::time::Duration;

use openuvr_media::audio::{self, opus};
use openuvr_proto::units::Bitrate;

use super::super::AudioSource;
use super::{Config, within};
use crate::sound_choice::SoundChoice;

impl Config {
    /// The sound, if there is any, and else why not. It is opened once to see whether it can be.
    pub(super) fn audio(&self) -> Result<(Option<AudioSource>, Option<String>), String> {
        self.check_audio()?;
        let choice = SoundChoice::parse(&self.sound);
        let Some((name, device)) = choice.backend() else {
            return Ok((None, None));
        };
        let (name, settings) = (name.to_owned(), self.audio_settings(device));
        let tried = audio::open_capture(&name, &settings).map(drop);
        let tried = tried.and_then(|()| opus::Encoder::open(Bitrate(self.sound_bitrate), true));
        if let Err(why) = tried {
            return choice
                .without(&why.to_string())
                .map(|why| (None, Some(why)));
        }
        let source = AudioSource {
            frame: settings.frame,
            open: Box::new(move || audio::open_capture(&name, &settings)),
            bitrate: Bitrate(self.sound_bitrate),
        };
        Ok((Some(source), None))
    }

    fn audio_settings(&self, device: Option<&str>) -> audio::Settings {
        audio::Settings {
            device: device.map(str::to_owned),
            frame: Duration::from_micros(self.sound_frame.into()),
        }
    }

    pub(super) fn check_audio(&self) -> Result<(), String> {
        within("sound_bitrate", self.sound_bitrate, opus::BITRATES)?;
        match self.sound_frame {
            2_500 | 5_000 | 10_000 | 20_000 => Ok(()),
            other => Err(format!(
                "sound_frame: {other} \u{b5}s is no length of Opus: choose 2500, 5000, 10000 or 20000"
            )),
        }
    }
}
