// The list of sessions, and searching in their titles and messages.

import { get } from "./api.js";
import { showClient } from "./clients.js";
import { announce, h, iconButton, refill, toast } from "./dom.js";

const DAY = 86_400_000;
/** How many are read at once. */
const PAGE = 200;

/** A relative date. */
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
    this.list = h("div.session-list", { onkeydown: (event) => this.arrows(event) });
    this.search = h("input", { type: "search", placeholder: "Search conversations", "aria-label": "Search conversations", oninput: () => this.look(), onkeydown: (event) => this.arrows(event) });
    this.node = h("nav.side", { "aria-label": "Sessions" },
      h("div.side-head", {}, h("span.brand", {}, h("img", { src: "/icon.svg", alt: "" }), "Foreword"),
        iconButton("plus", "New session (Alt+N)", begin)),
      h("div.side-search", {}, this.search), this.list,
      h("div.side-foot", {}, h("a", { href: "/api.html" }, "API"), h("span.keys", {}, " · ", h("kbd", {}, "Ctrl K"), " search ", h("kbd", {}, "Alt N"), " new")));
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
      const [rows, some, passed] = await Promise.all([get(`/sessions?client=${this.clients}&limit=${PAGE}`), get("/sessions?client=true&limit=1"), get("/clients")]);
      [this.rows, this.more, this.some] = [rows, rows.length === PAGE, some.length + passed.length > 0];
      // Side calls are looked at from the conversation that they belong to.
      if (this.clients) this.rows = [...rows, ...passed.filter((row) => !row.parent).slice(0, PAGE)].sort((a, b) => b.touched_ms - a.touched_ms);
    } catch (problem) {
      toast(problem.message, "error");
    }
    if (!this.search.value.trim()) this.draw();
  }

  async earlier() {
    const last = this.rows.findLast((row) => !row.level);
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
    const kinds = this.some && h("div.kinds", { role: "group", "aria-label": "Filter sessions" }, [[false, "Yours"], [true, "Programs"]].map(([clients, name]) =>
      h("button", { type: "button", "aria-pressed": String(this.clients === clients), onclick: () => { this.clients = clients; this.load(); } }, name)));
    const empty = h("p.empty", {}, this.clients ? "No gateway client has sent a request yet." : "No conversations yet. They are saved in your vault.");
    const more = this.more && h("button.earlier", { type: "button", onclick: () => this.earlier() }, "Show earlier sessions");
    refill(this.list, kinds, this.rows.length ? nodes : empty, more);
    this.mark(this.current);
  }

  row(row) {
    if (row.level) return this.passed(row);
    const title = row.title || "New session";
    const remove = () => this.remove(row.id, title);
    // One stop for the Tab key a session: Delete does what the button does.
    return h("div.session", { role: "listitem", dataset: { id: row.id } },
      h("button.session-open", { type: "button", "aria-keyshortcuts": "Delete", onclick: () => this.open(row.id), onkeydown: (event) => event.key === "Delete" && remove() },
        h("span.session-title", {}, title), row.forked_from && h("span.session-from", {}, "fork")),
      iconButton("trash", `Delete ${title}`, remove, { tabIndex: -1 }));
  }

  /** A program's conversation that is passed on. */
  passed(row) {
    return h("div.session", { role: "listitem", dataset: { id: row.id } },
      h("button.session-open", { type: "button", onclick: () => showClient(row) }, h("span.session-title", {}, row.title || row.id), h("span.session-from", {}, row.client || row.model)));
  }

  async look() {
    const words = this.search.value.trim();
    if (!words) return this.draw();
    try {
      const found = await get(`/search?q=${encodeURIComponent(words)}`);
      if (this.search.value.trim() !== words) return;
      const groups = Map.groupBy(found, (hit) => hit.session);
      refill(this.list, found.length ? h("div", { role: "list", "aria-label": "Found" }, [...groups.values()].map((hits) => this.group(hits, words))) : h("p.empty", {}, "No conversation contains all these words."));
      announce(found.length ? `Found in ${groups.size} ${groups.size === 1 ? "session" : "sessions"}` : "No results");
    } catch (problem) {
      toast(problem.message, "error");
    }
  }

  /** What was found in one session: its title, and the messages. */
  group(hits, words) {
    const [{ session, title }] = hits;
    const messages = hits.filter((hit) => hit.turn !== null);
    return h("div.found-session", { role: "listitem", dataset: { id: session } },
      h("button.session-open", { type: "button", onclick: () => this.open(session) }, h("span.session-title", {}, marked(title || session, words))),
      messages.map((hit) => h("button.session-open.hit", { type: "button", onclick: () => this.open(session, hit.turn) }, h("span.snippet", {}, marked(hit.text, words)))));
  }

  /** From the field into what was found, up and down in it, and back. */
  arrows(event) {
    const hits = [...this.list.querySelectorAll(".session-open")];
    const at = hits.indexOf(document.activeElement);
    const go = (to) => {
      event.preventDefault();
      (to < 0 ? this.search : hits[Math.min(to, hits.length - 1)])?.focus();
    };
    if (event.key === "ArrowDown") go(at + 1);
    else if (event.key === "ArrowUp" && at >= 0) go(at - 1);
    else if (event.key === "Enter" && event.target === this.search) {
      event.preventDefault();
      hits[0]?.click();
    } else if (event.key === "Escape" && this.search.value) {
      event.preventDefault();
      this.search.value = "";
      this.draw();
      this.search.focus();
    }
  }
}

/** A text in which the words that were looked for are marked, each from the start of a word. */
function marked(text, words) {
  const wanted = words.split(/[^\p{L}\p{N}]+/u).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!wanted.length) return text;
  return text.split(new RegExp(`((?<![\\p{L}\\p{N}])(?:${wanted.join("|")}))`, "iu")).map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}
