// How far a wheel was turned, in 1/120 of a notch (REL_WHEEL_HI_RES); positive is to the right and up.

/** The legacy properties of a WheelEvent, which Chromium, Firefox and Safari all have: 120 a notch, negative down. */
interface Notched {
  wheelDeltaX?: number;
  wheelDeltaY?: number;
}

/** A notch in units of the wire, and in the pixels, lines and pages that browsers usually make of one. */
const NOTCH = 120;
const NOTCH_OF = [100, 3, 1];

type Turn = Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode" | "timeStamp">;

/** What comes so long behind is another turn, in milliseconds; a guess. */
const ANOTHER = 1000;

export class Wheel {
  /** What is less than a unit of the wire. */
  private rest = { x: 0, y: 0 };
  /** Wheels with notches, by axis and unit of length. */
  private notched = new Map<string, { notch: number; length: number; told: number; at: number }>();

  /**
   * A turn. How many pixels or lines a notch is depends on browser, system and settings: where the browser says how
   * many notches a turn is, that counts.
   */
  turned(event: Turn & Notched): { dx: number; dy: number } {
    // Firefox gives lines to who asks for the unit first, else pixels that depend on the page.
    const mode = event.deltaMode;
    const { deltaX, deltaY, wheelDeltaX, wheelDeltaY } = event;
    const x = wheelDeltaX === undefined ? deltaX * (NOTCH / NOTCH_OF[mode]) : -this.notches(`x${mode}`, -deltaX, wheelDeltaX, event.timeStamp);
    const y = wheelDeltaY === undefined ? -deltaY * (NOTCH / NOTCH_OF[mode]) : this.notches(`y${mode}`, -deltaY, wheelDeltaY, event.timeStamp);
    return this.add(x, y);
  }

  /** Adds a turn, in units of the wire; what is to be told of. */
  add(x: number, y: number): { dx: number; dy: number } {
    const all = { x: this.rest.x + x, y: this.rest.y + y };
    const [dx, dy] = [Math.trunc(all.x) + 0, Math.trunc(all.y) + 0];
    this.rest = { x: all.x - dx, y: all.y - dy };
    return { dx, dy };
  }

  /** Another device turns from now on. */
  forget() {
    this.rest = { x: 0, y: 0 };
  }

  /** The page's pixels are others. */
  zoomed() {
    this.notched.clear();
  }

  /**
   * Firefox (153) makes one event of several that wait: their lengths are added up, their notches are not. So the
   * notches of a turn are its length by that of the shortest event with one; a longer one that came first is corrected
   * when a shorter one comes.
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
