//! Acquire, wait and release of swapchain images (OpenXR 1.0, section 10.1).

use std::collections::VecDeque;

use openxr_sys as xr;

use crate::debug::with_message;
use crate::ffi::Outcome;

const ORDER: xr::Result = xr::Result::ERROR_CALL_ORDER_INVALID;

/// The images of one swapchain.
#[derive(Debug)]
pub(crate) struct ImageQueue {
    /// Images that are not acquired, ordered by release time, oldest first.
    free: VecDeque<u32>,
    /// Images that are acquired and not released, in the order of acquisition.
    acquired: VecDeque<u32>,
    /// Whether the oldest acquired image has been waited for.
    waited: bool,
    /// The image that was released last. Layers show this image.
    newest: Option<u32>,
    /// Whether the swapchain has a single image, which can be acquired only once.
    is_static: bool,
}

impl ImageQueue {
    pub(crate) fn new(count: u32, is_static: bool) -> ImageQueue {
        ImageQueue {
            free: (0..count).collect(),
            acquired: VecDeque::new(),
            waited: false,
            newest: None,
            is_static,
        }
    }

    /// `xrAcquireSwapchainImage`.
    pub(crate) fn acquire(&mut self) -> Outcome<u32> {
        if self.is_static && self.newest.is_some() {
            return Err(with_message(
                ORDER,
                c"a static image can be acquired only once",
            ));
        }
        let index = self.free.pop_front();
        let index = index.ok_or_else(|| {
            with_message(ORDER, c"all images are acquired: release an image first")
        })?;
        self.acquired.push_back(index);
        Ok(index)
    }

    /// The image for which `xrWaitSwapchainImage` waits: the oldest acquired image.
    pub(crate) fn next_to_wait(&self) -> Outcome<u32> {
        let first = self.acquired.front().filter(|_| !self.waited);
        first.copied().ok_or_else(|| {
            let message =
                c"no image is acquired, or the oldest acquired image has already been waited for";
            with_message(ORDER, message)
        })
    }

    /// Marks the oldest acquired image as waited for.
    pub(crate) fn mark_waited(&mut self) {
        self.waited = true;
    }

    /// `xrReleaseSwapchainImage`.
    pub(crate) fn release(&mut self) -> Outcome<()> {
        if !std::mem::take(&mut self.waited) {
            return Err(with_message(ORDER, c"xrWaitSwapchainImage comes first"));
        }
        let index = self.acquired.pop_front().ok_or(ORDER)?;
        // The newest released image may be shown again, so it is reused last.
        self.free.push_back(index);
        self.newest = Some(index);
        Ok(())
    }

    /// The image that a layer shows.
    ///
    /// # Errors
    /// Returns an error if no image has been released yet.
    pub(crate) fn latest_released(&self) -> Outcome<u32> {
        let none = xr::Result::ERROR_LAYER_INVALID;
        (self.newest)
            .ok_or_else(|| with_message(none, c"a layer's swapchain has no released image"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_acquired_in_turn() {
        let mut images = ImageQueue::new(3, false);
        assert_eq!(
            images.latest_released(),
            Err(xr::Result::ERROR_LAYER_INVALID)
        );
        for round in 0..7 {
            assert_eq!(images.acquire(), Ok(round % 3));
            assert_eq!(images.next_to_wait(), Ok(round % 3));
            images.mark_waited();
            images.release().unwrap();
            assert_eq!(images.latest_released(), Ok(round % 3));
        }
    }

    #[test]
    fn calls_out_of_order_are_rejected() {
        let mut images = ImageQueue::new(2, false);
        assert_eq!(images.next_to_wait(), Err(ORDER));
        assert_eq!(images.release(), Err(ORDER));
        images.acquire().unwrap();
        assert_eq!(images.release(), Err(ORDER), "not waited for");
        images.acquire().unwrap();
        assert_eq!(images.acquire(), Err(ORDER), "both are acquired");
        images.mark_waited();
        assert_eq!(
            images.next_to_wait(),
            Err(ORDER),
            "the first is not released"
        );
        images.release().unwrap();
        assert_eq!(images.latest_released(), Ok(0));
        assert_eq!(images.next_to_wait(), Ok(1));
        assert_eq!(images.release(), Err(ORDER));
    }

    #[test]
    fn a_static_image_is_acquired_once() {
        let mut images = ImageQueue::new(1, true);
        images.acquire().unwrap();
        images.mark_waited();
        images.release().unwrap();
        assert_eq!(images.acquire(), Err(ORDER));
        assert_eq!(images.latest_released(), Ok(0));
    }
}
