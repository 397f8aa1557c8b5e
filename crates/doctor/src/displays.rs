//! The X display: the requirements of a host's capture and input, and of a client's window.

use openuvr_media::capture::Capture as _;
use openuvr_media::capture::x11::{self, CaptureArea, Target};
use openuvr_media::display;
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::xproto::Screen;
use x11rb::rust_connection::RustConnection;

use super::Role;
use super::finding::Finding;

/// The X extensions that a host or a client needs, with their purpose.
const HOST_NEEDS: &[(&str, &str)] = &[
    ("DAMAGE", "reports damage"),
    (
        "MIT-SHM",
        "shares pixels without copying them through a socket",
    ),
    ("XFIXES", "reads the pointer's shape"),
    ("XInputExtension", "follows the pointer"),
    ("XTEST", "injects input"),
    ("XKEYBOARD", "maps keys"),
    ("Composite", "captures a covered window (--window)"),
];
const CLIENT_NEEDS: &[(&str, &str)] = &[
    (
        "MIT-SHM",
        "shares pictures without copying them through a socket",
    ),
    ("RENDER", "scales pictures and draws the pointer"),
    ("XKEYBOARD", "maps keys"),
    ("XInputExtension", "reads raw mouse motion"),
];

pub(super) fn findings(role: Role, name: Option<&str>) -> Vec<Finding> {
    let Some(name) = name else {
        return vec![without_display(role)];
    };
    let (conn, number) = match display::connect(name) {
        Ok(connected) => connected,
        Err(why) => {
            let (why, question) = why.rsplit_once(": ").unwrap_or((&why, ""));
            return vec![Finding::missing("display", why, question)];
        }
    };
    let mut findings = Vec::new();
    if let Some(screen) = conn.setup().roots.get(number) {
        let (width, height) = (screen.width_in_pixels, screen.height_in_pixels);
        findings.push(Finding::ok("display", format!("{name}, {width}x{height}")));
        findings.push(refresh(&conn, screen));
    }
    if role.hosts() {
        findings.push(needs(&conn, "host's extensions", HOST_NEEDS));
        findings.push(match display::is_rootless_xwayland(&conn, number) {
            true => Finding::better(
                "capture",
                "this is the Xwayland of a Wayland session: X11 clients cannot capture its desktop",
                "stream the session itself (openuvr host --source wayland), one X11 window (--window TITLE) or \
                 an application (openuvr run, openuvr host --virtual 1280x720 -- COMMAND)",
            ),
            false => captures(name),
        });
    }
    if role.shows() {
        findings.push(needs(&conn, "client's extensions", CLIENT_NEEDS));
    }
    findings
}

/// A host can still stream the applications that it starts. A client has no window.
fn without_display(role: Role) -> Finding {
    let (name, summary) = ("display", "no X display given");
    match role {
        Role::Host => Finding::better(
            name,
            format!(
                "{summary}: a host cannot capture an X desktop, but can stream applications on a virtual display"
            ),
            "openuvr host --virtual 1280x720 -- COMMAND; to check a desktop, run openuvr doctor inside its session, or \
             with --display :0",
        ),
        Role::Client => Finding::missing(
            name,
            summary,
            "run openuvr doctor inside the X or Wayland session, or with --display :0; without a window system: openuvr \
             client --present kms",
        ),
        Role::Both => Finding::missing(
            name,
            format!(
                "{summary}: a client can't open an X window, and a host can't capture an X desktop"
            ),
            "run openuvr doctor inside the X session, or with --display :0; on a server: openuvr doctor --role host",
        ),
    }
}

fn needs(conn: &RustConnection, name: &str, needs: &[(&'static str, &str)]) -> Finding {
    let absent: Vec<_> = needs
        .iter()
        .filter(|(extension, _)| !matches!(conn.extension_information(extension), Ok(Some(_))))
        .map(|(extension, purpose)| format!("{extension} ({purpose})"))
        .collect();
    let names: Vec<&str> = needs.iter().map(|(extension, _)| *extension).collect();
    match absent.is_empty() {
        true => Finding::ok(name, names.join(", ")),
        false => Finding::missing(
            name,
            format!("missing extensions: {}", absent.join(", ")),
            "enable the extensions in the section Extensions of xorg.conf, or use a local X server instead of \
             ssh -X",
        ),
    }
}

/// Opens a capture of the display as a host does. This fails if the pixel format of the screen is not supported, or if
/// the server is not on this machine.
fn captures(display: &str) -> Finding {
    let target = Target {
        display: Some(display.to_owned()),
        area: CaptureArea::Display,
    };
    match x11::open(&target) {
        Ok(capture) => Finding::ok("capture", format!("{} can be captured", capture.size())),
        Err(why) => Finding::missing(
            "capture",
            why.to_string(),
            "use a local display with a depth of 8, 15, 16, 24 or 30 bits",
        ),
    }
}

/// The highest refresh rate of the active modes. On average, a picture waits half a refresh period until it is visible.
fn refresh(conn: &RustConnection, screen: &Screen) -> Finding {
    let name = "refresh rate";
    let remedy =
        "choose a faster mode: `xrandr` lists the modes, `xrandr --output NAME --rate HZ` sets one";
    match display::highest_refresh_rate(conn, screen) {
        None => Finding::ok(name, "unknown, as on virtual displays"),
        Some(hz) if hz >= 100.0 => Finding::ok(name, format!("{hz:.0} Hz")),
        Some(hz) => Finding::better(
            name,
            format!(
                "{hz:.0} Hz: pictures wait {:.0} ms for a refresh on average",
                500.0 / hz
            ),
            remedy,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn without_a_display_a_host_can_run_but_no_client() {
        assert_eq!(findings(Role::Host, None)[0].level, Level::Better);
        for role in [Role::Client, Role::Both] {
            let found = findings(role, None);
            assert_eq!(found[0].level, Level::Missing);
        }
        assert_eq!(
            findings(Role::Client, Some(":64000"))[0].level,
            Level::Missing
        );
    }
}
