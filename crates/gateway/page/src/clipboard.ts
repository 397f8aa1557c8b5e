// Clipboard synchronization between browser and host, within the host's permissions. The messages are those of the
// native client (crates/proto/src/control/clipboard.rs).

import { CLIPBOARD_PIECE } from "./wire";

/** Maximum length of a text in bytes of UTF-8, and of a piece. */
const MAX_TEXT = 1_000_000;
const PIECE = 8 * 1024;

/** Header length in bytes: kind, total length, offset, and length of the piece. */
const HEAD = 1 + 4 + 4 + 2;

export class Clipboard {
  private toHost = false;
  /** The received part of an incomplete text. */
  private received = new Uint8Array(0);
  private offset = 0;
  /** A text to be written later: browsers allow writing only with focus, some only after user activation. */
  private unwritten: string | null = null;
  /** The text that browser and host both have. */
  private known = "";

  constructor(
    private readonly button: HTMLElement,
    private readonly plays: () => boolean,
    private readonly send: (message: Uint8Array<ArrayBuffer>) => Promise<void>,
    private readonly showStatus: (words: string) => void,
  ) {
    button.addEventListener("click", () => {
      this.known = "";
      void this.share();
    });
    addEventListener("focus", () => void this.shareIfPermitted());
    for (const gesture of ["keydown", "pointerdown"] as const)
      addEventListener(gesture, () => void this.write(), { capture: true });
  }

  /** Resets for a new session: nothing is shared until the host permits it. */
  forget() {
    this.toHost = false;
    this.offset = 0;
    this.unwritten = null;
    this.known = "";
    this.button.hidden = true;
  }

  /** Only the player shares its clipboard. */
  roleChanged() {
    if (!this.plays()) this.unwritten = null;
    this.button.hidden = !this.toHost || !this.plays();
    void this.shareIfPermitted();
  }

  /** The directions that the host permits. Bit 0: from this browser to the host. */
  ways(message: DataView) {
    this.toHost = (message.getUint8(1) & 1) !== 0;
    this.roleChanged();
  }

  /** A piece of text copied at the host. */
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

  /** Sends text copied here, if the browser permits reading without a prompt. */
  async shareIfPermitted() {
    if (!this.toHost || !this.plays() || !document.hasFocus()) return;
    // Browsers that do not know the permission's name always prompt.
    const name = "clipboard-read" as PermissionName;
    const asked = navigator.permissions.query({ name }).catch(() => null);
    if ((await asked)?.state === "granted") await this.share();
  }

  /** Like `shareIfPermitted`, but the browser may prompt the user. */
  private async share() {
    if (!this.toHost || !this.plays()) return;
    const text = await navigator.clipboard.readText().catch(() => "");
    if (text === "" || text === this.known || !this.toHost || !this.plays()) return;
    this.known = text;
    // Pending text from the host is older than this text.
    this.unwritten = null;
    const bytes = new TextEncoder().encode(text);
    if (bytes.length > MAX_TEXT) {
      this.showStatus("copied text is too long for the host (over 1 MB)");
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
      await this.send(message);
      // Another text was copied in the meantime.
      if (this.known !== text) return;
    }
  }

  private async write() {
    const text = this.unwritten;
    if (text === null) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Writing is retried at the next key press or click.
      return;
    }
    this.known = text;
    if (this.unwritten === text) this.unwritten = null;
  }
}
