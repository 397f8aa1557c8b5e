// One layer for one eye: a quadrilateral in front of the eye, textured with a rectangle of an image.

struct Layer {
    // The corners in clip space: bottom left, bottom right, top left, top right.
    corners: array<vec4<f32>, 4>,
    // The rectangle of the image: top left and bottom right corner, in 0 to 1.
    rect: vec4<f32>,
    // Bit 0: use the image's alpha. Bit 1: the image's colours are not premultiplied.
    flags: u32,
}

var<immediate> layer: Layer;

@group(0) @binding(0) var image: texture_2d<f32>;
@group(0) @binding(1) var linear: sampler;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) uv: vec2<f32>,
}

@vertex
fn corner(@builtin(vertex_index) index: u32) -> Corner {
    let right = f32(index & 1u);
    let above = f32(index >> 1u);
    var out: Corner;
    out.position = layer.corners[index];
    out.uv = mix(layer.rect.xy, layer.rect.zw, vec2<f32>(right, 1.0 - above));
    return out;
}

@fragment
fn pixel(in: Corner) -> @location(0) vec4<f32> {
    // Never sample outside the rectangle, not even at its edge.
    let half = 0.5 / vec2<f32>(textureDimensions(image));
    let uv = clamp(in.uv, layer.rect.xy + half, layer.rect.zw - half);
    var colour = textureSampleLevel(image, linear, uv, 0.0);
    if (layer.flags & 1u) == 0u {
        colour.a = 1.0;
    }
    if (layer.flags & 2u) != 0u {
        colour = vec4<f32>(colour.rgb * colour.a, colour.a);
    }
    return colour;
}
