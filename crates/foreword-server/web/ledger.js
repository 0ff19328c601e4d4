// Cost and cache over all sessions.

import { get } from "./api.js";
import { h, toast } from "./dom.js";
import { amount, money, share } from "./figures.js";
import { sheet } from "./sheet.js";

export async function showLedger(open) {
  let ledger;
  try {
    ledger = await get("/ledger");
  } catch (problem) {
    return toast(problem.message, "error");
  }
  const all = ledger.all;
  const cells = (sum) => [amount(sum.requests), amount(sum.read + sum.fresh), share(sum.read, sum.read + sum.fresh), amount(sum.output), sum.cost ? money(sum.cost) : "–", sum.saved > 0 ? money(sum.saved) : "–", amount(sum.folds)].map((text) => h("td.number", {}, text));
  const head = (name) => h("thead", {}, h("tr", {}, [name, "requests", "prompt tokens", "cached", "reply tokens", "cost", "saved", "folds"].map((text, at) => h("th", { class: at ? "number" : "" }, text))));
  const most = Math.max(...ledger.days.map((day) => day.read + day.fresh), 1);
  const days = ledger.days.slice(-60).map((day) => {
    const bar = h("div.day", { title: `${day.of}: ${amount(day.read + day.fresh)} tokens, ${share(day.read, day.read + day.fresh)} cached` }, h("i.fresh"), h("i.read"));
    bar.children[0].style.height = `${(day.fresh / most) * 100}%`;
    bar.children[1].style.height = `${(day.read / most) * 100}%`;
    return bar;
  });
  const dialog = sheet("Cost and cache", { wide: true },
    h("div.sheet-body", {}, !all.requests && h("p.empty", {}, "Nothing was sent yet. Each request is counted here: its tokens, what the provider's cache served, what it cost."), h("dl.sums.large", {}, [["requests", amount(all.requests)], ["of all prompt tokens from the cache", share(all.read, all.read + all.fresh)], ["paid", money(all.cost)], ["saved by caches", money(Math.max(all.saved, 0))], ["cache breaks", amount(all.breaks)], ["folds", amount(all.folds)]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("h3", {}, "Prompt tokens by day"), h("div.days", { role: "img", "aria-label": "Prompt tokens by day" }, days), h("ul.legend", {}, h("li", {}, h("i.fresh"), "read anew"), h("li", {}, h("i.read"), "from a cache")),
      h("h3", {}, "Sessions"), h("div.table", {}, h("table", {}, head("session"), h("tbody", {}, ledger.sessions.map((row) => h("tr", {}, h("td", {}, h("button.plain", { type: "button", onclick: () => { dialog.close(); open(row.of); } }, row.title || row.of)), cells(row))))))));
}
