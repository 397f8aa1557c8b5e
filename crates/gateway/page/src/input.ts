// Input by keyboard, mouse, pen and touch.

import { Keyboard } from "./keyboard";
import { TextField } from "./text_field";
import { LONG_PRESS, Touch } from "./touch";
import { Wheel } from "./wheel";
import type { InputEvent } from "./wire";

/** BTN_LEFT, BTN_MIDDLE, BTN_RIGHT, BTN_SIDE, BTN_EXTRA, in the order of PointerEvent.button. */
const BUTTONS = [0x110, 0x112, 0x111, 0x113, 0x114];
const BUTTON = { left: 0x110, right: 0x111 };

/** A wheel notch in wire units. */
const NOTCH = 120;

/** Rounds a movement and limits it to the range of the wire format. */
function short(value: number): number {
  return Math.max(-32768, Math.min(32767, Math.round(value)));
}

/** Whether this is an Apple system, where browsers send no keyup while Cmd is down. */
function isApple(): boolean {
  return /Mac|iPhone|iPad/.test(navigator.platform);
}

export interface Target {
  /** Whether input is sent to the host. */
  plays(): boolean;
  push(event: InputEvent, at: number): void;
  /** Local pointer position over the picture, before the host confirms it. */
  pointed(x: number, y: number): void;
}

export class Input {
  /** The part of relative movements that is not sent yet: less than a pixel of the picture. */
  private rest = { x: 0, y: 0 };
  private readonly turns = new Wheel();
  private readonly keyboard: Keyboard;
  private readonly text: TextField;
  private readonly touch: Touch;

  constructor(
    private readonly area: HTMLElement,
    private readonly video: HTMLVideoElement,
    field: HTMLTextAreaElement,
    private readonly to: Target,
  ) {
    this.keyboard = new Keyboard((event, at) => this.push(event, at), isApple());
    this.text = new TextField(field, {
      begins: (at) => this.keyboard.compositionBegins(at),
      text: (text, at) => this.to.plays() && this.keyboard.type(text, at),
      erased: (count, at) => this.to.plays() && this.keyboard.erase(count, at),
    });
    this.touch = new Touch({
      point: ({ x, y }, at) => this.pointAt(x, y, at),
      button: (which, pressed, at) => this.push({ kind: "button", button: BUTTON[which], pressed }, at),
      wheel: (x, y, at) => this.turn(this.turns.add(x * NOTCH, y * NOTCH), at),
    });
    area.addEventListener("keydown", (event) => this.key(event, true));
    area.addEventListener("keyup", (event) => this.key(event, false));
    // With pointerrawupdate, each sample arrives at once. Without it, samples arrive once per animation frame.
    const raw = "onpointerrawupdate" in window;
    area.addEventListener(raw ? "pointerrawupdate" : "pointermove", (event) =>
      this.moved(event as PointerEvent),
    );
    area.addEventListener("pointerdown", (event) => this.down(event));
    area.addEventListener("pointerup", (event) => this.up(event));
    area.addEventListener("pointercancel", () => this.release());
    // A mouse button must not move the keyboard focus.
    area.addEventListener("mousedown", (event) => event.preventDefault());
    area.addEventListener("contextmenu", (event) => event.preventDefault());
    area.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    field.addEventListener("blur", () => this.release());
    window.addEventListener("blur", () => this.release());
    window.addEventListener("resize", () => this.turns.zoomed());
    window.addEventListener("pagehide", () => this.release());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.release();
    });
    document.addEventListener("pointerlockchange", () => this.release());
  }

  /** Gives the picture the keyboard focus. */
  focus() {
    this.text.focus();
  }

  /** Toggles the on-screen keyboard. Returns whether it is shown. */
  toggleOnScreenKeyboard(): boolean {
    this.text.onScreen(!this.text.isOnScreen());
    return this.text.isOnScreen();
  }

  /** Presses these keys together (KeyboardEvent.code). */
  chord(names: string[]) {
    if (this.to.plays()) this.keyboard.chord(names, performance.now());
  }

  /** Enters full screen, and locks the keys that the browser would intercept. */
  async full(shown: HTMLElement) {
    if (document.fullscreenElement) {
      await document.exitFullscreen();
      return;
    }
    await shown.requestFullscreen();
    const keyboard = (navigator as { keyboard?: { lock(): Promise<void> } }).keyboard;
    await keyboard?.lock().catch(() => undefined);
  }

  async lock() {
    if (document.pointerLockElement) return document.exitPointerLock();
    const options = { unadjustedMovement: true };
    const ask = this.area.requestPointerLock as (o?: object) => Promise<void> | undefined;
    // Not all systems support unaccelerated movements.
    await Promise.resolve(ask.call(this.area, options)).catch(() => ask.call(this.area));
  }

  private key(event: KeyboardEvent, pressed: boolean) {
    if (!this.to.plays()) return;
    const ours = pressed ? this.keyboard.down(event) : this.keyboard.up(event);
    if (ours) event.preventDefault();
  }

  private moved(event: PointerEvent) {
    if (!this.to.plays()) return;
    this.keyboard.agree(event);
    const coalesced = event.getCoalescedEvents?.() ?? [];
    for (const sample of coalesced.length > 0 ? coalesced : [event]) this.place(sample);
  }

  private place(event: PointerEvent) {
    if (event.pointerType === "touch") {
      this.touch.moved(event.pointerId, { x: event.clientX, y: event.clientY }, event.timeStamp);
      return;
    }
    if (document.pointerLockElement !== this.area) {
      this.pointAt(event.clientX, event.clientY, event.timeStamp);
      return;
    }
    const shown = this.shown();
    const x = this.rest.x + event.movementX * shown.scale;
    const y = this.rest.y + event.movementY * shown.scale;
    const [dx, dy] = [short(Math.trunc(x)), short(Math.trunc(y))];
    this.rest = { x: x - dx, y: y - dy };
    if (dx !== 0 || dy !== 0) this.push({ kind: "relative", dx, dy }, event.timeStamp);
  }

  private pointAt(clientX: number, clientY: number, at: number) {
    const shown = this.shown();
    const across = Math.max(0, Math.min(1, (clientX - shown.left) / shown.width));
    const down = Math.max(0, Math.min(1, (clientY - shown.top) / shown.height));
    const [x, y] = [Math.round(across * 65535), Math.round(down * 65535)];
    this.to.pointed(x, y);
    this.push({ kind: "absolute", x, y }, at);
  }

  private down(event: PointerEvent) {
    this.focus();
    if (!this.to.plays()) return;
    event.preventDefault();
    this.keyboard.agree(event);
    this.keyboard.pressMissing(event);
    if (document.pointerLockElement !== this.area) this.area.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch") {
      this.touch.down(event.pointerId, { x: event.clientX, y: event.clientY }, event.timeStamp);
      setTimeout(() => this.to.plays() && this.touch.due(performance.now()), LONG_PRESS + 1);
      return;
    }
    this.place(event);
    this.button(event, true);
  }

  private up(event: PointerEvent) {
    if (!this.to.plays()) return;
    event.preventDefault();
    this.place(event);
    if (event.pointerType === "touch") this.touch.up(event.pointerId, event.timeStamp);
    else this.button(event, false);
  }

  private button(event: PointerEvent, pressed: boolean) {
    // A pen's contact is the left button.
    const button = BUTTONS[Math.max(0, event.button)];
    if (button !== undefined) this.push({ kind: "button", button, pressed }, event.timeStamp);
  }

  private wheel(event: WheelEvent) {
    if (!this.to.plays()) return;
    event.preventDefault();
    this.keyboard.agree(event);
    this.turn(this.turns.turned(event), event.timeStamp);
  }

  private turn({ dx, dy }: { dx: number; dy: number }, at: number) {
    if (dx !== 0 || dy !== 0) this.push({ kind: "wheel", dx: short(dx), dy: short(dy) }, at);
  }

  /** Releases everything, for example because the page lost the focus. */
  release() {
    this.forget();
    if (this.to.plays()) this.push({ kind: "releaseAll" }, performance.now());
  }

  /** Resets for a new session. */
  forget() {
    this.keyboard.forget();
    this.touch.cancel();
    this.turns.forget();
  }

  private push(event: InputEvent, at: number) {
    this.to.push(event, at);
  }

  /** Position of the picture on the page, and picture pixels per page pixel. */
  shown() {
    const box = this.video.getBoundingClientRect();
    const { videoWidth: w, videoHeight: h } = this.video;
    if (this.area.classList.contains("exact")) return { left: box.left, top: box.top, width: w, height: h, scale: 1 };
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
