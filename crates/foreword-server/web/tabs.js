// A row of tabs over what they show: one is chosen, and the arrow keys go from one to the next.

import { h } from "./dom.js";

let rows = 0;

/** `names` are pairs of a name and its label. `choose` is told which one was chosen; `mark` of what comes back shows it. */
export function tabRow(label, names, body, choose) {
  rows += 1;
  const id = `tabs-${rows}`;
  body.id = `${id}-body`;
  body.setAttribute("role", "tabpanel");
  body.tabIndex = 0;
  const go = (event, at) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + names.length) % names.length];
    next.focus();
    next.click();
  };
  const tabs = names.map(([name, label], at) => h("button.tab", { type: "button", role: "tab", id: `${id}-${name}`, "aria-controls": body.id, "aria-selected": "false", tabIndex: at ? -1 : 0, dataset: { name }, onclick: () => choose(name), onkeydown: (event) => go(event, at) }, label));
  const mark = (name) => {
    for (const tab of tabs) {
      const chosen = tab.dataset.name === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) body.setAttribute("aria-labelledby", tab.id);
    }
  };
  return { node: h("div.tabs", { role: "tablist", "aria-label": label }, tabs), mark };
}
