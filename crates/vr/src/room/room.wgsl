// The room: meshes with vertex colours, and the bar code of an eye's image.

struct Constants {
    // From local space to clip space.
    matrix: mat4x4<f32>,
    // Bits of the bar code: the first cell is the lowest bit of the first word.
    cells: vec4<u32>,
    // Size of the image, in pixels.
    size: vec2<u32>,
}

var<immediate> constants: Constants;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) colour: vec3<f32>,
}

@vertex
fn mesh(@location(0) position: vec3<f32>, @location(1) colour: vec3<f32>) -> Corner {
    var out: Corner;
    out.position = constants.matrix * vec4<f32>(position, 1.0);
    out.colour = colour;
    return out;
}

// Six vertices per cell, 64 cells per row as in media::barcode; the image is 80 cells wide.
@vertex
fn cell(@builtin(vertex_index) index: u32) -> Corner {
    let number = index / 6u;
    let corner = index % 6u;
    let right = u32(corner == 1u || corner == 3u || corner == 4u);
    let below = u32(corner == 2u || corner == 4u || corner == 5u);
    // Whole pixels.
    let x = (number % 64u + right) * constants.size.x / 80u;
    let y = (number / 64u + below) * constants.size.x / 80u;
    let place = vec2<f32>(f32(x), f32(y)) / vec2<f32>(constants.size);
    var out: Corner;
    // In front of everything.
    out.position = vec4<f32>(place * 2.0 - 1.0, 0.0, 1.0);
    let bit = (constants.cells[number / 32u] >> (number % 32u)) & 1u;
    out.colour = vec3<f32>(f32(bit));
    return out;
}

@fragment
fn pixel(in: Corner) -> @location(0) vec4<f32> {
    return vec4<f32>(in.colour, 1.0);
}
