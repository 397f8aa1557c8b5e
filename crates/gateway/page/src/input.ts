// What the person does with keyboard, mouse, pen and fingers.

import { linuxCode } from "./keys";
import type { InputEvent } from "./wire";

/** BTN_LEFT, BTN_MIDDLE, BTN_RIGHT, BTN_SIDE, BTN_EXTRA, in the order of PointerEvent.button. */
const BUTTONS = [0x110, 0x112, 0x111, 0x113, 0x114];

/** A notch of a wheel in its own units (REL_WHEEL_HI_RES), and in pixels, lines and pages of a WheelEvent. */
const NOTCH = 120;
const NOTCH_OF = [100, 3, 1];

/** Scales a movement or a turn into what the wire takes. */
function short(value: number): number {
  return Math.max(-32768, Math.min(32767, Math.round(value)));
}

export interface Target {
  /** Does the person's input go to the host? */
  plays(): boolean;
  push(event: InputEvent, at: number): void;
  /** Where the pointer is over the picture, at once: the host's answer comes later. */
  pointed(x: number, y: number): void;
}

export class Input {
  /** What is left of a relative movement, in pixels of the picture. */
  private rest = { x: 0, y: 0 };
  private turned = { x: 0, y: 0 };

  constructor(
    private readonly area: HTMLElement,
    private readonly video: HTMLVideoElement,
    private readonly to: Target,
  ) {
    area.addEventListener("keydown", (event) => this.key(event, true));
    area.addEventListener("keyup", (event) => this.key(event, false));
    // Samples as they come, where the browser gives them; else with the next picture.
    const raw = "onpointerrawupdate" in window;
    area.addEventListener(raw ? "pointerrawupdate" : "pointermove", (event) =>
      this.moved(event as PointerEvent),
    );
    area.addEventListener("pointerdown", (event) => this.down(event));
    area.addEventListener("pointerup", (event) => this.up(event));
    area.addEventListener("pointercancel", () => this.release());
    area.addEventListener("contextmenu", (event) => event.preventDefault());
    area.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    area.addEventListener("blur", () => this.release());
    window.addEventListener("blur", () => this.release());
    window.addEventListener("pagehide", () => this.release());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.release();
    });
    document.addEventListener("pointerlockchange", () => this.release());
  }

  /** Asks the browser for the keys that it keeps to itself (in full screen), and for the mouse's movements. */
  async full() {
    if (document.fullscreenElement) {
      await document.exitFullscreen();
      return;
    }
    await document.documentElement.requestFullscreen();
    const keyboard = (navigator as { keyboard?: { lock(): Promise<void> } }).keyboard;
    await keyboard?.lock().catch(() => undefined);
  }

  async lock() {
    if (document.pointerLockElement) return document.exitPointerLock();
    const options = { unadjustedMovement: true };
    const ask = this.area.requestPointerLock as (o?: object) => Promise<void> | undefined;
    // Not every system has movements without acceleration.
    await Promise.resolve(ask.call(this.area, options)).catch(() => ask.call(this.area));
  }

  private key(event: KeyboardEvent, pressed: boolean) {
    if (!this.to.plays()) return;
    const code = linuxCode(event.code);
    if (code === undefined) return;
    event.preventDefault();
    // The host's window system repeats by itself.
    if (event.repeat) return;
    const typed = pressed && [...event.key].length === 1 ? event.key.codePointAt(0) : undefined;
    this.push({ kind: "key", code, text: typed ?? 0, pressed }, event.timeStamp);
  }

  private moved(event: PointerEvent) {
    if (!this.to.plays()) return;
    const coalesced = event.getCoalescedEvents?.() ?? [];
    for (const sample of coalesced.length > 0 ? coalesced : [event]) this.place(sample);
  }

  private place(event: PointerEvent) {
    if (document.pointerLockElement === this.area) {
      const shown = this.shown();
      const x = this.rest.x + event.movementX * shown.scale;
      const y = this.rest.y + event.movementY * shown.scale;
      const [dx, dy] = [short(Math.trunc(x)), short(Math.trunc(y))];
      this.rest = { x: x - dx, y: y - dy };
      if (dx !== 0 || dy !== 0) this.push({ kind: "relative", dx, dy }, event.timeStamp);
      return;
    }
    const shown = this.shown();
    const across = Math.max(0, Math.min(1, (event.clientX - shown.left) / shown.width));
    const down = Math.max(0, Math.min(1, (event.clientY - shown.top) / shown.height));
    const [x, y] = [Math.round(across * 65535), Math.round(down * 65535)];
    this.to.pointed(x, y);
    this.push({ kind: "absolute", x, y }, event.timeStamp);
  }

  private down(event: PointerEvent) {
    this.area.focus({ preventScroll: true });
    if (!this.to.plays()) return;
    event.preventDefault();
    if (document.pointerLockElement !== this.area) this.area.setPointerCapture(event.pointerId);
    this.place(event);
    this.button(event, true);
  }

  private up(event: PointerEvent) {
    if (!this.to.plays()) return;
    event.preventDefault();
    this.place(event);
    this.button(event, false);
  }

  private button(event: PointerEvent, pressed: boolean) {
    // A finger or a pen that touches is the left button.
    const button = BUTTONS[Math.max(0, event.button)];
    if (button !== undefined) this.push({ kind: "button", button, pressed }, event.timeStamp);
  }

  private wheel(event: WheelEvent) {
    if (!this.to.plays()) return;
    event.preventDefault();
    const unit = NOTCH / NOTCH_OF[event.deltaMode];
    // Down is positive there, and negative here.
    const x = this.turned.x + event.deltaX * unit;
    const y = this.turned.y - event.deltaY * unit;
    const [dx, dy] = [short(Math.trunc(x)), short(Math.trunc(y))];
    this.turned = { x: x - dx, y: y - dy };
    if (dx !== 0 || dy !== 0) this.push({ kind: "wheel", dx, dy }, event.timeStamp);
  }

  /** Nothing is held any more: the person is elsewhere. */
  release() {
    if (this.to.plays()) this.push({ kind: "releaseAll" }, performance.now());
  }

  private push(event: InputEvent, at: number) {
    this.to.push(event, at);
  }

  /** Where the picture lies on the page, and how many of its pixels one of the page's is. */
  shown() {
    const box = this.video.getBoundingClientRect();
    const { videoWidth: w, videoHeight: h } = this.video;
    if (w === 0 || h === 0) return { left: box.left, top: box.top, width: box.width, height: box.height, scale: 1 };
    const zoom = Math.min(box.width / w, box.height / h);
    const [width, height] = [w * zoom, h * zoom];
    return {
      left: box.left + (box.width - width) / 2,
      top: box.top + (box.height - height) / 2,
      width,
      height,
      scale: 1 / zoom,
    };
  }
}
