use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

const SIZE: Size = Size::new(64, 32);

fn plane(object: usize, offset: u32, pitch: u32) -> PlaneLayout {
    PlaneLayout {
        object,
        offset,
        pitch,
    }
}

fn memory(bytes: u64) -> Arc<dyn Objects> {
    let file = memfd_create("not-a-dma-buf", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, bytes).expect("resized");
    Arc::new(vec![file])
}

#[test]
fn a_layout_has_the_planes_of_its_format() {
    let planes = [plane(0, 0, 64), plane(0, 2048, 64)];
    let layout = Layout::new(SIZE, NV12, LINEAR, &planes).expect("valid");
    assert_eq!(layout.planes(), planes);
    for (format, planes) in [(NV12, &planes[..1]), (YUV420, &planes), (XRGB8888, &[])] {
        assert!(Layout::new(SIZE, format, LINEAR, planes).is_err());
    }
    assert!(Layout::new(Size::default(), NV12, LINEAR, &planes).is_err());
}

#[test]
fn a_picture_without_its_objects_is_refused() {
    let planes = [plane(0, 0, 64), plane(1, 0, 64)];
    let layout = Layout::new(SIZE, NV12, LINEAR, &planes).expect("valid");
    let why = DmaBufPicture::new(layout, memory(4096)).expect_err("object 1 is missing");
    assert!(why.to_string().contains("object 1"), "{why}");
}

#[test]
fn ordinary_files_are_not_mapped() {
    let layout = Layout::new(SIZE, XRGB8888, LINEAR, &[plane(0, 0, 256)]).expect("valid");
    let picture = DmaBufPicture::new(layout, memory(8192)).expect("one object");
    // The file could be truncated, which would make the mapping unreadable.
    let why = picture.map().err().expect("refused");
    assert!(matches!(why, DmaBufError::Map(_)), "{why}");
}

#[test]
fn tiled_and_unknown_formats_are_not_mapped() {
    let tiled = 0x0700_0000_0000_0004;
    let planes = [plane(0, 0, 256)];
    for (format, modifier) in [(XRGB8888, tiled), (u32::from_le_bytes(*b"AR30"), LINEAR)] {
        let layout = Layout::new(SIZE, format, modifier, &planes).expect("valid");
        let picture = DmaBufPicture::new(layout, memory(8192)).expect("one object");
        let why = picture.map().err().expect("refused");
        assert!(matches!(why, DmaBufError::Format(..)), "{why}");
    }
}

#[test]
fn a_crop_changes_only_the_visible_size() {
    let layout = Layout::new(SIZE, XRGB8888, LINEAR, &[plane(0, 0, 256)]).expect("valid");
    let picture = DmaBufPicture::new(layout, memory(8192)).expect("one object");
    let picture = picture.cropped(Size::new(60, 100));
    assert_eq!(picture.size(), Size::new(60, 32));
    assert_eq!(picture.layout().size, SIZE);
}
