//! Audio of applications that exchange samples directly instead of through a sound server. These applications write
//! playback to an [`AppSpeaker`] and read a microphone from an [`AppMicrophone`].
//!
//! While the application writes nothing to its speaker, a capture of the speaker returns silence. The application's
//! reads are the clock of the playback to its microphone: samples are played as fast as the application reads them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::blocks::{Blocks, LONGEST};
use super::{
    AudioCapture, AudioError, AudioEvent, AudioPlayback, CHANNELS, CaptureCounters, Level, Waker,
    duration_of, wait,
};
use openuvr_clock as clock;

/// Samples are buffered in advance for the application's largest read, and at least for this time: the usual period of
/// a device.
const DEFAULT_BLOCK: Duration = Duration::from_millis(10);

/// Maximum duration of a read for which samples are buffered in advance.
const MAX_BLOCK: Duration = Duration::from_millis(100);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The speaker of an application: its samples go to the capture.
#[derive(Clone, Debug, Default)]
pub struct AppSpeaker(Arc<(Mutex<SpeakerQueue>, Condvar)>);

#[derive(Debug, Default)]
struct SpeakerQueue {
    samples: VecDeque<f32>,
    /// Number of open captures. While no capture is open, written samples are dropped.
    captures: usize,
}

impl AppSpeaker {
    /// Appends samples (sample frames times [`CHANNELS`]; a remainder is ignored) to the playback. May be called from
    /// any thread and returns at once. Returns the number of accepted sample frames: all of them, or 0 if there is no
    /// capture. If more than a second of samples is unread, the oldest samples are dropped.
    pub fn write(&self, samples: &[f32]) -> usize {
        let frames = samples.len() / CHANNELS;
        let mut waiting = lock(&self.0.0);
        if waiting.captures == 0 {
            return 0;
        }
        let whole = &samples[..frames * CHANNELS];
        let newest = whole.len().saturating_sub(LONGEST * CHANNELS);
        waiting.samples.extend(&whole[newest..]);
        let excess = waiting.samples.len().saturating_sub(LONGEST * CHANNELS);
        waiting.samples.drain(..excess);
        drop(waiting);
        self.0.1.notify_all();
        frames
    }

    /// Captures the speaker. Only one capture should exist at a time: two captures would each get a
    /// part of the samples.
    #[must_use]
    pub fn capture(&self) -> AppSpeakerCapture {
        let mut waiting = lock(&self.0.0);
        waiting.captures += 1;
        waiting.samples.clear();
        drop(waiting);
        AppSpeakerCapture {
            speaker: self.clone(),
            blocks: Blocks::new(clock::now()),
        }
    }
}

impl PartialEq for AppSpeaker {
    fn eq(&self, other: &AppSpeaker) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Captures an application's speaker.
pub struct AppSpeakerCapture {
    speaker: AppSpeaker,
    blocks: Blocks,
}

impl Drop for AppSpeakerCapture {
    fn drop(&mut self) {
        lock(&self.speaker.0.0).captures -= 1;
    }
}

impl AudioCapture for AppSpeakerCapture {
    fn read(
        &mut self,
        block: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<AudioEvent, AudioError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        let (waiting, came) = &*self.speaker.0;
        let mut waiting = lock(waiting);
        loop {
            let now = clock::now();
            let frames = waiting.samples.len() / CHANNELS;
            if frames > 0 {
                let samples = waiting.samples.drain(..);
                self.blocks.arrived(now, frames, Some(samples));
            }
            if let Some(captured) = self.blocks.take(now, block) {
                return Ok(AudioEvent::Captured(captured));
            }
            if give_up.is_some_and(|give_up| now >= give_up) {
                return Ok(AudioEvent::TimedOut);
            }
            let due = self.blocks.due(block);
            let until = give_up.map_or(due, |give_up| give_up.min(due));
            let span = until.since(now).max(Duration::from_micros(100));
            let woken = came.wait_timeout(waiting, span);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn counters(&self) -> CaptureCounters {
        self.blocks.counters()
    }
}

/// The microphone from which an application reads samples.
#[derive(Clone, Debug)]
pub struct AppMicrophone(Arc<MicrophoneShared>);

#[derive(Debug)]
struct MicrophoneShared {
    ready: Mutex<MicrophoneQueue>,
    waker: Waker,
}

#[derive(Debug)]
struct MicrophoneQueue {
    samples: VecDeque<f32>,
    /// The application's largest read so far, from [`DEFAULT_BLOCK`] to [`MAX_BLOCK`].
    block: Duration,
}

impl AppMicrophone {
    /// A microphone that has not been read yet.
    ///
    /// # Errors
    /// [`AudioError`] if no file descriptor is left.
    pub fn new() -> Result<AppMicrophone, AudioError> {
        Ok(AppMicrophone(Arc::new(MicrophoneShared {
            ready: Mutex::new(MicrophoneQueue {
                samples: VecDeque::new(),
                block: DEFAULT_BLOCK,
            }),
            waker: Waker::new()?,
        })))
    }

    /// Fills `samples` (sample frames times [`CHANNELS`]) with the next samples, and the remainder
    /// with silence. May be called from any thread and returns at once. Returns the number of
    /// sample frames before that silence.
    pub fn read(&self, samples: &mut [f32]) -> usize {
        let mut ready = lock(&self.0.ready);
        let there = samples.len().min(ready.samples.len());
        let frames = there / CHANNELS;
        for (to, from) in samples
            .iter_mut()
            .zip(ready.samples.drain(..frames * CHANNELS))
        {
            *to = from;
        }
        samples[frames * CHANNELS..].fill(0.0);
        let block = duration_of(samples.len() / CHANNELS).min(MAX_BLOCK);
        ready.block = ready.block.max(block);
        drop(ready);
        // There is space for samples again.
        self.0.waker.wake();
        frames
    }

    /// A playback to this microphone. Discards the samples that the application has not read yet.
    #[must_use]
    pub fn playback(&self) -> AppMicrophonePlayback {
        lock(&self.0.ready).samples.clear();
        AppMicrophonePlayback(self.clone())
    }
}

impl PartialEq for AppMicrophone {
    fn eq(&self, other: &AppMicrophone) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Plays to an application's microphone.
pub struct AppMicrophonePlayback(AppMicrophone);

impl AudioPlayback for AppMicrophonePlayback {
    fn level(&mut self) -> Result<Level, AudioError> {
        let ready = lock(&self.0.0.ready);
        let left = duration_of(ready.samples.len() / CHANNELS);
        Ok(Level {
            dry_in: left,
            heard_in: Some(left),
            block: ready.block,
        })
    }

    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        let mut ready = lock(&self.0.0.ready);
        ready.samples.extend(samples);
        let excess = ready.samples.len().saturating_sub(LONGEST * CHANNELS);
        ready.samples.drain(..excess);
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError> {
        wait::until(
            timeout.map(|timeout| clock::now() + timeout),
            &self.0.0.waker,
        )
    }

    fn waker(&self) -> Waker {
        self.0.0.waker.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_written_during_a_capture_is_captured() {
        let speaker = AppSpeaker::default();
        let ramp: Vec<f32> = (0..480 * CHANNELS).map(|n| n as f32 / 1000.0).collect();
        assert_eq!(speaker.write(&ramp), 0, "no capture");
        let mut capture = speaker.capture();
        assert_eq!(speaker.write(&ramp), 480);
        let mut heard = Vec::new();
        let mut block = [0.0; 240 * CHANNELS];
        // Silence may precede the samples.
        while heard.iter().filter(|sample| **sample > 0.9).count() < 50 {
            let event = capture.read(&mut block, Some(Duration::from_secs(5)));
            assert!(matches!(event, Ok(AudioEvent::Captured(_))), "{event:?}");
            heard.extend_from_slice(&block);
        }
        let begin = heard.windows(2).position(|pair| pair == [0.0, 0.001]);
        let begin = begin.expect("the ramp's first samples");
        assert_eq!(heard[begin..begin + ramp.len()], ramp);
        drop(capture);
        assert_eq!(speaker.write(&ramp), 0);
    }

    #[test]
    fn an_incomplete_sample_frame_does_not_swap_the_channels() {
        let speaker = AppSpeaker::default();
        let _capture = speaker.capture();
        let mut samples = [0.25, 0.75].repeat(LONGEST + 1);
        samples.push(0.25);
        assert_eq!(speaker.write(&samples), LONGEST + 1);
        let waiting = lock(&speaker.0.0);
        assert_eq!(waiting.samples.len(), LONGEST * CHANNELS);
        assert_eq!(waiting.samples.front(), Some(&0.25), "left comes first");
    }

    #[test]
    fn an_idle_speaker_gives_silence() {
        let mut capture = AppSpeaker::default().capture();
        let mut block = [1.0; 240 * CHANNELS];
        let event = capture.read(&mut block, Some(Duration::from_secs(5)));
        assert!(matches!(event, Ok(AudioEvent::Captured(_))), "{event:?}");
        assert!(block.iter().all(|sample| *sample == 0.0));
        assert!(capture.counters().silence >= 240);
    }

    #[test]
    fn reads_return_written_samples_then_silence() {
        let microphone = AppMicrophone::new().unwrap();
        let mut playback = microphone.playback();
        playback.write(&[0.5; 100 * CHANNELS]).unwrap();
        assert_eq!(playback.level().unwrap().dry_in, duration_of(100));
        let mut samples = [1.0; 960 * CHANNELS];
        assert_eq!(microphone.read(&mut samples), 100);
        assert!(samples[..100 * CHANNELS].iter().all(|s| *s == 0.5));
        assert!(samples[100 * CHANNELS..].iter().all(|s| *s == 0.0));
        let level = playback.level().unwrap();
        assert_eq!(
            (level.dry_in, level.block),
            (Duration::ZERO, duration_of(960))
        );
        assert!(
            playback.wait(Some(Duration::ZERO)).unwrap(),
            "there is space"
        );
        // Without a reader, one second is kept.
        playback.write(&vec![0.1; 2 * LONGEST * CHANNELS]).unwrap();
        assert_eq!(playback.level().unwrap().dry_in, Duration::from_secs(1));
    }
}
