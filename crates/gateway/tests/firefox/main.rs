//! The page in a real Firefox, against a real host. Without Firefox, the tests are skipped with a message.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod marionette;
#[path = "../support/mod.rs"]
mod support;

use marionette::Firefox;
use openuvr_proto::units::Size;
use openuvr_runtime::host::EncoderName;
use support::skip::skip;
use support::{PIN, Rig};

const SIZE: Size = Size::new(640, 384);

fn start(rig: &Rig) -> Option<Firefox> {
    let Some(program) = marionette::program() else {
        skip("Firefox is not installed: apt-get install firefox-esr, or ./dev test-web");
        return None;
    };
    Some(Firefox::start(&program, rig.folder.path()))
}

#[test]
fn firefox_on_the_hosts_machine_connects_by_loopback() {
    let rig = Rig::new("firefox", SIZE);
    let Some(mut firefox) = start(&rig) else {
        return;
    };
    plays(&mut firefox, &rig);
}

/// Logs in and waits until Firefox plays.
fn plays(firefox: &mut Firefox, rig: &Rig) {
    firefox.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    firefox.until("document.querySelector('#pin')?.offsetParent");
    let fill = format!(
        "const pin = document.querySelector('#pin'); pin.value = '{PIN}'; pin.form.requestSubmit(); return true"
    );
    firefox.run(&fill);
    firefox.until("document.querySelector('#state')?.textContent === 'you play'");
}

#[test]
fn firefox_decodes_vp9() {
    let rig = Rig::with("firefox-vp9", SIZE, |config| {
        config.encoders = vec![EncoderName("libvpx-vp9")];
    });
    let Some(mut firefox) = start(&rig) else {
        return;
    };
    plays(&mut firefox, &rig);
    // Firefox does not count the frames of a stream. The size shows that a frame was decoded, and the time shows that
    // frames keep arriving.
    firefox.until(
        "[640, 4].join() === [video.videoWidth, video.readyState].join() && video.currentTime > 2",
    );
}
