//! Messages about sent frames. The RTP timestamp identifies a frame's picture in the browser, and the frame number
//! identifies the frame in the page's report to the host.

use std::collections::VecDeque;

use openuvr_proto::send::subscriber::Departure;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::video::FrameHeader;

use crate::peer::video_ticks;

/// First byte of a message about frames. No message of `proto::wire::control` begins with this byte.
pub(crate) const FRAMES: u8 = 0xf0;

/// Each frame is listed in this number of consecutive messages, because messages may be lost.
const REPETITIONS: usize = 4;

/// The newest sent frames, oldest first.
#[derive(Default)]
pub(crate) struct Frames(VecDeque<Vec<u8>>);

/// The times at which the slices of a frame left the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Encoding {
    pub(crate) first_slice: Instant,
    pub(crate) last_slice: Instant,
}

impl Frames {
    /// The message that follows a frame. Numbers are little endian. The message has an entry for each of the newest
    /// frames. An entry consists of the frame number, the RTP timestamp, the capture time (64 bits, nanoseconds of the
    /// host's clock), the times of the first slice, the last slice, the first datagram and the last datagram
    /// (microseconds after the capture), the number of bytes sent, and the number of the newest input that the frame
    /// may show.
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
        if self.0.len() == REPETITIONS {
            self.0.pop_front();
        }
        self.0.push_back(row);
        let mut message = vec![FRAMES];
        self.0.iter().for_each(|row| message.extend(row));
        message
    }
}
