// Talking to the server: JSON, problem documents, and streams that go on where they ended.

const BASE = "/api/v1";
const KEY = "foreword-token";

// The address that the server printed carries the token behind #, which no browser sends anywhere.
const given = /^#token=(.+)$/.exec(location.hash);
if (given) {
  sessionStorage.setItem(KEY, decodeURIComponent(given[1]));
  history.replaceState(null, "", location.pathname);
}

/** What went wrong, in the server's words. */
export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title);
    this.status = problem.status;
    this.kind = String(problem.type ?? "").split(":").pop();
  }
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem({ status: response.status, title: response.statusText || "The server refused", ...body });
}

let asking = null;

/** Asks for the token, once for all calls that were refused together; whether it is worth calling again. */
function askToken() {
  asking ??= new Promise((done) => {
    const token = prompt("This server needs its token. It was shown when the server was started.");
    if (token) sessionStorage.setItem(KEY, token.trim());
    // Calls that were under way meanwhile are refused a moment later.
    setTimeout(() => { asking = null; }, 2000);
    done(Boolean(token));
  });
  return asking;
}

async function call(method, path, body, more = {}, again = true) {
  const options = { method, headers: headers(body === undefined ? more : { "content-type": "application/json", ...more }) };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(BASE + path, options);
  } catch {
    throw new Problem({ status: 0, detail: "The server cannot be reached. Is it still running?" });
  }
  if (response.status === 401 && again && (await askToken())) return call(method, path, body, more, false);
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
        if (response.status === 401 && !refused && (await askToken())) {
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
