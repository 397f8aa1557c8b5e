// Head orientation without a headset: by dragging or locking the mouse, or by turning a phone or tablet. The position
// is the origin.

import { around, times, type Quaternion } from "./math";
import { Phone } from "./phone";

/** Radians per pixel of mouse movement: 900 pixels turn the head by a right angle. */
const TURN = Math.PI / 1800;

/** Maximum pitch. */
const STEEP = Math.PI / 2 - 0.01;

/** Mouse movement in pixels below which a press is a click. */
const CLICK = 4;

export class Look {
  private yaw = 0;
  private pitch = 0;
  private held: Quaternion | null = null;
  /** Time of the phone's newest orientation, until it is read. */
  private turnedAt: number | null = null;
  private readonly phone = new Phone((orientation) => {
    this.held = orientation;
    this.turnedAt = performance.now();
  });
  private moved = 0;

  /** Listens for pointer events on this element. While `looks` returns true, stops their propagation. */
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
        // Only a mouse can lock the pointer; touch cannot.
        if (this.moved < CLICK && event.pointerType === "mouse") this.lock(locked);
    }
  }

  private lock(locked: boolean) {
    if (locked) document.exitPointerLock();
    else void Promise.resolve(this.area.requestPointerLock()).catch(() => undefined);
  }

  private turn(x: number, y: number) {
    this.moved += Math.abs(x) + Math.abs(y);
    // Dragging moves the picture. With a locked pointer, the movement turns the viewing direction instead.
    const sign = document.pointerLockElement === this.area ? -1 : 1;
    this.yaw += sign * x * TURN;
    this.pitch = Math.max(-STEEP, Math.min(STEEP, this.pitch + sign * y * TURN));
  }

  /** Whether the browser permits looking around. The browser may prompt the user. */
  async isAllowed(): Promise<boolean> {
    return !Phone.isHeld() || (await this.phone.isAllowed());
  }

  /** Starts looking around. The view is straight ahead at first. */
  start() {
    [this.yaw, this.pitch, this.held] = [0, 0, null];
    this.phone.recentre();
  }

  /** The head pose and its time. */
  now(): { orientation: Quaternion; at: number } {
    // Without new events, a phone keeps its orientation.
    const at = this.turnedAt ?? performance.now();
    this.turnedAt = null;
    return { orientation: times(around(1, this.yaw), this.held ?? around(0, this.pitch)), at };
  }
}
