// The browser's own statistics of the connection (the Identifiers for WebRTC's Statistics API of the W3C), kept
// for who wants to study them: a line of JSON for each second.

/** Seconds that are kept: half an hour, some 8 MB. */
const KEPT = 1800;

/** What is measured, and not what was agreed on when the connection began. */
const KINDS = [
  "candidate-pair",
  "data-channel",
  "inbound-rtp",
  "media-playout",
  "outbound-rtp",
  "remote-inbound-rtp",
  "remote-outbound-rtp",
  "transport",
];

export class StatisticsLog {
  private lines: string[] = [];

  /** What the browser says now. */
  note(report: RTCStatsReport) {
    const measured = [...report.values()].filter(({ type }) => KINDS.includes(type));
    const time = new Date().toISOString();
    this.lines = [...this.lines, JSON.stringify({ time, statistics: measured })].slice(-KEPT);
  }

  /** Gives the person a file of it. */
  save() {
    const text = this.lines.map((line) => `${line}\n`).join("");
    const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "openuvr-statistics.jsonl";
    link.click();
    URL.revokeObjectURL(address);
  }
}
