// Tests the outcomes of frames. The picture may arrive before or after the message about its frame. `npm test` runs it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

globalThis.document = { hidden: false };
const { Frames } = await load("frames");

const clock = { offset: () => undefined, sampledAt: () => undefined, posed: () => undefined };

function left(frame) {
  return {
    frame,
    rtpTime: frame * 1500,
    captured: 0n,
    firstSlice: 1,
    encoded: 2,
    firstSent: 3,
    lastSent: 4,
    bytes: 5,
    echo: 0,
  };
}

function run(steps) {
  const outcomes = new Map();
  const report = (reports) => reports.forEach(({ frame, outcome }) => outcomes.set(frame, outcome));
  const frames = new Frames(clock, report, () => {});
  steps(frames);
  return { frames, outcomes: Object.fromEntries(outcomes) };
}

const handed = (frame) => ({ rtpTimestamp: frame * 1500, presentationTime: 10 });

test("a picture after its frame's message is reported, with the frames that it superseded", () => {
  const { outcomes, frames } = run((frames) => {
    frames.onSent([left(1), left(2)]);
    frames.presented(handed(2));
  });
  assert.deepEqual(outcomes, { 1: "superseded", 2: "displayed" });
  assert.deepEqual(frames.counts, { shown: 1, superseded: 1, hidden: 0 });
});

test("a picture before its frame's message is reported once, when the message arrives", () => {
  const { outcomes, frames } = run((frames) => {
    frames.presented(handed(1));
    frames.onSent([left(1)]);
    frames.presented(handed(2));
    frames.onSent([left(1), left(2)]);
    frames.onSent([left(2)]);
  });
  assert.deepEqual(outcomes, { 1: "displayed", 2: "displayed" });
  assert.equal(frames.counts.shown, 2);
});

test("the number of pictures without a message is bounded", () => {
  const { frames } = run((frames) => {
    for (let frame = 1; frame <= 1000; frame += 1) frames.presented(handed(frame));
    frames.onSent([left(1), left(1000)]);
  });
  assert.deepEqual(frames.counts, { shown: 1, superseded: 1, hidden: 0 });
});
