// What a person holds in both hands, as WebXR's module "xr-standard" has it, and what it makes them feel.

import type { Controller, Haptic, Place } from "../wire";

/** Buttons of a gamepad "xr-standard" by their places. What opens the system's menu the browser does not tell. */
const [TRIGGER, SQUEEZE, STICK, LOWER, UPPER] = [0, 1, 3, 4, 5];

/** Bits of crates/proto/src/controller.rs: of each place that it is pressed, and that it is touched. */
const PRESSED: [number, number][] = [[LOWER, 1 << 0], [UPPER, 1 << 1], [STICK, 1 << 3]];
const TOUCHED: [number, number][] = [[LOWER, 1 << 4], [UPPER, 1 << 5], [TRIGGER, 1 << 6], [STICK, 1 << 7]];

/** Left and right; `null`: there is none. */
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
    // Neither a look nor a tap on a screen, which have no hand.
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
  // The first two axes are those of a touchpad; down is positive.
  const [x, y] = [pad?.axes[2] ?? 0, -(pad?.axes[3] ?? 0)];
  return { buttons, trigger: button(TRIGGER)?.value ?? 0, squeeze: button(SQUEEZE)?.value ?? 0, thumbstick: [x, y] };
}

/** The shortest that a hand feels, in milliseconds, where the application wants that (guess: two periods at 100 Hz). */
const SHORTEST = 20;

/** Has a hand feel it, if it holds something that can. */
export function feel(sources: XRInputSource[], { hand, amplitude, lasts }: Haptic) {
  const source = sources.find(({ handedness }) => handedness === (hand === 0 ? "left" : "right"));
  const motor = source?.gamepad?.hapticActuators?.[0] as { pulse?(value: number, ms: number): Promise<boolean> } | undefined;
  const duration = amplitude > 0 ? Math.max(SHORTEST, lasts) : 0;
  // A controller that was put away meanwhile feels nothing.
  void motor?.pulse?.(amplitude, duration)?.catch(() => undefined);
}
