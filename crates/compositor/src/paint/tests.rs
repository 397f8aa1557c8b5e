use openuvr_proto::units::Size;

use super::*;

const SIZE: Size = Size::new(4, 3);

fn place(x: i32, y: i32, width: u32, height: u32) -> Rectangle {
    Rectangle {
        x,
        y,
        width,
        height,
    }
}

fn plain(place: Rectangle) -> Mapping {
    Mapping {
        place,
        crop: (0.0, 0.0, place.width.into(), place.height.into()),
        orientation: Orientation::default(),
    }
}

fn whole() -> Block {
    Block {
        columns: 0..SIZE.width,
        rows: 0..SIZE.height,
    }
}

/// The drawn pixels, row by row.
fn drawn(pixels: &dyn Pixels, mapping: &Mapping, opaque: bool, block: &Block) -> Vec<u32> {
    let mut data = vec![0x11; SIZE.pixels() * 4];
    let mut canvas = Canvas {
        width: SIZE.width,
        data: &mut data,
    };
    canvas.draw(pixels, mapping, opaque, block);
    let pixels = data.chunks_exact(4).map(|p| p.try_into().unwrap());
    pixels.map(u32::from_le_bytes).collect()
}

const OLD: u32 = 0x1111_1111;

#[test]
fn an_opaque_element_is_copied_and_clipped_by_display_and_block() {
    let data: Vec<u8> = (0..16).flat_map(|n: u32| n.to_le_bytes()).collect();
    let rows = Rows {
        size: (4, 4),
        data: &data,
    };
    let all = drawn(&rows, &plain(place(0, 0, 4, 4)), true, &whole());
    assert_eq!(all, (0..12).collect::<Vec<u32>>());
    let beyond = drawn(&rows, &plain(place(-2, -3, 4, 4)), true, &whole());
    let mut expected = vec![OLD; 12];
    expected[..2].copy_from_slice(&[14, 15]);
    assert_eq!(beyond, expected);
    let block = Block {
        columns: 1..2,
        rows: 2..3,
    };
    let clipped = drawn(&rows, &plain(place(0, 0, 4, 4)), true, &block);
    expected = vec![OLD; 12];
    expected[9] = 9;
    assert_eq!(clipped, expected);
    // If a buffer is smaller than its rectangle, the rows beyond the buffer stay unchanged.
    let small = Rows {
        size: (4, 1),
        data: &data,
    };
    let part = drawn(&small, &plain(place(0, 0, 4, 3)), true, &whole());
    assert_eq!((part[3], part[4]), (3, OLD));
}

#[test]
fn premultiplied_pixels_are_blended() {
    assert_eq!(blend(0xff12_3456, 0xffff_ffff), 0xff12_3456);
    assert_eq!(blend(0, 0xff65_4321), 0xff65_4321);
    assert_eq!(blend(0x8080_0000, 0xff00_00ff), 0xff80_007f);
    // A client that does not premultiply cannot overflow.
    assert_eq!(blend(0x01ff_ffff, 0xffff_ffff), 0xffff_ffff);
    let half = drawn(
        &Uniform(0x8000_0000),
        &plain(place(1, 1, 1, 1)),
        false,
        &whole(),
    );
    assert_eq!(half[5], 0xff08_0808 | 0xff00_0000);
    assert_eq!(half[4], OLD);
}

#[test]
fn contents_are_scaled_cropped_and_turned() {
    let data: Vec<u8> = (0..6).flat_map(|n: u32| n.to_le_bytes()).collect();
    // 0 1 2
    // 3 4 5
    let rows = Rows {
        size: (3, 2),
        data: &data,
    };
    let twice = Mapping {
        place: place(0, 0, 4, 2),
        crop: (1.0, 0.0, 2.0, 1.0),
        orientation: Orientation::default(),
    };
    let all = drawn(&rows, &twice, true, &whole());
    assert_eq!(all[..8], [1, 1, 2, 2, 1, 1, 2, 2]);
    let turned = |turns, flipped, size: (u32, u32)| {
        let mapping = Mapping {
            place: place(0, 0, size.0, size.1),
            crop: (0.0, 0.0, size.0.into(), size.1.into()),
            orientation: Orientation { turns, flipped },
        };
        let all = drawn(&rows, &mapping, true, &whole());
        let rows = 0..size.1.min(SIZE.height);
        rows.flat_map(|y| (0..size.0).map(move |x| (x, y)))
            .map(|(x, y)| all[(y * SIZE.width + x) as usize])
            .collect::<Vec<_>>()
    };
    assert_eq!(turned(2, false, (3, 2)), [5, 4, 3, 2, 1, 0]);
    assert_eq!(turned(0, true, (3, 2)), [2, 1, 0, 5, 4, 3]);
    // The client has turned these contents counter-clockwise, or first reflected them, so they are turned back.
    assert_eq!(turned(1, false, (2, 3)), [3, 0, 4, 1, 5, 2]);
    assert_eq!(turned(3, false, (2, 3)), [2, 5, 1, 4, 0, 3]);
    assert_eq!(turned(1, true, (2, 3)), [0, 3, 1, 4, 2, 5]);
    assert_eq!(turned(3, true, (2, 3)), [5, 2, 4, 1, 3, 0]);
}

#[test]
fn damage_of_a_buffer_is_mapped_to_the_display() {
    let twice = Mapping {
        place: place(10, 20, 200, 100),
        crop: (0.0, 0.0, 100.0, 50.0),
        orientation: Orientation::default(),
    };
    let shown = twice.shown((1.0, 2.0, 3.0, 4.0));
    assert_eq!(shown, place(12, 24, 4, 4));
    let beyond = twice.shown((-5.0, 40.0, 1e9, 1e9));
    assert_eq!(beyond, place(10, 100, 200, 20));
    assert!(place(0, 0, 4, 3).covers(&whole()) && !place(1, 0, 4, 3).covers(&whole()));
}
