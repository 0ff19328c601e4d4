// A chart with a stacked bar per request: layers, cached prefix, budget line and cache breaks.

import { at, del, get } from "./api.js";
import { fill, h, refill, svg, toast } from "./dom.js";
import { amount, money, share, short } from "./figures.js";
import { LAYERS, explained, layerClass, legend } from "./layers.js";
import { openFold, openSummaries, pinList, pinsOf } from "./fold.js";
import { showRequest } from "./request.js";

const HEIGHT = 190;
const BAR = 22;
const GAP = 8;
// From the bottom up, as a provider's cache reads a prompt.
const ORDER = [0, 1, 2, 4, 3, 5];

export class Picture {
  constructor() {
    this.node = h("div.picture");
    this.asked = 0;
  }

  async show(session, running = false) {
    this.asked += 1;
    const { asked } = this;
    if (this.session !== session) this.shown = null;
    this.session = session;
    if (!session) return fill(this.node, h("p.empty", {}, "Each request is shown here as a bar: its tokens by layer, and the part read from the provider's cache."), explained());
    const read = (what) => get(at("sessions", session, what)).catch(() => null);
    const [bars, sum, pins] = await Promise.all([read("requests"), read("ledger"), running ? null : pinsOf(session)]);
    // Another session was opened while this one was read.
    if (this.asked !== asked) return;
    // Unchanged content keeps its nodes and scroll position.
    const now = JSON.stringify([bars, sum, pins]);
    if (this.shown === now) return;
    this.shown = now;
    if (!bars) return fill(this.node, h("p.empty", {}, "Failed to read the requests of this session."));
    if (!bars.length) return fill(this.node, h("p.empty", {}, "No requests yet."));
    const last = bars.at(-1);
    const before = this.node.querySelector(".chart");
    const [many, left] = [before?.dataset.bars, before?.scrollLeft];
    refill(this.node, sum && this.sums(sum.history, sum), h("div.chart", { tabindex: 0, role: "group", "aria-label": "Requests of this session", dataset: { bars: `${session} ${bars.length}` } }, this.chart(session, bars)), legend(), this.latest(session, last), this.breaks(session, bars), this.history(session, pins));
    const chart = this.node.querySelector(".chart");
    // Scroll to a new bar, otherwise keep the position.
    chart.scrollLeft = many === chart.dataset.bars ? left : chart.scrollWidth;
  }

  /** The totals of the bars, and other costs of the session. */
  sums(sum, paid) {
    const asides = paid.asides > 0 && figure("plans, summaries", paid.asides);
    return [h("dl.sums", {}, figure("requests", sum.requests), asides, figure("from the cache", share(sum.read, sum.read + sum.fresh)), sum.cost > 0 && figure("cost", money(sum.cost)), sum.saved > 0 && figure("saved", money(sum.saved)), figure("folds", sum.folds)),
      (paid.requests !== sum.requests || paid.asides > 0) && h("p.sub.paid", { title: "Includes replaced answers, plans and summaries. Turns shared with another session (forks) were paid there." },
        `This session paid for ${amount(paid.requests)} ${paid.requests === 1 ? "request" : "requests"}`, paid.asides > 0 && ` and ${amount(paid.asides)} plans or summaries`, paid.cost > 0 && `: ${money(paid.cost)}`, ".")];
  }

  chart(session, bars) {
    const most = Math.max(...bars.map((bar) => bar.tokens), 1);
    const budget = bars.at(-1).budget;
    // A budget far above all bars is drawn as a broken line at the top, not to scale.
    const top = budget <= most * 2.5 ? Math.max(budget, most) * 1.1 : most * 1.15;
    const y = (tokens) => HEIGHT - (tokens / top) * HEIGHT;
    // A few bars leave room for the words of the budget all the same.
    const width = Math.max(bars.length * (BAR + GAP) + GAP + 34, 220);
    const step = niceBelow(top / 2);
    const lines = [step, 2 * step].map((tokens) => {
      return svg("g.grid", {}, svg("line", { x1: 34, x2: width, y1: y(tokens), y2: y(tokens) }), svg("text", { x: 30, y: y(tokens) + 4 }, short(tokens)));
    });
    const columns = bars.map((bar, index) => {
      const x = 34 + GAP + index * (BAR + GAP);
      let below = 0;
      const parts = ORDER.map((layer) => {
        const tokens = bar.layers[layer];
        const part = tokens > 0 && svg("rect", { class: layerClass(layer), onclick: (event) => { event.stopPropagation(); showRequest(session, bar.request, "text", layer); }, x, width: BAR, y: y(below + tokens), height: Math.max(0.5, y(below) - y(below + tokens)) });
        below += tokens;
        return part;
      });
      const read = Math.min(bar.usage?.read ?? 0, below);
      const broke = bar.usage?.broke;
      const label = `Turn ${bar.turn}: ${amount(bar.tokens)} tokens` + (read ? `, ${share(read, bar.tokens)} from the cache` : "") + (bar.began ? `, new epoch (${bar.began.replaceAll("_", " ")})` : "") + (broke ? `, cache broken by ${broken(broke)}` : "");
      const open = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        showRequest(session, bar.request);
      };
      return svg("g.bar-group", { tabindex: 0, role: "button", "data-item": `request-${bar.request}`, "aria-label": label, onclick: () => showRequest(session, bar.request), onkeydown: open },
        svg("title", {}, label), svg("rect.hit", { x: x - GAP / 2, y: 0, width: BAR + GAP, height: HEIGHT + 26 }), parts,
        read > 0 && svg("rect.shade", { x, width: BAR, y: y(read), height: HEIGHT - y(read) }),
        bar.began && svg("line.epoch", { x1: x - GAP / 2, x2: x - GAP / 2, y1: 0, y2: HEIGHT }),
        broke && svg("path.broke", { d: `M${x + BAR / 2} ${y(below) - 5} l-5 -9 h10 z` }, svg("title", {}, `cache broken by ${broken(broke)}`)),
        svg("text.turn", { x: x + BAR / 2, y: HEIGHT + 15 }, String(bar.turn)));
    });
    const line = budget <= top
      ? svg("g.budget", {}, svg("line", { x1: 34, x2: width, y1: y(budget), y2: y(budget) }), svg("text", { x: 38, y: Math.max(11, y(budget) - 4) }, `budget ${short(budget)}`))
      : svg("g.budget.far", {}, svg("title", {}, `The budget is ${amount(budget)} tokens, far above this chart`), svg("path", { d: `M34 5 h${width - 34 - 26} l4 -4 l5 8 l4 -4 h13` }), svg("text", { x: 38, y: 17 }, `budget ${short(budget)}, not to scale`));
    const pattern = svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("line", { x1: 0, x2: 0, y1: 0, y2: 5 }));
    return svg("svg", { width, height: HEIGHT + 26, viewBox: `0 0 ${width} ${HEIGHT + 26}` }, svg("defs", {}, pattern), lines, columns, line);
  }

  latest(session, bar) {
    return h("section.latest", {}, h("h3", {}, `Last request, turn ${bar.turn}`), h("p.sub", {}, `${amount(bar.tokens)} of ${amount(bar.budget)} tokens`),
      h("ul.layer-list", {}, ORDER.map((index) => h("li", {}, h("button", { type: "button", title: LAYERS[index][2], onclick: () => showRequest(session, bar.request, "text", index) }, h("i", { class: layerClass(index) }), h("span", {}, LAYERS[index][1]), h("span.count", {}, amount(bar.layers[index])))))));
  }

  breaks(session, bars) {
    const all = bars.filter((bar) => bar.usage?.broke);
    if (!all.length) return null;
    return h("section", {}, h("h3", {}, "Cache breaks"), h("ul.breaks", {}, all.slice(-8).map((bar) => h("li", {}, h("button.plain", { type: "button", onclick: () => showRequest(session, bar.request, "diff") }, `turn ${bar.turn}`), ` ${String(bar.usage.broke.cause).replaceAll("_", " ")}`, bar.usage.broke.item && h("code", {}, bar.usage.broke.item), h("span.count", {}, `${amount(bar.usage.broke.tokens_lost ?? 0)} tokens`, bar.usage.broke.cost_lost > 0 && `, ${money(bar.usage.broke.cost_lost)}`)))));
  }

  history(session, pins) {
    const again = () => this.show(session);
    const undo = () => del(at("sessions", session, "fold")).then(() => toast("The last fold will be undone with your next message."), (problem) => toast(problem.message, "error"));
    const summaries = async () => openSummaries(session, (await get(at("sessions", session)).catch(() => ({ messages: [] }))).messages);
    return h("section.history", {}, h("h3", {}, "History"),
      h("div.fold", {}, h("button.plain", { type: "button", onclick: () => openFold(session, again) }, "Fold (compact)…"), h("button.plain", { type: "button", onclick: undo }, "Undo the last fold"), h("button.plain", { type: "button", onclick: summaries }, "Summary and its sources")),
      pins && pinList(session, pins, again));
  }
}

/** The cause and cost of a cache break. */
function broken(broke) {
  return `${String(broke.cause).replaceAll("_", " ")}: ${amount(broke.tokens_lost ?? 0)} tokens${broke.cost_lost > 0 ? `, ${money(broke.cost_lost)}` : ""}`;
}

function niceBelow(number) {
  const size = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return Math.floor(number / size) * size;
}

function figure(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, String(value)));
}
