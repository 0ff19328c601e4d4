// The conversation: messages, the streaming answer, and the message field.

import { at, del, get, listen, post, put } from "./api.js";
import { Composer } from "./composer.js";
import { showRequest } from "./request.js";
import { announce, clearToasts, copy, fill, focusKept, h, icon, toast, visible } from "./dom.js";
import { earlyEnd, errorCard } from "./ending.js";
import { pin, pinsOf, unpin } from "./fold.js";
import { GrowingMarkdown, markdown } from "./markdown.js";
import { openNote } from "./note.js";
import { sourceList } from "./sources.js";
import { amount, money, share } from "./figures.js";

/** How many characters of a finished answer a screen reader announces. */
const READ_ALOUD = 1200;

/** The message that Continue sends to the model. */
const CONTINUE = "Continue exactly where your last answer ended.";

export class Chat {
  constructor({ changed, began, ended, forked, chose, settings }) {
    this.changed = changed;
    this.began = began;
    this.ended = ended;
    this.forked = forked;
    this.settings = settings;
    this.session = null;
    this.running = false;
    this.log = h("div.log", { role: "log", "aria-live": "off" });
    this.scroller = h("div.scroller", {}, this.log);
    this.composer = new Composer({ send: (words, attach) => this.send(words, attach), stop: () => this.stop(), session: () => this.session?.id ?? null, offline: () => !this.lost.hidden, chose });
    this.lost = h("p.offline", { role: "status", hidden: true }, "Connection to the server lost. Reconnecting…");
    this.pins = new Set();
    this.node = h("section.chat", { "aria-label": "Chat" }, this.scroller, this.lost, this.composer.node);
    this.scroller.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.scroller;
      this.follow = scrollHeight - scrollTop - clientHeight < 80;
    });
    this.follow = true;
  }

  begin() {
    this.leave();
    this.session = null;
    this.setRunning(false);
    fill(this.log, welcome((words, attach) => this.composer.put(words, attach)));
    this.composer.enter(null);
    this.composer.focus();
  }

  /** Shows the end of a session, or the turn that was searched for. */
  open(session, turn = null) {
    this.leave();
    this.session = session;
    this.pins = new Set();
    this.setRunning(session.running);
    this.draw(session.messages);
    this.composer.enter(session.id);
    this.composer.focus();
    this.follow = turn === null;
    this.scroll();
    if (turn !== null) this.goTo(turn);
    if (session.running) this.join(session);
    else this.listen(null);
    this.loadUsage();
    this.loadPins();
  }

  /** Leaves the open session and removes its remarks. */
  leave() {
    this.stream?.stop();
    this.lost.hidden = true;
    this.composer.leave(this.session?.id ?? null);
    this.words = null;
    this.log.replaceChildren();
    clearToasts();
  }

  /** Scrolls to a turn and highlights it for a moment. */
  goTo(turn) {
    const found = this.log.querySelectorAll(`.message[data-turn="${turn}"]`);
    if (found[0]) this.scroller.scrollTop += found[0].getBoundingClientRect().top - this.scroller.getBoundingClientRect().top - 12;
    for (const node of found) {
      node.classList.add("found-turn");
      setTimeout(() => node.classList.remove("found-turn"), 2500);
    }
  }

  /** Resumes a running turn: replays its events and shows pending approvals. */
  async join(session) {
    this.clearEnd();
    this.pending();
    this.listen(session.event);
    if (session.event) return;
    for (const waiting of await get(at("sessions", session.id, "approvals")).catch(() => [])) this.happened("approval", waiting);
  }

  /** Reads which messages are pinned. */
  async loadPins() {
    const id = this.session?.id;
    const pins = id && !this.running && (await pinsOf(id));
    if (!pins || this.session?.id !== id) return;
    this.pins = new Set(pins.map((one) => one.what));
    for (const button of this.log.querySelectorAll("[data-pin]")) mark(button, this.pins.has(button.dataset.pin));
  }

  async togglePin(button) {
    const { id } = this.session;
    const what = button.dataset.pin;
    const pinned = this.pins.has(what);
    try {
      await (pinned ? unpin : pin)(id, what);
      if (pinned) this.pins.delete(what);
      else this.pins.add(what);
      mark(button, !pinned);
    } catch (problem) {
      toast(problem.message, "error");
    }
  }

  /** The button that pins a message. */
  pinButton(message) {
    if (!message.id) return null;
    const button = action("pin", "", () => this.togglePin(button));
    button.dataset.pin = message.id;
    mark(button, this.pins.has(message.id));
    return button;
  }

  listen(from) {
    const id = this.session.id;
    this.stream = listen(id, from, (name, data) => {
      if (this.session?.id === id) this.happened(name, data);
    });
  }

  draw(all) {
    // The running turn is shown from its events.
    const asked = all.findLastIndex((message) => message.role === "user");
    const messages = this.running ? all.slice(0, asked + 1) : all;
    if (!messages.length) return void fill(this.log, welcome((words, attach) => this.composer.put(words, attach)));
    focusKept(this.log, () => {
      // Unchanged messages keep their nodes, so that a text selection survives.
      const shown = new Map([...this.log.children].map((node) => [node.dataset.said, node]));
      const nodes = messages.map((message, index) => {
        const said = JSON.stringify([this.session.id, message]);
        const node = shown.get(said) ?? this.message(message, index === messages.length - 1 ? this.streamed(message) : null);
        shown.delete(said);
        node.dataset.said = said;
        return node;
      });
      const kept = new Set(nodes);
      for (const node of [...this.log.children]) if (!kept.has(node)) node.remove();
      nodes.forEach((node, at) => this.log.children[at] === node || this.log.insertBefore(node, this.log.children[at] ?? null));
      this.log.append(...this.endOf(messages.at(-1)));
    });
  }

  /** The article in which a finished answer was streamed, if it already shows the whole text. */
  streamed(message) {
    const article = this.words?.closest(".running");
    if (!article?.isConnected || !this.growing || this.running || message.role !== "assistant" || message.text !== this.text) return null;
    this.growing.finish(this.text);
    this.words.removeAttribute("aria-busy");
    for (const child of [...article.children]) if (child !== this.words) child.remove();
    // The next answer has words of its own.
    this.words = null;
    return article;
  }

  /** Shown under the last message if its turn has no complete answer. */
  endOf(message) {
    if (this.running) return [];
    const ending = message.ending;
    const again = (what) => () => this.again(at("sessions", this.session.id, what));
    const model = ["Change model", () => this.settings()];
    if (message.role === "user") {
      if (ending?.why === "failed") return [errorCard("The request failed", ending.detail, [["Retry", again("resume")], model])];
      if (ending?.why === "stopped") return [unanswered("You stopped before an answer arrived.", again("regenerate"))];
      return [unanswered("This question has no answer yet.", again("resume"))];
    }
    if (ending?.why !== "failed") return [];
    return [errorCard("The answer was interrupted", ending.detail, [["Continue", () => this.proceed()], ["Retry", again("regenerate")], model])];
  }

  /** Asks the model to continue its last answer. */
  proceed() {
    return this.send(CONTINUE, []);
  }

  /** Removes cards under the last message. */
  clearEnd() {
    for (const node of this.log.querySelectorAll(".unanswered, .error-card, .welcome")) node.remove();
  }

  /** Shows an error in the conversation. */
  failed(title, problem, acts = []) {
    this.log.querySelectorAll(".error-card").forEach((card) => card.remove());
    this.log.append(errorCard(title, problem.message ?? problem.detail ?? problem.title, acts));
    this.scroll();
  }

  async reload() {
    if (!this.session) return;
    const session = await get(at("sessions", this.session.id));
    if (this.session?.id !== session.id) return;
    this.session = session;
    this.setRunning(session.running);
    this.draw(session.messages);
    this.loadUsage();
    this.loadPins();
    this.scroll();
    return session;
  }

  /** Reads the session again and resumes its running turn, if any. */
  async resume() {
    const session = await this.reload();
    if (!session?.running) return;
    this.stream?.stop();
    this.join(session);
  }

  /** Shows the usage below each answer. */
  async loadUsage() {
    if (!this.session) return;
    const id = this.session.id;
    const bars = await get(at("sessions", id, "requests")).catch(() => []);
    if (this.session?.id !== id) return;
    for (const bar of bars) {
      const node = this.log.querySelector(`[data-usage="${bar.request}"]`);
      if (!node) continue;
      const used = bar.usage;
      const prompt = used ? used.read + used.write + used.uncached : bar.tokens;
      fill(node, amount(prompt), " tokens", used && used.read > 0 ? [" · ", share(used.read, prompt), " cached"] : null,
        used?.cost > 0 ? [" · ", money(used.cost)] : null, used?.first_token_ms >= 100 ? ` · ${(used.first_token_ms / 1000).toFixed(1)} s` : null);
      node.title = "prompt tokens, share read from the provider's cache, cost, and time to first token";
    }
    this.scroll();
  }

  /** A message. `streamed` is the article of an answer that was streamed here and already shows its text. */
  message(message, streamed = null) {
    if (message.role === "user") {
      const node = h("article.message.user", { dataset: { turn: message.turn } });
      fill(node, speaker("You"), h("div.bubble", {}, message.text), attachments(message.attached),
        h("div.actions", {}, action("edit", "Edit", () => this.edit(node, message)), action("copy", "Copy", () => copyTold(message.text)), this.pinButton(message)));
      return node;
    }
    const article = streamed ?? h("article.message.assistant", {}, h("div.words", {}, markdown(message.text, openNote)));
    article.classList.remove("running");
    article.dataset.turn = message.turn;
    article.prepend(speaker("Assistant"));
    // A small model's answer is shown below its sources; any other model's above them.
    const { small } = this.session;
    const sources = sourceList(message.sources, small, openNote);
    if (sources && small) article.querySelector(".words").before(sources);
    article.append(...(sources && !small ? [sources] : []), ...message.calls.map(call),
      ...(message.ending || message.cut_off ? [earlyEnd(message.ending?.why, () => this.proceed())] : []),
      h("div.actions", {},
        message.request !== null && h("button.view-context", { type: "button", onclick: () => showRequest(this.session.id, message.request) }, icon("layers"), "View context"),
        action("copy", "Copy", () => copyTold(message.text)),
        action("again", "Regenerate", () => this.again(at("sessions", this.session.id, "regenerate")), "of-last"),
        action("fork", "Fork from here", () => this.fork(message.turn)), this.pinButton(message),
        message.request !== null && h("span.usage", { dataset: { usage: message.request } })));
    return article;
  }

  async send(words, attach) {
    this.beginning = true;
    let begun = null;
    try {
      if (!this.session) {
        begun = await post("/sessions", this.composer.choices());
        this.session = { ...begun, messages: [] };
        this.began(begun);
      }
      const id = this.session.id;
      const { event } = await post(at("sessions", id, "messages"), { words, attach });
      this.composer.sent(words, attach);
      this.clearEnd();
      this.log.append(this.message({ role: "user", text: words, attached: attach, turn: 0 }));
      this.start(event);
      return true;
    } catch (problem) {
      // Nothing was sent, so the text stays in the field, with the error below it.
      this.composer.refused(problem.message);
      // Delete the session, because it is empty.
      if (begun) {
        await del(at("sessions", begun.id)).catch(() => {});
        this.session = null;
        this.ended();
      }
      return false;
    } finally {
      this.beginning = false;
    }
  }

  /** Follows a turn that has begun. */
  start(event) {
    this.setRunning(true);
    this.pending();
    this.follow = true;
    this.scroll();
    this.stream?.stop();
    this.listen(event);
  }

  pending() {
    this.article = h("article.message.assistant.running", {}, speaker("Assistant"));
    this.log.append(this.article);
    this.fresh(h("span.thinking", {}, h("b", {}, "preparing the request"), h("i"), h("i"), h("i")));
  }

  /** Begins a new block of streamed text. */
  fresh(...children) {
    this.text = "";
    this.words = h("div.words", { "aria-busy": "true" }, children);
    this.growing = null;
    this.article.append(this.words);
  }

  async again(path, body) {
    this.beginning = true;
    try {
      const begun = await (body ? put(path, body) : post(path));
      const session = await get(at("sessions", this.session.id));
      this.session = session;
      this.setRunning(true);
      this.draw(session.messages);
      this.start(begun.event);
    } catch (problem) {
      this.failed("The request failed", problem, [["Retry", () => this.again(path, body)], ["Change model", () => this.settings()]]);
    } finally {
      this.beginning = false;
    }
  }

  edit(node, message) {
    const field = h("textarea.edit", { value: message.text, rows: Math.min(12, message.text.split("\n").length + 1), "aria-label": "Your message" });
    const done = (again) => {
      const shown = this.message(message);
      shown.dataset.said = node.dataset.said ?? "";
      node.replaceWith(shown);
      // After Cancel, the focus returns to the button.
      if (!again) shown.querySelector("[aria-label=Edit]")?.focus();
      if (again && field.value.trim()) this.again(at("sessions", this.session.id, "messages", message.turn || this.lastTurn()), { words: field.value });
    };
    field.addEventListener("keydown", (event) => {
      // These keys belong to the input method.
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === "Escape") {
        event.preventDefault();
        done(false);
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        done(true);
      }
    });
    fill(node, field, h("div.actions.open", {}, h("button.primary", { type: "button", onclick: () => done(true) }, "Send again"), h("button.plain", { type: "button", onclick: () => done(false) }, "Cancel"),
      h("span.usage", {}, "Later messages are removed from this conversation. The store keeps them.")));
    field.focus();
  }

  lastTurn() {
    return this.log.querySelectorAll(".message.user").length;
  }

  async fork(turn) {
    try {
      const session = await post(at("sessions", this.session.id, "fork"), { turn: turn || this.lastTurn() });
      this.forked(session.id);
    } catch (problem) {
      toast(problem.message, "error");
    }
  }

  async stop() {
    if (this.session && this.running) await post(at("sessions", this.session.id, "stop")).catch((problem) => toast(problem.message, "error"));
  }

  happened(name, data) {
    this.lost.hidden = name !== "offline";
    // Events of a turn that begins here are replayed to listeners from its start.
    if (this.beginning) return;
    switch (name) {
      case "turn":
        // Another window began it.
        if (!this.running && !this.beginning) this.resume().catch(() => {});
        break;
      case "request":
        this.setRunning(true);
        if (!this.words?.isConnected) this.pending();
        this.words.querySelector(".thinking b")?.replaceChildren(`reading ${amount(data.tokens)} tokens`);
        // A request is stored before it is sent, so it can be inspected now.
        this.changed();
        break;
      case "part":
        if (!this.words?.isConnected) this.pending();
        this.text += data.text;
        this.redraw();
        break;
      case "call":
        if (!this.words?.isConnected) this.pending();
        this.drawNow();
        if (!this.text) this.words.remove();
        this.article.append(call({ name: data.name, arguments: data.arguments, result: null }));
        this.fresh();
        this.scroll();
        break;
      case "result": {
        const open = [...this.article.querySelectorAll("details.call")].at(-1);
        open?.append(h("pre", {}, data.text));
        break;
      }
      case "sources": {
        if (!this.words?.isConnected) this.pending();
        const { small } = this.session;
        const sources = sourceList(data.sources, small, openNote);
        if (sources && small) this.words.before(sources);
        else if (sources) this.words.after(sources);
        break;
      }
      case "approval":
        if (!this.words?.isConnected) this.pending();
        if (this.log.querySelector(`[data-approval="${data.approval}"]`)) break;
        this.words.before(this.approval(data));
        this.scroll();
        this.ask(this.words.previousSibling);
        break;
      case "approved":
        this.answered(this.log.querySelector(`[data-approval="${data.approval}"]`));
        break;
      case "note":
      case "cache_cold":
        toast(data.text);
        break;
      case "problem":
        this.finish(data);
        break;
      case "done":
        if (data.out_of_steps) toast("The turn stopped because it reached its limit of requests.");
        this.finish();
        break;
      case "changed":
        this.changed();
        break;
      case "lost":
        this.resume().catch(() => {});
        break;
    }
  }

  /** A tool call waits for approval. */
  approval(data) {
    const say = (decision) => async () => {
      try {
        await post(at("sessions", this.session.id, "approvals", data.approval), { decision });
      } catch (problem) {
        toast(problem.message, "error");
      }
    };
    // Shows the whole call, with hidden characters made visible, before it can be allowed.
    const lines = (text, isDiff) => visible(text).split("\n").map((line) => h("span", { class: (isDiff && /^([+-])(?!\1\1 )/.exec(line)?.[1].replace("+", "plus").replace("-", "minus")) || "" }, `${line}\n`));
    const shown = lines(data.preview ?? JSON.stringify(data.arguments, null, 2), Boolean(data.preview));
    const change = data.change ? [h("p", {}, "This tool is new, or its server changed it since you allowed it. Its definition now:"), h("pre", { tabindex: 0 }, lines(data.change, true)), h("p", {}, "Arguments:")] : [];
    const tool = visible(String(data.tool).replace(/^tool:/, ""));
    // Escape declines the call; it does not stop the turn.
    const escape = (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      say("no")();
    };
    return h("div.approval", { role: "group", tabindex: -1, onkeydown: escape, "aria-label": `Tool call waiting for approval: ${tool}`, dataset: { approval: data.approval } },
      h("p", { role: "alert" }, "The model wants to use ", h("b", {}, tool), ` (${shown.length} lines):`), ...change, h("pre", { tabindex: 0 }, shown),
      h("div.actions.open", {}, h("button.primary", { type: "button", onclick: say("once") }, "Allow once"), h("button.plain", { type: "button", onclick: say("session") }, "Always in this session"), h("button.plain", { type: "button", onclick: say("no") }, "No")));
  }

  /** Moves the focus to a pending approval: to the question, not to a button, so that a stray key press decides nothing. While the user
   *  is typing, the focus stays and a screen reader announces the approval. */
  ask(approval) {
    const held = document.activeElement;
    if (held === this.composer.field && held.value) return;
    if (!held?.closest?.(".approval")) this.before = held;
    approval.focus({ preventScroll: true });
  }

  /** An approval was decided, here or elsewhere: moves the focus to the next one, or back to where it was. */
  answered(approval) {
    if (!approval) return;
    const had = approval.contains(document.activeElement);
    approval.remove();
    if (!had) return;
    const next = this.log.querySelector(".approval");
    const back = this.before?.isConnected && this.before !== document.body ? this.before : this.composer.field;
    (next ?? back).focus({ preventScroll: true });
  }

  /** Shows the answer so far, at most once per frame and for at most half of the time. */
  redraw() {
    if (this.drawing) return;
    this.drawing = true;
    setTimeout(() => requestAnimationFrame(() => {
      this.drawing = false;
      this.drawNow();
      this.scroll();
    }), this.cost ?? 0);
  }

  drawNow() {
    if (!this.words?.isConnected || !this.text) return;
    const started = performance.now();
    if (!this.growing) {
      this.words.replaceChildren();
      this.growing = new GrowingMarkdown(this.words, openNote);
    }
    this.growing.grow(this.text);
    this.cost = Math.min(performance.now() - started, 500);
  }

  /** The turn ended, with a problem where one is given. */
  finish(problem = null) {
    this.drawNow();
    this.setRunning(false);
    this.answered(this.log.querySelector(".approval"));
    this.reload().then(() => problem || this.readAloud()).catch(() => {}).then(() => {
      // The reason is stored, unless writing to the store failed.
      if (problem && !this.log.querySelector(".error-card")) this.failed("The request failed", problem, [["Retry", () => this.again(at("sessions", this.session.id, "resume"))], ["Change model", () => this.settings()]]);
    });
    this.changed();
  }

  /** Announces the finished answer to screen readers. */
  readAloud() {
    const blocks = [...this.log.querySelectorAll(".message.assistant .words")].at(-1)?.children ?? [];
    let text = "";
    for (const block of blocks) {
      text = `${text}\n${block.innerText}`.trim();
      if (text.length > READ_ALOUD) break;
    }
    announce(text.length > READ_ALOUD ? `Answer complete. ${text.slice(0, READ_ALOUD)} … The rest is in the conversation.` : `Answer complete. ${text}`);
  }

  setRunning(running) {
    this.running = running;
    this.composer.setRunning(running);
  }

  scroll() {
    if (this.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

/** Shows whether a message is pinned. */
function mark(button, pinned) {
  const label = pinned ? "Unpin: a fold may remove it" : "Pin: keep it in every fold";
  button.setAttribute("aria-pressed", String(pinned));
  button.setAttribute("aria-label", label);
  button.title = label;
}

/** The speaker's name, as a heading for screen readers. */
const speaker = (name) => h("h2.unseen", {}, name);

function unanswered(text, act) {
  return h("div.unanswered", {}, text, " ", h("button.plain", { type: "button", onclick: act }, "Answer now"));
}

function action(drawing, label, onclick, more = "") {
  return h("button.action", { class: more, type: "button", onclick, title: label, "aria-label": label }, icon(drawing));
}

async function copyTold(text) {
  if (await copy(text)) toast("Copied");
  else toast("Copying failed: the browser denied access to the clipboard", "error");
}

function attachments(names) {
  if (!names?.length) return null;
  // Before the answer is there, what was attached is told as it was named: a tag, a folder or a time is no note to open.
  const many = (name) => /^#|^since:|^link:|\/$|[*?]/.test(name) && !/^https?:/.test(name);
  return h("div.attached", { role: "group", "aria-label": "Attached" }, names.map((name) => h(many(name) ? "span.chip" : "button.chip", { type: many(name) ? null : "button", onclick: many(name) ? null : () => openNote(name) }, icon("clip"), name.replace(/\.md$/, ""))));
}

function call(call) {
  const result = typeof call.result === "string" ? call.result : call.result && JSON.stringify(call.result, null, 2);
  return h("details.call", {}, h("summary", {}, h("code", {}, call.name), h("span.arguments", {}, JSON.stringify(call.arguments))), result && h("pre", {}, result));
}

/** Suggestions for the first question. */
async function tries() {
  const notes = await get("/vault/complete?limit=200&kinds=note").catch(() => []);
  const known = [["Why was the loaf flat?", "Kitchen/Bread.md"], ["What should I practise this week?", "Piano Lessons/Practice plan.md"]];
  const fitting = known.filter(([, path]) => notes.some((note) => note.attach === path));
  const own = notes.slice(0, 2).map((note) => [`What is most important in ${note.label.split("/").pop()}?`, note.attach]);
  return [...(fitting.length ? fitting : own), ["What did I write lately?", "since:7d", "notes of the last 7 days"]];
}

/** Which model answers, and where messages are sent. */
async function answerer() {
  const model = (await get("/models").catch(() => [])).find((one) => one.default);
  if (!model) return "";
  if (!model.provider) return [`Model ${model.name} runs on this machine; nothing is sent elsewhere. It is the embedded small model: quick to try, often wrong. Choose another one below.`];
  return `Model ${model.name} via ${model.provider}. Messages and attachments are sent to ${model.provider}.`;
}

function welcome(put) {
  const list = h("div.tries");
  tries().then((all) => fill(list, all.map(([words, attach, label]) => h("button.try", { type: "button", onclick: () => put(words, [attach]) }, h("b", {}, words), h("span", {}, label ?? attach.replace(/\.md$/, ""))))));
  const who = h("p.who-answers");
  answerer().then((text) => fill(who, text));
  return h("div.welcome", {}, h("h2", {}, "Ask your notes"),
    h("p", {}, "Type a question, with ", h("kbd", {}, "[["), " for a note, ", h("kbd", {}, "#"), " for a tag, ", h("kbd", {}, "@"), " for anything. Every answer has ", h("b", {}, "View context"), ": exactly what was sent to the model, and why."),
    list, who);
}
