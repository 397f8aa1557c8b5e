// The applications.

import { request, Refusal, type Application } from "./api";
import { byId, button, make } from "./dom";

/** Shows the applications. */
export async function showApplications(): Promise<void> {
  const all = await request<Application[]>("GET", "/api/applications");
  byId("nothing").hidden = all.length > 0;
  byId("applications").replaceChildren(...all.map(tile));
}

function tile(of: Application): HTMLElement {
  const start = button("Start", () => startSession(of), "main");
  start.dataset["start"] = of.name;
  start.setAttribute("aria-label", `Start ${of.title}`);
  const text = make("div", "text", make("h3", "", of.title), make("p", "", of.description));
  return make("li", "", picture(of), text, start);
}

function picture(of: Application): HTMLElement {
  const letter = make("div", "picture", of.title.slice(0, 1).toUpperCase());
  if (of.picture === null) return letter;
  const image = make("img", "picture");
  image.src = of.picture;
  image.alt = "";
  image.loading = "lazy";
  // Icons are square, and shown without cropping.
  image.addEventListener("load", () => image.classList.toggle("icon", image.naturalWidth === image.naturalHeight));
  // The portal detects pictures by their first bytes, so decoding may fail.
  image.addEventListener("error", () => image.replaceWith(letter));
  return image;
}

/** Starts a session with an id chosen here: a retry after a lost response starts nothing twice. */
async function startSession(of: Application): Promise<void> {
  let id = uuid();
  for (let attempts = 1; ; attempts++) {
    try {
      await request("PUT", `/api/sessions/${id}`, { application: of.name });
      byId("own-title").scrollIntoView({ block: "nearest" });
      return;
    } catch (why) {
      const status = why instanceof Refusal ? why.status : undefined;
      // 410 (Gone): the portal was restarted before it launched the session.
      if (status === 410) id = uuid();
      else if (status !== 0) throw why;
      if (attempts === 5) throw why;
      await new Promise((wake) => setTimeout(wake, 500 * attempts));
    }
  }
}

/** A UUID of version 4. `crypto.randomUUID` needs HTTPS. */
function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
