//! Sound of their own for applications that we start: a sink that is heard at the clients alone, and a
//! microphone that only they record from.

use std::process::Command;

use anyhow::{Result, anyhow};
use openuvr_media::audio::pulse::{NullSink, VirtualMicrophone};
use openuvr_runtime::sound_choice::SoundChoice;

/// As long as the application runs.
#[derive(Default)]
pub(crate) struct OwnSound {
    heard: Option<NullSink>,
    spoken: Option<VirtualMicrophone>,
    /// Why there is no sink, where one was wanted.
    pub(crate) silent: Option<String>,
}

impl OwnSound {
    /// Makes what a host's `--sound` and `--microphone` ask for, and puts the names there: for `auto` a sink,
    /// for `on` a microphone. Without a sound server the sound is off.
    ///
    /// # Errors
    /// A microphone is wanted, and there is none.
    pub(crate) fn make(sound: &mut String, microphone: &mut String) -> Result<OwnSound> {
        let mut own = OwnSound::microphone(microphone)?;
        if SoundChoice::parse(sound) == SoundChoice::Auto {
            match NullSink::create(None) {
                Ok(sink) => {
                    *sound = format!("pulse:{}", sink.name());
                    own.heard = Some(sink);
                }
                Err(why) => {
                    "off".clone_into(sound);
                    own.silent = Some(format!("no sound: {why}"));
                }
            }
        }
        Ok(own)
    }

    /// The microphone alone, for a host whose application somebody else has started.
    ///
    /// # Errors
    /// One is wanted, and there is none.
    pub(crate) fn microphone(words: &mut String) -> Result<OwnSound> {
        let mut own = OwnSound::default();
        if words == "on" {
            let made = VirtualMicrophone::create(None);
            let made = made.map_err(|why| anyhow!("no microphone: {why}"))?;
            *words = format!("pulse:{}", made.sink());
            own.spoken = Some(made);
        }
        Ok(own)
    }

    /// The name of the microphone's source.
    pub(crate) fn source(&self) -> Option<&str> {
        self.spoken.as_ref().map(VirtualMicrophone::source)
    }

    /// Tells an application where it plays and records.
    pub(crate) fn surround(&self, command: &mut Command) {
        if let Some(sink) = &self.heard {
            command.env("PULSE_SINK", sink.name());
        }
        if let Some(microphone) = &self.spoken {
            command.env("PULSE_SOURCE", microphone.source());
        }
    }
}
