// The message field: attachments by typing [[, # or @, and a preview of the next request.

import { get } from "./api.js";
import { fill, h, icon, iconButton } from "./dom.js";
import { attaching } from "./note.js";
import { Preview } from "./preview.js";
import { histories } from "./settings.js";

/** The largest number of saved drafts. */
const DRAFTS = 50;

/** The session storage key of the drafts, which survive a reload. */
const KEPT = "foreword-drafts";

/** The key of the draft for a new session. */
const NEW = "new";

export class Composer {
  constructor({ send, stop, session, offline, chose }) {
    this.onsend = send;
    this.onstop = stop;
    this.session = session;
    this.offline = offline;
    this.attach = [];
    this.drafts = keptDrafts();
    this.entered = false;
    this.running = false;
    this.field = h("textarea", {
      id: "composer", rows: 1, placeholder: matchMedia("(min-width: 761px)").matches ? "Ask something: [[ note, # tag, @ anything" : "Ask something", "aria-label": "Your message",
      "aria-haspopup": "listbox", "aria-controls": "completions", "aria-autocomplete": "list",
      oninput: () => this.typed(), onkeydown: (event) => this.key(event), onblur: () => setTimeout(() => document.activeElement === this.field || this.closeList(), 150),
    });
    this.chips = h("div.chips", { role: "group", "aria-label": "Attached to this message" });
    this.list = h("ul.completions", { id: "completions", role: "listbox", hidden: true });
    this.button = h("button.send", { type: "button", "aria-label": "Send", title: "Send (Enter)", onclick: () => this.press() }, icon("send"));
    this.next = new Preview();
    const changed = () => this.preview();
    this.model = h("select", { "aria-label": "Model of the new session", onchange: () => { chose(); changed(); } });
    this.layout = h("select", { "aria-label": "Layout of the new session", onchange: changed, title: "log: attached texts stay where they were first sent. library: attached texts are moved into the system message." }, h("option", { value: "log" }, "log"), h("option", { value: "library" }, "library"));
    this.agent = h("select", { "aria-label": "Agent of the new session", onchange: () => { chose(); changed(); } }, h("option", { value: "" }, "default agent"));
    const modes = [["", "default mode"], ["chat", "chat"], ["qa", "qa: search first, cite"], ["plan", "plan: choose tools once"], ["agent", "agent: work until done"]];
    this.mode = h("select", { "aria-label": "Mode of the new session", onchange: changed }, modes.map(([value, label]) => h("option", { value }, label)));
    this.endless = h("select", { "aria-label": "How older messages are sent", onchange: changed, title: "Endless: older messages are replaced by a checked summary, so a session has no length limit." }, h("option", { value: "" }, "full history"));
    this.options = h("div.options", {}, this.agent, this.model, this.mode, this.endless, this.layout);
    this.node = h("div.composer", {}, this.list, h("div.box", {}, this.chips, h("div.row", {}, iconButton("clip", "Attach", () => this.begin()), this.field, this.button)),
      h("div.under", {}, this.options, this.next.node));
    attaching((what) => this.add(what));
    window.addEventListener("resize", () => this.grow());
    addEventListener("pagehide", () => this.keep(this.session()));
    this.loadChoices();
  }

  async loadChoices(wanted = null) {
    const [agents, models, history] = await Promise.all([get("/agents").catch(() => []), get("/models").catch(() => []), histories()]);
    const chosen = wanted ?? this.agent.value;
    fill(this.agent, h("option", { value: "" }, "default agent"), agents.map((agent) => h("option", { value: agent.name, title: agent.description ?? "", selected: agent.name === chosen }, agent.name)));
    fill(this.endless, history.options.map(([value, label]) => h("option", { value, title: history.about(value) ?? "" }, label)));
    fill(this.model, models.map((model) => h("option", { value: model.default ? "" : model.name, selected: model.default }, model.name)));
  }

  choices() {
    const given = { model: this.model.value, agent: this.agent.value, layout: this.layout.value, mode: this.mode.value, template: this.endless.value };
    return Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  }

  focus() {
    if (matchMedia("(hover: hover)").matches) this.field.focus();
  }

  /** Fills in a question for the user. */
  put(words, attach) {
    this.field.value = words;
    this.attach = [...attach];
    this.drawChips();
    this.typed();
    this.field.focus();
  }

  /** Adds an attachment. */
  add(what) {
    if (!this.attach.includes(what)) this.attach.push(what);
    this.drawChips();
    this.preview();
    this.field.focus();
  }

  /** Saves the draft of the session that is left and restores the draft of the one that is opened. */
  leave(session) {
    // When the page is opened, nothing is left yet.
    if (this.entered) this.keep(session);
  }

  /** Saves the draft of a session. */
  keep(session) {
    this.drafts.delete(session ?? NEW);
    if (this.field.value.trim() || this.attach.length) this.drafts.set(session ?? NEW, { words: this.field.value, attach: this.attach });
    if (this.drafts.size > DRAFTS) this.drafts.delete(this.drafts.keys().next().value);
    try {
      sessionStorage.setItem(KEPT, JSON.stringify([...this.drafts]));
    } catch {
      // Without session storage, drafts are lost on reload.
    }
  }

  /** Restores the draft of a session. */
  enter(session) {
    this.entered = true;
    const draft = this.drafts.get(session ?? NEW);
    this.drafts.delete(session ?? NEW);
    this.field.value = draft?.words ?? "";
    this.attach = draft?.attach ?? [];
    this.options.hidden = this.session() !== null;
    this.drawChips();
    this.typed();
  }

  /** After sending, clears the field except for text that was typed since. */
  sent(words, attach) {
    const now = this.field.value.trimStart();
    this.field.value = now.startsWith(words) ? now.slice(words.length).trimStart() : now;
    this.attach = this.attach.filter((name) => !attach.includes(name));
    this.options.hidden = this.session() !== null;
    this.drawChips();
    this.typed();
  }

  setRunning(running) {
    this.running = running;
    const label = running ? "Stop" : "Send";
    fill(this.button, icon(running ? "stop" : "send"));
    this.button.setAttribute("aria-label", label);
    this.button.title = running ? "Stop (Esc)" : "Send (Enter)";
    this.button.classList.toggle("stop", running);
    this.preview();
  }

  press() {
    return this.running ? this.onstop() : this.send();
  }

  async send() {
    // Sending during an answer must not stop the answer.
    if (this.running && this.offline()) return this.next.say("Connection to the server lost. Your message was not sent.", "bad");
    if (this.running) return this.next.say("The answer is still streaming. Send your message when it is finished, or press Esc to stop it.");
    const words = this.field.value.trim();
    if (!words || this.sending) return;
    this.sending = true;
    await this.onsend(words, [...this.attach]);
    this.sending = false;
    this.options.hidden = this.session() !== null;
  }

  /** Shows why a message was not sent. The text stays in the field. */
  refused(why) {
    this.next.clear();
    this.next.say(why, "bad");
  }

  key(event) {
    // These keys belong to the input method.
    if (event.isComposing || event.keyCode === 229) return;
    if (!this.list.hidden) {
      const options = [...this.list.children];
      const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        return this.pick((at + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length);
      }
      if (event.key === "Enter" || event.key === "Tab") {
        event.preventDefault();
        // If the list is late, the typed text is used.
        if (this.begun()?.name !== this.listed?.name) return this.complete().then(() => this.list.hidden || this.key(event));
        return options[Math.max(at, 0)]?.dispatchEvent(new Event("pointerdown"));
      }
      if (event.key === "Escape") {
        event.preventDefault();
        return this.closeList();
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.send();
    }
  }

  /** Starts an attachment, with a space after a word. */
  begin() {
    const before = this.field.value[this.field.selectionStart - 1];
    this.insert(before && !/\s/.test(before) ? " @" : "@");
  }

  insert(text) {
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, "end");
    this.field.focus();
    this.typed();
  }

  typed() {
    this.grow();
    this.complete();
    this.preview();
  }

  /** Fits the field's height to its text. */
  grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 240)}px`;
    this.field.style.overflowY = this.field.scrollHeight > 240 ? "auto" : "hidden";
  }

  /** The attachment being typed at the cursor: its sign and the text since. */
  begun() {
    const before = this.field.value.slice(0, this.field.selectionStart);
    const link = /\[\[([^\][\n]*)$/.exec(before);
    if (link) return { sign: "[[", name: link[1], from: link.index };
    // An address may hold the other signs, and the name of a note may hold spaces.
    const sign = /(?:^|\s)(@)(https?:\/\/\S*)$/.exec(before) ?? /(?:^|\s)(#)([^\s#@]*)$/.exec(before) ?? /(?:^|\s)(@)((?!\s)(?:(?!\s@)[^\n]){0,120})$/.exec(before);
    return sign && { sign: sign[1], name: sign[2], from: before.length - sign[2].length - 1 };
  }

  async complete() {
    const begun = this.begun();
    if (!begun) return this.closeList();
    if (begun.sign === "@" && /^https?:\/\/\S+/.test(begun.name)) return this.show([{ kind: "page", label: begun.name, attach: begun.name }], begun);
    // @Kitchen/Bread.md:3-7 names lines of a note.
    const lines = begun.sign === "@" && /^(.+?)(?:#L|:)(\d+)(?:-L?(\d+))?$/.exec(begun.name);
    if (lines) {
      const [, note, first, last = first] = lines;
      return this.show([{ kind: "lines", label: first === last ? `${note}, line ${first}` : `${note}, lines ${first} to ${last}`, attach: `${note}#L${first}-L${last}` }], begun);
    }
    // If there was no match, longer text has none either: it is not looked up.
    if (this.nothing?.sign === begun.sign && this.nothing.from === begun.from && begun.name.startsWith(this.nothing.name)) return this.closeList();
    const kinds = { "[[": "note", "#": "tag", "@": "note,tag,folder" }[begun.sign];
    const found = await get(`/vault/complete?limit=8&kinds=${kinds}&q=${encodeURIComponent(begun.name)}`).catch(() => null);
    const now = this.begun();
    if (!now || now.from !== begun.from || now.name !== begun.name) return;
    this.nothing = found?.length === 0 ? begun : null;
    this.show(found ?? [], begun);
  }

  show(found, begun) {
    if (!found.length) return this.closeList();
    fill(this.list, found.map((one, index) => h("li", {
      role: "option", id: `completion-${index}`, "aria-selected": String(index === 0),
      onpointerdown: (event) => { event.preventDefault(); this.take(one, begun); },
    }, h("span.kind", {}, one.kind), h("span.label", {}, one.label), one.notes > 1 && h("span.count", {}, `${one.notes} notes`))));
    this.listed = begun;
    this.list.hidden = false;
    this.pick(0);
  }

  pick(index) {
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    this.list.children[index]?.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", `completion-${index}`);
  }

  closeList() {
    this.list.hidden = true;
    this.field.removeAttribute("aria-activedescendant");
  }

  take(one, begun) {
    const end = this.field.selectionStart;
    // The name stays in the sentence. A note that is linked is attached by that.
    const linked = begun.sign === "[[" || one.kind === "note";
    const name = linked ? `[[${one.label}]]` : one.label;
    const space = linked || /^\s/.test(this.field.value.slice(end)) ? "" : " ";
    this.field.setRangeText(name + space, begun.from, end, "end");
    if (!linked && !this.attach.includes(one.attach)) this.attach.push(one.attach);
    this.closeList();
    this.drawChips();
    this.typed();
    this.field.focus();
  }

  drawChips() {
    fill(this.chips, this.attach.map((name) => h("span.chip", {}, icon("clip"), name.replace(/\.md$/, ""),
      iconButton("close", `Remove ${name}`, () => {
        this.attach = this.attach.filter((other) => other !== name);
        this.drawChips();
        this.preview();
        this.field.focus();
      }))));
    this.chips.hidden = !this.attach.length;
  }

  /** Previews the next request. */
  preview() {
    const words = this.field.value.trim();
    if (!words || this.running) return this.next.clear();
    this.next.ask(this.session(), { words, attach: this.attach }, this.choices());
  }
}

function keptDrafts() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
  } catch {
    return new Map();
  }
}
