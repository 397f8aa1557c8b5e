// Motion controllers (WebXR module "xr-standard"), and their haptic feedback.

import type { Controller, Haptic, Place } from "../wire";

/** Buttons of an "xr-standard" gamepad by index. Browsers do not report the system button. */
const [TRIGGER, SQUEEZE, STICK, LOWER, UPPER] = [0, 1, 3, 4, 5];

/** Bits of crates/proto/src/controller.rs: pressed and touched, for each control. */
const PRESSED: [number, number][] = [[LOWER, 1 << 0], [UPPER, 1 << 1], [STICK, 1 << 3]];
const TOUCHED: [number, number][] = [[LOWER, 1 << 4], [UPPER, 1 << 5], [TRIGGER, 1 << 6], [STICK, 1 << 7]];

/** Left and right; `null`: no controller. */
export type Both = [Controller | null, Controller | null];

export function controllers(sources: XRInputSource[], frame: XRFrame, space: XRReferenceSpace): Both {
  const place = (of: XRSpace | undefined): Place | undefined => {
    const pose = of && frame.getPose(of, space);
    if (!pose) return undefined;
    const { position: p, orientation: o } = pose.transform;
    return { position: [p.x, p.y, p.z], orientation: [o.x, o.y, o.z, o.w] };
  };
  const both: Both = [null, null];
  for (const source of sources) {
    // Excludes gaze and screen input, which have no hand.
    const hand = ["left", "right"].indexOf(source.handedness);
    if (hand < 0) continue;
    both[hand] = { grip: place(source.gripSpace), aim: place(source.targetRaySpace), ...held(source.gamepad) };
  }
  return both;
}

function held(pad: Gamepad | undefined): Omit<Controller, "grip" | "aim"> {
  const button = (at: number) => pad?.buttons[at];
  let buttons = 0;
  for (const [at, bit] of PRESSED) if (button(at)?.pressed) buttons |= bit;
  for (const [at, bit] of TOUCHED) if (button(at)?.touched) buttons |= bit;
  // The first two axes belong to a touchpad. On the thumbstick's vertical axis, positive is down.
  const [x, y] = [pad?.axes[2] ?? 0, -(pad?.axes[3] ?? 0)];
  return { buttons, trigger: button(TRIGGER)?.value ?? 0, squeeze: button(SQUEEZE)?.value ?? 0, thumbstick: [x, y] };
}

/** Duration of minimal feedback in milliseconds (guess: two periods at 100 Hz). */
const SHORTEST = 20;

/** Plays haptic feedback, if the controller supports it. */
export function feel(sources: XRInputSource[], { hand, amplitude, lasts }: Haptic) {
  const source = sources.find(({ handedness }) => handedness === (hand === 0 ? "left" : "right"));
  const motor = source?.gamepad?.hapticActuators?.[0] as { pulse?(value: number, ms: number): Promise<boolean> } | undefined;
  const duration = amplitude > 0 ? Math.max(SHORTEST, lasts) : 0;
  // This fails if the controller was put away in the meantime.
  void motor?.pulse?.(amplitude, duration)?.catch(() => undefined);
}
