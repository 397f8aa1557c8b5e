// Buttons of the menu for key combinations that the browser or the system intercepts, or that an on-screen keyboard
// lacks.

/** A button's label, and its keys by KeyboardEvent.code. */
const CHORDS: [string, string][] = [
  ["Ctrl+Alt+Del", "ControlLeft AltLeft Delete"],
  ["Alt+Tab", "AltLeft Tab"],
  ["Alt+F4", "AltLeft F4"],
  ["Ctrl+W", "ControlLeft KeyW"],
  ["Ctrl+T", "ControlLeft KeyT"],
  ["Ctrl+C", "ControlLeft KeyC"],
  ["Super", "MetaLeft"],
  ["Esc", "Escape"],
  ["Tab", "Tab"],
  ["F5", "F5"],
  ["F11", "F11"],
  ["Print", "PrintScreen"],
];

/** Adds a button for each combination to `into`. */
export function offerChords(into: HTMLElement, send: (keys: string[]) => void) {
  for (const [words, keys] of CHORDS) {
    const button = document.createElement("button");
    button.textContent = words;
    button.dataset.keys = keys;
    button.addEventListener("click", () => send(keys.split(" ")));
    into.append(button);
  }
}
