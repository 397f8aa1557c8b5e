//! Pictures in dma-bufs on their way from the decoder to the surface. Anonymous files replace the memory of a device;
//! they can be passed on, but not copied, because the kernel copies only from a device's memory.

use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use openuvr_media::decode::DecodeError;
use openuvr_media::dma_buf::{DmaBufPicture, LINEAR, Layout, NV12, Objects, PlaneLayout};
use openuvr_media::picture::Picture;
use openuvr_media::present::{Canvas, PresentError};
use openuvr_proto::id::InputSeq;
use openuvr_proto::wire::video::{EchoKind, InputEcho};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

/// The size of the decoder's pictures: whole macroblocks.
const CODED: Size = Size::new(64, 48);

/// The size of the stream's pictures.
const VISIBLE: Size = Size::new(60, 40);

/// The memory of a picture.
struct Buffer {
    file: OwnedFd,
    in_use: Arc<AtomicUsize>,
}

impl Objects for Buffer {
    fn object(&self, number: usize) -> Option<BorrowedFd<'_>> {
        (number == 0).then(|| self.file.as_fd())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A decoder with its own memory. Counts the buffers in use.
struct DeviceDecoder(Arc<AtomicUsize>);

impl Decoder for DeviceDecoder {
    fn feed(&mut self, _: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        panic!("the surface has a canvas");
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        _: Option<View>,
        _: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        if !chunk.last {
            return Ok(None);
        }
        let file = memfd_create("decoder", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 64 * 48 * 3 / 2).unwrap();
        self.0.fetch_add(1, Ordering::Relaxed);
        let buffer = Buffer {
            file,
            in_use: Arc::clone(&self.0),
        };
        let plane = |offset| PlaneLayout {
            object: 0,
            offset,
            pitch: 64,
        };
        let planes = [plane(0), plane(64 * 48)];
        let layout = Layout::new(CODED, NV12, LINEAR, &planes).unwrap();
        let picture = DmaBufPicture::new(layout, Arc::new(buffer)).unwrap();
        Ok(Some(Decoded::DmaBuf(picture)))
    }
}

/// A decoder that paints on the surface's canvas.
struct CanvasDecoder;

impl Decoder for CanvasDecoder {
    fn feed(&mut self, _: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        panic!("the surface has a canvas");
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        _: Option<View>,
        _: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        Ok(chunk.last.then_some(Decoded::OnCanvas(VISIBLE)))
    }
}

/// A decoder with pictures in its own memory.
struct MemoryDecoder(Vec<u8>);

impl Decoder for MemoryDecoder {
    fn feed(&mut self, _: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        panic!("the surface has a canvas");
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        _: Option<View>,
        _: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        let picture = Picture::bgrx(CODED, &self.0, 64 * 4);
        Ok(chunk.last.then_some(Decoded::Picture(picture)))
    }
}

/// A surface's reaction to a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Displays,
    Refuses,
    IsGone,
}

/// A surface's state, shared with the test.
struct State {
    answer: Answer,
    displayed: Option<(FrameId, DmaBufPicture)>,
    copies: usize,
}

/// A surface that displays one picture.
struct Display(Arc<Mutex<State>>);

impl Presenter for Display {
    fn present(&mut self, _: FrameId, _: &Picture<'_>) -> Result<(), PresentError> {
        self.0.lock().unwrap().copies += 1;
        Ok(())
    }

    fn has_skipped(&self) -> bool {
        self.0.lock().unwrap().answer != Answer::Displays
    }

    fn present_dma_buf(
        &mut self,
        frame: FrameId,
        picture: &DmaBufPicture,
    ) -> Result<bool, PresentError> {
        let mut state = self.0.lock().unwrap();
        match state.answer {
            Answer::Displays => {
                state.displayed = Some((frame, picture.clone()));
                Ok(true)
            }
            Answer::Refuses => Ok(false),
            Answer::IsGone => Err(PresentError("the display is gone".to_owned())),
        }
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        Some(self)
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

impl Canvas for Display {
    fn rows(&mut self, _: Size, _: Range<u32>) -> Option<&mut [u8]> {
        None
    }

    fn show(&mut self, _: FrameId, _: Size) -> Result<bool, PresentError> {
        Ok(self.0.lock().unwrap().answer == Answer::Displays)
    }
}

/// A screen with a [`DeviceDecoder`] and a [`Display`].
struct Rig {
    screen: Screen,
    state: Arc<Mutex<State>>,
    in_use: Arc<AtomicUsize>,
}

impl Rig {
    fn new(answer: Answer) -> Rig {
        let state = State {
            answer,
            displayed: None,
            copies: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let in_use = Arc::new(AtomicUsize::new(0));
        let mut screen = Screen::new(None);
        screen.presenter = Some(Box::new(Display(Arc::clone(&state))));
        let decoder = DeviceDecoder(Arc::clone(&in_use));
        screen.decoder = Some((ConfigEpoch(1), Box::new(decoder)));
        Rig {
            screen,
            state,
            in_use,
        }
    }

    /// Feeds a frame of two slices. Returns the outcome of the last one.
    fn frame(&mut self, number: u32, outdated: bool) -> ShowOutcome {
        self.screen.start_frame();
        let first = self.screen.show(&slice(number, true), outdated);
        assert!(matches!(first, ShowOutcome::Ok));
        assert_eq!(self.screen.presentation.decoded, None);
        self.screen.show(&slice(number, false), outdated)
    }

    fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    fn displayed(&self) -> Option<FrameId> {
        let state = self.state.lock().unwrap();
        state.displayed.as_ref().map(|(frame, _)| *frame)
    }
}

/// The first or the last slice of a key frame.
fn slice(frame: u32, first: bool) -> VideoOutput<'static> {
    VideoOutput::Slice {
        header: FrameHeader {
            frame: FrameId(frame),
            reference: FrameId::NONE,
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: 0,
            clock_epoch: 0,
            echo: InputEcho {
                seq: InputSeq(0),
                kind: EchoKind::Injected,
            },
        },
        configuration: Configuration {
            size: VISIBLE,
            codec: 0,
            colour: 1,
            fps: 60,
        },
        viewpoint: Viewpoint::default(),
        macroblocks: (0, 0),
        first,
        last: !first,
        bytes: b"slice",
    }
}

#[test]
fn a_displayed_picture_keeps_its_buffer_until_the_next() {
    let mut rig = Rig::new(Answer::Displays);
    for number in 1..=3 {
        assert!(matches!(rig.frame(number, false), ShowOutcome::Ok));
        assert!(rig.screen.presentation.submitted.is_some());
        assert_eq!(rig.displayed(), Some(FrameId(number)));
        assert_eq!(rig.in_use(), 1, "the previous buffer is free again");
    }
    let state = rig.state.lock().unwrap();
    assert_eq!(state.copies, 0);
    let (_, picture) = state.displayed.as_ref().unwrap();
    assert_eq!(picture.size(), VISIBLE, "without the decoder's margin");
    assert_eq!(picture.layout().size, CODED);
}

#[test]
fn a_refused_picture_that_cannot_be_copied_fails_alone() {
    let mut rig = Rig::new(Answer::Refuses);
    let ShowOutcome::DecodeFailed(why) = rig.frame(1, false) else {
        panic!("a picture without a copy was shown");
    };
    assert!(why.contains("the decoder's memory can't be read"), "{why}");
    let failure = Some((Stage::Decoded, DropCause::DecodeFailed));
    assert_eq!(rig.screen.presentation.failure, failure);
    assert_eq!(rig.screen.presentation.submitted, None);
    assert_eq!(rig.in_use(), 0, "the decoder has its buffer again");
    assert_eq!(rig.state.lock().unwrap().copies, 0);
    // The next frame is not affected.
    rig.state.lock().unwrap().answer = Answer::Displays;
    assert!(matches!(rig.frame(2, false), ShowOutcome::Ok));
    assert_eq!(rig.displayed(), Some(FrameId(2)));
}

#[test]
fn an_outdated_picture_returns_to_the_decoder_unseen() {
    let mut rig = Rig::new(Answer::Displays);
    assert!(matches!(rig.frame(1, true), ShowOutcome::Ok));
    let failure = Some((Stage::Submitted, DropCause::Superseded));
    assert_eq!(rig.screen.presentation.failure, failure);
    assert!(rig.screen.presentation.decoded.is_some());
    assert_eq!((rig.displayed(), rig.in_use()), (None, 0));
}

#[test]
fn a_picture_that_a_hung_display_skips_is_not_submitted() {
    let decoders: [Box<dyn Decoder>; 2] = [
        Box::new(CanvasDecoder),
        Box::new(MemoryDecoder(vec![0; 64 * 48 * 4])),
    ];
    for decoder in decoders {
        let mut rig = Rig::new(Answer::Refuses);
        rig.screen.decoder = Some((ConfigEpoch(1), decoder));
        assert!(matches!(rig.frame(1, false), ShowOutcome::Ok));
        let failure = Some((Stage::Submitted, DropCause::Superseded));
        assert_eq!(rig.screen.presentation.failure, failure);
        assert_eq!(rig.screen.presentation.submitted, None);
        rig.state.lock().unwrap().answer = Answer::Displays;
        assert!(matches!(rig.frame(2, false), ShowOutcome::Ok));
        assert!(rig.screen.presentation.submitted.is_some());
        assert_eq!(rig.screen.presentation.failure, None);
    }
}

#[test]
fn a_surface_that_is_gone_returns_the_picture() {
    let mut rig = Rig::new(Answer::IsGone);
    let ShowOutcome::SurfaceLost(why) = rig.frame(1, false) else {
        panic!("the surface is not reported as lost");
    };
    assert_eq!(why, "the display is gone");
    assert_eq!(rig.in_use(), 0);
}

#[test]
fn no_surface_is_opened_for_oversized_pictures() {
    let mut screen = Screen::new(None);
    screen.start_frame();
    let outcomes = [true, false].map(|first| {
        let mut step = slice(1, first);
        if let VideoOutput::Slice { configuration, .. } = &mut step {
            configuration.size = Size::new(Size::MAX_SIDE, Size::MAX_SIDE);
        }
        screen.show(&step, false)
    });
    let [ShowOutcome::DecodeFailed(why), ShowOutcome::Ok] = outcomes else {
        panic!("the pictures were not refused");
    };
    assert!(why.contains("16384x16384"), "{why}");
    screen.start_frame();
    let next = screen.show(&slice(2, true), false);
    assert!(matches!(next, ShowOutcome::NeedsSurface(_)));
}
