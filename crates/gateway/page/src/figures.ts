// The overlay and the statistics tab: latency by stage, and link statistics.

import type { Shown } from "./frames";

/** Stages of a frame in order, as in crates/proto/src/trace.rs. */
const STAGES = ["FirstSlice", "Encoded", "FirstSent", "LastSent", "Recoverable", "Submitted"];

/** Number of frames in the window: four seconds at 60 frames/s. */
const KEPT = 240;

function percentile(sorted: number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

function milliseconds(value: number | undefined): string {
  return value === undefined ? "–" : value.toFixed(1);
}

/** A bar for each stage: from the median of the previous stage to the median of this one. */
function bars(rows: { p50?: number; p95?: number }[]): HTMLElement[] {
  const end = Math.max(1, ...rows.map(({ p95 }) => p95 ?? 0));
  let before = 0;
  return rows.map(({ p50 }) => {
    const bar = document.createElement("span");
    const until = Math.max(before, p50 ?? before);
    bar.style.marginLeft = `${(100 * before) / end}%`;
    bar.style.width = `${(100 * (until - before)) / end}%`;
    before = until;
    return bar;
  });
}

export class Figures {
  private frames: Shown[] = [];
  /** Latencies in milliseconds from the sampling of a pose (InputSampled) to its picture (Submitted), newest last. */
  private poses: number[] = [];
  private decisions: string[] = [];
  private history: { rate: number; loss: number; latency: number }[] = [];
  private before: { at: number; bytes: number; lost: number; received: number } | null = null;
  /** The browser's latest statistics, by name. */
  private link: Record<string, string> = {};

  constructor(
    private readonly over: HTMLElement,
    private readonly tab: HTMLElement,
  ) {}

  shown(frame: Shown) {
    this.frames = [...this.frames, frame].slice(-KEPT);
  }

  posed(motionToPhoton: number) {
    this.poses = [...this.poses, motionToPhoton].slice(-KEPT);
  }

  /** Pose latency as text; empty without virtual reality. */
  private posesWords(): [string, string][] {
    const sorted = this.poses.slice().sort((a, b) => a - b);
    if (sorted.length === 0) return [];
    const [p50, p95] = [0.5, 0.95].map((share) => milliseconds(percentile(sorted, share)));
    return [["pose: InputSampled to Submitted", `p50 ${p50} ms, p95 ${p95} ms`]];
  }

  decided(words: string) {
    this.decisions = [`${new Date().toLocaleTimeString()}  ${words}`, ...this.decisions].slice(0, 30);
  }

  /** Median, 95th and 99th percentile of the time from Captured to each stage. */
  rows(): { stage: string; p50?: number; p95?: number; p99?: number }[] {
    return STAGES.map((stage) => {
      const all = this.frames.map((frame) => frame.stages[stage]).filter((t) => t !== undefined);
      all.sort((a, b) => a - b);
      if (all.length === 0) return { stage };
      const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(all, share));
      return { stage, p50, p95, p99 };
    });
  }

  motionToPhoton(): number | undefined {
    const all = this.frames.map((f) => f.motionToPhoton).filter((t) => t !== undefined);
    all.sort((a, b) => a - b);
    return all.length === 0 ? undefined : percentile(all, 0.5);
  }

  /** Takes the browser's statistics. Called once a second. */
  statistics(report: RTCStatsReport, now: number) {
    for (const entry of report.values()) {
      if (entry.type === "inbound-rtp" && entry.kind === "video") this.video(entry, now);
      if (entry.type === "candidate-pair" && entry.nominated) {
        this.link["round trip"] = `${milliseconds(1000 * (entry.currentRoundTripTime ?? 0))} ms`;
      }
    }
  }

  private video(entry: Record<string, number>, now: number) {
    const { bytesReceived: bytes, packetsLost: lost, packetsReceived: received } = entry;
    if (this.before) {
      const seconds = (now - this.before.at) / 1000;
      const rate = ((bytes - this.before.bytes) * 8) / seconds / 1e6;
      const gone = Math.max(0, lost - this.before.lost);
      const came = received - this.before.received;
      const loss = gone + came === 0 ? 0 : (100 * gone) / (gone + came);
      const latency = this.rows().find(({ stage }) => stage === "Submitted")?.p50 ?? 0;
      this.history = [...this.history, { rate, loss, latency }].slice(-120);
      this.link.rate = `${rate.toFixed(1)} Mb/s`;
      this.link.loss = `${loss.toFixed(1)} %`;
    }
    this.before = { at: now, bytes, lost, received };
    const perFrame = (total: number, count: number) => milliseconds((1000 * total) / Math.max(1, count));
    this.link.decode = `${perFrame(entry.totalDecodeTime, entry.framesDecoded)} ms a frame`;
    this.link["jitter buffer"] = `${perFrame(entry.jitterBufferDelay, entry.jitterBufferEmittedCount)} ms`;
    for (const name of ["framesDecoded", "framesDropped", "freezeCount", "nackCount", "pliCount"]) {
      this.link[name] = String(entry[name] ?? 0);
    }
  }

  draw(counts: { shown: number; superseded: number; hidden: number }, bound: number | undefined) {
    const rows = this.rows();
    if (!this.over.hidden) {
      const lines = rows.map(
        ({ stage, p50, p95 }) => `${stage.padEnd(12)}${milliseconds(p50).padStart(7)}${milliseconds(p95).padStart(7)}`,
      );
      this.over.textContent = [
        `${"ms".padEnd(12)}${"p50".padStart(7)}${"p95".padStart(7)}`,
        ...lines,
        `motion to photon ${milliseconds(this.motionToPhoton())}`,
        ...this.posesWords().map(([name, value]) => `${name} ${value}`),
        ...Object.entries(this.link).map(([name, value]) => `${name} ${value}`),
        this.decisions[0] ?? "",
      ].join("\n");
    }
    if (!this.tab.hidden) this.page(rows, counts, bound);
  }

  private page(
    rows: ReturnType<Figures["rows"]>,
    counts: { shown: number; superseded: number; hidden: number },
    bound: number | undefined,
  ) {
    const cell = (tag: string, words: string) => {
      const element = document.createElement(tag);
      element.textContent = words;
      return element;
    };
    const line = (tag: string, words: string[]) => {
      const row = document.createElement("tr");
      row.append(...words.map((word) => cell(tag, word)));
      return row;
    };
    const table = (head: string[], lines: string[][]) => {
      const made = document.createElement("table");
      made.append(line("th", head), ...lines.map((words) => line("td", words)));
      return made;
    };
    const stages = table(
      ["stage", "p50", "p95", "p99", ""],
      rows.map(({ stage, p50, p95, p99 }) => [stage, ...[p50, p95, p99].map(milliseconds), ""]),
    );
    stages.className = "waterfall";
    bars(rows).forEach((bar, n) => stages.rows[n + 1].cells[4].append(bar));
    const chart = document.createElement("canvas");
    const list = document.createElement("ul");
    list.append(...this.decisions.map((words) => cell("li", words)));
    this.tab.replaceChildren(
      cell("h2", "Latency by stage, in milliseconds after Captured"),
      stages,
      cell("p", `Clock error: at most ±${milliseconds(bound)} ms. Submitted: passed to the compositor.`),
      cell("h2", "Rate (blue, Mb/s), loss (red, %), latency to the compositor (green, ms)"),
      chart,
      cell("h2", "Link and decoder"),
      table(["quantity", "value"], [
        ...Object.entries(this.link),
        ["frames shown", String(counts.shown)],
        ["superseded", String(counts.superseded)],
        ["frames in the background", String(counts.hidden)],
        ["motion to photon, ms", milliseconds(this.motionToPhoton())],
        ...this.posesWords(),
      ]),
      cell("h2", "Control events of the host"),
      list,
    );
    this.chart(chart);
  }

  private chart(canvas: HTMLCanvasElement) {
    canvas.width = canvas.clientWidth;
    canvas.height = canvas.clientHeight;
    const context = canvas.getContext("2d");
    if (!context) return;
    const lines: [string, number[]][] = [
      ["#6ab0ff", this.history.map(({ rate }) => rate)],
      ["#ff7a6a", this.history.map(({ loss }) => loss)],
      ["#7adb8a", this.history.map(({ latency }) => latency)],
    ];
    const top = Math.max(10, ...lines.flatMap(([, values]) => values));
    context.fillStyle = "#999";
    context.fillText(top.toFixed(0), 2, 10);
    for (const [colour, values] of lines) {
      context.strokeStyle = colour;
      context.beginPath();
      values.forEach((value, index) => {
        context.lineTo((index / 119) * canvas.width, canvas.height * (1 - value / top));
      });
      context.stroke();
    }
  }
}
