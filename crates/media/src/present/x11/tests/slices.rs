//! Rows that are displayed before their picture is complete.

use super::*;

fn window_of_slices(size: Size) -> WindowConfig {
    WindowConfig {
        slices: true,
        ..window_of(size)
    }
}

impl Fixture {
    /// Paints rows of the next picture and announces them.
    fn slice(&mut self, rows: Range<u32>, shade: u8) {
        let canvas = self.presenter.canvas().expect("lent");
        canvas.rows(SIZE, rows).expect("memory").fill(shade);
        canvas.show_rows().expect("alive");
    }

    fn complete(&mut self, frame: u32) {
        let canvas = self.presenter.canvas().expect("lent");
        assert!(canvas.show(FrameId(frame), SIZE).expect("alive"));
    }

    /// The shade of each row of the window. All pixels of a row must have the same shade.
    fn shades(&self) -> Vec<u8> {
        let image = rgb(&self.read((0, 0), (64, 48)));
        let rows = image.chunks(64).map(|row| {
            assert!(row.iter().all(|pixel| *pixel == [row[0][0]; 3]), "{row:?}");
            row[0][0]
        });
        rows.collect()
    }
}

/// The shades of all rows. Each part has a shade and the row before which it ends.
fn rows_of(parts: &[(u8, usize)]) -> Vec<u8> {
    let mut rows = Vec::new();
    for (shade, end) in parts {
        rows.resize(*end, *shade);
    }
    rows
}

#[test]
fn rows_appear_as_they_are_painted_above_the_previous_picture() {
    let Some(mut it) = fixture(window_of_slices(SIZE)) else {
        return;
    };
    it.settle();
    it.slice(0..12, 9);
    assert_eq!(it.shades(), [0; 48], "the first picture appears as a whole");
    it.slice(12..48, 10);
    it.complete(1);
    assert_eq!(it.shades(), rows_of(&[(9, 12), (10, 48)]));
    it.slice(0..12, 20);
    assert_eq!(it.shades(), rows_of(&[(20, 12), (10, 48)]));
    // The rows between the two slices are not changed.
    it.slice(20..30, 21);
    let shown = [(20, 12), (10, 20), (21, 30), (10, 48)];
    assert_eq!(it.shades(), rows_of(&shown));
    it.complete(2);
    assert_eq!(it.shades(), rows_of(&shown), "no row is left");
    it.slice(0..48, 30);
    it.complete(3);
    assert_eq!(it.shades(), [30; 48]);
    assert_eq!(it.presenter.skipped(), 0);
}

#[test]
fn without_the_setting_a_picture_appears_as_a_whole() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    it.settle();
    it.present(SIZE, &vec![10; SIZE.pixels() * 4]);
    it.slice(0..24, 20);
    assert_eq!(it.shades(), [10; 48]);
    it.complete(2);
    assert_eq!(it.shades(), rows_of(&[(20, 24), (10, 48)]));
}

#[test]
fn a_frame_that_fails_half_way_is_painted_over_by_the_next() {
    let Some(mut it) = fixture(window_of_slices(SIZE)) else {
        return;
    };
    it.settle();
    it.present(SIZE, &vec![10; SIZE.pixels() * 4]);
    it.slice(0..12, 20);
    it.slice(12..24, 20);
    // The rest of the picture never arrives, and the input source repaints the incomplete picture.
    let half = rows_of(&[(20, 24), (10, 48)]);
    it.source.repaint().expect("alive");
    assert_eq!(it.shades(), half);
    it.slice(0..12, 30);
    assert_eq!(it.shades(), rows_of(&[(30, 12), (20, 24), (10, 48)]));
    it.slice(12..48, 30);
    it.complete(3);
    assert_eq!(it.shades(), [30; 48]);
    it.source.repaint().expect("alive");
    assert_eq!(it.shades(), [30; 48]);
    // A whole picture also replaces an incomplete one.
    it.slice(0..12, 40);
    it.present(SIZE, &vec![50; SIZE.pixels() * 4]);
    assert_eq!(it.shades(), [50; 48]);
}

#[test]
fn pointer_and_text_stay_over_new_rows() {
    let size = Size::new(128, 96);
    let config = WindowConfig {
        slices: true,
        observer: true,
        ..window_of(size)
    };
    let Some(mut it) = fixture(config) else {
        return;
    };
    let old = bgrx(size);
    it.present(size, &old);
    it.presenter.panel(&["MM".to_owned()]).expect("drawn");
    let place = |x: u16, y: u16| Some((x * 512, y * 682));
    let cursor = |at| Cursor {
        at,
        shape: blue_dot(),
    };
    it.presenter.cursor(&cursor(place(60, 20))).expect("drawn");
    let new: Vec<u8> = old.iter().map(|value| value ^ 0x3f).collect();
    let row = size.width as usize * 4;
    // The text box covers rows 8 to 34. The slices end within the box, just above its last row, and below the box.
    for rows in [0..20, 20..34, 34..61] {
        let (start, end) = (rows.start as usize, rows.end as usize);
        let canvas = it.presenter.canvas().expect("lent");
        let place_of = canvas.rows(size, rows).expect("memory");
        place_of.copy_from_slice(&new[start * row..end * row]);
        canvas.show_rows().expect("alive");
        // The pointer is over the last new row and the first old row.
        let y = u16::try_from(end).unwrap();
        it.presenter.cursor(&cursor(place(60, y))).expect("drawn");
        let shown = it.read((0, 0), (128, 96));
        // A repaint draws the same picture at once.
        it.source.repaint().expect("alive");
        assert_eq!(rgb(&it.read((0, 0), (128, 96))), rgb(&shown));
        let mixed = [&new[..end * row], &old[end * row..]].concat();
        let mut dots = 0;
        for (i, (shown, picture)) in rgb(&shown).into_iter().zip(rgb(&mixed)).enumerate() {
            let text = (8..32).contains(&(i % 128)) && (8..36).contains(&(i / 128));
            let dot = shown == [255, 0, 0];
            dots += usize::from(dot);
            assert!(
                dot || text || shown == picture,
                "{i}: {shown:?} {picture:?}"
            );
        }
        assert_eq!(dots, 16, "one pointer");
    }
}

#[test]
fn a_scaled_picture_appears_as_a_whole_at_any_time() {
    let Some(mut it) = fixture(window_of_slices(Size::new(128, 96))) else {
        return;
    };
    it.settle();
    let whole = |it: &Fixture, side: (u16, u16), shade: u8| {
        let image = rgb(&it.read((0, 0), side));
        assert!(image.iter().all(|pixel| *pixel == [shade; 3]), "{shade}");
    };
    it.present(SIZE, &vec![10; SIZE.pixels() * 4]);
    it.slice(0..24, 20);
    whole(&it, (128, 96), 10);
    it.slice(24..48, 20);
    it.complete(2);
    whole(&it, (128, 96), 20);
    // Between two slices, the window is resized to the picture's size. Between two later slices, it is resized again.
    it.slice(0..24, 30);
    it.resize(SIZE);
    whole(&it, (64, 48), 20);
    it.slice(24..36, 30);
    whole(&it, (64, 48), 20);
    it.complete(3);
    assert_eq!(it.shades(), rows_of(&[(30, 36), (20, 48)]));
    it.slice(0..24, 40);
    assert_eq!(it.shades(), rows_of(&[(40, 24), (30, 36), (20, 48)]));
    it.resize(Size::new(128, 96));
    it.slice(24..48, 40);
    it.complete(4);
    whole(&it, (128, 96), 40);
}

/// Paints random rows, with failed frames, repaints and text in between. At the end of each complete frame, a
/// window with `WindowConfig::slices` shows the same picture as a window without it.
#[test]
fn pictures_are_the_same_at_the_end_of_every_frame() {
    let (Some(mut whole), Some(mut slices)) =
        (fixture(window_of(SIZE)), fixture(window_of_slices(SIZE)))
    else {
        return;
    };
    for it in [&mut whole, &mut slices] {
        it.settle();
        it.present(SIZE, &vec![1; SIZE.pixels() * 4]);
    }
    let mut seed = 5u32;
    let mut below = |end: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % end
    };
    for frame in 2..=150u32 {
        let shade = byte(frame as usize);
        let mut top = 0;
        while top < SIZE.height {
            let first = top + below(4);
            let rows = first.min(SIZE.height - 1)..SIZE.height.min(first + 1 + below(16));
            top = rows.end.max(first + 1);
            if !rows.is_empty() {
                whole.slice(rows.clone(), shade);
                slices.slice(rows, shade);
            }
            match below(12) {
                // The frame fails.
                0 => break,
                1 => slices.source.repaint().expect("alive"),
                2 => {
                    slices.presenter.panel(&["x".to_owned()]).expect("alive");
                    slices.presenter.panel(&[]).expect("alive");
                }
                _ => {}
            }
        }
        if top < SIZE.height {
            continue;
        }
        for it in [&mut whole, &mut slices] {
            it.complete(frame);
        }
        assert_eq!(slices.shades(), whole.shades(), "frame {frame}");
    }
    assert_eq!(whole.presenter.skipped() + slices.presenter.skipped(), 0);
}
