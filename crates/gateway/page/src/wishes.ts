// What the person wants of the picture: how large it is at most, and how many bits it takes. The host hears of it when
// a connection begins, and keeps to its own limits.

const SIZES = ["1920x1080", "1600x900", "1280x720", "960x540", "640x360"];
const MEGABITS = [1, 2, 5, 10, 20, 50];

export class Wishes {
  constructor(
    private readonly size: HTMLSelectElement,
    private readonly bitrate: HTMLSelectElement,
    /** They changed. */
    changed: () => void,
  ) {
    const shown = (value: string) => value.replace("x", " × ");
    this.fill(size, "size", [["", "As it is"], ...SIZES.map((value): [string, string] => [value, shown(value)])]);
    const rates = MEGABITS.map((value): [string, string] => [String(value * 1_000_000), `${value} Mb/s at most`]);
    this.fill(bitrate, "bitrate", [["", "Automatic"], ...rates]);
    for (const choice of [size, bitrate]) choice.addEventListener("change", () => changed());
  }

  /** Of the address that signalling begins at. */
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
