// The host's sound, its volume, and whether it is heard at all. Browsers let a page be heard only after its person
// has clicked or typed something there: the first click or key starts it.

export class Sound {
  /** The person wants to hear it. */
  private wanted = localStorage.getItem("sound") !== "off";

  constructor(
    private readonly audio: HTMLAudioElement,
    private readonly button: HTMLElement,
    volume: HTMLInputElement,
  ) {
    volume.value = localStorage.getItem("volume") ?? "100";
    const set = () => {
      // Loudness grows about as the square of what a slider shows.
      audio.volume = (Number(volume.value) / 100) ** 2;
      localStorage.setItem("volume", volume.value);
    };
    volume.addEventListener("input", set);
    set();
    button.addEventListener("click", () => this.toggle());
    for (const gesture of ["pointerdown", "keydown"] as const)
      addEventListener(gesture, (event) => event.target instanceof Node && this.start(event.target), { capture: true });
    this.show();
  }

  /** In a stream of its own: the picture does not wait for it. */
  take(track: MediaStreamTrack) {
    this.audio.srcObject = new MediaStream([track]);
    this.button.hidden = false;
    this.play();
  }

  private start(target: Node) {
    // The button says itself what is wanted.
    if (!this.button.contains(target) && this.audio.srcObject && this.audio.paused) this.play();
  }

  private toggle() {
    // It was wanted, and the browser did not let it be heard.
    this.wanted = !(this.wanted && !this.audio.paused);
    localStorage.setItem("sound", this.wanted ? "on" : "off");
    this.play();
  }

  private play() {
    this.audio.muted = !this.wanted;
    void this.audio.play().then(
      () => this.show(),
      () => this.show(),
    );
  }

  private show() {
    this.button.setAttribute("aria-pressed", String(this.wanted && !this.audio.paused));
  }
}
