//! Tests the page's content: branding, pictures, the log of a failed session, the end of a session.

use std::fs;

use serde_json::json;

use super::support::{Installation, wait};
use super::{log_in, play, press, start, start_application, state};

/// Square, like icons.
const ICON: &[u8] = include_bytes!("../../../gateway/page/dist/icon.png");

#[test]
fn the_page_names_the_product_before_the_log_in_and_behind_it() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = browser.open(&format!("{}://{}/", portal.scheme, portal.at));
    // Checks that the product's name and picture are visible: the element has a size, and the picture is loaded.
    let named = |within: &str| {
        format!(
            "(() => {{ const of = document.querySelector('{within}'); const icon = of?.querySelector('img');
               return of?.innerText.trim() === 'OpenUVR' && of.offsetHeight > 0 && icon.naturalWidth > 0; }})()"
        )
    };
    browser.until(&tab, &named("#login h1"));
    let tab = log_in(&mut browser, &portal, "ada");
    browser.until(&tab, &named("header .brand"));
    for view in ["history", "account", "play"] {
        browser.run(
            &tab,
            &format!("document.querySelector('#tab-{view}').click(); true"),
        );
        browser.until(&tab, &named("header .brand"));
    }
}

#[test]
fn applications_show_pictures_and_those_of_desktop_entries() {
    let mut place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    let share = place.path("share");
    for folder in ["applications", "icons/hicolor/256x256/apps"] {
        fs::create_dir_all(share.join(folder)).unwrap();
    }
    place.write(
        "share/applications/org.example.Gears.desktop",
        "[Desktop Entry]\nType=Application\nName=Gears\nExec=gears %U\nIcon=org.example.Gears\n",
    );
    let icon = "icons/hicolor/256x256/apps/org.example.Gears.png";
    fs::write(share.join(icon), ICON).unwrap();
    fs::write(place.path("own.png"), ICON).unwrap();
    place.environment = vec![("XDG_DATA_DIRS", share.display().to_string())];
    place.write(
        "applications.toml",
        "[[application]]\nname = \"gears\"\ncommand = [\"gears\", \"--full\"]\n\
         [[application]]\nname = \"own\"\ncommand = [\"x\"]\npicture = \"own.png\"\n\
         [[application]]\nname = \"none\"\ncommand = [\"y\"]\n",
    );
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    // For each application, the script returns whether its picture is loaded and shown as an icon, or the letter that
    // replaces a picture.
    let pictures = "[...document.querySelectorAll('#applications .picture')].map((of) =>
        of.tagName === 'IMG' ? of.complete && of.naturalWidth > 0 && of.classList.contains('icon') : of.textContent)";
    browser.until(
        &tab,
        &format!("JSON.stringify({pictures}) === '[true,true,\"N\"]'"),
    );
}

#[test]
fn the_owner_of_a_session_that_failed_reads_its_last_lines() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    let fails = "echo it begins >&2; echo '<b>no such display</b>' >&2; exit 3";
    place.write(
        "portal.toml",
        &format!("data = \"data\"\n[local]\nprogram = [\"sh\", \"-c\", {fails:?}]\n"),
    );
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    start_application(&mut browser, &tab, "bare", "ended");
    let why = browser.run(
        &tab,
        "document.querySelector('#own .what span').textContent",
    );
    assert!(why.as_str().unwrap().contains("exit code 3"), "{why}");
    browser.run(&tab, &press("Log", "#own"));
    browser.until(&tab, "!!document.querySelector('#own .log')");
    // The text appears exactly as written, because it is not interpreted as markup.
    assert_eq!(
        browser.run(&tab, "document.querySelector('#own .log').textContent"),
        json!("it begins\n<b>no such display</b>")
    );
    browser.until(
        &tab,
        "[...document.querySelectorAll('#own button')].some((of) => of.textContent === 'Hide log' && !of.disabled)",
    );
    browser.run(&tab, &press("Hide log", "#own"));
    browser.until(&tab, "!document.querySelector('#own .log')");
    browser.run(&tab, &press("Dismiss", "#own"));
    browser.until(&tab, "document.querySelectorAll('#own > li').length === 0");
}

/// A script that returns which elements with controls or statistics are visible on the page that plays the session.
const FIGURES: &str = "['nav', '#overlay', '#save'].filter(
    (of) => getComputedStyle(document.querySelector(of)).display !== 'none')";

#[test]
fn the_page_shows_the_sessions_end_and_links_back() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    start_application(&mut browser, &tab, "bare", "running");
    play(&mut browser, &tab);
    let said = |title: &str| {
        format!(
            "!document.querySelector('#notice').hidden && \
             document.querySelector('#notice h1').textContent === '{title}'"
        )
    };
    // A bare session streams nothing, so the page tries to reconnect while the session runs.
    browser.until(&tab, &said("Reconnecting…"));
    assert_eq!(browser.run(&tab, FIGURES), json!([]));
    let session = browser.run(&tab, "location.pathname.split('/')[2]");
    let session = session.as_str().unwrap();
    let ada = portal.log_in("ada");
    let stopped = ada.status("DELETE", &format!("/api/sessions/{session}"), None);
    assert_eq!(stopped, 202);
    browser.until(&tab, &said("Session ended"));
    let why = "document.querySelector('#notice p').textContent";
    assert_eq!(
        browser.run(&tab, why),
        json!("The session has ended: stopped.")
    );
    wait("no remaining processes", || place.processes().is_empty());
    browser.run(&tab, "document.querySelector('#back').click(); true");
    browser.until(&tab, &state("ended"));
    assert_eq!(browser.run(&tab, "location.pathname"), json!("/"));

    // The elements with statistics appear only with `?figures` in the URL. For an unknown session, the page does not
    // claim that the session has ended.
    let nothing = "00000000-0000-4000-8000-000000000000";
    let address = format!("{}://{}/play/{nothing}/?figures", portal.scheme, portal.at);
    let tab = browser.open(&address);
    browser.until(&tab, &said("Session not found"));
    assert_eq!(
        browser.run(&tab, FIGURES),
        json!(["nav", "#overlay", "#save"])
    );
}
