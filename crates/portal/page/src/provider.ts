// Logging in by a provider of OpenID Connect.

import { request, type ProviderRedirect, type LoginMethods } from "./api";
import { attempt, byId, problem } from "./dom";

/** What the portal says after `#login=` of a log-in that came to nothing. */
const ENDED: Record<string, string> = {
  state: "That log-in was not begun in this browser, or took too long. Try again.",
  denied: "The log-in was cancelled.",
  provider: "The other place does not answer. Try again later, or log in with name and password.",
  token: "What the other place said of you could not be trusted. Try again, or tell the operator.",
  group: "You are known, and may not log in here. Ask the operator.",
  account: "You are known, and have no account here. Ask the operator for one.",
  name: "No account can be made for you: its name is another's already, or can't be one. Ask the operator.",
  database: "The portal's database does not answer. Try again, or tell the operator.",
};

/** Shows the button, if there is a provider. */
export async function showProvider(): Promise<void> {
  const { provider } = await request<LoginMethods>("GET", "/api/login");
  byId("provider").hidden = provider === null;
  byId("provider").textContent = `Log in with ${provider ?? ""}`;
}

/** Says why somebody who comes back is not logged in, once. */
export function tellEnded(): void {
  const word = new URLSearchParams(location.hash.slice(1)).get("login");
  if (word === null) return;
  history.replaceState(null, "", location.pathname);
  // Own words only: the address may be anybody's.
  const said = Object.hasOwn(ENDED, word) ? ENDED[word] : undefined;
  if (said !== undefined) problem(said);
}

byId("provider").addEventListener("click", () => {
  void attempt(async () => {
    const { url } = await request<ProviderRedirect>("POST", "/api/oidc/login");
    location.href = url;
  });
});
