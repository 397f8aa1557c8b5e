// An immersive WebXR session: the headset's display, head pose and controllers.

import type { Display } from "../wire";
import { onScreen, reaimed, tangentsOf, type Quaternion, type Vector } from "./math";
import type { Painter } from "./painter";
import type { Head } from "./poses";
import type { Drawn } from "./views";

/** Virtual screen for a flat picture: its distance and width in metres. It fills 60°. */
const SCREEN = { away: 2, wide: 2.3 };

export interface Scene {
  /**
   * The newest picture: its size, the number of views side by side, and the poses with which it was drawn. If `drawn`
   * is `null`, the virtual screen shows the picture.
   */
  newest(): { width: number; height: number; parts: number; drawn: Drawn | null };
  /** Head pose expected at this time of the page's clock. */
  posed(head: Head, at: number): void;
  /** Properties of the headset's display. */
  sees(display: Display): void;
  /** State of the controllers; empty while no session is visible. */
  held(sources: XRInputSource[], frame: XRFrame | null, space: XRReferenceSpace | null): void;
  /** The newest picture was drawn for the headset's display. */
  shown(): void;
  /** The session has started or ended. */
  changed(): void;
}

export class Immersive {
  private session: XRSession | null = null;
  private space: XRReferenceSpace | null = null;
  private layer: XRWebGLLayer | null = null;
  /** The session is starting. */
  private starting = false;

  constructor(
    private readonly button: HTMLElement,
    private readonly painter: () => Painter | null,
    private readonly scene: Scene,
    private readonly showStatus: (words: string) => void,
  ) {
    button.addEventListener("click", () => void this.toggle());
    navigator.xr?.addEventListener("devicechange", () => void this.updateButton());
    void this.updateButton();
  }

  /** Whether the headset is in use. */
  isOn(): boolean {
    return this.session !== null;
  }

  /** Whether the session draws into the page's canvas, as with an emulated headset. */
  isOnCanvas(): boolean {
    return this.isOn() && this.layer?.framebuffer === null;
  }

  sources(): XRInputSource[] {
    return this.session ? [...this.session.inputSources] : [];
  }

  end() {
    void this.session?.end().catch(() => undefined);
  }

  /** Shows the button if there is a headset. */
  private async updateButton() {
    const there = await navigator.xr?.isSessionSupported("immersive-vr").catch(() => false);
    this.button.hidden = !there;
  }

  private async toggle() {
    if (this.session) return this.end();
    if (this.starting) return;
    this.starting = true;
    try {
      await this.start();
    } catch (why) {
      this.showStatus(`cannot enter VR: ${why instanceof Error ? why.message : why}`);
    } finally {
      this.starting = false;
    }
  }

  private async start() {
    const painter = this.painter();
    if (!painter || !navigator.xr) throw new Error("this browser has no WebGL 2");
    // The session is requested first, because the user activation expires.
    const session = await navigator.xr.requestSession("immersive-vr");
    session.addEventListener("end", () => this.ended(session));
    session.addEventListener("visibilitychange", () => {
      // The headset's menu uses the controllers, or the session is hidden.
      if (session.visibilityState !== "visible") this.scene.held([], null, null);
    });
    try {
      await painter.gl.makeXRCompatible();
      this.layer = new XRWebGLLayer(session, painter.gl, { alpha: false, antialias: false, depth: false });
      await session.updateRenderState({ baseLayer: this.layer });
      this.space = await session.requestReferenceSpace("local");
    } catch (why) {
      await session.end().catch(() => undefined);
      throw why;
    }
    this.session = session;
    this.button.setAttribute("aria-pressed", "true");
    this.scene.changed();
    session.requestAnimationFrame((_, frame) => this.frame(session, frame));
  }

  private ended(session: XRSession) {
    if (this.session !== session) return;
    this.session = null;
    this.space = null;
    this.button.setAttribute("aria-pressed", "false");
    this.scene.held([], null, null);
    this.scene.changed();
  }

  private frame(session: XRSession, frame: XRFrame) {
    if (this.session !== session || !this.space) return;
    session.requestAnimationFrame((_, next) => this.frame(session, next));
    const pose = frame.getViewerPose(this.space);
    const visible = session.visibilityState === "visible";
    this.scene.held(visible ? [...session.inputSources] : [], frame, this.space);
    if (!pose) return;
    // An emulated position is used, too, because the browser draws with it.
    const head: Head = { ...where(pose.transform), linear: vector(pose.linearVelocity), angular: vector(pose.angularVelocity) };
    this.scene.posed(head, frame.predictedDisplayTime ?? performance.now());
    this.scene.sees(displayOf(session, frame, pose));
    this.draw(session, pose);
  }

  private draw(session: XRSession, pose: XRViewerPose) {
    const painter = this.painter();
    const layer = session.renderState.baseLayer;
    if (!painter || !layer) return;
    const { width, height, parts, drawn } = this.scene.newest();
    painter.setTarget(layer.framebuffer);
    for (const view of pose.views) {
      const viewport = layer.getViewport(view);
      if (!viewport) continue;
      const through = tangentsOf(view.projectionMatrix);
      const { position, orientation } = where(view.transform);
      if (drawn) {
        const eyes = drawn.views.length;
        const eye = view.eye === "right" ? eyes - 1 : 0;
        const { orientation: before, shows } = drawn.views[eye];
        painter.draw(reaimed(before, shows, orientation, through), [eye, eyes], viewport);
      } else if (width > 0) {
        const tall = (SCREEN.wide * height * parts) / width;
        const corner: Vector = [-SCREEN.wide / 2, tall / 2, -SCREEN.away];
        const found = onScreen([corner, [SCREEN.wide, 0, 0], [0, -tall, 0]], position, orientation, through);
        if (found) painter.draw(found, [0, parts], viewport);
      }
    }
    this.scene.shown();
  }
}

/** Properties of the headset's display. Without a frame rate, they contain no times, because these would be
 * meaningless. */
function displayOf({ frameRate }: XRSession, { predictedDisplayTime: at }: XRFrame, { views }: XRViewerPose): Display {
  const refresh = frameRate && at ? { at, period: 1000 / frameRate } : undefined;
  const [left, right] = ["left", "right"].map((eye) => views.find((view) => view.eye === eye));
  if (!left || !right) return { refresh };
  const angles = [left, right].map((view) => {
    const { left, right, up, down } = tangentsOf(view.projectionMatrix);
    return [left, right, up, down].map(Math.atan);
  });
  const [a, b] = [left, right].map((view) => where(view.transform).position);
  return { refresh, eyes: { angles, between: Math.hypot(...a.map((place, axis) => place - b[axis])) } };
}

export function where({ position: p, orientation: o }: XRRigidTransform): { position: Vector; orientation: Quaternion } {
  return { position: [p.x, p.y, p.z], orientation: [o.x, o.y, o.z, o.w] };
}

function vector(known: DOMPointReadOnly | null | undefined): Vector | undefined {
  return known ? [known.x, known.y, known.z] : undefined;
}
