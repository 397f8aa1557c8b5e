// The portal's REST interface; its description is at /api/openapi.json.

export type State = "queued" | "starting" | "running" | "ended" | "lost";

export interface Me {
  name: string;
  operator: boolean;
  password: boolean;
  csrf: string;
}

export interface LoginMethods {
  provider: string | null;
}

export interface ProviderRedirect {
  url: string;
}

export interface Application {
  name: string;
  title: string;
  description: string;
  picture: string | null;
  capture: string;
  size: string | null;
  gpus: number;
  saves: boolean;
}

export interface Session {
  id: string;
  application: string;
  title: string;
  user: string;
  own: boolean;
  state: State;
  why: string | null;
  code: number | null;
  server: string | null;
  engine_ref: string | null;
  launched: number | null;
  shared: boolean;
}

/** Subscribers of one kind and role in a session. Times are in seconds. */
export interface Subscribers {
  kind: string;
  role: string;
  count: number;
  frames_per_second: number | null;
  latency_p50: number | null;
  latency_p99: number | null;
  latency_bound: number | null;
}

export interface OperatorSession extends Session {
  subscribers: Subscribers[] | null;
}

export interface Past {
  id: string;
  title: string;
  launched: number;
  ended: number | null;
  server: string | null;
  code: number | null;
  why: string | null;
}

/** The end of a session's log. */
export interface Log {
  text: string;
}

export interface Ticket {
  native: string | null;
  ticket: string;
  not_after: number;
}

export interface Server {
  name: string;
  trouble: string | null;
  sessions: number;
  places: number | null;
  gpus_used: number;
  gpus: number;
  load: number | null;
  processors: number | null;
}

export interface Load {
  launcher: string;
  servers: Server[];
  trouble: string | null;
  problems: string[];
  draining: boolean;
}

export interface User {
  name: string;
  operator: boolean;
  sessions: number | null;
  disabled: boolean;
}

export interface MadeUser {
  name: string;
  password: string;
}

/** An error response, or no response: then the status is 0. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    why: string,
  ) {
    super(why);
  }
}

let csrf = "";

/** Sets the CSRF token of subsequent requests. */
export function setCsrf(me: Me): void {
  csrf = me.csrf;
}

/** Sends a request; throws a `Refusal`. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: {
        ...(method === "GET" ? {} : { "x-openuvr-csrf": csrf }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new Refusal(0, "The portal does not respond. Running sessions continue. Reconnecting…");
  }
  const text = await response.text();
  let value: unknown;
  try {
    value = text === "" ? undefined : JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (!response.ok) {
    const said = (value as { error?: string } | undefined)?.error;
    throw new Refusal(response.status, said ?? `Unexpected HTTP status ${response.status}.`);
  }
  return value as T;
}
