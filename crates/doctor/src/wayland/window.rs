//! The Wayland session of a client: the protocols that its window needs, and those that it uses if they exist.

use super::{Interfaces, problem};
use crate::finding::{Finding, Level};

/// The protocols without which no window opens, with the minimum version (`crates/wayland/src/input_source/globals.rs`).
const NEEDS: &[(&str, u32)] = &[
    ("wl_compositor", 4),
    ("wl_subcompositor", 1),
    ("wl_shm", 1),
    ("xdg_wm_base", 1),
    ("wp_viewporter", 1),
];

/// The protocols that give the host all motion and all keys. Each has its name in the documentation, and its interface.
const GRAB: &[(&str, &str)] = &[
    ("pointer-constraints", "zwp_pointer_constraints_v1"),
    ("relative-pointer", "zwp_relative_pointer_manager_v1"),
    (
        "keyboard-shortcuts-inhibit",
        "zwp_keyboard_shortcuts_inhibit_manager_v1",
    ),
];

/// The findings for a client's window. `required` states whether the client has no other display.
pub(super) fn findings(interfaces: &Interfaces, required: bool) -> Vec<Finding> {
    let opened = window(interfaces, required);
    let opens = opened.level == Level::Ok;
    let mut findings = vec![opened];
    if opens {
        findings.extend([title_bar(interfaces), grab(interfaces), times(interfaces)]);
    }
    findings
}

fn window(interfaces: &Interfaces, required: bool) -> Finding {
    let title = "Wayland window";
    let absent = NEEDS
        .iter()
        .filter(|(name, version)| !interfaces.has(name, *version));
    let absent: Vec<String> = absent
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    match absent.is_empty() {
        true => Finding::ok(title, "the client's window opens here"),
        false => problem(
            title,
            &format!(
                "the client's window can't open: the compositor lacks {}",
                absent.join(", ")
            ),
            "use another compositor, or Xwayland: openuvr client --present x11",
            required,
        ),
    }
}

fn title_bar(interfaces: &Interfaces) -> Finding {
    let title = "Wayland title bar";
    match interfaces.has("zxdg_decoration_manager_v1", 1) {
        true => Finding::ok(title, "drawn by the compositor"),
        false => Finding::better(
            title,
            "the client's window has no title bar: the compositor lacks xdg-decoration",
            "with Ctrl, Alt and Shift held, the left mouse button moves the window and the right button resizes it; \
             for a title bar, use openuvr client --present x11",
        ),
    }
}

fn grab(interfaces: &Interfaces) -> Finding {
    let title = "Wayland grab";
    let absent = GRAB.iter().filter(|(_, name)| !interfaces.has(name, 1));
    let absent: Vec<&str> = absent.map(|(words, _)| *words).collect();
    match absent.is_empty() {
        true => Finding::ok(title, "locked pointer, and the desktop's shortcuts"),
        false => Finding::better(
            title,
            format!(
                "openuvr client --grab is incomplete: the compositor lacks {}",
                absent.join(" and ")
            ),
            "use a compositor with these protocols, such as those of GNOME, KDE or sway",
        ),
    }
}

fn times(interfaces: &Interfaces) -> Finding {
    let title = "Wayland times";
    match interfaces.has("wp_presentation", 1) {
        true => Finding::ok(
            title,
            "the compositor reports when a picture became visible",
        ),
        false => Finding::better(
            title,
            "the time at which a picture becomes visible stays unknown: the compositor lacks the protocol presentation-time",
            "for measurements, use a compositor with this protocol, such as those of GNOME or sway",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(names: &[(&str, u32)]) -> Vec<(String, Level)> {
        let found = findings(&Interfaces::of(names), true);
        let found = found.into_iter();
        found.map(|finding| (finding.name, finding.level)).collect()
    }

    #[test]
    fn without_a_needed_protocol_nothing_else_counts() {
        let found = levels(&NEEDS[..4]);
        assert_eq!(found, [("Wayland window".to_owned(), Level::Missing)]);
    }

    #[test]
    fn each_protocol_costs_its_own_part() {
        let found = levels(NEEDS);
        let found: Vec<Level> = found.into_iter().map(|(_, level)| level).collect();
        assert_eq!(
            found,
            [Level::Ok, Level::Better, Level::Better, Level::Better]
        );
        let mut all = NEEDS.to_vec();
        all.extend(GRAB.iter().map(|(_, name)| (*name, 1)));
        all.extend([("zxdg_decoration_manager_v1", 1), ("wp_presentation", 1)]);
        assert!(levels(&all).iter().all(|(_, level)| *level == Level::Ok));
    }
}
