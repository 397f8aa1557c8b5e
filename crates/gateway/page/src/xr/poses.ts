// Head poses for the host. Each pose has a number, to which frames refer. The number also identifies the pose's
// sampling time.

import { pose } from "../wire";
import { exponential, inverse, logarithm, times, type Quaternion, type Vector } from "./math";

/** Number of sampling times kept: four seconds of a display at 120 Hz. */
const KEPT = 512;

/** Maximum distance in milliseconds between two poses for estimating a velocity. */
const APART = 100;

export interface Head {
  position: Vector;
  orientation: Quaternion;
  /** In metres and radians per second, if known. */
  linear?: Vector;
  angular?: Vector;
}

export class Poses {
  private newest = 0;
  private sampled = new Map<number, number>();
  private before: { head: Head; at: number } | null = null;

  constructor(private readonly emit: (message: Uint8Array<ArrayBuffer>) => void) {}

  /**
   * Sends a pose that a headset predicts for a time of the page's clock. The host extrapolates each pose from its
   * sampling time. The sampling time of this pose is now, so the page first extrapolates the pose back to now, with the
   * same velocities.
   */
  expected(head: Head, at: number) {
    const found = this.velocities(head, at);
    const moving = { ...head, linear: head.linear ?? found.linear, angular: head.angular ?? found.angular };
    this.before = { head, at };
    const now = performance.now();
    this.send(carried(moving, Math.max(0, at - now) / -1000), now);
  }

  /** Sends a pose of this time. */
  send(head: Head, at: number) {
    this.newest += 1;
    this.sampled.set(this.newest, at);
    this.sampled.delete(this.newest - KEPT);
    this.emit(pose(this.newest, at, head));
  }

  /** Sampling time of the pose with this number, in milliseconds of the page's clock. */
  sampledAt(number: number): number | undefined {
    return this.sampled.get(number);
  }

  /** Velocities from the previous pose, if the headset reports none. */
  private velocities(head: Head, at: number): { linear?: Vector; angular?: Vector } {
    const before = this.before;
    if (!before || at <= before.at || at - before.at > APART) return {};
    const perSecond = 1000 / (at - before.at);
    const turned = logarithm(times(head.orientation, inverse(before.head.orientation)));
    const moved = head.position.map((place, axis) => place - before.head.position[axis]);
    const [linear, angular] = [moved, turned].map((by) => by.map((v) => v * perSecond) as Vector);
    return { linear, angular };
  }
}

/** The pose extrapolated by this many seconds. */
function carried(head: Head, seconds: number): Head {
  const by = (velocity: Vector | undefined) => (velocity ?? [0, 0, 0]).map((v) => v * seconds) as Vector;
  const moved = by(head.linear);
  return {
    ...head,
    position: head.position.map((place, axis) => place + moved[axis]) as Vector,
    orientation: times(exponential(by(head.angular)), head.orientation),
  };
}
