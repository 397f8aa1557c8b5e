//! Sound settings of a configuration: the source at a host, the target at a MUD.

use openuvr_media::audio::application::{AppMicrophone, AppSpeaker};
use openuvr_runtime::client::Target;
use openuvr_runtime::client::config::Config as MudConfig;
use openuvr_runtime::host::config::Config as HostConfig;
use openuvr_runtime::sound_choice::SoundChoice;

use crate::error::{Failure, Outcome};

/// The target of a MUD's sound.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_SOUND {
    /// No target. Sound is not sent.
    OPENUVR_SOUND_NOWHERE = 0,
    /// The default device, through PulseAudio or PipeWire.
    OPENUVR_SOUND_DEVICE = 1,
    /// The application, through `openuvr_take_sound`.
    OPENUVR_SOUND_APPLICATION = 2,
}

/// The sound settings of a host, from the field `sound` of its configuration.
pub(crate) fn host(sound: u32) -> Outcome<HostConfig> {
    let given = match sound {
        0 => None,
        1 => Some(AppSpeaker::default()),
        other => {
            let why = format!("sound must be 0 or 1, not {other}");
            return Err(Failure::argument(why));
        }
    };
    Ok(HostConfig {
        sound: SoundChoice::Off,
        given,
        ..HostConfig::default()
    })
}

/// The settings of a MUD that connects to `host`, with the sound from the field `sound` of its configuration.
pub(crate) fn mud(sound: u32, host: Target) -> Outcome<MudConfig> {
    use OPENUVR_SOUND::{OPENUVR_SOUND_APPLICATION, OPENUVR_SOUND_DEVICE, OPENUVR_SOUND_NOWHERE};
    let known = [
        OPENUVR_SOUND_NOWHERE,
        OPENUVR_SOUND_DEVICE,
        OPENUVR_SOUND_APPLICATION,
    ];
    let named = known.into_iter().find(|known| *known as u32 == sound);
    let named =
        named.ok_or_else(|| Failure::argument(format!("{sound} is not an OPENUVR_SOUND")))?;
    let taken = match named {
        OPENUVR_SOUND_APPLICATION => {
            Some(AppMicrophone::new().map_err(|why| Failure::failed(why.to_string()))?)
        }
        _ => None,
    };
    Ok(MudConfig {
        sound: match named {
            OPENUVR_SOUND_DEVICE => "pulse".to_owned(),
            _ => "off".to_owned(),
        },
        taken,
        ..MudConfig::new(host)
    })
}
