//! Audible clicks of the scene with simultaneous flashes, to measure the delay between sound and picture.

use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_clock as clock;
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{AudioPlayback, CHANNELS, RATE, Settings, open_playback};
use openuvr_proto::time::Instant;
use openuvr_runtime::sound_choice::SoundChoice;

/// The interval of clicks. It is not a whole number of frames at any usual rate, so that clicks occur at every phase of
/// a frame.
pub(crate) const INTERVAL: Duration = Duration::from_micros(306_250);

/// Number of samples of a click, which lasts 10 ms. The click is a tone of 1 kHz, which codecs do not treat as noise.
/// Its onset is within a quarter of a millisecond.
const CLICK: usize = RATE as usize / 100;
const PITCH: f64 = 1000.0;
const AMPLITUDE: f64 = 0.5;

/// Plays a click at each interval.
pub(super) struct Clicks {
    playback: Box<dyn AudioPlayback>,
    click: Vec<f32>,
    due: Instant,
    /// Whether the current picture flashes.
    flashes: bool,
}

impl Clicks {
    /// Opens the playback `device`, in the syntax of `--sound`.
    ///
    /// # Errors
    /// Returns an error if `device` is no playback device or can't be opened.
    pub(super) fn start(device: &str) -> Result<Clicks> {
        let choice = SoundChoice::parse(device);
        let backend = choice.backend();
        ensure!(
            backend.is_some(),
            "--clicks off is not supported: omit --clicks instead"
        );
        let (name, device) = backend.unwrap_or_default();
        let settings = Settings {
            device: device.map(str::to_owned),
            ..Settings::default()
        };
        let playback = open_playback(name, &settings)?;
        let mut click = vec![0.0; CLICK * CHANNELS];
        Sine::new(PITCH, AMPLITUDE).fill(&mut click);
        Ok(Clicks {
            playback,
            click,
            due: clock::now() + INTERVAL,
            flashes: false,
        })
    }

    /// Whether the current picture should flash.
    pub(super) fn is_due(&mut self) -> bool {
        let now = clock::now();
        self.flashes = now >= self.due;
        if self.flashes {
            self.due = self.due + INTERVAL;
            if now >= self.due {
                // The scene was delayed, so missed clicks are skipped.
                self.due = now + INTERVAL;
            }
        }
        self.flashes
    }

    /// Plays the click if the current picture flashes. Call this when the picture has been drawn and will be shown
    /// next.
    ///
    /// # Errors
    /// Returns an error if the sound server is no longer available.
    pub(super) fn shown(&mut self) -> Result<()> {
        if std::mem::take(&mut self.flashes) {
            self.playback.write(&self.click)?;
        } else {
            // Querying the level lets the connection process messages of the server.
            self.playback.level()?;
        }
        Ok(())
    }
}
