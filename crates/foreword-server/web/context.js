// The items of a session in three columns: rules, references and tools, with adding, removing and editing.

import { at, del, get, post } from "./api.js";
import { itemForm, newAgent, newItem } from "./catalog.js";
import { fill, h, iconButton, refill, toast } from "./dom.js";

const LABEL = { always: "Always", manual: "Manual", agent: "Agent" };
const byPriority = (a, b) => (a.priority ?? 500) - (b.priority ?? 500) || a.name.localeCompare(b.name);

export class ContextPanel {
  /** `agent` and `model` are the choices for a new session; `made` is called with a new agent's name. */
  constructor({ agent, model, made }) {
    this.chosen = agent;
    this.model = model;
    this.made = made;
    this.open = new Set();
    this.asked = 0;
    this.node = h("div.context");
  }

  async show(session, running = false) {
    const same = this.session === session && this.node.firstChild;
    // A form that is being edited is not redrawn.
    if (same && this.node.querySelector("form[data-begun]")) return;
    this.session = session;
    if (!same) this.shown = null;
    this.asked += 1;
    const { asked } = this;
    // Nothing can be changed during an answer.
    if (running) return same || fill(this.node, h("p.empty", {}, "You can change items when the answer is finished."));
    try {
      const found = session ? await this.readSession(session) : await this.readAgent(this.chosen());
      if (this.asked !== asked) return;
      // Unchanged content keeps its nodes and scroll position.
      const now = JSON.stringify(found);
      if (this.shown === now) return;
      this.shown = now;
      refill(this.node, session ? this.ofSession(found) : this.ofAgent(found));
    } catch (problem) {
      if (this.asked !== asked) return;
      this.shown = null;
      fill(this.node, h("p.empty", {}, problem.message));
    }
  }

  async readSession(session) {
    const [items, tools, settings] = await Promise.all([get(at("sessions", session, "items")), get(at("sessions", session, "tools")), get(at("sessions", session, "settings"))]);
    return { items, tools, settings };
  }

  /** The items of a new session; the default agent has only tools. */
  async readAgent(agent) {
    const asked = new URLSearchParams(Object.entries({ agent, model: this.model() }).filter(([, value]) => value));
    const [found, tools] = await Promise.all([agent ? get(at("agents", agent)) : { items: [], problems: [] }, get(`/tools?${asked}`)]);
    return { agent, found, tools };
  }

  ofSession({ items, tools, settings }) {
    return [
      h("p.sub.panel-about", {}, settings.agent ? ["Agent ", h("b", {}, settings.agent), ". Changes apply from your next message."] : this.plain()),
      h("div.columns", {}, this.column("Rules", "rule", items, settings.agent), this.column("References", "reference", items, settings.agent), this.tools(tools)),
    ];
  }

  ofAgent({ agent, found, tools }) {
    return [h("p.sub.panel-about", {}, agent ? ["Agent ", h("b", {}, agent), ": new sessions start with the items marked Always."] : this.plain()),
      found.problems.length > 0 && h("ul.remarks.warn", {}, found.problems.map((problem) => h("li", {}, problem))),
      h("div.columns", {}, this.column("Rules", "rule", found.items, agent), this.column("References", "reference", found.items, agent), this.tools(tools))];
  }

  plain() {
    return ["The default agent has no rules, references or tool servers. ",
      h("button.plain", { type: "button", onclick: () => newAgent((name) => { toast(`Agent ${name} created. You can use it in new sessions.`); this.made(name); }) }, "Create an agent")];
  }

  column(name, kind, items, agent) {
    const all = items.filter((item) => item.kind === kind).sort(byPriority);
    const many = this.session ? `${all.filter((item) => item.in_session).length} of ${all.length}` : String(all.length);
    return h("section", { dataset: { kind } }, h("h3", {}, name, h("span.count", {}, many), agent && iconButton("plus", `New ${kind}`, () => newItem(agent, kind, () => this.changed()), { class: "right" })),
      all.length ? all.map((item) => this.item(item, agent)) : h("p.none", {}, "none"));
  }

  item(item, agent) {
    const mode = item.in_session ?? item.include;
    const editable = agent && item.version;
    const body = h("div.item-body");
    const node = h("details.item", { class: this.session && !item.in_session ? "out" : "in", open: this.open.has(item.item) }, h("summary.item-head", {},
      item.priority !== null && h("span.priority", { title: "priority: 000 is first" }, String(item.priority).padStart(3, "0")),
      h("span.item-name", {}, item.name), badge(mode, item.in_session ? "how it was included" : "how it can be included")),
      item.description && h("p.about", {}, item.description), body);
    const draw = () => {
      if (node.open) this.open.add(item.item);
      else this.open.delete(item.item);
      if (node.open && !body.firstChild) fill(body, editable ? itemForm(agent, item, () => this.changed()) : h("pre", {}, item.text));
    };
    node.addEventListener("toggle", draw);
    if (node.open) draw();
    return h("div.item-row", { dataset: { item: item.item } }, node, this.session && this.toggle(item));
  }

  toggle(item) {
    const path = at("sessions", this.session, "items");
    const tell = (what) => () => this.tell(what);
    return item.in_session ? iconButton("close", `Remove ${item.name}`, tell(() => del(`${path}?item=${encodeURIComponent(item.item)}`))) : iconButton("plus", `Add ${item.name}`, tell(() => post(path, { item: item.item })));
  }

  tools(found) {
    const count = found.servers.reduce((sum, server) => sum + server.tools.length, 0);
    const many = this.session && found.used ? `${found.servers.flatMap((server) => server.tools).filter((tool) => tool.in_session).length} of ${count}` : String(count);
    return h("section", { dataset: { kind: "tool" } }, h("h3", {}, "Tools", h("span.count", {}, many)),
      !found.used && h("p.none", {}, "The embedded small model cannot use tools."),
      found.problems.map((problem) => h("p.warn-box", {}, h("b", {}, problem.server), ` ${problem.message}`)),
      found.servers.map((server) => [h("h4.server-name", {}, server.server), server.tools.map((tool) => this.tool(tool, found.used))]));
  }

  tool(tool, used) {
    const node = h("details.item", { class: tool.in_session || !this.session ? "in" : "out", open: this.open.has(tool.item), ontoggle: () => this.open[node.open ? "add" : "delete"](tool.item) }, h("summary.item-head", {}, h("span.item-name", {}, tool.name),
      used && tool.asks && h("span.badge.asks", { title: "requires approval" }, "asks"), used && badge(tool.in_session ?? tool.include, tool.in_session && this.session ? "how it was included" : "how it can be included")),
      tool.description && h("p.about", {}, tool.description), h("p.where", {}, tool.read_only ? "read-only" : "can make changes"));
    return h("div.item-row", { dataset: { item: tool.item } }, node, this.session && used && this.toggle(tool));
  }

  /** Updates the open session after the catalog changed. */
  async changed() {
    if (this.session) await post(at("sessions", this.session, "agent")).catch((problem) => toast(problem.message, "error"));
    for (const form of this.node.querySelectorAll("form[data-begun]")) delete form.dataset.begun;
    // A rejected form holds the user's text, not the stored one.
    this.shown = null;
    await this.show(this.session);
  }

  async tell(what) {
    try {
      await what();
      toast("Applies from your next message.");
      await this.show(this.session);
    } catch (problem) {
      toast(problem.message, "error");
    }
  }
}

function badge(mode, title) {
  return h("span.badge", { class: mode, title }, LABEL[mode]);
}
