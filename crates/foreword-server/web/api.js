// The client of the server's API: JSON, problem documents, and event streams that reconnect.

const BASE = "/api/v1";
const KEY = "foreword-key";

/** The key that is added to each request. It is kept for this address and port alone, which a cookie would not be. */
export const key = () => localStorage.getItem(KEY);

/** Exchanges a code, which works once, for a key. */
async function login(code) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) };
  const response = await fetch(`${BASE}/login`, options).catch(() => null);
  if (response?.ok) localStorage.setItem(KEY, (await response.json()).key);
  return Boolean(response?.ok);
}

// The address that the server printed carries a code behind #, which no browser sends anywhere.
const given = /^#code=(.+)$/.exec(location.hash);
if (given) {
  history.replaceState(null, "", location.pathname);
  await login(decodeURIComponent(given[1]));
}

// A new address in a tab that shows the page already changes only what stands behind #. Other addresses are sessions, which the page itself opens.
addEventListener("hashchange", () => location.hash.startsWith("#code=") && location.reload());

/** What went wrong, in the server's words. */
export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title);
    this.status = problem.status;
    this.kind = String(problem.type ?? "").split(":").pop();
  }
}

function headers(more = {}) {
  return key() ? { authorization: `Bearer ${key()}`, ...more } : more;
}

async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem({ status: response.status, title: response.statusText || "The request failed", ...body });
}

let asking = null;

/** Asks for a new address, once for all calls that were refused together; whether it is worth calling again. */
function askKey() {
  asking ??= (async () => {
    const text = prompt("You are not signed in, or your key has expired. Run `foreword keys url` on the server's machine and paste the URL that it prints:")?.trim();
    const code = /#code=(.+)$/.exec(text ?? "");
    const done = code ? await login(decodeURIComponent(code[1])) : Boolean(text);
    if (text && !code) localStorage.setItem(KEY, text);
    // Calls that were under way meanwhile are refused a moment later.
    setTimeout(() => { asking = null; }, 2000);
    return done;
  })();
  return asking;
}

async function call(method, path, body, more = {}, again = true) {
  const options = { method, headers: headers(body === undefined ? more : { "content-type": "application/json", ...more }) };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(BASE + path, options);
  } catch {
    throw new Problem({ status: 0, detail: "Failed to reach the server. Is it still running?" });
  }
  if (response.status === 401 && again && (await askKey())) return call(method, path, body, more, false);
  if (!response.ok) throw await problemOf(response);
  const type = response.headers.get("content-type") ?? "";
  return type.includes("json") ? response.json() : response.text();
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const patch = (path, body, more) => call("PATCH", path, body, more);
export const del = (path, more) => call("DELETE", path, undefined, more);
export const at = (...parts) => "/" + parts.map((part) => encodeURIComponent(part)).join("/");

/** Listens to the events of a session until `stop` of what it gives back is called. A lost connection is taken up again. */
export function listen(session, from, tell) {
  const control = new AbortController();
  let last = from ?? null;
  (async () => {
    let [wait, refused] = [500, false];
    while (!control.signal.aborted) {
      try {
        const response = await fetch(`${BASE}${at("sessions", session, "events")}`, {
          headers: headers(last ? { "last-event-id": last } : {}),
          signal: control.signal,
        });
        if (response.status === 401 && !refused && (await askKey())) {
          refused = true;
          continue;
        }
        if (!response.ok) throw await problemOf(response);
        [wait, refused] = [500, false];
        for await (const event of events(response.body)) {
          if (event.id) last = event.id;
          tell(event.name, event.data);
        }
      } catch (error) {
        if (control.signal.aborted) return;
        if (error instanceof Problem && error.status === 404) return;
        tell("offline", {});
        await new Promise((done) => setTimeout(done, wait));
        wait = Math.min(wait * 2, 10_000);
      }
    }
  })();
  return { stop: () => control.abort() };
}

/** The events of a stream. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = { name: "message", data: "", id: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      text = text.slice(end + 2);
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}
