// Tests keyboards, wheels and touch with events as browsers report them. `npm test` runs it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { Keyboard } = await load("keyboard");
const { edits } = await load("text_field");
const { Wheel } = await load("wheel");
const { Touch, LONG_PRESS } = await load("touch");

/** A keyboard, and its output: "+30" is a press, "-30" a release, and "'ê'" a typed character. */
function keyboard(losesReleases = false) {
  const said = [];
  const made = new Keyboard(({ code, text, pressed }) => {
    if (code !== 0) said.push(`${pressed ? "+" : "-"}${code}`);
    else if (pressed) said.push(`'${String.fromCodePoint(text)}'`);
  }, losesReleases);
  const event = (key, code, down, more = {}) => ({
    key,
    code,
    keyCode: 0,
    isComposing: false,
    repeat: false,
    timeStamp: 0,
    getModifierState: (name) => down.split(" ").includes(name),
    ...more,
  });
  return {
    said,
    made,
    down: (key, code, down = "", more = {}) => made.down(event(key, code, down, more)),
    up: (key, code, down = "", more = {}) => made.up(event(key, code, down, more)),
    pointed: (down) => made.agree(event("", "", down)),
    clicked: (down) => made.pressMissing(event("", "", down)),
  };
}

test("Chromium on X11, French: Shift and ^, then i; the release of Shift is not reported", () => {
  const { said, made, down, up } = keyboard();
  const taken = { keyCode: 229 };
  assert.equal(down("Shift", "ShiftLeft", "Shift"), true);
  assert.equal(down("Process", "BracketLeft", "Shift", taken), false);
  made.compositionBegins(0);
  up("Dead", "BracketLeft", "Shift", { isComposing: true });
  assert.equal(down("Process", "KeyI", "", { ...taken, isComposing: true }), false);
  made.type("ï", 0);
  up("i", "KeyI");
  down("q", "KeyA");
  up("q", "KeyA");
  assert.deepEqual(said, ["+42", "-42", "'ï'", "+30", "-30"]);
});

test("Firefox on X11, French: ^, then e, whose press is reported as an ordinary one", () => {
  const { said, made, down, up } = keyboard();
  assert.equal(down("Dead", "BracketLeft"), false);
  made.compositionBegins(0);
  up("Dead", "BracketLeft", "", { isComposing: true });
  assert.equal(down("e", "KeyE", "", { isComposing: true }), false);
  made.type("ê", 0);
  up("e", "KeyE");
  assert.deepEqual(said, ["'ê'"]);
});

test("Compose is never held", () => {
  const { said, down, up } = keyboard();
  assert.equal(down("Compose", "ContextMenu"), false);
  up("Compose", "ContextMenu");
  assert.deepEqual(said, []);
});

test("Keys without a position are sent as text or by their function", () => {
  const { said, down, up } = keyboard();
  assert.equal(down("ü", ""), true);
  up("ü", "");
  down("😀", "");
  down("Backspace", "");
  up("Backspace", "");
  down("AltGraph", "");
  down("€", "KeyE", "AltGraph");
  up("€", "KeyE", "AltGraph");
  up("AltGraph", "", "AltGraph");
  assert.equal(down("Unidentified", ""), false);
  assert.equal(down("\0", ""), false);
  assert.deepEqual(said, ["'ü'", "'😀'", "+14", "-14", "+100", "+18", "-18", "-100"]);
});

test("The keypad's arrows are arrows if NumLock is off at the browser, whatever its state at the host", () => {
  const { said, down, up } = keyboard();
  const numbers = {
    Numpad7: ["Home", 102],
    Numpad8: ["ArrowUp", 103],
    Numpad9: ["PageUp", 104],
    Numpad4: ["ArrowLeft", 105],
    Numpad6: ["ArrowRight", 106],
    Numpad1: ["End", 107],
    Numpad2: ["ArrowDown", 108],
    Numpad3: ["PageDown", 109],
    Numpad0: ["Insert", 110],
    NumpadDecimal: ["Delete", 111],
  };
  for (const [code, [key, number]] of Object.entries(numbers)) {
    assert.equal(down(key, code), true);
    assert.equal(up(key, code), true);
    assert.deepEqual(said.splice(0), [`+${number}`, `-${number}`], code);
  }
  // Without NumLock, no other key has the function of the key 5.
  assert.equal(down("Clear", "Numpad5"), true);
  up("Clear", "Numpad5");
  assert.deepEqual(said, []);
  // The keypad's digits and its other keys are sent as keypad keys.
  for (const [key, code] of [["4", "Numpad4"], ["Enter", "NumpadEnter"], ["+", "NumpadAdd"]]) {
    down(key, code);
    up(key, code);
  }
  assert.deepEqual(said, ["+75", "-75", "+96", "-96", "+78", "-78"]);
});

test("A keypad key is released as the key that was pressed, even if NumLock has changed", () => {
  const { said, made, down, up } = keyboard();
  down("ArrowLeft", "Numpad4");
  up("4", "Numpad4");
  down("4", "Numpad4");
  up("ArrowLeft", "Numpad4");
  assert.deepEqual(said.splice(0), ["+105", "-105", "+75", "-75"]);
  // The browser reports no release for some presses.
  for (const lost of [() => made.forget(), () => made.compositionBegins(0)]) {
    down("ArrowLeft", "Numpad4");
    lost();
    said.length = 0;
    down("4", "Numpad4");
    up("4", "Numpad4");
    assert.deepEqual(said, ["+75", "-75"]);
  }
});

test("A modifier that is no longer down is released at the next event of any kind", () => {
  const { said, down, pointed } = keyboard();
  down("Control", "ControlRight", "Control");
  down("w", "KeyW", "Control");
  pointed("Control");
  assert.deepEqual(said, ["+97", "+17"]);
  pointed("");
  assert.deepEqual(said, ["+97", "+17", "-97"]);
});

test("The layout determines the modifier of a key", () => {
  const { said, down, up } = keyboard();
  // With the option altwin:swap_alt_win, the key Alt is Meta.
  down("Meta", "AltLeft", "Meta");
  down("a", "KeyA", "Meta");
  up("a", "KeyA", "Meta");
  up("Meta", "AltLeft");
  assert.deepEqual(said, ["+56", "+30", "-30", "-56"]);
});

test("A modifier that was pressed outside of the page is pressed before the key that it modifies", () => {
  const { said, down, up, clicked } = keyboard();
  down("c", "KeyC", "Control");
  up("c", "KeyC", "Control");
  clicked("Control Shift");
  up("Control", "ControlRight", "Shift");
  assert.deepEqual(said, ["+29", "+46", "-46", "+42", "-29"]);
  const windows = keyboard();
  windows.down("@", "KeyQ", "Control Alt AltGraph");
  assert.deepEqual(windows.said, ["+16"]);
});

test("macOS reports no release while Cmd is down", () => {
  const { said, down, up } = keyboard(true);
  down("Meta", "MetaLeft", "Meta");
  down("c", "KeyC", "Meta");
  down("c", "KeyC", "Meta", { repeat: true });
  up("Meta", "MetaLeft");
  assert.deepEqual(said, ["+125", "+46", "-46", "-125"]);
});

test("Held keys are released when a composition starts, and keys of a chord in reverse order", () => {
  const { said, made, down } = keyboard();
  down("q", "KeyQ");
  made.compositionBegins(0);
  made.chord(["ControlLeft", "AltLeft", "Delete"], 0);
  assert.deepEqual(said, ["+16", "-16", "+29", "+56", "+111", "-111", "-56", "-29"]);
});

test("Corrections of an on-screen keyboard are deleted and typed again", () => {
  assert.deepEqual(edits("  helo", "  hello "), { erased: 1, added: "lo " });
  assert.deepEqual(edits("  a😀", "  a"), { erased: 1, added: "" });
  assert.deepEqual(edits("", ""), { erased: 0, added: "" });
});

test("A notch is one notch in every browser", () => {
  const sums = (events) => {
    const wheel = new Wheel();
    return events.map((event) => wheel.turned(event).dy).reduce((sum, dy) => sum + dy, 0);
  };
  const ten = (event) => sums(Array(10).fill({ deltaX: 0, wheelDeltaX: 0, timeStamp: 0, ...event }));
  assert.equal(ten({ deltaY: 120, deltaMode: 0, wheelDeltaY: -120 }), -1200, "Chromium on X11");
  assert.equal(ten({ deltaY: 6, deltaMode: 1, wheelDeltaY: -120 }), -1200, "Firefox on X11");
  assert.equal(ten({ deltaY: 3, deltaMode: 1, wheelDeltaX: undefined }), -1200, "another");
  assert.equal(ten({ deltaY: -0.5, deltaMode: 0, wheelDeltaY: 1.5 }), 15, "a touch pad");
});

test("Notches that Firefox merges into one event are counted by their length", () => {
  const wheel = new Wheel();
  let timeStamp = 0;
  const down = (deltaY) =>
    wheel.turned({ deltaX: 0, deltaY, deltaMode: 1, wheelDeltaX: 0, wheelDeltaY: -120, timeStamp }).dy;
  // The first event has two notches. This becomes known with the first event of one notch.
  assert.deepEqual([12, 6, 12, 6, 18].map(down), [-120, -240, -240, -120, -360]);
  timeStamp = 5000;
  assert.deepEqual([12, 6].map(down), [-240, -120]);
  const up = wheel.turned({ deltaX: 0, deltaY: -6, deltaMode: 1, wheelDeltaX: 0, wheelDeltaY: 120, timeStamp });
  assert.equal(up.dy, 120);
  const side = wheel.turned({ deltaX: 20, deltaY: 0, deltaMode: 0, wheelDeltaX: -120, wheelDeltaY: 0, timeStamp });
  assert.deepEqual(side, { dx: 120, dy: 0 });
  wheel.zoomed();
  assert.equal(down(12), -120);
});

/** Touch gestures, and their output. */
function touch() {
  const said = [];
  const made = new Touch({
    point: ({ x, y }) => said.push(`${x},${y}`),
    button: (which, pressed) => said.push(`${pressed ? "+" : "-"}${which}`),
    wheel: (x, y) => said.push(["wheel", x, y]),
  });
  return { said, made };
}

test("A tap is the left button, a long press the right one, and never both", () => {
  const { said, made } = touch();
  made.down(1, { x: 5, y: 6 }, 0);
  made.moved(1, { x: 8, y: 6 }, 50);
  made.up(1, 100);
  made.due(LONG_PRESS);
  made.down(2, { x: 7, y: 7 }, 2000);
  made.due(2000 + LONG_PRESS - 1);
  assert.deepEqual(said, ["5,6", "+left", "-left", "7,7"]);
  made.due(2000 + LONG_PRESS);
  made.moved(2, { x: 90, y: 90 }, 2600);
  made.up(2, 2700);
  assert.deepEqual(said.slice(4), ["+right", "-right"]);
});

test("A finger drags from its initial position", () => {
  const { said, made } = touch();
  made.down(1, { x: 5, y: 5 }, 0);
  made.moved(1, { x: 50, y: 5 }, 20);
  made.due(LONG_PRESS);
  made.up(1, 900);
  assert.deepEqual(said, ["5,5", "+left", "50,5", "-left"]);
});

test("Two fingers turn the wheel, and press nothing", () => {
  const { said, made } = touch();
  made.down(1, { x: 5, y: 5 }, 0);
  made.down(2, { x: 95, y: 5 }, 30);
  made.moved(1, { x: 5, y: 55 }, 60);
  made.moved(2, { x: 95, y: 55 }, 60);
  made.due(LONG_PRESS);
  made.up(1, 900);
  made.moved(2, { x: 0, y: 0 }, 910);
  made.up(2, 950);
  const turned = said.filter(Array.isArray);
  assert.deepEqual(turned.map(([, , y]) => y), [0.5, 0.5]);
  assert.deepEqual(said.filter((word) => !Array.isArray(word)), ["5,5"]);
});
