// A note, to read.

import { get } from "./api.js";
import { h, iconButton, toast } from "./dom.js";
import { markdown } from "./markdown.js";

/** Opens a note by its path or by the name a link has. */
export async function openNote(name) {
  if (/^https?:/.test(name)) return void window.open(name, "_blank", "noopener,noreferrer");
  const path = name.split("#")[0].split("|")[0].trim();
  try {
    let note = await get(`/vault/note?path=${encodeURIComponent(path)}`).catch(() => null);
    if (!note) {
      const found = await get(`/vault/complete?limit=20&q=${encodeURIComponent(path.replace(/\.md$/, ""))}`);
      const hit = found.find((one) => one.kind === "note");
      if (!hit) return toast(`There is no note “${path}” in this vault`);
      note = await get(`/vault/note?path=${encodeURIComponent(hit.attach)}`);
    }
    const body = note.text.replace(/^---\n[\s\S]*?\n---\n/, "");
    const dialog = h("dialog.sheet", { tabindex: -1, "aria-label": note.path, onclose: () => dialog.remove() },
      h("header", {}, h("h2", {}, note.path), iconButton("close", "Close", () => dialog.close())),
      h("div.sheet-body.words", {}, markdown(body, (link) => { dialog.close(); openNote(link); })));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
    dialog.focus();
  } catch (problem) {
    toast(problem.message, "error");
  }
}
