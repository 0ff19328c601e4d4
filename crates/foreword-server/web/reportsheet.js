// The report of `foreword audit`, for the sessions of this server.

import { get } from "./api.js";
import { h, toast } from "./dom.js";
import { drawReport } from "./report.js";
import { sheet } from "./sheet.js";

export async function showReport() {
  let data;
  try {
    data = await get("/ledger/report");
  } catch (problem) {
    toast(problem.message, "error");
    return;
  }
  // Its style is its own: the report looks the same in the file that `foreword audit --html` writes.
  const host = h("div.report");
  const report = h("main");
  host.attachShadow({ mode: "open" }).append(h("link", { rel: "stylesheet", href: "/report.css" }), report);
  if (data.calls) drawReport(report, data, "Requests and cache breaks");
  else report.append(h("p", {}, "No requests yet. This report shows each request, where the provider's cache was not read and why, and what other settings would have cost."));
  sheet("Report", { wide: true }, h("div.sheet-body", {}, host));
}
