//! The windows that the compositor lists, and the search for the window to capture.
//!
//! Spec: `ext-foreign-toplevel-list-v1`.

use wayland_client::{Connection, Dispatch, QueueHandle, event_created_child};
use wayland_protocols::ext::foreign_toplevel_list::v1::client::ext_foreign_toplevel_handle_v1::{
    self as handle, ExtForeignToplevelHandleV1,
};
use wayland_protocols::ext::foreign_toplevel_list::v1::client::ext_foreign_toplevel_list_v1::{
    self as list, ExtForeignToplevelListV1,
};

use super::State;

/// The maximum number of known windows (guess: far more than a desktop has). Nothing is stored about additional
/// windows.
const MAX_WINDOWS: usize = 4096;

/// The open windows, in the order in which they were listed.
#[derive(Default)]
pub(in crate::capture) struct Windows {
    all: Vec<Window>,
}

struct Window {
    proxy: ExtForeignToplevelHandleV1,
    title: String,
    application: String,
    /// Whether title and application are complete.
    known: bool,
}

impl Windows {
    /// The first window whose title or application contains `text`, ignoring case.
    pub(in crate::capture) fn find(&self, text: &str) -> Option<ExtForeignToplevelHandleV1> {
        let wanted = text.to_lowercase();
        let fits = |text: &str| text.to_lowercase().contains(&wanted);
        let known = self.all.iter().filter(|window| window.known);
        let mut found = known.filter(|window| fits(&window.title) || fits(&window.application));
        found.next().map(|window| window.proxy.clone())
    }

    /// The title of a window; `None` if the window has been closed.
    pub(in crate::capture) fn title(&self, proxy: &ExtForeignToplevelHandleV1) -> Option<&str> {
        let window = self.all.iter().find(|window| window.proxy == *proxy);
        window.map(|window| window.title.as_str())
    }

    /// The titles of all windows, for a message.
    pub(in crate::capture) fn titles(&self) -> String {
        listed(self.all.iter().map(|window| window.title.as_str()))
    }

    fn add(&mut self, proxy: ExtForeignToplevelHandleV1) {
        if self.all.len() >= MAX_WINDOWS {
            proxy.destroy();
            return;
        }
        self.all.push(Window {
            proxy,
            title: String::new(),
            application: String::new(),
            known: false,
        });
    }

    fn handle(&mut self, proxy: &ExtForeignToplevelHandleV1, event: handle::Event) {
        let Some(at) = self.all.iter().position(|window| window.proxy == *proxy) else {
            return;
        };
        let window = &mut self.all[at];
        match event {
            handle::Event::Title { title } => window.title = title,
            handle::Event::AppId { app_id } => window.application = app_id,
            handle::Event::Done => window.known = true,
            handle::Event::Closed => {
                self.all.remove(at).proxy.destroy();
            }
            _ => {}
        }
    }
}

/// The titles in one line. They are quoted, because programs may choose titles with line breaks.
fn listed<'a>(titles: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = titles.map(|title| format!("{title:?}")).collect();
    quoted.join(", ")
}

impl Dispatch<ExtForeignToplevelListV1, ()> for State {
    fn event(
        state: &mut State,
        _: &ExtForeignToplevelListV1,
        event: list::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let list::Event::Toplevel { toplevel } = event {
            state.windows.add(toplevel);
        }
    }

    event_created_child!(State, ExtForeignToplevelListV1, [
        list::EVT_TOPLEVEL_OPCODE => (ExtForeignToplevelHandleV1, ()),
    ]);
}

impl Dispatch<ExtForeignToplevelHandleV1, ()> for State {
    fn event(
        state: &mut State,
        proxy: &ExtForeignToplevelHandleV1,
        event: handle::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        state.windows.handle(proxy, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_listed_in_one_line() {
        let titles = ["Editor", "a\nb, \"c\"\u{1b}[2J"];
        let expected = r#""Editor", "a\nb, \"c\"\u{1b}[2J""#;
        assert_eq!(listed(titles.into_iter()), expected);
        assert_eq!(listed([].into_iter()), "");
    }
}
