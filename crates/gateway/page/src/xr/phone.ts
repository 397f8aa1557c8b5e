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

  constructor(private readonly turned: (orientation: Quaternion) => void) {
    addEventListener("deviceorientation", ({ alpha, beta, gamma }) => {
      if (alpha === null || beta === null || gamma === null) return;
      const now = orientation(alpha, beta, gamma, screen.orientation?.angle ?? 0);
      this.ahead ??= heading(now);
      this.turned(times(around(1, -this.ahead), now));
    });
  }

  /** Whether this is a device that is held in the hand. */
  static isHeld(): boolean {
    return "DeviceOrientationEvent" in window && navigator.maxTouchPoints > 0;
  }

  /** Some browsers ask their person; whether it may be looked at. */
  async isAllowed(): Promise<boolean> {
    const asks = DeviceOrientationEvent as unknown as { requestPermission?: () => Promise<string> };
    return (await asks.requestPermission?.()) !== "denied";
  }

  /** Where it looks next is ahead. */
  recentre() {
    this.ahead = null;
  }
}
