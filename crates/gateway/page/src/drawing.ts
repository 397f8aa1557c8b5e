// Experimental, `?draw=canvas` or `?draw=webgl`: the page draws each picture as soon as it was decoded, in place of the
// <video>, which waits for its browser's compositor to ask for one. `openuvr bench peers` measures both. It draws the
// flat picture alone: no virtual reality. Only Chromium hands a page what WebRTC has decoded.

import type { Handed } from "./frames";

/** https://www.w3.org/TR/mediacapture-transform/, which TypeScript does not know. */
declare class MediaStreamTrackProcessor {
  constructor(init: { track: MediaStreamTrack });
  readonly readable: ReadableStream<VideoFrame & { metadata(): { rtpTimestamp?: number } }>;
}

/** Brings a picture of the canvas's size onto it. */
type Draw = (picture: VideoFrame) => void;

/** Both contexts show what is drawn without a turn of the page's own compositing, where the browser can. */
const WAYS: Record<string, (canvas: HTMLCanvasElement) => Draw | null> = {
  canvas(canvas) {
    const context = canvas.getContext("2d", { alpha: false, desynchronized: true });
    return context && ((picture) => context.drawImage(picture, 0, 0));
  },
  webgl(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: false, depth: false, desynchronized: true });
    if (!gl) return null;
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.bindFramebuffer(gl.READ_FRAMEBUFFER, gl.createFramebuffer());
    gl.framebufferTexture2D(gl.READ_FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
    return (picture) => {
      const { width, height } = canvas;
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, picture);
      // The first row of a canvas is its lowest.
      gl.blitFramebuffer(0, 0, width, height, 0, height, width, 0, gl.COLOR_BUFFER_BIT, gl.NEAREST);
    };
  },
};

export class Drawing {
  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly draw: Draw,
    private readonly drawn: (drawn: Handed) => void,
  ) {}

  /** Takes the place of the video; null: it was not asked for, or the browser can't. */
  static of(way: string | null, video: HTMLVideoElement, drawn: (drawn: Handed) => void): Drawing | null {
    const canvas = document.createElement("canvas");
    const draw = "MediaStreamTrackProcessor" in window ? (WAYS[way ?? ""]?.(canvas) ?? null) : null;
    if (draw === null) return null;
    canvas.id = "drawn";
    video.after(canvas);
    // Its place and size go on being those of the picture.
    video.style.visibility = "hidden";
    return new Drawing(canvas, draw, drawn);
  }

  /** Draws what comes by this track until it ends. Of two that wait the newer counts. */
  async take(track: MediaStreamTrack) {
    const pictures = new MediaStreamTrackProcessor({ track }).readable.getReader();
    for (;;) {
      const { value: picture } = await pictures.read();
      if (!picture) return;
      const { displayWidth: width, displayHeight: height } = picture;
      const { canvas } = this;
      // Another size empties it, the same one, too.
      if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
      this.draw(picture);
      const { rtpTimestamp } = picture.metadata();
      picture.close();
      this.drawn({ rtpTimestamp, presentationTime: performance.now() });
    }
  }
}
