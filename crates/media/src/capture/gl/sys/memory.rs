//! The memory of a pixel buffer that is lent to the host. The memory is freed with its context, but the host may keep
//! the last picture longer. The memory must then be withdrawn.
//!
//! Withdrawing first waits until the picture is no longer in use: at most until the host has encoded it. It then leaves
//! a copy of the picture in place of the memory.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;

use crate::capture::submit::Frame;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The bytes of one buffer of the ring.
pub(super) struct Memory {
    len: usize,
    state: Mutex<State>,
    rested: Condvar,
}

struct State {
    place: Backing,
    /// Whether a [`Loan`] of the memory exists.
    lent: bool,
    /// Whether the picture is borrowed.
    in_use: bool,
}

enum Backing {
    /// Not mapped, or the context is gone.
    Unmapped,
    /// The driver's memory.
    Mapped(*const u8),
    /// A copy made before the driver's memory was freed.
    Copied(Vec<u8>),
}

// SAFETY: the thread that maps and unmaps the memory uses the pointer only under the lock. A loan uses the pointer only
// while `in_use` is set. The memory is not bound to a thread.
unsafe impl Send for Memory {}
// SAFETY: the pointer may be shared for the same reasons as it may be sent. All other fields are behind the lock.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(len: usize) -> Arc<Memory> {
        Arc::new(Memory {
            len,
            state: Mutex::new(State {
                place: Backing::Unmapped,
                lent: false,
                in_use: false,
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
        matches!(self.state().place, Backing::Mapped(_))
    }

    /// Sets the address of the mapping; `None` if it is no longer mapped.
    ///
    /// # Safety
    /// `len` bytes must be readable at `start` until the next call of this method or of [`Memory::withdraw`] returns,
    /// and must not be written while a submitted loan exists.
    pub(super) unsafe fn map(&self, start: Option<*const u8>) {
        self.state().place = start.map_or(Backing::Unmapped, Backing::Mapped);
    }

    /// Lends the memory as a picture. No other loan may exist.
    pub(super) fn lend(self: &Arc<Memory>, shape: Shape) -> Loan {
        self.state().lent = true;
        Loan {
            memory: self.clone(),
            shape,
        }
    }

    /// Waits until lent pixels are not in use, and copies them. Call this before the driver's memory is freed.
    pub(super) fn withdraw(&self) {
        let mut state = (self.rested)
            .wait_while(self.state(), |state| state.in_use)
            .unwrap_or_else(PoisonError::into_inner);
        if let Backing::Mapped(start) = state.place {
            state.place = if state.lent {
                // SAFETY: the contract of `map` requires that the memory stays mapped until this function returns, and
                // that nothing writes to it.
                Backing::Copied(unsafe { std::slice::from_raw_parts(start, self.len) }.to_vec())
            } else {
                Backing::Unmapped
            };
        }
    }
}

/// The size, format and stride of the picture in the bytes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) size: Size,
    pub(super) format: PixelFormat,
    pub(super) stride: usize,
}

/// A buffer lent to the host, returned on drop.
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
        state.in_use = true;
        let (start, len) = match &state.place {
            Backing::Mapped(start) => (*start, self.memory.len),
            Backing::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            Backing::Unmapped => (NonNull::<u8>::dangling().as_ptr().cast_const(), 0),
        };
        drop(state);
        // SAFETY: `len` bytes are readable at `start` as long as `in_use` is set: `withdraw` waits until it is reset,
        // and a copy is never replaced. `rest` and `drop`, which reset `in_use`, borrow this loan mutably, so no
        // picture is borrowed from it. The bytes are not written, since the buffer is not reused before the loan is
        // dropped.
        let data = unsafe { std::slice::from_raw_parts(start, len) };
        Picture {
            size: self.shape.size,
            format: self.shape.format,
            rows: RowOrder::BottomUp,
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
        self.memory.state().in_use = false;
        self.memory.rested.notify_all();
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        {
            let mut state = self.memory.state();
            state.in_use = false;
            state.lent = false;
            if let Backing::Copied(_) = state.place {
                state.place = Backing::Unmapped;
            }
        }
        self.memory.rested.notify_all();
    }
}
