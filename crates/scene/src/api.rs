//! The scene as an application of the C API. It reads its pictures into a pixel buffer, as in the listing of the
//! OpenUVR paper. libopenuvr takes the pictures from this buffer. The library is opened at run time.

mod sys;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use openuvr_proto::units::{Bitrate, Size};

use super::sys::{Direction, Event, PixelBuffer, Renderer};
use sys::{InputEvent, Library, Settings};

/// Options of the scene's own stream.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Api {
    /// Stream through this C API library (libopenuvr.so), and also take input from it
    #[arg(long, value_name = "FILE")]
    pub(super) api: Option<PathBuf>,
    /// Render the next picture only after the previous one has been encoded and sent
    #[arg(long, requires = "api")]
    synchronous: bool,
    /// Listen address for clients (default: port 4710 of every address)
    #[arg(long, requires = "api", value_name = "ADDR:PORT")]
    bind: Option<String>,
    /// Open pairing with this PIN
    #[arg(long, requires = "api")]
    pin: Option<String>,
    /// Maximum frame rate of the stream
    #[arg(long, requires = "api", default_value_t = 60.0)]
    stream_fps: f64,
    /// Maximum video bitrate in bits per second, such as 10M
    #[arg(long, requires = "api")]
    bitrate: Option<Bitrate>,
    /// Folder for keys and paired devices
    #[arg(long, requires = "api", value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
    /// CSV file with a row for each frame and client
    #[arg(long, requires = "api", value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// The stream. It belongs to the window's thread.
pub(super) struct Stream {
    context: sys::Context,
    buffer: PixelBuffer,
    synchronous: bool,
}

impl Stream {
    /// Opens the library and starts the stream. Returns `None` if no library is configured.
    ///
    /// # Errors
    /// Returns an error if the library is missing or can't stream.
    pub(super) fn start(args: &Api, renderer: &Renderer, size: Size) -> Result<Option<Stream>> {
        let Some(path) = &args.api else {
            return Ok(None);
        };
        let buffer = renderer.pixel_buffer(size)?;
        let path_text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
        let context = Library::open(path)?.start(&Settings {
            size,
            buffer: buffer.name(),
            fps: args.stream_fps,
            bitrate: args.bitrate,
            bind: args.bind.clone(),
            pin: args.pin.clone(),
            config_dir: path_text(&args.config_dir),
            csv: path_text(&args.csv),
        })?;
        Ok(Some(Stream {
            context,
            buffer,
            synchronous: args.synchronous,
        }))
    }

    /// The player's input since the last call.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.context.next_input() {
            match event {
                InputEvent::Key { code, pressed } => {
                    events.extend(pressed.then_some(Event::Press));
                    events.extend(Direction::of_key(code).map(|to| Event::Walk(to, pressed)));
                }
                InputEvent::Button { pressed } => events.extend(pressed.then_some(Event::Press)),
                InputEvent::Pointer { x, y } => {
                    let part = |place: i32| place as f32 / f32::from(u16::MAX);
                    events.push(Event::Look(part(x), part(y)));
                }
                InputEvent::Other => {}
            }
        }
        self.context.begin_frame();
        events
    }

    /// Submits the picture that has been drawn but not yet swapped.
    ///
    /// # Errors
    /// Returns an error if the stream has ended, or if the window was resized.
    pub(super) fn submit(&mut self, renderer: &Renderer, size: Size) -> Result<()> {
        ensure!(
            size == self.buffer.size(),
            "the scene's window was resized, but a pixel buffer has a fixed size"
        );
        renderer.read_into(&self.buffer);
        self.context.submit(self.synchronous)
    }
}
