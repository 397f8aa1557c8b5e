// Who plays and watches a session, and how it is for them, in words.

import type { OperatorSession, Subscribers } from "./api";

/** One line; empty for a session that does not run. */
export function figures(of: OperatorSession): string {
  if (of.state !== "running") return "";
  if (of.subscribers === null) return "has not said yet who is connected";
  return of.subscribers.length === 0 ? "nobody is connected" : of.subscribers.map(group).join("; ");
}

function group(of: Subscribers): string {
  const many = of.count === 1 ? "" : "s";
  const parts = [`${of.count} ${of.role}${many} (${of.kind})`];
  const known: string[] = [];
  if (of.frames_per_second !== null) known.push(`${of.frames_per_second.toFixed(1)} frames/s`);
  if (of.latency_p50 !== null && of.latency_p99 !== null) {
    known.push(`${millis(of.latency_p50)} (p50)`, `${millis(of.latency_p99)} (p99)`);
    if (of.latency_bound !== null) known.push(`±${millis(of.latency_bound)}`);
  }
  // Of several each figure is that of whoever has the worst.
  if (of.count > 1 && known.length > 0) known[0] = `at worst ${known[0]}`;
  return parts.concat(known.length > 0 ? known : ["frames/s and latency unknown"]).join(", ");
}

function millis(seconds: number): string {
  return `${(seconds * 1000).toFixed(1)} ms`;
}
