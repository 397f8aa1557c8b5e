// Poses of the head on their way to the host. Each has a number, by which the page finds again when it was
// sampled: frames say with which pose they were drawn.

import { pose } from "../wire";
import type { Quaternion, Vector } from "./math";

/** Sampling times that are kept: more than two seconds of a display with 120 pictures a second. */
const KEPT = 512;

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

  constructor(private readonly say: (message: Uint8Array<ArrayBuffer>) => void) {}

  /** Sends a pose that was sampled now and holds at a time of the page's clock, which may lie ahead. */
  send(head: Head, holdsAt: number) {
    this.newest += 1;
    this.sampled.set(this.newest, performance.now());
    this.sampled.delete(this.newest - KEPT);
    this.say(pose(this.newest, holdsAt, head));
  }

  /** When the pose with this number was sampled, in milliseconds of the page's clock. */
  sampledAt(number: number): number | undefined {
    return this.sampled.get(number);
  }
}
