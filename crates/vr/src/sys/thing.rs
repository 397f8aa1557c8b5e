//! Things to draw, as the device gets them.

use std::ops::Range;

use openuvr_proto::units::Size;

/// A corner of something: where it is, in metres, and its colour, of linear light.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Vertex {
    pub(crate) place: [f32; 3],
    pub(crate) colour: [f32; 3],
}

impl Vertex {
    pub(super) const BYTES: u32 = 24;
}

const _: () = assert!(size_of::<Vertex>() == Vertex::BYTES as usize);

/// What the vertex stages get for each thing: see `Constants` in `room.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Constants {
    /// From the thing's own space to clip space, column by column.
    matrix: [[f32; 4]; 4],
    /// Bits of the bar code: the first cell is the lowest bit of the first word.
    cells: [u32; 4],
    /// Of the picture, in pixels.
    size: [u32; 2],
    /// The structure's size is a multiple of its largest part's.
    _rest: [u32; 2],
}

impl Constants {
    /// Every device has room for 128.
    pub(super) const BYTES: u32 = 96;

    /// Those of a thing.
    pub(crate) fn of(matrix: [[f32; 4]; 4]) -> Constants {
        Constants {
            matrix,
            ..Constants::default()
        }
    }

    /// Those of the bar code.
    pub(crate) fn of_code(cells: [u32; 4], size: Size) -> Constants {
        Constants {
            cells,
            size: [size.width, size.height],
            ..Constants::default()
        }
    }
}

const _: () = assert!(size_of::<Constants>() == Constants::BYTES as usize);

/// How the corners of a thing are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Triangles.
    Faces,
    /// Lines.
    Lines,
    /// The bar code, whose corners the shader makes up.
    Code,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Faces, Kind::Lines, Kind::Code];
}

/// Something to draw: corners of those that the painter was given.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Thing {
    pub(crate) kind: Kind,
    pub(crate) corners: Range<u32>,
    pub(crate) constants: Constants,
}
