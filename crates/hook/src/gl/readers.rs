//! What reads the pictures of each context of OpenGL.
//!
//! A context is known to live from the call that made it until the first call that may end it. While
//! it does, its pictures are read into buffers of its own, which the host reads where they lie: they
//! are given up before that call is passed on. A context that is destroyed while it is current goes on
//! drawing until it is no longer current, which nobody tells us; and one that was made by a function
//! that this library does not know may be ended by another. Pictures of both are copied into ordinary
//! memory before the swap, and nothing of the context is kept.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use openuvr_media::capture::Drawn;
use openuvr_media::capture::gl::{ReadBack, Reading, Sharing, What};
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use openuvr_runtime::lock::lock;

use crate::process::{self, guarded};
use crate::real::HookScope;
use crate::stream::{Stream, Wanted, stream};
use crate::windows::{Key, Place};

/// Contexts that are remembered; more than any program draws with. One more is not known to live.
const MANY: usize = 256;

/// How a context was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Api {
    Glx,
    Egl,
}

/// A context, by its address and its display's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) display: usize,
    pub(crate) address: usize,
}

/// A context that is current on this thread, and the window that it draws in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) context: Context,
    pub(crate) window: u64,
}

/// How to learn of a window what a swap does not say.
pub(crate) trait Window {
    /// What is current on this thread; `None` if that is not what draws in this window.
    fn current(&self) -> Option<Current>;
    /// Its size now; may ask a server.
    fn size(&self) -> Option<Size>;
    /// Where it is.
    fn place(&self) -> Option<Place>;
    /// How to share what its context has.
    fn sharing(&self) -> Sharing;
    /// A function of OpenGL, or null.
    fn function(&self, name: &CStr) -> *const c_void;
}

/// What a swap says about itself.
pub(crate) trait Outcome {
    /// Whether the window shows the picture now, as far as is known.
    fn is_shown(&self) -> bool;
}

/// Has a picture shown by `real`, once, whatever else happens; before, it is read if it is wanted.
pub(crate) fn shows<T: Outcome>(window: &impl Window, real: impl FnOnce() -> T) -> T {
    // Who stands in front of the same function too may come here again.
    let Some(_inside) = HookScope::enter() else {
        return real();
    };
    let swap = guarded(|| stream().and_then(|stream| Swap::begin(stream, window))).flatten();
    let result = real();
    if let Some(swap) = swap {
        guarded(|| swap.end(window, result.is_shown()));
    }
    result
}

/// A swap of which the driver has not said yet how it went.
struct Swap {
    stream: &'static Stream,
    key: Key,
    reader: Arc<Reader>,
    /// Where its picture goes, if that was read.
    read: Option<Arc<Submitter>>,
    /// The GPU has to be waited for.
    under_way: bool,
}

impl Swap {
    /// Reads the picture, if it is wanted.
    fn begin(stream: &'static Stream, window: &impl Window) -> Option<Swap> {
        let current = window.current()?;
        let mut swap = Swap {
            stream,
            key: Key(current.context.display, current.window),
            reader: READERS.of(current.context)?,
            read: None,
            under_way: false,
        };
        if !swap.reader.refused.load(Ordering::Relaxed) {
            swap.read(window);
        }
        Some(swap)
    }

    fn read(&mut self, window: &impl Window) -> Option<()> {
        let size = self.stream.size(self.key).or_else(|| window.size())?;
        let Wanted { frames, size } = self.stream.wants(self.key, size, || window.place())?;
        // Exactly, now that it matters; asking costs two turns with the X server.
        let size = size.or_else(|| window.size());
        let size = size.filter(|size| size.is_valid())?;
        let reader = &self.reader;
        let mut read_back = lock(&reader.read_back);
        if read_back.is_none() && !reader.begun() {
            match open(window, frames.clone(), reader.lives) {
                Ok(opened) => *read_back = Some(opened),
                // There is a session, since it wanted the picture.
                Err(why) => drop(self.stream.say(&why)),
            }
        }
        let reading = read_back
            .as_mut()?
            .read(size, What::Window, Drawn::default());
        drop(read_back);
        if matches!(reading, Reading::Skipped(_)) {
            frames.missed(clock::now());
        }
        self.under_way = reading == Reading::UnderWay;
        self.read = Some(frames);
        Some(())
    }

    /// A driver that refuses one swap of a context, such as Mesa's EGL where it was destroyed while it is
    /// current, refuses the next too: until one succeeds no picture is read, for the window goes on
    /// showing what it did. What was read of the first is not what it shows.
    fn end(self, window: &impl Window, shown: bool) {
        if self.under_way {
            // Perhaps the swap has waited for the GPU.
            lock(&self.reader.read_back).as_mut().map(ReadBack::poll);
        }
        let refused = self.reader.refused.swap(!shown, Ordering::Relaxed);
        match (refused, shown) {
            (false, false) => {
                if let Some(frames) = self.read {
                    frames.missed(clock::now());
                }
            }
            // Its picture was not read.
            (true, true) => {
                if let Some(size) = window.size() {
                    self.stream.misses(self.key, size, || window.place());
                }
            }
            _ => {}
        }
    }
}

fn open(window: &impl Window, frames: Arc<Submitter>, lives: bool) -> Result<ReadBack, String> {
    let submit = Arc::new(move |frame, drawn| frames.submit(frame, drawn));
    let mut loader = |name: &CStr| window.function(name);
    // SAFETY: what the driver gives away by these names are its functions. The context is current on
    // this thread now, and at each read, which is behind a look at what is current; a program swaps
    // outside of glBegin and glEnd. One that lives is ended by functions that call `retire` before.
    let opened = unsafe {
        if lives {
            ReadBack::new(&mut loader, window.sharing(), submit)
        } else {
            ReadBack::keeping_nothing(&mut loader, submit)
        }
    };
    opened.map_err(|e| format!("pictures of a context can't be read: {e}"))
}

/// Those of this process; not looked at in a forked child, whose locks may be held by threads that are not
/// there.
static READERS: Readers = Readers::new();

/// What reads the pictures of this process, if it streams ([`process::streams`]).
pub(super) fn readers() -> Option<&'static Readers> {
    process::streams().then_some(&READERS)
}

/// The same for what goes away, which may still be in use ([`process::has_begun`]).
pub(super) fn readers_in_use() -> Option<&'static Readers> {
    process::has_begun().then_some(&READERS)
}

/// The contexts of this process that are known to live, and the readers of all.
pub(crate) struct Readers(Mutex<Vec<Known>>);

struct Known {
    context: Context,
    lives: bool,
    /// From the first swap on that is wanted.
    reader: Option<Arc<Reader>>,
}

/// The reader of a context. It is locked only on the thread where that is current.
pub(crate) struct Reader {
    context: Context,
    /// Whether the context lives until it is retired.
    lives: bool,
    begun: AtomicBool,
    /// The driver did not show its last picture.
    refused: AtomicBool,
    read_back: Mutex<Option<ReadBack>>,
}

impl Reader {
    /// Whether it was asked before.
    fn begun(&self) -> bool {
        self.begun.swap(true, Ordering::Relaxed)
    }

    /// Ends it, unless another thread swaps at this moment: that ends it then. `here`: what is current
    /// on this thread.
    fn end(reader: Arc<Reader>, here: Option<Context>) {
        if let Some(reader) = Arc::into_inner(reader)
            && let Some(read_back) = lock(&reader.read_back).take()
        {
            read_back.retire(here == Some(reader.context));
        }
    }
}

impl Readers {
    pub(crate) const fn new() -> Readers {
        Readers(Mutex::new(Vec::new()))
    }

    /// A context was made. What was known of another at its address is known no more.
    pub(crate) fn made(&self, context: Context) {
        let mut all = lock(&self.0);
        let before = take(&mut all, |known| known.is_at(context));
        make_room(&mut all);
        if all.len() < MANY {
            all.push(Known {
                context,
                lives: true,
                reader: None,
            });
        }
        drop(all);
        drop(before);
    }

    fn of(&self, context: Context) -> Option<Arc<Reader>> {
        let mut all = lock(&self.0);
        let found = all.iter().position(|known| known.context == context);
        let index = match found {
            Some(index) => index,
            None => {
                make_room(&mut all);
                if all.len() >= MANY {
                    return None;
                }
                all.push(Known {
                    context,
                    lives: false,
                    reader: None,
                });
                all.len() - 1
            }
        };
        let known = &mut all[index];
        let reader = known.reader.get_or_insert_with(|| {
            Arc::new(Reader {
                context,
                lives: known.lives,
                begun: AtomicBool::new(false),
                refused: AtomicBool::new(false),
                read_back: Mutex::new(None),
            })
        });
        Some(reader.clone())
    }

    /// Contexts are about to be destroyed; `here`: which of them is current on this thread. From now
    /// on they are not known to live.
    pub(crate) fn retire(&self, here: Option<Current>, which: impl Fn(&Context) -> bool) {
        let gone = take(&mut lock(&self.0), |known| which(&known.context));
        for reader in gone.into_iter().filter_map(|known| known.reader) {
            Reader::end(reader, here.map(|here| here.context));
        }
    }

    /// What these contexts have may go, although they are not destroyed: it is given up, and made
    /// anew at the next swap.
    pub(crate) fn give_up(&self, which: impl Fn(&Context) -> bool) {
        let mut all = lock(&self.0);
        let found = all.iter_mut().filter(|known| which(&known.context));
        let readers: Vec<_> = found.filter_map(|known| known.reader.take()).collect();
        drop(all);
        for reader in readers {
            Reader::end(reader, None);
        }
    }
}

impl Known {
    /// No two contexts that live have the same address.
    fn is_at(&self, context: Context) -> bool {
        (self.context.api, self.context.address) == (context.api, context.address)
    }
}

/// Forgets the oldest context that is not known to live, if there is no room for another.
fn make_room(all: &mut Vec<Known>) {
    if all.len() >= MANY
        && let Some(oldest) = all.iter().position(|known| !known.lives)
    {
        all.remove(oldest);
    }
}

fn take(all: &mut Vec<Known>, which: impl Fn(&Known) -> bool) -> Vec<Known> {
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

    fn lives(readers: &Readers, address: usize) -> bool {
        readers.of(context(address)).unwrap().lives
    }

    #[test]
    fn a_context_lives_from_its_making_to_its_first_end() {
        let readers = Readers::new();
        assert!(!lives(&readers, 8), "nobody saw it made");
        readers.made(context(8));
        assert!(lives(&readers, 8));
        readers.retire(None, |of| of.address == 8);
        assert!(!lives(&readers, 8), "it may still be current");
        readers.made(context(8));
        assert!(lives(&readers, 8), "another at its address");
        readers.give_up(|_| true);
        assert!(lives(&readers, 8));
    }

    #[test]
    fn what_is_not_known_to_live_gives_way() {
        let readers = Readers::new();
        for address in 0..2 * MANY {
            assert!(!lives(&readers, address));
        }
        assert_eq!(lock(&readers.0).len(), MANY);
        for address in 0..MANY {
            readers.made(context(address));
        }
        assert!(lives(&readers, 0) && lives(&readers, MANY - 1));
        readers.made(context(MANY));
        assert!(readers.of(context(MANY)).is_none(), "there is no room");
    }
}
