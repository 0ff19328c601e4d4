// The list of sessions, and searching in all that was said.

import { get } from "./api.js";
import { h, iconButton, refill, toast } from "./dom.js";

const DAY = 86_400_000;
/** How many are read at once. */
const PAGE = 200;

/** When, as a person would say it. */
export function when(ms) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - ms) / DAY);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  return new Date(ms).toLocaleDateString(undefined, { month: "long", year: "numeric" });
}

export class Sessions {
  constructor({ open, begin, remove }) {
    this.open = open;
    this.remove = remove;
    this.rows = [];
    /** Whether the conversations of programs are listed, and whether there are any. */
    this.clients = false;
    this.some = false;
    this.more = false;
    this.current = null;
    this.list = h("div.session-list");
    this.search = h("input", { type: "search", placeholder: "Search what was said", "aria-label": "Search what was said", oninput: () => this.look() });
    this.node = h("nav.side", { "aria-label": "Sessions" },
      h("div.side-head", {}, h("span.brand", {}, h("img", { src: "/icon.svg", alt: "" }), "Foreword"),
        iconButton("plus", "New session (Alt+N)", begin)),
      h("div.side-search", {}, this.search), this.list,
      h("div.side-foot", {}, h("a", { href: "/api.html" }, "API"), h("span", {}, "·"), h("kbd", {}, "Ctrl K"), " search ", h("kbd", {}, "Alt N"), " new"));
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  find(id) {
    return this.rows.find((row) => row.id === id);
  }

  mark(id) {
    this.current = id;
    for (const node of this.list.querySelectorAll("[data-id]")) {
      if (node.dataset.id === id) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
    }
  }

  async load() {
    try {
      // What programs say through the gateway is not to crowd out what a person said.
      const [rows, some] = await Promise.all([get(`/sessions?client=${this.clients}&limit=${PAGE}`), get("/sessions?client=true&limit=1")]);
      [this.rows, this.more, this.some] = [rows, rows.length === PAGE, some.length > 0];
    } catch (problem) {
      toast(problem.message, "error");
    }
    if (!this.search.value.trim()) this.draw();
  }

  async earlier() {
    const last = this.rows.at(-1);
    try {
      const rows = await get(`/sessions?client=${this.clients}&limit=${PAGE}&before=${last.touched_ms}-${last.id}`);
      [this.rows, this.more] = [[...this.rows, ...rows], rows.length === PAGE];
      this.draw();
    } catch (problem) {
      toast(problem.message, "error");
    }
  }

  draw() {
    const groups = Map.groupBy(this.rows, (row) => when(row.touched_ms));
    const nodes = [...groups].map(([name, rows]) => [h("h2", {}, name), h("div", { role: "list", "aria-label": name }, rows.map((row) => this.row(row)))]);
    const kinds = this.some && h("div.kinds", { role: "group", "aria-label": "Which sessions" }, [[false, "Yours"], [true, "Programs"]].map(([clients, name]) =>
      h("button", { type: "button", "aria-pressed": String(this.clients === clients), onclick: () => { this.clients = clients; this.load(); } }, name)));
    const empty = h("p.empty", {}, this.clients ? "No program has asked anything yet." : "Nothing was said yet. Ask something; it is kept in your vault.");
    const more = this.more && h("button.earlier", { type: "button", onclick: () => this.earlier() }, "Show earlier ones");
    refill(this.list, kinds, this.rows.length ? nodes : empty, more);
    this.mark(this.current);
  }

  row(row) {
    const title = row.title || "New session";
    return h("div.session", { role: "listitem", dataset: { id: row.id } },
      h("button.session-open", { type: "button", onclick: () => this.open(row.id) },
        h("span.session-title", {}, title), row.forked_from && h("span.session-from", {}, "fork")),
      iconButton("trash", `Delete ${title}`, () => this.remove(row.id, title)));
  }

  async look() {
    const words = this.search.value.trim();
    if (!words) return this.draw();
    try {
      const found = await get(`/search?q=${encodeURIComponent(words)}`);
      if (this.search.value.trim() !== words) return;
      refill(this.list, found.length ? h("div", { role: "list", "aria-label": "Found" }, found.map((hit) => h("div.session", { role: "listitem" },
        h("button.session-open.hit", { type: "button", onclick: () => this.open(hit.session, hit.turn) },
          h("span.session-title", {}, hit.title || hit.session), h("span.snippet", {}, hit.text))))) : h("p.empty", {}, "Nothing holds all these words."));
    } catch (problem) {
      toast(problem.message, "error");
    }
  }
}
