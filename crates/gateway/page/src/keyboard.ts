// Keyboard state and text input. Composition (dead keys, Compose, input methods, on-screen keyboards) is done by the
// browser in a text field (text_field.ts). Event properties are those of UI Events (W3C).

import { linuxCode, linuxCodeOf, withoutNumLock } from "./keys";
import type { InputEvent } from "./wire";

/** The used properties of a KeyboardEvent. */
export interface Press {
  code: string;
  key: string;
  keyCode: number;
  isComposing: boolean;
  repeat: boolean;
  timeStamp: number;
  getModifierState(name: string): boolean;
}

/** The used properties of any event with modifier state. */
export type Modified = Pick<Press, "timeStamp" | "getModifierState">;

/** keyCode of a key that an input method has consumed (UI Events, 7.3.1). */
const TAKEN = 229;

/** The Linux key code of one key for each modifier. */
const MODIFIERS = new Map([
  ["Shift", 42],
  ["Control", 29],
  ["Alt", 56],
  ["Meta", 125],
  ["AltGraph", 100],
]);

/** The key code of text that belongs to no key. The host types such text independently of its keyboard layout. */
const NO_KEY = 0;

const BACKSPACE = 14;
const CONTROL_CHARACTERS = new Map([
  ["\b", BACKSPACE],
  ["\t", 15],
  ["\n", 28],
]);

/** The typed character, if it is one. For unknown keys, Chromium reports a control character. */
function character(key: string): number | undefined {
  return [...key].length === 1 && !/\p{Cc}/u.test(key) ? key.codePointAt(0) : undefined;
}

/** Whether the key is part of a composition. */
function composes({ key, keyCode, isComposing }: Press): boolean {
  return isComposing || keyCode === TAKEN || key === "Dead" || key === "Compose";
}

export class Keyboard {
  /** Keys that are held at the host. The value is the name of a modifier, and null for other keys. */
  private readonly held = new Map<number, string | null>();
  /** For each held keypad key, the key that was sent instead. Stored, because NumLock may change before the release. */
  private readonly others = new Map<string, number>();

  constructor(
    private readonly push: (event: InputEvent, at: number) => void,
    /** macOS sends no keyup while Cmd is down. */
    private readonly losesReleases: boolean,
  ) {}

  /** Handles a key press. Returns whether to prevent the browser's default action. */
  down(event: Press): boolean {
    const own = MODIFIERS.has(event.key) ? event.key : null;
    this.agree(event, own);
    if (composes(event)) return false;
    if (own === null) this.pressMissing(event);
    // NumLock may differ between browser and host.
    const other = withoutNumLock(event.code, event.key);
    if (other === null) return true;
    const code = other ?? linuxCode(event.code) ?? linuxCodeOf(event.key);
    const typed = character(event.key);
    if (code === undefined) {
      if (typed === undefined) return false;
      this.type(event.key, event.timeStamp);
      return true;
    }
    // The host's window system generates key repeat.
    if (event.repeat) return true;
    if (other === undefined) this.others.delete(event.code);
    else this.others.set(event.code, other);
    this.push({ kind: "key", code, text: typed ?? 0, pressed: true }, event.timeStamp);
    this.held.set(code, own);
    if (this.losesReleases && own === null && event.getModifierState("Meta")) this.release(code, event.timeStamp);
    return true;
  }

  /** Handles a key release. Returns whether to prevent the default action. */
  up(event: Press): boolean {
    const code = this.others.get(event.code) ?? linuxCode(event.code) ?? linuxCodeOf(event.key);
    this.others.delete(event.code);
    const held = code !== undefined && this.held.has(code);
    if (held) this.release(code, event.timeStamp);
    this.agree(event, null);
    return held;
  }

  /** Releases modifiers that are no longer down, except for a newly pressed one. */
  agree(event: Modified, except: string | null = null) {
    for (const [code, modifier] of this.held)
      if (modifier !== null && modifier !== except && !event.getModifierState(modifier))
        this.release(code, event.timeStamp);
  }

  /** Presses modifiers that were pressed while the page had no keyboard focus. */
  pressMissing(event: Modified) {
    // Some systems report AltGr as Ctrl and Alt.
    if (event.getModifierState("AltGraph")) return;
    const held = [...this.held.values()];
    for (const [modifier, code] of MODIFIERS) {
      if (!event.getModifierState(modifier) || held.includes(modifier)) continue;
      this.push({ kind: "key", code, text: 0, pressed: true }, event.timeStamp);
      this.held.set(code, modifier);
    }
  }

  /** Starts a composition. Some browsers send no keyup during it. */
  compositionBegins(at: number) {
    for (const [code, modifier] of this.held) if (modifier === null) this.release(code, at);
  }

  /** Types text that belongs to no key. */
  type(text: string, at: number) {
    for (const c of text) {
      const key = CONTROL_CHARACTERS.get(c);
      this.tap(key ?? NO_KEY, key === undefined ? c.codePointAt(0)! : 0, at);
    }
  }

  /** Deletes characters. */
  erase(count: number, at: number) {
    for (let n = 0; n < count; n += 1) this.tap(BACKSPACE, 0, at);
  }

  /** Presses these keys in order, and releases them in reverse order. */
  chord(names: string[], at: number) {
    const keys = names.flatMap((name) => {
      const code = linuxCode(name);
      // For a shortcut, the host presses the key with this letter in its own layout.
      const letter = /^Key([A-Z])$/.exec(name)?.[1].toLowerCase();
      return code === undefined ? [] : [{ code, text: letter?.codePointAt(0) ?? 0 }];
    });
    for (const { code, text } of keys) this.push({ kind: "key", code, text, pressed: true }, at);
    for (const { code } of keys.reverse()) this.push({ kind: "key", code, text: 0, pressed: false }, at);
  }

  /** Resets: the host holds nothing. */
  forget() {
    this.held.clear();
    this.others.clear();
  }

  private tap(code: number, text: number, at: number) {
    this.push({ kind: "key", code, text, pressed: true }, at);
    this.push({ kind: "key", code, text: 0, pressed: false }, at);
  }

  private release(code: number, at: number) {
    this.held.delete(code);
    this.push({ kind: "key", code, text: 0, pressed: false }, at);
  }
}
