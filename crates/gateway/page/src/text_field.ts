// The text field that has the focus while the picture has the keyboard: nobody sees it, and the browser puts the text
// into it that dead keys, Compose, an input method or an on-screen keyboard makes. Only the text is read; what browsers
// say of how it came differs (Chromium ends a composition with its text, Firefox inserts the text behind it).

/** What an on-screen keyboard finds in the field, so that its Backspace has something to take away. */
const FILLED = "        ";

/** Characters of an on-screen keyboard's field at most; a guess: some sentences, which it may still correct. */
const LONG = 500;

/** What leads from one text to another: characters to take back at its end, and text to add. */
export function edits(before: string, after: string): { erased: number; added: string } {
  const [old, now] = [[...before], [...after]];
  let same = 0;
  while (same < old.length && same < now.length && old[same] === now[same]) same += 1;
  return { erased: old.length - same, added: now.slice(same).join("") };
}

export class TextField {
  /** What of the text in the field was told. */
  private told = "";
  private composing = false;
  /** Fingers are the usual pointer: a tap on the picture is to bring no keyboard. */
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

  /** Whether an on-screen keyboard is asked for. */
  isOnScreen(): boolean {
    return this.field.inputMode === "text";
  }

  /** Brings an on-screen keyboard, or sends it away. */
  onScreen(shown: boolean) {
    // Browsers look at the mode when the field gets the focus.
    const focused = document.activeElement === this.field;
    this.field.blur();
    this.field.inputMode = shown ? "text" : this.fingers.matches ? "none" : "";
    this.clear();
    if (shown || focused) this.focus();
  }

  private follow(at: number) {
    // A keyboard of keys shows what it composes nowhere; an on-screen one corrects what was typed.
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
