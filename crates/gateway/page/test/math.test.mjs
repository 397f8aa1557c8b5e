// Tests the homographies of virtual reality at angles with known results. `npm test` runs it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import ts from "typescript";

const source = await readFile(new URL("../src/xr/math.ts", import.meta.url), "utf8");
const { outputText } = ts.transpileModule(source, { compilerOptions: { module: "ESNext", target: "ES2022" } });
const math = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

const degrees = (angle) => (angle * Math.PI) / 180;
const tan = (angle) => Math.tan(degrees(angle));
/** An eye that sees 45° to the left, 40° to the right, 50° up and 35° down. */
const EYE = { left: -tan(45), right: tan(40), up: tan(50), down: -tan(35) };
const SAME = [0, 0, 0, 1];

function near(found, wanted, what) {
  found.forEach((value, n) => assert.ok(Math.abs(value - wanted[n]) < 1e-9, `${what}: ${found}, not ${wanted}`));
}

/** The display position of a point at these angles to the left and up, in degrees. */
function display({ left, right, up, down }, toLeft, above) {
  const [x, y] = [-tan(toLeft), tan(above) / Math.cos(degrees(toLeft))];
  return [(2 * (x - left)) / (right - left) - 1, (2 * (y - down)) / (up - down) - 1, 1];
}

/** The picture position of a point at these angles. */
function picture(eye, toLeft, above) {
  const [x, y] = display(eye, toLeft, above);
  return [(x + 1) / 2, (1 - y) / 2];
}

function placeOf(homography, at) {
  const [x, y, w] = math.applied(homography, at);
  return { at: [x / w, y / w], ahead: w > 0 };
}

test("a picture that is seen with the orientation of its drawing is unchanged", () => {
  const found = math.reaimed(SAME, EYE, SAME, EYE);
  for (const [at, wanted] of [[[-1, 1, 1], [0, 0]], [[1, -1, 1], [1, 1]], [[0, 0, 1], [0.5, 0.5]]])
    near(placeOf(found, at).at, wanted, "corner or middle");
});

test("a turned head sees the matching part of the picture", () => {
  // Drawn 10° to the left, seen 25° to the left: a point straight ahead is 15° to the left in the picture.
  const [drawn, seen] = [math.around(1, degrees(10)), math.around(1, degrees(25))];
  const found = math.reaimed(drawn, EYE, seen, EYE);
  near(placeOf(found, display(EYE, 0, 0)).at, picture(EYE, 15, 0), "ahead");
  near(placeOf(found, display(EYE, -20, 0)).at, picture(EYE, -5, 0), "to the right");
  // Turned up by 30°. The picture was drawn level.
  const up = math.reaimed(SAME, EYE, math.around(0, degrees(30)), EYE);
  near(placeOf(up, display(EYE, 0, 0)).at, picture(EYE, 0, 30), "above");
  // Rolled to the left by a right angle: a point above the middle of the display is left of the picture's middle.
  const rolled = math.reaimed(SAME, EYE, math.around(2, degrees(90)), EYE);
  near(placeOf(rolled, display(EYE, 0, 20)).at, picture(EYE, 20, 0), "rolled");
  // A point behind the eye of the picture has no position in the picture.
  const behind = math.reaimed(SAME, EYE, math.around(1, degrees(180)), EYE);
  assert.ok(!placeOf(behind, display(EYE, 0, 0)).ahead);
});

test("the results match those of the native client", async () => {
  const vectors = await readFile(new URL("../../../../vectors/reprojection.txt", import.meta.url), "utf8");
  const lines = vectors.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assert.ok(lines.length > 20);
  const view = ([left, right, up, down]) => ({ left: tan(left), right: tan(right), up: tan(up), down: tan(down) });
  for (const line of lines) {
    const words = line.trim().split(/ +/);
    const n = words.map(Number);
    const found = math.reaimed(SAME, view(n.slice(0, 4)), n.slice(8, 12), view(n.slice(4, 8)));
    const { at, ahead } = placeOf(found, [2 * n[12] - 1, 1 - 2 * n[13], 1]);
    assert.equal(ahead, words[14] !== "behind", line);
    if (ahead) at.forEach((place, axis) => assert.ok(Math.abs(place - n[14 + axis]) < 1e-3, `${at}: ${line}`));
  }
});

test("a display with another field of view has the same angles", () => {
  const narrow = { left: -tan(20), right: tan(20), up: tan(20), down: -tan(20) };
  const found = math.reaimed(math.around(1, degrees(5)), EYE, SAME, narrow);
  near(placeOf(found, display(narrow, 12, 0)).at, picture(EYE, 7, 0), "12° to the left");
});

test("a screen in the room is a plane", () => {
  // The screen is two metres ahead, two metres wide and one metre high. The eye is 0.5 m to the right and looks ahead.
  const screen = [[-1, 0.5, -2], [2, 0, 0], [0, -1, 0]];
  const found = math.onScreen(screen, [0.5, 0, 0], SAME, EYE);
  near(placeOf(found, display(EYE, 0, 0)).at, [0.75, 0.5], "ahead");
  const toLeft = (Math.atan2(1.5, 2) * 180) / Math.PI;
  near(placeOf(found, display(EYE, toLeft, 0)).at, [0, 0.5], "its left edge");
  assert.equal(math.onScreen(screen, [0, 0, -2], SAME, EYE), null);
});

test("the tangents of a projection matrix are found", () => {
  const { left, right, up, down } = EYE;
  const matrix = new Float64Array(16);
  matrix[0] = 2 / (right - left);
  matrix[5] = 2 / (up - down);
  matrix[8] = (right + left) / (right - left);
  matrix[9] = (up + down) / (up - down);
  near(Object.values(math.tangentsOf(matrix)), [left, right, up, down], "tangents");
});

test("a rotation's logarithm undoes its exponential", () => {
  for (const axis of [[0.3, -1.2, 0.7], [0, 0, 0], [1e-9, 0, 0], [0, 3.1, 0]])
    near(math.logarithm(math.exponential(axis)), axis, "axis");
  near(math.exponential([0, degrees(30), 0]), math.around(1, degrees(30)), "around y");
  near(math.logarithm(math.around(1, degrees(30)).map((v) => -v)), [0, degrees(30), 0], "the other sign");
});

test("a head's direction is between those of its eyes", () => {
  const eyes = [math.around(1, degrees(40)), math.around(1, degrees(20)).map((v) => -v)];
  near(math.middle(eyes), math.around(1, degrees(30)), "between");
  near(math.middle([eyes[0]]), eyes[0], "one");
});

test("an inverse undoes a matrix", () => {
  const turned = math.rotation(math.exponential([0.3, -1.2, 0.7]));
  const same = math.product(math.inverted(turned), turned);
  near(same, [1, 0, 0, 0, 1, 0, 0, 0, 1], "product");
});
