//! A playback backend that writes the played samples, including pauses, to a RIFF WAVE file with 16-bit samples.
//!
//! The header contains the length, and is rewritten when the playback is dropped. Before that, the header contains the
//! maximum length, which players interpret as "to the end of the file". If the program is killed, this length remains.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::null::Played;
use super::{
    AudioError, AudioPlayback, CHANNELS, Level, PlaybackBackend, RATE, Settings, Waker, frames_in,
    wait,
};
use openuvr_clock as clock;

/// The table entry.
pub const BACKEND: PlaybackBackend = PlaybackBackend {
    name: "wav",
    about: "writes the played samples to a WAV file; the device is its path",
    open: |settings| Ok(Box::new(Wav::open(settings)?)),
};

/// Size of a sample frame in bytes.
const FRAME: u32 = 4;

/// Maximum length of the samples in bytes: the limit of 32 bits, minus the header.
const LONGEST: u32 = u32::MAX - HEADER;
const HEADER: u32 = 44;

/// Plays into a file.
#[derive(Debug)]
pub struct Wav {
    path: PathBuf,
    file: BufWriter<File>,
    /// Size of the samples in the file.
    bytes: u32,
    clock: Played,
    begun: bool,
    waker: Waker,
}

impl Wav {
    /// Creates the file. Continues an existing file if [`Settings::resume`] is set; otherwise, replaces it.
    ///
    /// # Errors
    /// [`AudioError`] if there is no path, or the file can't be written.
    pub fn open(settings: &Settings) -> Result<Wav, AudioError> {
        let Some(path) = settings.device.as_deref().map(PathBuf::from) else {
            return Err(AudioError(
                "the audio playback wav needs a file: specify its path as the device".into(),
            ));
        };
        let opened = open_file(&path, settings.resume);
        let (file, bytes) = opened.map_err(|error| broken(&path, &error))?;
        Ok(Wav {
            path,
            file,
            bytes,
            clock: Played::default(),
            begun: false,
            waker: Waker::new()?,
        })
    }

    fn append(&mut self, samples: impl Iterator<Item = f32>) -> Result<(), AudioError> {
        for sample in samples {
            if self.bytes >= LONGEST - FRAME {
                return Ok(()); // The file has the maximum length of the format: 6 hours.
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the value is clamped to the range"
            )]
            let sample = (sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16;
            let written = self.file.write_all(&sample.to_le_bytes());
            written.map_err(|error| broken(&self.path, &error))?;
            self.bytes += FRAME / 2;
        }
        Ok(())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header(self.bytes))?;
        self.file.flush()
    }
}

/// Opens the file and writes a preliminary header. Also returns the size of the samples that the file already has.
fn open_file(path: &Path, resume: bool) -> std::io::Result<(BufWriter<File>, u32)> {
    let mut options = File::options();
    let file = options
        .write(true)
        .create(true)
        .truncate(!resume)
        .open(path)?;
    let samples = file.metadata()?.len().saturating_sub(u64::from(HEADER));
    let samples = u32::try_from(samples).unwrap_or(LONGEST).min(LONGEST);
    // A full disk may have cut off a part of the last sample frame.
    let samples = samples / FRAME * FRAME;
    let mut file = BufWriter::new(file);
    file.write_all(&header(LONGEST))?;
    // A pipe contains no samples, and does not support seeking.
    if samples > 0 {
        file.seek(SeekFrom::Start(u64::from(HEADER + samples)))?;
    }
    Ok((file, samples))
}

fn broken(path: &Path, error: &std::io::Error) -> AudioError {
    AudioError(format!(
        "can't write audio to {}: {error}; choose another file",
        path.display()
    ))
}

/// The header of a file with this many bytes of samples (Multimedia Programming Interface and Data
/// Specifications 1.0, "WAVE").
fn header(bytes: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER as usize);
    let mut put = |bytes: &[u8]| header.extend_from_slice(bytes);
    put(b"RIFF");
    put(&(bytes + HEADER - 8).to_le_bytes());
    put(b"WAVEfmt ");
    put(&16u32.to_le_bytes());
    put(&1u16.to_le_bytes()); // PCM
    put(&2u16.to_le_bytes()); // channels
    put(&RATE.to_le_bytes());
    put(&(RATE * FRAME).to_le_bytes());
    put(&4u16.to_le_bytes()); // bytes per sample frame
    put(&16u16.to_le_bytes()); // bits per sample
    put(b"data");
    put(&bytes.to_le_bytes());
    header
}

impl AudioPlayback for Wav {
    fn level(&mut self) -> Result<Level, AudioError> {
        Ok(self.clock.level())
    }

    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        let pause = self.clock.write(clock::now(), samples.len() / CHANNELS);
        if std::mem::replace(&mut self.begun, true) {
            self.append(std::iter::repeat_n(0.0, frames_in(pause) * CHANNELS))?;
        }
        self.append(samples.iter().copied())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError> {
        wait::until(timeout.map(|timeout| clock::now() + timeout), &self.waker)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Wav {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!("{}", broken(&self.path, &error));
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn open() -> (TempDir, PathBuf, Wav) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.wav");
        let device = Some(path.display().to_string());
        let settings = Settings {
            device,
            ..Settings::default()
        };
        (folder, path, Wav::open(&settings).unwrap())
    }

    #[test]
    fn the_file_holds_the_samples_and_their_length() {
        let (_folder, path, mut wav) = open();
        wav.write(&[0.0, 1.0, -1.0, 0.5, 2.0, -2.0]).unwrap();
        drop(wav);
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file[..44], header(12));
        let samples: Vec<_> = file[44..].chunks(2).collect();
        let samples: Vec<_> = (samples.iter().map(|b| i16::from_le_bytes([b[0], b[1]]))).collect();
        assert_eq!(samples, [0, 32767, -32767, 16384, 32767, -32767]);
    }

    #[test]
    fn a_continued_file_keeps_its_samples() {
        let (_folder, path, mut wav) = open();
        wav.write(&[0.5; 4]).unwrap();
        drop(wav);
        // The rest of this sample frame did not fit on the disk.
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&[7; 3]).unwrap();
        let settings = Settings {
            device: Some(path.display().to_string()),
            resume: true,
            ..Settings::default()
        };
        let mut wav = Wav::open(&settings).unwrap();
        wav.write(&[-0.5; 2]).unwrap();
        drop(wav);
        let file = std::fs::read(&path).unwrap();
        assert_eq!((file.len(), &file[..44]), (44 + 12, &header(12)[..]));
        let samples: Vec<_> = file[44..].chunks(2).collect();
        let samples: Vec<_> = (samples.iter().map(|b| i16::from_le_bytes([b[0], b[1]]))).collect();
        assert_eq!(samples, [16384, 16384, 16384, 16384, -16384, -16384]);
    }

    #[test]
    fn without_a_writable_path_there_is_an_error() {
        let error = |device: Option<&str>| {
            let settings = Settings {
                device: device.map(Into::into),
                ..Settings::default()
            };
            Wav::open(&settings).unwrap_err().to_string()
        };
        assert!(error(None).contains("path"));
        assert!(error(Some("/dev/null/a.wav")).contains("/dev/null/a.wav"));
    }
}
