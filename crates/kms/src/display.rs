//! The display with its state, shared by the media thread, the event thread and the input thread behind one lock.
//!
//! The lock is held while rows are composed, and during requests. Of the requests under the lock, only mode sets wait
//! for the display. They happen at the start, when this client gets the console back, and when a display has been
//! plugged in.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drm::Device as _;
use drm::control::{Device as _, Event, Mode, connector, crtc};
use openuvr_clock as clock;
use openuvr_media::dma_buf::DmaBufPicture;
use openuvr_media::present::to_bgrx;
use openuvr_media::waker::Waker;
use openuvr_media::window::placement::Placement;
use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use crate::KmsError;
use crate::buffers::{Buffers, Damage};
use crate::card::{Card, Choice, describe, is_connected, name_of};
use crate::direct::DirectPictures;
use crate::flips::{BUFFERS, Flips};
use crate::front::{Flush, UnflushedRows};
use crate::mode::{Rate, first_accepted, order};
use crate::output::Output;
use crate::scene::{PlacedCursor, Scene};

/// The interval at which connectors are checked (a guess: a user waits a second for a display).
const LOOK: Duration = Duration::from_secs(1);

/// The delay before another attempt after a refused flip (a guess: a quarter of a refresh at 60 Hz).
const RETRY: Duration = Duration::from_millis(4);

/// The state that the threads share.
pub(crate) struct Shared {
    display: Mutex<Display>,
    /// Wakes the event thread.
    pub(crate) events: Waker,
    /// Wakes the input thread.
    pub(crate) input: Waker,
}

impl Shared {
    pub(crate) fn new(display: Display) -> io::Result<Shared> {
        let waker = || Waker::new().map_err(io::Error::other);
        Ok(Shared {
            display: Mutex::new(display),
            events: waker()?,
            input: waker()?,
        })
    }

    pub(crate) fn display(&self) -> MutexGuard<'_, Display> {
        // After a panic, the values are replaced at the next mode set.
        self.display.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How pictures are put on the display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Update {
    /// A picture is written into another buffer, and the display flips to it when the picture is complete.
    Flip {
        /// Whether a flip happens at once, if the driver supports that, and not at the next refresh.
        at_once: bool,
    },
    /// Rows are written directly into the displayed buffer, so incomplete pictures are visible, too. The time at which
    /// they become visible is not reported.
    Front,
}

/// The state of the display. It exists even while no display is connected.
pub(crate) struct Display {
    card: Arc<Card>,
    choice: Choice,
    rate: Rate,
    update: Update,
    pub(crate) scene: Scene,
    pub(crate) flips: Flips,
    /// With [`Update::Front`], the rows that the driver has not been notified of.
    unflushed: UnflushedRows,
    lit: Option<Lit>,
    /// Whether the console is in the foreground.
    foreground: bool,
    /// Whether this client may set modes on the card (DRM master).
    pub(crate) active: bool,
    /// The time of the next check of the connectors.
    look_at: Instant,
    /// The time at which a refused flip is tried again.
    retry_at: Option<Instant>,
    /// Whether the threads should end.
    pub(crate) stopped: bool,
    /// The pointer as the cursor plane displays it.
    cursor: Option<PlacedCursor>,
    /// Whether the pointer may differ from `cursor`.
    pub(crate) cursor_dirty: bool,
    /// Whether an error has been reported since a mode was last set.
    warned: bool,
}

/// A display that shows this client's buffers.
struct Lit {
    output: Output,
    buffers: Buffers,
    direct: DirectPictures,
}

impl Display {
    /// Becomes the card's DRM master, and sets the mode that suits a picture of this size best.
    pub(crate) fn open(
        card: Card,
        choice: &Choice,
        rate: Rate,
        update: Update,
        picture: Size,
    ) -> Result<Display, KmsError> {
        let mut display = Display {
            card: Arc::new(card),
            choice: choice.clone(),
            rate,
            update,
            scene: Scene::default(),
            flips: Flips::default(),
            unflushed: UnflushedRows::default(),
            lit: None,
            foreground: true,
            active: true,
            look_at: clock::now() + LOOK,
            retry_at: None,
            stopped: false,
            cursor: None,
            cursor_dirty: true,
            warned: false,
        };
        display.take_card()?;
        let info = display.card.display(choice)?;
        display.light(&info, picture)?;
        Ok(display)
    }

    /// Makes this client the DRM master, which may set modes. The first client that opens a card is already its master.
    fn take_card(&self) -> Result<(), KmsError> {
        (self.card.acquire_master_lock()).map_err(|cause| KmsError::NotMaster {
            path: self.card.path.clone(),
            cause,
        })
    }

    /// The card, to wait for its events.
    pub(crate) fn card(&self) -> Arc<Card> {
        Arc::clone(&self.card)
    }

    /// The size of the mode.
    pub(crate) fn size(&self) -> Size {
        self.scene.display
    }

    /// Sets the best mode that the display accepts.
    fn light(&mut self, info: &connector::Info, picture: Size) -> Result<(), KmsError> {
        let modes: Vec<_> = info.modes().iter().map(describe).collect();
        let mut last = None;
        let accepted = first_accepted(
            order(&modes, picture, self.rate),
            |at| self.light_at(info, info.modes()[at]),
            |at, cause| {
                let name = name_of(&modes[at]);
                tracing::warn!("{info} refuses {name}: {cause}; trying another mode");
                last = Some((name, cause));
            },
        )?;
        match (accepted, last) {
            (Some(at), _) => {
                tracing::info!("{info} displays {}", name_of(&modes[at]));
                self.warned = false;
                Ok(())
            }
            (None, Some((mode, cause))) => Err(KmsError::Modes {
                name: info.to_string(),
                mode,
                cause,
            }),
            (None, None) => Err(KmsError::Unplugged {
                path: self.card.path.clone(),
                name: Some(info.to_string()),
            }),
        }
    }

    /// Sets a mode. The inner error is the display's refusal.
    fn light_at(&mut self, info: &connector::Info, mode: Mode) -> Result<io::Result<()>, KmsError> {
        let size = describe(&mode).size;
        let failed = |cause| KmsError::Device {
            path: self.card.path.clone(),
            cause,
        };
        let (tearing, count) = match self.update {
            Update::Flip { at_once } => (at_once, BUFFERS),
            Update::Front => (false, 1),
        };
        let mut output = Output::new(&self.card, info, mode, tearing)?;
        let buffers = Buffers::new(&self.card, size, count).map_err(failed)?;
        let first = buffers.framebuffer(0).ok_or_else(|| KmsError::Resources {
            cause: io::Error::from(io::ErrorKind::OutOfMemory),
        })?;
        if let Err(cause) = output.set_mode(first) {
            return Ok(Err(cause));
        }
        tracing::debug!(atomic = output.is_atomic(), "mode set on {info}");
        self.flips.interrupt();
        self.flips.displayed(0);
        let direct = DirectPictures::new(&self.card);
        self.lit = Some(Lit {
            output,
            buffers,
            direct,
        });
        self.scene.set_display(size);
        (self.cursor, self.cursor_dirty) = (None, true);
        Ok(Ok(()))
    }

    /// Displays the picture, whose rows were painted into `bytes`, as soon as possible.
    pub(crate) fn picture(
        &mut self,
        frame: FrameId,
        bytes: Vec<u8>,
        size: Size,
        painted: &Range<u32>,
    ) {
        self.scene.put_picture(bytes, size, painted);
        if self.lit.is_none() || !self.active {
            if self.update != Update::Front {
                self.flips.never_visible(Some(frame));
            }
            return;
        }
        self.compose(Some(frame));
    }

    /// Displays the first rows of a picture of the displayed size, which were painted into `bytes`; the rows below
    /// belong to the previous picture. Requires [`Update::Front`].
    pub(crate) fn rows(&mut self, bytes: Vec<u8>, size: Size, painted: &Range<u32>) {
        self.scene.put_picture(bytes, size, painted);
        self.refresh();
    }

    /// Displays a decoded picture without a copy, as soon as possible. Returns `false` if that is impossible now.
    pub(crate) fn direct_picture(&mut self, frame: FrameId, picture: &DmaBufPicture) -> bool {
        let flips = self.update == Update::Flip { at_once: false };
        if !flips || !self.active || self.scene.draws_over() {
            return false;
        }
        let Some(Lit {
            output,
            buffers,
            direct,
        }) = &mut self.lit
        else {
            return false;
        };
        let place = self.flips.free();
        let Some(below) = buffers.framebuffer(place) else {
            return false;
        };
        let area = Placement::fit(self.scene.display, picture.size()).area;
        let Some(prepared) = direct.prepare(output, picture, area, below) else {
            return false;
        };
        self.scene.set_direct(picture.size());
        if output.is_overlay(&prepared.placed()) {
            // On the plane under an overlay, all rows are black. They are written only if the previous picture was
            // composed or had another size.
            buffers.changed(self.scene.take_dirty());
            let scene = &self.scene;
            buffers.update(place, |row, to| scene.compose(row, to));
        }
        direct.put(place, Some(prepared));
        self.flips.completed(place, Some(frame));
        self.flip();
        true
    }

    /// If the newest picture was displayed without a copy, copies it, so that it can be composed.
    fn copy_direct(&mut self) {
        let newest = self.flips.waiting().or(self.flips.newest());
        let lit = self.lit.as_ref().zip(newest);
        let Some(direct) = lit.and_then(|(lit, newest)| lit.direct.at(newest)) else {
            return;
        };
        let size = direct.picture.size();
        let mut bytes = self.scene.take_picture(size);
        let copied = (direct.picture.map())
            .map_err(|why| why.to_string())
            .and_then(|it| to_bgrx(&it.picture(), &mut bytes).map_err(|why| why.to_string()));
        match copied {
            Ok(()) => self.scene.put_picture(bytes, size, &(0..size.height)),
            Err(why) => tracing::debug!("the last picture can't be copied: {why}"),
        }
    }

    /// Displays changes without a new frame: pointer and text.
    pub(crate) fn refresh(&mut self) {
        if self.scene.draws_over() && !self.scene.is_complete() {
            self.copy_direct();
        }
        if self.scene.is_dirty() && self.scene.is_complete() && self.active && self.lit.is_some() {
            self.compose(None);
        }
    }

    /// Composes the changed rows into the next buffer, and flips to it if no flip is pending.
    fn compose(&mut self, frame: Option<FrameId>) {
        let Some(Lit {
            buffers, direct, ..
        }) = &mut self.lit
        else {
            return;
        };
        let rows = self.scene.take_dirty();
        buffers.changed(rows);
        let scene = &self.scene;
        if self.update == Update::Front {
            self.unflushed.add(&buffers.outdated(0));
            buffers.update(0, |row, to| scene.compose(row, to));
            return;
        }
        let free = self.flips.free();
        buffers.update(free, |row, to| scene.compose(row, to));
        direct.put(free, None);
        self.flips.completed(free, frame);
        self.flip();
    }

    /// Whether [`take_flush`](Self::take_flush) has a request.
    pub(crate) fn wants_flush(&self) -> bool {
        self.unflushed.is_pending()
    }

    /// The request that displays the rows written since the last call, if there are any.
    pub(crate) fn take_flush(&mut self) -> Option<Flush> {
        let rows = self.unflushed.take()?;
        let Lit { buffers, .. } = self.lit.as_ref().filter(|_| self.active)?;
        let framebuffer = buffers.framebuffer(0)?;
        Some(Flush::new(&self.card, framebuffer, buffers.size, &rows))
    }

    /// Handles a driver's refusal of rows.
    pub(crate) fn flush_refused(&mut self, cause: &io::Error) {
        if self.unflushed.refused(cause) {
            // The display was unplugged, or the console is being switched.
            tracing::debug!("the card refuses an update of changed rows: {cause}");
            self.look_at_connectors();
        }
    }

    /// Flips to the waiting picture, if no flip is pending.
    fn flip(&mut self) {
        self.retry_at = None;
        if let Some(due) = self.flips.due() {
            self.flip_to(due);
        }
    }

    fn flip_to(&mut self, due: usize) {
        let Some(Lit {
            output,
            buffers,
            direct,
        }) = &mut self.lit
        else {
            return;
        };
        let Some(framebuffer) = buffers.framebuffer(due) else {
            return;
        };
        if let Some(picture) = direct.at(due) {
            let flipped = output.flip_direct(&picture.placed(), framebuffer);
            self.flipped_direct(due, flipped);
            return;
        }
        let newest = self.flips.newest();
        let rows = newest.map_or(0..buffers.size.height, |newest| buffers.outdated(newest));
        let damage = Damage {
            width: buffers.size.width,
            first: rows.start,
            // If the picture has no change, one row is passed, because the kernel accepts no empty rectangle.
            end: rows.end.max(rows.start + 1),
        };
        let mut flipped = output.flip(framebuffer, damage);
        if flipped.is_err() && output.give_up_tearing() {
            tracing::warn!(
                "{} does not support --tearing: each picture waits for the next refresh",
                output.name
            );
            flipped = output.flip(framebuffer, damage);
        }
        match flipped {
            Ok(()) => self.flips.committed(clock::now()),
            // Another request to the display is pending: a flip, whose event will arrive, or a different request. Try
            // again later.
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                self.retry_at = Some(clock::now() + RETRY);
            }
            // The display was unplugged, or the console is being switched.
            Err(cause) => {
                tracing::debug!("{} refuses a flip: {cause}", output.name);
                self.look_at_connectors();
            }
        }
    }

    /// Handles the driver's answer to a flip to a decoded picture.
    fn flipped_direct(&mut self, due: usize, flipped: io::Result<()>) {
        match flipped {
            Ok(()) => {
                self.flips.committed(clock::now());
                self.release_direct();
            }
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                self.retry_at = Some(clock::now() + RETRY);
            }
            Err(cause) => {
                // A copy replaces the picture, unless the display is gone.
                self.copy_direct();
                if let Some(Lit { direct, .. }) = &mut self.lit {
                    direct.refused(due, &cause);
                    direct.put(due, None);
                }
                self.look_at_connectors();
                self.refresh();
            }
        }
    }

    /// Returns decoded pictures to the decoder once the display no longer needs them.
    fn release_direct(&mut self) {
        if let Some(Lit { direct, .. }) = &mut self.lit {
            direct.release(&self.flips);
        }
    }

    /// Reads the card's events. It does not block.
    pub(crate) fn take_events(&mut self) {
        while let Some(events) = receive(&self.card) {
            for (crtc, at) in events {
                if self.lit.as_ref().is_some_and(|lit| lit.output.crtc == crtc) {
                    self.flips.flipped(Some(at));
                }
            }
        }
        self.release_direct();
        self.flip();
    }

    /// Handles a flip that is overdue.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.flips.overdue(now) {
            tracing::debug!("a flip is overdue");
            self.look_at_connectors();
            if let Some(waiting) = self.flips.waiting() {
                self.flip_to(waiting);
            }
        }
    }

    /// Handles changes of the connectors, such as a display that was unplugged or plugged in again.
    pub(crate) fn look_at_connectors(&mut self) {
        if !self.active {
            return;
        }
        if let Some(Lit { output, .. }) = &self.lit {
            let info = self.card.get_connector(output.connector, false);
            if info.as_ref().is_ok_and(is_connected) {
                return;
            }
            tracing::warn!(
                "{} is unplugged: the session continues, and the picture returns when a display is connected",
                output.name
            );
            self.copy_direct();
            self.darken();
        }
        let picture = self.scene.size().unwrap_or(self.scene.display);
        let lit = self.card.display(&self.choice);
        let lit = lit.and_then(|info| self.light(&info, picture));
        match lit {
            Ok(()) => self.refresh(),
            Err(KmsError::Unplugged { .. }) => {}
            Err(why) if !std::mem::replace(&mut self.warned, true) => tracing::warn!("{why}"),
            Err(_) => {}
        }
    }

    /// Checks the connectors if `plugged` is set or a check is due. Regular checks are needed because some drivers
    /// report no changes, and a kernel reports none to a container. Takes the card if another session still had it at
    /// the last attempt.
    pub(crate) fn look(&mut self, plugged: bool, now: Instant) {
        if !plugged && now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        if self.foreground && !self.active {
            self.acquire();
        }
        self.look_at_connectors();
    }

    /// The time of the next action that no kernel event triggers.
    pub(crate) fn deadline(&self) -> Instant {
        // While a flip is pending, there is nothing to retry.
        let flip = self.flips.deadline().or(self.retry_at);
        flip.map_or(self.look_at, |flip| flip.min(self.look_at))
    }

    /// Drops the display with its buffers.
    fn darken(&mut self) {
        self.flips.interrupt();
        self.lit = None;
    }

    /// Releases the card to another session.
    pub(crate) fn release(&mut self) {
        (self.foreground, self.active) = (false, false);
        self.flips.interrupt();
        if let Some(Lit { output, .. }) = &self.lit {
            output.hide_cursor();
        }
        if let Err(cause) = self.card.release_master_lock() {
            tracing::warn!("can't release {}: {cause}", self.card.path.display());
        }
    }

    /// Takes the card after this client got the console back. The display may be a different one, and its state is
    /// unknown.
    pub(crate) fn acquire(&mut self) {
        self.foreground = true;
        if let Err(why) = self.take_card() {
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!("{why}");
            }
            return;
        }
        self.active = true;
        self.copy_direct();
        if let Some(mut lit) = self.lit.take() {
            let front = lit.buffers.framebuffer(self.flips.newest().unwrap_or(0));
            let set = front.map(|front| lit.output.set_mode(front));
            self.lit = Some(lit);
            if let Some(Err(cause)) = set {
                tracing::warn!("can't set the mode again: {cause}");
                self.darken();
            }
        }
        // Discards events from before the mode set.
        while receive(&self.card).is_some() {}
        (self.cursor, self.cursor_dirty) = (None, true);
        self.look_at_connectors();
        self.scene.everything();
        self.refresh();
    }

    /// Updates the cursor plane.
    pub(crate) fn draw_cursor(&mut self) {
        if !std::mem::take(&mut self.cursor_dirty) || !self.active {
            return;
        }
        let Some(Lit { output, .. }) = &mut self.lit else {
            return;
        };
        let wanted = self.scene.cursor();
        match (&self.cursor, &wanted) {
            (None, None) => {}
            (Some(_), None) => output.hide_cursor(),
            (before, Some(new)) => {
                let same_shape = |before: &PlacedCursor| Arc::ptr_eq(&before.shape, &new.shape);
                if !before.as_ref().is_some_and(same_shape) {
                    let plane = output.cursor_shape(&new.shape);
                    if !plane {
                        output.hide_cursor();
                    }
                    // From now on, the pointer is drawn into the picture only if the cursor plane can't display it.
                    self.scene.redrawn(|scene| scene.draws_cursor = !plane);
                }
                if !self.scene.draws_cursor {
                    output.move_cursor(new.at);
                }
            }
        }
        self.cursor = wanted;
        self.refresh();
    }

    /// Restores the display to its previous state.
    pub(crate) fn close(&mut self) {
        tracing::info!("{} flips", self.flips.count());
        if let Some(Lit { output, .. }) = &mut self.lit
            && self.active
        {
            output.put_back();
        }
        self.darken();
        if self.active {
            let _ = self.card.release_master_lock();
        }
        self.active = false;
    }
}

/// The flips that have happened, with their times; `None` if there is no event.
fn receive(card: &Card) -> Option<Vec<(crtc::Handle, Instant)>> {
    let events = card.receive_events().ok()?;
    let flips = events.filter_map(|event| match event {
        // The time is on the monotonic clock since Linux 4.15.
        Event::PageFlip(flip) => {
            let nanos = i64::try_from(flip.duration.as_nanos()).unwrap_or(i64::MAX);
            Some((flip.crtc, Instant(nanos)))
        }
        _ => None,
    });
    Some(flips.collect())
}
