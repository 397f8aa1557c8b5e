// Orientation of a phone or tablet (W3C Device Orientation).

import { around, heading, times, type Quaternion } from "./math";

const RADIANS = Math.PI / 180;

/** The viewing direction of the device's back, as in OpenXR: y up, -z ahead. Angles are in degrees. */
export function orientation(alpha: number, beta: number, gamma: number, screen: number): Quaternion {
  // The device rotates around z, then x, then y. It initially lies flat, and its z is then OpenXR's y.
  const turned = times(around(1, alpha * RADIANS), times(around(0, beta * RADIANS), around(2, -gamma * RADIANS)));
  return times(turned, times(around(0, -Math.PI / 2), around(2, -screen * RADIANS)));
}

export class Phone {
  /** The initial heading, which counts as straight ahead. */
  private ahead: number | null = null;
  /** The current orientation, once reported. */
  private newest: Quaternion | null = null;

  constructor(private readonly turned: (orientation: Quaternion) => void) {
    addEventListener("deviceorientation", ({ alpha, beta, gamma }) => {
      if (alpha === null || beta === null || gamma === null) return;
      this.newest = orientation(alpha, beta, gamma, screen.orientation?.angle ?? 0);
      this.notify(this.newest);
    });
  }

  private notify(now: Quaternion) {
    this.ahead ??= heading(now);
    this.turned(times(around(1, -this.ahead), now));
  }

  /** Whether this is a handheld device. */
  static isHeld(): boolean {
    return "DeviceOrientationEvent" in window && navigator.maxTouchPoints > 0;
  }

  /** Requests permission, which some browsers require. Returns whether it was granted. */
  async isAllowed(): Promise<boolean> {
    const asks = DeviceOrientationEvent as unknown as { requestPermission?: () => Promise<string> };
    try {
      return (await asks.requestPermission?.()) !== "denied";
    } catch {
      return false;
    }
  }

  /** Recentres at the current heading, or at the next reported one. */
  recentre() {
    this.ahead = null;
    if (this.newest) this.notify(this.newest);
  }
}
