// The history of a session: what a fold would take, what stands for it, and what is kept through it.

import { at, del, get, post } from "./api.js";
import { fill, h, icon, iconButton, toast } from "./dom.js";
import { amount, money } from "./figures.js";
import { sheet } from "./sheet.js";

/** What a fold would do, and doing it. */
export async function openFold(session, done) {
  let fold, settings;
  try {
    [fold, settings] = await Promise.all([get(at("sessions", session, "fold")), get(at("sessions", session, "settings"))]);
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const nothing = !fold.messages.length && !fold.items.length;
  const focus = h("input", { type: "text", maxlength: 1000, placeholder: "what matters most (optional)", "aria-label": "What the summary is to look at above all" });
  const go = async (event) => {
    event.preventDefault();
    try {
      await post(at("sessions", session, "fold"), focus.value.trim() ? { focus: focus.value.trim() } : {});
      dialog.close();
      toast("Your next message folds. It can be undone.");
      done();
    } catch (problem) {
      toast(problem.message, "error");
    }
  };
  const dialog = sheet("What a fold would take", { sub: "Nothing is lost: all of it stays in the record, and a fold can be undone." },
    h("form.sheet-body.form", { onsubmit: go },
      h("dl.sums", {}, [["prompt now", amount(fold.before)], ["after folding", amount(fold.after)], ["messages leave", fold.messages.length], ["items leave", fold.items.length]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))),
      nothing && h("p.empty", {}, "There is little to fold yet: the last turns always stay."),
      fold.messages.length > 0 && h("section", {}, h("h3", {}, "These messages would become the summary"), h("ul.said", {}, fold.messages.map((message) => h("li", {}, h("span.who", {}, `${who(message.role)} · ${message.id}`), h("span", {}, message.text))))),
      fold.items.length > 0 && h("section", {}, h("h3", {}, "These items would leave"), h("ul.remarks", {}, fold.items.map((item) => h("li", {}, item.item)))),
      fold.summary && h("section", {}, h("h3", {}, "This would stand for them"), h("pre.wire", {}, fold.summary)),
      settings.history === "managed" && focus,
      h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Fold with the next message"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
}

const who = (role) => ({ user: "you", assistant: "model", tool: "tool" })[role] ?? role;

/** A summary whose `[m12]` lead to the messages they name. */
function sourced(text, messages, to) {
  return text.split(/(\[m\d+(?:\.\d+)?(?:, ?m\d+(?:\.\d+)?)*\])/).map((part) => {
    if (!/^\[m\d/.test(part)) return part;
    const names = part.slice(1, -1).split(/, ?/);
    return names.map((name) => h("button.cite", { type: "button", title: `Where this is from: ${name}`, onclick: () => to(name) }, `[${name}]`));
  });
}

/** What stands for older messages, where each line is from, and what came of each try to write it. */
export async function openSummaries(session, messages) {
  let found;
  try {
    found = await get(at("sessions", session, "summaries"));
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const source = h("div.source", { "aria-live": "polite" });
  const to = (name) => {
    const message = messages.find((one) => one.id === name);
    fill(source, h("div.segment-head", {}, message ? `${who(message.role)}, turn ${message.turn} · ${name}` : name), h("pre", {}, message ? message.text : "A tool's output or a message of another branch; the model can recall it."));
    source.scrollIntoView({ block: "nearest" });
  };
  sheet("What stands for older messages", { wide: true }, h("div.sheet-body", {},
    found.shown ? h("pre.wire.summary", {}, sourced(found.shown, messages, to)) : h("p.empty", {}, "All messages are in the prompt; there is no summary yet."), source,
    found.views.length > 0 && h("section", {}, h("h3", {}, "How it came about", h("span.count", {}, found.views.length)), found.views.map((view) => written(view, messages, to)))));
}

function written(view, messages, to) {
  const { survived, missing } = view.check;
  const left = view.sections.flatMap((section) => section.unfounded);
  return h("details.item", {}, h("summary.item-head", {}, h("span.item-name", {}, view.template ?? "no template"),
    view.why ? h("span.badge.break", {}, "not written") : h("span.count", {}, `${amount(view.figures.after)} tokens stand for ${amount(view.figures.before)}`)),
    h("p", {}, `${new Date(view.at_ms).toLocaleString()}${view.model ? ` · by ${view.model}` : ""}${view.figures.cost > 0 ? ` · ${money(view.figures.cost)}` : ""}`),
    view.why && h("p.cut", {}, typeof view.why === "string" ? view.why.replaceAll("_", " ") : Object.entries(view.why).map(([kind, why]) => `${kind.replaceAll("_", " ")}${typeof why === "string" ? `: ${why}` : ""}`).join("; ")),
    survived.length + missing.length > 0 && h("p", {}, `${survived.length} of ${survived.length + missing.length} exact things survived in its words; the rest is kept below it.`),
    view.summary && h("pre", {}, sourced(view.summary, messages, to)),
    left.length > 0 && [h("p", {}, "Left out, because nobody said it:"), h("ul.remarks", {}, left.map((sentence) => h("li", {}, sentence)))]);
}

/** What is kept through every fold. */
export async function pinsOf(session) {
  return get(at("sessions", session, "pins")).catch(() => null);
}

export async function pin(session, what) {
  await post(at("sessions", session, "pins"), { what });
  toast("Kept through every fold.");
}

export async function unpin(session, what) {
  await del(`${at("sessions", session, "pins")}?what=${encodeURIComponent(what)}`);
}

/** The list of what is pinned. */
export function pinList(session, pins, done) {
  if (!pins?.length) return h("p.none", {}, "Nothing is pinned. A pinned message or note stays through every fold.");
  return h("ul.pins", {}, pins.map((one) => h("li", {}, icon("pin"), h("span", {}, one.text ?? one.what.replace(/^(note|url):/, "")),
    iconButton("close", `Unpin ${one.what}`, () => unpin(session, one.what).then(done).catch((problem) => toast(problem.message, "error"))))));
}
