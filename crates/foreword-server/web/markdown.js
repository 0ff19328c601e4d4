// Markdown to nodes. markdown-it reads CommonMark, tables, strikethrough and bare addresses into tokens; here each token becomes one of a few
// kinds of nodes. Raw HTML stays text and nothing sets innerHTML, so nothing that a note or a model says can become anything else.

import MarkdownIt from "./vendor/markdown-it.esm.min.mjs";
import { announce, copy, fill, h } from "./dom.js";

const md = new MarkdownIt({ html: false, linkify: true, breaks: true });
// Only addresses that are written out become links, not every name with a dot in it.
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
md.linkify.add("//", null);
md.linkify.add("ftp:", null);

/** The nodes of a markdown text. `open` is called with the name in a `[[link]]`, and with what a citation leads to. */
export function markdown(text, open = null) {
  const env = {};
  return render(md.parse(text, env), { open, sources: env.sources ?? new Map() });
}

/** A text that grows at its end. What is complete stays as it is, with whoever has selected it; only the last block is read and drawn again. */
export class GrowingMarkdown {
  constructor(node, open) {
    this.node = node;
    this.open = open;
    /** Where the last block begins, and how many nodes stand before it. */
    this.from = 0;
    this.complete = 0;
    /** Whether something stands in the text that what was drawn before it may refer to. */
    this.refers = false;
  }

  /** Draws a text that begins as the one before did. */
  grow(text) {
    const rest = (text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text).slice(this.from);
    const env = {};
    const tokens = md.parse(rest, env);
    this.refers ||= Boolean(env.sources ?? env.references);
    const to = { open: this.open, sources: env.sources ?? new Map() };
    const last = tokens.findLastIndex((token) => token.level === 0 && token.map && token.nesting >= 0);
    const before = render(tokens.slice(0, Math.max(last, 0)), to);
    const nodes = [...before, ...render(tokens.slice(Math.max(last, 0)), to)];
    change(this.node, nodes, this.complete);
    if (last > 0) {
      this.from += lineStart(rest, tokens[last].map[0]);
      this.complete += before.length;
    }
  }

  /** Draws the last of a text, and all of it again where what stands behind refers to what stands before. */
  finish(text) {
    this.grow(text);
    if (this.refers) change(this.node, markdown(text, this.open), 0);
  }
}

function lineStart(text, line) {
  let at = 0;
  for (let count = 0; count < line; count += 1) at = text.indexOf("\n", at) + 1;
  return at;
}

/** Gives a node these children from a place on. What is the same already stays. */
function change(node, children, from) {
  let old = node.childNodes[from];
  for (const child of children) {
    const next = old?.nextSibling;
    if (old) adapt(old, child);
    else node.append(child);
    old = next;
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}

/** Makes a node what another one is, with as few changes as can be. */
function adapt(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.nodeType === Node.TEXT_NODE && now.nodeType === Node.TEXT_NODE) {
    if (now.data.startsWith(old.data)) old.appendData(now.data.slice(old.data.length));
    else old.data = now.data;
    return;
  }
  // What has listeners is taken whole.
  const same = old.nodeType === Node.ELEMENT_NODE && old.tagName === now.tagName && old.tagName !== "BUTTON" && old.cloneNode().isEqualNode(now.cloneNode());
  if (same) change(old, [...now.childNodes], 0);
  else old.replaceWith(now);
}

// What notes have beside CommonMark.

// `[^1]: [[Garden/Beds]]`, as it stands under an answer.
const SOURCE = /^\[\^([^\]\s]{1,40})\]:[ \t]+(\S.*)$/;

md.block.ruler.before("reference", "source", (state, start, end, silent) => {
  const source = (line) => line < end && state.sCount[line] - state.blkIndent < 4 && SOURCE.exec(state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]));
  if (!source(start)) return false;
  if (silent) return true;
  state.env.sources ??= new Map();
  let line = start;
  state.push("sources_open", "ul", 1).map = [start, start];
  for (let found = source(line); found; found = source(line)) {
    const [, label, text] = found;
    state.env.sources.set(label, text);
    state.push("source_open", "li", 1).info = label;
    const inline = state.push("inline", "", 0);
    Object.assign(inline, { content: text, map: [line, line + 1], children: [] });
    state.push("source_close", "li", -1);
    line += 1;
  }
  state.push("sources_close", "ul", -1);
  state.line = line;
  return true;
}, { alt: ["paragraph", "reference", "blockquote", "list"] });

/** An inline rule by a pattern that is tried at `state.pos`; `make` adds the token. */
function mark(before, name, pattern, make) {
  md.inline.ruler.before(before, name, (state, silent) => {
    pattern.lastIndex = state.pos;
    const found = pattern.exec(state.src);
    if (!found || found.index + found[0].length > state.posMax) return false;
    if (!silent) make(state.push(name, "", 0), found);
    state.pos += found[0].length;
    return true;
  });
}

mark("link", "wikilink", /!?\[\[([^\][\n]{1,300})\]\]/y, (token, found) => { token.content = found[1]; });
mark("link", "cites", /\[(\^[^\]\s,]{1,40}(?:, ?\^?[^\]\s,]{1,40}){0,19})\]/y, (token, found) => { token.content = found[1]; });

const CALLOUT = /^\[!([\w-]{1,40})\][+-]?(?:[ \t]+([^\n]*))?(?:\n|$)/;
const TASK = /^\[([ xX])\][ \t]+/;

// Callouts and tasks are told by how the first line of a quote or of a list's item begins.
md.core.ruler.after("block", "marked", (state) => {
  const { tokens } = state;
  for (let at = 0; at + 2 < tokens.length; at += 1) {
    const [outer, , inline] = tokens.slice(at, at + 3);
    if (tokens[at + 1].type !== "paragraph_open" || inline.type !== "inline") continue;
    const callout = outer.type === "blockquote_open" && CALLOUT.exec(inline.content);
    const task = outer.type === "list_item_open" && TASK.exec(inline.content);
    if (!callout && !task) continue;
    inline.content = inline.content.slice((callout || task)[0].length);
    if (task) {
      outer.meta = { task: task[1] !== " " };
      continue;
    }
    const kind = callout[1].toLowerCase();
    outer.meta = { callout: kind };
    const title = new state.Token("inline", "", 0);
    Object.assign(title, { content: callout[2]?.trim() || kind[0].toUpperCase() + kind.slice(1), children: [], level: outer.level + 2 });
    const token = (type, nesting) => Object.assign(new state.Token(type, "p", nesting), { level: outer.level + 1 });
    tokens.splice(at + 1, 0, token("callout_title_open", 1), title, token("callout_title_close", -1));
    // A title alone leaves no empty paragraph.
    if (!inline.content) tokens.splice(at + 4, 3);
  }
});

// From tokens to nodes.

/** What a token that opens something becomes; others of this kind are left out and what is in them stays. */
const OPENED = {
  paragraph_open: () => h("p"),
  blockquote_open: ({ meta }) => (meta?.callout ? h("blockquote.callout", { dataset: { callout: meta.callout } }) : h("blockquote")),
  callout_title_open: () => h("p.callout-title"),
  bullet_list_open: () => h("ul"),
  ordered_list_open: (token) => h("ol", { start: Number(token.attrGet("start") ?? 1) }),
  list_item_open: ({ meta }) => (meta ? h("li.task", {}, h("input", { type: "checkbox", disabled: true, checked: meta.task, "aria-label": meta.task ? "Done" : "Not done" })) : h("li")),
  heading_open: ({ tag }) => h(`h${Math.min(Number(tag.slice(1)) + 2, 6)}`),
  table_open: () => h("table"),
  thead_open: () => h("thead"),
  tbody_open: () => h("tbody"),
  tr_open: () => h("tr"),
  th_open: (token) => h("th", { class: aligned(token) }),
  td_open: (token) => h("td", { class: aligned(token) }),
  sources_open: () => h("ul.sources"),
  source_open: ({ info }) => h("li", {}, h("span.number", {}, info), h("span")),
  em_open: () => h("em"),
  strong_open: () => h("strong"),
  s_open: () => h("del"),
  link_open: (token, to) => link(token.attrGet("href") ?? "", token.attrGet("title"), to),
};

/** What a token that stands alone becomes. */
const ALONE = {
  text: (token, to) => cited(token.content, to),
  text_special: ({ content }) => content,
  softbreak: () => h("br"),
  hardbreak: () => h("br"),
  hr: () => h("hr"),
  code_inline: ({ content }) => h("code", {}, content),
  code_block: ({ content }) => code(content, ""),
  fence: ({ content, info }) => code(content, info.trim().split(/\s+/)[0]),
  image: (token, to) => image(token, to),
  wikilink: ({ content }, to) => wikilink(content, to),
  cites: ({ content }, to) => citations(content, to),
};

const aligned = (token) => /text-align:(left|center|right)/.exec(token.attrGet("style") ?? "")?.[1] ?? "";

function render(tokens, to) {
  const root = document.createDocumentFragment();
  const open = [root];
  for (const token of tokens) {
    const here = open.at(-1);
    if (token.type === "inline") here.append(...render(token.children, to));
    else if (token.nesting > 0) {
      const node = token.hidden ? null : OPENED[token.type]?.(token, to);
      if (node) here.append(token.type === "table_open" ? h("div.table", {}, node) : node);
      open.push(!node ? here : token.type === "source_open" ? node.lastChild : node);
    } else if (token.nesting < 0) open.pop();
    else here.append(...[ALONE[token.type]?.(token, to) ?? token.content].flat());
  }
  return [...root.childNodes];
}

function code(text, language) {
  const shown = h("code", {}, text.replace(/\n$/, ""));
  const take = async () => {
    const said = (await copy(shown.textContent)) ? "Copied" : "Not allowed";
    announce(said);
    fill(button, said);
    setTimeout(() => fill(button, "Copy"), 2000);
  };
  const button = h("button.copy", { type: "button", onclick: take }, "Copy");
  return h("figure.code", {}, h("figcaption", {}, h("span", {}, language || "text"), button), h("pre", {}, shown));
}

function wikilink(inner, { open }) {
  const [target, shown] = inner.split("|");
  const label = shown ?? target;
  if (!open) return h("span.wikilink", {}, label);
  return h("button.wikilink", { type: "button", title: `Open ${target}`, onclick: () => open(target) }, label);
}

/** What models write in place of `[^1]`: it is a citation where there are sources of these numbers. */
function cited(text, to) {
  if (!to.sources.size) return [text];
  const out = [];
  let from = 0;
  for (const found of text.matchAll(/(?<![\p{L}\p{N}\]`])[[【](\d{1,3}(?:, ?\d{1,3}){0,19})[\]】]/gu)) {
    if (!found[1].split(/, ?/).every((label) => to.sources.has(label))) continue;
    out.push(text.slice(from, found.index), citations(found[1], to));
    from = found.index + found[0].length;
  }
  return [...out, text.slice(from)].filter((part) => part !== "");
}

/** `^1`, or `^1, ^2`: each leads to its source. */
function citations(labels, to) {
  return h("sup.cites", {}, labels.split(/, ?/).map((label) => citation(label.replace("^", ""), to)));
}

function citation(label, { open, sources }) {
  const source = sources.get(label) ?? "";
  const target = /\[\[([^\][|\n]{1,300})/.exec(source)?.[1] ?? /https?:\/\/[^\s<>"')\]]{1,2000}/.exec(source)?.[0];
  if (!target || !open) return h("span.cite", {}, label);
  const about = `Source ${label}: ${target}`;
  return h("button.cite", { type: "button", title: about, "aria-label": about, onclick: () => open(target) }, label);
}

/** Only addresses that lead to a page or to a note become links, and they tell the page nothing of where they were. */
function link(address, title, { open }) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    const path = decoded(address).replace(/^\.\//, "");
    if (open && path && !/^[/#?]/.test(path)) return h("button.wikilink", { type: "button", title: title ?? `Open ${path}`, onclick: () => open(path) });
  }
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) return h("span", { title: address });
  return h("a", { href: url.href, title: title ?? null, target: "_blank", rel: "noopener noreferrer" });
}

/** Pictures are not loaded, as that would tell somebody that the text was read; a link leads to them. */
function image(token, to) {
  const label = `Image: ${token.content || token.attrGet("src")}`;
  const node = link(token.attrGet("src") ?? "", token.attrGet("title"), to);
  node.append(label);
  return node;
}

function decoded(address) {
  try {
    return decodeURIComponent(address);
  } catch {
    return address;
  }
}
