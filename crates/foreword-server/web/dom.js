// Building nodes. Text always goes in as text: nothing here, or anywhere on the page, sets innerHTML.

/** An element with properties, listeners (`onclick`), attributes (`aria-label`) and children; null and false children are left out. */
export function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.classList.add(...value.split(" ").filter(Boolean));
    else if (key === "dataset") Object.assign(node.dataset, value);
    else if (key in node && !key.includes("-") && key !== "list" && key !== "form") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Characters that a reader does not see, or that change the order of what they see. Line feed and tab are left alone. */
const HIDDEN = /[\p{Cc}\p{Cf}\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\u{e0000}-\u{e0fff}]/gu;

/** A text in which hidden characters stand as their numbers: `<U+202E>`. */
export function visible(text) {
  return text.replace(HIDDEN, (c) => (c === "\n" || c === "\t" ? c : `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`));
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG. */
export function svg(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElementNS(SVG, tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Puts other children into a node. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]";
const SCOPES = ["item", "turn", "id"];

/** Which control of a node has the focus, told by what it belongs to and by its label, as the control itself may be drawn anew. */
function placeIn(node) {
  const held = document.activeElement;
  if (!held || held === node || !node.contains(held)) return null;
  const name = SCOPES.find((one) => node.contains(held.closest(`[data-${one}]`)) && held.closest(`[data-${one}]`) !== node);
  const scope = name && held.closest(`[data-${name}]`);
  const css = scope ? `[data-${name}="${CSS.escape(scope.dataset[name])}"]` : null;
  const among = scope ? [...node.querySelectorAll(css)].indexOf(scope) : 0;
  return { css, among, index: [...(scope ?? node).querySelectorAll(CONTROLS)].indexOf(held), label: labelOf(held), tag: held.tagName };
}

const labelOf = (node) => node.getAttribute("aria-label") ?? node.textContent.trim();

/** Puts other children into a node; the focus stays, as in `focusKept`. */
export function refill(node, ...children) {
  return focusKept(node, () => fill(node, ...children));
}

/** Changes what is in a node. Whoever was at one of its controls is at the same one again, or else at the one in its place. */
export function focusKept(node, change) {
  const at = placeIn(node);
  change();
  if (!at || node.contains(document.activeElement)) return node;
  const scope = at.css ? node.querySelectorAll(at.css)[at.among] : node;
  const controls = [...(scope?.querySelectorAll(CONTROLS) ?? [])];
  const same = controls.find((one) => one.tagName === at.tag && labelOf(one) === at.label);
  (same ?? controls[Math.min(at.index, controls.length - 1)])?.focus({ preventScroll: true });
  return node;
}

/** Says something to who hears the page. The place it is said at is always there, as a new one would not be listened to. */
export function announce(text) {
  const said = document.getElementById("said");
  if (!said) return;
  // The same words twice are said twice.
  said.textContent = said.textContent === text ? `${text}\u00a0` : text;
}

/** Copies a text; whether the browser let it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page that comes over plain HTTP from another machine has no clipboard; what is selected can be copied all the same.
    const back = document.activeElement;
    const field = h("textarea.unseen", { value: text, "aria-hidden": "true", tabindex: -1 });
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    back?.focus({ preventScroll: true });
    return done;
  }
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M5 12h13M12 5l7 7-7 7",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v10H9zM5 15V5h10",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M20 11a8 8 0 1 0-2.3 6M20 5v6h-6",
  fork: "M7 4v5a4 4 0 0 0 4 4h2a4 4 0 0 1 4 4v3M7 9v11",
  layers: "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  chart: "M5 20V10M12 20V4M19 20v-7",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  moon: "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z",
  pin: "M9 4h6l-1 6 4 4H6l4-4zM12 14v6",
  gear: "M4 7h9M19 7h1M4 17h1M11 17h9M16 4v6M8 14v6",
  wide: "M4 12h16M8 8l-4 4 4 4M16 8l4 4-4 4",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l5 5",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  clip: "M19 11l-8 8a5 5 0 0 1-7-7l9-9a3.5 3.5 0 0 1 5 5l-9 9a2 2 0 0 1-3-3l8-8",
};

/** A drawing that says nothing by itself; whatever holds it has a label. */
export function icon(name) {
  return svg("svg.icon", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

/** A button with a drawing; its label is read aloud and shown on hover. */
export function iconButton(name, label, onclick, more = {}) {
  return h("button.icon-button", { type: "button", title: label, "aria-label": label, onclick, ...more }, icon(name));
}

/** More than so many at once cover the page. */
const MOST_TOASTS = 3;

/** Says something for some seconds. What must not be missed stands in the page instead. */
export function toast(text, kind = "note") {
  announce(text);
  const toasts = document.getElementById("toasts");
  for (const old of [...toasts.children]) if (old.textContent === text || toasts.children.length >= MOST_TOASTS) old.remove();
  const node = h(`div.toast.${kind}`, {}, text);
  toasts.append(node);
  // Shown anew, so that it stands above a sheet that was opened since.
  if (toasts.matches(":popover-open")) toasts.hidePopover();
  toasts.showPopover();
  setTimeout(() => {
    node.remove();
    if (!toasts.firstChild && toasts.matches(":popover-open")) toasts.hidePopover();
  }, kind === "error" ? 9000 : 4000);
}

/** Takes all toasts away. */
export function clearToasts() {
  const toasts = document.getElementById("toasts");
  toasts.replaceChildren();
  if (toasts.matches(":popover-open")) toasts.hidePopover();
}
