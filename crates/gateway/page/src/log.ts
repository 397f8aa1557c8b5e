// The browser's WebRTC statistics (W3C Identifiers for WebRTC's Statistics API), recorded for analysis: a line of JSON
// for each second.

/** Number of seconds that are kept: half an hour, some 8 MB. */
const KEPT = 1800;

/** Types of measurements, as opposed to negotiated parameters. */
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

  /** Adds the current statistics. */
  note(report: RTCStatsReport) {
    const measured = [...report.values()].filter(({ type }) => KINDS.includes(type));
    const time = new Date().toISOString();
    this.lines = [...this.lines, JSON.stringify({ time, statistics: measured })].slice(-KEPT);
  }

  /** Saves the recorded statistics as a file. */
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
