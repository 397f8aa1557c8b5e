//! The shaders. A triangle covers the complete window; the scissor selects the drawn area.

use glow::HasContext as _;

const VERTEX: &str = "#version 330 core
void main() {
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
";

/// Positions are in pixels counted from the top, as everywhere in this crate except for `gl_FragCoord`. A position up
/// to half a pixel outside of the outermost pixel centres gets the outermost pixel, as in software, and never a pixel
/// of the other eye.
const FRAGMENT: &str = "#version 330 core
uniform sampler2D picture;
uniform bool overlay;
uniform float height;
uniform vec2 corner;
uniform vec2 per_pixel;
uniform mat3 how;
uniform vec4 eye;
out vec4 colour;
void main() {
    vec2 at = vec2(gl_FragCoord.x, height - gl_FragCoord.y) - corner;
    if (overlay) {
        colour = texelFetch(picture, ivec2(at), 0);
        return;
    }
    colour = vec4(0.0, 0.0, 0.0, 1.0);
    vec3 place = how * vec3(at * per_pixel, 1.0);
    if (place.z < 1e-6) {
        return;
    }
    vec2 there = place.xy / place.z;
    if (any(lessThan(there, vec2(0.0))) || any(greaterThanEqual(there, eye.zw))) {
        return;
    }
    there = eye.xy + clamp(there, vec2(0.5), eye.zw - 0.5);
    colour.rgb = textureLod(picture, there / vec2(textureSize(picture, 0)), 0.0).rgb;
}
";

/// The program and its uniform locations.
pub(super) struct Program {
    pub(super) overlay: Option<glow::UniformLocation>,
    pub(super) height: Option<glow::UniformLocation>,
    pub(super) corner: Option<glow::UniformLocation>,
    pub(super) per_pixel: Option<glow::UniformLocation>,
    pub(super) how: Option<glow::UniformLocation>,
    pub(super) eye: Option<glow::UniformLocation>,
}

impl Program {
    /// Creates and activates the program.
    ///
    /// # Errors
    /// Returns the driver's message.
    ///
    /// # Safety
    /// The context must be current.
    pub(super) unsafe fn new(gl: &glow::Context) -> Result<Program, String> {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            let program = gl.create_program()?;
            for (kind, source) in [
                (glow::VERTEX_SHADER, VERTEX),
                (glow::FRAGMENT_SHADER, FRAGMENT),
            ] {
                let shader = gl.create_shader(kind)?;
                gl.shader_source(shader, source);
                gl.compile_shader(shader);
                if !gl.get_shader_compile_status(shader) {
                    return Err(gl.get_shader_info_log(shader));
                }
                gl.attach_shader(program, shader);
                // The shader is freed with the program, which is freed with the context.
                gl.delete_shader(shader);
            }
            gl.link_program(program);
            if !gl.get_program_link_status(program) {
                return Err(gl.get_program_info_log(program));
            }
            gl.use_program(Some(program));
            let place = |name| gl.get_uniform_location(program, name);
            gl.uniform_1_i32(place("picture").as_ref(), 0);
            Ok(Program {
                overlay: place("overlay"),
                height: place("height"),
                corner: place("corner"),
                per_pixel: place("per_pixel"),
                how: place("how"),
                eye: place("eye"),
            })
        }
    }
}
