//! What the page is told of each frame that left: by its RTP time it finds the picture that it shows, by its
//! number the host the frame that the page reports on.

use std::collections::VecDeque;

use openuvr_proto::send::subscriber::Departure;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::video::FrameHeader;

use crate::peer::video_ticks;

/// First byte of a message on frames: no kind of `proto::wire::control` has it.
pub(crate) const FRAMES: u8 = 0xf0;

/// Each frame is in so many messages, since any of them may be lost.
const TOLD: usize = 4;

/// The newest frames that left, oldest first.
#[derive(Default)]
pub(crate) struct Frames(VecDeque<Vec<u8>>);

/// When the encoder handed a frame over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Encoding {
    /// Its first slice.
    pub(crate) first_slice: Instant,
    /// Its last.
    pub(crate) last_slice: Instant,
}

impl Frames {
    /// The message that follows a frame. Numbers are little endian: the frame, its RTP time, when it was
    /// captured (64 bits, nanoseconds of the host's clock); in microseconds behind that the first slice,
    /// the last, the first datagram, the last; the frame's bytes; the newest input that it may show.
    pub(crate) fn left(
        &mut self,
        header: &FrameHeader,
        encoding: Encoding,
        departure: &Departure,
    ) -> Vec<u8> {
        let captured = Instant(header.captured);
        let mut row = Vec::with_capacity(40);
        row.extend(header.frame.0.to_le_bytes());
        row.extend(video_ticks(captured).to_le_bytes());
        row.extend(captured.0.to_le_bytes());
        let (first, last) = (encoding.first_slice, encoding.last_slice);
        for at in [
            first,
            last,
            departure.first.unwrap_or(last),
            departure.last.unwrap_or(last),
        ] {
            let micros = at.since(captured).as_micros();
            row.extend(u32::try_from(micros).unwrap_or(u32::MAX).to_le_bytes());
        }
        row.extend(departure.bytes.to_le_bytes());
        row.extend(header.echo.seq.0.to_le_bytes());
        if self.0.len() == TOLD {
            self.0.pop_front();
        }
        self.0.push_back(row);
        let mut message = vec![FRAMES];
        self.0.iter().for_each(|row| message.extend(row));
        message
    }
}
