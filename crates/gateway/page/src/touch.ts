// Touch gestures: a tap is the left button, a long press the right one, a moving finger drags, two fingers turn the
// wheel. The caller provides the time.

/** Duration of a long press in milliseconds: Android's former default (ViewConfiguration, DEFAULT_LONG_PRESS_TIMEOUT).
 * Newer versions use 400. */
export const LONG_PRESS = 500;

/** Movement in page pixels below which a finger counts as still; a guess, close to Android's "touch slop" of 8 dp. */
const STILL = 10;

/** Movement in page pixels for one wheel notch: about three lines of text; a guess. */
const NOTCH = 50;

interface Finger {
  x: number;
  y: number;
}

export interface Fingers {
  point(finger: Finger, at: number): void;
  button(which: "left" | "right", pressed: boolean, at: number): void;
  /** In notches: positive is to the right and up. */
  wheel(x: number, y: number, at: number): void;
}

export class Touch {
  private fingers = new Map<number, Finger>();
  /** State of the gesture. `waits`: it may become a tap, a long press or a drag. `done`: ignored until all fingers are
   * up. */
  private does: "nothing" | "waits" | "drags" | "turns" | "done" = "nothing";
  private first: Finger = { x: 0, y: 0 };
  private since = 0;

  constructor(private readonly to: Fingers) {}

  down(id: number, finger: Finger, at: number) {
    this.fingers.set(id, finger);
    if (this.fingers.size === 1) {
      this.does = "waits";
      this.first = finger;
      this.since = at;
      this.to.point(finger, at);
    } else if (this.fingers.size === 2 && this.does !== "done") {
      if (this.does === "drags") this.to.button("left", false, at);
      this.does = "turns";
    }
  }

  moved(id: number, finger: Finger, at: number) {
    const before = this.fingers.get(id);
    if (!before) return;
    this.fingers.set(id, finger);
    if (this.does === "turns") {
      // Natural scrolling: a movement down shows the content above. Each finger contributes its share of the distance.
      const share = NOTCH * this.fingers.size;
      this.to.wheel((before.x - finger.x) / share, (finger.y - before.y) / share, at);
      return;
    }
    if (this.does === "waits" && Math.hypot(finger.x - this.first.x, finger.y - this.first.y) > STILL) {
      // The drag starts at the initial position.
      this.does = "drags";
      this.to.button("left", true, at);
    }
    if (this.does === "drags") this.to.point(finger, at);
  }

  up(id: number, at: number) {
    if (!this.fingers.delete(id)) return;
    this.due(at);
    if (this.does === "waits") {
      this.to.button("left", true, at);
      this.to.button("left", false, at);
    }
    if (this.does === "drags") this.to.button("left", false, at);
    this.does = this.fingers.size > 0 ? "done" : "nothing";
  }

  /** The browser took over the gesture. */
  cancel() {
    this.fingers.clear();
    this.does = "nothing";
  }

  /** Checks for a long press. */
  due(at: number) {
    if (this.does !== "waits" || at - this.since < LONG_PRESS) return;
    this.to.button("right", true, at);
    this.to.button("right", false, at);
    this.does = "done";
  }
}
