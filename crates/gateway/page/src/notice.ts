// Large words over the picture: that the connection is lost, or why there is none. The last picture stays, dimmed.

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

  /** The connection is lost, and another attempt follows by itself. */
  reconnecting(why: string) {
    this.show("Reconnecting…", why, false);
  }

  /** The host is there, and its application is not yet. */
  waiting(why: string) {
    this.show("Waiting…", why, false);
  }

  /** The connection is over until the person wants another. */
  ended(why: string) {
    this.show("Disconnected", why, true);
  }

  /** There is nothing here to connect to, and there will be nothing. */
  over(title: string, why: string) {
    this.show(title, why, false);
  }

  /** This browser can't play. */
  impossible(why: string) {
    this.show("Not in this browser", why, false);
  }

  hide() {
    this.box.hidden = true;
    this.last.hidden = true;
  }

  private show(title: string, reason: string, again: boolean) {
    // The video shows nothing any more once another connection begins.
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
