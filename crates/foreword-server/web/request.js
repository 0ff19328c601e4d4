// "View context": the contents of a request, layer by layer, and its exact bytes.

import { at, get } from "./api.js";
import { fill, h, iconButton, toast } from "./dom.js";
import { pin, pinsOf, unpin } from "./fold.js";
import { amount, money, share } from "./figures.js";
import { LAYERS, layerClass, legend, strip } from "./layers.js";
import { compare, shortened } from "./lines.js";
import { openNote } from "./note.js";
import { sheet } from "./sheet.js";
import { tabRow } from "./tabs.js";

export const WHY = {
  over_budget: "no room in the budget", below_floor: "not relevant enough", outside_top_k: "other items are more relevant", outside_top_n: "other items are more relevant",
  next_turn: "will be sent with the next turn", unused: "removed by a fold: not used recently", removed: "removed by you", image_not_active: "images are sent only from the open note",
  images_not_taken: "the model does not support images",
};

export async function showRequest(session, number, tab = "context", layer = null) {
  let found;
  try {
    found = await get(at("sessions", session, "requests", number));
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const body = h("div.sheet-body");
  const names = [["context", "Context"], ["text", "Prompt text"], ["diff", "Difference"], ["wire", "Bytes sent"]];
  const tabs = tabRow("Views of the request", names, body, (name) => turnTo(name));
  let turned = 0;
  const used = found.usage;
  // Once there is an answer, the provider's count holds, as everywhere on the page.
  const prompt = used ? used.read + used.write + used.uncached : found.tokens;
  const scale = found.tokens > 0 ? prompt / found.tokens : 1;
  sheet("Model context", { wide: true, sub: [`turn ${found.turn}, request ${found.request + 1} · ${found.model} · ${found.layout} layout · epoch ${found.epoch + 1}`,
    found.began && h("span.badge.break", {}, `new epoch: ${found.began.replaceAll("_", " ")}`)] },
    h("div.sum", {}, strip(found.layers.map((layer) => layer.tokens * scale), used?.read ?? 0, found.budget, (layer) => turnTo("text", layer)),
      h("p", {}, h("b", {}, amount(prompt)), ` of ${amount(found.budget)} tokens`,
        used && used.read > 0 && [" · ", h("b", {}, share(used.read, prompt)), " from the cache"],
        used?.cost > 0 && [" · ", h("b", {}, money(used.cost)), used.cost_uncached > used.cost && ` instead of ${money(used.cost_uncached)}`],
        used?.broke && h("span.badge.break", {}, `cache broken: ${String(used.broke.cause ?? "").replaceAll("_", " ")}, ${amount(used.broke.tokens_lost ?? 0)} tokens${used.broke.cost_lost > 0 ? `, ${money(used.broke.cost_lost)}` : ""}`)),
      legend()),
    tabs.node, body);

  async function turnTo(name, layer = null) {
    tabs.mark(name);
    turned += 1;
    const wanted = turned;
    const view = await seen(name, layer).catch((problem) => h("p.empty", {}, problem.message));
    // Another tab was chosen while this one was read.
    if (wanted !== turned) return;
    fill(body, view);
    if (name === "text" && layer !== null) body.querySelectorAll(".layer")[layer]?.scrollIntoView({ block: "start" });
  }

  async function seen(name, layer) {
    const of = (request, ...what) => get(at("sessions", session, "requests", request, ...what));
    if (name === "context") return contextView(found, new Pins(session, (await pinsOf(session)) ?? []), await outputsOf(session, found));
    if (name === "text") return textView(await of(number, "layers"), found.layers, layer);
    if (name === "wire") return wireView(found, await of(number, "wire"));
    if (number === 0) return h("p.empty", {}, "This is the first request.");
    return diffView(...(await Promise.all([of(number, "diff"), of(number - 1, "messages"), of(number, "messages")])));
  }
  await turnTo(tab, layer);
}

/** The pinned items of a request. */
class Pins {
  constructor(session, pins) {
    this.session = session;
    this.names = new Set(pins.map((one) => one.what));
  }

  /** A button that pins or unpins a note or a page. */
  button(item) {
    const label = () => (this.names.has(item) ? `Unpin ${item}` : `Pin ${item}: keep it in every fold`);
    const button = iconButton("pin", label(), async () => {
      const pinned = this.names.has(item);
      try {
        await (pinned ? unpin : pin)(this.session, item);
        if (pinned) this.names.delete(item);
        else this.names.add(item);
        button.setAttribute("aria-pressed", String(!pinned));
        button.setAttribute("aria-label", label());
        button.title = label();
      } catch (problem) {
        toast(problem.message, "error");
      }
    }, { "aria-pressed": String(this.names.has(item)) });
    return button;
  }
}

/** The texts of tool outputs, by item. */
async function outputsOf(session, found) {
  if (!found.context.some((entry) => found.items[entry.item]?.kind === "output")) return new Map();
  const layers = await get(at("sessions", session, "requests", found.request, "layers"));
  return new Map(layers.flatMap((layer) => layer.segments).map((segment) => [segment.id, segment.text]));
}

/** Which tool it was. */
function output(text) {
  const tool = /^\s*<([A-Za-z][\w.-]*)/.exec(text)?.[1];
  return {
    name: tool === "localSearch" ? "search results" : `output of ${tool ?? "a tool"}`,
    // What the search says of itself, in front of its results or behind them.
    remarks: tool === "localSearch" ? [...text.matchAll(/^(?:\((.*words.*)\)|Note: (.*words.*)\.)$/gm)].map(([, before, behind]) => before ?? behind) : [],
  };
}

/** Notes and pages, the three columns, and what was left out. */
function contextView(found, pins, outputs) {
  const told = (entry) => ({ ...found.items[entry.item], ...entry, ...(found.items[entry.item]?.kind === "output" && output(outputs.get(entry.item) ?? "")) });
  const all = found.context.map(told);
  const byPriority = (a, b) => (a.priority ?? 500) - (b.priority ?? 500) || a.name.localeCompare(b.name);
  const byServer = (a, b) => (a.server ?? "").localeCompare(b.server ?? "") || a.name.localeCompare(b.name);
  const of = (kind, order) => all.filter((item) => item.kind === kind).sort(order);
  const columns = [["Rules", of("rule", byPriority)], ["References", of("reference", byPriority)], ["Tools", of("tool", byServer)]];
  const rest = all.filter((item) => !["rule", "reference", "tool"].includes(item.kind));
  return [
    h("section", {}, h("h3", {}, "Notes, pages and other material", h("span.count", {}, rest.length)), rest.length ? h("div.cards", {}, rest.map((item) => card(item, ["note", "url"].includes(item.kind) && pins.button(item.item)))) : h("p.none", {}, "Nothing was attached.")),
    h("div.columns", {}, columns.map(([name, items]) => h("section", {}, h("h3", {}, name, h("span.count", {}, items.length)), items.length ? items.map((item) => card(item)) : h("p.none", {}, "none")))),
    h("section", {}, h("h3", {}, "Left out", h("span.count", {}, found.left_out.length)),
      found.left_out.length ? h("div.cards", {}, found.left_out.map((entry) => {
        const item = told(entry);
        return h("div.item.out", {}, h("div.item-head", {}, h("span.item-name", {}, item.name), item.score !== null && h("span.score", {}, item.score.toFixed(2))),
          h("p", {}, WHY[item.reason] ?? String(item.reason).replaceAll("_", " ")));
      })) : h("p.none", {}, "Nothing was left out.")),
    found.notes.length > 0 && h("section", {}, h("h3", {}, "Remarks"), h("ul.remarks", {}, found.notes.map((note) => h("li", {}, h("b", {}, note.kind.replaceAll("_", " ")), " ", note.text)))),
  ];
}

/** An item as it stood in the request. */
function card(item, more = null) {
  const layer = LAYERS.findIndex(([id]) => id === item.layer);
  return h("div.item", {}, h("div.item-head", {},
    item.priority !== null && item.priority !== undefined && h("span.priority", { title: "priority" }, String(item.priority).padStart(3, "0")),
    item.kind === "note" ? h("button.item-name.plain", { type: "button", onclick: () => openNote(item.name) }, item.name.replace(/\.md$/, "")) : h("span.item-name", { title: item.item }, item.name),
    h("span.badge", { class: item.include }, { always: "Always", manual: "Manual", agent: "Agent", tool: "Tool" }[item.include]),
    item.score !== null && item.score !== undefined && h("span.score", { title: "relevance to the question, from 0 to 1" }, item.score.toFixed(2)), more),
    item.server && h("p.server", {}, item.server), item.description && h("p.about", {}, item.description),
    item.remarks?.length > 0 && item.remarks.map((remark) => h("p.cut", {}, `${remark.charAt(0).toUpperCase()}${remark.slice(1)}.`)),
    h("p.where", {}, layer >= 0 && h("i", { class: layerClass(layer) }), layer >= 0 ? LAYERS[layer][1] : item.layer, ` · ${FORM[item.form] ?? item.form} · ${amount(item.tokens)} tokens`));
}

const FORM = { full: "full text", reference: "reference to the text above", stub: "one-line stub", diff: "changes only", passage: "matching passage" };

function textView(layers, sizes, wanted) {
  return layers.map((layer, index) => {
    const sum = sizes[index].tokens;
    return h("details.layer", { open: layer.segments.length > 0 && (wanted === null ? index > 0 : index === wanted) }, h("summary", {}, h("i", { class: layerClass(index) }), h("b", {}, LAYERS[index][1]), h("span.sub", {}, LAYERS[index][2]), h("span.count", {}, layer.segments.length ? `${amount(sum)} tokens` : "empty")),
      layer.segments.map((segment) => h("div.segment", {}, h("div.segment-head", {}, segment.id, h("span", {}, segment.tokens ? `${amount(segment.tokens)} tokens` : "")), h("pre", {}, segment.text))));
  });
}

function wireView(found, body) {
  const text = typeof body === "string" ? body : JSON.stringify(body, null, 2);
  return [h("p.sub", {}, `sha256 ${found.wire_sha256} — `, found.verified ? "rendered again from the store: identical." : "rendered again from the store: NOT identical."), h("pre.wire", {}, text)];
}

/** The first difference from the previous request, and the changed lines. */
function diffView(diff, before, now) {
  return [diffWords(diff), diffLines(before, now)];
}

function diffWords(diff) {
  if (diff.cause === "continued") return h("p.good", {}, `This request continues the previous one: its first ${amount(diff.at_byte)} prompt bytes are equal, so the cache can serve all of them. ${amount(diff.tokens_new)} tokens are new:`);
  if (diff.cause === "shortened") return h("p", {}, `This request is a prefix of the previous one: ${amount(diff.at_byte)} bytes are equal.`);
  return h("p", {}, `The prompts differ after ${amount(diff.at_byte)} bytes. Cause: `, h("b", {}, diff.cause.replaceAll("_", " ")), diff.item && [" at ", h("code", {}, diff.item)], `. ${amount(diff.tokens_lost)} tokens could not be read from the cache`, diff.cost_lost > 0 && ` (${money(diff.cost_lost)})`, `; ${amount(diff.tokens_new)} are new.`);
}

/** Each message is a line with its role and then its own lines, so that what was moved to another message is seen too. */
function diffLines(before, now) {
  const lines = (messages) => messages.flatMap((message) => [`— ${message.role} —`, ...message.text.replace(/\n+$/, "").split("\n")]);
  const rows = shortened(compare(lines(before), lines(now)));
  const sign = { same: " ", gone: "−", new: "+" };
  const kind = { same: "", gone: "minus", new: "plus" };
  return h("div.changes", { role: "list", "aria-label": "Changed lines" }, rows.map((row) => row.kind === "skip"
    ? h("div.skip", { role: "listitem" }, row.many === 1 ? "1 unchanged line" : `${amount(row.many)} unchanged lines`)
    : h("div", { class: kind[row.kind], role: "listitem" }, h("span.sign", {}, sign[row.kind]), h("span", {}, row.text || " "))));
}
