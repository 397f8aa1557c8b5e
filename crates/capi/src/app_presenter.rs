//! A surface that gives its pictures to the application.

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

/// A decoded picture: BGRX without gaps.
pub(crate) struct Shown {
    id: FrameId,
    size: Size,
    bgrx: Vec<u8>,
}

impl Shown {
    /// As the application sees it, until this is dropped or changed.
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

/// The newest picture on its way to the application. Two buffers go round.
#[derive(Default)]
pub(crate) struct Pictures {
    place: Mutex<Place>,
    /// One has arrived, or none will any more.
    arrived: Condvar,
    pub(crate) pointer: Mutex<Pointer>,
}

/// What the host says of the pointer.
#[derive(Default)]
pub(crate) struct Pointer {
    pub(crate) cursor: Option<Cursor>,
    pub(crate) relative: bool,
    /// Since the application asked last.
    pub(crate) changed: bool,
}

#[derive(Default)]
struct Place {
    newest: Option<Shown>,
    spare: Option<Vec<u8>>,
    over: bool,
}

impl Pictures {
    /// The newest picture that was not taken yet, waited for at most `timeout`, and not after
    /// [`Pictures::end`].
    pub(crate) fn next(&self, timeout: Duration) -> Option<Shown> {
        let nothing = |place: &mut Place| place.newest.is_none() && !place.over;
        let waited = self
            .arrived
            .wait_timeout_while(lock(&self.place), timeout, nothing);
        let (mut place, _) = waited.unwrap_or_else(PoisonError::into_inner);
        place.newest.take()
    }

    /// The application is done with it.
    pub(crate) fn give_back(&self, shown: Shown) {
        lock(&self.place).spare = Some(shown.bgrx);
    }

    /// No picture will come any more: who waits for one goes on.
    pub(crate) fn end(&self) {
        lock(&self.place).over = true;
        self.arrived.notify_all();
    }

    fn put(&self, shown: Shown) {
        let mut place = lock(&self.place);
        if let Some(late) = place.newest.replace(shown) {
            place.spare = Some(late.bgrx);
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

// SAFETY: the header says that it is called on a thread of the library.
unsafe impl Send for OnFrame {}

/// The surface.
pub(crate) struct AppPresenter {
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) on_frame: Option<OnFrame>,
}

impl Presenter for AppPresenter {
    fn present(&mut self, id: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let size = picture.size;
        let mut bgrx = lock(&self.pictures.place).spare.take().unwrap_or_default();
        bgrx.resize(size.pixels() * 4, 0);
        to_bgrx(picture, &mut bgrx)?;
        let shown = Shown { id, size, bgrx };
        match &self.on_frame {
            Some(on_frame) => {
                let _inside = CallbackScope::enter();
                // SAFETY: the application's promise; the picture outlives the call.
                unsafe { (on_frame.call)(on_frame.user, &shown.picture()) };
                self.pictures.give_back(shown);
            }
            None => self.pictures.put(shown),
        }
        Ok(())
    }

    /// The application draws it.
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
