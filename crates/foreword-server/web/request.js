// "View context": one request, what it held and why, layer by layer, and its exact bytes.

import { at, get } from "./api.js";
import { fill, h, iconButton, toast } from "./dom.js";
import { amount, money, share } from "./figures.js";
import { LAYERS, layerClass, legend, strip } from "./layers.js";
import { openNote } from "./note.js";

const WHY = {
  over_budget: "no room in the budget", below_floor: "too little like the question", not_chosen: "others fit better", next_turn: "comes with the next turn",
  removed: "taken out by you",
};

export async function showRequest(session, number, tab = "context") {
  let found;
  try {
    found = await get(at("sessions", session, "requests", number));
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const body = h("div.sheet-body");
  const names = [["context", "Context"], ["text", "Prompt text"], ["diff", "Difference"], ["wire", "Bytes sent"]];
  const buttons = names.map(([name, label]) => h("button.tab", { type: "button", role: "tab", dataset: { name }, onclick: () => turnTo(name) }, label));
  const used = found.usage;
  const dialog = h("dialog.sheet.wide", { tabindex: -1, "aria-label": "What the model was given", onclose: () => dialog.remove() },
    h("header", {}, h("div", {}, h("h2", {}, "What the model was given"),
      h("p.sub", {}, `turn ${found.turn}, request ${found.request + 1} · ${found.model} · ${found.layout} layout · epoch ${found.epoch + 1}`,
        found.began && h("span.badge.break", {}, `new epoch: ${found.began.replaceAll("_", " ")}`))),
      iconButton("close", "Close", () => dialog.close())),
    h("div.sum", {}, strip(found.layers.map((layer) => layer.tokens), used?.read ?? 0, found.budget),
      h("p", {}, h("b", {}, amount(found.tokens)), ` of ${amount(found.budget)} tokens`,
        used && used.read > 0 && [" · ", h("b", {}, share(used.read, used.read + used.write + used.uncached)), " from the cache"],
        used?.cost > 0 && [" · ", h("b", {}, money(used.cost)), used.cost_uncached > used.cost && ` instead of ${money(used.cost_uncached)}`],
        used?.broke && h("span.badge.break", {}, `cache broken: ${String(used.broke.cause ?? "").replaceAll("_", " ")}, ${amount(used.broke.tokens_lost ?? 0)} tokens`)),
      legend()),
    h("div.tabs", { role: "tablist" }, buttons), body);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  async function turnTo(name) {
    for (const button of buttons) button.setAttribute("aria-selected", String(button.dataset.name === name));
    try {
      if (name === "context") fill(body, contextView(found));
      else if (name === "text") fill(body, textView(await get(at("sessions", session, "requests", number, "layers"))));
      else if (name === "wire") fill(body, wireView(found, await get(at("sessions", session, "requests", number, "wire"))));
      else fill(body, number > 0 ? diffView(await get(at("sessions", session, "requests", number, "diff"))) : h("p.empty", {}, "This is the first request; there is nothing before it."));
    } catch (problem) {
      fill(body, h("p.empty", {}, problem.message));
    }
  }
  document.body.append(dialog);
  dialog.showModal();
  dialog.focus();
  await turnTo(tab);
}

/** The three columns, then notes and pages, then what was left out. */
function contextView(found) {
  const told = (entry) => ({ ...found.items[entry.item], ...entry });
  const all = found.context.map(told);
  const byPriority = (a, b) => (a.priority ?? 500) - (b.priority ?? 500) || a.name.localeCompare(b.name);
  const byServer = (a, b) => (a.server ?? "").localeCompare(b.server ?? "") || a.name.localeCompare(b.name);
  const of = (kind, order) => all.filter((item) => item.kind === kind).sort(order);
  const columns = [["Rules", of("rule", byPriority)], ["References", of("reference", byPriority)], ["Tools", of("tool", byServer)]];
  const rest = all.filter((item) => !["rule", "reference", "tool"].includes(item.kind));
  return [
    h("div.columns", {}, columns.map(([name, items]) => h("section", {}, h("h3", {}, name, h("span.count", {}, items.length)), items.length ? items.map(card) : h("p.none", {}, "none")))),
    h("section", {}, h("h3", {}, "Notes, pages and other material", h("span.count", {}, rest.length)), rest.length ? h("div.cards", {}, rest.map(card)) : h("p.none", {}, "Nothing was attached.")),
    h("section", {}, h("h3", {}, "Left out", h("span.count", {}, found.left_out.length)),
      found.left_out.length ? h("div.cards", {}, found.left_out.map((entry) => {
        const item = told(entry);
        return h("div.item.out", {}, h("div.item-head", {}, h("span.item-name", {}, item.name), item.score !== null && h("span.score", {}, item.score.toFixed(2))),
          h("p", {}, WHY[item.reason] ?? String(item.reason).replaceAll("_", " ")));
      })) : h("p.none", {}, "Nothing that could have come in was left out.")),
    found.notes.length > 0 && h("section", {}, h("h3", {}, "Remarks"), h("ul.remarks", {}, found.notes.map((note) => h("li", {}, h("b", {}, note.kind.replaceAll("_", " ")), " ", note.text)))),
  ];
}

/** An item as it stood in the request. */
export function card(item) {
  const layer = LAYERS.findIndex(([id]) => id === item.layer);
  return h("div.item", {}, h("div.item-head", {},
    item.priority !== null && item.priority !== undefined && h("span.priority", { title: "priority" }, String(item.priority).padStart(3, "0")),
    item.kind === "note" ? h("button.item-name.plain", { type: "button", onclick: () => openNote(item.name) }, item.name.replace(/\.md$/, "")) : h("span.item-name", {}, item.kind === "output" ? `tool output ${item.name.slice(0, 8)}` : item.name),
    h("span.badge", { class: item.include }, { always: "Always", manual: "Manual", agent: "Agent" }[item.include]),
    item.score !== null && item.score !== undefined && h("span.score", { title: "similarity to the question" }, item.score.toFixed(2))),
    item.server && h("p.server", {}, item.server), item.description && h("p", {}, item.description),
    h("p.where", {}, layer >= 0 && h("i", { class: layerClass(layer) }), layer >= 0 ? LAYERS[layer][1] : item.layer, ` · ${FORM[item.form] ?? item.form} · ${amount(item.tokens)} tokens`));
}

const FORM = { full: "full text", reference: "a reference to its text above", stub: "a line in its place", diff: "what changed" };

function textView(layers) {
  return layers.map((layer, index) => {
    const sum = layer.segments.reduce((all, segment) => all + segment.tokens, 0);
    return h("details.layer", { open: index > 0 && layer.segments.length > 0 }, h("summary", {}, h("i", { class: layerClass(index) }), h("b", {}, LAYERS[index][1]), h("span.sub", {}, LAYERS[index][2]), h("span.count", {}, layer.segments.length ? `${amount(sum)} tokens` : "empty")),
      layer.segments.map((segment) => h("div.segment", {}, h("div.segment-head", {}, segment.id, h("span", {}, segment.tokens ? `${amount(segment.tokens)} tokens` : "")), h("pre", {}, segment.text))));
  });
}

function wireView(found, body) {
  const text = typeof body === "string" ? body : JSON.stringify(body, null, 2);
  return [h("p.sub", {}, `sha256 ${found.wire_sha256} — `, found.verified ? "rendered again from the record: the same bytes." : "rendered again from the record: NOT the same bytes."), h("pre.wire", {}, text)];
}

function diffView(diff) {
  if (diff.cause === "continued") return h("p.good", {}, `This request continues the one before: its first ${amount(diff.at_byte)} bytes of prompt are the same, so a cache can serve all of them. ${amount(diff.tokens_new)} tokens are new.`);
  if (diff.cause === "shortened") return h("p", {}, `This request is the start of the one before: ${amount(diff.at_byte)} bytes are the same.`);
  return [h("p", {}, `The two part after ${amount(diff.at_byte)} bytes of prompt, because of `, h("b", {}, diff.cause.replaceAll("_", " ")), diff.item && [" at ", h("code", {}, diff.item)], `. ${amount(diff.tokens_lost)} tokens could not be read from the cache`, diff.cost_lost > 0 && ` (${money(diff.cost_lost)})`, `; ${amount(diff.tokens_new)} are new.`),
    h("div.twice", {}, h("figure", {}, h("figcaption", {}, "before"), h("pre.minus", {}, diff.texts[0])), h("figure", {}, h("figcaption", {}, "now"), h("pre.plus", {}, diff.texts[1])))];
}
