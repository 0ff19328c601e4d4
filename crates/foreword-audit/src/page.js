// Draws a report: the figures that `foreword audit` has, in an element of their own.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}
/// A box with a colour. Set by the script, since the server's page allows no styles in attributes.
function coloured(name, colour, width) {
  const made = element(name);
  made.style.background = `var(--${colour})`;
  if (width) made.style.width = width;
  return made;
}
function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function money(usd) {
  const size = Math.abs(usd);
  const digits = size >= 100 || size === 0 ? 0 : size >= 0.995 ? 2 : size >= 0.01 ? 3 : 5;
  return (usd < 0 ? "−" : "") + "$" + size.toFixed(digits);
}
function amount(n) {
  if (n < 1e4) return String(Math.round(n));
  if (n < 1e6) return Math.round(n / 1e3) + " k";
  if (n < 1e9) return (n / 1e6).toFixed(1) + " M";
  return (n / 1e9).toFixed(1) + " G";
}
function percent(part, whole) { return whole > 0 ? Math.round(part / whole * 100) + " %" : "0 %"; }
function span(seconds) {
  if (seconds < 90) return Math.round(seconds) + " s";
  if (seconds < 5400) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return (seconds / 3600).toFixed(1) + " h";
  return Math.round(seconds / 86400) + " days";
}
function short(path) { return path.replace(/[\\/]+$/, "").split(/[\\/]/).pop() || "no folder"; }
function prompts(tokens) { return tokens.input + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h; }

/// A table: columns are [title, function of a row, class].
function table(rows, columns) {
  const head = element("tr", {}, ...columns.map(([title, , kind]) => element("th", { class: kind || "" }, title)));
  const body = rows.map(row => element("tr", {}, ...columns.map(([, of, kind]) => element("td", { class: kind || "" }, of(row)))));
  return element("div", { class: "wide" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}
function bar(share, colour) {
  return coloured("div", colour, `${Math.max(share * 100, share > 0 ? 0.6 : 0)}%`);
}
function figure(value, name) { return element("div", { class: "figure" }, element("b", {}, value), element("span", {}, name)); }

/// Draws the report `data` into the element `report`; `title` is its heading.
export function drawReport(report, data, title) {
  function section(title, ...children) {
    report.append(element("section", {}, element("h2", {}, title), ...children));
  }

  function head() {
    const day = time => time.slice(0, 10);
    report.append(element("h1", {}, title));
    const when = data.span ? `, ${day(data.span[0])} to ${day(data.span[1])}` : "";
    const agents = data.agents.map(agent => `${agent.name} ${amount(agent.calls)}`).join(", ");
    report.append(element("p", { class: "soft" }, `${data.count} sessions, ${amount(data.calls)} calls${when}. ${agents}. Prices of ${data.prices}.`));
    const lost = data.causes.reduce((sum, cause) => sum + cause.cost, 0);
    const tokens = data.tokens;
    report.append(element("div", { class: "figures" },
      figure(money(data.cost), "cost"),
      figure(amount(prompts(tokens)), "tokens in prompts"),
      figure(percent(tokens.cache_read, prompts(tokens)), "read from the cache"),
      figure(amount(tokens.cache_write_5m + tokens.cache_write_1h), "written to it"),
      figure(amount(tokens.output), "output tokens"),
      figure(money(lost), `breaks, ${percent(lost, data.cost)} of the cost`)));
    const unpriced = Object.entries(data.unpriced);
    if (unpriced.length) report.append(element("p", { class: "bad" }, "No price, so not in the sums: " + unpriced.map(([model, calls]) => `${model} (${calls})`).join(", ")));
    if (data.partial * 20 > data.calls) report.append(element("p", { class: "soft" }, `Output is too small in ${amount(data.partial)} calls: those versions log only what a stream began with.`));
  }

  function findings() {
    if (!data.findings.length) return;
    section("Worth doing", element("ol", { class: "findings" }, ...data.findings.map(one => element("li", {},
      element("b", {}, one.title), " ",
      element("span", { class: "good" }, `−${money(one.saves_per_month)} of ${money(one.of_per_month)} in 30 days`),
      element("p", { class: "soft" }, one.why), element("code", {}, one.setting)))));
  }

  function whatIf() {
    const most = Math.max(...data.what_if.map(one => one.cost), 1e-12);
    section("What if", table(data.what_if, [
      ["policy", one => one.policy, "name"],
      ["", one => bar(one.cost / most, one.cost < data.cost * 0.995 ? "good" : "read"), "bar"],
      ["cost", one => money(one.cost), "n"],
      ["change", one => one.policy === "as logged" || !data.cost ? "" : ((one.cost - data.cost) / data.cost * 100).toFixed(0).replace("-", "−") + " %", "n"],
      ["from", one => money(one.low), "n"], ["to", one => money(one.high), "n"],
      ["what it is", one => one.about, "soft"],
    ]));
  }

  function breaks() {
    const rows = data.causes.map(cause => ({ name: cause.cause, ...cause }));
    if (data.misses.count) rows.push({ name: "lost by the provider", measured: 0, ...data.misses });
    const most = Math.max(...rows.map(row => row.cost), 1e-12);
    section("Breaks: what was written again although it could have been read", rows.length ? table(rows, [
      ["cause", row => row.name], ["", row => bar(row.cost / most, "bad"), "bar"], ["breaks", row => String(row.count), "n"],
      ["measured", row => String(row.measured), "n"], ["tokens", row => amount(row.tokens), "n"], ["cost", row => money(row.cost), "n"],
    ]) : element("p", {}, "None."));
  }

  /// Rectangles whose areas are the shares, as square as they can be.
  function squares(items, x, y, width, height) {
    const whole = items.reduce((sum, item) => sum + item.cost, 0);
    const found = [];
    let rest = items.map(item => ({ item, area: item.cost / whole * width * height }));
    while (rest.length) {
      const side = Math.min(width, height);
      let row = [], best = Infinity;
      for (let count = 1; count <= rest.length; count++) {
        const tried = rest.slice(0, count);
        const sum = tried.reduce((total, one) => total + one.area, 0);
        const worst = Math.max(...tried.map(one => { const length = sum / side, other = one.area / length; return Math.max(length / other, other / length); }));
        if (worst > best) break;
        best = worst; row = tried;
      }
      const sum = row.reduce((total, one) => total + one.area, 0), length = sum / side;
      let at = 0;
      for (const one of row) {
        const other = one.area / length;
        found.push(width >= height ? { item: one.item, x, y: y + at, w: length, h: other } : { item: one.item, x: x + at, y, w: other, h: length });
        at += other;
      }
      if (width >= height) { x += length; width -= length; } else { y += length; height -= length; }
      rest = rest.slice(row.length);
    }
    return found;
  }

  function treemap() {
    const whole = data.parts.reduce((sum, part) => sum + part.cost, 0);
    if (!whole) return;
    const large = data.parts.filter(part => part.cost > whole * 0.004);
    const small = data.parts.filter(part => part.cost <= whole * 0.004).reduce((sum, part) => sum + part.cost, 0);
    if (small > 0) large.push({ name: "other tools", cost: small, tokens: 0 });
    const width = 1080, height = 330;
    const drawn = shape("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "What the tokens of the prompts were, by cost" });
    const colours = { "system prompt and tools": "read", "words of the user": "good", "replies": "output", "summaries": "fresh", "reminders and the like": "soft" };
    for (const { item, x, y, w, h } of squares(large, 0, 0, width, height)) {
      const group = shape("g", {});
      group.append(shape("rect", { x: x + 1, y: y + 1, width: Math.max(w - 2, 0.5), height: Math.max(h - 2, 0.5), rx: 3, fill: `var(--${colours[item.name] || "written"})`, "fill-opacity": 0.55 }));
      group.append(shape("title", {}, `${item.name}: ${money(item.cost)}, ${percent(item.cost, whole)}`));
      const name = item.name.replace("results of ", "");
      if (w > 50 && h > 30) {
        const letters = Math.floor((w - 10) / 6.2);
        group.append(shape("text", { x: x + 7, y: y + 17 }, name.length > letters ? name.slice(0, letters - 1) + "…" : name));
        group.append(shape("text", { x: x + 7, y: y + 31, class: "soft" }, `${money(item.cost)} ${percent(item.cost, whole)}`));
      }
      drawn.append(group);
    }
    section("What the prompts were, by what it cost", element("p", { class: "soft" }, "Orange: results of tools, with every later request that had them again. Sizes are shared out by the length of texts: about right."), element("div", { class: "scroll" }, drawn));
  }

  const READ = 2, WRITTEN = 3, FRESH = 4, OUTPUT = 5, COST = 6, CAUSE = 7;

  /// One bar a request; the space between two is the time without one, an hour being as wide as HOUR.
  function timeline(session) {
    const HOUR = 48, BAR = 6, HEIGHT = 150, TOP = 26, BOTTOM = 34;
    const chains = [...new Set(session.bars.map(one => one[1]))];
    const main = session.bars.filter(one => one[1] === 0);
    const bars = main.length ? main : session.bars;
    const most = Math.max(...bars.map(one => one[READ] + one[WRITTEN] + one[FRESH]), 1);
    const places = [];
    let x = 8, labels = [];
    bars.forEach((one, at) => {
      if (at > 0) {
        const gap = one[0] - bars[at - 1][0];
        const width = Math.min(gap, 10800) / 3600 * HOUR;
        if (gap >= 300) labels.push([x + 1, Math.max(width, 3), gap]);
        x += Math.max(width, 1);
      }
      places.push(x);
      x += BAR;
    });
    const width = Math.max(x + 60, 400), height = TOP + HEIGHT + BOTTOM;
    const drawn = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Requests of session ${session.id}` });
    const scale = tokens => tokens / most * HEIGHT;
    for (const [at, wide, gap] of labels) {
      drawn.append(shape("rect", { x: at, y: TOP, width: wide, height: HEIGHT, fill: "var(--line)", "fill-opacity": 0.5 }));
      if (wide > 26 || gap >= 3600) drawn.append(shape("text", { x: at + wide / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, span(gap)));
    }
    bars.forEach((one, at) => {
      const group = shape("g", {});
      let y = TOP + HEIGHT;
      for (const [place, colour] of [[READ, "read"], [WRITTEN, "written"], [FRESH, "fresh"]]) {
        const tall = scale(one[place]);
        y -= tall;
        if (tall > 0) group.append(shape("rect", { x: places[at], y, width: BAR - 1, height: Math.max(tall, 0.5), fill: `var(--${colour})` }));
      }
      const out = Math.min(scale(one[OUTPUT]), BOTTOM - 16);
      group.append(shape("rect", { x: places[at], y: TOP + HEIGHT + 1, width: BAR - 1, height: Math.max(out, 0.5), fill: "var(--output)" }));
      if (one[CAUSE]) {
        const middle = places[at] + BAR / 2 - 0.5;
        group.append(shape("path", { d: `M${middle - 4} ${y - 9} h8 l-4 7 z`, fill: one[CAUSE] === "provider" ? "var(--soft)" : "var(--bad)" }));
        group.append(shape("text", { x: middle, y: Math.max(y - 12, 10), "text-anchor": "middle" }, one[CAUSE]));
      }
      const time = new Date(session.began + one[0] * 1000).toISOString().slice(0, 19).replace("T", " ");
      group.append(shape("title", {}, `${time}\nread ${amount(one[READ])}, written ${amount(one[WRITTEN])}, fresh ${amount(one[FRESH])}, output ${amount(one[OUTPUT])}\n${money(one[COST])}${one[CAUSE] ? "\nbreak: " + one[CAUSE] : ""}`));
      drawn.append(group);
    });
    drawn.append(shape("text", { x: width - 4, y: TOP + 8, "text-anchor": "end", class: "soft" }, amount(most)));
    const others = chains.length > 1 && main.length ? `, ${session.bars.length - main.length} calls of ${chains.length - 1} sub-agents not drawn` : "";
    return element("div", { class: "session" },
      element("p", {}, element("b", {}, short(session.project)), ` ${session.agent} `, element("code", {}, session.id), element("span", { class: "soft" }, ` ${session.calls} calls, ${money(session.cost)}${others}`)),
      element("div", { class: "scroll", tabindex: 0 }, drawn));
  }

  function timelines() {
    if (!data.drawn.length) return;
    const FIRST = 6;
    const place = element("div", {});
    const choice = element("select", { "aria-label": "session" }, element("option", { value: "" }, `the ${Math.min(FIRST, data.drawn.length)} dearest`),
      ...data.drawn.map((session, at) => element("option", { value: at }, `${money(session.cost)}  ${short(session.project)}  ${session.id}`)));
    const show = () => {
      const wanted = choice.value === "" ? data.drawn.slice(0, FIRST) : [data.drawn[Number(choice.value)]];
      place.replaceChildren(...wanted.map(timeline));
    };
    choice.addEventListener("change", show);
    const legend = [["read", "read from the cache"], ["written", "written to it"], ["fresh", "fresh"], ["output", "output"], ["bad", "break"], ["line", "time without a request, to scale up to three hours"]];
    section("Requests", element("p", { class: "controls" }, choice),
      element("div", { class: "legend" }, ...legend.map(([colour, name]) => element("span", {}, coloured("i", colour), name))), place);
    show();
  }

  function groups() {
    const columns = name => [[name, row => row.name || "not named", "name"], ["calls", row => amount(row.calls), "n"], ["read", row => percent(row.tokens.cache_read, prompts(row.tokens)), "n"], ["breaks", row => money(row.breaks_cost), "n"], ["cost", row => money(row.cost), "n"]];
    const part = (title, rows, name) => element("section", {}, element("h2", {}, title), table(rows.slice(0, 15), columns(name)));
    report.append(element("div", { class: "columns" }, part("By model", data.models, "model"), part("By project", data.projects.map(row => ({ ...row, name: short(row.name) })), "folder"), part("By thread", data.chains, "thread"), part("By day", data.days.slice(-15).reverse(), "day")));
    const tools = [["tool", row => row.name || "not named", "name"], ["results", row => amount(row.results), "n"], ["tokens", row => amount(row.tokens), "n"], ["at first", row => money(row.cost), "n"], ["read again", row => money(row.cost_later), "n"], ["together", row => money(row.cost + row.cost_later), "n"]];
    section("What the results of tools cost", table(data.tools, tools));
    if (data.servers.length) section("The same by MCP server", table(data.servers, tools));
  }

  head(); findings(); whatIf(); breaks(); treemap(); timelines(); groups();
}
