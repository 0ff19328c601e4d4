// The passages found for an answer: above the answer of a small model, below that of any other.

import { h } from "./dom.js";

/** The passages that were found, word for word where `small`, else their places alone. `open` is called with the path of a note. */
export function sourceList(found, small, open) {
  if (!found?.length) return null;
  const place = (source) => [source.path.replace(/\.md$/, ""), source.heading].filter(Boolean).join(" > ");
  const head = (source) => h("div.source-head", {}, h("span.number", {}, `[${source.number}]`),
    h("button.plain", { type: "button", onclick: () => open(source.path) }, place(source)),
    h("span.score", { title: "similarity to the question" }, source.score.toFixed(2)));
  if (!small) return h("details.found", {}, h("summary", {}, `Sources (${found.length})`), found.map(head));
  return h("section.found", { "aria-label": "Search results" },
    found.map((source) => h("div.passage", {}, head(source), source.text && h("blockquote", {}, source.text))),
    h("p.small-model", {}, "Answer of the small model (often wrong; it read the notes above):"));
}
