// The page: sessions on the left, the chat in the middle, the model's context on the right.

import { at, del, get, patch } from "./api.js";
import { Chat } from "./chat.js";
import { ContextPanel } from "./context.js";
import { showLedger } from "./ledger.js";
import { Picture } from "./picture.js";
import { Sessions } from "./sessions.js";
import { openSettings } from "./settings.js";
import { tabRow } from "./tabs.js";
import { TrustBanner } from "./trust.js";
import { takeTheme, toggleTheme } from "./theme.js";
import { fill, h, icon, iconButton, toast } from "./dom.js";

const state = { session: null };

const sessions = new Sessions({ open, begin: () => begin(), remove });
const chat = new Chat({ changed, began, ended, forked, settings, chose: () => state.session || refreshPanel() });
const picture = new Picture();
const context = new ContextPanel({
  agent: () => chat.composer.agent.value,
  model: () => chat.composer.model.value,
  made: async (name) => {
    await chat.composer.loadChoices(name);
    refreshPanel();
  },
});

const trust = new TrustBanner();

const title = h("button.title", { type: "button", title: "Rename this session", onclick: rename }, "Foreword");
const model = h("button.badge.model", { type: "button", title: "Settings of this session", onclick: settings });
const tabs = [
  ["prompt", "Prompt", "layers", picture],
  ["context", "Context", "list", context],
];
const panelBody = h("div.panel-body");
const panelTabs = tabRow("Model context", tabs, panelBody, (name) => showPanel(name));
const widen = iconButton("wide", "Widen the panel", toggleWide, { "aria-pressed": "false" });
const panel = h("aside.panel", { "aria-label": "Model context", hidden: true },
  h("div.panel-head", {}, panelTabs.node, h("span.grow"), widen, iconButton("close", "Close the panel", () => showPanel(null))), panelBody);

const header = h("header.bar", {},
  iconButton("menu", "Sessions", () => document.body.classList.toggle("side-open"), { class: "menu-button" }),
  h("h1.title-head", {}, title), model, h("span.grow"),
  tabs.map(([name, label, drawing]) => h("button.bar-button", { type: "button", dataset: { panel: name }, "aria-label": label, title: label, "aria-pressed": "false", onclick: () => showPanel(panel.dataset.name === name ? null : name) }, icon(drawing), h("span.label", {}, label))),
  h("button.bar-button", { type: "button", "aria-label": "Cost", title: "Cost and cache", onclick: () => showLedger(open) }, icon("chart"), h("span.label", {}, "Cost")),
  iconButton("moon", "Switch between light and dark theme", toggleTheme));

function toggleWide() {
  const wide = document.body.classList.toggle("panel-wide");
  widen.setAttribute("aria-pressed", String(wide));
  widen.setAttribute("aria-label", wide ? "Narrow the panel" : "Widen the panel");
  widen.title = widen.getAttribute("aria-label");
}

function settings() {
  if (state.session) openSettings(state.session.id, showSettings);
}

function showModel(...what) {
  fill(model, icon("gear"), h("span.unseen", {}, "Settings of this session: "), h("span.model-name", {}, what));
}

/** The session's current model and mode. */
async function showSettings() {
  const id = state.session?.id;
  // The settings are not requested during an answer.
  const set = id && !chat.running ? await get(at("sessions", id, "settings")).catch(() => null) : null;
  if (state.session?.id !== id) return;
  if (set || !model.firstChild || model.hidden) showModel(set ? [set.model, " · ", set.mode, set.history === "managed" && " · Endless"] : state.session?.model ?? "");
  model.hidden = !state.session;
  refreshPanel();
}

fill(document.getElementById("app"), sessions.node, h("div.scrim", { onclick: closeSide }), h("main.main", {}, header, trust.node, chat.node), panel);

function closeSide() {
  document.body.classList.remove("side-open");
}

/** Opens a panel, or none; the user's choice is saved. */
function showPanel(name, chosen = true) {
  panel.hidden = !name;
  panel.dataset.name = name ?? "";
  document.body.classList.toggle("panel-open", Boolean(name));
  if (chosen) localStorage.setItem("foreword-panel", name ?? "");
  panelTabs.mark(name);
  for (const button of header.querySelectorAll("[data-panel]")) button.setAttribute("aria-pressed", String(button.dataset.panel === name));
  const view = tabs.find(([tab]) => tab === name)?.[3];
  if (view) {
    if (panelBody.firstChild !== view.node) fill(panelBody, view.node);
    view.show(state.session?.id ?? null, chat.running);
  }
}

let opened = 0;

/** Whether opening adds a step to the browser's history. */
const STEP = "pushState";
const SAME = "replaceState";

/** Puts the open session into the URL and the browser's history. */
function address(id, how) {
  const to = id ? `#/${id}` : location.pathname;
  if (location.hash !== (id ? to : "")) history[how](null, "", to);
}

async function open(id, turn = null, how = STEP) {
  closeSide();
  if (!id) return begin(how);
  opened += 1;
  const wanted = opened;
  try {
    const session = await get(at("sessions", id));
    // Another one was chosen meanwhile.
    if (wanted !== opened) return;
    state.session = session;
    address(session.id, how);
    showTitle(session.title);
    sessions.mark(session.id);
    chat.open(session, turn);
    showSettings();
  } catch (problem) {
    if (problem.status === 404) {
      const begun = begin(how);
      // A new session clears older messages, so this one comes after it.
      toast(`Session ${id} not found.`, "error");
      return begun;
    }
    toast(problem.message, "error");
  }
}

function begin(how = STEP) {
  closeSide();
  opened += 1;
  state.session = null;
  address(null, how);
  showTitle(null);
  document.title = "Foreword";
  model.hidden = true;
  sessions.mark(null);
  chat.begin();
  refreshPanel();
}

function showTitle(name) {
  title.textContent = name || "New session";
  document.title = `${name || "New session"} · Foreword`;
}

/** A new session got its first message. */
async function began(session) {
  state.session = session;
  address(session.id, STEP);
  showModel(session.model);
  model.hidden = false;
  await sessions.load();
  sessions.mark(session.id);
}

/** The first message of a new session was refused, so there is no session. */
async function ended() {
  state.session = null;
  address(null, SAME);
  model.hidden = true;
  await sessions.load();
  sessions.mark(null);
}

// Back, forward, and an address that somebody typed or pasted.
addEventListener("popstate", () => {
  const id = named();
  if (id !== (state.session?.id ?? null)) open(id, null, SAME);
});

/** The session in the URL. */
function named() {
  return /^#\/([a-z0-9_-]+)$/i.exec(location.hash)?.[1] ?? null;
}

/** A session was forked off the one that is open. */
async function forked(id) {
  await sessions.load();
  await open(id);
}

/** Handles an event of the open session. */
async function changed() {
  await sessions.load();
  const known = sessions.find(state.session?.id);
  if (known) showTitle(known.title);
  showSettings();
}

function refreshPanel() {
  const view = tabs.find(([name]) => name === panel.dataset.name)?.[3];
  view?.show(state.session?.id ?? null, chat.running);
}

async function rename() {
  if (!state.session) return;
  const name = prompt("New title of this session:", title.textContent);
  if (!name?.trim()) return;
  try {
    await patch(at("sessions", state.session.id), { title: name });
    await changed();
  } catch (problem) {
    toast(problem.message, "error");
  }
}

async function remove(id, name) {
  if (!confirm(`Delete “${name}”? Its markdown file in the vault is kept.`)) return;
  try {
    await del(at("sessions", id));
    if (state.session?.id === id) begin(SAME);
    await sessions.load();
  } catch (problem) {
    toast(problem.message, "error");
  }
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const mod = event.ctrlKey || event.metaKey;
  // By the place of the key: with Alt held, some keyboards write another letter. AltGr, which is Ctrl and Alt, is for writing.
  const alt = event.altKey && !mod;
  if (mod && event.key === "k") {
    event.preventDefault();
    document.body.classList.add("side-open");
    sessions.focusSearch();
  } else if (alt && event.code === "KeyN") {
    event.preventDefault();
    begin();
  } else if (alt && event.code === "KeyP") {
    event.preventDefault();
    showPanel(panel.dataset.name === "prompt" ? null : "prompt");
  } else if (alt && event.code === "KeyC") {
    event.preventDefault();
    showPanel(panel.dataset.name === "context" ? null : "context");
  } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (document.body.classList.contains("side-open")) closeSide();
    else if (chat.running) chat.stop();
    // In the message field, Escape does not close the panel.
    else if (!panel.hidden && event.target !== chat.composer.field) showPanel(null);
  }
});

// It leads into the page, not to another address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  chat.composer.field.focus();
});

takeTheme();
await Promise.all([sessions.load(), trust.load()]);
await open(named(), null, SAME);
const wide = matchMedia("(min-width: 1100px)");
const usualPanel = () => showPanel(wide.matches ? (localStorage.getItem("foreword-panel") ?? "prompt") || null : null, false);
wide.addEventListener("change", usualPanel);
usualPanel();
