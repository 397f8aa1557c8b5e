//! `openuvr demo`: an application, a host and a client on this machine, and a verdict at the end.
//!
//! The demo reads the pixels of the client's window and of the host's display itself, and compares them. Its results
//! about the picture therefore do not rely on the code under test. With `--web`, a browser replaces the client. `--vr`
//! tests an OpenXR application with a turning head.

#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "drawing and statistics work in floating point"
)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

pub mod room;
mod vr;
mod web;

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_clock as clock;
use openuvr_net::address::parse_address;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_sim::script;

use openuvr_testbed::audio_reports::SoundFigures;
use openuvr_testbed::child::Child;
use openuvr_testbed::clicks::{self, ClickRecorder, Lateness};
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::pair::{self, Pair, TemporaryDir};
use openuvr_testbed::picture_match::{History, Shot, psnr};
use openuvr_testbed::reader::{Reader, Sighting};
use openuvr_testbed::screen::Screen;
use openuvr_testbed::sound::{CLIENT_SINK, HOST_SINK, SoundServer, beeps, samples_of, sound_words};
use openuvr_testbed::stats::{Frames, Summary};

/// Stream an application on this machine, and check the picture.
///
/// Starts a virtual display with the built-in scene (or your application) on it, a host that captures it, and a client
/// that shows the stream: in a window on your display or, if you have no display, on a second virtual display. Ends on
/// Ctrl-C, or after 20 seconds if it was not started from a terminal. At the end, it stops everything that it started.
///
/// Succeeds only if the client showed a picture that matches the host's picture and, with `--sound`, played the host's
/// audio. With `--vr`, succeeds only if the bar codes in the pictures of both eyes match the head's motion.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Command line of an X11 application to stream instead of the scene
    #[arg(long, value_name = "COMMAND")]
    app: Option<String>,
    /// End after this time
    #[arg(long = "duration", value_name = "TIME", value_parser = script::time)]
    lasting: Option<Duration>,
    /// Directory for screenshots and, with --sound, for a recording of the client's audio
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Stream from this X display instead of a new virtual one
    #[arg(long, value_name = "DISPLAY")]
    host_display: Option<String>,
    /// Show the client on a virtual display even if there is a real display
    #[arg(long)]
    headless: bool,
    /// Size of the virtual displays
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Frames per second [default: 60; with --vr 90]
    #[arg(long)]
    fps: Option<f64>,
    /// Bitrate of the host
    #[arg(long, default_value = "10M")]
    bitrate: String,
    /// Also stream sound: the scene's clicks, which coincide with its flashes. With --app: the application's sound and
    /// additional beeps. Needs PulseAudio
    #[arg(long)]
    sound: bool,
    /// Serve browsers instead of a client, at this address [default: a free port of 127.0.0.1]. Print the page's
    /// address and PIN, and open the page in Chromium, if it is installed
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        value_parser = parse_address, conflicts_with_all = ["headless", "client_arg"])]
    web: Option<SocketAddr>,
    /// With --web: use your own browser instead of Chromium
    #[arg(long, requires = "web")]
    own_browser: bool,
    /// Run a virtual room (an OpenXR application) with openuvr xr, and stream it to a client that simulates a turning
    /// head. Report the latency from a head movement to the pictures that show it, measured with the bar codes in the
    /// pictures of both eyes
    #[arg(long, conflicts_with_all = ["app", "host_display", "size", "sound", "web", "client_arg"])]
    vr: bool,
    /// Additional argument for the host; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
    /// Additional argument for the client; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    client_arg: Vec<String>,
}

impl Args {
    fn fps(&self) -> f64 {
        self.fps.unwrap_or(60.0)
    }
}

/// Duration of a demo without a terminal.
const UNWATCHED: Duration = Duration::from_secs(20);
/// Minimum PSNR of an acceptable stream. Below 25 dB, blocks are visible everywhere.
const ALIKE: f64 = 25.0;

/// Runs the demo. This process must run `openuvr`, because the demo starts the same executable again. Succeeds only if
/// the picture matches.
///
/// # Errors
/// Returns an error if one of the demo's programs or displays cannot be started, or has ended early.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("can't create the directory {}", args.out.display()))?;
    if args.vr {
        return vr::run(args, &stop);
    }
    // Dropped in reverse order: the displays last.
    let (_host_virtual, host_display) = host_display(args)?;
    if let Some(at) = args.web {
        return web::run(args, at, &host_display, &stop);
    }
    let (client_virtual, client_display) = client_display(args, args.size)?;
    let dir = TemporaryDir::new()?;
    let mut sound = (args.sound)
        .then(|| Sound::start(dir.path(), &args.out, args.app.is_none()))
        .transpose()?;
    let server = sound.as_ref().map(|sound| sound.server.address());
    let mut app = start_app(args, &host_display, server)?;
    let reader = Reader::start(&client_display)?;
    let [more_host, more_client] = match &sound {
        Some(_) => [
            [&args.host_arg[..], &sound_words(HOST_SINK)].concat(),
            [&args.client_arg[..], &sound_words(CLIENT_SINK)].concat(),
        ],
        None => [args.host_arg.clone(), args.client_arg.clone()],
    };
    let mut pair = Pair::start(&pair::Options {
        serve: pair::Serve::Host,
        host_display: &host_display,
        client_display: &client_display,
        fps: args.fps(),
        bitrate: &args.bitrate,
        dir: dir.path(),
        csv: sound.as_ref().map(|sound| sound.csv.as_path()),
        sound: sound.as_ref().map(|sound| sound.server.address()),
        pads: None,
        show_host: true,
        more_host: &more_host,
        more_client: &more_client,
    })?;
    let place = match &client_virtual {
        Some(display) if args.headless => format!("on the virtual display {}", display.name()),
        Some(display) => format!("on the virtual display {} (no $DISPLAY)", display.name()),
        None => format!("in a window on {client_display}"),
    };
    eprintln!(
        "demo: {} on {host_display}, shown {place}; Ctrl-C to stop",
        app.name()
    );
    let begun = clock::now();
    watch(args, &stop, &mut app, &mut || {
        pair.host.check()?;
        check_not_closed(pair.client.ended())?;
        pair.client.check()
    })?;

    let window = [begun, clock::now()];
    let verdict = compare(&host_display, &client_display);
    if let Some(sound) = &mut sound {
        sound.recorder.stop();
    }
    pair.client.stop();
    pair.host.stop();
    app.stop();
    let verdict = verdict?;
    let picture = args.out.join("openuvr-demo.png");
    verdict.write_png(&picture)?;
    let picture = summarise(&verdict, &reader, args.app.is_none(), &picture);
    if let Some(sound) = &sound {
        match SoundFigures::read(&sound.csv)? {
            Some(figures) => println!("demo: {figures}"),
            None => println!("demo: no audio report from the client"),
        }
        if !sound.summarise(&reader.since(0), window)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(picture)
}

/// The streamed display, and its server if the demo has started it.
fn host_display(args: &Args) -> Result<(Option<VirtualDisplay>, String)> {
    if let Some(name) = &args.host_display {
        return Ok((None, name.clone()));
    }
    let display = VirtualDisplay::start(args.size)?;
    let name = display.name().to_owned();
    Ok((Some(display), name))
}

/// The client's display (`$DISPLAY`, or a virtual display of this size), and its server if the demo has started it.
fn client_display(args: &Args, size: Size) -> Result<(Option<VirtualDisplay>, String)> {
    let own = std::env::var("DISPLAY").ok();
    if let Some(own) = own.filter(|name| !name.is_empty() && !args.headless) {
        return Ok((None, own));
    }
    let display = VirtualDisplay::start(size)?;
    let name = display.name().to_owned();
    Ok((Some(display), name))
}

/// The audio part of a demo. The fields are dropped in this order: the server last.
struct Sound {
    played: AudioSource,
    recorder: Child,
    /// Recording of the client's audio.
    recording: PathBuf,
    /// The host's CSV file, which contains the client's audio statistics.
    csv: PathBuf,
    server: SoundServer,
}

/// Audio source at the host.
enum AudioSource {
    /// The scene's clicks, recorded at the host and at the client.
    Clicks([ClickRecorder; 2]),
    Beeps {
        _player: Child,
    },
}

impl Sound {
    fn start(dir: &Path, out: &Path, is_scene: bool) -> Result<Sound> {
        let server = SoundServer::start(dir)?;
        let recording = out.join("openuvr-demo.wav");
        let ear = |sink| ClickRecorder::start(server.address(), sink);
        Ok(Sound {
            recorder: server.record(&recording)?,
            played: match is_scene {
                true => AudioSource::Clicks([ear(HOST_SINK)?, ear(CLIENT_SINK)?]),
                false => AudioSource::Beeps {
                    _player: server.beep()?,
                },
            },
            csv: dir.join("host.csv"),
            recording,
            server,
        })
    }

    /// Prints the result. Returns whether the audio was played.
    fn summarise(&self, seen: &[Sighting], window: [Instant; 2]) -> Result<bool> {
        let samples = samples_of(&self.recording)?;
        let (count, what) = match &self.played {
            AudioSource::Clicks(ears) => {
                let [host, client] = ears.each_ref().map(ClickRecorder::clicks);
                let lateness = Lateness::of(&host, &client, seen, window);
                println!("demo: {lateness}");
                (clicks::count(&samples), "clicks")
            }
            AudioSource::Beeps { .. } => (beeps(&samples), "beeps"),
        };
        println!(
            "demo: {count} {what} in the client's audio, recorded in {}",
            self.recording.display()
        );
        if count == 0 {
            println!("demo: FAILED: the client played none of the host's audio");
        }
        Ok(count > 0)
    }
}

fn start_app(args: &Args, display: &str, sound: Option<&str>) -> Result<Child> {
    let Some(line) = &args.app else {
        let words = pair::scene_words(display, args.size, args.fps());
        return match sound {
            Some(server) => pair::clicking_scene(&words, server, HOST_SINK),
            None => pair::scene(&words),
        };
    };
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .env("DISPLAY", display)
        .env_remove("WAYLAND_DISPLAY");
    // The application's own audio is streamed as well.
    if let Some(server) = sound {
        command
            .env("PULSE_SERVER", server)
            .env("PULSE_SINK", HOST_SINK);
    }
    Child::start("application", command, None)
}

/// Returns an error if the client has ended normally, because its user has closed the window. There is then no verdict,
/// because the demo compares the pictures at its end.
fn check_not_closed(ended: Option<ExitStatus>) -> Result<()> {
    if ended.is_some_and(|status| status.success()) {
        bail!(
            "the client has ended, so the pictures can't be compared: leave its window open, and end the demo with \
             Ctrl-C"
        );
    }
    Ok(())
}

/// The duration of the demo; `None` means until Ctrl-C.
fn lasting(args: &Args) -> Option<Duration> {
    let watched = std::io::stdin().is_terminal() && openuvr_terminal::out::is_terminal();
    args.lasting.or((!watched).then_some(UNWATCHED))
}

/// Waits for the end: a signal, the timeout, or the end of a process.
fn watch(
    args: &Args,
    stop: &AtomicBool,
    app: &mut Child,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let last = lasting(args);
    let begun = clock::now();
    while !stop.load(Ordering::Relaxed) && last.is_none_or(|last| clock::now().since(begun) < last)
    {
        check()?;
        if let Some(status) = app.ended() {
            // The shell's status for an unknown command.
            let advice = match status.code() {
                Some(127) => {
                    "check that it is installed, or use its full path, such as /usr/games/NAME"
                }
                _ => "use a command that keeps its window open",
            };
            bail!("the {} ended ({status}): {advice}", app.name());
        }
        clock::sleep_until(clock::now() + Duration::from_millis(100));
    }
    Ok(())
}

struct Verdict {
    /// The client's picture that is most similar to one of the host's pictures. It is blank only if all of the client's
    /// pictures are blank.
    shown: Option<Shot>,
    /// The host's picture that is most similar to `shown`. `None` if `shown` is blank, because equal blank pictures
    /// prove nothing, or if none of the host's pictures has the size of `shown`.
    source: Option<Source>,
}

struct Source {
    shot: Shot,
    /// PSNR of the client's picture, dB.
    likeness: f64,
}

/// The result of comparing the client's picture with the host's picture.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Picture {
    Missing,
    Blank,
    Other(f64),
    Alike(f64),
}

impl Verdict {
    fn picture(&self) -> Picture {
        match (&self.shown, self.likeness()) {
            (_, Some(likeness)) if likeness >= ALIKE => Picture::Alike(likeness),
            (_, Some(likeness)) => Picture::Other(likeness),
            (Some(shown), None) if shown.is_blank() => Picture::Blank,
            (_, None) => Picture::Missing,
        }
    }

    fn likeness(&self) -> Option<f64> {
        self.source.as_ref().map(|source| source.likeness)
    }

    /// Writes the client's picture and, to its left, the most similar picture of the host, as far as they exist.
    fn write_png(&self, path: &Path) -> Result<()> {
        let Some(shown) = &self.shown else {
            return Ok(());
        };
        let source = self.source.as_ref().map(|source| &source.shot);
        write_png(&source.into_iter().chain([shown]).collect::<Vec<_>>(), path)
    }
}

/// Reads both displays, for at most three seconds, until the client's picture matches the host's.
fn compare(host: &str, client: &str) -> Result<Verdict> {
    let history = History::start(host, None)?;
    let screen = Screen::open(client)?;
    let until = clock::now() + Duration::from_secs(3);
    let mut best = Verdict {
        shown: None,
        source: None,
    };
    while clock::now() < until {
        clock::sleep_until(clock::now() + Duration::from_millis(150));
        // The content identifies the client's window.
        for area in screen.windows()?.into_iter().take(8) {
            let Ok(shown) = Shot::take(&screen, area) else {
                continue;
            };
            if shown.is_blank() {
                best.shown.get_or_insert(shown);
                continue;
            }
            let source = history
                .shots()
                .into_iter()
                .filter_map(|shot| {
                    let likeness = psnr(&shot, &shown)?;
                    Some(Source { shot, likeness })
                })
                .max_by(|a, b| a.likeness.total_cmp(&b.likeness));
            let only_blank = best.shown.as_ref().is_none_or(Shot::is_blank);
            let found = Verdict {
                shown: Some(shown),
                source,
            };
            if only_blank || found.likeness() > best.likeness() {
                best = found;
            }
        }
        if matches!(best.picture(), Picture::Alike(_)) {
            break;
        }
    }
    Ok(best)
}

fn summarise(verdict: &Verdict, reader: &Reader, is_scene: bool, picture: &Path) -> ExitCode {
    let seen = reader.since(0);
    let found = verdict.picture();
    if is_scene {
        let Frames { drawn, visible, .. } = Frames::of(seen.iter().map(|s| s.frame));
        println!("demo: {visible} of {drawn} frames became visible");
        let spans: Vec<f64> = seen.iter().map(Sighting::latency_ms).collect();
        if let Some(s) = Summary::of(&spans) {
            println!(
                "demo: drawn -> visible p50 {:.1} ms, p99 {:.1} ms",
                s.p50, s.p99
            );
        }
    } else {
        println!(
            "demo: latency not measured: only the built-in scene carries bar codes; to show the latency of each stage, \
             use --host-arg=--table=on"
        );
    }
    match found {
        Picture::Alike(likeness) => {
            println!(
                "demo: the client's picture matches the host's: PSNR {likeness:.1} dB (at least \
                 {ALIKE:.0} dB required)"
            );
        }
        Picture::Other(likeness) => {
            println!("demo: the client's picture differs from the host's: PSNR {likeness:.1} dB");
        }
        Picture::Blank => println!("demo: the client's picture is blank"),
        Picture::Missing => {
            println!("demo: no window on the client's display has the size of the host's picture")
        }
    }
    if verdict.shown.is_some() {
        let content = match verdict.source {
            Some(_) => "the host's picture (left) and the client's picture (right)",
            None => "the client's picture",
        };
        println!("demo: {content}: {}", picture.display());
    }
    let why = match found {
        Picture::Alike(_) if !is_scene || !seen.is_empty() => return ExitCode::SUCCESS,
        Picture::Alike(_) => "no frame became visible",
        Picture::Other(_) => {
            "the client's picture differs from the host's (a PSNR of 25 dB is required)"
        }
        Picture::Missing => "the client showed no picture of the host's size",
        Picture::Blank => {
            "only a blank picture was shown: if the demo ended before the application drew, allow more \
             time with --duration"
        }
    };
    println!("demo: FAILED: {why}");
    ExitCode::FAILURE
}

/// Pixels between two pictures side by side.
const GAP: u32 = 8;

/// Writes these pictures side by side. All of them have the same size.
fn write_png(shots: &[&Shot], path: &Path) -> Result<()> {
    let size = shots[0].size;
    let count = u32::try_from(shots.len())?;
    let width = count * size.width + (count - 1) * GAP;
    let white = [0xff; 3 * GAP as usize];
    let mut rgb = Vec::with_capacity(3 * width as usize * size.height as usize);
    for row in 0..size.height as usize {
        for (nth, shot) in shots.iter().enumerate() {
            if nth > 0 {
                rgb.extend(white);
            }
            let stride = 4 * size.width as usize;
            let pixels = shot.pixels[row * stride..][..stride].chunks_exact(4);
            rgb.extend(pixels.flat_map(|bgrx| [bgrx[2], bgrx[1], bgrx[0]]));
        }
    }
    let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb)?;
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::sync::Arc;

    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_closed_client_is_no_failure_of_the_client() {
        let ended = |status| check_not_closed(Some(ExitStatus::from_raw(status)));
        let why = ended(0).unwrap_err().to_string();
        assert!(why.contains("leave its window open"), "{why}");
        // The client's log explains its failure.
        assert!(ended(1 << 8).is_ok() && check_not_closed(None).is_ok());
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        let parse = |words: &[&str]| {
            let line = Line::try_parse_from(["demo"].iter().chain(words));
            line.map(|line| line.args)
        };
        for refused in [
            &["--web", "--headless"][..],
            &["--web", "--client-arg", "x"],
            &["--vr", "--size", "640x360"],
        ] {
            assert!(parse(refused).is_err(), "{refused:?}");
        }
        for accepted in [
            &["--web", "--size", "640x360", "--host-arg", "x"][..],
            &["--headless", "--client-arg", "x"],
            &["--vr", "--headless"],
        ] {
            assert!(parse(accepted).is_ok(), "{accepted:?}");
        }
    }

    /// A picture of one colour, or of two.
    fn shot(second: u8) -> Shot {
        Shot {
            size: Size::new(2, 1),
            stamp: None,
            pixels: Arc::new(vec![9, 9, 9, 0, second, second, second, 0]),
        }
    }

    #[test]
    fn a_blank_picture_never_matches() {
        let source = |likeness| Source {
            shot: shot(200),
            likeness,
        };
        let verdict = |shown, likeness: Option<f64>| {
            let source = likeness.map(source);
            Verdict { shown, source }.picture()
        };
        assert_eq!(verdict(Some(shot(9)), None), Picture::Blank);
        assert_eq!(verdict(Some(shot(200)), Some(31.0)), Picture::Alike(31.0));
        assert_eq!(verdict(Some(shot(200)), Some(12.0)), Picture::Other(12.0));
        assert_eq!(verdict(None, None), Picture::Missing);
    }
}
