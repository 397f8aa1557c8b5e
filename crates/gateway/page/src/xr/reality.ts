// A virtual reality on the page: which picture is shown, on which display, and whose head turns it.
//
// A frame that an OpenXR application drew is shown re-aimed from where the head was to where it is now: on a canvas
// over the video, or by a headset. What it does not know is how far away things are: it turns, and does not move.

import { controllers as message, display as displayMessage, type Display, type Haptic } from "../wire";
import { controllers, feel, type Both } from "./controllers";
import { Immersive, type Scene } from "./immersive";
import { Look } from "./look";
import { inverse, middle, reaimed, times, type Tangents } from "./math";
import { Painter, type Viewport } from "./painter";
import { Phone } from "./phone";
import { Poses } from "./poses";
import { Views, type Drawn } from "./views";

/** That nothing is held or worn any more is said so often, since any message may be lost. */
const RELEASED = 4;

/** So often, in milliseconds, the host is told what the display is like. */
const DISPLAY_EVERY = 1000;

/** Pictures in a row of which no views are known: the application draws no virtual reality any more. */
const FLAT = 30;

export interface Page {
  plays(): boolean;
  say(message: Uint8Array<ArrayBuffer>): void;
  words(words: string): void;
  /** A picture was drawn whose pose was sampled so many milliseconds before. */
  drawn(motionToPhoton: number): void;
}

/** What the canvas shows. */
type Eyes = "left" | "right" | "both";

export class Reality {
  private views = new Views();
  private readonly poses: Poses;
  private readonly look: Look;
  private readonly immersive: Immersive;
  private made: Painter | null = null;
  /** What the painter has. */
  private newest: { width: number; height: number; drawn: Drawn | null } = { width: 0, height: 0, drawn: null };
  /** The newest pose that a picture was shown of. */
  private echoed = 0;
  /** Pictures since the last whose views were known. */
  private unknown = FLAT;
  private looks = false;
  /** Messages on controllers. */
  private said = 0;
  /** How often it is still to be said that nothing is held, and that no headset is worn. */
  private release = { hands: 0, headset: 0 };
  /** Messages on the display, and when the newest was said. */
  private displays = { said: 0, at: -Infinity };
  /** The newest that a hand was to feel: of two messages the older may come later. */
  private newestFelt = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly video: HTMLVideoElement,
    private readonly buttons: { look: HTMLElement; eyes: HTMLElement; enter: HTMLElement },
    private readonly page: Page,
    private eyes: Eyes,
  ) {
    this.poses = new Poses((message) => page.say(message));
    this.look = new Look(canvas, () => this.looks);
    this.immersive = new Immersive(buttons.enter, () => this.painter(), this.scene(), page.words);
    buttons.look.addEventListener("click", () => void this.toggle());
    buttons.eyes.addEventListener("click", () => {
      this.eyes = this.eyes === "both" ? "left" : "both";
      this.changed();
    });
    const each = () => {
      this.turn();
      requestAnimationFrame(each);
    };
    requestAnimationFrame(each);
  }

  /** Another role, another kind of picture, or another display. */
  changed() {
    const { look, eyes, enter } = this.buttons;
    look.hidden = !this.page.plays() || !(this.isReal() || Phone.isHeld());
    if (look.hidden) this.looks = false;
    look.setAttribute("aria-pressed", String(this.looks));
    eyes.hidden = !this.isReal();
    eyes.textContent = this.eyes === "both" ? "One eye" : "Both eyes";
    enter.textContent = this.immersive.isOn() ? "Leave VR" : "Enter VR";
    this.canvas.hidden = !this.isPainted() && !this.immersive.isOnCanvas();
    this.canvas.classList.toggle("looks", this.looks);
    if (!this.looks && document.pointerLockElement === this.canvas) document.exitPointerLock();
  }

  /** The connection is over. */
  closed() {
    this.immersive.end();
    this.views = new Views();
    this.unknown = FLAT;
    this.newestFelt = 0;
    this.changed();
  }

  /** A message of the gateway on what frames were drawn with. */
  heard(message: DataView) {
    this.views.heard(message);
  }

  /** The browser has a new picture. */
  picture(meta: VideoFrameCallbackMetadata) {
    const drawn = this.views.of(meta.rtpTimestamp);
    const before = this.isReal();
    this.unknown = drawn ? 0 : Math.min(FLAT, this.unknown + 1);
    if (before !== this.isReal()) this.changed();
    // Of one whose views were lost nobody knows where it is to be seen: the one before stays.
    if (!drawn && this.isReal()) return;
    if (!this.isPainted() && !this.immersive.isOn()) return;
    this.painter()?.take(this.video);
    this.newest = { width: this.video.videoWidth, height: this.video.videoHeight, drawn: drawn ?? null };
  }

  /** When the pose was sampled that the frame with this RTP time was drawn with, and its number. */
  posed(rtpTime: number | undefined): { number: number; at: number } | undefined {
    const number = this.views.of(rtpTime)?.pose ?? 0;
    const at = this.poses.sampledAt(number);
    return number === 0 || at === undefined ? undefined : { number, at };
  }

  /** What a hand is to feel. */
  felt(haptic: Haptic) {
    if (((haptic.serial - this.newestFelt) | 0) <= 0) return;
    this.newestFelt = haptic.serial;
    feel(this.immersive.sources(), haptic);
  }

  /** Tells the host how the controllers are held; that there are none a few times. */
  private held(both: Both) {
    const some = both.some((held) => held !== null);
    if (!this.page.plays() || (!some && this.release.hands === 0)) return;
    this.release.hands = some ? RELEASED : this.release.hands - 1;
    this.said += 1;
    this.page.say(message(this.said, performance.now(), both));
  }

  /** Tells the host what the headset's display is like. */
  private sees(display: Display) {
    const now = performance.now();
    if (now - this.displays.at < DISPLAY_EVERY) return;
    this.displays.at = now;
    this.release.headset = RELEASED;
    this.tellDisplay(display);
  }

  private tellDisplay(display: Display) {
    this.displays.said += 1;
    this.page.say(displayMessage(this.displays.said, display));
  }

  /** Says what is still to be said of a headset that was taken off. */
  private sayRelease() {
    if (this.release.hands > 0) this.held([null, null]);
    if (this.release.headset === 0) return;
    this.release.headset -= 1;
    this.displays.at = -Infinity;
    this.tellDisplay({});
  }

  /** Whether the pictures are of a virtual reality. */
  private isReal(): boolean {
    return this.unknown < FLAT;
  }

  /** Whether the canvas shows them. */
  private isPainted(): boolean {
    return this.isReal() && (this.looks || this.eyes !== "both") && !this.immersive.isOn();
  }

  private painter(): Painter | null {
    this.made ??= Painter.of(this.canvas);
    return this.made;
  }

  private async toggle() {
    if (this.looks) {
      this.looks = false;
    } else if ((await this.look.isAllowed()) && !this.looks) {
      // Of two presses while the browser asks its person the second begins nothing anew.
      this.look.begin();
      this.looks = true;
    }
    this.changed();
  }

  /** With each picture of the page's display. */
  private turn() {
    if (this.immersive.isOn()) return;
    this.sayRelease();
    const head = this.looks && this.page.plays() ? this.look.now() : null;
    if (head) this.poses.send({ position: [0, 0, 0], orientation: head.orientation }, head.at);
    const { drawn } = this.newest;
    const painter = this.isPainted() && drawn ? this.painter() : null;
    if (!painter || !drawn) return;
    this.fit();
    const all = drawn.views.map((_, eye) => eye);
    const shown = this.eyes === "both" ? all : this.eyes === "left" ? all.slice(0, 1) : all.slice(-1);
    const { width, height } = this.canvas;
    const part = width / shown.length;
    painter.begin(null);
    // Of a headset whose displays are not parallel each eye looks elsewhere than the head.
    const before = middle(drawn.views.map(({ orientation }) => orientation));
    shown.forEach((eye, place) => {
      const { orientation, shows } = drawn.views[eye];
      const viewport: Viewport = { x: place * part, y: 0, width: part, height };
      const seen = head ? times(head.orientation, times(inverse(before), orientation)) : orientation;
      painter.draw(reaimed(orientation, shows, seen, filling(shows, part / height)), [eye, all.length], viewport);
    });
    this.shown();
  }

  /** The newest picture was drawn: how late it is. */
  private shown() {
    const number = this.newest.drawn?.pose ?? 0;
    if (number === this.echoed) return;
    this.echoed = number;
    const at = this.poses.sampledAt(number);
    if (at !== undefined) this.page.drawn(performance.now() - at);
  }

  private fit() {
    const { clientWidth, clientHeight } = this.canvas;
    const width = Math.max(1, Math.round(clientWidth * devicePixelRatio));
    const height = Math.max(1, Math.round(clientHeight * devicePixelRatio));
    // Setting a size clears the canvas.
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
  }

  private scene(): Scene {
    return {
      newest: () => {
        const { width, height, drawn } = this.newest;
        // Another's head turns what is only watched: it is seen from a seat.
        return { width, height, parts: drawn?.views.length ?? 1, drawn: this.page.plays() ? drawn : null };
      },
      posed: (head, at) => {
        if (this.page.plays()) this.poses.expected(head, at);
      },
      sees: (display) => this.sees(display),
      held: (sources, frame, space) => {
        this.held(frame && space ? controllers(sources, frame, space) : [null, null]);
      },
      shown: () => this.shown(),
      changed: () => this.changed(),
    };
  }
}

/** What a display of this shape shows of a view without anything black while nobody turns: as wide or as high as
 * the view, around its middle. */
function filling({ left, right, up, down }: Tangents, shape: number): Tangents {
  const [width, height] = [right - left, up - down];
  const [x, y] = [(left + right) / 2, (up + down) / 2];
  const half = Math.min(width, height * shape) / 2;
  return { left: x - half, right: x + half, up: y + half / shape, down: y - half / shape };
}
