// Edits the rules and references of an agent. Each is a file in the vault, so a change names the version it is based on.

import { at, del, patch, post } from "./api.js";
import { fill, h, toast } from "./dom.js";
import { choice, field, sheet } from "./sheet.js";

const INCLUDE = [["always", "Always"], ["manual", "Manual"], ["agent", "Agent"]];
const INCLUDED = { always: "Added to every new session.", manual: "Added when you add it.", agent: "Added when it matches the question." };

const three = (number) => String(number ?? 500).padStart(3, "0");

/** The fields of an item, and what they hold. */
function fields(item) {
  const about = h("span.field-about");
  const explain = () => fill(about, INCLUDED[include.value]);
  const include = choice(INCLUDE, item?.include ?? "manual", { onchange: explain });
  explain();
  const priority = h("input.priority-field", { type: "text", inputMode: "numeric", pattern: "[0-9]{1,3}", maxLength: 3, required: true, value: three(item?.priority), title: "000 comes first, 999 last", "aria-label": "Priority, 000 to 999" });
  const description = h("input", { type: "text", maxLength: 1000, value: item?.description ?? "" });
  const text = h("textarea", { rows: 6, required: true, value: item?.text ?? "" });
  const node = [h("div.field-row", {}, h("label.field", {}, h("span.field-name", {}, "Include"), include, about), field("Priority", priority, "000 comes first")), field("About", description, "Used to match this to your questions."), field("What the model is told", text)];
  const value = () => ({ include: include.value, priority: Number(priority.value), description: description.value, text: text.value });
  return { node, value };
}

/** A form in which an item is changed; `done` is called when it was. */
export function itemForm(agent, item, done) {
  const { node, value } = fields(item);
  const headers = { "if-match": `"${item.version}"` };
  const path = at("agents", agent, "items", item.item);
  const doing = async (what, said) => {
    try {
      await what();
      toast(said);
    } catch (problem) {
      toast(problem.message, "error");
      // Whoever changed it meanwhile is shown.
      if (problem.status !== 412) return;
    }
    done();
  };
  const save = (event) => {
    event.preventDefault();
    doing(() => patch(path, value(), headers), `${item.name} saved in the vault.`);
  };
  const remove = () => confirm(`Remove ${item.name} from the agent ${agent}? Its file is deleted; the vault's undo keeps a copy.`) && doing(() => del(path, headers), `${item.name} removed.`);
  return h("form.form", { onsubmit: save, oninput: (event) => { event.currentTarget.dataset.begun = "yes"; } }, node,
    h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Save"), h("button.plain.bad", { type: "button", onclick: remove }, "Remove from the agent")));
}

/** A new rule or reference. */
export function newItem(agent, kind, done) {
  const name = h("input", { type: "text", required: true, maxLength: 100, placeholder: kind === "rule" ? "tone" : "prices" });
  const { node, value } = fields(null);
  const save = async (event) => {
    event.preventDefault();
    try {
      await post(at("agents", agent, "items"), { item: `${kind}:${name.value.trim()}`, ...value() });
      dialog.close();
      toast(`${name.value.trim()} saved in the vault.`);
      done();
    } catch (problem) {
      toast(problem.message, "error");
    }
  };
  const dialog = sheet(`New ${kind}`, { sub: `for agent ${agent}: a file in Foreword/Agents/${agent}/${kind}s` },
    h("form.sheet-body.form", { onsubmit: save }, field("Name", name), node, h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Save"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  name.focus();
}

/** A new agent. */
export function newAgent(done) {
  const name = h("input", { type: "text", required: true, maxLength: 100, placeholder: "editor" });
  const prompt = h("textarea", { rows: 5, required: true, placeholder: "You edit short texts. Keep the writer's voice." });
  const save = async (event) => {
    event.preventDefault();
    try {
      await post("/agents", { name: name.value.trim(), system_prompt: prompt.value });
      dialog.close();
      done(name.value.trim());
    } catch (problem) {
      toast(problem.message, "error");
    }
  };
  const dialog = sheet("New agent", { sub: "A folder in Foreword/Agents of the vault" },
    h("form.sheet-body.form", { onsubmit: save }, field("Name", name), field("System prompt", prompt), h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Save"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  name.focus();
}
