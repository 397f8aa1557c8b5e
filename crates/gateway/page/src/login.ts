// This browser's key pair: generated here, stored by the browser, not extractable.

const STORE = "keys";
const ENTRY = "device";
/** As in crates/gateway/src/login.rs. */
const PURPOSE = "openuvr browser log-in 1";

/** `later`: retry, with the reason; `over`: permanent failure, with the heading `title`. */
export type LogIn = { device: string } | { refused: string } | { later: string } | { over: string; title: string };

function database(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open("openuvr", 1);
    open.onupgradeneeded = () => open.result.createObjectStore(STORE);
    open.onsuccess = () => resolve(open.result);
    open.onerror = () => reject(open.error);
  });
}

function request<T>(asked: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

async function deviceKey(): Promise<CryptoKeyPair> {
  const db = await database();
  const stored = await request(db.transaction(STORE).objectStore(STORE).get(ENTRY));
  if (stored) return stored as CryptoKeyPair;
  const made = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
  const store = db.transaction(STORE, "readwrite").objectStore(STORE);
  // If two tabs start at the same time, the first key wins.
  await request(store.add(made, ENTRY)).catch(() => undefined);
  return (await request(db.transaction(STORE).objectStore(STORE).get(ENTRY))) as CryptoKeyPair;
}

function hex(bytes: ArrayBuffer): string {
  return [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function post(path: string, body: string): Promise<Response> {
  return fetch(path, { method: "POST", body, headers: { "content-type": "application/json" } });
}

/** Name of the host. */
export let host = "this host";

/** A portal's ticket from the URL's fragment, which is never sent to a server; empty after use. */
let ticket = new URLSearchParams(location.hash.slice(1)).get("ticket") ?? "";
// Removes the ticket from the history and the address bar.
if (ticket !== "") history.replaceState(null, "", location.pathname + location.search);

/** Whether there is an unused ticket. */
export function hasTicket(): boolean {
  return ticket !== "";
}

/** Authenticates to the host; a new browser needs a PIN or a ticket. */
export async function logIn(name: string, pin: string): Promise<LogIn> {
  const key = await deviceKey();
  const asked = await post("login/challenge", "");
  if (!asked.ok) return { refused: await asked.text() };
  const { challenge, host: called } = await asked.json();
  host = called;
  const signed = new TextEncoder().encode(`${PURPOSE}\n${location.origin}\n${challenge}`);
  const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key.privateKey, signed);
  const publicKey = await crypto.subtle.exportKey("raw", key.publicKey);
  const body = { key: hex(publicKey), signature: hex(signature), challenge, name, pin, ticket: pin ? "" : ticket };
  const answer = await post("login", JSON.stringify(body));
  const type = answer.headers.get("content-type") ?? "";
  // The host knows this browser's key from now on.
  if (answer.ok) ticket = "";
  if (type.startsWith("application/json")) return (await answer.json()) as LogIn;
  return { refused: await answer.text() };
}

/** Default name of this browser. */
export function usualName(): string {
  const agent = navigator.userAgent;
  const found = ["Firefox", "Edg", "Chrome", "Safari"].find((word) => agent.includes(word));
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac", "Linux"].find((w) => agent.includes(w));
  return [found === "Edg" ? "Edge" : found, system && `on ${system}`].filter(Boolean).join(" ") || "browser";
}
