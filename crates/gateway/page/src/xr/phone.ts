// How a phone or tablet is turned (W3C Device Orientation).

import { around, heading, times, type Quaternion } from "./math";

const RADIANS = Math.PI / 180;

/** The way that its back looks, as OpenXR has it: y up, -z ahead. Angles are in degrees. */
export function orientation(alpha: number, beta: number, gamma: number, screen: number): Quaternion {
  // The device turns around its z, then x, then y, and lies flat without any of it; its z is our y then.
  const turned = times(around(1, alpha * RADIANS), times(around(0, beta * RADIANS), around(2, -gamma * RADIANS)));
  return times(turned, times(around(0, -Math.PI / 2), around(2, -screen * RADIANS)));
}

export class Phone {
  /** Where it looked when it began: that is ahead. */
  private ahead: number | null = null;
  /** Where it looks, by the compass, once it has said so. */
  private newest: Quaternion | null = null;

  constructor(private readonly turned: (orientation: Quaternion) => void) {
    addEventListener("deviceorientation", ({ alpha, beta, gamma }) => {
      if (alpha === null || beta === null || gamma === null) return;
      this.newest = orientation(alpha, beta, gamma, screen.orientation?.angle ?? 0);
      this.tell(this.newest);
    });
  }

  private tell(now: Quaternion) {
    this.ahead ??= heading(now);
    this.turned(times(around(1, -this.ahead), now));
  }

  /** Whether this is a device that is held in the hand. */
  static isHeld(): boolean {
    return "DeviceOrientationEvent" in window && navigator.maxTouchPoints > 0;
  }

  /** Some browsers ask their person; whether it may be looked at. */
  async isAllowed(): Promise<boolean> {
    const asks = DeviceOrientationEvent as unknown as { requestPermission?: () => Promise<string> };
    try {
      return (await asks.requestPermission?.()) !== "denied";
    } catch {
      return false;
    }
  }

  /** Where it looks now is ahead; what has not said where it looks says it next. */
  recentre() {
    this.ahead = null;
    if (this.newest) this.tell(this.newest);
  }
}
