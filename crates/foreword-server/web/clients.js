// The conversations of programs whose requests the gateway passes on: what each request used, and where the cache broke.

import { at, get } from "./api.js";
import { h, toast } from "./dom.js";
import { amount, money, share } from "./figures.js";
import { sheet } from "./sheet.js";

const CAUSES = {
  tools_changed: "the tools changed",
  system_changed: "the system prompt changed",
  message_changed: "a message changed",
  message_removed: "messages are gone",
  model_changed: "another model",
  expired: "the cache had expired",
};

async function read(path) {
  try {
    return await get(path);
  } catch (problem) {
    toast(problem.message, "error");
    return null;
  }
}

/** A program's conversation, request by request. */
export async function showClient(client) {
  const requests = await read(at("clients", client.id));
  if (!requests) return;
  const number = (text) => h("td.number", {}, text);
  const rows = requests.flatMap((request) => {
    const prompt = request.read + request.write + request.uncached;
    const row = h("tr", {}, h("td", {}, h("button.plain", { type: "button", onclick: () => showRequest(client, request) }, `@${request.place}`)),
      h("td", {}, new Date(request.at_ms).toLocaleTimeString()), h("td", {}, request.model), number(request.status ?? "–"), number(amount(prompt)),
      number(share(request.read, prompt)), number(amount(request.output)), number(request.cost ? money(request.cost) : "–"));
    const broke = request.broke;
    return broke ? [row, h("tr.broke", {}, h("td", {}), h("td", { colSpan: 7 }, `Cache break: ${said(broke)}`))] : [row];
  });
  const heading = ["request", "when", "model", "status", "prompt tokens", "cached", "reply tokens", "cost"];
  const about = [client.client, `level ${client.level}`, client.parent && `a side call of ${client.parent}`].filter(Boolean).join(", ");
  sheet(client.title || client.id, { wide: true, sub: about },
    h("div.sheet-body", {}, h("div.table", {}, h("table", {}, h("thead", {}, h("tr", {}, heading.map((text, place) => h("th", { class: place < 3 ? "" : "number", scope: "col" }, text)))),
      h("tbody", {}, rows)))));
}

const said = (broke) => `${CAUSES[broke.cause] || broke.cause}${broke.path ? ` at ${broke.path}` : ""}, ${amount(broke.tokens)} tokens again${broke.cost ? `, ${money(broke.cost)}` : ""}`;

/** One request: its layers, what was added, its body. */
async function showRequest(client, request) {
  const passed = await read(at("forwarded", request.number));
  if (!passed) return;
  const layers = request.layers.map((layer) => h("tr", {}, h("td", {}, layer.id), h("td.number", {}, amount(layer.tokens)), h("td.number", {}, amount(layer.cached)), h("td", {}, h("code", {}, layer.prefix.slice(0, 12)))));
  const broke = request.broke && [h("p", {}, `Cache break: ${said(request.broke)}`), h("pre.wire", {}, `before  ${request.broke.before ?? "–"}\nnow     ${request.broke.now ?? "–"}`)];
  const added = request.added.length > 0 && h("p", {}, "Added: ", request.added.map((text) => h("code", {}, text)));
  sheet(`Request @${request.place}`, { wide: true, sub: `${request.model}, ${client.title || client.id}` },
    h("div.sheet-body", {}, h("div.table", {}, h("table", {}, h("thead", {}, h("tr", {}, ["layer", "tokens", "cached", "hash up to here"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, layers))),
      broke, added, h("pre.wire", { tabindex: 0 }, passed.body)));
}
