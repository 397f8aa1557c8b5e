//! The Wayland session: the protocols with which a host captures its screen and passes input to it, the protocols of a
//! client's window, and those that both use.

mod window;

use std::collections::BTreeMap;

use openuvr_wayland::display;

use super::Role;
use super::finding::Finding;
use super::portal::{self, Offer};

/// The remedy if the compositor lacks a protocol.
const REMEDY: &str = "use a compositor based on wlroots (such as sway or labwc) or an X11 session, or stream an \
                      application (openuvr run, openuvr host --virtual 1280x720 -- COMMAND)";

/// The interfaces of a compositor, with their versions.
struct Interfaces(BTreeMap<String, u32>);

impl Interfaces {
    #[cfg(test)]
    fn of(names: &[(&str, u32)]) -> Interfaces {
        let map = names
            .iter()
            .map(|(name, version)| ((*name).to_owned(), *version));
        Interfaces(map.collect())
    }

    fn has(&self, name: &str, version: u32) -> bool {
        self.0.get(name).is_some_and(|known| *known >= version)
    }
}

/// The findings for the display `name`. `required` states whether this is the machine's only display.
pub(super) fn findings(role: Role, name: &str, required: bool) -> Vec<Finding> {
    let title = "Wayland display";
    let listed =
        display::connect(Some(name)).and_then(|connection| display::interfaces(&connection));
    let interfaces = match listed {
        Ok(interfaces) => Interfaces(interfaces),
        Err(why) => {
            let (why, question) = why.rsplit_once(": ").unwrap_or((&why, ""));
            let remedy = match question {
                "" => "check that its compositor is running",
                question => question,
            };
            return vec![problem(title, why, remedy, required)];
        }
    };
    let mut findings = vec![Finding::ok(title, name)];
    if role.hosts() {
        // The portal is probed only if it is needed, because the probe starts programs.
        let portal = (!display::can_capture(&interfaces.0)).then(portal::probe);
        let portal = portal.as_ref();
        findings.push(capture(&interfaces, portal, required));
        let offer = portal.and_then(|asked| asked.as_ref().ok());
        if offer.is_some() || portal.is_none() {
            findings.push(pointer(&interfaces, offer));
        }
        findings.push(input(&interfaces, offer, portal.is_none()));
    }
    if role.shows() {
        findings.extend(window::findings(&interfaces, required));
    }
    findings.push(clipboard(&interfaces));
    findings
}

fn problem(title: &str, why: &str, remedy: &str, required: bool) -> Finding {
    match required {
        true => Finding::missing(title, why, remedy),
        false => Finding::better(title, why, remedy),
    }
}

fn has_image_copy(interfaces: &Interfaces) -> bool {
    interfaces.has("ext_image_copy_capture_manager_v1", 1)
        && interfaces.has("ext_output_image_capture_source_manager_v1", 1)
}

fn capture(
    interfaces: &Interfaces,
    portal: Option<&Result<Offer, String>>,
    required: bool,
) -> Finding {
    let title = "Wayland capture";
    let windows = interfaces.has("ext_foreign_toplevel_image_capture_source_manager_v1", 1)
        && interfaces.has("ext_foreign_toplevel_list_v1", 1);
    match () {
        () if has_image_copy(interfaces) && windows => {
            Finding::ok(title, "outputs and single windows (ext-image-copy-capture)")
        }
        () if has_image_copy(interfaces) => Finding::ok(title, "outputs (ext-image-copy-capture)"),
        () if interfaces.has("zwlr_screencopy_manager_v1", 3) => {
            Finding::ok(title, "outputs (wlr-screencopy)")
        }
        () => match portal {
            Some(Ok(_)) => Finding::ok(
                title,
                "a screen that the desktop's portal shares (--source portal)",
            ),
            Some(Err(why)) => {
                let (why, remedy) = why.rsplit_once(": ").unwrap_or((why, REMEDY));
                let why = format!("the compositor lets no program capture its screen, and {why}");
                problem(title, &why, &format!("{remedy}; or {REMEDY}"), required)
            }
            None => problem(
                title,
                "the compositor lets no program capture its screen: it has neither ext-image-copy-capture nor \
                 wlr-screencopy 3",
                REMEDY,
                required,
            ),
        },
    }
}

fn pointer(interfaces: &Interfaces, portal: Option<&Offer>) -> Finding {
    let title = "Wayland pointer";
    match has_image_copy(interfaces) || portal.is_some_and(|offer| offer.pointer_apart) {
        true => Finding::ok(title, "sent separately from the picture"),
        false => Finding::better(
            title,
            "drawn into the picture by the compositor: the pointer moves only with the frames",
            "use a compositor with ext-image-copy-capture, such as sway 1.12",
        ),
    }
}

/// The finding for input. `needed` states whether a host of this session needs either input or the option `--input
/// none` to start.
fn input(interfaces: &Interfaces, portal: Option<&Offer>, needed: bool) -> Finding {
    let needs = [
        ("virtual-keyboard", "zwp_virtual_keyboard_manager_v1", 1),
        (
            "wlr-virtual-pointer 2",
            "zwlr_virtual_pointer_manager_v1",
            2,
        ),
    ];
    let absent = needs
        .iter()
        .filter(|(_, name, version)| !interfaces.has(name, *version));
    let absent: Vec<&str> = absent.map(|(words, ..)| *words).collect();
    let title = "Wayland input";
    match absent.is_empty() {
        _ if portal.is_some_and(|offer| offer.input) => {
            Finding::ok(title, "through the desktop's portal (RemoteDesktop)")
        }
        true => Finding::ok(title, "virtual-keyboard, wlr-virtual-pointer"),
        false => Finding::better(
            title,
            format!(
                "players can only watch: the compositor lacks {}",
                absent.join(" and ")
            ),
            match needed {
                true => {
                    format!("start the host with --input none; for players with input, {REMEDY}")
                }
                false => REMEDY.to_owned(),
            },
        ),
    }
}

fn clipboard(interfaces: &Interfaces) -> Finding {
    let title = "Wayland clipboard";
    let known = [
        ("ext-data-control", "ext_data_control_manager_v1"),
        ("wlr-data-control", "zwlr_data_control_manager_v1"),
    ];
    let found = known.iter().find(|(_, name)| interfaces.has(name, 1));
    match found {
        Some((words, _)) => Finding::ok(title, *words),
        None => Finding::better(
            title,
            "not shared: the compositor has neither ext-data-control nor wlr-data-control",
            REMEDY,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn levels(names: &[(&str, u32)]) -> Vec<Level> {
        levels_with(names, None)
    }

    fn levels_with(names: &[(&str, u32)], portal: Option<&Result<Offer, String>>) -> Vec<Level> {
        let interfaces = Interfaces::of(names);
        let offer = portal.and_then(|asked| asked.as_ref().ok());
        let findings = [
            capture(&interfaces, portal, true),
            pointer(&interfaces, offer),
            input(&interfaces, offer, true),
            clipboard(&interfaces),
        ];
        findings.map(|finding| finding.level).to_vec()
    }

    #[test]
    fn a_missing_protocol_costs_what_depends_on_it() {
        use Level::{Better, Missing, Ok};
        let wlroots = [
            ("zwlr_screencopy_manager_v1", 3),
            ("zwp_virtual_keyboard_manager_v1", 1),
            ("zwlr_virtual_pointer_manager_v1", 2),
            ("zwlr_data_control_manager_v1", 2),
        ];
        assert_eq!(levels(&wlroots), [Ok, Better, Ok, Ok]);
        assert_eq!(levels(&wlroots[..2]), [Ok, Better, Better, Better]);
        assert_eq!(levels(&[]), [Missing, Better, Better, Better]);
        let newer = [
            ("ext_image_copy_capture_manager_v1", 1),
            ("ext_output_image_capture_source_manager_v1", 1),
            ("ext_data_control_manager_v1", 1),
        ];
        assert_eq!(levels(&newer), [Ok, Ok, Better, Ok]);
        // Version 2 of this protocol does not report damage.
        assert_eq!(levels(&[("zwlr_screencopy_manager_v1", 2)])[0], Missing);
    }

    #[test]
    fn a_portal_replaces_the_protocols_that_it_can() {
        use Level::{Better, Missing, Ok as Fine};
        let whole = Offer {
            pointer_apart: true,
            input: true,
        };
        assert_eq!(
            levels_with(&[], Some(&Ok(whole))),
            [Fine, Fine, Fine, Better]
        );
        let pictures = Offer {
            pointer_apart: false,
            input: false,
        };
        assert_eq!(
            levels_with(&[], Some(&Ok(pictures))),
            [Fine, Better, Better, Better]
        );
        let none = Err("no portal: install one".to_owned());
        assert_eq!(
            levels_with(&[], Some(&none)),
            [Missing, Better, Better, Better]
        );
    }

    #[test]
    fn an_unreachable_display_is_required_only_by_itself() {
        let found = |required| findings(Role::Host, "/nonexistent/wayland-9", required);
        assert_eq!(found(true)[0].level, Level::Missing);
        assert_eq!(found(false)[0].level, Level::Better);
    }
}
