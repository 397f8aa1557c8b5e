// What operators see: servers, everybody's sessions, accounts.

import { ask, type Load, type OperatorSession, type Server, type User } from "./api";
import { byId, make } from "./dom";
import { figures } from "./figures";
import { lines } from "./sessions";

/** Asks for everything and shows it. */
export async function showOperator(): Promise<void> {
  const [load, sessions, users] = await Promise.all([
    ask<Load>("GET", "/api/operator/servers"),
    ask<OperatorSession[]>("GET", "/api/operator/sessions"),
    ask<User[]>("GET", "/api/operator/users"),
  ]);
  const wrong = [load.trouble, ...load.problems.map((of) => `left out: ${of}`)].filter((of) => of !== null);
  byId("trouble").textContent = wrong.join(" · ");
  byId("trouble").hidden = wrong.length === 0;
  byId("servers").replaceChildren(...load.servers.map(server));
  byId("everybody").replaceChildren(...lines(sessions, true, figures));
  const names = users.map((of) => of.name + (of.operator ? " (operator)" : ""));
  byId("accounts").textContent = names.join(", ");
}

function server(of: Server): HTMLElement {
  const parts = [`${of.sessions} of ${of.places ?? "?"} places`];
  if (of.gpus > 0) parts.push(`${of.gpus_used} of ${of.gpus} GPUs`);
  if (of.load !== null) parts.push(`load ${of.load.toFixed(2)} on ${of.processors ?? "?"} processors`);
  if (of.trouble !== null) parts.push(of.trouble);
  return make("li", "", make("div", "what", make("strong", "", of.name), make("span", "", parts.join(" · "))));
}
