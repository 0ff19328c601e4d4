// Markdown to nodes. Every piece of text becomes a text node and every element one of a few kinds, so nothing that a note or a model says
// can become anything else. Each block and each mark is looked at once; what is nested deeper than a person would read stays text.

import { announce, copy, fill, h } from "./dom.js";

const DEEPEST = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
// `[^1]: [[Garden/Beds]]`, as it stands under an answer.
const SOURCE = /^ {0,3}\[\^([^\]\s]{1,40})\]:\s+(\S.*)$/;

/** The nodes of a markdown text. `open` is called with the name in a `[[link]]`, and with what a citation leads to. */
export function markdown(text, open = null) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  return blocks(lines, { open, sources: sourcesOf(lines) }, 0);
}

/** What each citation stands for; they are needed before the list under the text is reached. */
function sourcesOf(lines) {
  const sources = new Map();
  let fence = null;
  for (const line of lines) {
    const mark = FENCE.exec(line)?.[1];
    if (mark && fence === null) fence = mark[0];
    else if (mark && mark[0] === fence) fence = null;
    const source = fence === null && SOURCE.exec(line);
    if (source) sources.set(source[1], source[2]);
  }
  return sources;
}

function blocks(lines, to, depth) {
  const out = [];
  let at = 0;
  const paragraph = [];
  const flush = () => {
    if (paragraph.length) out.push(h("p", {}, inline(paragraph.join("\n"), to)));
    paragraph.length = 0;
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence) {
      flush();
      const body = [];
      const close = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
      for (at += 1; at < lines.length && !close.test(lines[at]); at += 1) body.push(lines[at]);
      at += 1;
      out.push(code(body.join("\n"), fence[2]));
      continue;
    }
    if (SOURCE.test(line)) {
      flush();
      const rows = [];
      for (; at < lines.length && SOURCE.test(lines[at]); at += 1) rows.push(SOURCE.exec(lines[at]));
      out.push(h("ul.sources", {}, rows.map(([, label, source]) => h("li", {}, h("span.number", {}, label), h("span", {}, inline(source, to))))));
      continue;
    }
    const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (heading) {
      flush();
      out.push(h(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(heading[2], to)));
      at += 1;
      continue;
    }
    if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      flush();
      out.push(h("hr"));
      at += 1;
      continue;
    }
    if (/^ {0,3}>/.test(line) && depth < DEEPEST) {
      flush();
      const body = [];
      for (; at < lines.length && /^ {0,3}>/.test(lines[at]); at += 1) body.push(lines[at].replace(/^ {0,3}> ?/, ""));
      out.push(h("blockquote", {}, blocks(body, to, depth + 1)));
      continue;
    }
    if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] ?? "")) {
      flush();
      const rows = [];
      for (; at < lines.length && /^\s*\|.*\|\s*$/.test(lines[at]); at += 1) rows.push(lines[at]);
      out.push(table(rows, to));
      continue;
    }
    const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (item && depth < DEEPEST) {
      flush();
      const list = takeList(lines, at, to, depth);
      out.push(list.node);
      at = list.at;
      continue;
    }
    if (!line.trim()) flush();
    else paragraph.push(line.trim());
    at += 1;
  }
  flush();
  return out;
}

function takeList(lines, start, to, depth) {
  const first = /^(\s*)([-*+]|\d{1,9}[.)])\s+/.exec(lines[start]);
  const ordered = /\d/.test(first[2]);
  const indent = first[1].length;
  const items = [];
  let at = start;
  while (at < lines.length) {
    const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(lines[at]);
    if (!item || item[1].length !== indent || /\d/.test(item[2]) !== ordered) break;
    const body = [item[3]];
    const inner = indent + item[2].length + 1;
    for (at += 1; at < lines.length; at += 1) {
      const deep = lines[at].length - lines[at].trimStart().length;
      if (lines[at].trim() ? deep < Math.min(inner, indent + 2) : (/^\s*/.exec(lines[at + 1] ?? "")[0].length < indent + 2)) break;
      body.push(lines[at].slice(Math.min(inner, deep)));
    }
    const task = /^\[([ xX])\]\s+/.exec(body[0]);
    if (task) body[0] = body[0].slice(task[0].length);
    let nodes = blocks(body, to, depth + 1);
    if (nodes[0]?.tagName === "P") nodes = [...nodes[0].childNodes, ...nodes.slice(1)];
    const box = task && h("input", { type: "checkbox", disabled: true, checked: task[1] !== " " });
    items.push(h("li", { class: task ? "task" : "" }, box, nodes));
    while (at < lines.length && !lines[at].trim() && /^\s*([-*+]|\d{1,9}[.)])\s/.test(lines[at + 1] ?? "")) at += 1;
  }
  const number = ordered ? Number.parseInt(first[2], 10) : 1;
  return { node: h(ordered ? "ol" : "ul", ordered && number !== 1 ? { start: number } : {}, items), at };
}

function table(rows, to) {
  const cells = (row) => row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const row = (text, tag) => h("tr", {}, cells(text).map((cell) => h(tag, {}, inline(cell, to))));
  const body = rows.slice(2).map((text) => row(text, "td"));
  return h("div.table", {}, h("table", {}, h("thead", {}, row(rows[0], "th")), h("tbody", {}, body)));
}

function code(text, language) {
  const take = async () => {
    const said = (await copy(text)) ? "Copied" : "Not allowed";
    announce(said);
    fill(button, said);
    setTimeout(() => fill(button, "Copy"), 2000);
  };
  const button = h("button.copy", { type: "button", onclick: take }, "Copy");
  return h("figure.code", {}, h("figcaption", {}, h("span", {}, language || "text"), button), h("pre", {}, h("code", {}, text)));
}

// In the order in which they are tried at one place. None of them can run on over more than one paragraph.
const MARKS = [
  [/`([^`\n]+)`/y, (found) => h("code", {}, found[1])],
  [/!?\[\[([^\][\n]{1,300})\]\]/y, (found, to) => wikilink(found[1], to)],
  [/\[(\^[^\]\s,]{1,40}(?:, ?\^?[^\]\s,]{1,40}){0,19})\]/y, (found, to) => citations(found[1], to)],
  // What models write in its place; it is one where there is a source of that number.
  [/(?<![\p{L}\p{N}\]`])[[【](\d{1,3}(?:, ?\d{1,3}){0,19})[\]】](?!\()/uy, (found, to) => found[1].split(/, ?/).every((label) => to.sources.has(label)) && citations(found[1], to)],
  [/\[([^\][\n]{1,500})\]\((\S{1,2000}?)\)/y, (found, to) => link(found[1], found[2], to)],
  [/\*\*(?=\S)([^\n]{1,2000}?\S)\*\*/y, (found, to) => h("strong", {}, inline(found[1], to))],
  [/~~(?=\S)([^\n]{1,2000}?\S)~~/y, (found, to) => h("del", {}, inline(found[1], to))],
  [/\*(?=[^\s*])([^*\n]{1,2000}?)\*/y, (found, to) => h("em", {}, inline(found[1], to))],
  [/(?<![\p{L}\p{N}])_(?=[^\s_])([^_\n]{1,2000}?)_(?![\p{L}\p{N}])/uy, (found, to) => h("em", {}, inline(found[1], to))],
  [/https?:\/\/[^\s<>"')\]]{1,2000}/y, (found) => link(found[0], found[0])],
];
const STARTS = /[`![*~_h【]/g;

function inline(text, to) {
  const out = [];
  let from = 0;
  STARTS.lastIndex = 0;
  let tries = 0;
  for (let start = STARTS.exec(text); start; start = STARTS.exec(text)) {
    const at = start.index;
    if ((tries += 1) > 5000) break;
    for (const [mark, make] of MARKS) {
      mark.lastIndex = at;
      const found = mark.exec(text);
      const made = found && make(found, to);
      if (!made) continue;
      if (at > from) out.push(...lines(text.slice(from, at)));
      out.push(made);
      from = at + found[0].length;
      STARTS.lastIndex = from;
      break;
    }
  }
  if (from < text.length) out.push(...lines(text.slice(from)));
  return out;
}

function lines(text) {
  return text.split("\n").flatMap((line, at) => (at ? [h("br"), line] : [line])).filter((part) => part !== "");
}

function wikilink(inner, { open }) {
  const [target, shown] = inner.split("|");
  const label = shown ?? target;
  if (!open) return h("span.wikilink", {}, label);
  return h("button.wikilink", { type: "button", title: `Open ${target}`, onclick: () => open(target) }, label);
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

/** Only addresses that lead to a page become links, and they tell the page nothing of where they were. */
function link(label, address) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    return `${label} (${address})`;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return `${label} (${address})`;
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, label);
}
