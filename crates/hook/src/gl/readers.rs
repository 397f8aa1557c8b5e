//! The frame reader of each OpenGL context.
//!
//! A context is tracked from the call that creates it until the first call that may destroy it. The frames of a tracked
//! context are read into its own buffers. The host reads these buffers in place, and they are released before the
//! destroying call is forwarded. A context is untracked if it was destroyed while current, because it continues to draw
//! until it is no longer current. It is also untracked if it was created by a function that this library does not hook.
//! The frames of an untracked context are copied into ordinary memory before the swap, and none of its resources are
//! kept.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use openuvr_clock as clock;
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::gl::{ReadBack, ReadSource, ReadStatus, Sharing};
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

use crate::process::{self, guarded};
use crate::real::HookScope;
use crate::stream::{ReadRequest, Stream, stream};
use crate::windows::{Key, XWindow};

/// Maximum number of contexts (guess: more than a program draws with). Frames of additional contexts are not read.
const MAX_CONTEXTS: usize = 256;

/// The API that created a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Api {
    Glx,
    Egl,
}

/// A context, identified by its own address and the address of its display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) display: usize,
    pub(crate) address: usize,
}

/// The current context of this thread, and the window that it draws to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) context: Context,
    pub(crate) window: u64,
}

/// Queries about the window of a swap.
pub(crate) trait Window {
    /// The current context of this thread; `None` if it does not draw to this window.
    fn current(&self) -> Option<Current>;
    /// The window's current size. This may take a server round trip.
    fn size(&self) -> Option<Size>;
    /// The X window behind this window.
    fn x_window(&self) -> Option<XWindow>;
    /// How to share the objects of the window's context.
    fn sharing(&self) -> Sharing;
    /// The address of an OpenGL function, or null if the driver has none with this name.
    fn function(&self, name: &CStr) -> *const c_void;
}

pub(crate) trait SwapResult {
    /// Whether the window now shows the frame, as far as is known.
    fn succeeded(&self) -> bool;
}

/// Presents a frame with exactly one call of `real`. Before that call, reads the frame if requested.
pub(crate) fn swap<T: SwapResult>(window: &impl Window, real: impl FnOnce() -> T) -> T {
    // Another interposing library may call a hook again from within the real call.
    let Some(_inside) = HookScope::enter() else {
        return real();
    };
    let swap = guarded(|| stream().and_then(|stream| Swap::start(stream, window))).flatten();
    let result = real();
    if let Some(swap) = swap {
        guarded(|| swap.end(window, result.succeeded()));
    }
    result
}

/// A swap in progress.
struct Swap {
    stream: &'static Stream,
    key: Key,
    reader: Arc<Reader>,
    /// The receiver of its frame, if the frame was read.
    read: Option<Arc<Submitter>>,
    /// Whether the GPU is still reading the frame.
    pending: bool,
}

impl Swap {
    /// Reads the frame, if requested.
    fn start(stream: &'static Stream, window: &impl Window) -> Option<Swap> {
        let current = window.current()?;
        let mut swap = Swap {
            stream,
            key: Key(current.context.display, current.window),
            reader: READERS.get(current.context)?,
            read: None,
            pending: false,
        };
        if !swap.reader.refused.load(Ordering::Relaxed) {
            swap.read(window);
        }
        Some(swap)
    }

    fn read(&mut self, window: &impl Window) -> Option<()> {
        let size = self.stream.size(self.key).or_else(|| window.size())?;
        let ReadRequest { frames, size } = self
            .stream
            .request_read(self.key, size, || window.x_window())?;
        // If the session does not know the exact size, the size is queried now. With GLX, the query costs two X round
        // trips.
        let size = size.or_else(|| window.size());
        let size = size.filter(|size| size.is_valid())?;
        let reader = &self.reader;
        let mut read_back = lock(&reader.read_back);
        if read_back.is_none() && !reader.was_open_attempted() {
            match open(window, frames.clone(), reader.tracked) {
                Ok(opened) => *read_back = Some(opened),
                // A session exists, because it requested the frame.
                Err(why) => drop(self.stream.report(&why)),
            }
        }
        let reading = read_back
            .as_mut()?
            .read(size, ReadSource::Window, RenderInfo::default());
        drop(read_back);
        if matches!(reading, ReadStatus::Skipped(_)) {
            frames.missed(clock::now());
        }
        self.pending = reading == ReadStatus::Pending;
        self.read = Some(frames);
        Some(())
    }

    /// Handles the result of the swap. A driver that refuses one swap of a context also refuses the next (Mesa's EGL,
    /// if the context was destroyed while current). Until a swap succeeds, no frame is read, because the window's image
    /// does not change. The frame that was read for the first refused swap is discarded.
    fn end(self, window: &impl Window, succeeded: bool) {
        if self.pending {
            // The swap may have waited for the GPU, so the frame may be complete now.
            lock(&self.reader.read_back).as_mut().map(ReadBack::poll);
        }
        let refused = self.reader.refused.swap(!succeeded, Ordering::Relaxed);
        match (refused, succeeded) {
            (false, false) => {
                if let Some(frames) = self.read {
                    frames.missed(clock::now());
                }
            }
            // This swap's frame was not read.
            (true, true) => {
                if let Some(size) = window.size() {
                    self.stream.skip(self.key, size, || window.x_window());
                }
            }
            _ => {}
        }
    }
}

fn open(window: &impl Window, frames: Arc<Submitter>, tracked: bool) -> Result<ReadBack, String> {
    let submit = Arc::new(move |frame, drawn| frames.submit(frame, drawn));
    let mut loader = |name: &CStr| window.function(name);
    // SAFETY: the driver returns its functions by these names. The context is current on this thread now, and each read
    // checks first that it is still current. Programs swap outside of glBegin and glEnd. Functions that destroy a
    // tracked context call `retire` first.
    let opened = unsafe {
        if tracked {
            ReadBack::new(&mut loader, window.sharing(), submit)
        } else {
            ReadBack::stateless(&mut loader, submit)
        }
    };
    opened.map_err(|e| format!("cannot read frames of an OpenGL context: {e}"))
}

/// The readers of this process. They are not used in a forked child, where the mutex may be held by a thread that does
/// not exist.
static READERS: Readers = Readers::new();

/// The readers of this process, if it streams ([`process::is_enabled`]).
pub(super) fn readers() -> Option<&'static Readers> {
    process::is_enabled().then_some(&READERS)
}

/// The readers of this process, for releasing objects that may be in use ([`process::has_started`]).
pub(super) fn readers_in_use() -> Option<&'static Readers> {
    process::has_started().then_some(&READERS)
}

/// The contexts of this process, and their readers.
pub(crate) struct Readers(Mutex<Vec<Entry>>);

struct Entry {
    context: Context,
    tracked: bool,
    /// Set from the first swap on.
    reader: Option<Arc<Reader>>,
}

/// The reader of a context. Until it ends, it is locked only on the thread where the context is current.
pub(crate) struct Reader {
    context: Context,
    /// Whether the context is tracked, so that it exists until it is retired.
    tracked: bool,
    open_attempted: AtomicBool,
    /// Whether the driver refused the last swap.
    refused: AtomicBool,
    read_back: Mutex<Option<ReadBack>>,
}

impl Reader {
    /// Whether this method was called before.
    fn was_open_attempted(&self) -> bool {
        self.open_attempted.swap(true, Ordering::Relaxed)
    }

    /// Ends the reader. If another thread swaps at this moment, that thread ends it. `current` is the current context
    /// of this thread.
    fn end(reader: Arc<Reader>, current: Option<Context>) {
        if let Some(reader) = Arc::into_inner(reader)
            && let Some(read_back) = lock(&reader.read_back).take()
        {
            read_back.retire(current == Some(reader.context));
        }
    }
}

impl Readers {
    pub(crate) const fn new() -> Readers {
        Readers(Mutex::new(Vec::new()))
    }

    /// Records a context that was created. An older entry with its address is removed.
    pub(crate) fn insert(&self, context: Context) {
        let mut all = lock(&self.0);
        let before = extract(&mut all, |known| known.is_at(context));
        evict_untracked(&mut all);
        if all.len() < MAX_CONTEXTS {
            all.push(Entry {
                context,
                tracked: true,
                reader: None,
            });
        }
        drop(all);
        drop(before);
    }

    fn get(&self, context: Context) -> Option<Arc<Reader>> {
        let mut all = lock(&self.0);
        let found = all.iter().position(|known| known.context == context);
        let index = match found {
            Some(index) => index,
            None => {
                evict_untracked(&mut all);
                if all.len() >= MAX_CONTEXTS {
                    return None;
                }
                all.push(Entry {
                    context,
                    tracked: false,
                    reader: None,
                });
                all.len() - 1
            }
        };
        let known = &mut all[index];
        let reader = known.reader.get_or_insert_with(|| {
            Arc::new(Reader {
                context,
                tracked: known.tracked,
                open_attempted: AtomicBool::new(false),
                refused: AtomicBool::new(false),
                read_back: Mutex::new(None),
            })
        });
        Some(reader.clone())
    }

    /// Stops tracking contexts that are about to be destroyed. `current` is the current context of this thread.
    pub(crate) fn retire(&self, current: Option<Current>, which: impl Fn(&Context) -> bool) {
        let gone = extract(&mut lock(&self.0), |known| which(&known.context));
        for reader in gone.into_iter().filter_map(|known| known.reader) {
            Reader::end(reader, current.map(|current| current.context));
        }
    }

    /// Releases the resources of contexts that may lose them without being destroyed. The next swap recreates them.
    pub(crate) fn release(&self, which: impl Fn(&Context) -> bool) {
        let mut all = lock(&self.0);
        let found = all.iter_mut().filter(|known| which(&known.context));
        let readers: Vec<_> = found.filter_map(|known| known.reader.take()).collect();
        drop(all);
        for reader in readers {
            Reader::end(reader, None);
        }
    }
}

impl Entry {
    /// Contexts that exist at the same time have different addresses.
    fn is_at(&self, context: Context) -> bool {
        (self.context.api, self.context.address) == (context.api, context.address)
    }
}

/// Removes the oldest untracked context if the list is full.
fn evict_untracked(all: &mut Vec<Entry>) {
    if all.len() >= MAX_CONTEXTS
        && let Some(oldest) = all.iter().position(|known| !known.tracked)
    {
        all.remove(oldest);
    }
}

fn extract(all: &mut Vec<Entry>, which: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let (taken, stay) = all.drain(..).partition(which);
    *all = stay;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(address: usize) -> Context {
        Context {
            api: Api::Glx,
            display: 1,
            address,
        }
    }

    fn tracked(readers: &Readers, address: usize) -> bool {
        readers.get(context(address)).unwrap().tracked
    }

    #[test]
    fn a_context_is_tracked_until_its_first_destruction() {
        let readers = Readers::new();
        assert!(!tracked(&readers, 8), "its creation was not hooked");
        readers.insert(context(8));
        assert!(tracked(&readers, 8));
        readers.retire(None, |of| of.address == 8);
        assert!(!tracked(&readers, 8), "it may still be current");
        readers.insert(context(8));
        assert!(tracked(&readers, 8), "another at its address");
        readers.release(|_| true);
        assert!(tracked(&readers, 8));
    }

    #[test]
    fn untracked_contexts_are_evicted() {
        let readers = Readers::new();
        for address in 0..2 * MAX_CONTEXTS {
            assert!(!tracked(&readers, address));
        }
        assert_eq!(lock(&readers.0).len(), MAX_CONTEXTS);
        for address in 0..MAX_CONTEXTS {
            readers.insert(context(address));
        }
        assert!(tracked(&readers, 0) && tracked(&readers, MAX_CONTEXTS - 1));
        readers.insert(context(MAX_CONTEXTS));
        assert!(
            readers.get(context(MAX_CONTEXTS)).is_none(),
            "the list is full"
        );
    }
}
