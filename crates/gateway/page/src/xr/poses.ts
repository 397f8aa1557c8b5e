// Poses of the head on their way to the host. Each has a number, by which the page finds again when it was
// sampled: frames say with which pose they were drawn.

import { pose } from "../wire";
import { exponential, inverse, logarithm, times, type Quaternion, type Vector } from "./math";

/** Sampling times that are kept: more than two seconds of a display with 120 pictures a second. */
const KEPT = 512;

/** Two poses further apart than this, in milliseconds, say nothing of a velocity. */
const APART = 100;

export interface Head {
  position: Vector;
  orientation: Quaternion;
  /** In metres and in radians a second, where they are known. */
  linear?: Vector;
  angular?: Vector;
}

export class Poses {
  private newest = 0;
  private sampled = new Map<number, number>();
  private before: { head: Head; at: number } | null = null;

  constructor(private readonly say: (message: Uint8Array<ArrayBuffer>) => void) {}

  /**
   * Sends a pose that a headset expects at a time of the page's clock. The host carries poses on by itself, from
   * when they were sampled: that is now, so that it is carried back until now by the same velocities.
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
    this.say(pose(this.newest, at, head));
  }

  /** When the pose with this number was sampled, in milliseconds of the page's clock. */
  sampledAt(number: number): number | undefined {
    return this.sampled.get(number);
  }

  /** From the pose before, in case the headset says nothing of them. */
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

/** Where it is so many seconds later, if it goes on as it does. */
function carried(head: Head, seconds: number): Head {
  const by = (velocity: Vector | undefined) => (velocity ?? [0, 0, 0]).map((v) => v * seconds) as Vector;
  const moved = by(head.linear);
  return {
    ...head,
    position: head.position.map((place, axis) => place + moved[axis]) as Vector,
    orientation: times(exponential(by(head.angular)), head.orientation),
  };
}
