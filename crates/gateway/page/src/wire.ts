// Messages of the data channel "control": the bodies of OpenUVR's control datagrams (crates/proto/src/wire/control.rs).
// `./dev check page` compares the constants; crates/gateway/tests/chromium tests the effects at the host.

export const PING = 1;
export const PONG = 2;
export const REPORT = 3;
export const CURSOR_MOVED = 7;
export const INPUT = 8;
export const INPUT_SEEN = 9;
export const RUMBLE = 22;
export const POSE = 17;
export const CONTROLLERS = 23;
export const HAPTIC = 24;
export const DISPLAY = 25;
/** From the gateway: sent frames, and numbers of input events. */
export const FRAMES = 0xf0;
export const INPUT_NUMBERS = 0xf1;
/** From the gateway: poses and views of frames, see xr/views.ts. */
export const VIEWS = 0xf2;

/** Kinds of messages of the data channel "told" (crates/proto/src/control/negotiate.rs). */
export const CURSOR_SHAPE = 4;
export const CLIPBOARD_PIECE = 9;
export const CLIPBOARD_DIRECTIONS = 10;

/** Maximum number of events in a message. */
export const MAX_EVENTS = 48;

export type InputEvent =
  | { kind: "key"; code: number; text: number; pressed: boolean }
  | { kind: "absolute"; x: number; y: number }
  | { kind: "relative"; dx: number; dy: number }
  | { kind: "button"; button: number; pressed: boolean }
  | { kind: "wheel"; dx: number; dy: number }
  | { kind: "releaseAll" }
  | { kind: "padConnected"; pad: number; identity: PadIdentity }
  | { kind: "padDisconnected"; pad: number }
  | { kind: "pad"; pad: number; state: PadState };

/** Identity of a pad (crates/proto/src/input/pad.rs). */
export interface PadIdentity {
  name: string;
  vendor: number;
  product: number;
  /** Bit n: it has button n of the standard gamepad. */
  buttons: number;
  sticks: [boolean, boolean];
  rumbles: boolean;
}

/** State of all controls of a pad. */
export interface PadState {
  /** Bit n: button n of the standard gamepad is down; without triggers. */
  buttons: number;
  /** -32768 to 32767. */
  sticks: number[];
  /** 0 to 65535. */
  triggers: [number, number];
}

/** Position in metres, and orientation as a quaternion x, y, z, w. */
export interface Place {
  position: [number, number, number];
  orientation: [number, number, number, number];
}

/** State of a controller (crates/proto/src/controller.rs). */
export interface Controller {
  grip?: Place;
  aim?: Place;
  buttons: number;
  /** 0 to 1. */
  trigger: number;
  squeeze: number;
  /** -1 to 1: to the right, and up. */
  thumbstick: [number, number];
}

/** Haptic feedback for a hand. */
export interface Haptic {
  serial: number;
  /** 0 is the left one. */
  hand: number;
  /** 0 to 1; 0: stop. */
  amplitude: number;
  /** In milliseconds; 0: the minimum. */
  lasts: number;
}

export interface Sampled {
  event: InputEvent;
  /** Milliseconds of the page's clock. */
  at: number;
}

/** Outcome of a frame; times in milliseconds of the page's clock. */
export interface Report {
  frame: number;
  /** Number of the pose that it was drawn with; 0: unknown. */
  pose?: number;
  outcome: "displayed" | "superseded" | "left";
  received?: number;
  decoded?: number;
  submitted?: number;
  motionToPhoton?: number;
  echo: 0 | 1 | 2;
}

/** Nanoseconds of the page's clock. */
export function nanoseconds(milliseconds: number): bigint {
  return BigInt(Math.round(milliseconds * 1e6));
}

class Writer {
  private bytes = new DataView(new ArrayBuffer(2048));
  private at = 0;

  u8(value: number) {
    this.bytes.setUint8(this.at, value);
    this.at += 1;
    return this;
  }
  u16(value: number) {
    this.bytes.setUint16(this.at, value, true);
    this.at += 2;
    return this;
  }
  i16(value: number) {
    this.bytes.setInt16(this.at, value, true);
    this.at += 2;
    return this;
  }
  u32(value: number) {
    this.bytes.setUint32(this.at, value, true);
    this.at += 4;
    return this;
  }
  f32(value: number) {
    this.bytes.setFloat32(this.at, value, true);
    this.at += 4;
    return this;
  }
  i64(value: bigint) {
    this.bytes.setBigInt64(this.at, value, true);
    this.at += 8;
    return this;
  }
  /** Text with a length prefix. */
  text(value: Uint8Array) {
    this.u8(value.length);
    for (const byte of value) this.u8(byte);
    return this;
  }
  /** A message of this kind with a length that is filled in at the end. */
  message(kind: number, write: (w: Writer) => void) {
    this.u8(kind).u16(0);
    const start = this.at;
    write(this);
    this.bytes.setUint16(start - 2, this.at - start, true);
    return this;
  }
  done(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.bytes.buffer as ArrayBuffer, 0, this.at);
  }
}

const NO_SPAN = 0xffffffff;

/** Converts a duration from milliseconds to nanoseconds. */
function span(milliseconds: number | undefined): number {
  if (milliseconds === undefined || !(milliseconds >= 0)) return NO_SPAN;
  const nanos = Math.round(milliseconds * 1e6);
  return nanos < NO_SPAN ? nanos : NO_SPAN;
}

export function ping(asked: number) {
  return new Writer().message(PING, (w) => w.i64(nanoseconds(asked))).done();
}

export function pong(asked: bigint, received: number, answered: number) {
  const write = (w: Writer) =>
    w.i64(asked).i64(nanoseconds(received)).i64(nanoseconds(answered));
  return new Writer().message(PONG, write).done();
}

const LINEAR = 1;
const ANGULAR = 2;

/** Head pose at a time: metres, a quaternion x, y, z, w, and velocities if known. */
export function pose(
  number: number,
  at: number,
  head: { position: number[]; orientation: number[]; linear?: number[]; angular?: number[] },
) {
  const write = (w: Writer) => {
    const { position, orientation, linear, angular } = head;
    w.u32(number).i64(nanoseconds(at));
    for (const value of [...position, ...orientation]) w.f32(value);
    w.u8((linear ? LINEAR : 0) | (angular ? ANGULAR : 0));
    for (const value of [...(linear ?? []), ...(angular ?? [])]) w.f32(value);
  };
  return new Writer().message(POSE, write).done();
}

/** Left and right; `null`: no controller. */
export function controllers(number: number, at: number, both: (Controller | null)[]) {
  const write = (w: Writer) => {
    w.u32(number).i64(nanoseconds(at)).u8((both[0] ? 1 : 0) | (both[1] ? 2 : 0));
    for (const held of both) {
      if (!held) continue;
      const places = [held.grip, held.aim];
      w.u8((held.grip ? 1 : 0) | (held.aim ? 2 : 0));
      for (const place of places) {
        if (!place) continue;
        for (const value of [...place.position, ...place.orientation]) w.f32(value);
        // Velocities are unknown.
        w.u8(0);
      }
      const pulled = (value: number) => Math.round(Math.max(0, Math.min(1, value)) * 65535);
      const pushed = (value: number) => Math.round(Math.max(-1, Math.min(1, value)) * 32767);
      w.u16(held.buttons).u16(pulled(held.trigger)).u16(pulled(held.squeeze));
      for (const axis of held.thumbstick) w.i16(pushed(axis));
    }
  };
  return new Writer().message(CONTROLLERS, write).done();
}

/** Properties of a headset's display (crates/proto/src/display.rs). */
export interface Display {
  /** Time of a picture, and the frame period, in milliseconds. */
  refresh?: { at: number; period: number };
  /** Left and right eye: angles to the left, right, upper and lower side in radians. */
  eyes?: { angles: number[][]; between: number };
}

export function display(number: number, { refresh, eyes }: Display) {
  const write = (w: Writer) => {
    w.u32(number).u8((refresh ? 1 : 0) | (eyes ? 2 : 0));
    if (refresh) w.i64(nanoseconds(refresh.at)).u32(Math.round(refresh.period * 1e6));
    if (eyes) for (const value of [...eyes.angles.flat(), eyes.between]) w.f32(value);
  };
  return new Writer().message(DISPLAY, write).done();
}

const LEFT_STICK = 1;
const RIGHT_STICK = 2;
const RUMBLES = 4;

/** Maximum length of a pad's name in bytes. */
const MAX_PAD_NAME = 64;

/** Cuts a name at a character boundary. */
function padName(name: string): Uint8Array {
  const encoder = new TextEncoder();
  let kept = "";
  for (const c of name) {
    if (encoder.encode(kept + c).length > MAX_PAD_NAME) break;
    kept += c;
  }
  return encoder.encode(kept);
}

/** Events, with the number of the first, and the keys and buttons that are held after them. */
export function input(first: number, events: Sampled[], held: number[] | null) {
  const newest = events.length > 0 ? events[events.length - 1].at : 0;
  const write = (w: Writer) => {
    w.u16(0).u32(first).i64(nanoseconds(newest)).u8(events.length);
    for (const { event, at } of events) {
      w.u32(span(newest - at));
      switch (event.kind) {
        case "key":
          w.u8(event.pressed ? 1 : 2).u16(event.code).u32(event.text);
          break;
        case "absolute":
          w.u8(3).u16(event.x).u16(event.y);
          break;
        case "relative":
          w.u8(4).i16(event.dx).i16(event.dy);
          break;
        case "button":
          w.u8(event.pressed ? 5 : 6).u16(event.button);
          break;
        case "wheel":
          w.u8(7).i16(event.dx).i16(event.dy);
          break;
        case "releaseAll":
          w.u8(8);
          break;
        case "padConnected": {
          const { vendor, product, buttons, sticks, rumbles, name } = event.identity;
          const has =
            (sticks[0] ? LEFT_STICK : 0) | (sticks[1] ? RIGHT_STICK : 0) | (rumbles ? RUMBLES : 0);
          w.u8(10).u8(event.pad).u16(vendor).u16(product).u32(buttons).u8(has);
          w.text(padName(name));
          break;
        }
        case "padDisconnected":
          w.u8(11).u8(event.pad);
          break;
        case "pad":
          w.u8(12).u8(event.pad).u32(event.state.buttons);
          for (const place of event.state.sticks) w.i16(place);
          for (const pulled of event.state.triggers) w.u16(pulled);
      }
    }
    if (held === null) {
      w.u8(255);
      return;
    }
    w.u8(held.length);
    for (const code of held) w.u16(code);
  };
  return new Writer().message(INPUT, write).done();
}

/** Numbers of crates/proto/src/trace.rs and wire/control/report.rs. */
const SUBMITTED = 14;
const SUPERSEDED = 16;
const LEFT = 3;
const NO_INSTANT = -(2n ** 63n);

export function reports(all: Report[]) {
  const writer = new Writer();
  for (const r of all) {
    writer.message(REPORT, (w) => {
      w.u8(0).u8(0).u32(r.frame);
      if (r.outcome === "displayed") w.u8(0).u8(0);
      else if (r.outcome === "left") w.u8(LEFT).u8(0);
      else w.u8(SUPERSEDED).u8(SUBMITTED);
      const base = r.received;
      w.i64(base === undefined ? NO_INSTANT : nanoseconds(base));
      const since = (at: number | undefined) =>
        span(at === undefined || base === undefined ? undefined : at - base);
      // The page knows only the arrival of the last datagram.
      w.u32(since(base)).u32(since(r.decoded)).u32(since(r.submitted)).u32(NO_SPAN);
      w.u32(span(r.motionToPhoton)).u8(r.echo);
      w.u16(0).u16(0).u16(0).u16(0).u16(0).u32(r.pose ?? 0);
    });
  }
  return writer.done();
}

/** A sent frame. `captured` is in nanoseconds of the host's clock. The other times are milliseconds after it. */
export interface Left {
  frame: number;
  rtpTime: number;
  captured: bigint;
  firstSlice: number;
  encoded: number;
  firstSent: number;
  lastSent: number;
  bytes: number;
  echo: number;
}

export interface Handler {
  ping(asked: bigint): void;
  pong(asked: bigint, received: bigint, answered: bigint): void;
  inputSeen(through: number): void;
  cursorMoved(serial: number, at: { x: number; y: number } | null): void;
  frames(frames: Left[]): void;
  inputNumbers(page: number, host: number): void;
  rumble(said: Rumble): void;
  haptic(felt: Haptic): void;
  views(message: DataView): void;
}

/** Speeds of a pad's motors, 0 to 65535, and the duration in milliseconds. */
export interface Rumble {
  serial: number;
  pad: number;
  strong: number;
  weak: number;
  lasts: number;
}

/** Parses a message from the gateway; unknown kinds are ignored. */
export function read(message: ArrayBuffer, to: Handler) {
  const d = new DataView(message);
  if (d.byteLength === 0) return;
  const first = d.getUint8(0);
  if (first === FRAMES) {
    const frames: Left[] = [];
    for (let at = 1; at + 40 <= d.byteLength; at += 40) {
      const micros = (offset: number) => d.getUint32(at + offset, true) / 1000;
      frames.push({
        frame: d.getUint32(at, true),
        rtpTime: d.getUint32(at + 4, true),
        captured: d.getBigInt64(at + 8, true),
        firstSlice: micros(16),
        encoded: micros(20),
        firstSent: micros(24),
        lastSent: micros(28),
        bytes: d.getUint32(at + 32, true),
        echo: d.getUint32(at + 36, true),
      });
    }
    to.frames(frames);
    return;
  }
  if (first === VIEWS) {
    to.views(d);
    return;
  }
  if (first === INPUT_NUMBERS) {
    if (d.byteLength >= 9) to.inputNumbers(d.getUint32(1, true), d.getUint32(5, true));
    return;
  }
  for (let at = 0; at + 3 <= d.byteLength; ) {
    const kind = d.getUint8(at);
    const length = d.getUint16(at + 1, true);
    const body = at + 3;
    at = body + length;
    if (at > d.byteLength) return;
    if (kind === PING && length >= 8) to.ping(d.getBigInt64(body, true));
    else if (kind === PONG && length >= 24)
      to.pong(
        d.getBigInt64(body, true),
        d.getBigInt64(body + 8, true),
        d.getBigInt64(body + 16, true),
      );
    else if (kind === INPUT_SEEN && length >= 4) to.inputSeen(d.getUint32(body, true));
    else if (kind === RUMBLE && length >= 11) {
      const number = (offset: number) => d.getUint16(body + offset, true);
      const [strong, weak, lasts] = [number(5), number(7), number(9)];
      to.rumble({ serial: d.getUint32(body, true), pad: d.getUint8(body + 4), strong, weak, lasts });
    } else if (kind === HAPTIC && length >= 13) {
      to.haptic({
        serial: d.getUint32(body, true),
        hand: d.getUint8(body + 4),
        amplitude: d.getUint16(body + 5, true) / 65535,
        lasts: d.getUint32(body + 9, true) / 1000,
      });
    } else if (kind === CURSOR_MOVED && length >= 9) {
      const inside = d.getUint8(body + 4) !== 0;
      const place = { x: d.getUint16(body + 5, true), y: d.getUint16(body + 7, true) };
      to.cursorMoved(d.getUint32(body, true), inside ? place : null);
    }
  }
}
