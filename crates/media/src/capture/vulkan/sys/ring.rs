//! Buffers to which the device copies pictures, and the thread that submits them when the copy is
//! finished.
//!
//! ```text
//!   free ──► being copied (device) ──► lent (the host encodes it) ──► free
//!            present() goes on          the waiter submits it
//! ```
//! Presenting a picture never waits for the device or the host. Without a free buffer, a picture is skipped. This
//! module does not decide which pictures are read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use ash::vk;
use openuvr_clock as clock;
use openuvr_proto::units::Size;

use super::copy::Copy;
use super::device::{Device, InitCommands};
use super::slot::Slot;
use crate::capture::RenderInfo;
use crate::capture::pool::Pool;
use crate::capture::submit::{Frame, Submitter};
use crate::capture::vulkan::Pixels;
use crate::picture::{Picture, PixelFormat, RowOrder};

/// The body of the thread that waits for the device. The thread ends when the ring is closed.
pub type Wait = Box<dyn FnOnce() + Send>;

/// Number of slots: one being copied to, two at the host (the newest picture and the picture being encoded), and one
/// spare slot.
const SLOTS: usize = 4;

/// Timeout of one wait for the device in ns. The wait is repeated, because some drivers mishandle infinite timeouts
/// (guess).
const WAIT: u64 = 1_000_000_000;

/// The buffers of one device.
pub struct Ring {
    shared: Arc<Shared>,
    /// The waiter's channel and thread handle, until the device is destroyed.
    waiter: Mutex<Option<(SyncSender<Job>, JoinHandle<()>)>>,
}

/// State shared with the waiter and the lent pictures.
struct Shared {
    device: Device,
    state: Mutex<State>,
    /// Signalled when a slot is returned or a copy is finished.
    changed: Condvar,
    /// For pictures that need conversion or outlive the device.
    pool: Pool,
}

#[derive(Default)]
struct State {
    free: Vec<Arc<Slot>>,
    copying: usize,
    lent: usize,
    /// One pool per queue family that presents.
    pools: Vec<(u32, vk::CommandPool)>,
    /// The lent pictures, oldest first, and the submitters to which they were passed.
    passed: Vec<(Weak<BorrowedSlot>, Arc<Submitter>)>,
    /// Whether the device lacks support or has failed. If so, no more copies are attempted.
    broken: bool,
}

/// A copy that has been started.
struct Job {
    slot: Arc<Slot>,
    size: Size,
    pixels: Pixels,
    drawn: RenderInfo,
    to: Arc<Submitter>,
}

impl Ring {
    /// Creates a ring for pictures of `device`, whose memory types are in `memory`. `spawn` starts the thread that
    /// waits for the device. The thread must not have real-time priority, because some drivers wait by polling.
    ///
    /// # Errors
    /// Returns the error of `spawn`.
    pub fn new(
        device: ash::Device,
        init_commands: Option<InitCommands>,
        memory: vk::PhysicalDeviceMemoryProperties,
        spawn: impl FnOnce(Wait) -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<Ring> {
        let shared = Arc::new(Shared {
            device: Device {
                functions: device,
                init_commands,
                memory,
            },
            state: Mutex::default(),
            changed: Condvar::new(),
            pool: Pool::default(),
        });
        let (jobs, waiting) = sync_channel(SLOTS);
        let waits = shared.clone();
        let waiter = spawn(Box::new(move || wait(&waits, &waiting)))?;
        Ok(Ring {
            shared,
            waiter: Mutex::new(Some((jobs, waiter))),
        })
    }

    /// Whether a picture could be copied now.
    #[must_use]
    pub fn idle(&self) -> bool {
        let state = self.shared.state();
        !state.broken && state.copying + state.lent < SLOTS
    }

    /// Starts to copy a picture. Returns `false` if no buffer is free or the device has failed before. The semaphores
    /// are waited for and signalled only if the call returns `true`. The call takes 11 to 14 µs, of which the bare
    /// submission takes 5 to 6 (medians with lavapipe at 1280 × 720 on a busy machine, by `cost_of_a_picture`).
    ///
    /// # Errors
    /// Returns the device's error. After an error, no more copies are attempted.
    ///
    /// # Safety
    /// The handles in `copy` must be live and belong to this device. The calling thread must be allowed to use the
    /// queue in `copy`, and the images in `copy` must not change until the copy has signalled.
    pub unsafe fn copy(&self, copy: &Copy<'_>) -> Result<bool, vk::Result> {
        let mut state = self.shared.state();
        if state.broken || state.copying + state.lent >= SLOTS {
            return Ok(false);
        }
        // SAFETY: the caller upholds this function's contract.
        let recorded = unsafe { self.start_copy(&mut state, copy) };
        let slot = recorded.inspect_err(|_| state.broken = true)?;
        state.copying += 1;
        drop(state);
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((jobs, _)) = &*waiter {
            // The channel has room for all slots, and the receiver lives as long as the device.
            let _ = jobs.send(Job {
                slot,
                size: copy.size,
                pixels: copy.pixels,
                drawn: copy.drawn,
                to: copy.to.clone(),
            });
        }
        Ok(true)
    }

    /// # Safety
    /// As [`Ring::copy`].
    unsafe fn start_copy(
        &self,
        state: &mut State,
        copy: &Copy<'_>,
    ) -> Result<Arc<Slot>, vk::Result> {
        let bytes = copy.size.pixels() as u64 * 4;
        let device = &self.shared.device;
        // SAFETY: slots in `free` belong to this device and are idle; the lock is held, so only this thread uses the
        // pool; the caller's contract covers all other requirements.
        unsafe {
            let slot = match state.free.pop() {
                Some(slot) if slot.fits(copy.family, bytes) => slot,
                other => {
                    if let Some(slot) = other {
                        slot.destroy(&device.functions);
                    }
                    let pool = pool(&mut state.pools, &device.functions, copy.family)?;
                    Arc::new(Slot::new(device, copy.family, pool, bytes)?)
                }
            };
            let recorded = slot.record(&device.functions, copy.parts, copy.size);
            match recorded.and_then(|()| slot.submit(&device.functions, copy)) {
                Ok(()) => Ok(slot),
                Err(error) => {
                    state.free.push(slot);
                    Err(error)
                }
            }
        }
    }

    /// Waits until no image is being read.
    pub fn settle(&self) {
        let state = self.shared.state();
        let waited = self
            .shared
            .changed
            .wait_while(state, |state| state.copying > 0);
        drop(waited);
    }

    /// Frees everything. If the host still uses a picture in this device's memory, the host receives a copy of this
    /// picture as its next picture, and then releases the memory. This call waits until the host has released all
    /// pictures.
    ///
    /// # Safety
    /// The device must be about to be destroyed, and idle.
    pub unsafe fn close(&self) {
        let waiter = self
            .waiter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((jobs, waiter)) = waiter {
            drop(jobs);
            // The thread catches a panic of the submitter, so the join does not fail.
            let _ = waiter.join();
        }
        let passed = std::mem::take(&mut self.shared.state().passed);
        let mut replaced: Vec<Arc<Submitter>> = Vec::new();
        // Each submitter gets a copy of its newest picture that still exists. The newest picture may have been dropped
        // while the host keeps an older one.
        for (lent, to) in passed.into_iter().rev() {
            let Some(lent) = lent.upgrade() else {
                continue;
            };
            if replaced.iter().any(|known| Arc::ptr_eq(known, &to)) {
                continue;
            }
            let copied = self.shared.copied(&lent);
            drop(lent);
            to.replace(clock::now(), copied);
            replaced.push(to);
        }
        // The submitters are dropped before the wait. Otherwise, a source that the application has dropped would stay
        // alive during the wait.
        drop(replaced);
        let state = self.shared.state();
        let waited = self
            .shared
            .changed
            .wait_while(state, |state| state.lent > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.broken = true;
        let device = &self.shared.device.functions;
        // SAFETY: the device is idle and no slot is in use. Destroying a pool frees its command buffers, so the pools
        // are destroyed last.
        unsafe {
            for slot in state.free.drain(..) {
                slot.destroy(device);
            }
            for (_, pool) in state.pools.drain(..) {
                device.destroy_command_pool(pool, None);
            }
        }
    }
}

/// The command pool of a queue family.
///
/// # Safety
/// `device` must be live and have the queue family.
unsafe fn pool(
    pools: &mut Vec<(u32, vk::CommandPool)>,
    device: &ash::Device,
    family: u32,
) -> Result<vk::CommandPool, vk::Result> {
    if let Some((_, pool)) = pools.iter().find(|(of, _)| *of == family) {
        return Ok(*pool);
    }
    let info = vk::CommandPoolCreateInfo::default()
        .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
        .queue_family_index(family);
    // SAFETY: the caller upholds this function's contract.
    let pool = unsafe { device.create_command_pool(&info, None)? };
    pools.push((family, pool));
    Ok(pool)
}

/// The waiting thread: submits each picture when the device has copied it.
fn wait(shared: &Arc<Shared>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // SAFETY: the slot's copy was submitted, and the device lives until this thread has ended.
        let arrived = unsafe { job.slot.wait(&shared.device.functions, WAIT) };
        let mut state = shared.state();
        state.copying -= 1;
        match arrived {
            Ok(()) => {
                state.lent += 1;
                drop(state);
                let lent = catch_unwind(AssertUnwindSafe(|| lend(shared, job)));
                // A panic ends the read-back, not the application.
                shared.state().broken |= lent.is_err();
            }
            Err(_) => {
                state.broken = true;
                state.free.push(job.slot);
                drop(state);
            }
        }
        shared.changed.notify_all();
    }
}

/// Submits a copied picture. Its slot counts as lent.
fn lend(shared: &Arc<Shared>, job: Job) {
    let lent = Arc::new(BorrowedSlot {
        slot: job.slot,
        size: job.size,
        pixels: job.pixels,
        home: shared.clone(),
    });
    let frame: Box<dyn Frame> = match job.pixels.as_they_are() {
        Some(format) => {
            let mut state = shared.state();
            state.passed.retain(|(lent, _)| lent.strong_count() > 0);
            state.passed.push((Arc::downgrade(&lent), job.to.clone()));
            drop(state);
            Box::new(LentPicture(lent, format))
        }
        None => shared.copied(&lent),
    };
    // After the end of the stream, there is no receiver.
    let _ = job.to.submit(frame, job.drawn);
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of a picture in ordinary memory.
    fn copied(&self, lent: &BorrowedSlot) -> Box<dyn Frame> {
        let mut copied = self.pool.take(lent.size);
        let format = lent.pixels.copy(lent.slot.bytes(lent.size), copied.bytes());
        copied.order(format, RowOrder::TopDown);
        Box::new(copied)
    }
}

/// A slot with a picture in use. It is returned when the last user drops it.
struct BorrowedSlot {
    slot: Arc<Slot>,
    size: Size,
    pixels: Pixels,
    home: Arc<Shared>,
}

impl Drop for BorrowedSlot {
    fn drop(&mut self) {
        let mut state = self.home.state();
        state.free.push(self.slot.clone());
        state.lent -= 1;
        drop(state);
        self.home.changed.notify_all();
    }
}

/// A picture in the device's memory, as passed to the host.
struct LentPicture(Arc<BorrowedSlot>, PixelFormat);

impl Frame for LentPicture {
    fn picture(&self) -> Picture<'_> {
        let BorrowedSlot { slot, size, .. } = &*self.0;
        Picture {
            format: self.1,
            ..Picture::bgrx(*size, slot.bytes(*size), size.width as usize * 4)
        }
    }
}

#[cfg(test)]
mod tests;
