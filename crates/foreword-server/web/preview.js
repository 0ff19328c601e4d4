// Preview of the next request: tokens, budget and cost; expanded, also layers and items.

import { at, post } from "./api.js";
import { fill, h } from "./dom.js";
import { amount, money, share } from "./figures.js";
import { LAYERS, layerClass, legend, strip } from "./layers.js";
import { WHY } from "./request.js";

/** Milliseconds without typing before a preview is requested. */
const REST = 350;
const REST_UNBEGUN = 600;

export class Preview {
  constructor() {
    this.meter = h("span.meter", {}, h("i"));
    this.line = h("span");
    this.body = h("div.next-body");
    this.more = h("details", { hidden: true }, h("summary", { title: "Contents of the next request" }, this.meter, this.line), this.body);
    this.words = h("p.next-words", { role: "status", hidden: true });
    this.node = h("div.next", {}, this.more, this.words);
    this.asked = 0;
  }

  /** Shows a message instead of the preview. */
  say(text, kind = "") {
    this.more.hidden = true;
    this.words.hidden = !text;
    this.words.className = `next-words ${kind}`;
    fill(this.words, text);
  }

  clear() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.say("");
  }

  /** Previews a message, a moment after the last key press. `choices` are the settings of a new session. */
  ask(session, message, choices) {
    clearTimeout(this.timer);
    this.asked += 1;
    const { asked } = this;
    this.timer = setTimeout(async () => {
      try {
        const shown = await (session ? post(at("sessions", session, "preview"), message) : post("/preview", { ...message, session: choices }));
        if (this.asked === asked) this.show(shown);
      } catch (problem) {
        // Errors, such as a message that is too large, are shown before sending.
        if (this.asked === asked) this.say(problem.status === 409 ? "" : problem.message, "bad");
      }
    }, session ? REST : REST_UNBEGUN);
  }

  show(shown) {
    const { expected } = shown;
    // What the model will read. For the small model, this includes its chat template.
    const total = expected.read + expected.write + expected.uncached;
    this.more.hidden = false;
    // Broken links are shown before sending.
    const missing = shown.problems.filter((text) => text.startsWith("[["));
    this.words.hidden = !missing.length;
    this.words.className = "next-words bad";
    fill(this.words, missing.join(" "));
    this.meter.firstChild.style.width = `${Math.min(100, (total / shown.budget) * 100)}%`;
    fill(this.line, `next request: ${amount(total)} of ${amount(shown.budget)} tokens`, expected.read ? ` · ${share(expected.read, total)} from the cache` : "",
      expected.cost ? ` · about ${money(expected.cost)}` : "", shown.left_out.length ? ` · ${shown.left_out.length} left out` : "");
    fill(this.body, strip(shown.layers.map((layer) => layer.tokens), expected.read, shown.budget), legend(),
      h("p", {}, `${shown.model} · ${shown.layout} layout · ${shown.tools.length} tools`, expected.cost > 0 && ` · the prompt costs about ${money(expected.cost)}`,
        expected.cost_uncached > expected.cost && ` instead of ${money(expected.cost_uncached)}`, expected.cost > 0 && ", plus the reply"),
      expected.broke && h("p.cut", {}, `Cache break: ${String(expected.broke.cause).replaceAll("_", " ")}, ${amount(expected.broke.tokens_lost ?? 0)} tokens`, expected.broke.cost_lost > 0 && `, ${money(expected.broke.cost_lost)}`),
      [...shown.problems, ...shown.notes.map((note) => note.text)].map((text) => h("p.cut", {}, text)),
      h("ul.next-items", {}, LAYERS.map((_, index) => layerRow(shown, index)), shown.left_out.map((entry) => itemRow(entry, h("span.count", {}, `left out: ${WHY[entry.reason] ?? String(entry.reason).replaceAll("_", " ")}`), "out"))));
  }
}

/** A layer, and the items in it. */
function layerRow(shown, index) {
  const [id, name] = LAYERS[index];
  const layer = shown.layers[index];
  if (!layer?.tokens) return null;
  // Tools are in a list of their own; by name they say more than by item.
  const items = index === 0 ? [] : shown.context.filter((entry) => entry.layer === id && !entry.item.startsWith("tool:"));
  return [h("li.of-layer", {}, h("i", { class: layerClass(index) }), h("span", {}, name), index === 0 && h("span.names", {}, shown.tools.join(", ")), h("span.count", {}, amount(layer.tokens))),
    items.map((entry) => itemRow(entry, h("span.count", {}, amount(entry.tokens))))];
}

function itemRow(entry, end, kind = "") {
  const [, sort, name] = /^([a-z_]+):(.*)$/s.exec(entry.item) ?? [null, "", entry.item];
  // The name of an output is a hash.
  const shown = sort === "output" ? "search results or tool output" : name.replace(/\.md$/, "");
  return h("li", { class: kind }, h("span.kind", {}, sort), h("span.names", {}, shown),
    entry.include && h("span.badge", { class: entry.include }, { always: "Always", manual: "Manual", agent: "Agent", tool: "Tool" }[entry.include]),
    typeof entry.score === "number" && h("span.score", { title: "how well it fits the question, from 0 to 1" }, entry.score.toFixed(2)), end);
}
