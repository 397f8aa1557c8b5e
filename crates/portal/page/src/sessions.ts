// The list of sessions: their states and actions.

import { request, type Log, type Session, type Ticket } from "./api";
import { button, make, span } from "./dom";

/** The shown logs by session id. They are stored here, because each update rebuilds the lists. */
const logs = new Map<string, string>();

/** State of a session, as text. */
export function state(of: Session): string {
  const why = of.why ?? "";
  switch (of.state) {
    case "queued":
      return `queued: ${why}`;
    case "starting":
      return "starting";
    case "running":
      return `running${of.server ? ` on ${of.server}` : ""}${since(of)}`;
    case "ended":
      return `ended: ${why}`;
    case "lost":
      return `lost: ${why}. You can start a new session.`;
  }
}

function since(of: Session): string {
  return of.launched === null ? "" : ` for ${span(Date.now() / 1000 - of.launched)}`;
}

/**
 * Lines of a list for these sessions. `all`: for an operator, with owners and a stop button for each. `more`:
 * additional content of a line.
 */
export function lines<S extends Session>(sessions: S[], all: boolean, more?: (of: S) => HTMLElement | undefined): HTMLElement[] {
  return sessions.map((of) => {
    const owner = all || !of.own ? ` (${of.user})` : "";
    const what = make("div", "what", make("strong", "", of.title + owner), make("span", "state", state(of)));
    if (all && of.engine_ref) what.append(make("span", "", ` · ${of.engine_ref}`));
    const said = more?.(of);
    if (said) what.append(said);
    const line = make("li", "", what, buttons(of, all));
    const log = logs.get(of.id);
    if (log !== undefined) line.append(make("pre", "log", log));
    line.dataset["state"] = of.state;
    line.dataset["id"] = of.id;
    return line;
  });
}

/**
 * Updates the texts of the shown states, which contain times. The lines themselves stay: a button may have the focus.
 */
export function refreshStates(sessions: Session[], list: HTMLElement): void {
  for (const of of sessions) {
    const shown = list.querySelector(`[data-id="${of.id}"] .state`);
    if (shown) shown.textContent = state(of);
  }
}

function buttons(of: Session, all: boolean): HTMLElement {
  const row = make("div", "buttons");
  if (of.state === "running" && (of.own || of.shared || all)) {
    const word = of.own ? "Play" : "Watch";
    row.append(button(word, async () => open(of), "main"));
    row.append(button("Native client", () => native(of, row)));
  }
  if (of.own && of.state !== "ended" && of.state !== "lost") {
    const share = button(of.shared ? "Stop sharing" : "Share", () =>
      request("PUT", `/api/sessions/${of.id}/shared`, { shared: !of.shared }),
    );
    share.title = "All users of this portal can watch";
    row.append(share);
  }
  if (of.own || all) {
    const over = of.state === "ended" || of.state === "lost";
    if (over) row.append(button(logs.has(of.id) ? "Hide log" : "Log", () => log(of, row)));
    row.append(button(over ? "Dismiss" : "Stop", () => request("DELETE", `/api/sessions/${of.id}`)));
  }
  return row;
}

/** Opens the page that plays the session. It is on the portal's origin. */
function open(of: Session): void {
  const address = `/play/${of.id}/`;
  if (!window.open(address, `openuvr-${of.id}`)) window.location.href = address;
}

/** Shows the end of a session's log, or hides it. */
async function log(of: Session, row: HTMLElement): Promise<void> {
  const [line, shown] = [row.closest("li"), row.closest("li")?.querySelector(".log")];
  const pressed = [...row.querySelectorAll("button")].find((of) => of.textContent?.endsWith("og"));
  if (logs.delete(of.id)) {
    shown?.remove();
    if (pressed) pressed.textContent = "Log";
    return;
  }
  const { text } = await request<Log>("GET", `/api/sessions/${of.id}/log`);
  const words = text.trimEnd() || "No log output, or this server keeps no logs.";
  logs.set(of.id, words);
  line?.append(make("pre", "log", words));
  if (pressed) pressed.textContent = "Hide log";
}

/**
 * Replaces the pressed button with a link that opens the native client, until the link is clicked. The other buttons
 * stay in place, so that a second click cannot stop the session.
 */
async function native(of: Session, row: HTMLElement): Promise<void> {
  const pressed = [...row.querySelectorAll("button")].find((one) => one.textContent === "Native client");
  const ticket = await request<Ticket>("POST", `/api/sessions/${of.id}/ticket`, { watch: !of.own });
  if (ticket.native === null) throw new Error("This session supports browsers only.");
  const link = make("a", "button main", "Open in OpenUVR");
  link.href = ticket.native;
  if (pressed) link.addEventListener("click", () => setTimeout(() => link.replaceWith(pressed)));
  pressed?.replaceWith(link);
}
