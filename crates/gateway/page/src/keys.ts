// Maps KeyboardEvent.code (UI Events) to Linux key codes (linux/input-event-codes.h): physical keys, independent of the
// layout.

const rows: [number, string][] = [
  [1, "Escape Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal Backspace"],
  [15, "Tab KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight Enter"],
  [29, "ControlLeft KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote Backquote"],
  [42, "ShiftLeft Backslash KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash ShiftRight"],
  [55, "NumpadMultiply AltLeft Space CapsLock F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 NumLock ScrollLock"],
  [71, "Numpad7 Numpad8 Numpad9 NumpadSubtract Numpad4 Numpad5 Numpad6 NumpadAdd"],
  [79, "Numpad1 Numpad2 Numpad3 Numpad0 NumpadDecimal"],
  [86, "IntlBackslash F11 F12 IntlRo"],
  [92, "Convert KanaMode NonConvert"],
  [96, "NumpadEnter ControlRight NumpadDivide PrintScreen AltRight"],
  [102, "Home ArrowUp PageUp ArrowLeft ArrowRight End ArrowDown PageDown Insert Delete"],
  [113, "AudioVolumeMute AudioVolumeDown AudioVolumeUp"],
  [117, "NumpadEqual"],
  [119, "Pause"],
  [121, "NumpadComma Lang1 Lang2 IntlYen MetaLeft MetaRight ContextMenu"],
  [183, "F13 F14 F15 F16 F17 F18 F19 F20 F21 F22 F23 F24"],
];

const CODES = new Map<string, number>();
for (const [first, names] of rows) {
  names.split(" ").forEach((name, index) => CODES.set(name, first + index));
}

/** The Linux key code; undefined if there is none. */
export function linuxCode(code: string): number | undefined {
  return CODES.get(code);
}

/** Keys by function, for keyboards without physical keys: on-screen keyboards, and programs that type. */
const NAMED = new Map<string, number>([
  ...["ArrowUp", "ArrowLeft", "ArrowRight", "ArrowDown", "Home", "End", "PageUp", "PageDown", "Insert", "Delete"].map(
    (key): [string, number] => [key, CODES.get(key)!],
  ),
  ...["Backspace", "Tab", "Enter", "Escape", "CapsLock", "NumLock", "ScrollLock", "Pause", "PrintScreen"].map(
    (key): [string, number] => [key, CODES.get(key)!],
  ),
  ["Shift", 42],
  ["Control", 29],
  ["Alt", 56],
  ["AltGraph", 100],
  ["Meta", 125],
  ["ContextMenu", 127],
]);

/** Functions of keypad keys without NumLock, with equivalent keys. */
const WITHOUT_NUM_LOCK = /^(Arrow(Up|Left|Right|Down)|Home|End|Page(Up|Down)|Insert|Delete)$/;

/**
 * The key that has the function of a keypad key without NumLock; `null` if no other key has this function. `undefined`
 * if this is not a keypad key, or if the keypad key types its label.
 */
export function withoutNumLock(code: string, key: string): number | null | undefined {
  if (!code.startsWith("Numpad")) return undefined;
  if (key === "Clear") return null;
  return WITHOUT_NUM_LOCK.test(key) ? CODES.get(key) : undefined;
}

/** The Linux key code for a function (KeyboardEvent.key). */
export function linuxCodeOf(key: string): number | undefined {
  return NAMED.get(key) ?? (/^F([1-9]|1[0-9]|2[0-4])$/.test(key) ? CODES.get(key) : undefined);
}
