//! A picture stream of a PipeWire server. Its callbacks run in a thread of libpipewire.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::functions::{self, Hook, PipeWire, PwBuffer, StreamEvents, ThreadLoop};
use super::memory::Mapping;
use crate::stream::pod::{self, Pod};

/// The maximum number of metadata blocks that are read from one buffer. This stream requests four.
const MOST_METAS: usize = 16;

/// The maximum length of a metadata block that is read, in bytes: twice the size of a pointer image of 1024 × 1024
/// pixels.
const LONGEST_META: usize = 8 << 20;

/// The state of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::stream) enum Progress {
    /// The stream is being negotiated, or the compositor has paused it.
    Waiting,
    /// Pictures may arrive.
    Streaming,
    /// The compositor has ended the stream and has given no reason.
    Closed,
    /// The server has ended, or has refused the stream. The text is the server's own message.
    Ended(String),
}

/// `struct spa_chunk`: the position of the picture in its buffer. The values have not been checked.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Chunk {
    pub(in crate::stream) offset: u32,
    pub(in crate::stream) size: u32,
    pub(in crate::stream) stride: i32,
    pub(in crate::stream) flags: i32,
}

/// A buffer that the compositor has filled.
pub(in crate::stream) struct Arrival<'a> {
    /// The buffer's number.
    pub(in crate::stream) number: u64,
    /// The position of its picture; `None` if the buffer has no memory.
    pub(in crate::stream) chunk: Option<Chunk>,
    /// The buffer's metadata: kind and bytes.
    pub(in crate::stream) metas: Vec<(u32, &'a [u8])>,
}

/// The receiver of a stream's events, in the thread of libpipewire.
pub(in crate::stream) trait Listener: Send + Sync {
    /// Handles a change of the state.
    fn state(&self, progress: Progress);
    /// Handles a negotiated format. Returns the buffers to request. `None` if the format cannot be used; the stream
    /// then gets no buffers.
    fn format(&self, pod: &[u8]) -> Option<Vec<Pod>>;
    /// Handles a buffer that has been added under this number. `memory` is its memory, or a short reason why it cannot
    /// be read.
    fn added(&self, number: u64, memory: Result<Mapping, String>);
    /// Handles the removal of the buffer with this number.
    fn removed(&self, number: u64);
    /// Handles a buffer that has arrived. Returns the number of the buffer that the compositor gets back, which may be
    /// this one; `None` if it gets none back.
    fn arrived(&self, arrival: &Arrival<'_>) -> Option<u64>;
}

/// The buffers of a stream, by number.
struct Buffers {
    last: u64,
    all: BTreeMap<u64, NonNull<PwBuffer>>,
}

/// The data that the callbacks need.
struct Shared {
    library: PipeWire,
    stream: Cell<*mut functions::Stream>,
    listener: Arc<dyn Listener>,
    /// This mutex is locked only while the lock of the loop is held.
    buffers: Mutex<Buffers>,
}

/// A stream of a server, and the thread that serves it. On drop, it is disconnected.
pub(in crate::stream) struct Connection {
    shared: Box<Shared>,
    hook: Box<Hook>,
    thread: *mut ThreadLoop,
    context: *mut functions::Context,
    core: *mut functions::Core,
}

// SAFETY: any thread that holds the lock of the loop may use the library's objects, and every method takes this lock.
unsafe impl Send for Connection {}
// SAFETY: every method takes the lock of the loop, so calls on several threads exclude one another.
unsafe impl Sync for Connection {}

const EVENTS: StreamEvents = StreamEvents {
    version: 0,
    destroy: None,
    state_changed: Some(on_state),
    control_info: None,
    io_changed: None,
    param_changed: Some(on_param),
    add_buffer: Some(on_add),
    remove_buffer: Some(on_remove),
    process: Some(on_process),
    drained: None,
};
static STREAM_EVENTS: StreamEvents = EVENTS;

impl Connection {
    /// Connects to the server behind `remote`, and to the node with this number. Requests the node's pictures in the
    /// `offered` formats.
    ///
    /// # Errors
    /// Returns a one-line error if the server refuses.
    pub(in crate::stream) fn open(
        library: PipeWire,
        remote: OwnedFd,
        node: u32,
        offered: &Pod,
        listener: Arc<dyn Listener>,
    ) -> Result<Connection, String> {
        let failed = |what: &str| {
            let cause = std::io::Error::last_os_error();
            format!(
                "PipeWire: {what} failed: {cause}; check that pipewire and wireplumber are running"
            )
        };
        // SAFETY: the name is NUL-terminated, and null means no properties.
        let thread = unsafe { (library.loop_new)(c"openuvr-pipewire".as_ptr(), std::ptr::null()) };
        if thread.is_null() {
            return Err(failed("creating a thread"));
        }
        // From here on, dropping `connection` frees the objects that have been created so far.
        let mut connection = Connection {
            shared: Box::new(Shared {
                library,
                stream: Cell::new(std::ptr::null_mut()),
                listener,
                buffers: Mutex::new(Buffers {
                    last: 0,
                    all: BTreeMap::new(),
                }),
            }),
            hook: Box::default(),
            thread,
            context: std::ptr::null_mut(),
            core: std::ptr::null_mut(),
        };
        let shared: *const Shared = &raw const *connection.shared;
        let library = &connection.shared.library;
        // SAFETY: each object is made from an existing object, before the thread of the loop starts. The library takes
        // ownership of the properties and the descriptor. The hook and the shared state are boxed, and outlive the
        // stream.
        unsafe {
            let looping = (library.loop_get)(thread);
            connection.context = (library.context_new)(looping, std::ptr::null_mut(), 0);
            if connection.context.is_null() {
                return Err(failed("creating a context"));
            }
            let remote = remote.into_raw_fd();
            connection.core =
                (library.connect_fd)(connection.context, remote, std::ptr::null_mut(), 0);
            if connection.core.is_null() {
                return Err(failed("connecting"));
            }
            let text = c"media.type=Video media.category=Capture media.role=Screen";
            let properties = (library.properties)(text.as_ptr());
            let stream = (library.stream_new)(connection.core, c"openuvr".as_ptr(), properties);
            if stream.is_null() {
                return Err(failed("creating a stream"));
            }
            connection.shared.stream.set(stream);
            (library.stream_listen)(
                stream,
                &raw mut *connection.hook,
                &raw const STREAM_EVENTS,
                shared.cast_mut().cast(),
            );
            let mut params = [offered.0.as_ptr()];
            let flags = functions::AUTOCONNECT | functions::DONT_RECONNECT;
            let params = params.as_mut_ptr();
            let result = (library.stream_connect)(stream, functions::INPUT, node, flags, params, 1);
            if result < 0 || (library.loop_start)(thread) < 0 {
                return Err(failed("connecting the stream"));
            }
        }
        Ok(connection)
    }

    /// Returns the buffer with this number to the compositor, if it still exists.
    pub(in crate::stream) fn give_back(&self, number: u64) {
        self.locked(|shared| shared.give_back(number));
    }

    /// Sets whether the compositor sends pictures.
    pub(in crate::stream) fn set_active(&self, active: bool) {
        self.locked(|shared| {
            // SAFETY: the stream exists as long as `self`, and the loop is locked.
            let _ = unsafe { (shared.library.stream_activate)(shared.stream.get(), active) };
        });
    }

    fn locked(&self, run: impl FnOnce(&Shared)) {
        let library = &self.shared.library;
        // SAFETY: the loop exists as long as `self`. The caller is not the thread of the loop, and unlocks the loop
        // below.
        unsafe { (library.loop_lock)(self.thread) };
        run(&self.shared);
        // SAFETY: the loop exists as long as `self`, and this thread has locked it above.
        unsafe { (library.loop_unlock)(self.thread) };
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (library, stream) = (&self.shared.library, self.shared.stream.get());
        // SAFETY: no callback runs once the thread has stopped. Each object is freed before the object from which it
        // was made, and is not used again.
        unsafe {
            (library.loop_stop)(self.thread);
            if !stream.is_null() {
                (library.stream_destroy)(stream);
            }
            if !self.core.is_null() {
                let _ = (library.core_disconnect)(self.core);
            }
            if !self.context.is_null() {
                (library.context_destroy)(self.context);
            }
            (library.loop_destroy)(self.thread);
        }
    }
}

impl Shared {
    fn buffers(&self) -> std::sync::MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the buffer to the compositor. The caller holds the lock of the loop.
    fn give_back(&self, number: u64) {
        let buffer = self.buffers().all.get(&number).copied();
        if let Some(buffer) = buffer {
            // SAFETY: a buffer in the list has been dequeued, and has not been removed yet.
            let _ = unsafe { (self.library.stream_queue)(self.stream.get(), buffer.as_ptr()) };
        }
    }
}

/// The shared state of a callback.
///
/// # Safety
/// `data` must be the pointer that [`Connection::open`] has registered.
unsafe fn shared<'a>(data: *mut c_void) -> &'a Shared {
    // SAFETY: the shared state outlives the stream, and only the stream's callbacks get this pointer.
    unsafe { &*data.cast::<Shared>() }
}

unsafe extern "C" fn on_state(data: *mut c_void, old: c_int, new: c_int, error: *const c_char) {
    // SAFETY: libpipewire passes this function the pointer that `open` registered.
    let shared = unsafe { shared(data) };
    // SAFETY: `error` is NUL-terminated, and valid during the call.
    let words = (!error.is_null()).then(|| unsafe { CStr::from_ptr(error) });
    let words = words.map(|words| words.to_string_lossy().into_owned());
    let was_connected = old > functions::STATE_CONNECTING;
    shared.listener.state(match (new, words) {
        (functions::STATE_ERROR, words) => Progress::Ended(words.unwrap_or_default()),
        (functions::STATE_UNCONNECTED, Some(words)) => Progress::Ended(words),
        (functions::STATE_UNCONNECTED, None) if was_connected => Progress::Closed,
        (functions::STATE_STREAMING, _) => Progress::Streaming,
        _ => Progress::Waiting,
    });
}

unsafe extern "C" fn on_param(data: *mut c_void, id: u32, param: *const u64) {
    if id != pod::PARAM_FORMAT || param.is_null() {
        return;
    }
    // SAFETY: libpipewire passes this function the pointer that `open` registered.
    let shared = unsafe { shared(data) };
    // SAFETY: an object begins with a head of eight bytes, whose first word is the length of the body. The body follows
    // the head.
    let bytes = unsafe {
        let length = usize::try_from(*param.cast::<u32>()).unwrap_or(0);
        std::slice::from_raw_parts(param.cast::<u8>(), length.saturating_add(8))
    };
    if let Some(wanted) = shared.listener.format(bytes) {
        let mut params: Vec<*const u64> = wanted.iter().map(|pod| pod.0.as_ptr()).collect();
        let count = u32::try_from(params.len()).unwrap_or(0);
        let (stream, params) = (shared.stream.get(), params.as_mut_ptr());
        // SAFETY: the objects are valid during the call, which copies them.
        let _ = unsafe { (shared.library.stream_update)(stream, params, count) };
    }
}

unsafe extern "C" fn on_add(data: *mut c_void, buffer: *mut PwBuffer) {
    // SAFETY: libpipewire passes this function the pointer that `open` registered, and one of its own buffers.
    let (shared, Some(buffer)) = (unsafe { shared(data) }, NonNull::new(buffer)) else {
        return;
    };
    let number = {
        let mut buffers = shared.buffers();
        buffers.last += 1;
        let number = buffers.last;
        buffers.all.insert(number, buffer);
        number
    };
    // SAFETY: the buffer's structures are valid until the buffer is removed.
    let memory = unsafe {
        let buffer = buffer.as_ptr();
        (*buffer).user_data =
            std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0));
        map((*buffer).buffer)
    };
    shared.listener.added(number, memory);
}

/// Maps the memory of a buffer.
///
/// # Safety
/// The structures behind the pointer must be valid.
unsafe fn map(buffer: *const functions::SpaBuffer) -> Result<Mapping, String> {
    // SAFETY: the caller upholds this function's requirements.
    let data = unsafe {
        match (*buffer).datas {
            0 => return Err("a buffer has no memory".to_owned()),
            _ => &*(*buffer).data,
        }
    };
    let file = c_int::try_from(data.fd).ok().filter(|fd| *fd >= 0);
    let file = file.filter(|_| data.kind == pod::DATA_MEM_FD);
    let file = file.ok_or_else(|| {
        format!(
            "a buffer has memory of the SPA type {}; only MemFd is supported",
            data.kind
        )
    })?;
    // SAFETY: the descriptor belongs to the buffer, which exists during this call.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    Mapping::new(file, data.map_offset, data.max_size)
}

unsafe extern "C" fn on_remove(data: *mut c_void, buffer: *mut PwBuffer) {
    // SAFETY: libpipewire passes this function the pointer that `open` registered, and one of its own buffers.
    let (shared, number) = unsafe { (shared(data), number_of(buffer)) };
    shared.buffers().all.remove(&number);
    shared.listener.removed(number);
}

/// The number of a buffer that has been added.
///
/// # Safety
/// The buffer must be valid.
unsafe fn number_of(buffer: *const PwBuffer) -> u64 {
    // SAFETY: the caller upholds this function's requirements.
    unsafe { (*buffer).user_data.addr() as u64 }
}

unsafe extern "C" fn on_process(data: *mut c_void) {
    // SAFETY: libpipewire passes this function the pointer that `open` registered.
    let shared = unsafe { shared(data) };
    loop {
        // SAFETY: the stream exists during its callbacks.
        let buffer = unsafe { (shared.library.stream_dequeue)(shared.stream.get()) };
        if buffer.is_null() {
            return;
        }
        // SAFETY: a dequeued buffer and its structures are valid until the buffer is removed, which happens in this
        // thread.
        let arrival = unsafe { read(buffer) };
        if let Some(free) = shared.listener.arrived(&arrival) {
            shared.give_back(free);
        }
    }
}

/// Reads the structures of a buffer.
///
/// # Safety
/// The buffer must be valid for `'a`.
unsafe fn read<'a>(buffer: *const PwBuffer) -> Arrival<'a> {
    // SAFETY: the caller upholds this function's requirements. libpipewire has checked that the metadata lies within
    // the buffer's memory. The compositor can change metadata at any time, but metadata consists of plain words, and
    // each word is checked when it is used.
    unsafe {
        let spa = &*(*buffer).buffer;
        let count = usize::try_from(spa.metas).unwrap_or(0).min(MOST_METAS);
        let metas = match spa.meta.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(spa.meta, count),
        };
        let metas = metas.iter().filter(|meta| !meta.data.is_null());
        let metas = metas.map(|meta| {
            let length = usize::try_from(meta.size).unwrap_or(0).min(LONGEST_META);
            let bytes = std::slice::from_raw_parts(meta.data.cast::<u8>().cast_const(), length);
            (meta.kind, bytes)
        });
        let data = (spa.datas > 0).then(|| &*spa.data);
        let chunk = data.filter(|data| !data.chunk.is_null());
        let chunk = chunk.map(|data| data.chunk.read_volatile());
        Arrival {
            number: number_of(buffer),
            chunk: chunk.map(|chunk| Chunk {
                offset: chunk.offset,
                size: chunk.size,
                stride: chunk.stride,
                flags: chunk.flags,
            }),
            metas: metas.collect(),
        }
    }
}
