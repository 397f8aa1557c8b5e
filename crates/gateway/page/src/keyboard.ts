// Keys: which of them are held at the host, and which text is typed there. Keys that compose text (dead keys, Compose,
// input methods, on-screen keyboards) are left to the browser, which puts the text into a text field (text_field.ts).
// UI Events (W3C) names the properties of the events.

import { linuxCode, linuxCodeOf, withoutNumLock } from "./keys";
import type { InputEvent } from "./wire";

/** What is read of a KeyboardEvent. */
export interface Press {
  code: string;
  key: string;
  keyCode: number;
  isComposing: boolean;
  repeat: boolean;
  timeStamp: number;
  getModifierState(name: string): boolean;
}

/** What is read of any event that says which modifiers are down. */
export type Modified = Pick<Press, "timeStamp" | "getModifierState">;

/** keyCode of a key that an input method has taken (UI Events, 7.3.1). */
const TAKEN = 229;

/** Modifiers that are down while they are held, and the key that stands for each. */
const MODIFIERS = new Map([
  ["Shift", 42],
  ["Control", 29],
  ["Alt", 56],
  ["Meta", 125],
  ["AltGraph", 100],
]);

/** A key code that no key has: the host types the text, whatever its keyboard. */
const NO_KEY = 0;

const BACKSPACE = 14;
const CONTROL_CHARACTERS = new Map([
  ["\b", BACKSPACE],
  ["\t", 15],
  ["\n", 28],
]);

/** The character that a key has typed, if it is one. Of a key that Chromium can't name it says a control character. */
function character(key: string): number | undefined {
  return [...key].length === 1 && !/\p{Cc}/u.test(key) ? key.codePointAt(0) : undefined;
}

/** The browser makes text of this key together with others. */
function composes({ key, keyCode, isComposing }: Press): boolean {
  return isComposing || keyCode === TAKEN || key === "Dead" || key === "Compose";
}

export class Keyboard {
  /** The keys that are held at the host, and which modifier each is. */
  private readonly held = new Map<number, string | null>();
  /** Keys of the keypad that went down as others, by their places: NumLock may be another when they go up. */
  private readonly others = new Map<string, number>();

  constructor(
    private readonly push: (event: InputEvent, at: number) => void,
    /** macOS tells no release of a key while Cmd is down. */
    private readonly losesReleases: boolean,
  ) {}

  /** Whether the browser is to do nothing of its own with the key. */
  down(event: Press): boolean {
    const own = MODIFIERS.has(event.key) ? event.key : null;
    this.agree(event, own);
    if (composes(event)) return false;
    if (own === null) this.pressMissing(event);
    // What NumLock makes of the keypad here it need not make of it at the host.
    const other = withoutNumLock(event.code, event.key);
    if (other === null) return true;
    const code = other ?? linuxCode(event.code) ?? linuxCodeOf(event.key);
    const typed = character(event.key);
    if (code === undefined) {
      if (typed === undefined) return false;
      this.type(event.key, event.timeStamp);
      return true;
    }
    // The host's window system repeats by itself.
    if (event.repeat) return true;
    if (other === undefined) this.others.delete(event.code);
    else this.others.set(event.code, other);
    this.push({ kind: "key", code, text: typed ?? 0, pressed: true }, event.timeStamp);
    this.held.set(code, own);
    if (this.losesReleases && own === null && event.getModifierState("Meta")) this.release(code, event.timeStamp);
    return true;
  }

  /** The same of a key that goes up. */
  up(event: Press): boolean {
    const code = this.others.get(event.code) ?? linuxCode(event.code) ?? linuxCodeOf(event.key);
    this.others.delete(event.code);
    const held = code !== undefined && this.held.has(code);
    if (held) this.release(code, event.timeStamp);
    this.agree(event, null);
    return held;
  }

  /** Releases the modifiers that are not down any more; `except` is the one whose press this is. */
  agree(event: Modified, except: string | null = null) {
    for (const [code, modifier] of this.held)
      if (modifier !== null && modifier !== except && !event.getModifierState(modifier))
        this.release(code, event.timeStamp);
  }

  /** Presses the modifiers that went down while the page did not have the keyboard. */
  pressMissing(event: Modified) {
    // AltGr is Ctrl and Alt to some systems.
    if (event.getModifierState("AltGraph")) return;
    const held = [...this.held.values()];
    for (const [modifier, code] of MODIFIERS) {
      if (!event.getModifierState(modifier) || held.includes(modifier)) continue;
      this.push({ kind: "key", code, text: 0, pressed: true }, event.timeStamp);
      this.held.set(code, modifier);
    }
  }

  /** Text is composed from now on. Some browsers tell no release of a key meanwhile. */
  compositionBegins(at: number) {
    for (const [code, modifier] of this.held) if (modifier === null) this.release(code, at);
  }

  /** Text that came from no key. */
  type(text: string, at: number) {
    for (const c of text) {
      const key = CONTROL_CHARACTERS.get(c);
      this.tap(key ?? NO_KEY, key === undefined ? c.codePointAt(0)! : 0, at);
    }
  }

  /** Takes characters back. */
  erase(count: number, at: number) {
    for (let n = 0; n < count; n += 1) this.tap(BACKSPACE, 0, at);
  }

  /** Presses these keys in turn, and releases them in the opposite order. */
  chord(names: string[], at: number) {
    const keys = names.flatMap((name) => {
      const code = linuxCode(name);
      // A command goes to the key that has its letter at the host.
      const letter = /^Key([A-Z])$/.exec(name)?.[1].toLowerCase();
      return code === undefined ? [] : [{ code, text: letter?.codePointAt(0) ?? 0 }];
    });
    for (const { code, text } of keys) this.push({ kind: "key", code, text, pressed: true }, at);
    for (const { code } of keys.reverse()) this.push({ kind: "key", code, text: 0, pressed: false }, at);
  }

  /** The host holds nothing any more. */
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
