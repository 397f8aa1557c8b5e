// Game pads (Gamepad API), polled once per animation frame. Pads without a standard mapping are not sent.

import type { InputEvent, PadState, Rumble } from "./wire";

/** Maximum number of pads of a player (crates/proto/src/input/pad.rs). */
const MAX_PADS = 4;

/** Buttons of the standard gamepad that are triggers. */
const TRIGGERS = [6, 7];

const BUTTONS = 17;

const NEUTRAL: PadState = { buttons: 0, sticks: [0, 0, 0, 0], triggers: [0, 0] };

/** Converts an axis from the range -1 to 1 to the wire format. */
function stick(value: number | undefined): number {
  return Math.max(-32768, Math.min(32767, Math.round((value ?? 0) * 32767)));
}

function stateOf(pad: Gamepad): PadState {
  let buttons = 0;
  pad.buttons.slice(0, BUTTONS).forEach(({ pressed }, n) => {
    if (pressed && !TRIGGERS.includes(n)) buttons |= 1 << n;
  });
  const pulled = (n: number) => Math.round(Math.max(0, Math.min(1, pad.buttons[n]?.value ?? 0)) * 65535);
  return {
    buttons,
    sticks: [0, 1, 2, 3].map((axis) => stick(pad.axes[axis])),
    triggers: [pulled(TRIGGERS[0]), pulled(TRIGGERS[1])],
  };
}

/** Parses "Name (STANDARD GAMEPAD Vendor: 045e Product: 028e)" and "045e-028e-Name", the formats of Chromium and
 * Firefox. */
function called(id: string): { name: string; vendor: number; product: number } {
  const chromium = /^(.*?) *\((?:STANDARD GAMEPAD )?Vendor: ([0-9a-f]{4}) Product: ([0-9a-f]{4})\)/i.exec(id);
  if (chromium) return { name: chromium[1], vendor: parseInt(chromium[2], 16), product: parseInt(chromium[3], 16) };
  const firefox = /^([0-9a-f]{1,4})-([0-9a-f]{1,4})-(.*)$/i.exec(id);
  if (firefox) return { name: firefox[3], vendor: parseInt(firefox[1], 16), product: parseInt(firefox[2], 16) };
  return { name: id, vendor: 0, product: 0 };
}

export class Pads {
  /** The state of each pad at the host. */
  private known: ({ id: string; state: string } | null)[] = Array(MAX_PADS).fill(null);

  /** Newest rumble message of each pad: messages may be reordered. */
  private serials: number[] = Array(MAX_PADS).fill(0);

  constructor(private readonly push: (event: InputEvent, at: number) => void) {}

  /** Runs a pad's motors for a rumble message. The host repeats the message while the rumble lasts. */
  rumble({ serial, pad, strong, weak, lasts }: Rumble) {
    if (!(((serial - this.serials[pad]) | 0) > 0)) return;
    this.serials[pad] = serial;
    const motors = this.known[pad] && navigator.getGamepads()[pad]?.vibrationActuator;
    if (!motors) return;
    const [strongMagnitude, weakMagnitude] = [strong / 65535, weak / 65535];
    const effect = { duration: lasts, strongMagnitude, weakMagnitude };
    // This fails if the pad has no motors, or was unplugged in the meantime.
    const runs = lasts === 0 ? motors.reset() : motors.playEffect("dual-rumble", effect);
    void runs.catch(() => undefined);
  }

  /** Resets for a new session. */
  forget() {
    this.serials.fill(0);
    this.known = Array(MAX_PADS).fill(null);
  }

  /** Sends changes; without focus everything is released. */
  poll(focused: boolean) {
    const pads = navigator.getGamepads();
    for (let n = 0; n < MAX_PADS; n += 1) {
      const pad = pads[n]?.connected && pads[n]?.mapping === "standard" ? pads[n] : null;
      this.follow(n, pad ?? null, focused);
    }
  }

  private follow(n: number, pad: Gamepad | null, focused: boolean) {
    const before = this.known[n];
    const now = performance.now();
    if (before && before.id !== pad?.id) {
      this.push({ kind: "padDisconnected", pad: n }, now);
      this.known[n] = null;
    }
    if (!pad) return;
    let known = this.known[n];
    if (!known) {
      known = { id: pad.id, state: JSON.stringify(NEUTRAL) };
      this.known[n] = known;
      const count = Math.min(BUTTONS, pad.buttons.length);
      const sticks: [boolean, boolean] = [pad.axes.length >= 2, pad.axes.length >= 4];
      const rumbles = !!pad.vibrationActuator;
      const identity = { ...called(pad.id), buttons: 2 ** count - 1, sticks, rumbles };
      this.push({ kind: "padConnected", pad: n, identity }, now);
    }
    const state = focused ? stateOf(pad) : NEUTRAL;
    const words = JSON.stringify(state);
    if (words === known.state) return;
    known.state = words;
    this.push({ kind: "pad", pad: n, state }, now);
  }
}
