// An invisible text field with the keyboard focus, into which the browser inserts text composed by dead keys, Compose,
// an input method or an on-screen keyboard. Edits are found by comparing the field's text with the text sent so far,
// because browsers differ in their events: Chromium ends a composition with its text, and Firefox inserts the text
// after the composition.

/** Initial content for an on-screen keyboard, so that its Backspace has something to delete. */
const FILLED = "        ";

/** Maximum content for an on-screen keyboard; a guess: some sentences, which it may still correct. */
const LONG = 500;

/** Difference between two texts: characters to delete at the end, and text to append. */
export function edits(before: string, after: string): { erased: number; added: string } {
  const [old, now] = [[...before], [...after]];
  let same = 0;
  while (same < old.length && same < now.length && old[same] === now[same]) same += 1;
  return { erased: old.length - same, added: now.slice(same).join("") };
}

export class TextField {
  /** The part of the text that was sent. */
  private told = "";
  private composing = false;
  /** Touch devices: a tap on the picture must not open the keyboard. */
  private readonly fingers = matchMedia("(pointer: coarse)");

  constructor(
    private readonly field: HTMLTextAreaElement,
    private readonly heard: {
      begins(at: number): void;
      text(text: string, at: number): void;
      erased(count: number, at: number): void;
    },
  ) {
    field.addEventListener("compositionstart", (event) => {
      this.composing = true;
      this.heard.begins(event.timeStamp);
    });
    field.addEventListener("compositionend", (event) => {
      this.composing = false;
      this.follow(event.timeStamp);
    });
    field.addEventListener("input", (event) => this.follow(event.timeStamp));
    this.onScreen(false);
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  /** Whether the on-screen keyboard is requested. */
  isOnScreen(): boolean {
    return this.field.inputMode === "text";
  }

  /** Shows or hides the on-screen keyboard. */
  onScreen(shown: boolean) {
    // Browsers check the input mode on focus.
    const focused = document.activeElement === this.field;
    this.field.blur();
    this.field.inputMode = shown ? "text" : this.fingers.matches ? "none" : "";
    this.clear();
    if (shown || focused) this.focus();
  }

  private follow(at: number) {
    // With a physical keyboard, text is sent and cleared when its composition ends. With an on-screen keyboard, each
    // change is sent, because this keyboard may still correct its text.
    if (this.composing && !this.isOnScreen()) return;
    const { erased, added } = edits(this.told, this.field.value);
    this.told = this.field.value;
    this.heard.erased(erased, at);
    this.heard.text(added, at);
    const full = this.told.length > LONG || this.told.length === 0;
    if (!this.composing && (!this.isOnScreen() || full)) this.clear();
  }

  private clear() {
    this.told = this.isOnScreen() ? FILLED : "";
    this.field.value = this.told;
  }
}
