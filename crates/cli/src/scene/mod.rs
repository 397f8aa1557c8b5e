//! `openuvr scene`: a room to walk about in, the application that everything is measured with.
//!
//! It is an ordinary OpenGL program on an ordinary window, captured like any other, and knows
//! nothing of streaming; its one peculiarity is the bar code in the corner.
//!
//! What it costs a codec at 1280x720 and 60 frames a second (x264 164, ultrafast, zerolatency,
//! constant quantiser, CAVLC, the mean of 40 frames with one key frame): 20.5 kB a frame at 39.2 dB
//! of luma (QP 26), 16.4 kB at 37.9 dB (QP 28). No game was at hand to compare with. Motion is what
//! costs, because these settings search whole pixels only.

mod api;
mod camera;
mod clicks;
mod matrix;
mod pad_times;
mod room;
pub(crate) mod source;
mod sys;
mod texture;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_media::barcode::{self, Stamp};
use openuvr_proto::units::Size;

use camera::Camera;
use clicks::Clicks;
use openuvr_runtime::clock;
use sys::{Event, Renderer, Window};

/// Show a 3D room to walk about in, with a bar code that measures latency.
///
/// The camera walks by itself. The pointer's place in the window is where you look; W A S D or the
/// arrow keys walk; any key or button flashes the room and changes the colour of the lamps. The
/// bar code at the top left says frame number, time of drawing and presses seen so far, so that
/// `openuvr bench latency` can measure from pixels alone.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// X display to open the window on, such as :1 (default: $DISPLAY)
    #[arg(long)]
    display: Option<String>,
    /// Size of the window in pixels
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Frames a second; fractions are allowed (60.25 sweeps the phase against a 60 Hz display)
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Stop after this many frames (default: run until the window is closed)
    #[arg(long)]
    frames: Option<u32>,
    /// How fast time goes in the room; at 0.1, six frames a second show what sixty do otherwise
    #[arg(long, default_value_t = 1.0)]
    speed: f32,
    /// Fill the whole screen
    #[arg(long)]
    full_screen: bool,
    /// Don't smooth textures: coarser to look at, cheaper to draw without a GPU
    #[arg(long)]
    coarse: bool,
    /// Read each picture back from the GL and throw it away: the least that streaming from inside
    /// an application can cost it
    #[arg(long)]
    read_back: bool,
    /// Write here, for each frame, when it began and how long it took to draw and to put on the
    /// display, in microseconds
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Write here where the left stick of the first game pad is, and when that was read, in nanoseconds; a line
    /// each time
    #[arg(long, value_name = "FILE")]
    pad_times: Option<PathBuf>,
    /// Click by this device, named as a client's --sound, about three times a second, and flash at the same
    /// moment
    #[arg(long, value_name = "DEVICE")]
    clicks: Option<String>,
    #[command(flatten)]
    api: api::Api,
}

/// Runs until the window is closed, a signal comes, or the frames are drawn.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        (0.1..=1000.0).contains(&args.fps),
        "--fps {} is out of range: choose 0.1 to 1000",
        args.fps
    );
    ensure!(
        (0.0..=100.0).contains(&args.speed),
        "--speed {} is out of range: choose 0 to 100",
        args.speed
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    // As games do that look for pads once: before there is a picture.
    args.pad_times
        .as_deref()
        .map(pad_times::start)
        .transpose()?;
    let (mut window, renderer) = open(args)?;
    eprintln!(
        "scene: {} at {} fps, drawn by {}",
        window.size(),
        args.fps,
        renderer.name()
    );
    let mut way = Way {
        bytes: args.read_back.then(Vec::new),
        stream: api::Stream::start(&args.api, &renderer, window.size())?,
        clicks: (args.clicks.as_deref()).map(Clicks::start).transpose()?,
    };
    let spent = play(&mut window, &renderer, args, &stop, &mut way);
    // Its clients are told goodbye while the window is still there.
    drop(way.stream);
    if let Some(line) = spent.summary() {
        eprintln!("scene: {line}");
    }
    if let Some(path) = &args.times {
        let written = std::fs::write(path, spent.table());
        written.with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// What is done with a picture that is drawn.
trait Show {
    /// What else happened than the window's events.
    fn events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Shows it; `false` ends the scene.
    fn show(&mut self, window: &mut Window, renderer: &Renderer) -> bool;
}

/// On the window, and perhaps elsewhere before.
struct Way {
    /// Where pictures are read to for nothing.
    bytes: Option<Vec<u8>>,
    stream: Option<api::Stream>,
    clicks: Option<Clicks>,
}

impl Show for Way {
    fn events(&mut self) -> Vec<Event> {
        let events = self.stream.as_mut().map(api::Stream::events);
        let mut events = events.unwrap_or_default();
        let flash = self.clicks.as_mut().is_some_and(Clicks::is_due);
        events.extend(flash.then_some(Event::Press));
        events
    }

    fn show(&mut self, window: &mut Window, renderer: &Renderer) -> bool {
        let size = window.size();
        if let Some(bytes) = &mut self.bytes {
            bytes.resize(size.pixels() * 4, 0);
            renderer.read(size, bytes);
        }
        let given = self.stream.as_mut().map(|s| s.give(renderer, size));
        if let Some(Err(why)) = given {
            eprintln!("scene: {why}; it goes on without a stream");
            self.stream = None;
        }
        if let Some(Err(why)) = self.clicks.as_mut().map(Clicks::shown) {
            eprintln!("scene: {why}; it goes on without clicks");
            self.clicks = None;
        }
        window.swap();
        true
    }
}

fn open(args: &Args) -> Result<(Window, Renderer)> {
    let window = Window::open(args.display.as_deref(), args.size, args.full_screen)?;
    let renderer = Renderer::new(&window, &texture::all(), &room::meshes(), !args.coarse)?;
    Ok((window, renderer))
}

/// How long the frames took, and all together.
#[derive(Default)]
struct Spent {
    /// When each began, since the first; how long to draw, and to put on the display.
    frames: Vec<[Duration; 3]>,
    all: Duration,
}

/// Frames whose times are kept: hours.
const KEPT: usize = 1_000_000;

/// The frames, one by one, each shown, until that says no.
fn play(
    window: &mut Window,
    renderer: &Renderer,
    args: &Args,
    stop: &Arc<AtomicBool>,
    way: &mut dyn Show,
) -> Spent {
    let period = Duration::from_secs_f64(1.0 / args.fps);
    let start = clock::now();
    let mut due = start;
    let mut camera = Camera::default();
    let mut stamp = Stamp::default();
    let (mut last, mut pressed_at) = (0.0, f32::NEG_INFINITY);
    let mut spent = Spent::default();
    while !stop.load(Ordering::Relaxed) && args.frames.is_none_or(|frames| stamp.frame < frames) {
        clock::sleep_until(due);
        let begun = clock::now();
        let time = begun.since(start).as_secs_f32() * args.speed;
        for event in window.events().into_iter().chain(way.events()) {
            match event {
                Event::Press => {
                    stamp.inputs = stamp.inputs.wrapping_add(1);
                    pressed_at = time;
                }
                Event::Walk(direction, down) => camera.walk(direction, down),
                Event::Look(x, y) => camera.look(x, y),
                Event::Resized(_) => {}
                Event::Close => {
                    spent.all = due.since(start);
                    return spent;
                }
            }
        }
        let size = window.size();
        camera.advance(time, time - last);
        last = time;
        let aspect = size.width as f32 / size.height.max(1) as f32;
        let frame = room::frame(camera.matrix(aspect), time, stamp.inputs, time - pressed_at);
        renderer.draw(size, &frame);
        stamp.frame = stamp.frame.wrapping_add(1).max(1);
        let drawn = clock::now();
        stamp.drawn_us = barcode::micros(drawn);
        renderer.draw_code(size, &barcode::cells(&stamp));
        if !way.show(window, renderer) {
            break;
        }
        if spent.frames.len() < KEPT {
            let shown = clock::now().since(drawn);
            let frame = [begun.since(start), drawn.since(begun), shown];
            spent.frames.push(frame);
        }
        due = due + period;
        if clock::now() > due + period {
            // More than a frame late: go on from here rather than hurry after the lost time.
            due = clock::now();
        }
    }
    spent.all = clock::now().since(start);
    spent
}

impl Spent {
    fn summary(&self) -> Option<String> {
        let middle = |mut values: Vec<Duration>| {
            values.sort_unstable();
            let middle = values.get(values.len() / 2);
            middle.map(|value| value.as_secs_f64() * 1e3)
        };
        let draw = middle(self.frames.iter().map(|[_, draw, _]| *draw).collect())?;
        let show = middle(self.frames.iter().map(|[.., show]| *show).collect())?;
        Some(format!(
            "{} frames in {:.1} s; median {draw:.2} ms to draw, {show:.2} ms to put on the display",
            self.frames.len(),
            self.all.as_secs_f64()
        ))
    }

    fn table(&self) -> String {
        let line = |frame: &[Duration; 3]| {
            let [begun, draw, show] = frame.map(|span| span.as_micros());
            format!("{begun} {draw} {show}\n")
        };
        self.frames.iter().map(line).collect()
    }
}
