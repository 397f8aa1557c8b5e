//! What an application notes for its debugger: names of handles, and what a session is at.

use std::collections::BTreeMap;
use std::ffi::CString;

use openxr_sys as xr;

/// Names, and labels of one session, at most (guess: an application that never ends a region is stopped before memory
/// is).
const MOST: usize = 4096;

/// What a session is at: regions that contain each other, and a point in the innermost.
#[derive(Default)]
struct Labels {
    regions: Vec<CString>,
    point: Option<CString>,
}

/// All notes.
pub(crate) struct Notes {
    /// By kind and handle.
    names: BTreeMap<(i32, u64), CString>,
    /// By session.
    labels: BTreeMap<u64, Labels>,
}

impl Notes {
    pub(super) const fn new() -> Notes {
        Notes {
            names: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// A handle has this name from now on; an empty one is none.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn call(
        &mut self,
        kind: xr::ObjectType,
        handle: u64,
        name: CString,
    ) -> Result<(), xr::Result> {
        let key = (kind.into_raw(), handle);
        if name.is_empty() {
            self.names.remove(&key);
            return Ok(());
        }
        if self.names.len() >= MOST && !self.names.contains_key(&key) {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        self.names.insert(key, name);
        Ok(())
    }

    /// The name of a handle.
    pub(super) fn name(&self, kind: xr::ObjectType, handle: u64) -> Option<CString> {
        self.names.get(&(kind.into_raw(), handle)).cloned()
    }

    /// A session begins something.
    ///
    /// # Errors
    /// It is in too much already.
    pub(crate) fn begin(&mut self, session: u64, label: CString) -> Result<(), xr::Result> {
        let labels = self.labels.entry(session).or_default();
        if labels.regions.len() >= MOST {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        labels.point = None;
        labels.regions.push(label);
        Ok(())
    }

    /// A session ends what it has begun last, if anything.
    pub(crate) fn end(&mut self, session: u64) {
        if let Some(labels) = self.labels.get_mut(&session) {
            labels.point = None;
            labels.regions.pop();
        }
    }

    /// A session is at this point of what it does.
    pub(crate) fn insert(&mut self, session: u64, label: CString) {
        self.labels.entry(session).or_default().point = Some(label);
    }

    /// What a session is at, the newest first.
    pub(super) fn labels(&self, session: u64) -> Vec<CString> {
        let Some(labels) = self.labels.get(&session) else {
            return Vec::new();
        };
        let regions = labels.regions.iter().rev();
        labels.point.iter().chain(regions).cloned().collect()
    }

    /// A handle was destroyed.
    pub(crate) fn forget(&mut self, kind: xr::ObjectType, handle: u64) {
        self.names.remove(&(kind.into_raw(), handle));
        self.labels.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_end_where_regions_begin_or_end() {
        let mut notes = Notes::new();
        let label = |text: &str| CString::new(text).unwrap();
        let at = |notes: &Notes| {
            let labels = notes.labels(1).into_iter();
            labels
                .map(|l| l.into_string().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        notes.insert(1, label("start"));
        assert_eq!(at(&notes), "start");
        notes.begin(1, label("game")).unwrap();
        notes.insert(1, label("wait"));
        notes.insert(1, label("draw"));
        assert_eq!(at(&notes), "draw game");
        notes.begin(1, label("frame")).unwrap();
        assert_eq!(at(&notes), "frame game");
        notes.end(1);
        assert_eq!(at(&notes), "game");
        notes.end(1);
        notes.end(1);
        assert_eq!(at(&notes), "");
    }

    #[test]
    fn a_name_is_taken_back_or_goes_with_its_handle() {
        let mut notes = Notes::new();
        let space = xr::ObjectType::SPACE;
        let name = |text: &str| CString::new(text).unwrap();
        notes.call(space, 7, name("hand")).unwrap();
        assert_eq!(notes.name(space, 7), Some(name("hand")));
        assert_eq!(notes.name(xr::ObjectType::ACTION, 7), None);
        notes.call(space, 7, name("")).unwrap();
        assert_eq!(notes.name(space, 7), None);
        notes.call(space, 7, name("hand")).unwrap();
        notes.forget(space, 7);
        assert_eq!(notes.name(space, 7), None);
        for handle in 0..5000 {
            let _ = notes.call(space, handle, name("x"));
        }
        assert_eq!(notes.names.len(), MOST);
    }
}
