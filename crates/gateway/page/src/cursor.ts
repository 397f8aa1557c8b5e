// The pointer, drawn by the page: its latency is independent of the video.

import type { Input } from "./input";

/** Header length in bytes. */
const HEAD = 1 + 4 + 4 + 2 + 2;

export class Cursor {
  private hot = { x: 0, y: 0 };
  private has = false;
  private serial = 0;
  /** Time of the last local movement, which takes precedence over the host's position for half a second. */
  private pointedAt = -Infinity;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly area: HTMLElement,
    private readonly input: Input,
  ) {}

  /** Takes a new shape: kind, width, height, hot spot, and premultiplied ARGB rows. */
  shape(d: DataView) {
    if (d.byteLength < HEAD) return;
    const [width, height] = [d.getUint32(1, true), d.getUint32(5, true)];
    if (width === 0 || height === 0 || d.byteLength < HEAD + 4 * width * height) return;
    this.hot = { x: d.getUint16(9, true), y: d.getUint16(11, true) };
    const picture = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      const pixel = d.getUint32(HEAD + 4 * i, true);
      const alpha = pixel >>> 24;
      // The colours in ImageData are not premultiplied by alpha.
      const plain = (shift: number) => (alpha === 0 ? 0 : (((pixel >>> shift) & 255) * 255) / alpha);
      picture.data.set([plain(16), plain(8), plain(0), alpha], 4 * i);
    }
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.getContext("2d")?.putImageData(picture, 0, 0);
    this.has = true;
    this.area.style.cursor = "none";
  }

  /** Moves the pointer at once after a local movement. */
  pointed(x: number, y: number) {
    this.pointedAt = performance.now();
    this.place({ x, y });
  }

  /** Takes a position from the host. */
  moved(serial: number, at: { x: number; y: number } | null) {
    if (((serial - this.serial) | 0) <= 0) return;
    this.serial = serial;
    if (performance.now() - this.pointedAt > 500) this.place(at);
  }

  private place(at: { x: number; y: number } | null) {
    this.canvas.hidden = at === null || !this.has || document.pointerLockElement === this.area;
    if (at === null) return;
    const shown = this.input.shown();
    const box = this.area.getBoundingClientRect();
    const zoom = 1 / shown.scale;
    const x = shown.left - box.left + (at.x / 65535) * shown.width - this.hot.x * zoom;
    const y = shown.top - box.top + (at.y / 65535) * shown.height - this.hot.y * zoom;
    this.canvas.style.transformOrigin = "0 0";
    this.canvas.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
  }
}
