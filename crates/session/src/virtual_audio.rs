//! Virtual audio devices for the applications that a host starts: a sink whose sound only clients play, and a
//! microphone from which only these applications record.

use std::process::Command;

use anyhow::{Result, anyhow};
use openuvr_media::audio::pulse::{NullSink, VirtualMicrophone};
use openuvr_runtime::sound_choice::SoundChoice;

/// The devices. They exist as long as this value.
#[derive(Default)]
pub struct VirtualAudio {
    sink: Option<NullSink>,
    microphone: Option<VirtualMicrophone>,
    /// The reason why there is no sink, although one was configured.
    pub silent: Option<String>,
}

fn pulse(device: &str) -> SoundChoice {
    SoundChoice::Backend {
        name: "pulse".to_owned(),
        device: Some(device.to_owned()),
    }
}

impl VirtualAudio {
    /// Creates a sink if `sound` is `auto`, and a microphone if `microphone` is `on`, and stores their names in these
    /// settings. Without a sound server, the sound is disabled.
    ///
    /// # Errors
    /// Returns an error if the configured microphone cannot be created.
    pub fn create(sound: &mut SoundChoice, microphone: &mut SoundChoice) -> Result<VirtualAudio> {
        let mut own = VirtualAudio::microphone(microphone)?;
        if *sound == SoundChoice::Auto {
            match NullSink::create(None) {
                Ok(sink) => {
                    *sound = pulse(sink.name());
                    own.sink = Some(sink);
                }
                Err(why) => {
                    *sound = SoundChoice::Off;
                    own.silent = Some(format!("no sound: {why}"));
                }
            }
        }
        Ok(own)
    }

    /// Creates only the microphone, for a host that has not started the application.
    ///
    /// # Errors
    /// Returns an error if the configured microphone cannot be created.
    pub fn microphone(choice: &mut SoundChoice) -> Result<VirtualAudio> {
        let mut own = VirtualAudio::default();
        if *choice == SoundChoice::parse("on") {
            let made = VirtualMicrophone::create(None);
            let made = made.map_err(|why| anyhow!("can't create the microphone: {why}"))?;
            *choice = pulse(made.sink());
            own.microphone = Some(made);
        }
        Ok(own)
    }

    /// The name of the microphone's source.
    pub fn source(&self) -> Option<&str> {
        self.microphone.as_ref().map(VirtualMicrophone::source)
    }

    /// Sets the devices in the environment of an application.
    pub fn set_environment(&self, command: &mut Command) {
        if let Some(sink) = &self.sink {
            command.env("PULSE_SINK", sink.name());
        }
        if let Some(microphone) = &self.microphone {
            command.env("PULSE_SOURCE", microphone.source());
        }
    }
}
