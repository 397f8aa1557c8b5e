// A portal that serves this page at /play/SESSION/, if one does: its log-in is the only one, and it carries the signalling.

import type { LogIn } from "./login";

/** Where the portal is, from this page. */
const HOME = "../../";

/** What the portal's REST interface says of the session. */
interface Play {
  title: string;
  watches: boolean;
  ice_servers: RTCIceServer[];
}

export const isPortal = document.documentElement.dataset["portal"] !== undefined;

/** What the browser asks for ways to the session. */
export let iceServers: RTCIceServer[] = [];

/** What the session is called. */
export let title = "this session";

/** Asks the portal whether the session may be played now. Who has not logged in goes there. */
export async function enter(): Promise<LogIn> {
  const session = location.pathname.split("/").at(-2) ?? "";
  const answer = await fetch(`${HOME}api/sessions/${session}/play`);
  if (answer.status === 401) {
    location.replace(HOME);
    return { later: "log in at the portal" };
  }
  const said: unknown = await answer.json().catch(() => null);
  if (!answer.ok) {
    const why = (said as { error?: string } | null)?.error ?? `the portal answers ${answer.status}`;
    // A session that is not there, or not any more, does not come back.
    if (answer.status === 404) return { over: why, title: "Nothing to play" };
    return answer.status === 410 ? { over: why, title: "The session is over" } : { later: why };
  }
  const play = said as Play;
  ({ title, ice_servers: iceServers } = play);
  return { device: play.title };
}

/** Shows the way back; `leave` is called when this page is left by it. */
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
