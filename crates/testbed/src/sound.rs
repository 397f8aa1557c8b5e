//! A private sound server without a sound card, so that the audio of host and client stays separate and inaudible.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_clock as clock;
use openuvr_media::audio::goertzel::amplitude;
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{CHANNELS, RATE};

use crate::child::Child;

/// The sink whose audio the host captures.
pub const HOST_SINK: &str = "host";
/// The sink into which the client plays.
pub const CLIENT_SINK: &str = "client";

/// The frequency of the beeps, Hz, and their amplitude (full scale is 1).
const PITCH: f64 = 500.0;
const LEVEL: f64 = 0.25;

/// Duration and period of the beeps, in sample frames.
const BEEP: usize = RATE as usize / 10;
const EVERY: usize = RATE as usize / 2;

/// Timeout of a server's start (guess: it takes 0.1 s on an idle machine).
const START: Duration = Duration::from_secs(10);

/// Header size of a WAV file from `parec`.
const HEADER: usize = 44;

/// A running PulseAudio with two null sinks.
#[derive(Debug)]
pub struct SoundServer {
    address: String,
    dir: PathBuf,
    _server: Child,
}

impl SoundServer {
    /// Starts a server with its socket and log in `dir`.
    pub fn start(dir: &Path) -> Result<SoundServer> {
        let dir = dir.join("sound");
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("can't make the directory {}", dir.display()))?;
        let socket = dir.join("native");
        let protocol = format!(
            "module-native-protocol-unix auth-anonymous=1 socket={}",
            socket.display()
        );
        let mut command = Command::new("pulseaudio");
        command
            .args(["-n", "--daemonize=no", "--exit-idle-time=-1"])
            .args(["--use-pid-file=no", "--log-target=stderr", "-L", &protocol])
            .env("XDG_RUNTIME_DIR", &dir)
            .env("PULSE_RUNTIME_PATH", &dir)
            .env("HOME", &dir)
            .env_remove("DISPLAY")
            .env_remove("DBUS_SESSION_BUS_ADDRESS");
        for sink in [HOST_SINK, CLIENT_SINK] {
            let sink = format!("module-null-sink sink_name={sink} rate={RATE} norewinds=1");
            command.args(["-L", &sink]);
        }
        let mut server = Child::start("sound server", command, Some(&dir.join("log")))
            .context("sound needs PulseAudio: apt install pulseaudio pulseaudio-utils")?;
        let until = clock::now() + START;
        while UnixStream::connect(&socket).is_err() {
            server.check()?;
            if clock::now() > until {
                bail!(
                    "the sound server did not open its socket{}; check the pulseaudio installation",
                    server.last_words()
                );
            }
            clock::sleep_until(clock::now() + Duration::from_millis(20));
        }
        Ok(SoundServer {
            address: format!("unix:{}", socket.display()),
            dir,
            _server: server,
        })
    }

    /// The value for `$PULSE_SERVER`.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn tool(&self, name: &str, device: &str) -> Command {
        let mut command = Command::new(name);
        command
            .arg(format!("--device={device}"))
            .args(["--rate=48000", "--channels=2"])
            .env("PULSE_SERVER", &self.address)
            .env("HOME", &self.dir);
        command
    }

    /// Makes `pacat`, an independent program, play a beep twice a second into the host's sink until the result is
    /// dropped.
    pub fn beep(&self) -> Result<Child> {
        let mut command = self.tool("pacat", HOST_SINK);
        command.args(["--raw", "--format=float32le", "--latency-msec=50"]);
        let mut player = Child::start_piped("player", command, &self.dir.join("player.log"))
            .context("beeps need pacat: apt install pulseaudio-utils")?;
        let mut input = player.stdin().context("the player has no input pipe")?;
        let mut samples = vec![0.0_f32; EVERY * CHANNELS];
        Sine::new(PITCH, LEVEL).fill(&mut samples[..BEEP * CHANNELS]);
        let beep: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
        // After the player has ended, the write fails, so this thread ends, too.
        std::thread::spawn(move || while input.write_all(&beep).is_ok() {});
        Ok(player)
    }

    /// Records the client's sink to a WAV file until the result is dropped.
    pub fn record(&self, file: &Path) -> Result<Child> {
        let mut command = self.tool("parec", &format!("{CLIENT_SINK}.monitor"));
        command.args(["--format=s16le", "--file-format=wav"]);
        command.arg(file);
        Child::start("recorder", command, Some(&self.dir.join("recorder.log")))
            .context("a recording needs parec: apt install pulseaudio-utils")
    }
}

/// The sound options of a host or client that uses this sink.
pub fn sound_words(sink: &str) -> [String; 2] {
    ["--sound".to_owned(), format!("pulse:{sink}")]
}

/// The samples of a recording.
pub fn samples_of(file: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    let pairs = bytes.get(HEADER..).unwrap_or_default().chunks_exact(2);
    let samples =
        pairs.map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / f32::from(i16::MAX));
    Ok(samples.collect())
}

/// Counts the host's beeps. A beep begins when its frequency appears in a block; a block is a fifth of a beep.
pub fn beeps(samples: &[f32]) -> usize {
    let parts = samples.chunks_exact(BEEP / 5 * CHANNELS);
    let received: Vec<bool> = parts
        .map(|part| amplitude(part, PITCH) > LEVEL / 2.0)
        .collect();
    let begins = received.windows(2).filter(|pair| !pair[0] && pair[1]);
    begins.count() + usize::from(received.first() == Some(&true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beeps_are_counted_and_other_sound_is_not() {
        let mut samples = vec![0.0; 3 * EVERY * CHANNELS];
        for beep in samples.chunks_exact_mut(EVERY * CHANNELS) {
            Sine::new(PITCH, LEVEL).fill(&mut beep[4800..4800 + BEEP * CHANNELS]);
        }
        assert_eq!(beeps(&samples), 3);
        Sine::new(1300.0, LEVEL).fill(&mut samples);
        assert_eq!(beeps(&samples), 0);
    }

    #[test]
    fn host_audio_stays_out_of_the_client_sink() {
        let dir = crate::pair::TemporaryDir::new().unwrap();
        let server = match SoundServer::start(dir.path()) {
            Ok(server) => server,
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{error:#}");
                eprintln!("skipped: {error:#}");
                return;
            }
        };
        let file = dir.path().join("heard.wav");
        let mut recorder = server.record(&file).unwrap();
        let _player = server.beep().unwrap();
        let long = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 200_000);
        for _ in 0..1000 {
            if long() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        recorder.stop();
        assert!(long(), "it was recorded: {}", recorder.last_words());
        assert_eq!(beeps(&samples_of(&file).unwrap()), 0);
    }
}
