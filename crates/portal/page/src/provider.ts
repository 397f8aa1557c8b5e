// Log-in through an OpenID Connect provider.

import { request, type ProviderRedirect, type LoginMethods } from "./api";
import { attempt, byId, problem } from "./dom";

/** Messages for the reasons after `#login=` in the URL of a failed log-in. */
const FAILURES: Record<string, string> = {
  state: "This log-in was not started in this browser, or it has expired. Try again.",
  denied: "The log-in was cancelled.",
  provider: "The log-in provider does not respond. Try again later, or log in with name and password.",
  token: "The log-in provider sent an invalid response. Try again, or contact the operator.",
  group: "You are not allowed to log in here. Contact the operator.",
  account: "You have no account here. Ask the operator for one.",
  name: "Your account could not be created: its name is in use or not valid. Contact the operator.",
  database: "The portal's database does not respond. Try again, or contact the operator.",
};

/** Shows the button, if a provider is configured. */
export async function showProvider(): Promise<void> {
  const { provider } = await request<LoginMethods>("GET", "/api/login");
  byId("provider").hidden = provider === null;
  byId("provider").textContent = `Log in with ${provider ?? ""}`;
}

/** Shows why a log-in failed, once. */
export function showFailure(): void {
  const word = new URLSearchParams(location.hash.slice(1)).get("login");
  if (word === null) return;
  history.replaceState(null, "", location.pathname);
  // Only predefined messages are shown, because any site can link to this URL.
  const said = Object.hasOwn(FAILURES, word) ? FAILURES[word] : undefined;
  if (said !== undefined) problem(said);
}

byId("provider").addEventListener("click", () => {
  void attempt(async () => {
    const { url } = await request<ProviderRedirect>("POST", "/api/oidc/login");
    location.href = url;
  });
});
