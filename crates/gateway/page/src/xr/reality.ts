// Virtual reality on the page: selects picture, display and head pose.
//
// A frame of an OpenXR application is reprojected from its head pose to the current one: on a canvas over the video, or
// in a headset. Depth is unknown, so only rotation is corrected.

import { controllers as message, display as displayMessage, type Display, type Haptic } from "../wire";
import { controllers, feel, type Both } from "./controllers";
import { Immersive, type Scene } from "./immersive";
import { Look } from "./look";
import { inverse, middle, reaimed, times, type Tangents } from "./math";
import { Painter, type Viewport } from "./painter";
import { Phone } from "./phone";
import { Poses } from "./poses";
import { Views, type Drawn } from "./views";

/** Repetitions of the message that no controller or headset is in use, since messages may be lost. */
const RELEASED = 4;

/** Interval of display messages in milliseconds. */
const DISPLAY_EVERY = 1000;

/** Number of consecutive pictures without views after which virtual reality has ended. */
const FLAT = 30;

export interface Page {
  plays(): boolean;
  sendControl(message: Uint8Array<ArrayBuffer>): void;
  words(words: string): void;
  /** Called when a picture with another pose was drawn, with the age of this pose in milliseconds. */
  drawn(motionToPhoton: number): void;
}

/** The views on the canvas. */
type Eyes = "left" | "right" | "both";

export class Reality {
  private views = new Views();
  private readonly poses: Poses;
  private readonly look: Look;
  private readonly immersive: Immersive;
  private made: Painter | null = null;
  /** The picture in the painter. */
  private newest: { width: number; height: number; drawn: Drawn | null } = { width: 0, height: 0, drawn: null };
  /** The newest shown pose. */
  private echoed = 0;
  /** Number of pictures since the last picture with views. */
  private unknown = FLAT;
  private looks = false;
  /** Number of controller messages. */
  private said = 0;
  /** Remaining repetitions of "no controllers" and "no headset". */
  private release = { hands: 0, headset: 0 };
  /** Number of display messages, and the time of the newest. */
  private displays = { said: 0, at: -Infinity };
  /** Serial number of the newest haptic message for each hand: messages may be reordered. */
  private newestFelt = [0, 0];

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly video: HTMLVideoElement,
    private readonly buttons: { look: HTMLElement; eyes: HTMLElement; enter: HTMLElement },
    private readonly page: Page,
    private eyes: Eyes,
  ) {
    this.poses = new Poses((message) => page.sendControl(message));
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

  /** The role, the kind of picture, or the display has changed. */
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

  /** The connection has ended. */
  closed() {
    this.immersive.end();
    this.views = new Views();
    this.unknown = FLAT;
    this.newestFelt = [0, 0];
    this.changed();
  }

  /** A message of the gateway with poses and views of frames. */
  onViews(message: DataView) {
    this.views.read(message);
  }

  /** The browser has a new picture. */
  picture(meta: VideoFrameCallbackMetadata) {
    const drawn = this.views.of(meta.rtpTimestamp);
    const before = this.isReal();
    this.unknown = drawn ? 0 : Math.min(FLAT, this.unknown + 1);
    if (before !== this.isReal()) this.changed();
    // If the message with this frame's views was lost, the frame's pose is unknown, and the previous picture is kept.
    if (!drawn && this.isReal()) return;
    if (!this.isPainted() && !this.immersive.isOn()) return;
    this.painter()?.take(this.video);
    this.newest = { width: this.video.videoWidth, height: this.video.videoHeight, drawn: drawn ?? null };
  }

  /** Sampling time and number of the pose of the frame with this RTP timestamp. */
  posed(rtpTime: number | undefined): { number: number; at: number } | undefined {
    const number = this.views.of(rtpTime)?.pose ?? 0;
    const at = this.poses.sampledAt(number);
    return number === 0 || at === undefined ? undefined : { number, at };
  }

  /** Haptic feedback. */
  felt(haptic: Haptic) {
    const newest = this.newestFelt[haptic.hand];
    if (newest === undefined || ((haptic.serial - newest) | 0) <= 0) return;
    this.newestFelt[haptic.hand] = haptic.serial;
    feel(this.immersive.sources(), haptic);
  }

  /** Sends the controllers' state. The absence of controllers is reported several times. */
  private held(both: Both) {
    const some = both.some((held) => held !== null);
    if (!this.page.plays() || (!some && this.release.hands === 0)) return;
    this.release.hands = some ? RELEASED : this.release.hands - 1;
    this.said += 1;
    this.page.sendControl(message(this.said, performance.now(), both));
  }

  /** Sends the properties of the headset's display. */
  private sees(display: Display) {
    const now = performance.now();
    if (now - this.displays.at < DISPLAY_EVERY) return;
    this.displays.at = now;
    this.release.headset = RELEASED;
    this.tellDisplay(display);
  }

  private tellDisplay(display: Display) {
    this.displays.said += 1;
    this.page.sendControl(displayMessage(this.displays.said, display));
  }

  /** Sends that no controllers and no headset are in use any more. */
  private sayRelease() {
    if (this.release.hands > 0) this.held([null, null]);
    if (this.release.headset === 0) return;
    this.release.headset -= 1;
    this.displays.at = -Infinity;
    this.tellDisplay({});
  }

  /** Whether the pictures are virtual reality. */
  private isReal(): boolean {
    return this.unknown < FLAT;
  }

  /** Whether the canvas shows the pictures. */
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
      // Ignore a second press while the browser prompts.
      this.look.start();
      this.looks = true;
    }
    this.changed();
  }

  /** Runs once per animation frame. */
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
    painter.setTarget(null);
    // If a headset's displays are not parallel, the eyes' orientations differ from the head's.
    const before = middle(drawn.views.map(({ orientation }) => orientation));
    shown.forEach((eye, place) => {
      const { orientation, shows } = drawn.views[eye];
      const viewport: Viewport = { x: place * part, y: 0, width: part, height };
      const seen = head ? times(head.orientation, times(inverse(before), orientation)) : orientation;
      painter.draw(reaimed(orientation, shows, seen, filling(shows, part / height)), [eye, all.length], viewport);
    });
    this.shown();
  }

  /** Reports the pose age of the newest drawn picture. */
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
    // Setting the size clears the canvas.
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
  }

  private scene(): Scene {
    return {
      newest: () => {
        const { width, height, drawn } = this.newest;
        // An observer sees the player's view, so no pose is applied to the picture.
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

/** The part of a view that fills a display of this aspect ratio without black borders: the full width or height, around
 * the centre. */
function filling({ left, right, up, down }: Tangents, shape: number): Tangents {
  const [width, height] = [right - left, up - down];
  const [x, y] = [(left + right) / 2, (up + down) / 2];
  const half = Math.min(width, height * shape) / 2;
  return { left: x - half, right: x + half, up: y + half / shape, down: y - half / shape };
}
