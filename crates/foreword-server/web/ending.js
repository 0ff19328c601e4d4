// Why an answer ended early, or why a question has none, and what can be done about it.

import { h, icon } from "./dom.js";

/** What is said of an answer that ended early. */
const EARLY = {
  length: "The answer reached the length limit.",
  repeating: "The model repeated itself, so its answer was ended.",
  stopped: "You stopped this answer.",
  refused: "The model or its provider refused to go on.",
  interrupted: "Foreword ended before the answer was complete.",
};

/** A line below an answer that is not complete; `proceed` goes on with it, while it is the last one. */
export function earlyEnd(why, proceed) {
  return h("p.early-end", { dataset: { why: why ?? "" } }, h("span", {}, EARLY[why] ?? "This answer is not complete."), " ",
    h("button.plain.of-last", { type: "button", onclick: proceed, title: "Asks the model to go on where the answer ended" }, "Continue"));
}

/** A card in the conversation that stays: what went wrong, and what can be done. `acts` are pairs of a label and what it does. */
export function errorCard(title, problem, acts) {
  const [cause, details] = parted(problem);
  return h("div.error-card", { role: "group", "aria-label": title }, h("p.error-title", { role: "alert" }, icon("alert"), h("b", {}, title)), h("p.error-cause", {}, cause),
    details && h("details", {}, h("summary", {}, "Details"), h("pre", { tabindex: 0 }, details)),
    h("div.actions.open", {}, acts.map(([label, act], at) => h("button", { class: at ? "plain" : "primary", type: "button", onclick: act }, label))));
}

/** The first words of a message, as far as a person reads at once, and all of it where that is more. */
function parted(problem) {
  const text = problem.replace(/^the model gave no answer: /, "");
  const cause = text.length > 240 ? `${text.slice(0, 240).replace(/\s+\S*$/, "")} …` : text;
  return [cause.charAt(0).toUpperCase() + cause.slice(1), cause === text ? null : text];
}
