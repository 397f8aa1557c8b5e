// The operator's view: servers, all sessions, accounts.

import { request, type Load, type MadeUser, type OperatorSession, type Server, type User } from "./api";
import { attempt, button, byId, make } from "./dom";
import { figures } from "./figures";
import { lines } from "./sessions";

/** Loads and shows everything. */
export async function showOperator(): Promise<void> {
  const [load, sessions, users] = await Promise.all([
    request<Load>("GET", "/api/operator/servers"),
    request<OperatorSession[]>("GET", "/api/operator/sessions"),
    request<User[]>("GET", "/api/operator/users"),
  ]);
  const wrong = [load.trouble, ...load.problems.map((of) => `skipped: ${of}`)].filter((of) => of !== null);
  byId("trouble").textContent = wrong.join(" · ");
  byId("trouble").hidden = wrong.length === 0;
  byId("servers").replaceChildren(...load.servers.map(server));
  byId("all-sessions").replaceChildren(...lines(sessions, true, figures));
  draining = load.draining;
  byId("drain").textContent = draining ? "Accept new sessions" : "Refuse new sessions";
  // Do not overwrite a field that is being edited.
  if (!byId("accounts").contains(document.activeElement)) byId("accounts").replaceChildren(...users.map(account));
}

let draining = false;

/** Sets up the static buttons and forms. */
export function prepareOperator(): void {
  byId("drain").addEventListener("click", () => {
    void attempt(async () => {
      await request("PUT", "/api/operator/draining", { draining: !draining });
      await showOperator();
    });
  });
  byId<HTMLFormElement>("add").addEventListener("submit", (event) => {
    event.preventDefault();
    const [name, most] = [byId<HTMLInputElement>("add-name"), byId<HTMLInputElement>("add-sessions")];
    void attempt(async () => {
      const new_ = { name: name.value.trim(), operator: false, sessions: number(most.value) };
      const made = await request<MadeUser>("POST", "/api/operator/users", new_);
      byId("made").textContent = `${made.name} can log in with the password ${made.password}. It is shown only once.`;
      byId("made").hidden = false;
      name.value = most.value = "";
      await showOperator();
    });
  });
}

/** Clears data that only the logged-in operator may see. */
export function forgetOperator(): void {
  byId("made").textContent = "";
  byId("made").hidden = true;
}

function number(text: string): number | null {
  return text === "" ? null : Number(text);
}

/** Line of an account, with its session limit and a button that enables or disables it. */
function account(of: User): HTMLElement {
  const set = async (change: Partial<User>) => {
    const { operator, sessions, disabled } = { ...of, ...change };
    await request("PUT", `/api/operator/users/${of.name}`, { operator, sessions, disabled });
    (document.activeElement as HTMLElement | null)?.blur();
    await showOperator();
  };
  const most = make("input");
  most.type = "number";
  most.min = "0";
  most.max = "1000";
  most.placeholder = "default";
  most.value = of.sessions === null ? "" : String(of.sessions);
  most.addEventListener("change", () => void attempt(() => set({ sessions: number(most.value) })));
  const words = [of.operator ? "operator" : "", of.disabled ? "disabled" : ""].filter((word) => word !== "");
  const what = make("div", "what", make("strong", "", of.name), make("span", "", words.join(" · ")));
  const toggle = button(of.disabled ? "Enable" : "Disable", () => set({ disabled: !of.disabled }));
  const line = make("li", "", what, make("label", "inline", "Session limit ", most), toggle);
  line.dataset["account"] = of.name;
  return line;
}

function server(of: Server): HTMLElement {
  const parts = [`${of.sessions} of ${of.places ?? "?"} sessions`];
  if (of.gpus > 0) parts.push(`${of.gpus_used} of ${of.gpus} GPUs`);
  if (of.load !== null) parts.push(`load ${of.load.toFixed(2)} on ${of.processors ?? "?"} processors`);
  if (of.trouble !== null) parts.push(of.trouble);
  return make("li", "", make("div", "what", make("strong", "", of.name), make("span", "", parts.join(" · "))));
}
