// Wheel rotation in 1/120 of a notch (REL_WHEEL_HI_RES); positive is to the right and up.

/** Legacy properties of a WheelEvent in Chromium, Firefox and Safari: 120 per notch; negative is down,
 * or to the right. */
interface Notched {
  wheelDeltaX?: number;
  wheelDeltaY?: number;
}

/** A notch in wire units, and its usual length in pixels, lines and pages. */
const NOTCH = 120;
const NOTCH_OF = [100, 3, 1];

type Turn = Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode" | "timeStamp">;

/** Pause in milliseconds after which a new turn starts; a guess. */
const ANOTHER = 1000;

export class Wheel {
  /** The movement that is not sent yet: less than a wire unit. */
  private rest = { x: 0, y: 0 };
  /** State of wheels with notches, by axis and unit. */
  private notched = new Map<string, { notch: number; length: number; told: number; at: number }>();

  /**
   * Converts a wheel event. The pixels or lines per notch depend on browser, system and settings. Therefore, notches
   * are used if the browser reports them.
   */
  turned(event: Turn & Notched): { dx: number; dy: number } {
    // Firefox reports lines if the unit is read first, otherwise pixels that depend on the page.
    const mode = event.deltaMode;
    const { deltaX, deltaY, wheelDeltaX, wheelDeltaY } = event;
    const x = wheelDeltaX === undefined ? deltaX * (NOTCH / NOTCH_OF[mode]) : -this.notches(`x${mode}`, -deltaX, wheelDeltaX, event.timeStamp);
    const y = wheelDeltaY === undefined ? -deltaY * (NOTCH / NOTCH_OF[mode]) : this.notches(`y${mode}`, -deltaY, wheelDeltaY, event.timeStamp);
    return this.add(x, y);
  }

  /** Adds a movement in wire units. Returns whole units to send. */
  add(x: number, y: number): { dx: number; dy: number } {
    const all = { x: this.rest.x + x, y: this.rest.y + y };
    const [dx, dy] = [Math.trunc(all.x) + 0, Math.trunc(all.y) + 0];
    this.rest = { x: all.x - dx, y: all.y - dy };
    return { dx, dy };
  }

  /** Discards the movement that is not sent yet. */
  forget() {
    this.rest = { x: 0, y: 0 };
  }

  /** The page's pixel size has changed. */
  zoomed() {
    this.notched.clear();
  }

  /**
   * The notches of an event, from its length. Firefox (153) merges pending events: it adds their lengths, but not their
   * notches. Therefore, the smallest length per notch of all events so far counts as the length of a notch. The number
   * of notches of a turn is the turn's length divided by the length of a notch. If a shorter notch becomes known during
   * a turn, the result also contains the missing notches of the turn's earlier events.
   */
  private notches(which: string, length: number, told: number, at: number): number {
    if (length === 0 || told === 0 || told % NOTCH !== 0) return told;
    const before = this.notched.get(which) ?? { notch: Infinity, length: 0, told: 0, at };
    const turn = at - before.at > ANOTHER ? { ...before, length: 0, told: 0 } : before;
    const notch = Math.min(turn.notch, Math.abs(length / told) * NOTCH);
    const all = NOTCH * Math.round((turn.length + length) / notch);
    this.notched.set(which, { notch, length: turn.length + length, told: all, at });
    return all - turn.told;
  }
}
