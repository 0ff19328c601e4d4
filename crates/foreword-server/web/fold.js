// The history of a session: folds (compaction), summaries and pins.

import { at, del, get, post } from "./api.js";
import { fill, h, icon, iconButton, toast } from "./dom.js";
import { amount, money } from "./figures.js";
import { sheet } from "./sheet.js";

/** Previews a fold and requests it. */
export async function openFold(session, done) {
  let fold, settings;
  try {
    [fold, settings] = await Promise.all([get(at("sessions", session, "fold")), get(at("sessions", session, "settings"))]);
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const nothing = !fold.messages.length && !fold.items.length;
  const focus = h("input", { type: "text", maxlength: 1000, placeholder: "focus of the summary (optional)", "aria-label": "Focus of the summary" });
  const go = async (event) => {
    event.preventDefault();
    try {
      await post(at("sessions", session, "fold"), focus.value.trim() ? { focus: focus.value.trim() } : {});
      dialog.close();
      toast("The conversation will be compacted with your next message. You can undo this.");
      done();
    } catch (problem) {
      toast(problem.message, "error");
    }
  };
  const dialog = sheet("Fold (compact) the conversation", { sub: "Older messages are replaced by a summary. They stay in the store, and you can undo a fold." },
    h("form.sheet-body.form", { onsubmit: go },
      h("dl.sums", {}, [["prompt now", amount(fold.before)], ["after the fold", amount(fold.after)], ["messages removed", fold.messages.length], ["items removed", fold.items.length]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))),
      nothing && h("p.empty", {}, "Nothing to fold yet: the last turns always stay."),
      fold.messages.length > 0 && h("section", {}, h("h3", {}, "Messages that become the summary"), h("ul.said", {}, fold.messages.map((message) => h("li", {}, h("span.who", {}, `${who(message.role)} · ${message.id}`), h("span", {}, message.text))))),
      fold.items.length > 0 && h("section", {}, h("h3", {}, "Items that are removed"), h("ul.remarks", {}, fold.items.map((item) => h("li", {}, item.item)))),
      fold.summary && h("section", {}, h("h3", {}, "The summary"), h("pre.wire", {}, fold.summary)),
      settings.history === "managed" && focus,
      h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Fold with the next message"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
}

const who = (role) => ({ user: "you", assistant: "model", tool: "tool" })[role] ?? role;

/** A summary in which `[m12]` links to the message. */
function sourced(text, messages, to) {
  return text.split(/(\[m\d+(?:\.\d+)?(?:, ?m\d+(?:\.\d+)?)*\])/).map((part) => {
    if (!/^\[m\d/.test(part)) return part;
    const names = part.slice(1, -1).split(/, ?/);
    return names.map((name) => h("button.cite", { type: "button", title: `Source: ${name}`, onclick: () => to(name) }, `[${name}]`));
  });
}

/** Shows the summary of older messages, the source of each line, and how each summary was written. */
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
    fill(source, h("div.segment-head", {}, message ? `${who(message.role)}, turn ${message.turn} · ${name}` : name), h("pre", {}, message ? message.text : "A tool output, or a message of another branch. The model can recall it."));
    source.scrollIntoView({ block: "nearest" });
  };
  sheet("Summary of older messages", { wide: true }, h("div.sheet-body", {},
    found.shown ? h("pre.wire.summary", {}, sourced(found.shown, messages, to)) : h("p.empty", {}, "All messages are in the prompt; there is no summary yet."), source,
    found.views.length > 0 && h("section", {}, h("h3", {}, "How it was written", h("span.count", {}, found.views.length)), found.views.map((view) => written(view, messages, to)))));
}

function written(view, messages, to) {
  const { survived, missing } = view.check;
  const left = view.sections.flatMap((section) => section.unfounded);
  return h("details.item", {}, h("summary.item-head", {}, h("span.item-name", {}, view.template ?? "no template"),
    view.why ? h("span.badge.break", {}, "not written") : h("span.count", {}, `${amount(view.figures.after)} tokens summarize ${amount(view.figures.before)}`)),
    h("p", {}, `${new Date(view.at_ms).toLocaleString()}${view.model ? ` · by ${view.model}` : ""}${view.figures.cost > 0 ? ` · ${money(view.figures.cost)}` : ""}`),
    view.why && h("p.cut", {}, typeof view.why === "string" ? view.why.replaceAll("_", " ") : Object.entries(view.why).map(([kind, why]) => `${kind.replaceAll("_", " ")}${typeof why === "string" ? `: ${why}` : ""}`).join("; ")),
    survived.length + missing.length > 0 && h("p", {}, `${survived.length} of ${survived.length + missing.length} exact facts are in the summary; the others are listed below it.`),
    view.summary && h("pre", {}, sourced(view.summary, messages, to)),
    left.length > 0 && [h("p", {}, "Removed, because no message supports it:"), h("ul.remarks", {}, left.map((sentence) => h("li", {}, sentence)))]);
}

/** The pins of a session. */
export async function pinsOf(session) {
  return get(at("sessions", session, "pins")).catch(() => null);
}

export async function pin(session, what) {
  await post(at("sessions", session, "pins"), { what });
  toast("Pinned: kept in every fold.");
}

export async function unpin(session, what) {
  await del(`${at("sessions", session, "pins")}?what=${encodeURIComponent(what)}`);
}

/** The list of pins. */
export function pinList(session, pins, done) {
  if (!pins?.length) return h("p.none", {}, "No pins. A pinned message or note is kept in every fold.");
  return h("ul.pins", {}, pins.map((one) => h("li", {}, icon("pin"), h("span", {}, one.text ?? one.what.replace(/^(note|url):/, "")),
    iconButton("close", `Unpin ${one.what}`, () => unpin(session, one.what).then(done).catch((problem) => toast(problem.message, "error"))))));
}
