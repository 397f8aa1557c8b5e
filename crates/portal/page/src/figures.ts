// Statistics of a session's subscribers, as text.

import type { OperatorSession, Subscribers } from "./api";
import { make } from "./dom";

/** A line of statistics; undefined unless the session is running. */
export function figures(of: OperatorSession): HTMLElement | undefined {
  if (of.state !== "running") return undefined;
  const line = make("div", "figures", words(of));
  line.title = "Measured over five seconds, updated every ten seconds. Latency is from capture to display.";
  return line;
}

function words(of: OperatorSession): string {
  if (of.subscribers === null) return "no data about connections yet";
  return of.subscribers.length === 0 ? "no connections" : of.subscribers.map(group).join("; ");
}

function group(of: Subscribers): string {
  const many = of.count === 1 ? "" : "s";
  const parts = [`${of.count} ${of.role}${many} (${of.kind})`];
  const known: string[] = [];
  if (of.frames_per_second !== null) known.push(`${of.frames_per_second.toFixed(1)} frames/s`);
  if (of.latency_p50 !== null && of.latency_p99 !== null) {
    known.push(`${millis(of.latency_p50)}\u00a0(p50)`, `${millis(of.latency_p99)}\u00a0(p99)`);
    if (of.latency_bound !== null) known.push(`±${millis(of.latency_bound)}`);
  }
  // If there are several subscribers, each value is the worst subscriber's.
  if (of.count > 1 && known.length > 0) known[0] = `at worst ${known[0]}`;
  return parts.concat(known.length > 0 ? known : ["frames/s and latency unknown"]).join(", ");
}

function millis(seconds: number): string {
  return `${(seconds * 1000).toFixed(1)}\u00a0ms`;
}
