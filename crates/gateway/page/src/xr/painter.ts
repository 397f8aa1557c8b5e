// Draws pictures of the video with WebGL 2. A homography maps display positions to picture positions. Display positions
// outside of the picture are black.

import type { Matrix } from "./math";

const CORNERS = `#version 300 es
uniform mat3 homography;
out vec3 place;
void main() {
  // One triangle covers the display.
  vec2 at = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
  gl_Position = vec4(at, 0.0, 1.0);
  place = homography * vec3(at, 1.0);
}`;

const COLOUR = `#version 300 es
precision highp float;
uniform sampler2D picture;
// This eye's part of the picture's width: start and width.
uniform vec2 part;
in vec3 place;
out vec4 colour;
void main() {
  vec2 at = place.xy / place.z;
  bool outside = place.z <= 0.0 || any(lessThan(at, vec2(0.0))) || any(greaterThan(at, vec2(1.0)));
  // Clamp, so that the other eye's pixels do not bleed in at the border.
  vec2 rim = vec2(0.5) / vec2(textureSize(picture, 0));
  vec2 from = vec2(part.x, 0.0) + rim, to = vec2(part.x + part.y, 1.0) - rim;
  vec2 found = clamp(vec2(part.x + part.y * at.x, at.y), from, to);
  // Sampled unconditionally, because its derivatives depend on neighbouring fragments, which may be inside the picture.
  vec3 seen = texture(picture, found).rgb;
  colour = vec4(outside ? vec3(0.0) : seen, 1.0);
}`;

/** A rectangle of the display in pixels, from its lower left corner. */
export interface Viewport {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Painter {
  private homography: WebGLUniformLocation | null = null;
  private part: WebGLUniformLocation | null = null;
  /** Whether it has a picture. */
  private filled = false;

  private constructor(readonly gl: WebGL2RenderingContext) {
    this.build();
    gl.canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.filled = false;
    });
    gl.canvas.addEventListener("webglcontextrestored", () => this.build());
  }

  /** `null` if the browser has no WebGL 2. */
  static of(canvas: HTMLCanvasElement): Painter | null {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false });
    return gl && new Painter(gl);
  }

  private build() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, CORNERS], [gl.FRAGMENT_SHADER, COLOUR]] as const) {
      const shader = gl.createShader(kind);
      if (!shader) return;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.homography = gl.getUniformLocation(program, "homography");
    this.part = gl.getUniformLocation(program, "part");
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
      gl.texParameteri(gl.TEXTURE_2D, filter, gl.LINEAR);
  }

  /** Uploads the video's current picture. */
  take(video: HTMLVideoElement) {
    const { gl } = this;
    if (gl.isContextLost() || video.videoWidth === 0) return;
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, video);
    this.filled = true;
  }

  /** Sets and clears the target of subsequent drawing; `null`: the canvas. */
  setTarget(into: WebGLFramebuffer | null) {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, into);
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  /** Draws eye `eye` of `eyes`, which are side by side in the picture. */
  draw(homography: Matrix, [eye, eyes]: [number, number], { x, y, width, height }: Viewport) {
    if (!this.filled) return;
    const { gl } = this;
    gl.viewport(x, y, width, height);
    gl.uniformMatrix3fv(this.homography, false, homography);
    gl.uniform2f(this.part, eye / eyes, 1 / eyes);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
}
