//! Acquire, wait and release of swapchain images (OpenXR 1.0, section 10.1).

use std::collections::VecDeque;

use openxr_sys as xr;

use crate::border::Outcome;
use crate::debug::because;

const ORDER: xr::Result = xr::Result::ERROR_CALL_ORDER_INVALID;

/// The images of one swapchain.
#[derive(Debug)]
pub(crate) struct Images {
    /// Not acquired; the least recently released first.
    free: VecDeque<u32>,
    /// Acquired and not released, in this order.
    acquired: VecDeque<u32>,
    /// The first acquired image was waited for.
    waited: bool,
    /// Released last: the image that a layer shows.
    newest: Option<u32>,
    /// A single image that is acquired once.
    is_static: bool,
}

impl Images {
    pub(crate) fn new(count: u32, is_static: bool) -> Images {
        Images {
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
            return Err(because(ORDER, c"a static image is acquired once"));
        }
        let index = self.free.pop_front();
        let index = index.ok_or_else(|| because(ORDER, c"all images are acquired: release one"))?;
        self.acquired.push_back(index);
        Ok(index)
    }

    /// The image of `xrWaitSwapchainImage`: the one that was acquired first.
    pub(crate) fn to_wait_for(&self) -> Outcome<u32> {
        let first = self.acquired.front().filter(|_| !self.waited);
        first.copied().ok_or_else(|| {
            let words = c"no image is acquired, or the one that was acquired first was waited for";
            because(ORDER, words)
        })
    }

    /// Marks the first acquired image as waited for.
    pub(crate) fn waited(&mut self) {
        self.waited = true;
    }

    /// `xrReleaseSwapchainImage`.
    pub(crate) fn release(&mut self) -> Outcome<()> {
        if !std::mem::take(&mut self.waited) {
            return Err(because(ORDER, c"xrWaitSwapchainImage comes first"));
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
    /// No image was released yet.
    pub(crate) fn shown(&self) -> Outcome<u32> {
        let none = xr::Result::ERROR_LAYER_INVALID;
        (self.newest).ok_or_else(|| because(none, c"no image of a layer's swapchain was released"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_acquired_in_turn() {
        let mut images = Images::new(3, false);
        assert_eq!(images.shown(), Err(xr::Result::ERROR_LAYER_INVALID));
        for round in 0..7 {
            assert_eq!(images.acquire(), Ok(round % 3));
            assert_eq!(images.to_wait_for(), Ok(round % 3));
            images.waited();
            images.release().unwrap();
            assert_eq!(images.shown(), Ok(round % 3));
        }
    }

    #[test]
    fn calls_out_of_order_are_rejected() {
        let mut images = Images::new(2, false);
        assert_eq!(images.to_wait_for(), Err(ORDER));
        assert_eq!(images.release(), Err(ORDER));
        images.acquire().unwrap();
        assert_eq!(images.release(), Err(ORDER), "not waited for");
        images.acquire().unwrap();
        assert_eq!(images.acquire(), Err(ORDER), "both are acquired");
        images.waited();
        assert_eq!(
            images.to_wait_for(),
            Err(ORDER),
            "the first is not released"
        );
        images.release().unwrap();
        assert_eq!(images.shown(), Ok(0));
        assert_eq!(images.to_wait_for(), Ok(1));
        assert_eq!(images.release(), Err(ORDER));
    }

    #[test]
    fn a_static_image_is_acquired_once() {
        let mut images = Images::new(1, true);
        images.acquire().unwrap();
        images.waited();
        images.release().unwrap();
        assert_eq!(images.acquire(), Err(ORDER));
        assert_eq!(images.shown(), Ok(0));
    }
}
