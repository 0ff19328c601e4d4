// The items of a session in three columns: what is in, what could be, and taking it in or out.

import { at, del, get, post } from "./api.js";
import { fill, h, iconButton, toast } from "./dom.js";

export class ContextPanel {
  constructor() {
    this.node = h("div.context");
  }

  async show(session) {
    this.session = session;
    if (!session) return fill(this.node, h("p.empty", {}, "The rules, references and tools of a session stand here once it has begun. Choose an agent below the message field to begin with its items."));
    let items;
    try {
      items = await get(at("sessions", session, "items"));
    } catch (problem) {
      // While it answers, nothing can be changed; what is shown stays.
      if (problem.status !== 409) fill(this.node, h("p.empty", {}, problem.message));
      return;
    }
    if (this.session !== session) return;
    const byPriority = (a, b) => (a.priority ?? 500) - (b.priority ?? 500) || a.name.localeCompare(b.name);
    const byServer = (a, b) => (a.server ?? "").localeCompare(b.server ?? "") || a.name.localeCompare(b.name);
    const column = (name, kind, order) => {
      const all = items.filter((item) => item.kind === kind).sort(order);
      return h("section", {}, h("h3", {}, name, h("span.count", {}, `${all.filter((item) => item.in_session).length} of ${all.length}`)), all.length ? all.map((item) => this.item(item)) : h("p.none", {}, "none"));
    };
    fill(this.node, h("div.columns.narrow", {}, column("Rules", "rule", byPriority), column("References", "reference", byPriority), column("Tools", "tool", byServer)),
      !items.length && h("p.empty", {}, "This session has a plain agent without rules, references or tools. Agents are folders in Foreword/Agents of the vault."));
  }

  item(item) {
    const mode = item.in_session ?? item.include;
    const label = { always: "Always", manual: "Manual", agent: "Agent" }[mode];
    const toggle = item.in_session ? iconButton("close", `Remove ${item.name}`, () => this.tell(() => del(`${at("sessions", this.session, "items")}?item=${encodeURIComponent(item.item)}`))) : iconButton("plus", `Add ${item.name}`, () => this.tell(() => post(at("sessions", this.session, "items"), { item: item.item })));
    return h("details.item", { class: item.in_session ? "in" : "out" }, h("summary.item-head", {},
      item.priority !== null && h("span.priority", { title: "priority" }, String(item.priority).padStart(3, "0")),
      h("span.item-name", {}, item.name), h("span.badge", { class: mode, title: item.in_session ? "in this session" : "may come in" }, label), toggle),
      item.server && h("p.server", {}, item.server), item.description && h("p", {}, item.description), h("pre", {}, item.text));
  }

  async tell(what) {
    try {
      await what();
      toast("It takes effect with the next question.");
      await this.show(this.session);
    } catch (problem) {
      toast(problem.message, "error");
    }
  }
}
