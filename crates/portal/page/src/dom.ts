// DOM helpers.

/** The element with this id, which must exist. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

/** A new element with a class and content. Strings become text nodes. */
export function make<K extends keyof HTMLElementTagNameMap>(
  kind: K,
  name = "",
  ...content: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(kind);
  if (name) made.className = name;
  made.append(...content);
  return made;
}

/** A button that is disabled while its action runs. */
export function button(text: string, act: () => Promise<void>, name = ""): HTMLButtonElement {
  const made = make("button", name, text);
  made.type = "button";
  made.addEventListener("click", () => {
    made.disabled = true;
    void attempt(act).finally(() => (made.disabled = false));
  });
  return made;
}

/** Runs an action and shows its error. */
export async function attempt(act: () => Promise<void>): Promise<void> {
  try {
    await act();
    problem("");
  } catch (why) {
    problem(why instanceof Error ? why.message : String(why));
  }
}

/** Shows an error line; an empty text hides it. */
export function problem(text: string): void {
  const line = byId("problem");
  line.textContent = text;
  line.hidden = text === "";
}

/** A time in the user's locale. */
export function when(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** An approximate duration. */
export function span(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes < 1) return `${Math.max(0, Math.round(seconds))} s`;
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
