// Integration with a portal that serves this page at /play/SESSION/: the portal's log-in applies,
// and the portal carries the signalling.

import type { LogIn } from "./login";

/** The portal's URL, relative to this page. */
const HOME = "../../";

/** The portal's data about the session. */
interface Play {
  title: string;
  watches: boolean;
  ice_servers: RTCIceServer[];
}

export const isPortal = document.documentElement.dataset["portal"] !== undefined;

/** ICE servers for the browser. */
export let iceServers: RTCIceServer[] = [];

/** Title of the session. */
export let title = "this session";

/** Asks the portal whether the session can be played. Redirects to the log-in if necessary. */
export async function enter(): Promise<LogIn> {
  const session = location.pathname.split("/").at(-2) ?? "";
  const answer = await fetch(`${HOME}api/sessions/${session}/play`);
  if (answer.status === 401) {
    location.replace(HOME);
    return { later: "log in at the portal" };
  }
  const said: unknown = await answer.json().catch(() => null);
  if (!answer.ok) {
    const why = (said as { error?: string } | null)?.error ?? `unexpected HTTP status ${answer.status}`;
    // A missing or ended session does not come back.
    if (answer.status === 404) return { over: why, title: "Session not found" };
    return answer.status === 410 ? { over: why, title: "Session ended" } : { later: why };
  }
  const play = said as Play;
  ({ title, ice_servers: iceServers } = play);
  return { device: play.title };
}

/** Shows the link back; `leave` is called when it is followed in this tab. */
export function showWayBack(header: Element, leave: () => void): void {
  const link = document.createElement("a");
  link.id = "back";
  link.href = HOME;
  link.textContent = "All sessions";
  link.addEventListener("click", (event) => {
    const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
    if (!elsewhere) leave();
  });
  header.prepend(link);
}
