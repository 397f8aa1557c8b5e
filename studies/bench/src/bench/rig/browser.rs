//! Measures a browser that plays a host's capture of the rig's display. The figures come from the browser's page.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_lab::capture::relayed::LinkCaptures;
use openuvr_lab::wifi::live;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_proto::time::Instant;
use openuvr_sim::link::Impairment;
use openuvr_testbed::chromium::{Browser, Page, PageObservations};
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::hop::{Config, Hop};
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::{self, Host};
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::sound::{CLIENT_SINK, HOST_SINK, sound_words};

use super::{Drawn, GRACE_PERIOD, Rig, SEED};
use crate::bench::keys::Keys;
use crate::machine::Load;

/// The link between host and browser.
#[derive(Clone, Debug)]
pub(in crate::bench) enum MediaLink {
    /// The loopback device alone.
    Direct,
    /// An emulated link with these impairments in each direction.
    Impaired(Impairment),
    /// The model of a Wi-Fi network, of which the browser is a station.
    Wifi(Box<Scenario>),
}

/// Parameters of a browser's measurement.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct BrowserSetup<'a> {
    /// The browser's program.
    pub(in crate::bench) browser: &'a str,
    pub(in crate::bench) link: &'a MediaLink,
    /// The folder for captures at both ends of an emulated link, or `None` for no captures.
    pub(in crate::bench) capture: Option<&'a Path>,
    pub(in crate::bench) fps: f64,
    pub(in crate::bench) bitrate: &'a str,
    /// Additional options of the host: encoder and rate control.
    pub(in crate::bench) options: &'a [&'a str],
    pub(in crate::bench) seconds: f64,
    /// Number of key presses.
    pub(in crate::bench) presses: u32,
    /// The folder for keys, logs, the browser's profile and the record.
    pub(in crate::bench) dir: &'a Path,
    /// The sound server that plays the rig's clicks, or `None` for no sound.
    pub(in crate::bench) sound: Option<&'a str>,
}

#[derive(Debug)]
pub(in crate::bench) struct BrowserMeasurement {
    /// Start and end of the measurement, and the frames that the scene drew in between.
    pub(in crate::bench) window: [Instant; 2],
    pub(in crate::bench) drawn: std::ops::RangeInclusive<u32>,
    /// Drawn frames whose pictures were handed to the compositor. `seen_us` is the time of the hand-over.
    pub(in crate::bench) sightings: Vec<Sighting>,
    /// All observations of the page since it was first watched.
    pub(in crate::bench) watched: PageObservations,
    /// Frames per second decoded by the browser, or `None` if the browser did not report them.
    pub(in crate::bench) decoded_fps: Option<f64>,
    /// The host's record.
    pub(in crate::bench) record: Vec<Row>,
    /// When an X client on the host's display received each press.
    pub(in crate::bench) pressed: Vec<Instant>,
    pub(in crate::bench) other_cores: f64,
    pub(in crate::bench) host_cores: f64,
    pub(in crate::bench) browser_cores: f64,
    /// The p99 of the emulated link's own lateness, ms.
    pub(in crate::bench) link_late_ms: Option<f64>,
}

impl Rig<'_> {
    /// Starts a host that serves the page and writes its record to `csv`. `options` are additional options of the host.
    /// With `sound`, the host streams the clicks that the rig plays on this sound server.
    pub(super) fn host_with_page(
        &self,
        (fps, bitrate): (f64, &str),
        dir: &Path,
        csv: &Path,
        sound: Option<&str>,
        options: &[&str],
    ) -> Result<Host> {
        let page = ["--web", "127.0.0.1:0"];
        let mut more_host: Vec<String> = page
            .iter()
            .chain(options)
            .map(|word| (*word).to_owned())
            .collect();
        more_host.extend(match sound {
            Some(_) => sound_words(HOST_SINK),
            None => ["--sound", "off"].map(str::to_owned),
        });
        let more_host = Vec::from_iter(more_host.iter().map(String::as_str));
        self.host_for((fps, bitrate), dir, csv, sound, &more_host)
    }

    /// Starts a host with these additional options. The host captures the first display and writes its record to `csv`.
    pub(super) fn host_for(
        &self,
        (fps, bitrate): (f64, &str),
        dir: &Path,
        csv: &Path,
        sound: Option<&str>,
        more_host: &[&str],
    ) -> Result<Host> {
        let more_host = Vec::from_iter(more_host.iter().map(|word| (*word).to_owned()));
        Host::start(&pair::Options {
            pads: None,
            serve: pair::Serve::Host,
            host_display: self.near.name(),
            client_display: self.far.name(),
            fps,
            bitrate,
            dir,
            csv: Some(csv),
            sound,
            show_host: false,
            more_host: &more_host,
            more_client: &[],
        })
    }

    /// Plays the scene in a browser.
    pub(in crate::bench) fn browse(&mut self, of: &BrowserSetup<'_>) -> Result<BrowserMeasurement> {
        self.with_scene()?;
        let csv = of.dir.join("frames.csv");
        let mut host =
            self.host_with_page((of.fps, of.bitrate), of.dir, &csv, of.sound, of.options)?;
        let url = pair::page_of(&mut host.child)?;
        let link = emulate(of.link, &url, of.capture)?;
        let sound = of.sound.map(|server| (server, CLIENT_SINK));
        let mut browser = Browser::start(of.browser, &of.dir.join("browser"), sound)?;
        let tab = browser.show(Page {
            url: &url,
            pin: &host.pin,
            query: "",
            link: link.as_ref().map(|link| link.listens.port()),
        })?;
        browser.wait_until_playing(&tab)?;
        browser.watch(&tab)?;

        let scene = Drawn::open(self.near.name())?;
        let mut check = |browser: &mut Browser| {
            host.child.check()?;
            browser.check()
        };
        self.pass(self.setup.warm_up, &mut || check(&mut browser))?;
        let decoded = browser.decoded(&tab)?;
        let (from, first) = scene.newest()?;
        let before = Load::now();
        let seconds = Duration::from_secs_f64(of.seconds);
        self.pass(seconds, &mut || check(&mut browser))?;
        let used = Load::now().since(&before);
        let (to, last) = scene.newest()?;
        let decoded_fps = match (decoded, browser.decoded(&tab)?) {
            (Some(before), Some(after)) => after.rate_since(&before),
            _ => None,
        };
        self.pass(GRACE_PERIOD, &mut || check(&mut browser))?;

        let keys = Keys::watch(self.near.name(), self.setup.sched)?;
        for press in 0..of.presses {
            browser.space(&tab, true)?;
            browser.space(&tab, false)?;
            // Vary the time of the press relative to the frames.
            let apart = Duration::from_micros(60_000 + u64::from(press) * 6_180 % 16_667);
            self.pass(apart, &mut || Ok(()))?;
        }
        self.pass(GRACE_PERIOD, &mut || Ok(()))?;
        let pressed = keys.pressed();
        let watched = browser.watched(&tab)?;
        let (host_id, browser_id) = (host.child.id(), browser.id());
        let host_cores = used.of_family(host_id);
        let browser_cores = used.of_family(browser_id);
        drop(browser);
        host.child.stop_by_itself();
        let mut record = journey::parse(&std::fs::read_to_string(&csv)?)?;
        for row in &mut record {
            row.convert_to_our_clock(watched.began);
        }
        let drawn = first + 1..=last;
        let sightings = watched
            .pictures
            .iter()
            .filter(|picture| drawn.contains(&picture.frame));
        let report = link.map(Emulated::end).transpose()?;
        let uncaptured = report.as_ref().map_or(0, |report| report.uncaptured);
        ensure!(
            uncaptured == 0,
            "{uncaptured} packets could not be written to the captures: free space on the disk"
        );
        let late = report.and_then(|report| report.lateness.quantile(990));
        Ok(BrowserMeasurement {
            sightings: sightings.map(sighting).collect(),
            window: [from, to],
            drawn,
            decoded_fps,
            record,
            watched,
            pressed,
            other_cores: used.other_cores,
            host_cores,
            browser_cores,
            link_late_ms: late.map(|late| late.as_secs_f64() * 1e3),
        })
    }
}

/// The hand-over to the compositor counts as the moment when a picture becomes visible.
fn sighting(picture: &openuvr_testbed::chromium::ComposedPicture) -> Sighting {
    Sighting {
        frame: picture.frame,
        drawn_us: picture.drawn_us,
        seen_us: openuvr_media::barcode::micros(picture.at),
        inputs: picture.inputs,
    }
}

/// The emulated link in front of the host's media port, or `None` for a direct link. Only media traffic passes through
/// it; the page is loaded directly. With `capture`, the packets at both ends of the link are captured into this folder.
fn emulate(link: &MediaLink, url: &str, capture: Option<&Path>) -> Result<Option<Emulated>> {
    let (direction, medium) = match link {
        MediaLink::Direct => return Ok(None),
        MediaLink::Impaired(impairment) => (impairment.clone(), None),
        MediaLink::Wifi(scenario) => (Impairment::default(), Some(live::medium(scenario, SEED)?)),
    };
    let address = url.trim_start_matches("https://").trim_end_matches('/');
    let to: SocketAddr = address.parse()?;
    let mut hop = Hop::open(Config {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        to,
        up: direction.clone().into(),
        down: direction.into(),
        seed: SEED,
    })?;
    if let Some(medium) = medium {
        hop.share(medium);
    }
    if let Some(folder) = capture {
        let files = ["server.pcapng", "client.pcapng"];
        let captures = LinkCaptures::create(folder, files, to, "openuvr bench web --capture")
            .with_context(|| format!("cannot capture into the folder {}", folder.display()))?;
        hop.observe(Box::new(captures));
    }
    Emulated::spawn(hop, true).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::UdpSocket;
    use std::ops::ControlFlow;

    use openuvr_lab::capture;
    use openuvr_lab::capture::datagram::Datagram;
    use openuvr_testbed::pair::TemporaryDir;

    use super::*;

    #[test]
    fn both_ends_of_a_captured_link_have_all_packets() {
        assert_both_ends_have_all_packets(&MediaLink::Impaired(Impairment::default()));
    }

    #[test]
    fn both_ends_of_a_wifi_model_have_all_packets() {
        assert_both_ends_have_all_packets(&MediaLink::Wifi(Box::new(Scenario::paper())));
    }

    fn assert_both_ends_have_all_packets(link: &MediaLink) {
        let folder = TemporaryDir::new().unwrap();
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let wait = Some(Duration::from_secs(60));
            socket.set_read_timeout(wait).unwrap();
            socket
        };
        let (host, client) = (socket(), socket());
        let url = format!("https://{}/", host.local_addr().unwrap());
        let link = emulate(link, &url, Some(folder.path())).unwrap().unwrap();
        let mut bytes = [0; 8];
        client.send_to(b"up", link.listens).unwrap();
        let (_, relay) = host.recv_from(&mut bytes).unwrap();
        host.send_to(b"down", relay).unwrap();
        assert_eq!(client.recv(&mut bytes).unwrap(), 4);
        assert_eq!(link.end().unwrap().uncaptured, 0);
        let target = host.local_addr().unwrap().to_string();
        for name in ["server.pcapng", "client.pcapng"] {
            let file = File::open(folder.path().join(name)).unwrap();
            let mut found = Vec::new();
            let read = capture::read(file, &mut |packet| {
                let datagram = Datagram::of(&packet).unwrap();
                let to_host = datagram.to.to_string() == target;
                found.push((to_host, datagram.payload.to_vec()));
                ControlFlow::Continue(())
            });
            let application = read.unwrap().application;
            assert_eq!(application.as_deref(), Some("openuvr bench web --capture"));
            let want = [(true, b"up".to_vec()), (false, b"down".to_vec())];
            assert_eq!(found, want, "{name}");
        }
    }
}
