//! Finds a window by id, title or class, and waits until it is viewable.

use std::time::Duration;

use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, Window,
    WindowClass,
};

use super::display::Display;
use super::{WindowName, WindowQuery};
use crate::capture::CaptureError;
use openuvr_clock as clock;

/// Poll interval while waiting. New windows cause an event, but toolkits may set the title later.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of window-tree levels to search. Window managers add one to three levels around a client.
const DEPTH: u8 = 4;

/// Maximum number of windows that one search visits, and maximum number of bytes read from a title.
const WINDOWS: usize = 4096;
const TITLE: u32 = 1024;

/// Returns the viewable window that matches `query`. Waits up to the query's limit while `goes_on`
/// returns true.
pub(super) fn window(
    display: &Display,
    query: &WindowQuery,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Window, CaptureError> {
    let broke = |e: ReplyError| display.broke(e);
    let aux = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
    let root = display.root();
    let conn = &display.conn;
    conn.change_window_attributes(root, &aux)
        .map_err(|e| display.broke(e))?;
    let until = clock::now() + query.wait;
    loop {
        let found = match &query.name {
            WindowName::Id(id) => is_viewable(display, *id).map_err(broke)?.then_some(*id),
            WindowName::Text(text) => search(display, text).map_err(broke)?,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let now = clock::now();
        if now >= until || !goes_on() {
            return Err(not_found(display, query));
        }
        display.wait([None, None], Some(until.min(now + POLL_INTERVAL)))?;
        while let Some(_seen) =
            x11rb::connection::Connection::poll_for_event(conn).map_err(|e| display.broke(e))?
        {
        }
    }
}

fn not_found(display: &Display, query: &WindowQuery) -> CaptureError {
    let waited = query.wait.as_secs_f32();
    let name = &display.name;
    CaptureError(match &query.name {
        WindowName::Id(id) => {
            format!("{name}: no viewable window {id:#x} was found within {waited:.1} s")
        }
        WindowName::Text(text) => {
            let mut titles = Vec::new();
            let _ = walk(display, |_, _, words| {
                if titles.len() < 8 && !words[0].is_empty() {
                    titles.push(format!("'{}'", words[0]));
                }
            });
            format!(
                "{name}: no window with '{text}' in its title or class was found within {waited:.1} s; \
                 existing windows: {}",
                if titles.is_empty() {
                    "none with a title".to_owned()
                } else {
                    titles.join(", ")
                }
            )
        }
    })
}

/// The largest viewable window with `text` in its title or class, ignoring case.
fn search(display: &Display, text: &str) -> Result<Option<Window>, ReplyError> {
    let text = text.to_lowercase();
    let mut best: Option<(u32, Window)> = None;
    walk(display, |window, pixels, words| {
        let named = words.iter().any(|w| w.to_lowercase().contains(&text));
        if named && best.is_none_or(|(most, _)| pixels > most) {
            best = Some((pixels, window));
        }
    })?;
    Ok(best.map(|(_, window)| window))
}

/// Calls `visit` with each viewable window below the root, and with its area, title and class.
fn walk(
    display: &Display,
    mut visit: impl FnMut(Window, u32, [String; 2]),
) -> Result<(), ReplyError> {
    let conn = &display.conn;
    let utf8_title = conn.intern_atom(false, b"_NET_WM_NAME")?.reply()?.atom;
    let mut level = vec![display.root()];
    let mut seen = 0;
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for parent in level {
            if let Ok(tree) = known(conn.query_tree(parent)?.reply())? {
                next.extend(tree.children);
            }
        }
        next.truncate(WINDOWS - seen);
        seen += next.len();
        for &window in &next {
            if !is_viewable(display, window)? {
                continue;
            }
            let property =
                |atom: u32| conn.get_property(false, window, atom, AtomEnum::ANY, 0, TITLE / 4);
            let modern = property(utf8_title)?;
            let old = property(AtomEnum::WM_NAME.into())?;
            let class = property(AtomEnum::WM_CLASS.into())?;
            let geometry = conn.get_geometry(window)?;
            let text = |reply| -> Result<String, ReplyError> {
                let reply = known(reply)?;
                Ok(reply.map_or_else(
                    |()| String::new(),
                    |r: x11rb::protocol::xproto::GetPropertyReply| {
                        String::from_utf8_lossy(&r.value).replace('\0', " ")
                    },
                ))
            };
            let (modern, old) = (text(modern.reply())?, text(old.reply())?);
            let title = if modern.is_empty() { old } else { modern };
            let class = text(class.reply())?;
            if let Ok(g) = known(geometry.reply())? {
                visit(
                    window,
                    u32::from(g.width) * u32::from(g.height),
                    [title, class],
                );
            }
        }
        level = next;
    }
    Ok(())
}

fn is_viewable(display: &Display, window: Window) -> Result<bool, ReplyError> {
    let attributes = known(display.conn.get_window_attributes(window)?.reply())?;
    Ok(attributes
        .is_ok_and(|a| a.map_state == MapState::VIEWABLE && a.class == WindowClass::INPUT_OUTPUT))
}

/// Separates the two kinds of error. An X error only means that the window is gone (`Ok(Err(()))`). A broken connection
/// is an error.
fn known<T>(reply: Result<T, ReplyError>) -> Result<Result<T, ()>, ReplyError> {
    match reply {
        Ok(value) => Ok(Ok(value)),
        Err(ReplyError::X11Error(_)) => Ok(Err(())),
        Err(broken) => Err(broken),
    }
}
