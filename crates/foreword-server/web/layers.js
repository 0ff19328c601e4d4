// The layers of a prompt: their names, their colours, and one bar of them.

import { h } from "./dom.js";
import { amount } from "./figures.js";

export const LAYERS = [
  ["TOOLS", "Tools", "the tool list"],
  ["L1_SYSTEM", "L1 System", "system prompt, memory, rules"],
  ["L2_LIBRARY", "L2 Library", "full texts kept for all turns"],
  ["L3_TURN", "L3 This turn", "added in this turn: new texts, references, tool results"],
  ["L4_HISTORY", "L4 History", "earlier messages"],
  ["L5_USER", "L5 Your words", "your message"],
];

export const layerClass = (index) => `layer-${index}`;

/** A horizontal bar of the layers, with the cached prefix shaded and the unused budget empty. */
export function strip(tokens, cached, budget, open = null) {
  const total = tokens.reduce((sum, part) => sum + part, 0);
  // A budget far above the prompt is not drawn to scale.
  const whole = Math.max(total * 4 < budget ? total : budget, total, 1);
  // Layers are drawn in the order of the provider's cache: tools, system, library, history, this turn, user message.
  const order = [0, 1, 2, 4, 3, 5];
  const parts = order.map((index) => {
    const part = h(open ? "button" : "i", { type: open ? "button" : null, "aria-label": open ? `${LAYERS[index][1]}: ${amount(tokens[index])} tokens, show its text` : null, onclick: open ? () => open(index) : null, class: layerClass(index), title: `${LAYERS[index][1]}: ${amount(tokens[index])} tokens` });
    part.style.width = `${(tokens[index] / whole) * 100}%`;
    part.hidden = tokens[index] === 0;
    return part;
  });
  const shade = h("i.cached", { title: `${amount(cached)} tokens from the cache` });
  shade.style.width = `${(Math.min(cached, total) / whole) * 100}%`;
  return h("div.strip", { role: open ? "group" : "img", "aria-label": `${amount(total)} of ${amount(budget)} tokens, ${amount(cached)} from the cache` }, parts, shade);
}

/** Explains the layers. */
export function explained() {
  return h("ul.layers-about", {}, LAYERS.map(([, name, about], index) => h("li", {}, h("i", { class: layerClass(index) }), h("b", {}, name), h("span", {}, about))));
}

export function legend() {
  return h("ul.legend", {}, LAYERS.map(([, name, about], index) => h("li", { title: about }, h("i", { class: layerClass(index) }), name)),
    h("li", { title: "read from the provider's cache" }, h("i.cached"), "cached"));
}
