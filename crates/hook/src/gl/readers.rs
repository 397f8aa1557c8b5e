//! What reads the pictures of each context of OpenGL, from the first swap in it until it is destroyed.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_media::capture::Drawn;
use openuvr_media::capture::gl::{ReadBack, Reading, Sharing, What};
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::units::Size;

use crate::real::Inside;
use crate::stream::{Stream, Wanted, guarded, stream};
use crate::windows::{Key, Place};

/// Contexts that are remembered; more than any program draws with. Of one more nothing is read.
const MANY: usize = 64;

/// How a context was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Api {
    Glx,
    Egl,
}

/// A context that is current on this thread, and the window that it draws in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) api: Api,
    pub(crate) display: usize,
    pub(crate) context: usize,
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

/// Has a picture shown by `real`, once, whatever else happens; before, it is read if it is wanted.
pub(crate) fn shows<T>(window: &impl Window, real: impl FnOnce() -> T) -> T {
    // Who stands in front of the same function too may come here again.
    let Some(_inside) = Inside::enter() else {
        return real();
    };
    let reader = guarded(|| stream().and_then(|stream| read(stream, window))).flatten();
    let result = real();
    if let Some(reader) = reader {
        // The GPU had to be waited for; perhaps the swap has done so.
        guarded(|| lock(&reader.read_back).as_mut().map(ReadBack::poll));
    }
    result
}

/// Who reads the picture, if that is not finished yet.
fn read(stream: &Stream, window: &impl Window) -> Option<Arc<Reader>> {
    let current = window.current()?;
    let key = Key(current.display, current.window);
    let size = stream.size(key).or_else(|| window.size())?;
    let Wanted { frames, size } = stream.wants(key, size, || window.place())?;
    // Exactly, now that it matters; asking costs two turns with the X server.
    let size = size.or_else(|| window.size());
    let size = size.filter(|size| size.is_valid())?;
    let reader = stream.readers().of(current)?;
    let mut read_back = lock(&reader.read_back);
    if read_back.is_none() && !reader.begun() {
        match open(window, frames) {
            Ok(opened) => *read_back = Some(opened),
            // There is a session, since it wanted the picture.
            Err(why) => drop(stream.say(&why)),
        }
    }
    let reading = read_back
        .as_mut()?
        .read(size, What::Window, Drawn::default());
    drop(read_back);
    (reading == Reading::UnderWay).then_some(reader)
}

fn open(window: &impl Window, frames: Arc<Submitter>) -> Result<ReadBack, String> {
    let submit = Arc::new(move |frame, drawn| frames.submit(frame, drawn));
    let mut loader = |name: &CStr| window.function(name);
    // SAFETY: what the driver gives away by these names are its functions. The context is current on
    // this thread now, and at each read, which is behind a look at what is current; a program swaps
    // outside of glBegin and glEnd. Before it is destroyed, `retire` is called.
    let opened = unsafe { ReadBack::new(&mut loader, window.sharing(), submit) };
    opened.map_err(|e| format!("pictures of a context can't be read: {e}"))
}

/// The readers of this process.
pub(crate) struct Readers(Mutex<Vec<Arc<Reader>>>);

/// The reader of a context. It is locked only on the thread where that is current.
pub(crate) struct Reader {
    pub(crate) context: Current,
    begun: std::sync::atomic::AtomicBool,
    read_back: Mutex<Option<ReadBack>>,
}

impl Reader {
    /// Whether it was asked before.
    fn begun(&self) -> bool {
        self.begun.swap(true, std::sync::atomic::Ordering::Relaxed)
    }
}

impl Readers {
    pub(crate) const fn new() -> Readers {
        Readers(Mutex::new(Vec::new()))
    }

    fn of(&self, current: Current) -> Option<Arc<Reader>> {
        let mut all = lock(&self.0);
        let same = |reader: &&Arc<Reader>| {
            let known = reader.context;
            (known.api, known.display, known.context)
                == (current.api, current.display, current.context)
        };
        if let Some(reader) = all.iter().find(same) {
            return Some(reader.clone());
        }
        if all.len() >= MANY {
            return None;
        }
        let reader = Arc::new(Reader {
            context: current,
            begun: false.into(),
            read_back: Mutex::new(None),
        });
        all.push(reader.clone());
        Some(reader)
    }

    /// Contexts are about to be destroyed; `here`: which of them is current on this thread. One in
    /// which another thread swaps at this moment lives until that thread lets go of it, and its
    /// reader ends there.
    pub(crate) fn retire(&self, here: Option<Current>, which: impl Fn(&Current) -> bool) {
        let mut all = lock(&self.0);
        let (gone, stay) = all.drain(..).partition(|reader| which(&reader.context));
        *all = stay;
        drop(all);
        let gone: Vec<Arc<Reader>> = gone;
        for reader in gone {
            let current = here.is_some_and(|here| {
                (here.api, here.context) == (reader.context.api, reader.context.context)
            });
            if let Some(reader) = Arc::into_inner(reader)
                && let Some(read_back) = lock(&reader.read_back).take()
            {
                read_back.retire(current);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
