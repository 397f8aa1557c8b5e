//! The properties that a window sets on itself.

use smithay::utils::Size;
use x11rb::errors::ReplyError;
use x11rb::properties::{WmHints, WmSizeHints};
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, GetPropertyReply};
use x11rb::rust_connection::RustConnection;

use super::Atoms;
use crate::xwayland::wire::{About, Limits, WindowId};

/// The maximum number of values that are read from a list. Window types and states have a few.
const MAX_VALUES: u32 = 32;

/// The maximum side of a window. X11 coordinates are signed 16-bit.
pub(super) const MAX_SIDE: i32 = 32_767;

/// Reads the properties and the size of a window. Missing or wrong properties count as absent.
///
/// # Errors
/// Returns an error if the window no longer exists or the connection has failed.
pub(super) fn query(
    conn: &RustConnection,
    atoms: &Atoms,
    window: WindowId,
) -> Result<About, ReplyError> {
    let requested =
        |name: Atom, kind: AtomEnum| conn.get_property(false, window, name, kind, 0, MAX_VALUES);
    let numbers =
        |is: &GetPropertyReply| -> Vec<u32> { is.value32().into_iter().flatten().collect() };
    let geometry = conn.get_geometry(window)?;
    let types = requested(atoms._NET_WM_WINDOW_TYPE, AtomEnum::ATOM)?;
    let parents = requested(AtomEnum::WM_TRANSIENT_FOR.into(), AtomEnum::WINDOW)?;
    let sizes = requested(AtomEnum::WM_NORMAL_HINTS.into(), AtomEnum::WM_SIZE_HINTS)?;
    let states = requested(atoms._NET_WM_STATE, AtomEnum::ATOM)?;
    let hints = requested(AtomEnum::WM_HINTS.into(), AtomEnum::WM_HINTS)?;
    let protocols = requested(atoms.WM_PROTOCOLS, AtomEnum::ATOM)?;

    let geometry = geometry.reply()?;
    let types = numbers(&types.reply()?);
    let parent = numbers(&parents.reply()?).first().copied();
    let sizes = WmSizeHints::from_reply(&sizes.reply()?).ok().flatten();
    let states = numbers(&states.reply()?);
    let hints = WmHints::from_reply(&hints.reply()?).ok().flatten();
    let protocols = numbers(&protocols.reply()?);
    let maximized = [
        atoms._NET_WM_STATE_MAXIMIZED_HORZ,
        atoms._NET_WM_STATE_MAXIMIZED_VERT,
    ];
    Ok(About {
        accompanies: parent.is_some() || is_dialog(atoms, &types),
        parent: parent.filter(|of| ![x11rb::NONE, geometry.root, window].contains(of)),
        limits: limits(sizes.as_ref()),
        size: Size::from((geometry.width.into(), geometry.height.into())),
        full_screen: states.contains(&atoms._NET_WM_STATE_FULLSCREEN),
        maximized: maximized.iter().all(|state| states.contains(state)),
        takes_focus: hints.and_then(|hints| hints.input).unwrap_or(true)
            || protocols.contains(&atoms.WM_TAKE_FOCUS),
    })
}

/// Whether the first known type in the list describes a window that accompanies another one.
fn is_dialog(atoms: &Atoms, types: &[Atom]) -> bool {
    let dialogs = [
        atoms._NET_WM_WINDOW_TYPE_DIALOG,
        atoms._NET_WM_WINDOW_TYPE_SPLASH,
        atoms._NET_WM_WINDOW_TYPE_TOOLBAR,
        atoms._NET_WM_WINDOW_TYPE_UTILITY,
    ];
    let is_known = |of: &&Atom| **of == atoms._NET_WM_WINDOW_TYPE_NORMAL || dialogs.contains(of);
    types
        .iter()
        .find(is_known)
        .is_some_and(|of| dialogs.contains(of))
}

/// The limits in `WM_NORMAL_HINTS`. Increments and aspect ratios are ignored, because a terminal fills the remaining
/// space with a border.
fn limits(hints: Option<&WmSizeHints>) -> Limits {
    let side = |pixels: i32, otherwise: i32| match pixels {
        1.. => pixels.min(MAX_SIDE),
        _ => otherwise,
    };
    let size = |requested: Option<(i32, i32)>, otherwise: i32| {
        let (width, height) = requested.unwrap_or((0, 0));
        Size::from((side(width, otherwise), side(height, otherwise)))
    };
    Limits {
        least: size(hints.and_then(|hints| hints.min_size), 1),
        most: size(hints.and_then(|hints| hints.max_size), MAX_SIDE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_limits_are_ignored() {
        let of = |least: Option<(i32, i32)>, most: Option<(i32, i32)>| {
            let mut hints = WmSizeHints::new();
            (hints.min_size, hints.max_size) = (least, most);
            limits(Some(&hints))
        };
        let all = Size::from((640, 360));
        assert_eq!(limits(None).nearest(all), all);
        let most = of(None, Some((320, 9000)));
        assert_eq!(most.nearest(all), Size::from((320, 360)));
        let odd = of(Some((-5, 0)), Some((0, i32::MIN)));
        assert_eq!(odd.nearest(all), all);
        let crossed = of(Some((700, 10)), Some((10, 10)));
        assert_eq!(
            crossed.nearest(all),
            Size::from((700, 10)),
            "the minimum counts"
        );
    }
}
