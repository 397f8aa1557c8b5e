// Input queue: each message repeats the oldest events that the host has not acknowledged, as in
// crates/proto/src/input/outbox.rs. Lost and late messages have no effect.

import { input, MAX_EVENTS, type InputEvent, type Sampled } from "./wire";

/** Maximum number of pending events; beyond it the host counts as silent, and everything is released. */
const MOST = 32 * MAX_EVENTS;

/** Number of sampling times kept for motion-to-photon. */
const SAMPLED = 1024;

export class Outbox {
  private waiting: Sampled[] = [];
  private newest = 0;
  private held: number[] = [];
  private sampled = new Map<number, number>();
  private newestAt = 0;

  /** `overflowed` is called when the pending events, including those of pads, were discarded. */
  constructor(private readonly overflowed: () => void) {}

  push(event: InputEvent, at: number) {
    this.note(event);
    if (this.merged(event)) return;
    if (this.waiting.length >= MOST) {
      this.waiting = [];
      this.append({ kind: "releaseAll" }, at);
      this.overflowed();
    }
    this.append(event, at);
  }

  /** The host has applied all events up to this one. */
  seen(through: number) {
    const unseen = (this.newest - through) >>> 0;
    while (this.waiting.length > unseen) this.waiting.shift();
  }

  isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  isPressed(): boolean {
    return this.held.length > 0;
  }

  message(): Uint8Array<ArrayBuffer> {
    const events = this.waiting.slice(0, MAX_EVENTS);
    const whole = events.length === this.waiting.length;
    const first = (this.newest - this.waiting.length + 1) >>> 0;
    return input(first, events, whole ? this.held : null);
  }

  /** Sampling time of the event with this number. */
  sampledAt(number: number): number | undefined {
    return this.sampled.get(number);
  }

  private append(event: InputEvent, sampledAt: number) {
    // Sampling times must not decrease, because the wire format counts back from the newest one.
    const at = Math.max(sampledAt, this.newestAt);
    this.newestAt = at;
    this.newest = (this.newest + 1) >>> 0;
    this.waiting.push({ event, at });
    this.sampled.set(this.newest, at);
    this.sampled.delete((this.newest - SAMPLED) >>> 0);
  }

  /**
   * Merges a pointer movement or a pad's state into the previous event if that event is of the same kind and the
   * pending events exceed one message. Returns whether it did.
   */
  private merged(event: InputEvent): boolean {
    if (this.waiting.length <= MAX_EVENTS) return false;
    const newest = this.waiting[this.waiting.length - 1];
    if (event.kind === "absolute" && newest.event.kind === "absolute") {
      newest.event = event;
      return true;
    }
    if (event.kind === "pad" && newest.event.kind === "pad") {
      // Each press is a separate event; sticks and triggers merge into the previous state.
      const same = event.pad === newest.event.pad && event.state.buttons === newest.event.state.buttons;
      if (same) newest.event = event;
      return same;
    }
    if (event.kind === "relative" && newest.event.kind === "relative") {
      const dx = newest.event.dx + event.dx;
      const dy = newest.event.dy + event.dy;
      if (Math.abs(dx) > 32767 || Math.abs(dy) > 32767) return false;
      newest.event = { kind: "relative", dx, dy };
      return true;
    }
    return false;
  }

  private note(event: InputEvent) {
    if (event.kind === "releaseAll") this.held = [];
    const code = event.kind === "key" ? event.code : event.kind === "button" ? event.button : undefined;
    if (code === undefined) return;
    this.held = this.held.filter((other) => other !== code);
    if ((event as { pressed: boolean }).pressed) this.held.push(code);
  }
}
