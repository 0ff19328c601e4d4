// Why an answer ended early or is missing, and what the user can do.

import { h, icon } from "./dom.js";

/** Messages for answers that ended early. */
const EARLY = {
  length: "The answer reached the length limit.",
  repeating: "The answer was ended because the model repeated itself.",
  stopped: "You stopped this answer.",
  refused: "The model or its provider refused to continue.",
  interrupted: "Foreword stopped before the answer was complete.",
};

/** A line below an incomplete answer; `proceed` continues it while it is the last one. */
export function earlyEnd(why, proceed) {
  return h("p.early-end", { dataset: { why: why ?? "" } }, h("span", {}, EARLY[why] ?? "This answer is incomplete."), " ",
    h("button.plain.of-last", { type: "button", onclick: proceed, title: "Ask the model to continue the answer" }, "Continue"));
}

/** A permanent error card in the conversation. `acts` are pairs of a button label and its action. */
export function errorCard(title, problem, acts) {
  const [cause, details] = parted(problem);
  return h("div.error-card", { role: "group", "aria-label": title }, h("p.error-title", { role: "alert" }, icon("alert"), h("b", {}, title)), h("p.error-cause", {}, cause),
    details && h("details", {}, h("summary", {}, "Details"), h("pre", { tabindex: 0 }, details)),
    h("div.actions.open", {}, acts.map(([label, act], at) => h("button", { class: at ? "plain" : "primary", type: "button", onclick: act }, label))));
}

/** A short form of a message, and the whole message if it is longer. */
function parted(problem) {
  const text = problem.replace(/^(no answer from the model|the model gave no answer): /, "");
  const cause = text.length > 240 ? `${text.slice(0, 240).replace(/\s+\S*$/, "")} …` : text;
  return [cause.charAt(0).toUpperCase() + cause.slice(1), cause === text ? null : text];
}
