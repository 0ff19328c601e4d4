// Shows a note, and attaches it or some of its lines.

import { get } from "./api.js";
import { fill, h, toast } from "./dom.js";
import { markdown } from "./markdown.js";
import { sheet } from "./sheet.js";

let attachTo = null;

/** Receives attachments made from a note. */
export function attaching(to) {
  attachTo = to;
}

/** Opens a note by path or link name, or a web page by URL. */
export async function openNote(name) {
  if (/^https?:/.test(name)) return void window.open(name, "_blank", "noopener,noreferrer");
  try {
    show(await get(`/vault/note?path=${encodeURIComponent(name)}`));
  } catch (problem) {
    if (problem.status === 404) toast(`Note “${name}” not found in this vault.`);
    else toast(problem.message, "error");
  }
}

function show(note) {
  const read = note.text.replace(/^---\n[\s\S]*?\n---\n/, "");
  const body = h("div.sheet-body");
  let act = () => pick();
  const take = (what) => {
    dialog.close();
    attachTo?.(what);
  };
  const lines = h("button.plain", { type: "button", onclick: () => act() }, "Choose lines");
  const dialog = sheet(note.path, {}, h("div.sheet-tools", {}, h("button.primary", { type: "button", onclick: () => take(note.path) }, "Attach"), lines), body);
  fill(body, h("div.words", {}, markdown(read, (link) => { dialog.close(); openNote(link); })));

  /** Numbered lines: a click selects one, a second click selects a range. */
  function pick() {
    let from = null;
    const rows = note.text.replace(/\n$/, "").split("\n").slice(0, 5000).map((text, index) => h("button.line", { type: "button", "aria-pressed": "false", "aria-label": `Line ${index + 1}: ${text}`, onclick: () => choose(index) }, h("span.number", {}, index + 1), h("span", {}, text || " ")));
    const choose = (index) => {
      const [first, last] = from === null ? [index, index] : [Math.min(from, index), Math.max(from, index)];
      from = from === null ? index : null;
      rows.forEach((row, at) => row.setAttribute("aria-pressed", String(at >= first && at <= last)));
      fill(lines, first === last ? `Attach line ${first + 1}` : `Attach lines ${first + 1} to ${last + 1}`);
      act = () => take(`${note.path}#L${first + 1}-L${last + 1}`);
    };
    act = () => {};
    fill(lines, "Click the first and the last line");
    fill(body, h("div.lines", {}, rows));
  }
}
