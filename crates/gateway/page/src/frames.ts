// What becomes of each frame: the picture that the browser hands to its compositor is matched with the frame
// that left the host, by its RTP time, and the host is told.

import type { Left, Report } from "./wire";

/** Frames that are waited for, at most: two seconds. */
const MOST = 120;

/** Each report goes into so many messages, since any may be lost. */
const REPEATED = 4;

/** A frame that was handed to the compositor, with its stages in milliseconds behind Captured. */
export interface Shown {
  frame: number;
  /** Names and order of crates/proto/src/trace.rs; what was not measured is not here. */
  stages: Record<string, number>;
  motionToPhoton?: number;
  bytes: number;
}

/** What is known of a picture that was handed over. */
export type Handed = Pick<VideoFrameCallbackMetadata, "rtpTimestamp" | "receiveTime" | "presentationTime">;

export interface Clock {
  /** Host minus page, in milliseconds; undefined before it is known. */
  offset(): number | undefined;
  sampledAt(hostNumber: number): number | undefined;
  /** The pose that the frame with this RTP time was drawn with: its number, and when it was sampled. */
  posed(rtpTime: number): { number: number; at: number } | undefined;
}

export class Frames {
  private left = new Map<number, Left>();
  /** Frames that the host says have left, in order, of which no report was made. */
  private open: Left[] = [];
  /** Pictures that came before their frames were named, by their RTP time. */
  private early = new Map<number, Handed>();
  private newest = 0;
  private echoed = 0;
  /** The pose of the newest frame. */
  private posed = 0;
  private recent: Report[] = [];
  readonly counts = { shown: 0, superseded: 0, hidden: 0 };

  constructor(
    private readonly clock: Clock,
    private readonly say: (reports: Report[]) => void,
    private readonly shown: (shown: Shown) => void,
  ) {}

  /** They have left; some may have been named before. */
  heard(frames: Left[]) {
    for (const left of frames) {
      if (((left.frame - this.newest) | 0) <= 0) continue;
      this.newest = left.frame;
      this.left.set(left.rtpTime, left);
      this.open.push(left);
      const early = this.early.get(left.rtpTime);
      if (early) this.presented(early);
    }
    if (document.hidden) {
      // No picture is shown in the background, so that nothing can be said of it.
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

  /** The browser has handed over a picture. */
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
    // The application took the pose, and draws with it: that is exact.
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
      // What the host injects, the application may have drawn with or not.
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
    // A frame's outcome is said once more with each of the next, oldest first.
    this.recent = [...this.recent, ...news].slice(-(REPEATED + news.length));
    for (let at = 0; at < this.recent.length; at += 20) this.say(this.recent.slice(at, at + 20));
  }
}
