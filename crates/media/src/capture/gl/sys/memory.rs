//! The memory of a pixel buffer that is lent to the host, and may have to be taken from under it:
//! with its context a buffer's memory goes, and the host keeps the last picture as long as it likes.
//!
//! Who takes it away waits until nobody looks at the picture (the length of an encode at most), and
//! leaves a copy in its place.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;

use crate::capture::submit::Frame;
use crate::picture::{Picture, PixelFormat, Plane, Rows};

/// The bytes of one buffer of the ring.
pub(super) struct Memory {
    len: usize,
    state: Mutex<State>,
    rested: Condvar,
}

struct State {
    place: Place,
    /// A [`Loan`] of it exists.
    lent: bool,
    /// Somebody looks at it.
    held: bool,
}

enum Place {
    /// Nowhere: not mapped, or the context is gone.
    None,
    /// In the driver's hands.
    Mapped(*const u8),
    /// Copied when the driver's memory was about to go.
    Own(Vec<u8>),
}

// SAFETY: the pointer is used on the thread that maps and unmaps, under the lock, and by one loan
// while that is `held`; the memory behind it has no tie to a thread.
unsafe impl Send for Memory {}
// SAFETY: as above; all else is behind the lock.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(len: usize) -> Arc<Memory> {
        Arc::new(Memory {
            len,
            state: Mutex::new(State {
                place: Place::None,
                lent: false,
                held: false,
            }),
            rested: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_lent(&self) -> bool {
        self.state().lent
    }

    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.state().place, Place::Mapped(_))
    }

    /// It is mapped now, at `start`, or no more.
    ///
    /// # Safety
    /// `start` is where `len` bytes can be read until this is called again or
    /// [`Memory::withdraw`], and nothing writes there while a loan exists that has been submitted.
    pub(super) unsafe fn map(&self, start: Option<*const u8>) {
        self.state().place = start.map_or(Place::None, Place::Mapped);
    }

    /// Lends it as a picture; nobody else has it.
    pub(super) fn lend(self: &Arc<Memory>, shape: Shape) -> Loan {
        self.state().lent = true;
        Loan {
            memory: self.clone(),
            shape,
        }
    }

    /// The driver's memory is about to go: what is lent is copied, once nobody looks at it.
    pub(super) fn withdraw(&self) {
        let mut state = (self.rested)
            .wait_while(self.state(), |state| state.held)
            .unwrap_or_else(PoisonError::into_inner);
        if let Place::Mapped(start) = state.place {
            state.place = if state.lent {
                // SAFETY: mapped until this returns, by the contract of `map`; nobody writes.
                Place::Own(unsafe { std::slice::from_raw_parts(start, self.len) }.to_vec())
            } else {
                Place::None
            };
        }
    }
}

/// How the bytes are a picture.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) size: Size,
    pub(super) format: PixelFormat,
    pub(super) stride: usize,
}

/// A buffer that the host has; it goes back when this is dropped.
pub(super) struct Loan {
    memory: Arc<Memory>,
    shape: Shape,
}

impl Loan {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Frame for Loan {
    fn picture(&self) -> Picture<'_> {
        let mut state = self.memory.state();
        state.held = true;
        let (start, len) = match &state.place {
            Place::Mapped(start) => (*start, self.memory.len),
            Place::Own(bytes) => (bytes.as_ptr(), bytes.len()),
            Place::None => (NonNull::<u8>::dangling().as_ptr().cast_const(), 0),
        };
        drop(state);
        // SAFETY: `len` bytes lie there, and stay there while `held` is set: `withdraw` waits for
        // that, and an own copy is replaced by nobody. `rest` and `drop`, which reset it, need this
        // loan for themselves, so that no picture is borrowed from it. Nothing writes there, since
        // the buffer is not used again before the loan is gone.
        let data = unsafe { std::slice::from_raw_parts(start, len) };
        Picture {
            size: self.shape.size,
            format: self.shape.format,
            rows: Rows::BottomUp,
            planes: [
                Plane {
                    data,
                    stride: self.shape.stride,
                },
                Plane::EMPTY,
                Plane::EMPTY,
            ],
        }
    }

    fn rest(&mut self) {
        self.memory.state().held = false;
        self.memory.rested.notify_all();
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        {
            let mut state = self.memory.state();
            state.held = false;
            state.lent = false;
            if let Place::Own(_) = state.place {
                state.place = Place::None;
            }
        }
        self.memory.rested.notify_all();
    }
}
