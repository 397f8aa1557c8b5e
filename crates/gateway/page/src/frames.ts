// Reports the outcome of each frame to the host. When a picture has been passed to the compositor, its RTP timestamp
// identifies the frame.

import type { Left, Report } from "./wire";

/** Maximum number of pending frames: two seconds at 60 frames/s. */
const MOST = 120;

/** Number of earlier reports that are repeated together with new ones, since messages may be lost. */
const REPEATED = 4;

/** A frame passed to the compositor, with its stages in milliseconds after Captured. */
export interface Shown {
  frame: number;
  /** Names and order as in crates/proto/src/trace.rs; missing stages were not measured. */
  stages: Record<string, number>;
  motionToPhoton?: number;
  bytes: number;
}

/** Data of a presented picture. */
export type Handed = Pick<VideoFrameCallbackMetadata, "rtpTimestamp" | "receiveTime" | "presentationTime">;

export interface Clock {
  /** The host's clock minus the page's clock, in milliseconds; undefined if unknown. */
  offset(): number | undefined;
  sampledAt(hostNumber: number): number | undefined;
  /** The pose of the frame with this RTP timestamp: its number and sampling time. */
  posed(rtpTime: number): { number: number; at: number } | undefined;
}

export class Frames {
  private left = new Map<number, Left>();
  /** Sent frames that have not been reported yet, in order. */
  private open: Left[] = [];
  /** Pictures without a matching frame yet, by RTP timestamp. */
  private early = new Map<number, Handed>();
  private newest = 0;
  private echoed = 0;
  /** Number of the pose of the newest presented frame; 0: unknown. */
  private posed = 0;
  private recent: Report[] = [];
  readonly counts = { shown: 0, superseded: 0, hidden: 0 };

  constructor(
    private readonly clock: Clock,
    private readonly emit: (reports: Report[]) => void,
    private readonly shown: (shown: Shown) => void,
  ) {}

  /** Adds sent frames; repeated ones are ignored. */
  onSent(frames: Left[]) {
    for (const left of frames) {
      if (((left.frame - this.newest) | 0) <= 0) continue;
      this.newest = left.frame;
      this.left.set(left.rtpTime, left);
      this.open.push(left);
      const early = this.early.get(left.rtpTime);
      if (early) this.presented(early);
    }
    if (document.hidden) {
      // In the background, no picture is presented, so the outcome of these frames is unknown.
      this.counts.hidden += this.open.length;
      this.report(this.open.map(({ frame }) => ({ frame, outcome: "left", echo: 0 })));
      this.open = [];
      this.left.clear();
      this.early.clear();
    }
    while (this.open.length > MOST) {
      const old = this.open.shift();
      if (old) this.left.delete(old.rtpTime);
    }
  }

  /** The browser has presented a picture. */
  presented(meta: Handed) {
    if (meta.rtpTimestamp === undefined) return;
    const left = this.left.get(meta.rtpTimestamp);
    if (left === undefined) {
      this.early.set(meta.rtpTimestamp, meta);
      for (const first of this.early.keys()) {
        if (this.early.size <= MOST) break;
        this.early.delete(first);
      }
      return;
    }
    this.early.delete(meta.rtpTimestamp);
    const before = this.open.filter((other) => ((other.frame - left.frame) | 0) < 0);
    this.open = this.open.filter((other) => ((other.frame - left.frame) | 0) > 0);
    for (const { rtpTime } of [...before, left]) this.left.delete(rtpTime);
    const received = meta.receiveTime;
    const submitted = meta.presentationTime;
    const posed = this.clock.posed(left.rtpTime);
    const news = left.echo !== 0 && left.echo !== this.echoed;
    const input = news ? this.clock.sampledAt(left.echo) : undefined;
    this.echoed = left.echo;
    // The application drew this frame with the pose, so the latency is exact.
    const turned = posed && posed.number !== this.posed ? posed.at : undefined;
    this.posed = posed?.number ?? 0;
    const sampled = turned ?? input;
    const motionToPhoton = sampled === undefined ? undefined : submitted - sampled;
    const report: Report = {
      frame: left.frame,
      outcome: "displayed",
      received,
      submitted,
      motionToPhoton,
      // Without a pose, the application may have drawn this frame before it handled the injected input.
      echo: turned !== undefined ? 2 : left.echo === 0 ? 0 : 1,
      pose: posed?.number,
    };
    this.counts.shown += 1;
    this.counts.superseded += before.length;
    const superseded = before.map(({ frame }): Report => ({ frame, outcome: "superseded", echo: 0 }));
    this.report([...superseded, report]);
    this.shown({
      frame: left.frame,
      stages: this.stages(left, received, submitted),
      motionToPhoton,
      bytes: left.bytes,
    });
  }

  private stages(left: Left, received: number | undefined, submitted: number) {
    const stages: Record<string, number> = {
      FirstSlice: left.firstSlice,
      Encoded: left.encoded,
      FirstSent: left.firstSent,
      LastSent: left.lastSent,
    };
    const offset = this.clock.offset();
    if (offset === undefined) return stages;
    const behind = (at: number) => at + offset - Number(left.captured) / 1e6;
    if (received !== undefined) stages.Recoverable = behind(received);
    stages.Submitted = behind(submitted);
    return stages;
  }

  private report(news: Report[]) {
    // The newest earlier reports are repeated, oldest first.
    this.recent = [...this.recent, ...news].slice(-(REPEATED + news.length));
    for (let at = 0; at < this.recent.length; at += 20) this.emit(this.recent.slice(at, at + 20));
  }
}
