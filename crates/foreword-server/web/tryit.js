// API reference in which each call can be tried.

import { get, key } from "./api.js";
import { fill, h } from "./dom.js";
import { takeTheme } from "./theme.js";

takeTheme();

const document_ = await get("/openapi.json").catch((problem) => problem);
const root = document.getElementById("api");

if (document_ instanceof Error) fill(root, h("p.empty", {}, document_.message));
else {
  const groups = new Map();
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const tag = about.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), { path, method, about }]);
    }
  }
  fill(root, h("h1", {}, document_.info.title, " API"), h("p", {}, document_.info.description), h("p", {}, h("a", { href: "/api/v1/openapi.json" }, "openapi.json"), " · ", h("a", { href: "/" }, "back to the chat")),
    [...groups].map(([tag, calls]) => h("section", {}, h("h2", {}, tag), calls.map(operation))));
}

function schemaOf(about) {
  const schema = about.requestBody?.content?.["application/json"]?.schema;
  const name = schema?.$ref?.split("/").pop();
  return name ? document_.components.schemas[name] : schema;
}

function example(schema) {
  const made = {};
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    if (!(schema.required ?? []).includes(name)) continue;
    const type = Array.isArray(field.type) ? field.type[0] : field.type;
    made[name] = { string: "", integer: 1, array: [], boolean: false }[type] ?? null;
  }
  return JSON.stringify(made, null, 2);
}

function operation({ path, method, about }) {
  const fields = (about.parameters ?? []).map((parameter) => ({ parameter, input: h("input", { placeholder: parameter.required ? "required" : "optional", "aria-label": parameter.name }) }));
  const schema = schemaOf(about);
  const body = schema && h("textarea", { value: example(schema), rows: 4, "aria-label": "body" });
  const out = h("pre.out", { hidden: true });
  async function run() {
    let address = path;
    const query = new URLSearchParams();
    const headers = key() ? { authorization: `Bearer ${key()}` } : {};
    for (const { parameter, input } of fields) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (parameter.in === "query" && input.value) query.set(parameter.name, input.value);
      else if (parameter.in === "header" && input.value) headers[parameter.name] = input.value;
    }
    if (body) headers["content-type"] = "application/json";
    out.hidden = false;
    out.textContent = "…";
    const control = new AbortController();
    const response = await fetch(address + (query.size ? `?${query}` : ""), { method: method.toUpperCase(), headers, body: body?.value, signal: control.signal }).catch((error) => error);
    if (response instanceof Error) return void (out.textContent = response.message);
    out.textContent = `${response.status} ${response.statusText}\n\n`;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let size = 0; reader && size < 200_000;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      out.textContent += value;
    }
  }
  return h("details.operation", {}, h("summary", {}, h("code.method", { class: method }, method.toUpperCase()), h("code", {}, path), h("span", {}, about.summary ?? about.description ?? "")),
    about.description && h("p", {}, about.description),
    h("div.fields", {}, fields.map(({ parameter, input }) => h("label", {}, h("code", {}, parameter.name), h("span", {}, parameter.description ?? ""), input))), body,
    h("button.primary", { type: "button", onclick: run }, "Try it"), out);
}
