//! The windows that present frames. The largest one is streamed.
//!
//! Windows are detected by their swaps. A window without swaps for a while, such as a closed one, is removed, and
//! another is streamed. There is one exception: the streamed window is not removed while it is visible, even if it does
//! not swap.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

/// A window without a swap for this long may be replaced by a smaller one, unless it is streamed and visible (guess:
/// games present frames more often, even while they load a level).
const ABSENT_AFTER: Duration = Duration::from_secs(1);

/// How long a measured size is reused, because measuring costs an X round trip (guess: an unnoticeable delay before the
/// new largest window is streamed).
const SIZE_VALID_FOR: Duration = Duration::from_millis(250);

/// Maximum number of tracked windows (guess: more than a game has).
const MAX_WINDOWS: usize = 64;

/// Identifies a window in this process: the address of its X connection, EGL display or Vulkan instance, and its
/// identifier there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(pub(crate) usize, pub(crate) u64);

/// A window on an X display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct XWindow {
    /// The X display, as in `DISPLAY`.
    pub(crate) display: String,
    /// The window's X identifier.
    pub(crate) id: u32,
}

#[derive(Debug)]
struct WindowState {
    key: Key,
    size: Size,
    measured: Instant,
    swapped: Instant,
    window: Option<XWindow>,
    /// Whether its title matches the requested one.
    matches: bool,
    /// Whether it is a menu or similar; `None` if not classified yet.
    popup: Option<bool>,
}

/// The windows with a recent swap, and the streamed window as long as it is visible.
#[derive(Debug)]
pub(crate) struct Windows {
    known: Vec<WindowState>,
    streamed: Option<Key>,
    /// The number of times that the streamed window has changed.
    changes: u64,
    /// Whether only windows with a matching title are streamed.
    only_matching: bool,
    /// Whether the streamed window is visible, even if it draws nothing.
    alive: bool,
}

impl Windows {
    pub(crate) const fn new() -> Windows {
        Windows {
            known: Vec::new(),
            streamed: None,
            changes: 0,
            only_matching: false,
            alive: false,
        }
    }

    /// The size of a window, if it was measured recently.
    pub(crate) fn size(&self, now: Instant, key: Key) -> Option<Size> {
        let known = self.find(key)?;
        (now.since(known.measured) < SIZE_VALID_FOR).then_some(known.size)
    }

    /// Handles a window of `size` that is about to present a frame. Returns whether this window is the streamed one.
    /// `window` is called only for a new window.
    pub(crate) fn on_swap(
        &mut self,
        now: Instant,
        key: Key,
        size: Size,
        window: impl FnOnce() -> Option<XWindow>,
    ) -> bool {
        let alive = self.streamed.filter(|_| self.alive);
        self.known
            .retain(|w| now.since(w.swapped) < ABSENT_AFTER || alive == Some(w.key));
        let full = self.known.len() >= MAX_WINDOWS;
        match self.known.iter_mut().find(|w| w.key == key) {
            Some(known) => {
                if known.size != size || now.since(known.measured) >= SIZE_VALID_FOR {
                    known.measured = now;
                }
                known.swapped = now;
                known.size = size;
            }
            None if full => return false,
            None => {
                let window = window();
                self.known.push(WindowState {
                    key,
                    size,
                    measured: now,
                    swapped: now,
                    // A window outside X cannot be classified.
                    popup: window.is_none().then_some(false),
                    window,
                    matches: false,
                });
            }
        }
        if self.only_matching && !self.find(key).is_some_and(|w| w.matches) {
            return false;
        }
        let known = self.find(key);
        let window = known.and_then(|w| w.window.as_ref());
        // A menu may be larger than the window to which it belongs.
        let may_replace = alive.is_none() || known.is_some_and(|w| w.popup == Some(false));
        let streamed = self.streamed.and_then(|key| self.find(key));
        let place = |key: Key| self.known.iter().position(|w| w.key == key);
        let is_newer = place(key) > self.streamed.and_then(place);
        // A new surface replaces the previous one of the same window. If both present frames, as in an OpenGL driver
        // that draws with Vulkan, the newer one stays streamed.
        let yields = |w: &WindowState| {
            let is_successor = is_newer || now.since(w.swapped) >= ABSENT_AFTER;
            may_replace && w.size.pixels() < size.pixels()
                || is_successor && window.is_some() && w.window.as_ref() == window
        };
        if streamed.is_none_or(yields) && self.streamed != Some(key) {
            self.choose(key);
        }
        self.streamed == Some(key)
    }

    fn choose(&mut self, key: Key) {
        self.streamed = Some(key);
        self.changes += 1;
        self.alive = false;
    }

    /// Sets whether the streamed window is visible. Ignored if `change` is not the newest change. A visible window
    /// stays streamed even if a smaller one draws more often.
    pub(crate) fn set_alive(&mut self, change: u64, alive: bool) {
        if change == self.changes {
            self.alive = alive;
        }
    }

    /// Removes a window that was destroyed. Its key may be used again for another window.
    pub(crate) fn remove(&mut self, key: Key) {
        self.known.retain(|w| w.key != key);
        if self.streamed == Some(key) {
            self.streamed = None;
        }
    }

    /// From now on, streams only windows marked by [`Windows::mark_matching`].
    pub(crate) fn only_matching(&mut self) {
        self.only_matching = true;
        self.streamed = None;
        self.alive = false;
    }

    /// The unclassified windows that would be streamed unless they are menus.
    pub(crate) fn unclassified(&self) -> Vec<XWindow> {
        let streamed = self.streamed.and_then(|key| self.find(key));
        let most = streamed.map_or(usize::MAX, |w| w.size.pixels());
        let unclassified = self.known.iter().filter(|w| w.popup.is_none());
        let larger = unclassified.filter(|w| self.alive && w.size.pixels() > most);
        larger.filter_map(|w| w.window.clone()).collect()
    }

    /// Stores the classification of a window.
    pub(crate) fn set_popup(&mut self, window: &XWindow, is_popup: bool) {
        let at = |w: &&mut WindowState| w.window.as_ref() == Some(window);
        let there = self.known.iter_mut().filter(at);
        there.for_each(|w| w.popup = Some(is_popup));
    }

    /// The windows without a matching title.
    pub(crate) fn unmatched(&self) -> Vec<XWindow> {
        let unmatched = self.known.iter().filter(|w| !w.matches);
        unmatched.filter_map(|w| w.window.clone()).collect()
    }

    /// Records that the title of this window matches.
    pub(crate) fn mark_matching(&mut self, window: &XWindow) {
        let at = |w: &&mut WindowState| w.window.as_ref() == Some(window);
        self.known
            .iter_mut()
            .filter(at)
            .for_each(|w| w.matches = true);
        // The window may have become idle before its title was set.
        let matching = self.known.iter().filter(|w| w.matches);
        let largest = matching.max_by_key(|w| w.size.pixels()).map(|w| w.key);
        if let (Some(largest), None, true) = (largest, self.streamed, self.only_matching) {
            self.choose(largest);
        }
    }

    /// The number of changes so far, and the streamed window.
    pub(crate) fn streamed(&self) -> (u64, Option<&XWindow>) {
        let known = self.streamed.and_then(|key| self.find(key));
        (self.changes, known.and_then(|w| w.window.as_ref()))
    }

    fn find(&self, key: Key) -> Option<&WindowState> {
        self.known.iter().find(|w| w.key == key)
    }
}

/// The windows of this process, shared by its threads.
#[derive(Debug)]
pub(crate) struct SharedWindows(Mutex<Windows>);

impl SharedWindows {
    pub(crate) const fn new() -> SharedWindows {
        SharedWindows(Mutex::new(Windows::new()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Windows> {
        lock(&self.0)
    }

    /// The number of changes so far, and the streamed window.
    pub(crate) fn streamed(&self) -> (u64, Option<XWindow>) {
        let windows = self.lock();
        let (change, window) = windows.streamed();
        (change, window.cloned())
    }

    /// Marks unmatched windows that satisfy `matches`. To be called repeatedly, because titles are set late.
    pub(crate) fn match_titles(&self, matches: impl Fn(&XWindow) -> bool) {
        // `matches` may be slow, so it is not called under the lock.
        let unmatched = self.lock().unmatched();
        for window in unmatched.iter().filter(|window| matches(window)) {
            self.lock().mark_matching(window);
        }
    }

    /// Determines which windows are menus, if the result can change the choice of the streamed window.
    pub(crate) fn classify(&self, is_popup: impl Fn(&XWindow) -> bool) {
        let unclassified = self.lock().unclassified();
        // `is_popup` may be slow, so it is not called under the lock.
        for window in &unclassified {
            let popup = is_popup(window);
            self.lock().set_popup(window, popup);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Size = Size::new(640, 480);
    const SMALL: Size = Size::new(320, 240);
    const ONE: Key = Key(1, 1);
    const OTHER: Key = Key(1, 2);

    fn at(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn the_largest_is_streamed_and_of_equals_the_first() {
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, SMALL, || None));
        assert!(!windows.on_swap(at(1), OTHER, SMALL, || None));
        assert!(
            windows.on_swap(at(2), OTHER, LARGE, || None),
            "it has grown"
        );
        assert!(!windows.on_swap(at(3), ONE, SMALL, || None));
        assert_eq!(windows.streamed().0, 2);
        assert!(
            windows.on_swap(at(4), OTHER, SMALL, || None),
            "none is larger"
        );
    }

    #[test]
    fn an_absent_window_is_replaced() {
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, || None));
        assert!(!windows.on_swap(at(500), OTHER, SMALL, || None));
        assert!(
            windows.on_swap(at(1001), OTHER, SMALL, || None),
            "the larger one was idle"
        );
        assert!(windows.on_swap(at(1002), ONE, LARGE, || None), "it is back");
        windows.remove(ONE);
        assert!(windows.on_swap(at(1003), OTHER, SMALL, || None));
    }

    #[test]
    fn an_idle_visible_window_stays_streamed() {
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, || None));
        windows.set_alive(windows.streamed().0, true);
        assert!(!windows.on_swap(at(60_000), OTHER, SMALL, || None));
        windows.set_alive(windows.streamed().0, false);
        assert!(windows.on_swap(at(60_001), OTHER, SMALL, || None));
        windows.set_alive(windows.streamed().0 - 1, true);
        assert!(
            windows.on_swap(at(120_000), ONE, SMALL, || None),
            "an outdated change number"
        );
    }

    #[test]
    fn a_menu_never_replaces_a_visible_window() {
        let window = |id| XWindow {
            display: ":1".into(),
            id,
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, SMALL, || Some(window(1))));
        windows.set_alive(windows.streamed().0, true);
        assert!(!windows.on_swap(at(1), OTHER, LARGE, || Some(window(2))));
        assert_eq!(windows.unclassified(), [window(2)], "not classified yet");
        windows.set_popup(&window(2), true);
        assert!(windows.unclassified().is_empty());
        assert!(!windows.on_swap(at(2), OTHER, LARGE, || None));
        // Some full-screen windows are override-redirect.
        windows.set_alive(windows.streamed().0, false);
        assert!(windows.on_swap(at(3), OTHER, LARGE, || None));
    }

    #[test]
    fn a_larger_window_that_is_no_menu_is_streamed() {
        let window = XWindow {
            display: ":1".into(),
            id: 2,
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, SMALL, || None));
        windows.set_alive(windows.streamed().0, true);
        assert!(!windows.on_swap(at(1), OTHER, LARGE, || Some(window.clone())));
        windows.set_popup(&window, false);
        assert!(windows.on_swap(at(2), OTHER, LARGE, || None));
    }

    #[test]
    fn a_new_surface_of_the_same_window_is_streamed() {
        let window = || {
            Some(XWindow {
                display: ":1".into(),
                id: 7,
            })
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, window));
        windows.set_alive(windows.streamed().0, true);
        assert!(windows.on_swap(at(1), OTHER, LARGE, window));
        assert_eq!(windows.streamed(), (2, window().as_ref()));
    }

    #[test]
    fn a_key_may_be_used_again_for_another_window() {
        let window = |id| XWindow {
            display: ":1".into(),
            id,
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, || Some(window(1))));
        windows.set_alive(windows.streamed().0, true);
        windows.remove(ONE);
        assert_eq!(windows.streamed().1, None);
        assert!(windows.on_swap(at(1), ONE, LARGE, || Some(window(2))));
        assert_eq!(windows.streamed(), (2, Some(&window(2))));
    }

    #[test]
    fn two_surfaces_of_one_window_do_not_alternate() {
        let window = || {
            Some(XWindow {
                display: ":1".into(),
                id: 7,
            })
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, window));
        assert!(windows.on_swap(at(1), OTHER, LARGE, window), "it is newer");
        windows.set_alive(windows.streamed().0, true);
        for ms in (10..1000).step_by(10) {
            assert!(!windows.on_swap(at(ms), ONE, LARGE, window), "{ms}");
            assert!(windows.on_swap(at(ms), OTHER, LARGE, window), "{ms}");
        }
        assert_eq!(windows.streamed().0, 2);
        // The newer surface was destroyed, but its window is still visible.
        assert!(!windows.on_swap(at(1900), ONE, LARGE, window));
        assert!(windows.on_swap(at(1990), ONE, LARGE, window));
    }

    #[test]
    fn the_window_is_queried_once_and_the_size_expires() {
        let window = XWindow {
            display: ":1".into(),
            id: 7,
        };
        let mut windows = Windows::new();
        windows.on_swap(at(0), ONE, LARGE, || Some(window.clone()));
        windows.on_swap(at(200), ONE, LARGE, || unreachable!("it is known"));
        assert_eq!(windows.streamed().1, Some(&window));
        assert_eq!(windows.size(at(249), ONE), Some(LARGE));
        assert_eq!(windows.size(at(250), ONE), None, "swaps do not measure");
        assert_eq!(windows.size(at(0), OTHER), None);
    }

    #[test]
    fn a_larger_window_with_another_title_is_not_streamed() {
        let window = |id| XWindow {
            display: ":1".into(),
            id,
        };
        let mut windows = Windows::new();
        assert!(windows.on_swap(at(0), ONE, LARGE, || Some(window(1))));
        windows.only_matching();
        assert!(!windows.on_swap(at(1), ONE, LARGE, || None));
        assert!(!windows.on_swap(at(2), OTHER, SMALL, || Some(window(2))));
        assert_eq!(windows.unmatched(), [window(1), window(2)]);
        windows.mark_matching(&window(2));
        assert_eq!(windows.streamed().1, Some(&window(2)), "it need not draw");
        assert!(windows.on_swap(at(3), OTHER, SMALL, || None));
        assert!(!windows.on_swap(at(4), ONE, LARGE, || None));
        assert_eq!(windows.unmatched(), [window(1)]);
    }

    #[test]
    fn the_number_of_windows_is_bounded() {
        let mut windows = Windows::new();
        for n in 0..1000 {
            windows.on_swap(at(0), Key(1, n), SMALL, || None);
        }
        assert_eq!(windows.known.len(), MAX_WINDOWS);
    }
}
