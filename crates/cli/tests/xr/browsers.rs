//! hello_xr in a browser with an emulated headset: Chromium and iwer.

use std::path::Path;

use openuvr_devtools::{Browser, Tab};
use serde_json::{Value, json};

use crate::Hello;
use crate::support::{PIN, eventually, skip};

/// The emulated headset of the page's own tests.
const HEADSET: &str = include_str!("../../../gateway/tests/chromium/headset.js");

/// Path of iwer, after installation of the page's packages.
const LIBRARY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../gateway/page/node_modules/iwer/build/iwer.min.js"
);

/// Fraction of green pixels in a part of the host's picture: the middle of the left eye's picture, from just below half
/// its height. Green is the colour of cubes that are not ahead.
const GREEN: &str = "(() => { \
    const video = document.querySelector('#video'); \
    const copy = document.createElement('canvas'); \
    [copy.width, copy.height] = [video.videoWidth, video.videoHeight]; \
    const context = copy.getContext('2d'); \
    context.drawImage(video, 0, 0); \
    const { data } = context.getImageData(130, 190, 60, 70); \
    let green = 0; \
    for (let at = 0; at < data.length; at += 4) \
        green += data[at + 1] > 150 && data[at] < 90 && data[at + 2] < 90; \
    return green / (data.length / 4); })()";

/// Orientation of the first view of the newest frame: x, y, z, w.
const DRAWN: &str = "[0, 1, 2, 3].map((n) => globalThis.views.getFloat32(10 + 12 + 4 * n, true))";

/// Fraction of coloured pixels in each half of the page's canvas, one half for each eye. Black and the background do
/// not count.
const SHOWN: &str = "new Promise((done) => requestAnimationFrame(() => { \
    const canvas = document.querySelector('#reality'); \
    const copy = document.createElement('canvas'); \
    [copy.width, copy.height] = [canvas.width, canvas.height]; \
    const context = copy.getContext('2d'); \
    context.drawImage(canvas, 0, 0); \
    done([0, 1].map((half) => { \
        const width = copy.width / 2; \
        const { data } = context.getImageData(half * width, 0, width, copy.height); \
        let coloured = 0; \
        for (let at = 0; at < data.length; at += 4) { \
            const all = [data[at], data[at + 1], data[at + 2]]; \
            coloured += Math.max(...all) - Math.min(...all) > 120; \
        } \
        return coloured / (data.length / 4); \
    })); }))";

/// The page of this host, logged in.
fn log_in(hello: &Hello, browser: &mut Browser, library: &str) -> Tab {
    let line = hello.program.line("openuvr xr: browsers: https://");
    let url = line.split(' ').find(|word| word.starts_with("https://"));
    let url = url.expect("its address").trim_end_matches(',');
    let tab = browser.open("about:blank");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let source = json!({ "source": format!("{library};{HEADSET}") });
    browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": url }));
    browser.log_in(&tab, PIN[1]);
    tab
}

/// Reads a pair of numbers.
fn pair(printed: &Value) -> Option<[f64; 2]> {
    Some([printed[0].as_f64()?, printed[1].as_f64()?])
}

#[test]
fn hello_xr_runs_in_a_browsers_headset() {
    let Some(program) = openuvr_devtools::program() else {
        return skip("chromium is not installed: apt-get install chromium, or ./dev test-web");
    };
    let Ok(library) = std::fs::read_to_string(Path::new(LIBRARY)) else {
        return skip(
            "iwer is not installed: npm install in crates/gateway/page, or ./dev test-web",
        );
    };
    let Some(mut hello) = Hello::with_encoder("x264", &["--web", "127.0.0.1:0"]) else {
        return;
    };
    let mut browser = Browser::start(program, hello.folder.path());
    let tab = log_in(&hello, &mut browser, &library);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    let enter = "document.querySelector('#enter')";
    browser.until(&tab, "!document.querySelector('#look').hidden");
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Leave VR'"));
    // Both eyes show cubes.
    eventually("both eyes", || {
        let [left, right] = pair(&browser.run(&tab, SHOWN))?;
        (left > 0.005 && right > 0.005).then_some(())
    });
    // The head turns by 45° to the right, and the application renders that view.
    let half = -22.5_f64.to_radians();
    let turn = format!(
        "device.quaternion.set(0, {}, 0, {})",
        half.sin(),
        half.cos()
    );
    browser.run(&tab, &turn);
    eventually("frames that were drawn for the head", || {
        let drawn = browser.run(&tab, DRAWN);
        let (y, w) = (drawn[1].as_f64()?, drawn[3].as_f64()?);
        ((y - half.sin()).abs() < 0.01 && (w - half.cos()).abs() < 0.01).then_some(())
    });
    eventually("the cube on the right", || {
        (browser.run(&tab, GREEN).as_f64()? > 0.02).then_some(())
    });
    // A controller squeezes; the application grabs and sends haptic feedback.
    browser.run(&tab, "device.controllers.left.position.set(0.2, 1.4, -0.4)");
    browser.run(
        &tab,
        "device.controllers.left.updateButtonValue('squeeze', 1)",
    );
    browser.until(&tab, "felt('left') !== null && felt('left')[0] > 0");
    assert_eq!(browser.run(&tab, "felt('right')"), Value::Null);
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Enter VR'"));
    hello.program.close_stdin();
    let (status, text) = hello.program.wait();
    assert!(status.success(), "{text}");
}
