//! `openuvr demo --web`: a browser instead of the client.

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_clock as clock;
use openuvr_media::barcode;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_testbed::chromium::{self, Browser, Page, PageObservations, Tab};
use openuvr_testbed::journey::captured_to_submitted;
use openuvr_testbed::pair::{self, Host, TemporaryDir};
use openuvr_testbed::picture_match::{History, Shot, psnr};
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::screen::Screen;
use openuvr_testbed::sound::{CLIENT_SINK, HOST_SINK, sound_words};
use openuvr_testbed::stats::{Frames, Summary};

use super::{ALIKE, Args, Sound, start_app, watch, write_png};

/// Timeout of the search for a matching picture.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the demo. Succeeds only if the page's picture matches the host's display and, with sound, the page played the
/// host's audio. If the demo does not start the browser itself, it compares nothing.
pub(super) fn run(
    args: &Args,
    at: SocketAddr,
    display: &str,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let at = match at.port() {
        0 => SocketAddr::new(at.ip(), pair::free_port()?),
        _ => at,
    };
    // Dropped in reverse order: the sound server outlives its clients.
    let dir = TemporaryDir::new()?;
    let mut sound = (args.sound)
        .then(|| Sound::start(dir.path(), &args.out, args.app.is_none()))
        .transpose()?;
    let server = sound
        .as_ref()
        .map(|sound| sound.server.address().to_owned());
    let mut app = start_app(args, display, server.as_deref())?;
    let csv = dir.path().join("host.csv");
    let mut more_host = vec!["--web".to_owned(), at.to_string()];
    more_host.extend(match &sound {
        Some(_) => sound_words(HOST_SINK),
        None => ["--sound", "off"].map(str::to_owned),
    });
    more_host.extend_from_slice(&args.host_arg);
    let mut host = Host::start(&pair::Options {
        pads: None,
        serve: pair::Serve::Host,
        host_display: display,
        client_display: "",
        fps: args.fps(),
        bitrate: &args.bitrate,
        dir: dir.path(),
        csv: Some(&csv),
        sound: server.as_deref(),
        show_host: true,
        more_host: &more_host,
        more_client: &[],
    })?;
    pair::wait_until_bound(&mut host.child, at.port(), &pair::TCP)?;
    let url = format!("https://{}/", reached(at));
    let program = chromium::program().filter(|_| !args.own_browser);
    let Some(program) = program else {
        invite(&url, &host.pin, args.own_browser);
        watch(args, stop, &mut app, &mut || host.child.check())?;
        return Ok(ExitCode::SUCCESS);
    };
    println!(
        "demo: Chromium opens {url}, with the PIN {}; Ctrl-C to stop",
        host.pin
    );
    let played = server.as_deref().map(|server| (server, CLIENT_SINK));
    let mut browser = Browser::start(program, &dir.path().join("browser"), played)?;
    let tab = browser.show(Page {
        url: &url,
        pin: &host.pin,
        query: "",
        link: None,
    })?;
    browser.wait_until_playing(&tab)?;
    browser.watch(&tab)?;
    let begun = clock::now();
    watch(args, stop, &mut app, &mut || {
        host.child.check()?;
        browser.check()
    })?;
    let window = [begun, clock::now()];
    let watched = browser.watched(&tab)?;
    let likeness = compare(&mut browser, &tab, display)?;
    let page = args.out.join("openuvr-demo-page.png");
    std::fs::write(&page, browser.screenshot(&tab)?)
        .with_context(|| format!("can't write {}", page.display()))?;
    let screen = Screen::open(display)?;
    let there = args.out.join("openuvr-demo-host.png");
    write_png(&[&Shot::take(&screen, screen.all())?], &there)?;
    if let Some(sound) = &mut sound {
        sound.recorder.stop();
    }
    drop(browser);
    host.child.stop_by_itself();
    app.stop();

    let record = std::fs::read_to_string(&csv).context("can't read the host's frame records")?;
    let sightings = print_latency(&watched, window, &record)?;
    println!(
        "demo: the page: {}; the host's display: {}",
        page.display(),
        there.display()
    );
    let received = match &sound {
        Some(sound) => sound.summarise(&sightings, window)?,
        None => true,
    };
    let alike = likeness.is_some_and(|likeness| likeness >= ALIKE);
    match likeness {
        Some(likeness) => println!(
            "demo: the page's picture {} the host's: PSNR {likeness:.1} dB (at least {ALIKE:.0} dB required)",
            if alike { "matches" } else { "differs from" }
        ),
        None => println!("demo: the page shows no picture of the host's size"),
    }
    if !alike {
        let why = match likeness {
            Some(_) => "the page's picture differs from the host's (a PSNR of 25 dB is required)",
            None => "the page showed no picture of the host's size",
        };
        println!("demo: FAILED: {why}");
    }
    Ok(match alike && received {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The address at which this machine reaches a host that listens at `at`.
fn reached(at: SocketAddr) -> SocketAddr {
    match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
        _ => at,
    }
}

/// Prints how to open the page.
fn invite(url: &str, pin: &str, own_browser: bool) {
    if !own_browser {
        println!(
            "demo: Chromium is not installed (install {})",
            chromium::PACKAGE
        );
    }
    println!("demo: open {url} in a browser and type the PIN {pin}");
    println!(
        "demo: the browser asks once about the host's self-signed certificate: compare the \
         fingerprint with the one above; Ctrl-C to stop"
    );
}

/// Prints the latency of the pictures. Returns the pictures with a readable bar code.
fn print_latency(
    watched: &PageObservations,
    window: [Instant; 2],
    record: &str,
) -> Result<Vec<Sighting>> {
    let seconds = window[1].since(window[0]).as_secs_f64().max(0.001);
    let print = |what: &str, spans: &[f64]| {
        if let Some(s) = Summary::of(spans) {
            println!(
                "demo: {what} p50 {:.1} ms, p99 {:.1} ms, of {} frames",
                s.p50, s.p99, s.count
            );
        }
    };
    let sightings = Vec::from_iter(watched.pictures.iter().map(|picture| Sighting {
        frame: picture.frame,
        drawn_us: picture.drawn_us,
        seen_us: barcode::micros(picture.at),
        inputs: picture.inputs,
    }));
    if !sightings.is_empty() {
        let Frames { drawn, visible, .. } = Frames::of(sightings.iter().map(|s| s.frame));
        println!("demo: {visible} of {drawn} frames were handed to the compositor");
        let spans: Vec<f64> = sightings.iter().map(Sighting::latency_ms).collect();
        print("drawn -> handed to the compositor", &spans);
    }
    let spans = captured_to_submitted(record, watched.began, window)?;
    println!(
        "demo: {:.1} frames/s were handed over",
        spans.len() as f64 / seconds
    );
    print("captured -> handed to the compositor", &spans);
    Ok(sightings)
}

/// The best PSNR between a picture of the page and a picture of the host's display, dB.
fn compare(browser: &mut Browser, tab: &Tab, display: &str) -> Result<Option<f64>> {
    let history = History::start(display, None)?;
    let until = clock::now() + COMPARE_TIMEOUT;
    let mut best: Option<f64> = None;
    while clock::now() < until && best.is_none_or(|best| best < ALIKE) {
        clock::sleep_until(clock::now() + Duration::from_millis(150));
        let shown = decoded(&browser.picture(tab)?)?;
        let likeness = history
            .shots()
            .iter()
            .filter_map(|shot| psnr(shot, &shown))
            .max_by(f64::total_cmp);
        best = best.into_iter().chain(likeness).max_by(f64::total_cmp);
    }
    Ok(best)
}

/// Decodes a browser's PNG: RGB or RGBA, 8 bits each.
fn decoded(bytes: &[u8]) -> Result<Shot> {
    let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info()?;
    let mut pixels = vec![
        0;
        reader
            .output_buffer_size()
            .context("the picture is too large")?
    ];
    let info = reader.next_frame(&mut pixels)?;
    let each = match (info.color_type, info.bit_depth) {
        (png::ColorType::Rgb, png::BitDepth::Eight) => 3,
        (png::ColorType::Rgba, png::BitDepth::Eight) => 4,
        (kind, depth) => anyhow::bail!(
            "the browser's picture has an unsupported format: {kind:?}, bit depth {depth:?}"
        ),
    };
    let size = Size::new(info.width, info.height);
    ensure!(
        pixels.len() >= size.pixels() * each,
        "the browser's picture is truncated"
    );
    let bgrx = pixels
        .chunks_exact(each)
        .flat_map(|p| [p[2], p[1], p[0], 255]);
    let pixels: Vec<u8> = bgrx.take(size.pixels() * 4).collect();
    Ok(Shot {
        size,
        stamp: None,
        pixels: pixels.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_reached_where_its_host_listens() {
        for (at, url) in [
            ("0.0.0.0:4711", "127.0.0.1:4711"),
            ("[::]:4711", "[::1]:4711"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            assert_eq!(reached(at.parse().unwrap()).to_string(), url);
        }
    }

    #[test]
    fn a_picture_of_the_browser_is_read_with_and_without_alpha() {
        for (colour, pixel) in [
            (png::ColorType::Rgb, &[1, 2, 3][..]),
            (png::ColorType::Rgba, &[1, 2, 3, 9]),
        ] {
            let mut bytes = Vec::new();
            let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
            encoder.set_color(colour);
            encoder.set_depth(png::BitDepth::Eight);
            let mut writer = encoder.write_header().unwrap();
            writer.write_image_data(&pixel.repeat(2)).unwrap();
            writer.finish().unwrap();
            let shot = decoded(&bytes).unwrap();
            assert_eq!(
                (shot.size, &shot.pixels[..]),
                (Size::new(2, 1), &[3, 2, 1, 255, 3, 2, 1, 255][..])
            );
        }
        assert!(decoded(b"no picture").is_err());
    }
}
