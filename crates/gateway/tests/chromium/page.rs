//! Page elements other than the picture: buttons, menu, sound, touch, messages about a lost connection.

use openuvr_devtools::{Browser, Tab};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use serde_json::{Value, json};

use super::support::stalls::measured_without_stalls;
use super::support::{PIN, Rig, STALLED, eventually};
use super::{SIZE, chromium, log_in, next_press, start, turn};

/// The middle of an element, in pixels of the page.
fn middle(browser: &mut Browser, tab: &Tab, selector: &str) -> (f64, f64) {
    let place = browser.run(
        tab,
        &format!(
            "(() => {{ const b = document.querySelector('{selector}').getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ),
    );
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

/// Clicks on an element with the mouse. The element gets the focus if the page permits it.
fn click(browser: &mut Browser, tab: &Tab, selector: &str) {
    let (x, y) = middle(browser, tab, selector);
    for kind in ["mousePressed", "mouseReleased"] {
        let params = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
        browser.call(Some(tab), "Input.dispatchMouseEvent", &params);
    }
}

/// Presses and releases a key. `code` is its position, and `key` its character.
fn press(browser: &mut Browser, tab: &Tab, code: &str, key: &str) {
    for down in [true, false] {
        browser.key(tab, code, key, down);
    }
}

/// The next key event. Skips button events, and the releases that focus changes cause.
fn next_key(rig: &Rig) -> (u16, bool) {
    loop {
        match next_press(rig) {
            InputEvent::Key { code, pressed, .. } => return (code.0, pressed),
            InputEvent::ReleaseAll | InputEvent::Button { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn plays(browser: &mut Browser, tab: &Tab) {
    browser.until(
        tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
}

#[test]
fn buttons_give_the_keyboard_back_to_the_picture() {
    let rig = Rig::new("focus", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    plays(&mut browser, &tab);
    // Full screen shows only the picture, and Space is sent to the host.
    click(&mut browser, &tab, "#full");
    browser.until(&tab, "document.fullscreenElement?.id === 'play'");
    browser.until(
        &tab,
        "(() => { const b = document.querySelector('#video').getBoundingClientRect(); \
         return b.top === 0 && b.left === 0 && b.width === innerWidth && b.height === innerHeight \
         && !!document.elementFromPoint(5, 5).closest('#play'); })()",
    );
    press(&mut browser, &tab, "Space", " ");
    assert_eq!(next_key(&rig), (57, true));
    assert_eq!(next_key(&rig), (57, false));
    let full = "document.fullscreenElement?.id === 'play'";
    assert_eq!(browser.run(&tab, full), json!(true));
    browser.run(&tab, "document.exitFullscreen()");
    // The open menu has the keyboard focus. Each selection returns the focus to the picture.
    click(&mut browser, &tab, "#open-menu");
    browser.until(
        &tab,
        "document.querySelector('#menu').matches(':popover-open')",
    );
    browser.until(&tab, "document.activeElement.id === 'menu'");
    press(&mut browser, &tab, "KeyX", "x");
    click(&mut browser, &tab, "#overlay");
    browser.until(
        &tab,
        "!document.querySelector('#menu').matches(':popover-open')",
    );
    browser.until(&tab, "document.activeElement.id === 'keys'");
    press(&mut browser, &tab, "KeyQ", "q");
    assert_eq!(next_key(&rig), (16, true));
    assert_eq!(next_key(&rig), (16, false));
    // A button that is operated by keyboard alone also returns the focus.
    browser.run(&tab, "document.querySelector('#full').focus()");
    browser.run(&tab, "document.querySelector('#full').click()");
    browser.until(&tab, "document.activeElement.id === 'keys'");
}

#[test]
fn the_menu_sends_keys_that_the_browser_keeps() {
    let rig = Rig::new("chords", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    plays(&mut browser, &tab);
    click(&mut browser, &tab, "#open-menu");
    browser.until(
        &tab,
        "document.querySelector('#menu').matches(':popover-open')",
    );
    click(&mut browser, &tab, "#chords button");
    let codes = [29, 56, 111];
    let down = codes.iter().map(|code| (*code, true));
    let up = codes.iter().rev().map(|code| (*code, false));
    for expected in down.chain(up) {
        assert_eq!(next_key(&rig), expected);
    }
}

#[test]
fn unsupported_browsers_are_rejected_before_log_in() {
    let rig = Rig::new("cannot", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    for (lacks, says) in [
        ("delete window.RTCPeerConnection", "no WebRTC"),
        (
            "RTCPeerConnection.prototype.createOffer = async () => \
             ({ type: 'offer', sdp: 'a=rtpmap:96 VP8/90000' })",
            "no H.264",
        ),
    ] {
        let tab = browser.open("about:blank");
        browser.call(Some(&tab), "Page.enable", &json!({}));
        let source = json!({ "source": lacks });
        browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
        let url = format!("https://127.0.0.1:{}/", rig.address().port());
        browser.call(Some(&tab), "Page.navigate", &json!({ "url": url }));
        let words = "document.querySelector('#notice p')?.innerText ?? ''";
        browser.until(&tab, &format!("({words}).includes('{says}')"));
        let said = browser.run(&tab, words);
        let said = said.as_str().unwrap();
        assert_eq!(said.matches(". ").count(), 0, "one sentence: {said}");
        let asked =
            "performance.getEntriesByType('resource').some((r) => r.name.includes('login'))";
        assert_eq!(browser.run(&tab, asked), json!(false));
        let form = "document.querySelector('#login').hidden";
        assert_eq!(browser.run(&tab, form), json!(true));
        browser.close(&tab);
    }
}

#[test]
fn a_lost_connection_is_shown_over_the_last_picture() {
    let rig = Rig::new("lost", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open("about:blank");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let source = json!({ "source":
        "window.WebSocket = class extends WebSocket { \
         constructor(...all) { super(...all); globalThis.signalling = this; } };" });
    browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
    let url = format!("https://127.0.0.1:{}/", rig.address().port());
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": url }));
    browser.log_in(&tab, PIN);
    plays(&mut browser, &tab);
    browser.until(&tab, "document.querySelector('#notice').hidden");
    // The connection breaks. The last picture stays visible but dimmed, so it is not entirely black.
    let seen = browser.run(
        &tab,
        "new Promise((done) => { const look = () => { \
         const [notice, last] = ['#notice', '#last'].map((of) => document.querySelector(of)); \
         if (notice.hidden || notice.querySelector('h1').textContent !== 'Reconnecting…') \
           return void setTimeout(look, 5); \
         const { data } = last.getContext('2d').getImageData(0, 0, last.width, last.height); \
         done({ width: last.width, lit: data.some((value, n) => n % 4 < 3 && value > 64), \
         dimmed: getComputedStyle(last).filter.includes('brightness'), \
         size: parseFloat(getComputedStyle(notice.querySelector('h1')).fontSize) }); }; \
         signalling.close(); look(); })",
    );
    assert_eq!(seen["width"], 640, "{seen}");
    assert_eq!(seen["lit"], true, "{seen}");
    assert_eq!(seen["dimmed"], true, "{seen}");
    assert!(seen["size"].as_f64().unwrap() >= 28.0, "{seen}");
    // The page reconnects automatically.
    browser.until(
        &tab,
        "document.querySelector('#notice').hidden && document.querySelector('#last').hidden",
    );
    plays(&mut browser, &tab);
    // After the host stopped, only the user can reconnect.
    drop(rig.gateway);
    browser.until(
        &tab,
        "document.querySelector('#notice h1').innerText === 'Disconnected' \
         && !document.querySelector('#again').hidden && !document.querySelector('#notice').hidden",
    );
}

#[test]
fn sound_starts_with_the_first_click_and_has_a_volume() {
    let rig = Rig::with("sound", SIZE, |config| {
        config.sound = openuvr_runtime::sound_choice::SoundChoice::parse("tone:440")
    });
    let _turn = turn();
    let Some(program) = chromium() else {
        return;
    };
    let policy = "--autoplay-policy=document-user-activation-required";
    let mut browser = Browser::start_with(program, rig.folder.path(), policy);
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    // These expressions are evaluated without user activation.
    let seen = |browser: &mut Browser, expression: &str| {
        eventually(expression, || {
            (browser.looks(&tab, expression) == Some(json!(true))).then_some(())
        });
    };
    seen(
        &mut browser,
        "document.querySelector('#login')?.hidden === false",
    );
    let typed = format!(
        "(document.querySelector('#pin').value = '{PIN}', document.querySelector('#login').requestSubmit(), true)"
    );
    seen(&mut browser, &typed);
    seen(
        &mut browser,
        "!document.querySelector('#sound').hidden && document.querySelector('#video').videoWidth > 0",
    );
    let paused = "document.querySelector('#audio').paused";
    assert_eq!(browser.looks(&tab, paused), Some(json!(true)));
    click(&mut browser, &tab, "#video");
    seen(&mut browser, "!document.querySelector('#audio').paused");
    let pressed = "document.querySelector('#sound').ariaPressed === 'true'";
    browser.until(&tab, pressed);
    browser.run(
        &tab,
        "(() => { const volume = document.querySelector('#volume'); volume.value = '50'; \
         volume.dispatchEvent(new Event('input')); })()",
    );
    assert_eq!(
        browser.run(&tab, "document.querySelector('#audio').volume"),
        json!(0.25)
    );
    click(&mut browser, &tab, "#sound");
    browser.until(&tab, "document.querySelector('#audio').muted");
}

#[test]
fn size_and_bit_rate_are_chosen_on_the_page() {
    let rig = Rig::new("constraints", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    plays(&mut browser, &tab);
    let choose = |browser: &mut Browser, name: &str, value: &str| {
        browser.run(
            &tab,
            &format!(
                "(() => {{ const choice = document.querySelector('#{name}'); choice.value = '{value}'; \
                 choice.dispatchEvent(new Event('change')); }})()"
            ),
        );
    };
    choose(&mut browser, "size", "640x360");
    browser.until(&tab, "document.querySelector('#video').videoHeight === 360");
    choose(&mut browser, "bitrate", "1000000");
    choose(&mut browser, "size", "");
    browser.until(&tab, "document.querySelector('#video').videoHeight === 384");
    plays(&mut browser, &tab);
    // The choice is stored.
    browser.close(&tab);
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(
        &tab,
        "document.querySelector('#bitrate')?.value === '1000000'",
    );
}

/// A page on a phone of 390 x 844.
fn phone(rig: &Rig, browser: &mut Browser) -> Tab {
    let tab = browser.open("about:blank");
    let metrics = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
    browser.call(Some(&tab), "Emulation.setDeviceMetricsOverride", &metrics);
    let touch = json!({ "enabled": true, "maxTouchPoints": 5 });
    browser.call(Some(&tab), "Emulation.setTouchEmulationEnabled", &touch);
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let url = format!("https://127.0.0.1:{}/", rig.address().port());
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": url }));
    tab
}

/// Touch targets that are too small, and elements wider than the page.
const SMALL: &str = "(() => { const small = []; \
    for (const b of document.querySelectorAll('button, select, input')) { \
      const { width, height } = b.getBoundingClientRect(); \
      if (width > 0 && (width < 44 || height < 44)) small.push(`${b.id || b.textContent} ${width}x${height}`); } \
    const all = [document.documentElement, ...document.querySelectorAll('header, header *')]; \
    const right = (e) => Math.max(e.getBoundingClientRect().right, e === all[0] ? e.scrollWidth : 0); \
    const wide = all.filter((e) => right(e) > innerWidth).map((e) => `${e.tagName} ${e.id} to ${right(e)}`); \
    return JSON.stringify([small, wide]); })()";

#[test]
fn fingers_tap_press_long_and_scroll() {
    let rig = Rig::new("touch", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = phone(&rig, &mut browser);
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    assert_eq!(browser.run(&tab, SMALL), json!("[[],[]]"));
    browser.log_in(&tab, PIN);
    plays(&mut browser, &tab);
    assert_eq!(browser.run(&tab, SMALL), json!("[[],[]]"));
    let (x, y) = middle(&mut browser, &tab, "#video");
    let touch = |browser: &mut Browser, kind: &str, points: &[(f64, f64)]| {
        let points: Vec<Value> = (0..)
            .zip(points)
            .map(|(id, (x, y))| json!({ "x": x, "y": y, "id": id }))
            .collect();
        let params = json!({ "type": kind, "touchPoints": points });
        browser.call(Some(&tab), "Input.dispatchTouchEvent", &params);
    };
    let button = |button, pressed| InputEvent::Button { button, pressed };
    // A tap that a stall prolongs is a long press.
    measured_without_stalls(5, STALLED, || {
        touch(&mut browser, "touchStart", &[(x, y)]);
        touch(&mut browser, "touchEnd", &[]);
        let came = [true, false].map(|_| next_press(&rig));
        match came == [true, false].map(|pressed| button(Button::LEFT, pressed)) {
            true => Ok(()),
            false => Err(format!("a tap is {came:?}")),
        }
    });
    // A long press clicks the right button before the finger is lifted.
    touch(&mut browser, "touchStart", &[(x, y)]);
    for pressed in [true, false] {
        assert_eq!(next_press(&rig), button(Button::RIGHT, pressed));
    }
    touch(&mut browser, "touchEnd", &[]);
    // Moving two fingers up by 100 pixels scrolls down by two notches. If a stall delays the second finger, the first
    // one is a long press.
    measured_without_stalls(5, STALLED, || {
        touch(&mut browser, "touchStart", &[(x - 40.0, y)]);
        touch(&mut browser, "touchStart", &[(x - 40.0, y), (x + 40.0, y)]);
        for step in 1..=10 {
            let y = y - 10.0 * f64::from(step);
            touch(&mut browser, "touchMove", &[(x - 40.0, y), (x + 40.0, y)]);
        }
        touch(&mut browser, "touchEnd", &[]);
        let mut turned = 0;
        while turned > -240 {
            match next_press(&rig) {
                InputEvent::Wheel { dx: 0, dy } => turned += i32::from(dy),
                other => return Err(format!("{other:?} and {:?}", next_press(&rig))),
            }
        }
        assert_eq!(turned, -240);
        Ok(())
    });
}

#[test]
fn an_on_screen_keyboard_types_composed_text() {
    let rig = Rig::new("osk", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = phone(&rig, &mut browser);
    browser.log_in(&tab, PIN);
    plays(&mut browser, &tab);
    // A tap on the picture does not open the on-screen keyboard.
    browser.until(&tab, "document.querySelector('#keys').inputMode === 'none'");
    click(&mut browser, &tab, "#keyboard");
    browser.until(
        &tab,
        "document.querySelector('#keys').inputMode === 'text' && document.activeElement.id === 'keys'",
    );
    let mut compose = |method: &str, text: &str| {
        let params = match method {
            "Input.insertText" => json!({ "text": text }),
            _ => json!({ "text": text, "selectionStart": text.len(), "selectionEnd": text.len() }),
        };
        browser.call(Some(&tab), method, &params);
    };
    // A keyboard with suggestions. Each letter changes the word, and the space accepts a correction.
    compose("Input.imeSetComposition", "h");
    compose("Input.imeSetComposition", "hu");
    compose("Input.imeSetComposition", "hi");
    compose("Input.insertText", "hi 👋");
    let mut typed = String::new();
    while !typed.ends_with('👋') {
        match next_press(&rig) {
            InputEvent::Key {
                code: KeyCode(0),
                text: Some(text),
                pressed: true,
            } => typed.push(text),
            InputEvent::Key {
                code: KeyCode(14),
                pressed: true,
                ..
            } => drop(typed.pop()),
            InputEvent::Key { pressed: false, .. } | InputEvent::ReleaseAll => {}
            InputEvent::Button { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(typed, "hi 👋");
}

#[test]
fn a_playing_page_confirms_before_it_closes() {
    let rig = Rig::new("closes", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    let asks = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))";
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    assert_eq!(browser.run(&tab, asks), json!(false));
    browser.log_in(&tab, PIN);
    plays(&mut browser, &tab);
    assert_eq!(browser.run(&tab, asks), json!(true));
    browser.run(&tab, "document.querySelector('#watch').click()");
    browser.until(&tab, "!document.querySelector('#role').hidden");
    assert_eq!(browser.run(&tab, asks), json!(false));
}

#[test]
fn the_page_can_be_installed() {
    let rig = Rig::new("installed", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let manifest = browser.call(Some(&tab), "Page.getAppManifest", &json!({}));
    assert_eq!(manifest["errors"], json!([]), "{manifest}");
    assert_eq!(manifest["manifest"]["display"], "kStandalone", "{manifest}");
    let errors = browser.call(Some(&tab), "Page.getInstallabilityErrors", &json!({}));
    let errors = errors["installabilityErrors"].as_array().unwrap().clone();
    // Chromium reports two errors because of the test environment: an incognito profile and an unverified certificate.
    let ours = |error: &&Value| {
        let id = error["errorId"].as_str().unwrap_or_default();
        !["in-incognito", "not-from-secure-origin"].contains(&id)
    };
    assert_eq!(errors.iter().find(ours), None, "{errors:?}");
    let icon = "fetch(document.querySelector('link[rel=icon]').href).then((r) => r.headers.get('content-type'))";
    assert_eq!(browser.run(&tab, icon), json!("image/svg+xml"));
}

#[test]
fn arrow_keys_choose_a_tab() {
    let rig = Rig::new("tabs", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.run(&tab, "document.querySelector('#tab-play').focus()");
    for (key, shown, other) in [
        ("ArrowRight", "figures", "play"),
        ("ArrowRight", "play", "figures"),
        ("End", "figures", "play"),
        ("Home", "play", "figures"),
    ] {
        press(&mut browser, &tab, key, key);
        browser.until(
            &tab,
            &format!(
                "document.activeElement.id === 'tab-{shown}' && !document.querySelector('#{shown}').hidden \
                 && document.querySelector('#{other}').hidden && document.querySelector('#tab-{other}').tabIndex === -1"
            ),
        );
    }
}

#[test]
fn the_page_follows_the_systems_theme() {
    let rig = Rig::new("theme", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    let mut lightness = |theme: &str| {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        browser.call(Some(&tab), "Emulation.setEmulatedMedia", &features);
        let red = "Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])";
        let [ground, words] = ["backgroundColor", "color"].map(|of| {
            let value = browser.run(&tab, &red.replace("backgroundColor", of));
            value.as_f64().unwrap()
        });
        ground - words
    };
    assert!(lightness("light") > 128.0);
    assert!(lightness("dark") < -128.0);
}

#[test]
fn a_pin_may_contain_blanks() {
    let rig = Rig::new("blanks", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    let (one, other) = PIN.split_at(3);
    browser.log_in(&tab, &format!(" {one} {other} "));
    plays(&mut browser, &tab);
}

/// Page width, overflow, the number of visible texts in bar, form and menu, and the texts with a contrast below 4.5:1
/// (WCAG 2.2, 1.4.3, with its relative luminance).
const READABLE: &str = "(() => { \
    const linear = (of) => (of / 255 <= 0.04045 ? of / 255 / 12.92 : ((of / 255 + 0.055) / 1.055) ** 2.4); \
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b); \
    const parts = (colour) => colour.match(/[\\d.]+/g).map(Number); \
    const ground = (of) => { const colour = parts(getComputedStyle(of).backgroundColor); \
      return colour[3] === 0 ? ground(of.parentElement) : colour; }; \
    const texts = [...document.querySelectorAll('header *, #login *, #menu *')].filter((of) => \
      of.getClientRects().length > 0 && \
      [...of.childNodes].some((part) => part.nodeType === Node.TEXT_NODE && part.data.trim() !== '')); \
    const contrast = (of) => { \
      const both = [parts(getComputedStyle(of).color), ground(of)].map(luminance); \
      return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05); }; \
    const poor = texts.filter((of) => contrast(of) < 4.5); \
    return { width: innerWidth, wider: Math.max(0, document.documentElement.scrollWidth - innerWidth), \
      texts: texts.length, poor: poor.map((of) => `${of.id || of.textContent} ${contrast(of)}`) }; })()";

/// Checks the current page on a desktop and on a phone, in both themes.
fn is_readable(browser: &mut Browser, tab: &Tab) {
    for (width, height) in [(1920, 1080), (390, 844)] {
        // `mobile` is false, because a mobile page would grow with its content.
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call(Some(tab), "Emulation.setDeviceMetricsOverride", &metrics);
        browser.until(tab, &format!("innerWidth === {width}"));
        for theme in ["light", "dark"] {
            let features =
                json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
            browser.call(Some(tab), "Emulation.setEmulatedMedia", &features);
            let seen = browser.run(tab, READABLE);
            let at = format!("{width}x{height}, {theme}: {seen}");
            assert_eq!(seen["width"], width, "{at}");
            assert_eq!(seen["wider"], 0, "{at}");
            assert!(seen["texts"].as_u64().unwrap() >= 2, "{at}");
            assert_eq!(seen["poor"], json!([]), "{at}");
        }
    }
}

#[test]
fn the_page_is_readable_and_fits_on_desktops_and_phones() {
    let rig = Rig::new("readable", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    is_readable(&mut browser, &tab);
    browser.log_in(&tab, PIN);
    plays(&mut browser, &tab);
    is_readable(&mut browser, &tab);
    browser.run(&tab, "document.querySelector('#menu').showPopover()");
    is_readable(&mut browser, &tab);
}
