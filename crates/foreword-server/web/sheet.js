// A sheet over the page: it has a heading, and goes away with Escape, its button, or a click beside it.

import { h, iconButton } from "./dom.js";

export function sheet(label, { wide = false, sub = null } = {}, ...body) {
  const dialog = h(`dialog.sheet${wide ? ".wide" : ""}`, { tabindex: -1, "aria-label": label, onclose: () => dialog.remove() },
    h("header", {}, h("div", {}, h("h2", {}, label), sub && h("p.sub", {}, sub)), iconButton("close", "Close", () => dialog.close())), body);
  // A selection that ends beside the sheet is no click beside it.
  let began = null;
  dialog.addEventListener("pointerdown", (event) => { began = event.target; });
  dialog.addEventListener("click", (event) => event.target === dialog && began === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  dialog.focus();
  return dialog;
}

/** A field with its name above it and, where there is something to say, a line below it. */
export function field(label, control, about = null) {
  return h("label.field", {}, h("span.field-name", {}, label), control, about && h("span.field-about", {}, about));
}

/** A choice of values with their labels. */
export function choice(options, value, props = {}) {
  return h("select", props, options.map(([option, label]) => h("option", { value: option, selected: option === value }, label)));
}
