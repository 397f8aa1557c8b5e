//! The windows that show pictures, and which of them is streamed: the largest.
//!
//! A window is known by its swaps. One that has not swapped for a while, as one that was closed, is
//! forgotten, and another takes its place.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

/// A window that has not swapped for this long may be replaced by a smaller one (guess: a game
/// that loads a level between two pictures keeps it that long).
const ABSENT: Duration = Duration::from_secs(1);

/// For how long a window's size is believed: asking costs a turn with the X server (guess: a
/// person does not see that a window that becomes the largest is streamed this much later).
const BELIEVED: Duration = Duration::from_millis(250);

/// Windows that are remembered; more than any game has.
const MANY: usize = 64;

/// What tells a window from others in this process: the connection, display or device that it
/// belongs to, and its name there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(pub(crate) usize, pub(crate) u64);

/// Where a window is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The X display, as `DISPLAY` names it.
    pub(crate) display: String,
    /// The window on it.
    pub(crate) window: u32,
}

#[derive(Debug)]
struct Known {
    key: Key,
    size: Size,
    measured: Instant,
    swapped: Instant,
    place: Option<Place>,
    /// It is called as the person wants.
    named: bool,
    /// It is a menu or the like; `None` as long as nobody has looked.
    popup: Option<bool>,
}

/// All windows that swapped lately.
#[derive(Debug)]
pub(crate) struct Windows {
    known: Vec<Known>,
    streamed: Option<Key>,
    /// Counts how often the streamed window changed.
    changes: u64,
    /// Only windows that are called in one way are streamed.
    only_named: bool,
    /// The streamed window is known to be there, also if it draws nothing.
    held: bool,
}

impl Windows {
    pub(crate) const fn new() -> Windows {
        Windows {
            known: Vec::new(),
            streamed: None,
            changes: 0,
            only_named: false,
            held: false,
        }
    }

    /// The size of a window as it was measured lately.
    pub(crate) fn size(&self, now: Instant, key: Key) -> Option<Size> {
        let known = self.find(key)?;
        (now.since(known.measured) < BELIEVED).then_some(known.size)
    }

    /// A window of `size` is about to show a picture: whether it is the streamed one. `place` is
    /// asked when the window is new.
    pub(crate) fn shows(
        &mut self,
        now: Instant,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) -> bool {
        let held = self.streamed.filter(|_| self.held);
        self.known
            .retain(|w| now.since(w.swapped) < ABSENT || held == Some(w.key));
        let full = self.known.len() >= MANY;
        match self.known.iter_mut().find(|w| w.key == key) {
            Some(known) => {
                if known.size != size || now.since(known.measured) >= BELIEVED {
                    known.measured = now;
                }
                known.swapped = now;
                known.size = size;
            }
            None if full => return false,
            None => {
                let place = place();
                self.known.push(Known {
                    key,
                    size,
                    measured: now,
                    swapped: now,
                    // Without a place there is nothing to look at.
                    popup: place.is_none().then_some(false),
                    place,
                    named: false,
                });
            }
        }
        if self.only_named && !self.find(key).is_some_and(|w| w.named) {
            return false;
        }
        let known = self.find(key);
        let place = known.and_then(|w| w.place.as_ref());
        // A menu may be larger than a small window that it belongs to.
        let may_replace = held.is_none() || known.is_some_and(|w| w.popup == Some(false));
        let streamed = self.streamed.and_then(|key| self.find(key));
        // Another surface of the same window takes the place of the one before.
        let gives_way = |w: &Known| {
            may_replace && w.size.pixels() < size.pixels()
                || place.is_some() && w.place.as_ref() == place
        };
        if streamed.is_none_or(gives_way) && self.streamed != Some(key) {
            self.choose(key);
        }
        self.streamed == Some(key)
    }

    fn choose(&mut self, key: Key) {
        self.streamed = Some(key);
        self.changes += 1;
        self.held = false;
    }

    /// Whether the streamed window is known to be there and to be seen; as of change `change`. One
    /// that is stays the streamed one, even if a smaller one draws more often.
    pub(crate) fn hold(&mut self, change: u64, there: bool) {
        if change == self.changes {
            self.held = there;
        }
    }

    /// A window does not exist any more.
    pub(crate) fn gone(&mut self, key: Key) {
        self.known.retain(|w| w.key != key);
    }

    /// From now on only windows are streamed that [`Windows::name`] has named.
    pub(crate) fn only_named(&mut self) {
        self.only_named = true;
        self.streamed = None;
        self.held = false;
    }

    /// The places of windows that would be streamed if they are no menus, which is not known yet.
    pub(crate) fn unseen(&self) -> Vec<Place> {
        let streamed = self.streamed.and_then(|key| self.find(key));
        let most = streamed.map_or(usize::MAX, |w| w.size.pixels());
        let unseen = self.known.iter().filter(|w| w.popup.is_none());
        let larger = unseen.filter(|w| self.held && w.size.pixels() > most);
        larger.filter_map(|w| w.place.clone()).collect()
    }

    /// What is at this place was looked at.
    pub(crate) fn looked_at(&mut self, place: &Place, is_popup: bool) {
        let at = |w: &&mut Known| w.place.as_ref() == Some(place);
        let there = self.known.iter_mut().filter(at);
        there.for_each(|w| w.popup = Some(is_popup));
    }

    /// The places of windows that are not named.
    pub(crate) fn nameless(&self) -> Vec<Place> {
        let nameless = self.known.iter().filter(|w| !w.named);
        nameless.filter_map(|w| w.place.clone()).collect()
    }

    /// What is at this place is called as the person wants.
    pub(crate) fn name(&mut self, place: &Place) {
        let at = |w: &&mut Known| w.place.as_ref() == Some(place);
        self.known
            .iter_mut()
            .filter(at)
            .for_each(|w| w.named = true);
        // It may have come to rest before it got its name.
        let named = self.known.iter().filter(|w| w.named);
        let largest = named.max_by_key(|w| w.size.pixels()).map(|w| w.key);
        if let (Some(largest), None, true) = (largest, self.streamed, self.only_named) {
            self.choose(largest);
        }
    }

    /// Where the streamed window is, and a number that changes with the window.
    pub(crate) fn streamed(&self) -> (u64, Option<&Place>) {
        let known = self.streamed.and_then(|key| self.find(key));
        (self.changes, known.and_then(|w| w.place.as_ref()))
    }

    fn find(&self, key: Key) -> Option<&Known> {
        self.known.iter().find(|w| w.key == key)
    }
}

/// The windows of this process, as its threads share them.
#[derive(Debug)]
pub(crate) struct SharedWindows(Mutex<Windows>);

impl SharedWindows {
    pub(crate) const fn new() -> SharedWindows {
        SharedWindows(Mutex::new(Windows::new()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Windows> {
        lock(&self.0)
    }

    /// Where the streamed window is, and a number that changes with the window.
    pub(crate) fn streamed(&self) -> (u64, Option<Place>) {
        let windows = self.lock();
        let (change, place) = windows.streamed();
        (change, place.cloned())
    }

    /// Looks at the windows that are not called as the person wants, as far as is known: `named` is asked
    /// again and again, for titles come late.
    pub(crate) fn name(&self, named: impl Fn(&Place) -> bool) {
        // Who is asked may take a while: not under the lock.
        let nameless = self.lock().nameless();
        for place in nameless.iter().filter(|place| named(place)) {
            self.lock().name(place);
        }
    }

    /// Looks at the windows of which it is not known whether they are menus, where that matters.
    pub(crate) fn look(&self, is_popup: impl Fn(&Place) -> bool) {
        let unseen = self.lock().unseen();
        // Not under the lock: who is asked may take a while.
        for place in &unseen {
            let popup = is_popup(place);
            self.lock().looked_at(place, popup);
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
        assert!(windows.shows(at(0), ONE, SMALL, || None));
        assert!(!windows.shows(at(1), OTHER, SMALL, || None));
        assert!(windows.shows(at(2), OTHER, LARGE, || None), "it has grown");
        assert!(!windows.shows(at(3), ONE, SMALL, || None));
        assert_eq!(windows.streamed().0, 2);
        assert!(
            windows.shows(at(4), OTHER, SMALL, || None),
            "nobody is larger"
        );
    }

    #[test]
    fn who_goes_away_hands_over() {
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, LARGE, || None));
        assert!(!windows.shows(at(500), OTHER, SMALL, || None));
        assert!(
            windows.shows(at(1001), OTHER, SMALL, || None),
            "it stood still"
        );
        assert!(windows.shows(at(1002), ONE, LARGE, || None), "it is back");
        windows.gone(ONE);
        assert!(windows.shows(at(1003), OTHER, SMALL, || None));
    }

    #[test]
    fn a_window_that_rests_and_is_there_stays() {
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, LARGE, || None));
        windows.hold(windows.streamed().0, true);
        assert!(!windows.shows(at(60_000), OTHER, SMALL, || None));
        windows.hold(windows.streamed().0, false);
        assert!(windows.shows(at(60_001), OTHER, SMALL, || None));
        windows.hold(windows.streamed().0 - 1, true);
        assert!(
            windows.shows(at(120_000), ONE, SMALL, || None),
            "that was another"
        );
    }

    #[test]
    fn a_menu_never_takes_the_place_of_a_window_that_is_there() {
        let place = |window| Place {
            display: ":1".into(),
            window,
        };
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, SMALL, || Some(place(1))));
        windows.hold(windows.streamed().0, true);
        assert!(!windows.shows(at(1), OTHER, LARGE, || Some(place(2))));
        assert_eq!(windows.unseen(), [place(2)], "nobody knows yet what it is");
        windows.looked_at(&place(2), true);
        assert!(windows.unseen().is_empty());
        assert!(!windows.shows(at(2), OTHER, LARGE, || None));
        // Full screen, for some.
        windows.hold(windows.streamed().0, false);
        assert!(windows.shows(at(3), OTHER, LARGE, || None));
    }

    #[test]
    fn a_larger_window_that_is_no_menu_is_streamed() {
        let place = Place {
            display: ":1".into(),
            window: 2,
        };
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, SMALL, || None));
        windows.hold(windows.streamed().0, true);
        assert!(!windows.shows(at(1), OTHER, LARGE, || Some(place.clone())));
        windows.looked_at(&place, false);
        assert!(windows.shows(at(2), OTHER, LARGE, || None));
    }

    #[test]
    fn a_new_surface_of_the_same_window_is_streamed() {
        let place = || {
            Some(Place {
                display: ":1".into(),
                window: 7,
            })
        };
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, LARGE, place));
        windows.hold(windows.streamed().0, true);
        assert!(windows.shows(at(1), OTHER, LARGE, place));
        assert_eq!(windows.streamed(), (2, place().as_ref()));
    }

    #[test]
    fn the_place_is_asked_once_and_the_size_is_believed_for_a_while() {
        let place = Place {
            display: ":1".into(),
            window: 7,
        };
        let mut windows = Windows::new();
        windows.shows(at(0), ONE, LARGE, || Some(place.clone()));
        windows.shows(at(200), ONE, LARGE, || unreachable!("it is known"));
        assert_eq!(windows.streamed().1, Some(&place));
        assert_eq!(windows.size(at(249), ONE), Some(LARGE));
        assert_eq!(windows.size(at(250), ONE), None, "swaps do not measure");
        assert_eq!(windows.size(at(0), OTHER), None);
    }

    #[test]
    fn a_larger_window_of_another_name_is_not_streamed() {
        let place = |window| Place {
            display: ":1".into(),
            window,
        };
        let mut windows = Windows::new();
        assert!(windows.shows(at(0), ONE, LARGE, || Some(place(1))));
        windows.only_named();
        assert!(!windows.shows(at(1), ONE, LARGE, || None));
        assert!(!windows.shows(at(2), OTHER, SMALL, || Some(place(2))));
        assert_eq!(windows.nameless(), [place(1), place(2)]);
        windows.name(&place(2));
        assert_eq!(windows.streamed().1, Some(&place(2)), "it need not draw");
        assert!(windows.shows(at(3), OTHER, SMALL, || None));
        assert!(!windows.shows(at(4), ONE, LARGE, || None));
        assert_eq!(windows.nameless(), [place(1)]);
    }

    #[test]
    fn what_comes_without_end_is_not_remembered_without_end() {
        let mut windows = Windows::new();
        for n in 0..1000 {
            windows.shows(at(0), Key(1, n), SMALL, || None);
        }
        assert_eq!(windows.known.len(), MANY);
    }
}
