// What is copied here can be pasted at the host, and what is copied there here, as far as the host lets it. The
// messages are those of our own client, as crates/proto/src/control/clipboard.rs has them.

import { CLIPBOARD_PIECE } from "./wire";

/** Bytes of UTF-8 that a text has at most, and that a piece of it has. */
const MAX_TEXT = 1_000_000;
const PIECE = 8 * 1024;

/** Kind, bytes of the whole text, bytes before these, and how many these are. */
const HEAD = 1 + 4 + 4 + 2;

export class Clipboard {
  private toHost = false;
  /** What came of a text that is not whole yet. */
  private received = new Uint8Array(0);
  private offset = 0;
  /** A browser lets a page write only while its person looks at it, some only when a key or button is pressed. */
  private unwritten: string | null = null;
  /** What both ends have already. */
  private known = "";

  constructor(
    private readonly button: HTMLElement,
    private readonly plays: () => boolean,
    private readonly tell: (message: Uint8Array<ArrayBuffer>) => Promise<void>,
    private readonly say: (words: string) => void,
  ) {
    button.addEventListener("click", () => {
      this.known = "";
      void this.share();
    });
    addEventListener("focus", () => void this.look());
    for (const gesture of ["keydown", "pointerdown"] as const)
      addEventListener(gesture, () => void this.write(), { capture: true });
  }

  /** Another session begins: nothing is shared until the host says so. */
  forget() {
    this.toHost = false;
    this.offset = 0;
    this.unwritten = null;
    this.known = "";
    this.button.hidden = true;
  }

  /** Only who plays shares anything. */
  roleChanged() {
    if (!this.plays()) this.unwritten = null;
    this.button.hidden = !this.toHost || !this.plays();
    void this.look();
  }

  /** Bit 0: what is copied here goes there. */
  ways(message: DataView) {
    this.toHost = (message.getUint8(1) & 1) !== 0;
    this.roleChanged();
  }

  /** A piece of what was copied at the host. */
  piece(message: DataView) {
    const [total, offset] = [message.getUint32(1, true), message.getUint32(5, true)];
    const length = message.getUint16(9, true);
    if (offset === 0) {
      this.received = new Uint8Array(Math.min(total, MAX_TEXT));
      this.offset = 0;
    }
    const end = offset + length;
    if (offset !== this.offset || end > this.received.length || HEAD + length > message.byteLength) return;
    this.received.set(new Uint8Array(message.buffer, message.byteOffset + HEAD, length), offset);
    this.offset = end;
    if (end < this.received.length) return;
    this.unwritten = new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.received);
    this.received = new Uint8Array(0);
    void this.write();
  }

  /** Sends what was copied here, where the browser lets the page look without a question. */
  async look() {
    if (!this.toHost || !this.plays() || !document.hasFocus()) return;
    // Not every browser knows the name; that one asks its person each time.
    const name = "clipboard-read" as PermissionName;
    const asked = navigator.permissions.query({ name }).catch(() => null);
    if ((await asked)?.state === "granted") await this.share();
  }

  /** The same, after a question of the browser's if it has one. */
  private async share() {
    if (!this.toHost || !this.plays()) return;
    const text = await navigator.clipboard.readText().catch(() => "");
    if (text === "" || text === this.known || !this.toHost || !this.plays()) return;
    this.known = text;
    // What the host copied is older.
    this.unwritten = null;
    const bytes = new TextEncoder().encode(text);
    if (bytes.length > MAX_TEXT) {
      this.say("what was copied is too long for the host: over 1 MB");
      return;
    }
    for (let offset = 0; offset < bytes.length; offset += PIECE) {
      const piece = bytes.subarray(offset, offset + PIECE);
      const message = new Uint8Array(HEAD + piece.length);
      const d = new DataView(message.buffer);
      d.setUint8(0, CLIPBOARD_PIECE);
      d.setUint32(1, bytes.length, true);
      d.setUint32(5, offset, true);
      d.setUint16(9, piece.length, true);
      message.set(piece, HEAD);
      await this.tell(message);
      // Something else was copied meanwhile.
      if (this.known !== text) return;
    }
  }

  private async write() {
    const text = this.unwritten;
    if (text === null) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // It is tried again with the next key.
      return;
    }
    this.known = text;
    if (this.unwritten === text) this.unwritten = null;
  }
}
