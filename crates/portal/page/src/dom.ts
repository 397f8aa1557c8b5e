// Elements of the page.

/** The element with this id, which the page has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

/** A new element with a class and what is in it. Texts stay texts. */
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

/** A button that does something once at a time. */
export function button(text: string, act: () => Promise<void>, name = ""): HTMLButtonElement {
  const made = make("button", name, text);
  made.type = "button";
  made.addEventListener("click", () => {
    made.disabled = true;
    void attempt(act).finally(() => (made.disabled = false));
  });
  return made;
}

/** Does something; what goes wrong is shown. */
export async function attempt(act: () => Promise<void>): Promise<void> {
  try {
    await act();
    problem("");
  } catch (why) {
    problem(why instanceof Error ? why.message : String(why));
  }
}

/** Shows one line, or takes it away. */
export function problem(text: string): void {
  const line = byId("problem");
  line.textContent = text;
  line.hidden = text === "";
}

/** A time as people here write it. */
export function when(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** A span, roughly. */
export function span(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes < 1) return `${Math.max(0, Math.round(seconds))} s`;
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
