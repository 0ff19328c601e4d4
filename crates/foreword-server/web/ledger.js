// Cost and cache hits of all sessions, and requests forwarded by the gateway.

import { at, get } from "./api.js";
import { h, toast } from "./dom.js";
import { amount, money, share } from "./figures.js";
import { showReport } from "./reportsheet.js";
import { sheet } from "./sheet.js";

const PAGE = 100;

const plain = (text, onclick) => h("button.plain", { type: "button", onclick }, text);
const numbers = (texts) => texts.map((text) => h("td.number", {}, text));
const heading = (names, words = 1) => h("thead", {}, h("tr", {}, names.map((text, place) => h("th", { class: place < words ? "" : "number", scope: "col" }, text))));
const cost = (dollars) => (dollars ? money(dollars) : "–");

async function read(path) {
  try {
    return await get(path);
  } catch (problem) {
    toast(problem.message, "error");
    return null;
  }
}

export async function showLedger(open) {
  const ledger = await read("/ledger");
  if (!ledger) return;
  const all = ledger.all;
  const cells = (sum) => numbers([amount(sum.requests), amount(sum.asides), amount(sum.read + sum.fresh), share(sum.read, sum.read + sum.fresh), amount(sum.output), cost(sum.cost), sum.saved > 0 ? money(sum.saved) : "–", amount(sum.folds)]);
  const most = Math.max(...ledger.days.map((day) => day.read + day.fresh), 1);
  const days = ledger.days.slice(-60).map((day) => {
    const bar = h("div.day", { title: `${day.of}: ${amount(day.read + day.fresh)} tokens, ${share(day.read, day.read + day.fresh)} cached` }, h("i.fresh"), h("i.read"));
    bar.children[0].style.height = `${(day.fresh / most) * 100}%`;
    bar.children[1].style.height = `${(day.read / most) * 100}%`;
    return bar;
  });
  const sums = [["requests", amount(all.requests)], ["of prompt tokens from the cache", share(all.read, all.read + all.fresh)], ["paid", money(all.cost)], all.asides_cost > 0 && ["of which plans and summaries", money(all.asides_cost)], ["saved by caches", money(Math.max(all.saved, 0))], ["cache breaks", amount(all.breaks)], ["folds", amount(all.folds)]].filter(Boolean);
  const rows = ledger.sessions.map((row) => h("tr", {}, h("td", {}, plain(row.title || row.of, () => { dialog.close(); open(row.of); })), cells(row)));
  // Forwarded requests are part of the total.
  const passed = ledger.forwarded.requests > 0 && h("tr.passed", {}, h("td", {}, plain("forwarded by the gateway", showForwarded)), cells(ledger.forwarded));
  const dialog = sheet("Cost and cache", { wide: true },
    h("div.sheet-body", {}, !all.requests && h("p.empty", {}, "No requests yet. This page shows the tokens, cache hits and cost of each request."), h("dl.sums.large", {}, sums.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("p", {}, h("button", { type: "button", onclick: () => { dialog.close(); showReport(); } }, "Every request, breaks and what-if")),
      h("h3", {}, "Prompt tokens by day"), h("div.days", { role: "img", "aria-label": "Prompt tokens by day" }, days), h("ul.legend", {}, h("li", {}, h("i.fresh"), "not cached"), h("li", {}, h("i.read"), "from the cache")),
      h("h3", {}, "Sessions"), h("div.table", {}, h("table", {}, heading(["session", "requests", "plans, summaries", "prompt tokens", "cached", "reply tokens", "cost", "saved", "folds"]), h("tbody", {}, rows, passed), h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "all"), cells(all)))))));
}

/** Requests that the gateway forwarded unchanged (as a proxy), the latest first. */
async function showForwarded() {
  const first = await read(`/forwarded?limit=${PAGE}`);
  if (!first) return;
  const row = (passed) => h("tr", {}, h("td", {}, plain(new Date(passed.at_ms).toLocaleString(), () => showBody(passed.number))), h("td", {}, passed.model), h("td", {}, passed.front), numbers([passed.status ?? "–", amount(passed.read + passed.write + passed.uncached), share(passed.read, passed.read + passed.write + passed.uncached), amount(passed.output), cost(passed.cost)]));
  const body = h("tbody", {}, first.map(row));
  let last = first.at(-1)?.number;
  const more = h("button", { type: "button", hidden: first.length < PAGE, onclick: async () => {
    const next = await read(`/forwarded?limit=${PAGE}&before=${last}`);
    if (!next) return;
    body.append(...next.map(row));
    last = next.at(-1)?.number ?? last;
    more.hidden = next.length < PAGE;
  } }, "Show earlier requests");
  sheet("Forwarded requests", { wide: true, sub: "Requests that the gateway sent to the provider unchanged, byte for byte" },
    h("div.sheet-body", {}, h("div.table", {}, h("table", {}, heading(["when", "model", "API", "status", "prompt tokens", "cached", "reply tokens", "cost"], 3), body)), more));
}

async function showBody(number) {
  const passed = await read(at("forwarded", number));
  if (passed) sheet(`Request ${number}`, { wide: true, sub: `${passed.model}, exact bytes` }, h("pre.wire", { tabindex: 0 }, passed.body));
}
