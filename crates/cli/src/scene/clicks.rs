//! Clicks of the scene: heard when the room flashes, so that sound can be compared with the picture.

use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{AudioPlayback, CHANNELS, RATE, Settings, open_playback};
use openuvr_proto::time::Instant;
use openuvr_runtime::clock;
use openuvr_runtime::sound_choice::SoundChoice;

/// Between two clicks. It is no whole number of frames at any usual rate, so that clicks meet each phase of
/// a frame.
pub(crate) const EVERY: Duration = Duration::from_micros(306_250);

/// The click: 10 ms of 1 kHz, which no codec takes for noise and which begins within a quarter of a
/// millisecond.
const CLICK: usize = RATE as usize / 100;
const PITCH: f64 = 1000.0;
const LEVEL: f64 = 0.5;

/// Plays a click now and then.
pub(super) struct Clicks {
    playback: Box<dyn AudioPlayback>,
    click: Vec<f32>,
    due: Instant,
    /// The picture that is being drawn flashes.
    flashes: bool,
}

impl Clicks {
    /// Opens the playback `device`, as `--sound` names one.
    ///
    /// # Errors
    /// It is no playback, or can't be opened.
    pub(super) fn start(device: &str) -> Result<Clicks> {
        let choice = SoundChoice::parse(device);
        let backend = choice.backend();
        ensure!(
            backend.is_some(),
            "--clicks off: leave the option out instead"
        );
        let (name, device) = backend.unwrap_or_default();
        let settings = Settings {
            device: device.map(str::to_owned),
            ..Settings::default()
        };
        let playback = open_playback(name, &settings)?;
        let mut click = vec![0.0; CLICK * CHANNELS];
        Sine::new(PITCH, LEVEL).fill(&mut click);
        Ok(Clicks {
            playback,
            click,
            due: clock::now() + EVERY,
            flashes: false,
        })
    }

    /// Whether the picture that is drawn now is to flash.
    pub(super) fn is_due(&mut self) -> bool {
        let now = clock::now();
        self.flashes = now >= self.due;
        if self.flashes {
            self.due = self.due + EVERY;
            if now >= self.due {
                // The scene was held up: no clicks one after the other.
                self.due = now + EVERY;
            }
        }
        self.flashes
    }

    /// The picture is drawn and about to be shown: plays the click if it flashes.
    ///
    /// # Errors
    /// The sound server is gone.
    pub(super) fn shown(&mut self) -> Result<()> {
        if std::mem::take(&mut self.flashes) {
            self.playback.write(&self.click)?;
        } else {
            // Lets the connection take in what the server says.
            self.playback.level()?;
        }
        Ok(())
    }
}
