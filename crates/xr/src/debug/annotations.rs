//! The application's annotations for its debugger: object names and session labels.

use std::collections::BTreeMap;
use std::ffi::CString;

use openxr_sys as xr;

/// Maximum number of names, and of labels per session (guess). If an application never ends its regions, the limit is
/// reached before memory runs out.
const MAX_ANNOTATIONS: usize = 4096;

/// The labels of a session: nested regions, and one label in the innermost region.
#[derive(Default)]
struct Labels {
    regions: Vec<CString>,
    point: Option<CString>,
}

pub(crate) struct Annotations {
    /// Names by object type and handle.
    names: BTreeMap<(i32, u64), CString>,
    /// By session.
    labels: BTreeMap<u64, Labels>,
}

impl Annotations {
    pub(super) const fn new() -> Annotations {
        Annotations {
            names: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// Sets a handle's name. An empty name removes it.
    ///
    /// # Errors
    /// Returns an error if the limit has been reached.
    pub(crate) fn set_name(
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
        if self.names.len() >= MAX_ANNOTATIONS && !self.names.contains_key(&key) {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        self.names.insert(key, name);
        Ok(())
    }

    pub(super) fn name(&self, kind: xr::ObjectType, handle: u64) -> Option<CString> {
        self.names.get(&(kind.into_raw(), handle)).cloned()
    }

    /// Begins a label region of a session.
    ///
    /// # Errors
    /// Returns an error if the limit has been reached.
    pub(crate) fn begin_region(&mut self, session: u64, label: CString) -> Result<(), xr::Result> {
        let labels = self.labels.entry(session).or_default();
        if labels.regions.len() >= MAX_ANNOTATIONS {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        labels.point = None;
        labels.regions.push(label);
        Ok(())
    }

    /// Ends the innermost region of a session, if there is one.
    pub(crate) fn end_region(&mut self, session: u64) {
        if let Some(labels) = self.labels.get_mut(&session) {
            labels.point = None;
            labels.regions.pop();
        }
    }

    /// Sets a session's label in the innermost region.
    pub(crate) fn insert_label(&mut self, session: u64, label: CString) {
        self.labels.entry(session).or_default().point = Some(label);
    }

    /// A session's labels, the innermost first.
    pub(super) fn labels(&self, session: u64) -> Vec<CString> {
        let Some(labels) = self.labels.get(&session) else {
            return Vec::new();
        };
        let regions = labels.regions.iter().rev();
        labels.point.iter().chain(regions).cloned().collect()
    }

    /// Removes the annotations of a destroyed handle.
    pub(crate) fn remove_object(&mut self, kind: xr::ObjectType, handle: u64) {
        self.names.remove(&(kind.into_raw(), handle));
        self.labels.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_ends_with_a_change_of_region() {
        let mut annotations = Annotations::new();
        let label = |text: &str| CString::new(text).unwrap();
        let at = |annotations: &Annotations| {
            let labels = annotations.labels(1).into_iter();
            labels
                .map(|l| l.into_string().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        annotations.insert_label(1, label("start"));
        assert_eq!(at(&annotations), "start");
        annotations.begin_region(1, label("game")).unwrap();
        annotations.insert_label(1, label("wait"));
        annotations.insert_label(1, label("draw"));
        assert_eq!(at(&annotations), "draw game");
        annotations.begin_region(1, label("frame")).unwrap();
        assert_eq!(at(&annotations), "frame game");
        annotations.end_region(1);
        assert_eq!(at(&annotations), "game");
        annotations.end_region(1);
        annotations.end_region(1);
        assert_eq!(at(&annotations), "");
    }

    #[test]
    fn a_name_is_removed_on_request_or_with_its_handle() {
        let mut annotations = Annotations::new();
        let space = xr::ObjectType::SPACE;
        let name = |text: &str| CString::new(text).unwrap();
        annotations.set_name(space, 7, name("hand")).unwrap();
        assert_eq!(annotations.name(space, 7), Some(name("hand")));
        assert_eq!(annotations.name(xr::ObjectType::ACTION, 7), None);
        annotations.set_name(space, 7, name("")).unwrap();
        assert_eq!(annotations.name(space, 7), None);
        annotations.set_name(space, 7, name("hand")).unwrap();
        annotations.remove_object(space, 7);
        assert_eq!(annotations.name(space, 7), None);
        for handle in 0..5000 {
            let _ = annotations.set_name(space, handle, name("x"));
        }
        assert_eq!(annotations.names.len(), MAX_ANNOTATIONS);
    }
}
