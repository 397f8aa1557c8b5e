// A head for who has no headset: the mouse turns it where it is dragged or locked, a phone or tablet as it is turned
// itself. It stands still at the origin.

import { around, times, type Quaternion } from "./math";
import { Phone } from "./phone";

/** Radians for each pixel that the mouse is dragged over: a picture of 900 pixels is about a right angle. */
const TURN = Math.PI / 1800;

/** It does not look further up or down. */
const STEEP = Math.PI / 2 - 0.01;

/** A press that moves the mouse by less, in pixels, is a click. */
const CLICK = 4;

export class Look {
  private yaw = 0;
  private pitch = 0;
  private held: Quaternion | null = null;
  /** When the phone said so, until that was asked for. */
  private turnedAt: number | null = null;
  private readonly phone = new Phone((orientation) => {
    this.held = orientation;
    this.turnedAt = performance.now();
  });
  private moved = 0;

  /** The mouse is heard on this element, and no event of it goes on to those around while `looks`. */
  constructor(
    private readonly area: HTMLElement,
    private readonly looks: () => boolean,
  ) {
    const kinds = ["pointerdown", "pointermove", "pointerrawupdate", "pointerup", "pointercancel", "click"] as const;
    for (const kind of kinds)
      area.addEventListener(kind, (event) => {
        if (!this.looks()) return;
        event.stopPropagation();
        this.mouse(event as PointerEvent);
      });
  }

  private mouse(event: PointerEvent) {
    const locked = document.pointerLockElement === this.area;
    switch (event.type) {
      case "pointerdown":
        this.moved = 0;
        if (!locked) this.area.setPointerCapture(event.pointerId);
        break;
      case "pointermove":
        if (locked || event.buttons & 1) this.turn(event.movementX, event.movementY);
        break;
      case "click":
        // With a mouse only: fingers have nothing to lock.
        if (this.moved < CLICK && event.pointerType === "mouse") this.lock(locked);
    }
  }

  private lock(locked: boolean) {
    if (locked) document.exitPointerLock();
    else void Promise.resolve(this.area.requestPointerLock()).catch(() => undefined);
  }

  private turn(x: number, y: number) {
    this.moved += Math.abs(x) + Math.abs(y);
    // A picture that is dragged goes along; a mouse that is locked points where it looks.
    const sign = document.pointerLockElement === this.area ? -1 : 1;
    this.yaw += sign * x * TURN;
    this.pitch = Math.max(-STEEP, Math.min(STEEP, this.pitch + sign * y * TURN));
  }

  /** Whether the person lets it look. */
  async isAllowed(): Promise<boolean> {
    return !Phone.isHeld() || (await this.phone.isAllowed());
  }

  /** It begins to look, and ahead. */
  begin() {
    [this.yaw, this.pitch, this.held] = [0, 0, null];
    this.phone.recentre();
  }

  /** The head, and when it was there. */
  now(): { orientation: Quaternion; at: number } {
    // A phone that says nothing is held as it was.
    const at = this.turnedAt ?? performance.now();
    this.turnedAt = null;
    return { orientation: times(around(1, this.yaw), this.held ?? around(0, this.pitch)), at };
  }
}
