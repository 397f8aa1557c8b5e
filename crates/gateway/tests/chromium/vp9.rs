//! A real browser that decodes VP9, and gets a key frame after it has lost frames.

use openuvr_devtools::{Browser, Tab};
use openuvr_runtime::host::EncoderName;
use serde_json::json;

use super::support::{PIN, Rig};
use super::{BARCODE, SIZE, start};

const WATCH: &str = include_str!("../../../testbed/assets/watch.js");
const VP9: &str = include_str!("vp9.js");

/// Minimum PSNR of the bar code in dB. Noise has a PSNR of 5 dB.
const LIKENESS: f64 = 20.0;

fn rig(name: &str, encoders: &[&'static str]) -> Rig {
    let encoders = encoders.iter().copied().map(EncoderName).collect();
    Rig::with(name, SIZE, |config| config.encoders = encoders)
}

/// Opens a page with the scripts and this query, and logs in with the PIN.
fn watched(rig: &Rig, browser: &mut Browser, query: &str) -> Tab {
    let tab = known(rig, browser, query);
    browser.log_in(&tab, PIN);
    browser.until(&tab, "(readBarcode() ?? 0) > 0");
    tab
}

/// Opens the same page in a browser that the host knows, without a log-in.
fn known(rig: &Rig, browser: &mut Browser, query: &str) -> Tab {
    let tab = browser.open("about:blank");
    let source = format!("{BARCODE}\n{VP9}\n{WATCH}");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let source = json!({ "source": source });
    browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
    let page = format!("https://127.0.0.1:{}/{query}", rig.address().port());
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": page }));
    tab
}

#[test]
fn chromium_decodes_vp9() {
    let rig = rig("vp9", &["libvpx-vp9"]);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = watched(&rig, &mut browser, "");
    browser.until(&tab, "decodedVideo().then((of) => of?.frames > 60)");
    let decoded = browser.run(&tab, "decodedVideo()");
    assert_eq!(decoded["codec"], "video/VP9");
    let mut last = 0;
    for _ in 0..10 {
        browser.until(&tab, &format!("(readBarcode() ?? 0) > {last}"));
        last = browser.run(&tab, "readBarcode()").as_u64().unwrap_or(last);
    }
    // The page may show another picture by the next call, but each picture has a code.
    browser.until(&tab, "likeness() !== null");
    let likeness = browser.run(&tab, "likeness()").as_f64().unwrap_or(0.0);
    assert!(likeness > LIKENESS, "{likeness} dB");
}

#[test]
fn lost_frames_of_vp9_bring_a_key_frame() {
    let rig = rig("vp9-lossy", &["libvpx-vp9"]);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = watched(&rig, &mut browser, "");
    browser.run(&tab, "losing = true");
    // The transform stops losing frames at the next key frame.
    browser.until(&tab, "lost > 0 && !losing");
    let last = browser.run(&tab, "readBarcode() ?? 0");
    browser.until(&tab, &format!("(readBarcode() ?? 0) > {last}"));
}

#[test]
fn the_pages_address_selects_the_codec() {
    let rig = rig("codecs", &["x264", "libvpx-vp9"]);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = watched(&rig, &mut browser, "");
    let decoded = |browser: &mut Browser, tab: &Tab| {
        let decodes = "globalThis.decodedVideo?.().then((of) => of?.frames > 30)";
        browser.until(tab, decodes);
        browser.run(tab, "decodedVideo()")["codec"].clone()
    };
    // The host's order decides.
    assert_eq!(decoded(&mut browser, &tab), "video/H264");
    browser.close(&tab);
    let tab = known(&rig, &mut browser, "?codec=vp9");
    assert_eq!(decoded(&mut browser, &tab), "video/VP9");
}
