// One layer in one eye: a rectangle somewhere in front of it, with a part of an image on it.

struct Layer {
    // The corners in clip space: left and right below, left and right above.
    corners: array<vec4<f32>, 4>,
    // The part of the image: its left upper corner and its right lower one, in 0 to 1.
    part: vec4<f32>,
    // 1: the image's alpha counts; 2: its colours are not multiplied by it yet.
    flags: u32,
}

var<immediate> layer: Layer;

@group(0) @binding(0) var image: texture_2d<f32>;
@group(0) @binding(1) var linear: sampler;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) place: vec2<f32>,
}

@vertex
fn corner(@builtin(vertex_index) index: u32) -> Corner {
    let right = f32(index & 1u);
    let above = f32(index >> 1u);
    var out: Corner;
    out.position = layer.corners[index];
    out.place = mix(layer.part.xy, layer.part.zw, vec2<f32>(right, 1.0 - above));
    return out;
}

@fragment
fn pixel(in: Corner) -> @location(0) vec4<f32> {
    // What lies beside the part is of no concern, also at its edge.
    let half = 0.5 / vec2<f32>(textureDimensions(image));
    let place = clamp(in.place, layer.part.xy + half, layer.part.zw - half);
    var colour = textureSampleLevel(image, linear, place, 0.0);
    if (layer.flags & 1u) == 0u {
        colour.a = 1.0;
    }
    if (layer.flags & 2u) != 0u {
        colour = vec4<f32>(colour.rgb * colour.a, colour.a);
    }
    return colour;
}
