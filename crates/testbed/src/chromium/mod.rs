//! A Chromium browser, usually headless, that shows a host's page, and observations of the pictures on this page.

mod trace;
mod watch;

use std::path::Path;
use std::process::{ChildStdin, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use openuvr_clock as clock;
use openuvr_devtools::DevTools;
pub use openuvr_devtools::{Tab, program, version};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use serde_json::{Value, json};

pub use self::trace::Slices;
pub use self::watch::{ComposedPicture, Decoded, PageObservations, Statistics};
use crate::child::Child;

/// Timeout of browser operations (guess). On a busy machine, a browser starts in 10 s.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The package to install.
pub const PACKAGE: &str = "chromium";

/// The address of a nonexistent sound server, so that the browser plays no sound.
const SILENT: &str = "unix:/nonexistent";

/// A running browser. It ends when dropped.
pub struct Browser {
    tools: DevTools<ChildStdin>,
    process: Child,
}

/// Parameters of a page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The host's URL, as the host prints it.
    pub url: &'a str,
    /// The PIN for the log-in.
    pub pin: &'a str,
    /// The URL's query, such as `?role=watch`.
    pub query: &'a str,
    /// The UDP port of an emulated link, which carries the media instead of the host's own port.
    pub link: Option<u16>,
}

impl Browser {
    /// Starts the program with an empty profile and its log in `folder`, which is created. `sound` is the address of a
    /// sound server and the name of the sink for audio; with `None`, the browser plays no audio.
    pub fn start(program: &str, folder: &Path, sound: Option<(&str, &str)>) -> Result<Browser> {
        let mut command = openuvr_devtools::command(program, folder);
        match sound {
            Some((server, sink)) => {
                command.env("PULSE_SERVER", server).env("PULSE_SINK", sink);
            }
            None => _ = command.env("PULSE_SERVER", SILENT),
        }
        command.env_remove("DISPLAY");
        Browser::spawn(command, folder)
    }

    /// Like [`start`](Self::start), but without sound, and with a window that fills `display`. The display has this
    /// `size` and no window manager. `more` contains additional arguments.
    pub fn start_shown(
        program: &str,
        folder: &Path,
        display: &str,
        size: Size,
        more: &str,
    ) -> Result<Browser> {
        // If the window is as large as the display, Chromium 156 shrinks the window and the picture by one pixel.
        let (width, height) = (size.width + 1, size.height + 1);
        let more = format!("--kiosk --window-position=0,0 --window-size={width},{height} {more}");
        let mut command = openuvr_devtools::command_with(program, folder, &more);
        command
            .env("DISPLAY", display)
            .env("LANG", "C.UTF-8")
            .env("PULSE_SERVER", SILENT);
        Browser::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: &Path) -> Result<Browser> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't make the directory {}", folder.display()))?;
        command.env_remove("WAYLAND_DISPLAY");
        let mut process = Child::start_piped("browser", command, &folder.join("sh.log"))?;
        let commands = process.stdin().context("the browser has no input pipe")?;
        let answers = process.stdout().context("the browser has no output pipe")?;
        Ok(Browser {
            tools: DevTools::new(commands, answers, TIMEOUT),
            process,
        })
    }

    /// The browser's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns an error if the browser has ended.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Opens an empty page.
    pub fn blank(&mut self) -> Result<Tab> {
        let tab = self.tools.open("about:blank").map_err(|e| anyhow!(e))?;
        let counted = self
            .tools
            .call(Some(&tab), "Performance.enable", &json!({}));
        counted.map(|_| tab).map_err(|e| anyhow!(e))
    }

    /// Opens the page, pairs, and waits for the first picture.
    pub fn show(&mut self, page: Page<'_>) -> Result<Tab> {
        let tab = self.blank()?;
        let link = page.link.map_or("null".to_owned(), |port| port.to_string());
        let script = format!(
            "globalThis.mediaLink = {link};\n{}\n{}",
            watch::BARCODE,
            watch::WATCH
        );
        let mut call = |method, params: &Value| {
            let done = self.tools.call(Some(&tab), method, params);
            done.map_err(|e| anyhow!(e))
        };
        call("Page.enable", &json!({}))?;
        let source = json!({ "source": script });
        call("Page.addScriptToEvaluateOnNewDocument", &source)?;
        let url = format!("{}{}", page.url, page.query);
        call("Page.navigate", &json!({ "url": url }))?;
        let shown = self.tools.log_in(&tab, page.pin);
        shown.map_err(|e| anyhow!("no picture on the page: {e}"))?;
        Ok(tab)
    }

    /// Runs a script and returns its value.
    pub fn run(&mut self, tab: &Tab, script: &str) -> Result<Value> {
        self.tools.run(tab, script).map_err(|e| anyhow!(e))
    }

    /// Waits until a script's value is true.
    pub fn until(&mut self, tab: &Tab, script: &str) -> Result<()> {
        self.tools.until(tab, script).map_err(|e| anyhow!(e))
    }

    /// Waits until the page has the player's role.
    pub fn wait_until_playing(&mut self, tab: &Tab) -> Result<()> {
        self.until(
            tab,
            "document.querySelector('#state').textContent === 'you play'",
        )
    }

    /// Number of decoded video frames; `None` if it is not reported.
    pub fn decoded(&mut self, tab: &Tab) -> Result<Option<Decoded>> {
        let video = self.run(tab, "statisticsOf('video')")?;
        Ok(Decoded::of(&video))
    }

    /// Presses or releases the space bar.
    pub fn space(&mut self, tab: &Tab, down: bool) -> Result<()> {
        let done = self.tools.key(tab, "Space", " ", down);
        done.map_err(|e| anyhow!(e))
    }

    /// A screenshot of the whole tab, as a PNG.
    pub fn screenshot(&mut self, tab: &Tab) -> Result<Vec<u8>> {
        let requested = json!({ "format": "png" });
        let taken = self
            .tools
            .call(Some(tab), "Page.captureScreenshot", &requested);
        let taken = taken.map_err(|e| anyhow!(e))?;
        bytes_of(&taken["data"])
    }

    /// The page's current picture in the size in which it was received, as a PNG.
    pub fn picture(&mut self, tab: &Tab) -> Result<Vec<u8>> {
        let taken = self.run(tab, watch::PICTURE)?;
        bytes_of(&taken)
    }

    /// The time on this machine's clock at which the page's clock, `performance.now()`, is 0. The two clocks differ
    /// only by this offset.
    ///
    /// # Errors
    /// Returns an error if the browser reports an impossible time, so that no comparison is possible.
    pub fn page_began(&mut self, tab: &Tab) -> Result<Instant> {
        let requested = self
            .tools
            .call(Some(tab), "Performance.getMetrics", &json!({}));
        let all = requested.map_err(|e| anyhow!(e))?;
        let metrics = all["metrics"]
            .as_array()
            .context("the browser reports no metrics")?;
        let found = metrics
            .iter()
            .find(|metric| metric["name"] == "NavigationStart");
        let began = found.and_then(|metric| metric["value"].as_f64());
        let began = watch::instant(began.context("the browser does not report the page's start")?);
        let before = clock::now();
        let now = self.run(tab, "performance.now()")?.as_f64();
        let now = watch::later(began, now.context("the page has no clock")?);
        let after = clock::now();
        anyhow::ensure!(
            watch::is_between(now, before, after),
            "the page's clock is not this machine's: its {now:?} is not between {before:?} and {after:?}"
        );
        Ok(began)
    }

    /// Starts the browser's trace.
    pub fn start_trace(&mut self) -> Result<()> {
        trace::start(&mut self.tools).map_err(|e| anyhow!(e))
    }

    /// Stops the trace. Returns the durations of its events.
    pub fn stop_trace(&mut self) -> Result<Slices> {
        trace::stop(&mut self.tools).map_err(|e| anyhow!(e))
    }

    /// Starts to observe the pictures.
    pub fn watch(&mut self, tab: &Tab) -> Result<()> {
        self.run(tab, "watchPictures()").map(|_| ())
    }

    /// The observations since [`Browser::watch`].
    pub fn watched(&mut self, tab: &Tab) -> Result<PageObservations> {
        let began = self.page_began(tab)?;
        let all = self.run(tab, "({ ...watched, peers: null })")?;
        let [video, audio] = ["video", "audio"].map(|kind| format!("statisticsOf('{kind}')"));
        let (video, audio) = (self.run(tab, &video)?, self.run(tab, &audio)?);
        PageObservations::of(began, &all, &video, &audio)
    }
}

/// Decodes base64 from the browser.
fn bytes_of(text: &Value) -> Result<Vec<u8>> {
    let text = text.as_str().context("no picture from the browser")?;
    let bytes = BASE64.decode(text);
    bytes.context("the browser's picture is not base64")
}
