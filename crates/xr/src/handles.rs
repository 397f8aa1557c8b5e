//! Handle table. The handles that the application gets are indices, not pointers.
//!
//! ```text
//! 63       32 31        0
//! generation │ slot + 1      a reused slot has a new generation, so that a stale handle is detected
//! ```
//! Destroying a handle destroys its children. For example, destroying a session destroys its spaces and swapchains.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openxr_sys::{self as xr, Handle as _};

use crate::debug;
use crate::ffi::Outcome;

/// Maximum number of live handles (guess: this stops an application with leaks before memory runs out).
const MAX_HANDLES: usize = 1 << 16;

/// All handles of this process. The table is global, because OpenXR passes no context to its functions besides handles.
static HANDLES: Mutex<Handles> = Mutex::new(Handles::new());

/// An object that has a handle.
pub(crate) trait Object: Any + Send + Sync {
    type Handle: xr::Handle;

    const KIND: xr::ObjectType;

    /// Called when the handle has been destroyed. Calls in progress may still use the object.
    fn destroyed(&self) {}
}

/// An [`Object`] without its static type.
trait AnyObject: Any + Send + Sync {
    fn kind(&self) -> xr::ObjectType;
    fn destroyed(&self);
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Object> AnyObject for T {
    fn kind(&self) -> xr::ObjectType {
        T::KIND
    }

    fn destroyed(&self) {
        Object::destroyed(self);
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

struct Slot {
    generation: u32,
    parent: u64,
    object: Option<Arc<dyn AnyObject>>,
}

struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Handles {
    const fn new() -> Handles {
        Handles {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The slot of a handle, unless the handle is stale.
    fn slot(&self, handle: u64) -> Option<usize> {
        let [low, generation] = halves(handle);
        let index = low.checked_sub(1)? as usize;
        let slot = self.slots.get(index)?;
        (slot.generation == generation && slot.object.is_some()).then_some(index)
    }

    /// The topmost ancestor of a handle: an instance.
    fn root(&self, mut handle: u64) -> u64 {
        while let Some(index) = self.slot(handle) {
            match self.slots[index].parent {
                0 => break,
                parent => handle = parent,
            }
        }
        handle
    }

    fn add(&mut self, parent: u64, object: Arc<dyn AnyObject>) -> Option<u64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() >= MAX_HANDLES => return None,
            None => {
                self.slots.push(Slot {
                    generation: 1,
                    parent: 0,
                    object: None,
                });
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let slot = &mut self.slots[index as usize];
        (slot.parent, slot.object) = (parent, Some(object));
        Some(u64::from(slot.generation) << 32 | u64::from(index + 1))
    }

    /// Removes a handle and its descendants. In `removed`, children come before their parents.
    fn remove(&mut self, handle: u64, removed: &mut Vec<(u64, Arc<dyn AnyObject>)>) {
        let Some(index) = self.slot(handle) else {
            return;
        };
        let slot = &mut self.slots[index];
        let object = slot.object.take();
        slot.generation = slot.generation.wrapping_add(1).max(1);
        let children: Vec<u64> = (1..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.object.is_some() && slot.parent == handle)
            .map(|(low, slot)| u64::from(slot.generation) << 32 | low)
            .collect();
        for child in children {
            self.remove(child, removed);
        }
        removed.extend(object.map(|object| (handle, object)));
        self.free.extend(u32::try_from(index));
    }
}

/// The lower and upper 32 bits of a handle.
fn halves(handle: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = handle.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes)
}

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a handle for `object`, as a child of the handle `parent`. If `parent` is 0, the new handle has no parent.
///
/// # Errors
/// Returns an error if the table is full.
pub(crate) fn add<T: Object>(parent: u64, object: Arc<T>) -> Outcome<T::Handle> {
    let raw = handles().add(parent, object);
    raw.map(T::Handle::from_raw)
        .ok_or(xr::Result::ERROR_LIMIT_REACHED)
}

/// Looks up the object of a handle.
///
/// # Errors
/// Returns an error if the handle is invalid, has another type, or has been destroyed.
pub(crate) fn get<T: Object>(handle: T::Handle) -> Outcome<Arc<T>> {
    let handles = handles();
    let slot = handles.slot(handle.into_raw());
    let object = slot.and_then(|index| handles.slots[index].object.clone());
    let found = object.and_then(|object| object.any().downcast().ok());
    if found.is_some() {
        let raw = handle.into_raw();
        debug::set_handle(T::KIND, raw, handles.root(raw));
    }
    found.ok_or(xr::Result::ERROR_HANDLE_INVALID)
}

/// Destroys a handle and its descendants.
///
/// # Errors
/// The same as for [`get`].
pub(crate) fn destroy<T: Object>(handle: T::Handle) -> Outcome {
    get::<T>(handle)?;
    let mut removed = Vec::new();
    handles().remove(handle.into_raw(), &mut removed);
    // Called without the lock, because `destroyed` may wait for threads that look up handles.
    for (handle, object) in &removed {
        debug::annotate(|annotations| annotations.remove_object(object.kind(), *handle));
        object.destroyed();
    }
    Ok(xr::Result::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Object for One {
        type Handle = xr::Space;
        const KIND: xr::ObjectType = xr::ObjectType::SPACE;
    }

    struct Two;

    impl Object for Two {
        type Handle = xr::Space;
        const KIND: xr::ObjectType = xr::ObjectType::SPACE;
    }

    const INVALID: Option<xr::Result> = Some(xr::Result::ERROR_HANDLE_INVALID);

    #[test]
    fn stale_and_foreign_handles_are_rejected() {
        let first = add(0, Arc::new(One)).unwrap();
        assert!(get::<One>(first).is_ok());
        assert_eq!(get::<Two>(first).err(), INVALID);
        assert_eq!(destroy::<Two>(first).err(), INVALID);
        assert!(destroy::<One>(first).is_ok());
        let again = add(0, Arc::new(One)).unwrap();
        assert_ne!(first.into_raw(), again.into_raw());
        assert_eq!(get::<One>(first).err(), INVALID);
        for raw in [0, 1, u64::MAX, again.into_raw() ^ 1 << 40] {
            let handle = xr::Space::from_raw(raw);
            assert_eq!(get::<One>(handle).err(), INVALID, "{raw:x}");
        }
        assert!(destroy::<One>(again).is_ok());
    }

    #[test]
    fn children_are_destroyed_with_their_parent() {
        let parent = add(0, Arc::new(One)).unwrap();
        let child = add(parent.into_raw(), Arc::new(One)).unwrap();
        let grandchild = add(child.into_raw(), Arc::new(Two)).unwrap();
        let beside = add(0, Arc::new(One)).unwrap();
        assert!(destroy::<One>(parent).is_ok());
        assert_eq!(get::<One>(child).err(), INVALID);
        assert_eq!(get::<Two>(grandchild).err(), INVALID);
        assert!(get::<One>(beside).is_ok() && destroy::<One>(beside).is_ok());
    }
}
