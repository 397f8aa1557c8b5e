// The head of who holds this device: a phone or tablet says how it is turned (W3C Device Orientation), and so looks
// around in an OpenXR application at the host.

import { pose } from "./wire";

type Quaternion = [number, number, number, number];

/** Of a rotation by so many radians around axis 0 (x), 1 (y) or 2 (z). */
function around(axis: 0 | 1 | 2, angle: number): Quaternion {
  const turned: Quaternion = [0, 0, 0, Math.cos(angle / 2)];
  turned[axis] = Math.sin(angle / 2);
  return turned;
}

/** First b, then a. */
function times([ax, ay, az, aw]: Quaternion, [bx, by, bz, bw]: Quaternion): Quaternion {
  return [
    aw * bx + ax * bw + ay * bz - az * by,
    aw * by - ax * bz + ay * bw + az * bx,
    aw * bz + ax * by - ay * bx + az * bw,
    aw * bw - ax * bx - ay * by - az * bz,
  ];
}

const RADIANS = Math.PI / 180;

/** The way that its back looks, as OpenXR has it: y up, -z ahead. Angles are in degrees. */
export function orientation(alpha: number, beta: number, gamma: number, screen: number): Quaternion {
  // The device turns around its z, then x, then y, and lies flat without any of it; its z is our y then.
  const turned = times(around(1, alpha * RADIANS), times(around(0, beta * RADIANS), around(2, -gamma * RADIANS)));
  return times(turned, times(around(0, -Math.PI / 2), around(2, -screen * RADIANS)));
}

/** The turn about the vertical in an orientation. */
function heading([x, y, z, w]: Quaternion): number {
  return Math.atan2(2 * (w * y + x * z), 1 - 2 * (x * x + y * y));
}

export class Head {
  private looks = false;
  /** Where it looked when it began: that is ahead. */
  private ahead: number | null = null;
  private number = 0;

  constructor(
    private readonly button: HTMLElement,
    private readonly plays: () => boolean,
    private readonly say: (message: Uint8Array<ArrayBuffer>) => void,
  ) {
    button.addEventListener("click", () => void this.toggle());
    addEventListener("deviceorientation", (event) => this.turned(event));
  }

  /** Only who plays has a head there. */
  roleChanged() {
    const held = "DeviceOrientationEvent" in window && navigator.maxTouchPoints > 0;
    this.button.hidden = !held || !this.plays();
  }

  private async toggle() {
    // Some browsers ask their person.
    const asks = DeviceOrientationEvent as unknown as { requestPermission?: () => Promise<string> };
    if (!this.looks && (await asks.requestPermission?.()) === "denied") return;
    this.looks = !this.looks;
    this.ahead = null;
    this.button.setAttribute("aria-pressed", String(this.looks));
  }

  private turned({ alpha, beta, gamma }: DeviceOrientationEvent) {
    if (!this.looks || !this.plays() || alpha === null || beta === null || gamma === null) return;
    const now = orientation(alpha, beta, gamma, screen.orientation?.angle ?? 0);
    this.ahead ??= heading(now);
    this.number += 1;
    this.say(pose(this.number, performance.now(), times(around(1, -this.ahead), now)));
  }
}
