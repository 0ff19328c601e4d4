// The settings of a session: model, mode, history and approvals.

import { at, get, patch } from "./api.js";
import { fill, h, toast } from "./dom.js";
import { amount } from "./figures.js";
import { choice, field, sheet } from "./sheet.js";

export const MODES = [["chat", "chat: conversation with tools"], ["qa", "qa: search the notes first, cite them"], ["plan", "plan: choose all tools at once"], ["agent", "agent: work until the task is done"]];
const ASKING = [["tool", "tool default"], ["always", "before every tool"], ["never", "never"]];

/** The choices for older messages: all of them, or a summary made from a template. */
export async function histories() {
  const templates = (await get("/templates").catch(() => [])).filter((template) => !template.hidden && template.trusted);
  // The one that is used where none is named comes first.
  templates.sort((a, b) => Number(b.default) - Number(a.default) || a.name.localeCompare(b.name));
  return { options: [["", "full history"], ...templates.map(({ name }) => [name, `Endless: ${name}`])], about: (name) => templates.find((template) => template.name === name)?.description ?? null };
}

export async function openSettings(session, done) {
  let settings, models, history;
  try {
    [settings, models, history] = await Promise.all([get(at("sessions", session, "settings")), get("/models").catch(() => []), histories()]);
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const names = models.map(({ name }) => [name, name]);
  if (!names.some(([name]) => name === settings.model)) names.unshift([settings.model, settings.model]);
  const options = history.options;
  if (settings.template && !options.some(([name]) => name === settings.template)) options.push([settings.template, `Endless: ${settings.template}`]);
  const model = choice(names, settings.model, { name: "model" });
  const mode = choice(MODES, settings.mode, { name: "mode" });
  const asking = choice(ASKING, settings.asking, { name: "asking" });
  const about = h("span.field-about", { "aria-live": "polite" });
  const explain = () => fill(about, endless.value ? history.about(endless.value) ?? "" : "All messages are sent until the budget is full; then older ones are compacted (folded).",
    endless.value && [" ", h("button.plain", { type: "button", onclick: (event) => { event.preventDefault(); showTemplate(endless.value); } }, "Read the template")]);
  const endless = choice(options, settings.template ?? "", { name: "history", onchange: explain });
  explain();
  const save = async (event) => {
    event.preventDefault();
    const set = {};
    if (model.value !== settings.model) set.model = model.value;
    if (mode.value !== settings.mode) set.mode = mode.value;
    if (asking.value !== settings.asking) set.asking = asking.value;
    if (endless.value !== (settings.template ?? "")) Object.assign(set, endless.value ? { history: "managed", template: endless.value } : { history: "full" });
    try {
      if (Object.keys(set).length) await patch(at("sessions", session, "settings"), set);
      dialog.close();
      toast("Applies from your next message.");
      done();
    } catch (problem) {
      toast(problem.message, "error");
    }
  };
  const dialog = sheet("Settings of this session", { sub: `${settings.agent ? `agent ${settings.agent}` : "default agent"} · ${settings.layout} layout · context window of ${amount(settings.window)} tokens` },
    h("form.sheet-body.form", { onsubmit: save },
      field("Model", model, "After a switch, the next request cannot use the cache."), field("Mode", mode),
      h("label.field", {}, h("span.field-name", {}, "Older messages"), endless, about), field("Ask before tools", asking),
      h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Save"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
}

/** A template as it is written. */
export async function showTemplate(name) {
  try {
    const template = await get(at("templates", name));
    sheet(`Template ${template.name}`, { sub: template.path ?? "built in" }, h("div.sheet-body", {},
      template.flaws.length > 0 && h("ul.remarks.warn", {}, template.flaws.map((flaw) => h("li", {}, `line ${flaw.line}: ${flaw.what}`))),
      h("pre.wire", {}, template.text)));
  } catch (problem) {
    toast(problem.message, "error");
  }
}
