//! The content of the display: the picture at its placement, the pointer if the display has no cursor plane for it, and
//! text.
//!
//! It does no I/O. Rows are composed into the caller's memory.

use std::ops::Range;
use std::sync::Arc;

use openuvr_media::cursor::{Cursor, CursorShape};
use openuvr_media::window::panel::Panel;
use openuvr_media::window::placement::{Placement, Rect};
use openuvr_proto::units::Size;

use crate::buffers::around;

/// The state that the media thread, the event thread and the input thread share.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// The display's mode.
    pub(crate) display: Size,
    /// The newest picture, packed BGRX; `None` before the first picture, while the next one is being painted, and while
    /// a decoded picture is displayed without a copy.
    picture: Option<Vec<u8>>,
    /// The picture's size; `None` before the first picture.
    size: Option<Size>,
    /// The source column of each column of the placed picture.
    columns: Vec<usize>,
    cursor: Option<Cursor>,
    /// The local pointer's position in pixels of the display; `None` before a pointing device has moved.
    pub(crate) pointer: Option<(i32, i32)>,
    pub(crate) observer: bool,
    /// Whether motion is sent relatively, so that the pointer is where the host draws it.
    pub(crate) grabbed: bool,
    /// Whether the host's application requests relative motion.
    pub(crate) relative: bool,
    /// Whether the pointer is drawn into the picture.
    pub(crate) draws_cursor: bool,
    panel: Option<Panel>,
    /// Rows of the display that have changed and are not composed yet.
    dirty: Range<u32>,
}

/// The pointer to display.
#[derive(Clone, Debug)]
pub(crate) struct PlacedCursor {
    /// The upper left corner of its shape.
    pub(crate) at: (i32, i32),
    pub(crate) shape: Arc<CursorShape>,
}

impl Scene {
    /// Adopts a different mode of the display.
    pub(crate) fn set_display(&mut self, display: Size) {
        self.display = display;
        self.pointer = self.pointer.map(|at| self.inside(at));
        self.place_columns();
        self.everything();
    }

    /// Marks all rows of the display as changed, so that they are composed again.
    pub(crate) fn everything(&mut self) {
        self.dirty = 0..self.display.height;
    }

    /// Takes the memory for the next picture of this size. It contains the previous picture if that had the same size.
    pub(crate) fn take_picture(&mut self, size: Size) -> Vec<u8> {
        let mut bytes = self.picture.take().unwrap_or_default();
        if self.size != Some(size) {
            bytes.clear();
        }
        bytes.resize(size.pixels() * 4, 0);
        bytes
    }

    /// Puts the memory back. `painted` are the rows that were painted in it.
    pub(crate) fn put_picture(&mut self, bytes: Vec<u8>, size: Size, painted: &Range<u32>) {
        self.picture = Some(bytes);
        if self.size.replace(size) == Some(size) {
            let rows = self.on_display(painted);
            self.dirty = around(&self.dirty, &rows);
        } else {
            self.place_columns();
            self.everything();
        }
    }

    /// Records that a picture of this size is displayed without being composed. In the meantime, composed rows are
    /// black.
    pub(crate) fn set_direct(&mut self, size: Size) {
        let composed = self.picture.take().is_some();
        if self.size.replace(size) != Some(size) {
            self.place_columns();
            self.everything();
        } else if composed {
            self.everything();
        }
    }

    /// Whether text or the pointer is drawn over the picture, which requires composition.
    pub(crate) fn draws_over(&self) -> bool {
        self.panel.is_some() || self.drawn_cursor().is_some()
    }

    /// The size of the displayed picture.
    pub(crate) fn size(&self) -> Option<Size> {
        self.size
    }

    /// Whether rows can be composed: there is a picture, and it is not being painted.
    pub(crate) fn is_complete(&self) -> bool {
        self.picture.is_some()
    }

    /// The changed rows, which count as composed from now on.
    pub(crate) fn take_dirty(&mut self) -> Range<u32> {
        std::mem::take(&mut self.dirty)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The position of the picture on the display. Before the first picture, it is the whole display.
    pub(crate) fn placement(&self) -> Placement {
        Placement::fit(self.display, self.size.unwrap_or(self.display))
    }

    /// Replaces the host's pointer.
    pub(crate) fn set_cursor(&mut self, cursor: Cursor) {
        self.redrawn(|scene| scene.cursor = Some(cursor));
    }

    /// Moves the local pointer by pixels of the display, within the picture. Returns its position in the picture.
    pub(crate) fn move_pointer(&mut self, (dx, dy): (i32, i32)) -> (u16, u16) {
        let area = self.placement().area;
        let middle = (area.x + area.width / 2, area.y + area.height / 2);
        let (x, y) = self.pointer.unwrap_or(middle);
        self.set_pointer((x.saturating_add(dx), y.saturating_add(dy)))
    }

    /// Places the local pointer. Returns its position in the picture.
    pub(crate) fn set_pointer(&mut self, at: (i32, i32)) -> (u16, u16) {
        let at = self.inside(at);
        self.redrawn(|scene| scene.pointer = Some(at));
        self.placement().place(at.0, at.1)
    }

    /// Changes state on which the pointer depends. If the pointer is drawn into the picture, marks its rows as changed.
    pub(crate) fn redrawn(&mut self, change: impl FnOnce(&mut Scene)) {
        let before = self.drawn_cursor();
        change(self);
        let after = self.drawn_cursor();
        for cursor in [before, after].into_iter().flatten() {
            let rows = self.rows(cursor.at.1, cursor.shape.height.into());
            self.dirty = around(&self.dirty, &rows);
        }
    }

    /// Shows lines of text, or none if there are no lines.
    pub(crate) fn set_panel(&mut self, lines: &[String]) {
        let before = self.panel_area();
        self.panel = match lines {
            [] => None,
            lines => Some(Panel::new(lines, self.display)),
        };
        for area in [before, self.panel_area()].into_iter().flatten() {
            let rows = self.rows(area.y, area.height);
            self.dirty = around(&self.dirty, &rows);
        }
    }

    /// The pointer to display. For a player, it is at the position of the local pointer, which moves without waiting
    /// for the host. It is at the host's position in three cases: for an observer, while motion is sent relatively, and
    /// before a pointing device has moved. Its shape always comes from the host. `None` while the host hides it, and
    /// before the host has sent a shape.
    pub(crate) fn cursor(&self) -> Option<PlacedCursor> {
        let cursor = self.cursor.as_ref()?;
        let hosts = self.placement().pixel(cursor.at?);
        let at = match self.pointer {
            Some(own) if !self.observer && !self.grabbed => own,
            _ => hosts,
        };
        let hot = (i32::from(cursor.shape.hot_x), i32::from(cursor.shape.hot_y));
        (cursor.shape.width > 0 && cursor.shape.height > 0).then(|| PlacedCursor {
            at: (at.0 - hot.0, at.1 - hot.1),
            shape: Arc::clone(&cursor.shape),
        })
    }

    fn drawn_cursor(&self) -> Option<PlacedCursor> {
        self.cursor().filter(|_| self.draws_cursor)
    }

    fn panel_area(&self) -> Option<Rect> {
        let panel = self.panel.as_ref()?;
        self.placement().panel((panel.width, panel.height))
    }

    /// Composes a row of the display into packed BGRX.
    pub(crate) fn compose(&self, row: u32, bgrx: &mut [u8]) {
        bgrx.fill(0);
        let placement = self.placement();
        let area = placement.area;
        let y = i32::try_from(row).unwrap_or(i32::MAX);
        if let Some(picture) = &self.picture
            && let Some(size) = self.size
            && (area.y..area.y + area.height).contains(&y)
        {
            let from = (i64::from(y - area.y) * i64::from(size.height)) / i64::from(area.height);
            let bytes = size.width as usize * 4;
            let start = usize::try_from(from).unwrap_or(0) * bytes;
            let (x, width) = (pixels(area.x), pixels(area.width));
            if let (Some(from), Some(to)) = (
                picture.get(start..start + bytes),
                bgrx.get_mut(x * 4..(x + width) * 4),
            ) {
                if placement.is_unscaled() {
                    to.copy_from_slice(from);
                } else {
                    let (to, from) = (to.as_chunks_mut::<4>().0, from.as_chunks::<4>().0);
                    for (to, column) in to.iter_mut().zip(&self.columns) {
                        *to = from.get(*column).copied().unwrap_or_default();
                    }
                }
            }
        }
        if let Some((panel, area)) = self.panel.as_ref().zip(self.panel_area()) {
            let size = (panel.width, panel.height);
            blend(bgrx, y, (area.x, area.y), size, &panel.argb);
        }
        if let Some(PlacedCursor { at, shape }) = self.drawn_cursor() {
            blend(bgrx, y, at, (shape.width, shape.height), &shape.argb);
        }
    }

    fn place_columns(&mut self) {
        let area = self.placement().area;
        let width = self.size.unwrap_or(self.display).width as usize;
        let across = pixels(area.width);
        self.columns = (0..across).map(|x| x * width / across.max(1)).collect();
    }

    /// The rows of the display that show these rows of the picture.
    fn on_display(&self, rows: &Range<u32>) -> Range<u32> {
        let placement = self.placement();
        let (Some(size), false) = (self.size, rows.is_empty()) else {
            return 0..0;
        };
        let area = placement.area;
        let (height, shown) = (i64::from(size.height.max(1)), i64::from(area.height));
        let first = i64::from(rows.start) * shown / height;
        let end = (i64::from(rows.end) * shown + height - 1) / height;
        let count = |rows: i64| i32::try_from(rows).unwrap_or(i32::MAX);
        self.rows(area.y + count(first), count(end - first))
    }

    /// `count` rows from `first` on, limited to the rows of the display.
    fn rows(&self, first: i32, count: i32) -> Range<u32> {
        let limit = |row: i32| {
            u32::try_from(row.max(0))
                .unwrap_or(0)
                .min(self.display.height)
        };
        limit(first)..limit(first.saturating_add(count))
    }

    /// The pixel of the picture that is nearest to this position.
    fn inside(&self, (x, y): (i32, i32)) -> (i32, i32) {
        let area = self.placement().area;
        (
            x.clamp(area.x, area.x + area.width - 1),
            y.clamp(area.y, area.y + area.height - 1),
        )
    }
}

fn pixels(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// Draws a row of premultiplied ARGB pixels over a row of BGRX. `at` is the upper left corner of the shape.
fn blend(bgrx: &mut [u8], y: i32, at: (i32, i32), size: (u16, u16), argb: &[u32]) {
    let width = usize::from(size.0);
    if y < at.1 || y >= at.1 + i32::from(size.1) {
        return;
    }
    let start = pixels(y - at.1) * width;
    let Some(row) = argb.get(start..start + width) else {
        return;
    };
    let row = row.get(pixels(-at.0)..).unwrap_or_default();
    let under = bgrx.as_chunks_mut::<4>().0;
    let under = under.get_mut(pixels(at.0)..).unwrap_or_default();
    for (under, over) in under.iter_mut().zip(row) {
        let [blue, green, red, alpha] = over.to_le_bytes();
        for (under, over) in under.iter_mut().zip([blue, green, red]) {
            let rest = u16::from(*under) * (255 - u16::from(alpha)) / 255;
            *under = over.saturating_add(u8::try_from(rest).unwrap_or(u8::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(display: Size, picture: Size) -> Scene {
        let mut scene = Scene::default();
        scene.set_display(display);
        let mut bytes = scene.take_picture(picture);
        // Each pixel's value contains its column and row.
        for (at, pixel) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (x, y) = (at % picture.width as usize, at / picture.width as usize);
            *pixel = [x, y, 1, 0].map(|n| u8::try_from(n).unwrap());
        }
        scene.put_picture(bytes, picture, &(0..picture.height));
        scene
    }

    fn row(scene: &Scene, y: u32) -> Vec<[u8; 4]> {
        let mut row = vec![9; scene.display.width as usize * 4];
        scene.compose(y, &mut row);
        row.as_chunks::<4>().0.to_vec()
    }

    fn shape(width: u16, height: u16, pixel: u32) -> Arc<CursorShape> {
        Arc::new(CursorShape {
            width,
            height,
            hot_x: 0,
            hot_y: 0,
            argb: vec![pixel; usize::from(width) * usize::from(height)],
        })
    }

    #[test]
    fn a_picture_is_copied_or_scaled_between_bars() {
        let same = scene(Size::new(8, 4), Size::new(8, 4));
        let expected: Vec<[u8; 4]> = (0..8).map(|x| [x, 3, 1, 0]).collect();
        assert_eq!(row(&same, 3), expected);
        let scaled = scene(Size::new(12, 4), Size::new(4, 2));
        assert_eq!(scaled.placement().area.width, 8);
        let columns: Vec<u8> = row(&scaled, 3).iter().map(|pixel| pixel[0]).collect();
        assert_eq!(columns, [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(row(&scaled, 3)[1], [0; 4], "the bars are black");
        assert_eq!(row(&scaled, 3)[2], [0, 1, 1, 0]);
    }

    #[test]
    fn only_changed_rows_are_dirty() {
        let mut scene = scene(Size::new(12, 8), Size::new(4, 2));
        assert_eq!(scene.take_dirty(), 0..8);
        let bytes = scene.take_picture(Size::new(4, 2));
        assert!(!scene.is_complete());
        scene.put_picture(bytes, Size::new(4, 2), &(1..2));
        // The picture covers 12 x 6 pixels, below a bar of one row.
        assert_eq!(scene.take_dirty(), 4..7);
        let bytes = scene.take_picture(Size::new(4, 2));
        scene.put_picture(bytes, Size::new(4, 2), &(0..0));
        assert!(!scene.is_dirty());
        scene.set_panel(&["x".to_owned()]);
        assert!(!scene.is_dirty(), "no row of the picture is left for it");
    }

    /// Composes the dirty rows, and only these, into the displayed buffer.
    fn update(scene: &mut Scene, front: &mut [Vec<u8>]) {
        for y in scene.take_dirty() {
            scene.compose(y, &mut front[y as usize]);
        }
    }

    /// Paints rows of the next picture, as a slice that is displayed at once.
    fn paint_slice(scene: &mut Scene, size: Size, rows: Range<u32>, shade: u8) {
        let mut bytes = scene.take_picture(size);
        let row = size.width as usize * 4;
        bytes[rows.start as usize * row..rows.end as usize * row].fill(shade);
        scene.put_picture(bytes, size, &rows);
    }

    #[test]
    fn slices_give_the_whole_picture_after_any_interruption() {
        let size = Size::new(30, 20);
        // Unscaled between bars, enlarged, reduced.
        for display in [Size::new(40, 24), Size::new(71, 49), Size::new(23, 17)] {
            let mut scene = scene(display, size);
            let mut front = vec![vec![9; display.width as usize * 4]; display.height as usize];
            scene.draws_cursor = true;
            scene.set_cursor(Cursor {
                at: Some((9_000, 20_000)),
                shape: shape(3, 5, 0x8000_ff00),
            });
            update(&mut scene, &mut front);
            for frame in 1..=60_u8 {
                // Some frames end after one or two of their four slices, and some slices are not changed.
                let slices = if frame % 7 < 2 { 1 + frame % 7 } else { 4 };
                for slice in 0..slices {
                    if (frame >> slice) & 3 != 3 {
                        let first = u32::from(slice) * 5;
                        paint_slice(&mut scene, size, first..first + 5, frame);
                    }
                    if frame % 5 == slice {
                        scene.set_pointer((i32::from(frame) % 29, i32::from(slice) * 6));
                        scene.set_panel(&vec!["x".to_owned(); usize::from(frame % 2)]);
                    }
                    update(&mut scene, &mut front);
                    for (y, shown) in (0..).zip(&front) {
                        let mut expected = vec![9; shown.len()];
                        scene.compose(y, &mut expected);
                        assert_eq!(*shown, expected, "{display}, frame {frame}, row {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_direct_picture_is_placed_over_black_rows() {
        let size = Size::new(4, 2);
        let mut scene = scene(Size::new(12, 8), size);
        scene.take_dirty();
        scene.set_direct(size);
        assert!(!scene.is_complete() && !scene.draws_over());
        assert_eq!(scene.take_dirty(), 0..8);
        assert_eq!(row(&scene, 4), [[0; 4]; 12]);
        assert_eq!(scene.placement().area.height, 6);
        scene.set_direct(size);
        assert!(!scene.is_dirty());
        scene.set_direct(Size::new(4, 4));
        assert_eq!(scene.placement().area.height, 8);
        scene.set_panel(&["x".to_owned()]);
        assert!(scene.draws_over());
        // The next picture is composed again.
        let bytes = scene.take_picture(size);
        scene.put_picture(bytes, size, &(0..2));
        assert!(scene.is_complete());
        assert_eq!(scene.take_dirty(), 0..8);
    }

    #[test]
    fn the_pointer_is_drawn_only_without_a_cursor_plane() {
        let mut scene = scene(Size::new(8, 8), Size::new(8, 8));
        scene.take_dirty();
        scene.set_cursor(Cursor {
            at: Some((0, 0)),
            shape: shape(2, 2, 0xff11_2233),
        });
        assert!(!scene.is_dirty());
        assert_eq!(scene.cursor().unwrap().at, (0, 0));
        scene.draws_cursor = true;
        scene.set_pointer((100, 5));
        assert_eq!(scene.take_dirty(), 0..7);
        assert_eq!(row(&scene, 5)[7], [0x33, 0x22, 0x11, 0]);
        assert_eq!(row(&scene, 4)[7], [7, 4, 1, 0]);
        // While motion is relative, the pointer is at the host's position.
        scene.redrawn(|scene| scene.grabbed = true);
        assert_eq!(scene.cursor().unwrap().at, (0, 0));
        assert_eq!(scene.take_dirty(), 0..7);
    }

    #[test]
    fn the_local_pointer_stays_in_the_picture() {
        let mut scene = scene(Size::new(100, 100), Size::new(100, 50));
        assert_eq!(scene.move_pointer((-1000, -1000)), (328, 655));
        assert_eq!(scene.pointer, Some((0, 25)));
        scene.move_pointer((10, 1000));
        assert_eq!(scene.pointer, Some((10, 74)));
        scene.set_display(Size::new(5, 5));
        assert_eq!(scene.pointer, Some((4, 3)));
    }

    #[test]
    fn a_translucent_shape_is_blended_and_clipped() {
        let mut row = [[100, 100, 100, 0]; 3];
        let under = row.as_flattened_mut();
        blend(under, 1, (-1, 0), (3, 2), &[0x8000_0040; 6]);
        assert_eq!(
            row,
            [[113, 49, 49, 0], [113, 49, 49, 0], [100, 100, 100, 0]]
        );
        blend(row.as_flattened_mut(), 2, (0, 0), (3, 2), &[0xffff_ffff; 6]);
        assert_eq!(row[2], [100, 100, 100, 0]);
    }
}
