// Pairing of a client that shows a PIN, such as Moonlight's: the player enters it here.

/** State of the service for clients that show a PIN. */
export interface PairingNews {
  service: string;
  /** The host's address; null: the page's. */
  address: string | null;
  port: number;
  /** The client that waits for its PIN, by its address. */
  client: string | null;
}

function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

export class Pairing {
  private readonly form = byId<HTMLFormElement>("pairing");
  private readonly pin = byId<HTMLInputElement>("pairing-pin");
  private readonly name = byId<HTMLInputElement>("pairing-name");
  private readonly refused = byId("pairing-refused");
  private service = "";
  /** The client whose PIN the form asks for. */
  private client: string | null = null;
  /** Whether the host is trying a PIN. The client then no longer waits for a PIN. */
  private trying = false;

  constructor(
    send: (message: object) => void,
    private readonly done: (words: string) => void,
    /** Gives the keyboard back to the picture. */
    private readonly leave: () => void,
  ) {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.trying = true;
      this.refused.textContent = "Waiting for the client…";
      const name = this.name.value.trim();
      const pin = this.pin.value.replace(/\s/g, "");
      send({ type: "pair", pin, ...(name === "" ? {} : { name }) });
      this.pin.value = "";
    });
    byId("pairing-ignore").addEventListener("click", () => this.hide());
  }

  /** The service is available. `client`: the client that waits for its PIN, if any. */
  news({ service, address, port, client }: PairingNews) {
    this.service = service;
    const host = address ?? location.hostname.replace(/^\[|\]$/g, "");
    byId("service").hidden = false;
    byId("menu-service").textContent = `${service} clients`;
    byId("service-address").textContent = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    if (client === this.client) return;
    this.client = client;
    if (client === null) {
      if (!this.trying) this.over();
      return;
    }
    this.refused.textContent = "";
    byId("pairing-client").textContent = `A ${service} client at ${client} wants to pair.`;
    this.form.hidden = false;
  }

  /** The outcome of a PIN. */
  outcome(paired: boolean, words: string) {
    this.trying = false;
    this.refused.textContent = paired ? "" : words;
    if (paired) {
      this.hide();
      this.done(words);
    } else if (this.client === null) this.over();
  }

  /** The connection has ended, or this page only watches. */
  forget() {
    this.client = null;
    this.trying = false;
    this.hide();
    byId("service").hidden = true;
  }

  /** No client waits any more. The form is hidden, so the status line shows the reason of a refusal. */
  private over() {
    const refusal = this.refused.textContent ?? "";
    this.hide();
    if (refusal !== "") this.done(`${this.service}: ${refusal}`);
  }

  private hide() {
    const focused = this.form.contains(document.activeElement);
    this.form.hidden = true;
    this.refused.textContent = "";
    this.pin.value = "";
    if (focused) this.leave();
  }
}
