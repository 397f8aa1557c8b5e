//! What the page is told of each frame of a virtual reality before its first packet: with which pose and which views
//! it was drawn. The page finds it again by the frame's RTP time (`page/src/xr/views.ts`).

use std::collections::VecDeque;

use openuvr_proto::send::subscriber::Frame;
use openuvr_proto::time::Instant;

use crate::peer::video_ticks;

/// First byte of the message: no kind of `proto::wire::control` has it.
pub(crate) const VIEWS: u8 = 0xf2;

/// Each frame is in so many messages, since any of them may be lost. One that comes with the next frame is in time
/// only for a picture that the browser has not shown yet.
const TOLD: usize = 2;

/// The newest frames with views, oldest first.
#[derive(Default)]
pub(crate) struct Views(VecDeque<Vec<u8>>);

impl Views {
    /// The message that precedes a frame; `None` if nothing is known of its views. Numbers are little endian. Of each
    /// frame: its RTP time; the number of the player's pose that it was drawn with, 0 where there is none; how many
    /// views there are, 1 or 2 (8 bits); of each view its eye's position in metres, its orientation as a quaternion
    /// x, y, z, w, and the angles to its left, right, upper and lower side in radians (floating point, 32 bits).
    pub(crate) fn begins(&mut self, frame: &Frame) -> Option<Vec<u8>> {
        let views = frame.views.as_ref()?;
        let mut row = Vec::with_capacity(9 + 2 * 44);
        row.extend(video_ticks(Instant(frame.header.captured)).to_le_bytes());
        let pose = frame.pose.map_or(0, |echo| echo.pose.0);
        row.extend(pose.to_le_bytes());
        row.push(if views.count() == 2 { 2 } else { 1 });
        for view in views.iter() {
            let (position, orientation) = (view.pose.position(), view.pose.orientation());
            let angles = view.fov.angles();
            for number in position.iter().chain(&orientation).chain(&angles) {
                row.extend(number.to_le_bytes());
            }
        }
        if self.0.len() == TOLD {
            self.0.pop_front();
        }
        self.0.push_back(row);
        let mut message = vec![VIEWS];
        self.0.iter().for_each(|row| message.extend(row));
        Some(message)
    }
}
