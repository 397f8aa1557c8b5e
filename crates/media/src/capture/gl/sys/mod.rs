//! The OpenGL calls: the ring of pixel buffers, and the waits for them.
#![allow(unsafe_code)]

mod capabilities;
mod current;
mod functions;
mod memory;
mod private_context;
mod sharing;
mod state;
#[cfg(test)]
#[cfg(feature = "client")]
mod tests;
mod waiter;

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use openuvr_proto::units::Size;

use super::super::pool::Pool;
use super::super::submit::Ticket;
use super::super::{CaptureError, RenderInfo};
use super::{Loader, ReadSource, ReadStatus, Sharing, SkipReason, Submit};
use crate::picture::RowOrder;
use capabilities::Gl;
#[cfg(test)]
#[cfg(feature = "client")]
use capabilities::Version;
pub use current::Native;
use functions::{Buffers, Sync as Fence};
use memory::{Loan, Memory, Shape};
pub use private_context::{ContextGuard, PrivateContext};
use state::{PIXEL_PACK_BUFFER, PIXEL_UNPACK_BUFFER, Saved};
use waiter::Waiter;

/// Number of buffers in the ring: one at the host, one submitted but not yet taken, and two in the GPU. Drivers queue
/// up to two pictures before they block the application (guess).
const RING: usize = 4;

const UNSIGNED_BYTE: c_uint = 0x1401;
const STREAM_READ: c_uint = 0x88E1;
const BUFFER_SIZE: c_uint = 0x8764;
const BUFFER_MAPPED: c_uint = 0x88BC;
const BUFFER_ACCESS_FLAGS: c_uint = 0x911F;
const MAP_READ: c_uint = 0x1;
const MAP_PERSISTENT: c_uint = 0x40;
const MAP_COHERENT: c_uint = 0x80;
/// A hint that the CPU should be able to read the buffer's memory fast.
const CLIENT_STORAGE: c_uint = 0x200;
const SYNC_GPU_COMMANDS_COMPLETE: c_uint = 0x9117;
const SYNC_FLUSH_COMMANDS: c_uint = 0x1;
const ALREADY_SIGNALED: c_uint = 0x911A;
const CONDITION_SATISFIED: c_uint = 0x911C;

/// Reads the pictures of one OpenGL context, on the thread on which it is current.
pub struct ReadBack {
    gl: Arc<Gl>,
    submit: Submit,
    slots: Vec<Slot>,
    /// Pictures in the GPU that no thread waits for, oldest first.
    in_flight: VecDeque<Flight>,
    waiter: Waiter,
    /// Buffers for contexts without pixel buffers.
    pool: Pool,
    skipped: u64,
    /// Whether a fence is checked immediately after it is created. Only tests of the waiting thread and of polling
    /// disable this.
    looks: bool,
}

/// A buffer of the ring.
struct Slot {
    buffer: c_uint,
    memory: Arc<Memory>,
}

/// A picture that the GPU is working on.
struct Flight {
    fence: Fence,
    buffer: c_uint,
    loan: Loan,
    drawn: RenderInfo,
}

// SAFETY: a fence belongs to the share group. Any thread may use it while a context of the share group is current on
// that thread.
unsafe impl Send for Flight {}

impl ReadBack {
    /// Creates a read-back for the current context. `sharing` describes how the context was
    /// created; `submit` receives finished pictures.
    ///
    /// # Errors
    /// [`CaptureError`] if no context is current or it lacks OpenGL 1.1 functionality.
    ///
    /// # Safety
    /// `loader` must return the driver's functions (or null). The read-back belongs to the context that is current
    /// during this call. At each method call except [`ReadBack::retire`] and `drop`, this context must be current on
    /// the calling thread, outside of `glBegin` and `glEnd`. The host may hold pictures in the context's memory.
    /// Therefore, this value must be retired or dropped before the context is destroyed or its display closed.
    pub unsafe fn new(
        loader: Loader<'_>,
        sharing: Sharing,
        submit: Submit,
    ) -> Result<ReadBack, CaptureError> {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            let gl = Gl::load(loader)?;
            Ok(ReadBack::with(gl, loader, sharing, submit))
        }
    }

    /// Creates a read-back for a context that may be destroyed without notice, so no state is kept
    /// between calls. Each picture is in ordinary memory when [`ReadBack::read`] returns, so the
    /// application waits until the GPU has drawn it.
    ///
    /// # Errors
    /// As [`ReadBack::new`].
    ///
    /// # Safety
    /// As [`ReadBack::new`]. However, the context may be destroyed, or its display closed, at any time when no method
    /// is running.
    pub unsafe fn stateless(loader: Loader<'_>, submit: Submit) -> Result<ReadBack, CaptureError> {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            let mut gl = Gl::load(loader)?;
            (gl.buffers, gl.copies, gl.storage) = (None, None, None);
            Ok(ReadBack::with(gl, loader, Sharing::None, submit))
        }
    }

    /// # Safety
    /// As [`ReadBack::new`]; `gl` describes the context.
    unsafe fn with(gl: Gl, loader: Loader<'_>, sharing: Sharing, submit: Submit) -> ReadBack {
        let gl = Arc::new(gl);
        ReadBack {
            // SAFETY: the caller upholds this function's contract.
            waiter: unsafe { Waiter::new(loader, sharing, &gl) },
            gl,
            submit,
            slots: Vec::new(),
            in_flight: VecDeque::new(),
            pool: Pool::default(),
            skipped: 0,
            looks: true,
        }
    }

    /// Reads a picture of `size` that the application has drawn. Waits for the GPU only if the context has no pixel
    /// buffers or the read-back is [stateless](ReadBack::stateless).
    pub fn read(&mut self, size: Size, what: ReadSource, drawn: RenderInfo) -> ReadStatus {
        self.poll();
        let reading = match self.start_read(size, what, drawn) {
            Ok(Some(flight)) => self.launch(flight),
            Ok(None) => self.copy(size, drawn),
            Err(why) => ReadStatus::Skipped(why),
        };
        if let ReadStatus::Skipped(_) = reading {
            self.skipped += 1;
        }
        reading
    }

    /// Submits the pictures that the GPU has finished. Call it after a swap if [`ReadBack::read`] returned
    /// [`ReadStatus::Pending`]. Without pending pictures, it costs almost nothing.
    pub fn poll(&mut self) {
        self.in_flight.extend(self.waiter.returned());
        while let Some(flight) = self.in_flight.pop_front() {
            if !self.is_done(&flight, 0) {
                self.in_flight.push_front(flight);
                return;
            }
            self.land(flight);
        }
    }

    /// Waits, at most `timeout`, until all pending pictures have been submitted. Call this method in an application
    /// that continues only after its picture has been sent. Returns the ticket of the newest of these pictures; `None`
    /// on timeout, if the host is gone, or if no picture was pending.
    pub fn finish(&mut self, timeout: Duration) -> Option<Ticket> {
        let until = Clock::now().checked_add(timeout);
        let mut ticket = self.waiter.finish(timeout);
        self.in_flight.extend(self.waiter.returned());
        if !self.waiter.is_idle() {
            return None;
        }
        while let Some(flight) = self.in_flight.pop_front() {
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Clock::now())
            });
            if !self.is_done(&flight, u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)) {
                self.in_flight.push_front(flight);
                return None;
            }
            ticket = self.land(flight);
        }
        ticket
    }

    /// Number of pictures skipped so far, for any `SkipReason`.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Ends the read-back before its context is destroyed. Pictures that the host still holds are copied to ordinary
    /// memory. The call waits until these pictures are not in use, at most until the host has encoded a picture. If
    /// `current` is true, the context must be current on this thread, and its buffers are deleted. Otherwise, they are
    /// freed with the context.
    pub fn retire(mut self, current: bool) {
        self.withdraw(current);
        if current {
            for slot in self.slots.drain(..) {
                // SAFETY: the context is current, and the buffer is no longer read.
                unsafe { delete_buffer(&self.gl, slot.buffer) };
            }
        }
    }

    fn withdraw(&mut self, current: bool) {
        self.in_flight.extend(self.waiter.stop());
        for flight in self.in_flight.drain(..) {
            if current {
                // SAFETY: the context is current, and nothing uses the fence afterwards.
                unsafe { delete_fence(&self.gl, flight.fence) };
            }
        }
        for slot in &self.slots {
            slot.memory.withdraw();
        }
    }

    /// Starts the read on the GPU. `None` if the context has no pixel buffers.
    fn start_read(
        &mut self,
        size: Size,
        what: ReadSource,
        drawn: RenderInfo,
    ) -> Result<Option<Flight>, SkipReason> {
        let gl = self.gl.clone();
        let Some(buffers) = &gl.buffers else {
            return match what {
                ReadSource::Window => Ok(None),
                ReadSource::Framebuffer { .. } => {
                    Err(SkipReason::Unsupported("the context has no pixel buffers"))
                }
                ReadSource::Buffer { .. } => Err(SkipReason::Unsupported(
                    "the context can't share pixel buffers",
                )),
            };
        };
        let (width, height) = sides(size).ok_or(SkipReason::NoSize)?;
        // SAFETY: the context is current, by the contract of `new`.
        let mut saved = unsafe { Saved::new(&gl) };
        let (shape, buffer, memory) = match what {
            ReadSource::Window | ReadSource::Framebuffer { .. } => {
                match what {
                    ReadSource::Framebuffer { name } if !saved.read_framebuffer(name) => {
                        return Err(SkipReason::Incomplete);
                    }
                    ReadSource::Window if !saved.read_window() => return Err(SkipReason::NoWindow),
                    _ => {}
                }
                let shape = Shape {
                    size,
                    format: gl.format.1,
                    stride: size.width as usize * 4,
                };
                let bytes = shape.stride * size.height as usize;
                let (buffer, memory) = self.slot(&mut saved, bytes)?;
                saved.pack();
                saved.bind_buffer(PIXEL_PACK_BUFFER, buffer);
                // SAFETY: the context is current; `pack` has set the layout, so the call writes `bytes` bytes. They go
                // into the bound buffer, which is large enough and has no reader.
                unsafe {
                    (gl.base.read_pixels)(
                        0,
                        0,
                        width,
                        height,
                        gl.format.0,
                        UNSIGNED_BYTE,
                        null_mut(),
                    );
                }
                (shape, buffer, memory)
            }
            ReadSource::Buffer {
                name,
                offset,
                format,
                stride,
            } => {
                let copies = gl
                    .copies
                    .ok_or(SkipReason::Unsupported("the context can't copy buffers"))?;
                let packed = SkipReason::Unsupported("the pixel format is not packed");
                let row = format.packed().ok_or(packed)? * size.width as usize;
                let bytes = (stride.checked_mul(size.height as usize - 1))
                    .filter(|_| stride >= row)
                    .and_then(|bytes| bytes.checked_add(row))
                    .ok_or(SkipReason::Unsupported(
                        "the rows are longer than the stride",
                    ))?;
                // SAFETY: the context is current and has buffers.
                if unsafe { (buffers.is_buffer)(name) } == 0 {
                    return Err(SkipReason::NoBuffer);
                }
                let (buffer, memory) = self.slot(&mut saved, bytes)?;
                saved.bind_buffer(PIXEL_PACK_BUFFER, name);
                copyable(&gl, buffers, offset, bytes)?;
                saved.bind_buffer(PIXEL_UNPACK_BUFFER, buffer);
                let far = |bytes| {
                    isize::try_from(bytes)
                        .map_err(|_| SkipReason::Unsupported("the picture is too large"))
                };
                // SAFETY: the context is current. Both buffers are bound and large enough, and are either not mapped or
                // mapped persistently.
                unsafe {
                    (copies.copy)(
                        PIXEL_PACK_BUFFER,
                        PIXEL_UNPACK_BUFFER,
                        far(offset)?,
                        0,
                        far(bytes)?,
                    );
                }
                let shape = Shape {
                    size,
                    format,
                    stride,
                };
                (shape, buffer, memory)
            }
        };
        // SAFETY: the context is current and has fences.
        let fence = unsafe { (buffers.fence)(SYNC_GPU_COMMANDS_COMPLETE, 0) };
        if fence.is_null() {
            return Err(SkipReason::Unsupported("the driver created no fence"));
        }
        Ok(Some(Flight {
            fence,
            buffer,
            loan: memory.lend(shape),
            drawn,
        }))
    }

    /// Returns an unused buffer of `bytes` bytes.
    fn slot(
        &mut self,
        saved: &mut Saved<'_>,
        bytes: usize,
    ) -> Result<(c_uint, Arc<Memory>), SkipReason> {
        let gl = &self.gl;
        // Buffers of another size remain from before a resize. They are deleted once they are no longer lent.
        self.slots.retain(|slot| {
            let stays = slot.memory.len() == bytes || slot.memory.is_lent();
            if !stays {
                // SAFETY: the context is current, and the buffer is no longer read.
                unsafe { delete_buffer(gl, slot.buffer) };
            }
            stays
        });
        let free = |slot: &&Slot| slot.memory.len() == bytes && !slot.memory.is_lent();
        if let Some(slot) = self.slots.iter().find(free) {
            if gl.storage.is_none() && slot.memory.is_mapped() {
                let Some(buffers) = &gl.buffers else {
                    return Err(SkipReason::Unsupported("the context has no pixel buffers"));
                };
                saved.bind_buffer(PIXEL_PACK_BUFFER, slot.buffer);
                // SAFETY: the context is current and the buffer is bound and mapped; no loan of it
                // exists.
                unsafe {
                    slot.memory.map(None);
                    (buffers.unmap)(PIXEL_PACK_BUFFER);
                }
            }
            return Ok((slot.buffer, slot.memory.clone()));
        }
        let same = |slot: &&Slot| slot.memory.len() == bytes;
        if self.slots.iter().filter(same).count() >= RING {
            return Err(SkipReason::RingFull);
        }
        let slot = create(gl, saved, bytes).ok_or(SkipReason::Unsupported(
            "the driver created no pixel buffer",
        ))?;
        let pair = (slot.buffer, slot.memory.clone());
        self.slots.push(slot);
        Ok(pair)
    }

    /// Submits the picture if it is finished. Otherwise, passes the picture to the waiting thread, or queues it if
    /// there is no waiting thread.
    fn launch(&mut self, flight: Flight) -> ReadStatus {
        let first = self.in_flight.is_empty() && self.waiter.is_idle();
        if first && self.looks && self.is_done(&flight, 0) {
            return ReadStatus::Submitted(self.land(flight));
        }
        // SAFETY: the context is current. (The flush is necessary because the thread waits in another context.)
        unsafe { (self.gl.base.flush)() };
        if self.in_flight.is_empty() && self.gl.storage.is_some() {
            if let Some(flight) = self.waiter.wait_for(flight, &self.submit) {
                self.in_flight.push_back(flight);
            }
        } else {
            self.in_flight.push_back(flight);
        }
        ReadStatus::Pending
    }

    fn is_done(&self, flight: &Flight, nanoseconds: u64) -> bool {
        let Some(buffers) = &self.gl.buffers else {
            return true;
        };
        // SAFETY: the context is current, and the fence belongs to its share group.
        let status = unsafe { (buffers.wait)(flight.fence, SYNC_FLUSH_COMMANDS, nanoseconds) };
        matches!(status, ALREADY_SIGNALED | CONDITION_SATISFIED)
    }

    /// Submits a finished picture.
    fn land(&mut self, flight: Flight) -> Option<Ticket> {
        // SAFETY: the context is current, and nothing uses the fence afterwards.
        unsafe { delete_fence(&self.gl, flight.fence) };
        if !flight.loan.memory().is_mapped() {
            let buffers = self.gl.buffers.as_ref()?;
            // SAFETY: the context is current.
            let mut saved = unsafe { Saved::new(&self.gl) };
            saved.bind_buffer(PIXEL_PACK_BUFFER, flight.buffer);
            let memory = flight.loan.memory();
            // SAFETY: the context is current, the buffer is bound, large enough, and not mapped. The memory stays valid
            // until the buffer is unmapped for the next picture or the context is destroyed.
            unsafe {
                let len = isize::try_from(memory.len()).ok()?;
                let start = (buffers.map)(PIXEL_PACK_BUFFER, 0, len, MAP_READ);
                if start.is_null() {
                    return None;
                }
                memory.map(Some(start.cast()));
            }
        }
        (self.submit)(Box::new(flight.loan), flight.drawn)
    }

    /// Reads the window synchronously into ordinary memory.
    fn copy(&mut self, size: Size, drawn: RenderInfo) -> ReadStatus {
        let gl = &*self.gl;
        let Some((width, height)) = sides(size) else {
            return ReadStatus::Skipped(SkipReason::NoSize);
        };
        let mut copied = self.pool.take(size);
        copied.order(gl.format.1, RowOrder::BottomUp);
        // SAFETY: the context is current, by the contract of `new`.
        let mut saved = unsafe { Saved::new(gl) };
        if !saved.read_window() {
            return ReadStatus::Skipped(SkipReason::NoWindow);
        }
        saved.pack();
        saved.bind_buffer(PIXEL_PACK_BUFFER, 0);
        let to: *mut c_void = copied.bytes().as_mut_ptr().cast();
        // SAFETY: the context is current. The call writes rows of 4-byte pixels without padding, and `copied` has space
        // for them.
        unsafe { (gl.base.read_pixels)(0, 0, width, height, gl.format.0, UNSIGNED_BYTE, to) };
        drop(saved);
        ReadStatus::Submitted((self.submit)(Box::new(copied), drawn))
    }
}

impl Drop for ReadBack {
    fn drop(&mut self) {
        self.withdraw(false);
    }
}

/// Checks that `bytes` can be copied out of the buffer that is bound as the pack buffer.
fn copyable(gl: &Gl, buffers: &Buffers, offset: usize, bytes: usize) -> Result<(), SkipReason> {
    let parameter = |name| {
        let mut value = 0;
        // SAFETY: the context is current, a buffer is bound, and one number is written.
        unsafe { (buffers.parameter)(PIXEL_PACK_BUFFER, name, &raw mut value) };
        value
    };
    let size = usize::try_from(parameter(BUFFER_SIZE)).unwrap_or(0);
    let needs = offset.saturating_add(bytes);
    if needs > size {
        return Err(SkipReason::TooSmall { has: size, needs });
    }
    let lasting = || {
        gl.storage.is_some() && parameter(BUFFER_ACCESS_FLAGS).cast_unsigned() & MAP_PERSISTENT != 0
    };
    if parameter(BUFFER_MAPPED) != 0 && !lasting() {
        return Err(SkipReason::Mapped);
    }
    Ok(())
}

fn sides(size: Size) -> Option<(c_int, c_int)> {
    let side = |side: u32| c_int::try_from(side).ok();
    size.is_valid()
        .then(|| side(size.width).zip(side(size.height)))?
}

fn create(gl: &Gl, saved: &mut Saved<'_>, bytes: usize) -> Option<Slot> {
    let buffers = gl.buffers.as_ref()?;
    let len = isize::try_from(bytes).ok()?;
    let mut buffer = 0;
    let memory = Memory::new(bytes);
    // SAFETY: the context is current and has these functions; the mapping has `bytes` bytes, and
    // stays valid until the buffer is deleted.
    unsafe {
        (buffers.generate)(1, &raw mut buffer);
        if buffer == 0 {
            return None;
        }
        saved.bind_buffer(PIXEL_PACK_BUFFER, buffer);
        match gl.storage {
            Some(storage) => {
                let flags = MAP_READ | MAP_PERSISTENT | MAP_COHERENT;
                storage(PIXEL_PACK_BUFFER, len, null(), flags | CLIENT_STORAGE);
                let start = (buffers.map)(PIXEL_PACK_BUFFER, 0, len, flags);
                if start.is_null() {
                    delete_buffer(gl, buffer);
                    return None;
                }
                memory.map(Some(start.cast()));
            }
            None => (buffers.data)(PIXEL_PACK_BUFFER, len, null(), STREAM_READ),
        }
    }
    Some(Slot { buffer, memory })
}

/// # Safety
/// The context of `gl` must be current, and the buffer must have no reader.
unsafe fn delete_buffer(gl: &Gl, buffer: c_uint) {
    if let Some(buffers) = &gl.buffers {
        // SAFETY: the caller upholds this function's contract. Deleting a mapped buffer also unmaps it.
        unsafe { (buffers.delete)(1, &raw const buffer) };
    }
}

/// # Safety
/// A context of the share group of `gl` must be current, and the fence must have no other user.
unsafe fn delete_fence(gl: &Gl, fence: Fence) {
    if let Some(buffers) = &gl.buffers {
        // SAFETY: the caller upholds this function's contract.
        unsafe { (buffers.delete_fence)(fence) };
    }
}
