//! Measures a browser's window on the rig's second display by reading its pixels, like any other window.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use openuvr_media::barcode;
use openuvr_testbed::chromium::{Browser, Page, Slices};
use openuvr_testbed::journey;
use openuvr_testbed::pair;
use openuvr_testbed::reader::{Reader, Sighting};

use super::fidelity::Pictures;
use super::peer::without_record;
use super::{Rig, Stream};

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum WindowContent {
    /// The page of a host that captures the scene.
    Page {
        /// Pixels by which the video element is narrower and less high than the display. With 0, the picture is not
        /// scaled.
        less: u32,
    },
    /// A page that needs no host. It draws pictures at the scene's rate, and copies them to the canvas in
    /// requestAnimationFrame callbacks.
    Own {
        /// Whether the canvas is desynchronized.
        desynchronized: bool,
    },
}

/// Parameters of a measured browser window.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct WindowSetup<'a> {
    pub(in crate::bench) shows: WindowContent,
    /// The program, and additional arguments.
    pub(in crate::bench) browser: &'a str,
    pub(in crate::bench) arguments: &'a str,
    /// Frames per second and bitrate of the host.
    pub(in crate::bench) fps: f64,
    pub(in crate::bench) bitrate: &'a str,
    pub(in crate::bench) seconds: f64,
    /// Number of key presses on the window's display.
    pub(in crate::bench) presses: u32,
    /// The folder for keys, logs, the browser's profile and the record.
    pub(in crate::bench) dir: &'a Path,
}

/// The script of the page that needs no host.
const OWN: &str = include_str!("../../../assets/floor.js");

/// Duration of the browser's trace, which follows the measurement, because tracing loads the machine.
const TRACED: Duration = Duration::from_secs(2);

impl Rig<'_> {
    /// Measures a browser's window. The host's record gives the durations of the steps, but does not restrict the
    /// frames that count.
    pub(in crate::bench) fn window(&mut self, of: &WindowSetup<'_>) -> Result<(Stream, Slices)> {
        match of.shows {
            WindowContent::Page { less } => self.page(of, less),
            WindowContent::Own { desynchronized } => self.own_pictures(of, desynchronized),
        }
    }

    fn page(&mut self, of: &WindowSetup<'_>, less: u32) -> Result<(Stream, Slices)> {
        self.with_scene()?;
        let csv = of.dir.join("frames.csv");
        let mut host = self.host_with_page(
            (of.fps, of.bitrate),
            of.dir,
            &csv,
            None,
            &["--encoder", "x264"],
        )?;
        let url = pair::page_of(&mut host.child)?;
        let mut browser = self.browser(of)?;
        let tab = browser.show(Page {
            url: &url,
            pin: &host.pin,
            query: "",
            link: None,
        })?;
        browser.wait_until_playing(&tab)?;
        browser.run(&tab, &self.alone_in_window(less))?;

        let children = [("host", host.child.id()), ("receiver", browser.id())];
        let (case, reaction_ms, pictures) =
            self.read_far(&children, of.seconds, of.presses, &mut || {
                host.child.check()?;
                browser.check()
            })?;
        let slices = self.traced(&mut browser)?;
        let began = browser.page_began(&tab)?;
        drop(browser);
        host.child.stop_by_itself();
        let mut record = journey::parse(&std::fs::read_to_string(&csv)?)?;
        for row in &mut record {
            row.convert_to_our_clock(began);
        }
        let sightings = Vec::from_iter(case.samples.iter().map(|sample| sample.sighting));
        let rows = journey::join_by_capture(&sightings, &record);
        let steps = journey::these_steps(&journey::WINDOW_STEPS, &sightings, &rows);
        let stream = without_record(case, reaction_ms, &pictures);
        Ok((Stream { steps, ..stream }, slices))
    }

    /// Measures a page that draws its own pictures. The page's clock has a resolution of 0.1 ms, because the page is
    /// not cross-origin isolated.
    fn own_pictures(&self, of: &WindowSetup<'_>, desynchronized: bool) -> Result<(Stream, Slices)> {
        let mut browser = self.browser(of)?;
        let tab = browser.blank()?;
        let wanted = serde_json::json!({
            "width": self.setup.size.width,
            "height": self.setup.size.height,
            "fps": self.setup.scene_fps,
            "beganUs": barcode::micros(browser.page_began(&tab)?),
            "desynchronized": desynchronized,
        });
        browser.run(&tab, &format!("{OWN}\nshowOwnPictures({wanted})"))?;
        let reader = Reader::start_as(self.far.name(), self.setup.sched)?;
        let children = [("receiver", browser.id())];
        let any = &mut |seen: &[Sighting]| Ok(!seen.is_empty());
        let check = &mut || browser.check();
        let (source, seconds) = (Some(self.far.name()), of.seconds);
        let case = self.measure(source, &reader, &children, seconds, any, check)?;
        drop(reader);
        let slices = self.traced(&mut browser)?;
        Ok((
            without_record(case, Vec::new(), &Pictures::default()),
            slices,
        ))
    }

    fn browser(&self, of: &WindowSetup<'_>) -> Result<Browser> {
        let (display, size) = (self.far.name(), self.setup.size);
        let folder = of.dir.join("browser");
        Browser::start_shown(of.browser, &folder, display, size, of.arguments)
    }

    fn traced(&self, browser: &mut Browser) -> Result<Slices> {
        browser.start_trace()?;
        self.pass(TRACED, &mut || Ok(()))?;
        browser.stop_trace()
    }

    /// Reduces a page to its video. Full screen would do the same, but the browser would show a notice over the
    /// picture.
    fn alone_in_window(&self, less: u32) -> String {
        let size = self.setup.size;
        let (width, height) = (size.width - less, size.height - less);
        format!(
            "document.querySelector('header').hidden = true; \
             Object.assign(document.body.style, {{ width: '{width}px', height: '{height}px' }}); true"
        )
    }
}
