//! Messages with the pose and views of each virtual-reality frame, sent before its first packet. The page matches them by
//! the frame's RTP timestamp (`page/src/xr/views.ts`).

use std::collections::VecDeque;

use openuvr_proto::send::subscriber::Frame;
use openuvr_proto::time::Instant;

use crate::peer::video_ticks;

/// First byte of the message. No message of `proto::wire::control` begins with this byte.
pub(crate) const VIEWS: u8 = 0xf2;

/// Each frame is listed in this number of consecutive messages, because messages may be lost. The second message, sent
/// with the next frame, is useful only if it arrives before the browser has shown the picture.
const REPETITIONS: usize = 2;

/// The newest frames with views, oldest first.
#[derive(Default)]
pub(crate) struct Views(VecDeque<Vec<u8>>);

impl Views {
    /// The message that precedes a frame; `None` if the frame's views are unknown. Numbers are little endian. For each
    /// frame: RTP timestamp; number of the player's pose with which the frame was drawn, or 0 for none; number of
    /// views, 1 or 2 (8 bits); and the views. For each view: the eye's position in metres, its orientation as a
    /// quaternion x, y, z, w, and the angles to the left, right, upper and lower edge of its field of view in radians
    /// (floating point, 32 bits).
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
        if self.0.len() == REPETITIONS {
            self.0.pop_front();
        }
        self.0.push_back(row);
        let mut message = vec![VIEWS];
        self.0.iter().for_each(|row| message.extend(row));
        Some(message)
    }
}
