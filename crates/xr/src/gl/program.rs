//! The shaders that draw one layer for one eye: a quadrilateral in front of the eye, textured with a rectangle of an
//! image. They match `crates/xr/src/vulkan/layers.wgsl`, but with OpenGL's axes: rows are counted from the bottom.

use glow::HasContext as _;

/// Corner order: bottom left, bottom right, top left, top right.
const VERTEX: &str = "#version 330 core
uniform vec4 corners[4];
uniform vec4 rect;
out vec2 position;
void main() {
    vec4 corner = corners[gl_VertexID];
    // From Vulkan's clip space, in which y points down and depth is 0 to w.
    gl_Position = vec4(corner.x, -corner.y, 2.0 * corner.z - corner.w, corner.w);
    position = vec2(gl_VertexID % 2 == 0 ? rect.x : rect.z, gl_VertexID < 2 ? rect.y : rect.w);
}
";

const FRAGMENT: &str = "#version 330 core
uniform sampler2D single;
uniform sampler2DArray stack;
uniform int layer;
uniform vec4 rect;
uniform vec2 half_pixel;
uniform int flags;
in vec2 position;
out vec4 colour;
void main() {
    // Never sample outside the rectangle, not even at its edge.
    vec2 at = clamp(position, rect.xy + half_pixel, rect.zw - half_pixel);
    vec4 seen = layer < 0 ? textureLod(single, at, 0.0) : textureLod(stack, vec3(at, layer), 0.0);
    if ((flags & 1) == 0) {
        seen.a = 1.0;
    }
    if ((flags & 2) != 0) {
        seen.rgb *= seen.a;
    }
    colour = seen;
}
";

/// The program and its uniform locations.
pub(super) struct Program {
    pub(super) program: glow::Program,
    pub(super) corners: Option<glow::UniformLocation>,
    pub(super) rect: Option<glow::UniformLocation>,
    pub(super) half_pixel: Option<glow::UniformLocation>,
    pub(super) layer: Option<glow::UniformLocation>,
    pub(super) flags: Option<glow::UniformLocation>,
}

/// The texture units for images with one layer, and for images with several layers.
pub(super) const SINGLE: u32 = 0;
pub(super) const STACK: u32 = 1;

impl Program {
    /// # Errors
    /// Returns the driver's reason, as one line of text.
    ///
    /// # Safety
    /// The context is current.
    pub(super) unsafe fn new(gl: &glow::Context) -> Result<Program, String> {
        // SAFETY: the caller guarantees that the context is current.
        unsafe {
            let program = gl.create_program()?;
            let linked = link(gl, program);
            linked.inspect_err(|_| gl.delete_program(program))?;
            let location = |name| gl.get_uniform_location(program, name);
            gl.use_program(Some(program));
            for (name, unit) in [("single", SINGLE), ("stack", STACK)] {
                gl.uniform_1_i32(location(name).as_ref(), unit.cast_signed());
            }
            Ok(Program {
                program,
                corners: location("corners"),
                rect: location("rect"),
                half_pixel: location("half_pixel"),
                layer: location("layer"),
                flags: location("flags"),
            })
        }
    }
}

/// # Safety
/// The context is current.
unsafe fn link(gl: &glow::Context, program: glow::Program) -> Result<(), String> {
    let stages = [
        (glow::VERTEX_SHADER, VERTEX),
        (glow::FRAGMENT_SHADER, FRAGMENT),
    ];
    // SAFETY: the caller guarantees that the context is current.
    unsafe {
        for (kind, source) in stages {
            let shader = gl.create_shader(kind)?;
            gl.shader_source(shader, source);
            gl.compile_shader(shader);
            let good = gl.get_shader_compile_status(shader);
            let why = gl.get_shader_info_log(shader);
            gl.attach_shader(program, shader);
            // The driver deletes the shader together with the program.
            gl.delete_shader(shader);
            if !good {
                return Err(why);
            }
        }
        gl.link_program(program);
        match gl.get_program_link_status(program) {
            true => Ok(()),
            false => Err(gl.get_program_info_log(program)),
        }
    }
}
