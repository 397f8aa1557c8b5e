// Sound output, with volume and mute. Autoplay policies require user activation: the first click or key press starts
// it.

export class Sound {
  /** Whether sound is enabled by the user. */
  private wanted = localStorage.getItem("sound") !== "off";

  constructor(
    private readonly audio: HTMLAudioElement,
    private readonly button: HTMLElement,
    volume: HTMLInputElement,
  ) {
    volume.value = localStorage.getItem("volume") ?? "100";
    const set = () => {
      // The square makes the perceived loudness roughly proportional to the slider's position.
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

  /** A separate stream, so that video does not wait for audio. */
  take(track: MediaStreamTrack) {
    this.audio.srcObject = new MediaStream([track]);
    this.button.hidden = false;
    this.play();
  }

  private start(target: Node) {
    // The button itself toggles the setting.
    if (!this.button.contains(target) && this.audio.srcObject && this.audio.paused) this.play();
  }

  private toggle() {
    // If the sound is enabled but blocked by the autoplay policy, it stays enabled.
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
