// Tabs as in the ARIA Authoring Practices: Tab reaches one of them; arrow keys, Home and End select another.

export class Tabs {
  private readonly tabs: HTMLElement[];

  constructor(
    list: HTMLElement,
    private readonly shown: (panel: HTMLElement) => void,
  ) {
    this.tabs = [...list.querySelectorAll<HTMLElement>("[role=tab]")];
    for (const tab of this.tabs) tab.addEventListener("click", () => this.select(tab));
    list.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent) {
    const [now, last] = [this.tabs.indexOf(event.target as HTMLElement), this.tabs.length - 1];
    const places: Record<string, number> = {
      ArrowRight: now === last ? 0 : now + 1,
      ArrowLeft: now === 0 ? last : now - 1,
      Home: 0,
      End: last,
    };
    const next = this.tabs[places[event.key] ?? -1];
    if (now < 0 || !next) return;
    event.preventDefault();
    this.select(next, false);
    next.focus();
  }

  /** Shows a tab's panel. With arrow keys, the focus stays on the tab. */
  private select(tab: HTMLElement, entered = true) {
    for (const other of this.tabs) {
      const panel = document.getElementById(other.getAttribute("aria-controls")!)!;
      panel.hidden = other !== tab;
      other.setAttribute("aria-selected", String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
      if (other === tab && entered) this.shown(panel);
    }
  }
}
