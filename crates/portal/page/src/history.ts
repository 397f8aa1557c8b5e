// The user's past sessions.

import { request, type Past } from "./api";
import { byId, make, span, when } from "./dom";

/** Loads and shows the past sessions. */
export async function showHistory(): Promise<void> {
  const past = await request<Past[]>("GET", "/api/history");
  byId("past").replaceChildren(...past.map(line));
}

function line(of: Past): HTMLElement {
  const parts = [when(of.launched)];
  if (of.ended === null) parts.push("not ended yet");
  else parts.push(`for ${span(of.ended - of.launched)}`);
  if (of.server) parts.push(`on ${of.server}`);
  if (of.why) parts.push(of.why);
  return make("li", "", make("div", "what", make("strong", "", of.title), make("span", "", parts.join(" · "))));
}
