//! `openuvr scene`: a room to walk in, which is the application for all measurements.
//!
//! By default, the scene is an ordinary OpenGL program, which is independent of streaming. A host captures its window
//! like any other window. Only the bar code in the corner distinguishes the scene from other programs. With `--api`,
//! the scene streams itself through the C API (module `api`).
//!
//! At 1280x720 and 60 frames/s, a codec (x264 164, ultrafast, zerolatency, constant quantiser, CAVLC) needs 20.5 kB per
//! frame of the scene for a luma PSNR of 39.2 dB (QP 26), and 16.4 kB for 37.9 dB (QP 28). These are means of 40 frames
//! with one key frame. No game was available for comparison. Motion dominates the cost, because these settings search
//! only whole pixels.

#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "drawing works in floating point"
)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod api;
mod camera;
mod clicks;
mod matrix;
mod pad_times;
mod room;
pub mod source;
mod sys;
mod texture;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_media::barcode::{self, Stamp};
use openuvr_proto::units::Size;
use openuvr_terminal::usage;

use camera::Camera;
use clicks::Clicks;
use sys::{CodePlace, Event, Renderer, Window};

/// Show a 3D room to walk in, with a bar code that measures latency.
///
/// The camera walks by itself. The pointer's position in the window sets the view; W A S D or the arrow keys walk; any key
/// or button flashes the room and changes the colour of the lamps. The bar code at the top left contains the frame number,
/// the time of drawing and the number of presses, so that `openuvr bench latency` can measure latency from pixels only.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// X display to open the window on, such as :1 (default: $DISPLAY)
    #[arg(long)]
    display: Option<String>,
    /// Name or socket path of the Wayland display to open the window on. Without a value, it is $WAYLAND_DISPLAY.
    /// Without --display and --wayland, the window opens on $DISPLAY, or on $WAYLAND_DISPLAY if $DISPLAY is not set
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with = "display"
    )]
    wayland: Option<String>,
    /// Size of the window in pixels
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Frame rate; fractions are allowed (at 60.25, the phase slowly drifts against a 60 Hz display)
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Number of frames to draw (default: until the window is closed)
    #[arg(long)]
    frames: Option<u32>,
    /// Speed of time in the room; speed 0.1 at 6 frames/s makes successive frames differ as much as speed 1 at 60
    /// frames/s
    #[arg(long, default_value_t = 1.0)]
    speed: f32,
    /// Full-screen window
    #[arg(long)]
    full_screen: bool,
    /// Also draw the bar code at the bottom left, to measure displays that show the top and the bottom of a picture at
    /// different times
    #[arg(long)]
    bottom_code: bool,
    /// Disable texture filtering: coarser, but faster without a GPU
    #[arg(long)]
    coarse: bool,
    /// Read each picture back from OpenGL and discard it, to measure the minimum cost of streaming from inside an
    /// application
    #[arg(long)]
    read_back: bool,
    /// Write one line per frame to this file: when the frame started, how long drawing took, and how long displaying
    /// took, in microseconds
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Write the horizontal positions of the first game pad's left stick to this file, one per line, with the time of
    /// reading in nanoseconds
    #[arg(long, value_name = "FILE")]
    pad_times: Option<PathBuf>,
    /// Play about three clicks per second on this sound device, each with a flash of the room. The values are those of
    /// `openuvr client --sound`, except `off`
    #[arg(long, value_name = "DEVICE")]
    clicks: Option<String>,
    #[command(flatten)]
    api: api::Api,
}

/// Runs until the window is closed, a signal arrives, or all frames are drawn.
pub fn run(args: &Args) -> Result<()> {
    usage::check((0.1..=1000.0).contains(&args.fps), || {
        format!("--fps must be 0.1 to 1000, not {}", args.fps)
    })?;
    usage::check((0.0..=100.0).contains(&args.speed), || {
        format!("--speed must be 0 to 100, not {}", args.speed)
    })?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    // This comes before the first picture, because games look for pads only once.
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
    let mut output = WindowOutput {
        bytes: args.read_back.then(Vec::new),
        stream: api::Stream::start(&args.api, &renderer, window.size())?,
        clicks: (args.clicks.as_deref()).map(Clicks::start).transpose()?,
    };
    let frame_times = play(&mut window, &renderer, args, &stop, &mut output);
    // The stream's clients are disconnected while the window still exists.
    drop(output.stream);
    if let Some(line) = frame_times.summary() {
        eprintln!("scene: {line}");
    }
    if let Some(path) = &args.times {
        let written = std::fs::write(path, frame_times.table());
        written.with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// A destination of drawn pictures.
trait Show {
    /// Events from sources other than the window.
    fn events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Shows the picture. Returns `false` to end the scene.
    fn show(&mut self, window: &mut Window, renderer: &Renderer) -> bool;
}

/// Shows pictures in the window. Before that, optionally reads a picture back, streams it and plays a click.
struct WindowOutput {
    /// The buffer for pictures that are read and discarded.
    bytes: Option<Vec<u8>>,
    stream: Option<api::Stream>,
    clicks: Option<Clicks>,
}

impl Show for WindowOutput {
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
        let result = self.stream.as_mut().map(|s| s.submit(renderer, size));
        if let Some(Err(why)) = result {
            eprintln!("scene: {why}; continuing without a stream");
            self.stream = None;
        }
        if let Some(Err(why)) = self.clicks.as_mut().map(Clicks::shown) {
            eprintln!("scene: {why}; continuing without clicks");
            self.clicks = None;
        }
        window.swap();
        true
    }
}

fn open(args: &Args) -> Result<(Window, Renderer)> {
    let (display, wayland) = (args.display.as_deref(), args.wayland.as_deref());
    let window = Window::open(display, wayland, args.size, args.full_screen)?;
    let renderer = Renderer::new(&window, &texture::all(), &room::meshes(), !args.coarse)?;
    Ok((window, renderer))
}

/// The times of the frames, and the total.
#[derive(Default)]
struct FrameTimes {
    /// For each frame: its start, relative to the start of the scene, the time to draw it, and the time to display it.
    frames: Vec<[Duration; 3]>,
    all: Duration,
}

/// The maximum number of frames with stored times: more than four hours at 60 frames/s.
const MAX_FRAMES: usize = 1_000_000;

/// Draws and shows frames until the scene ends.
fn play(
    window: &mut Window,
    renderer: &Renderer,
    args: &Args,
    stop: &Arc<AtomicBool>,
    output: &mut dyn Show,
) -> FrameTimes {
    let period = Duration::from_secs_f64(1.0 / args.fps);
    let start = clock::now();
    let mut due = start;
    let mut camera = Camera::default();
    let mut stamp = Stamp::default();
    let (mut last, mut pressed_at) = (0.0, f32::NEG_INFINITY);
    let mut frame_times = FrameTimes::default();
    while !stop.load(Ordering::Relaxed) && args.frames.is_none_or(|frames| stamp.frame < frames) {
        clock::sleep_until(due);
        let begun = clock::now();
        let time = begun.since(start).as_secs_f32() * args.speed;
        for event in window.events().into_iter().chain(output.events()) {
            match event {
                Event::Press => {
                    stamp.inputs = stamp.inputs.wrapping_add(1);
                    pressed_at = time;
                }
                Event::Walk(direction, down) => camera.walk(direction, down),
                Event::Look(x, y) => camera.look(x, y),
                Event::Resized(_) => {}
                Event::Close => {
                    frame_times.all = due.since(start);
                    return frame_times;
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
        let cells = barcode::cells(&stamp);
        renderer.draw_code(size, &cells, CodePlace::Top);
        if args.bottom_code {
            renderer.draw_code(size, &cells, CodePlace::Bottom);
        }
        if !output.show(window, renderer) {
            break;
        }
        if frame_times.frames.len() < MAX_FRAMES {
            let shown = clock::now().since(drawn);
            let frame = [begun.since(start), drawn.since(begun), shown];
            frame_times.frames.push(frame);
        }
        due = due + period;
        if clock::now() > due + period {
            // If the scene is more than a frame late, it continues from here instead of catching up.
            due = clock::now();
        }
    }
    frame_times.all = clock::now().since(start);
    frame_times
}

impl FrameTimes {
    fn summary(&self) -> Option<String> {
        let middle = |mut values: Vec<Duration>| {
            values.sort_unstable();
            let middle = values.get(values.len() / 2);
            middle.map(|value| value.as_secs_f64() * 1e3)
        };
        let draw = middle(self.frames.iter().map(|[_, draw, _]| *draw).collect())?;
        let show = middle(self.frames.iter().map(|[.., show]| *show).collect())?;
        Some(format!(
            "{} frames in {:.1} s; median {draw:.2} ms to draw, {show:.2} ms to display",
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
