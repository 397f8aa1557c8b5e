// A large message over the dimmed last picture: why there is no connection.

export class Notice {
  private readonly title: HTMLElement;
  private readonly reason: HTMLElement;
  private readonly again: HTMLElement;

  constructor(
    private readonly box: HTMLElement,
    private readonly last: HTMLCanvasElement,
    private readonly video: HTMLVideoElement,
  ) {
    this.title = box.querySelector("h1")!;
    this.reason = box.querySelector("p")!;
    this.again = box.querySelector("button")!;
  }

  /** The connection is lost; reconnecting automatically. */
  reconnecting(why: string) {
    this.show("Reconnecting…", why, false);
  }

  /** There is no connection yet; the page tries again automatically. */
  waiting(why: string) {
    this.show("Waiting…", why, false);
  }

  /** The connection has ended; only the user can reconnect. */
  ended(why: string) {
    this.show("Disconnected", why, true);
  }

  /** There is nothing to connect to. */
  over(title: string, why: string) {
    this.show(title, why, false);
  }

  /** This browser is not supported. */
  impossible(why: string) {
    this.show("Browser not supported", why, false);
  }

  hide() {
    this.box.hidden = true;
    this.last.hidden = true;
  }

  private show(title: string, reason: string, again: boolean) {
    // The video becomes blank when another connection starts.
    if (this.last.hidden && this.video.videoWidth > 0) {
      this.last.width = this.video.videoWidth;
      this.last.height = this.video.videoHeight;
      this.last.getContext("2d")?.drawImage(this.video, 0, 0);
      this.last.hidden = false;
    }
    this.title.textContent = title;
    this.reason.textContent = reason;
    this.again.hidden = !again;
    this.box.hidden = false;
  }
}
