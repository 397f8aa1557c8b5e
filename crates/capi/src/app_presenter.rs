//! A presenter that passes pictures to the application.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

use crate::callback_scope::CallbackScope;
use crate::picture::{OPENUVR_PIXEL_FORMAT, openuvr_picture};

/// A decoded picture in BGRX without row padding.
pub(crate) struct DecodedPicture {
    id: FrameId,
    size: Size,
    bgrx: Vec<u8>,
}

impl DecodedPicture {
    /// The picture as a structure of the C API. Valid until `self` is dropped or changed.
    pub(crate) fn picture(&self) -> openuvr_picture {
        openuvr_picture {
            width: self.size.width,
            height: self.size.height,
            format: OPENUVR_PIXEL_FORMAT::OPENUVR_PIXEL_FORMAT_BGRX as u32,
            stride: self.size.width as usize * 4,
            data: self.bgrx.as_ptr().cast(),
            id: self.id.0,
            ..openuvr_picture::default()
        }
    }
}

/// The newest picture for the application, and a spare buffer for a later picture.
#[derive(Default)]
pub(crate) struct Pictures {
    slot: Mutex<PictureSlot>,
    /// Signalled when a new picture arrives, and at the end.
    arrived: Condvar,
    pub(crate) pointer: Mutex<Pointer>,
}

/// The pointer state from the host.
#[derive(Default)]
pub(crate) struct Pointer {
    pub(crate) cursor: Option<Cursor>,
    pub(crate) relative: bool,
    /// Whether the state has changed since the application's last query.
    pub(crate) changed: bool,
}

#[derive(Default)]
struct PictureSlot {
    newest: Option<DecodedPicture>,
    spare: Option<Vec<u8>>,
    ended: bool,
}

impl Pictures {
    /// Returns the newest pending picture. Waits at most `timeout`, and not after [`Pictures::end`].
    pub(crate) fn next(&self, timeout: Duration) -> Option<DecodedPicture> {
        let empty = |slot: &mut PictureSlot| slot.newest.is_none() && !slot.ended;
        let waited = self
            .arrived
            .wait_timeout_while(lock(&self.slot), timeout, empty);
        let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        slot.newest.take()
    }

    /// Recycles a picture's buffer.
    pub(crate) fn recycle(&self, picture: DecodedPicture) {
        lock(&self.slot).spare = Some(picture.bgrx);
    }

    /// Wakes waiting threads, because no more pictures will arrive.
    pub(crate) fn end(&self) {
        lock(&self.slot).ended = true;
        self.arrived.notify_all();
    }

    fn put(&self, picture: DecodedPicture) {
        let mut slot = lock(&self.slot);
        if let Some(replaced) = slot.newest.replace(picture) {
            slot.spare = Some(replaced.bgrx);
        }
        self.arrived.notify_one();
    }
}

/// The application's callback for pictures.
#[derive(Clone, Copy)]
pub(crate) struct OnFrame {
    pub(crate) call: unsafe extern "C" fn(*mut c_void, *const openuvr_picture),
    pub(crate) user: *mut c_void,
}

// SAFETY: the header documents that a thread of the library calls the callback, so the application expects calls on
// other threads.
unsafe impl Send for OnFrame {}

pub(crate) struct AppPresenter {
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) on_frame: Option<OnFrame>,
}

impl Presenter for AppPresenter {
    fn present(&mut self, id: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let size = picture.size;
        let mut bgrx = lock(&self.pictures.slot).spare.take().unwrap_or_default();
        bgrx.resize(size.pixels() * 4, 0);
        to_bgrx(picture, &mut bgrx)?;
        let decoded = DecodedPicture { id, size, bgrx };
        match &self.on_frame {
            Some(on_frame) => {
                let _inside = CallbackScope::enter();
                // SAFETY: the header documents this call, and the picture stays valid until it returns.
                unsafe { (on_frame.call)(on_frame.user, &decoded.picture()) };
                self.pictures.recycle(decoded);
            }
            None => self.pictures.put(decoded),
        }
        Ok(())
    }

    /// Stores the pointer, which the application draws.
    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        let mut pointer = lock(&self.pictures.pointer);
        (pointer.cursor, pointer.changed) = (Some(cursor.clone()), true);
        Ok(())
    }

    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        let mut pointer = lock(&self.pictures.pointer);
        pointer.changed |= pointer.relative != wanted;
        pointer.relative = wanted;
        Ok(())
    }
}
