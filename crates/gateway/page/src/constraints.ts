// Constraints on the stream: maximum size and bitrate. Sent when a connection starts; the host's own limits apply.

const SIZES = ["1920x1080", "1600x900", "1280x720", "960x540", "640x360"];
const MEGABITS = [1, 2, 5, 10, 20, 50];

export class StreamConstraints {
  constructor(
    private readonly size: HTMLSelectElement,
    private readonly bitrate: HTMLSelectElement,
    /** Called on changes. */
    changed: () => void,
  ) {
    const shown = (value: string) => value.replace("x", " × ");
    this.fill(size, "size", [["", "Original"], ...SIZES.map((value): [string, string] => [value, shown(value)])]);
    const rates = MEGABITS.map((value): [string, string] => [String(value * 1_000_000), `Up to ${value} Mb/s`]);
    this.fill(bitrate, "bitrate", [["", "Automatic"], ...rates]);
    for (const choice of [size, bitrate]) choice.addEventListener("change", () => changed());
  }

  /** For the query of the signalling URL. */
  query(): string {
    const { size, bitrate } = this;
    return (size.value && `&size=${size.value}`) + (bitrate.value && `&bitrate=${bitrate.value}`);
  }

  private fill(choice: HTMLSelectElement, name: string, options: [string, string][]) {
    choice.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
    choice.value = localStorage.getItem(name) ?? "";
    if (choice.selectedIndex < 0) choice.value = "";
    choice.addEventListener("change", () => localStorage.setItem(name, choice.value));
  }
}
