// The portal's page: log-in, applications, sessions.

import { showApplications } from "./applications";
import { request, setCsrf, Refusal, type ProviderRedirect, type Me, type Session } from "./api";
import { attempt, byId, problem } from "./dom";
import { showHistory } from "./history";
import { forgetOperator, prepareOperator, showOperator } from "./operator";
import { showProvider, showFailure } from "./provider";
import { lines, refreshStates } from "./sessions";

/** Poll interval in milliseconds, also for reconnecting. */
const POLL_INTERVAL = 2000;

type View = "play" | "history" | "operator" | "account";
const VIEWS: View[] = ["play", "history", "operator", "account"];

let events: EventSource | undefined;
let view: View = "play";
let sessions: Session[] = [];

async function enter(me: Me): Promise<void> {
  setCsrf(me);
  byId("login").hidden = true;
  document.querySelector("header")!.hidden = false;
  byId("user").textContent = me.name;
  byId("tab-operator").hidden = !me.operator;
  byId("change").hidden = !me.password;
  byId("no-password").hidden = me.password;
  byId<HTMLInputElement>("account-name").value = me.name;
  show("play");
  listen();
  await showApplications();
}

function leave(): void {
  events?.close();
  events = undefined;
  document.querySelector("header")!.hidden = true;
  for (const of of VIEWS) byId(of).hidden = true;
  forgetOperator();
  byId("login").hidden = false;
  byId("name").focus();
  void showProvider().catch(() => undefined);
}

function show(next: View): void {
  view = next;
  for (const of of VIEWS) {
    byId(of).hidden = of !== next;
    const tab = byId(`tab-${of}`);
    if (of === next) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (next === "history") void attempt(showHistory);
  if (next === "operator") void attempt(showOperator);
  if (next === "play") draw();
}

/** Subscribes to session events. The browser reconnects on its own, unless the log-in has ended. */
function listen(): void {
  events?.close();
  const source = new EventSource("/api/events");
  events = source;
  source.addEventListener("sessions", (event) => {
    sessions = JSON.parse((event as MessageEvent<string>).data) as Session[];
    problem("");
    draw();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => {
        if (events === source) void start();
      }, POLL_INTERVAL);
    } else {
      problem("The portal does not respond. Running sessions continue. Reconnecting…");
    }
  });
}

function draw(): void {
  const own = sessions.filter((of) => of.own);
  const shared = sessions.filter((of) => !of.own && of.state === "running");
  byId("own").replaceChildren(...lines(own, false));
  byId("own-title").hidden = own.length === 0;
  byId("shared").replaceChildren(...lines(shared, false));
  byId("shared-title").hidden = shared.length === 0;
}

/** Shows the page if the user is logged in, otherwise the log-in form. */
async function start(): Promise<void> {
  try {
    await enter(await request<Me>("GET", "/api/me"));
  } catch (why) {
    if (why instanceof Refusal && why.status === 401) {
      leave();
      showFailure();
      return;
    }
    problem(why instanceof Error ? why.message : String(why));
    setTimeout(() => void start(), POLL_INTERVAL);
  }
}

byId<HTMLFormElement>("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const password = byId<HTMLInputElement>("password");
  const name = byId<HTMLInputElement>("name").value.trim();
  void attempt(async () => {
    const me = await request<Me>("POST", "/api/login", { name, password: password.value });
    password.value = "";
    await enter(me);
  });
});

byId<HTMLFormElement>("change").addEventListener("submit", (event) => {
  event.preventDefault();
  const [old, fresh] = [byId<HTMLInputElement>("old"), byId<HTMLInputElement>("new")];
  void attempt(async () => {
    await request("PUT", "/api/password", { old: old.value, new: fresh.value });
    old.value = fresh.value = "";
    leave();
  });
});

byId("logout").addEventListener("click", () => {
  void attempt(async () => {
    const redirect = await request<ProviderRedirect | undefined>("POST", "/api/logout");
    leave();
    // The user is also logged out at the provider. Otherwise, the provider would log in the next user of this browser
    // at once.
    if (redirect) location.href = redirect.url;
  });
});

prepareOperator();
for (const of of VIEWS) byId(`tab-${of}`).addEventListener("click", () => show(of));

setInterval(() => {
  if (document.hidden || events === undefined) return;
  if (view === "operator") void attempt(showOperator);
  if (view === "play") {
    refreshStates(sessions, byId("play"));
    void showApplicationsIfChanged();
  }
}, POLL_INTERVAL);

let lastShown = 0;

/** The file of applications may change while the page is open; a delay of half a minute is acceptable. */
async function showApplicationsIfChanged(): Promise<void> {
  if (Date.now() - lastShown < 30_000) return;
  lastShown = Date.now();
  await showApplications().catch(() => undefined);
}

void start();
