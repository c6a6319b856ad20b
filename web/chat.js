// The conversation on the screen: messages, branches, and one answer in the making.
import * as api from "./api.js";
import * as learn from "./learn.js";
import * as store from "./store.js";
import * as tools from "./tools.js";
import { render, visible } from "./markdown.js";
import { t } from "./lang.js";

const $ = id => document.getElementById(id);
const make = (tag, props = {}, ...children) => { const e = Object.assign(document.createElement(tag), props); e.append(...children); return e; };
const button = (label, action, more = {}) => make("button", { type: "button", className: "link", textContent: label, onclick: action, ...more });

export const state = { talk: null, notes: new Map(), answer: null, recent: [] };
let tell, changed, settings;

export const begin = hooks => { ({ tell, changed, settings } = hooks); };

export const show = async id => {
  const all = await store.talks();
  state.talk = all.find(x => x.id === id) ?? null;
  state.notes = state.talk ? await store.notes(id) : new Map();
  draw();
};

const figuresOf = f => (f.learned ? t("withLearned", { v: f.learned.version }) + " · " : "") + t("figures", { n: f.out, s: f.speed?.toFixed(1), f: f.first?.toFixed(2), p: f.prompt, c: f.cached ?? 0, seed: f.seed });
const ENDS = { cut: "cut", cancelled: "cancelled", length: "full" };

const drawBody = (body, note) => {
  body.textContent = "";
  if (note.role === "user") { body.textContent = visible(note.text); return; }
  if (note.reasoning) {
    const text = make("div");
    render(text, note.reasoning);
    body.append(make("details", { open: !note.text && state.answer?.note === note }, make("summary", { textContent: t("reasoning") }), text));
  }
  const text = make("div");
  render(text, note.text);
  body.append(text);
  for (const call of note.calls ?? []) body.append(tools.drawCall(note, call, state.answer ? null : () => decided(note)));
  if (!note.text && !note.reasoning && !note.calls?.length && state.answer?.note === note) body.append(make("span", { className: "quiet", textContent: t("waiting") }));
};

const drawTools = note => {
  const bar = make("div", { className: "tools" });
  const near = store.siblings(state.notes, note), i = near.indexOf(note);
  const go = n => { state.talk.leaf = store.leafBelow(state.notes, near[n].id); store.saveTalk(state.talk); draw(); };
  if (near.length > 1) bar.append(button("‹", () => go(i - 1), { disabled: i === 0, ariaLabel: t("before") }), `${i + 1}/${near.length}`, button("›", () => go(i + 1), { disabled: i + 1 === near.length, ariaLabel: t("after") }));
  bar.append(button(t("copy"), e => navigator.clipboard.writeText(note.text).then(() => { e.target.textContent = t("copied"); })));
  if (note.role === "user") bar.append(button(t("edit"), () => edit(note)));
  else bar.append(button(t("again"), () => answer(note.parent)));
  if (note.role === "assistant" && note.text && (note.end === "cut" || note.end === "cancelled" || note.end === "length")) bar.append(button(t("goon"), () => goOn(note)));
  if (note.role === "assistant") bar.append(...learn.drawButtons(note, bar));
  if (ENDS[note.end]) bar.append(make("span", { textContent: t(ENDS[note.end]) }));
  if (note.figures) bar.append(make("span", { className: "figures", textContent: figuresOf(note.figures) }));
  return bar;
};

const drawNote = note => {
  const body = make("div", { className: "body" });
  const article = make("article", { className: note.role }, make("h3", { textContent: t(note.role === "user" ? "you" : "kentang") }), body);
  article.dataset.id = note.id;
  drawBody(body, note);
  if (state.answer?.note !== note) article.append(drawTools(note));
  return article;
};

export const draw = () => {
  const log = $("log"), end = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  log.replaceChildren(...(state.talk ? store.path(state.notes, state.talk.leaf).map(drawNote) : []));
  if (end || state.answer) log.scrollTop = log.scrollHeight;
  log.setAttribute("aria-busy", state.answer ? "true" : "false");
  $("stop").hidden = !state.answer;
  $("send").disabled = !!state.answer;
};

const edit = note => {
  const box = make("textarea", { value: note.text, rows: 4, ariaLabel: t("ask") });
  const form = make("form", {}, box, make("div", { className: "row" }, make("button", { className: "main", textContent: t("send") }), button(t("close"), draw)));
  form.onsubmit = e => { e.preventDefault(); if (!state.answer && box.value.trim()) say(box.value, note.parent); };
  document.querySelector(`article[data-id="${note.id}"]`).replaceChildren(form);
  box.focus();
};

const note = (parent, role, text) => ({ id: store.fresh(), talk: state.talk.id, parent, role, text, at: Date.now() });

const add = async n => {
  state.notes.set(n.id, n);
  state.talk.leaf = n.id;
  state.talk.at = Date.now();
  await store.saveNote(n);
  await store.saveTalk(state.talk);
};

// A user's message below `parent` (the leaf, or where an edited one begins a branch), and its answer.
export const say = async (text, parent) => {
  if (!state.talk) {
    state.talk = { id: store.fresh(), title: text.trim().split("\n")[0].slice(0, 60), at: Date.now(), system: settings().system ?? "", leaf: null };
    state.notes = new Map();
  }
  const n = note(parent === undefined ? state.talk.leaf : parent, "user", text);
  await add(n);
  changed();
  await answer(n.id);
};

const messagesTo = id => [...(state.talk.system ? [{ role: "system", content: state.talk.system }] : []),
  ...store.path(state.notes, id).filter(n => n.text || n.role === "user" || n.calls?.length).flatMap(n => n.calls?.[0]?.id ? tools.messages(n) : [{ role: n.role, content: n.text }])];

export const answer = async parent => {
  if (state.answer) return;
  const n = { ...note(parent, "assistant", ""), reasoning: "", calls: [], end: "cut" };
  await add(n);
  await stream(n, { messages: messagesTo(parent) });
};

// A call was allowed or not; when none is left to decide, the model goes on with what the tools said.
const decided = async n => {
  await store.saveNote(n);
  draw();
  if (!tools.open(n).length) await answer(n.id);
};

const goOn = async n => {
  if (!state.answer) await stream(n, { messages: messagesTo(n.id), continue_final_message: true });
};

const take = (n, f, kind, value) => {
  if (kind === "text" || kind === "reasoning") {
    f.first ??= performance.now();
    n[kind] += value;
  } else if (kind === "call") {
    const call = n.calls[value.index] ??= { name: "", arguments: "" };
    call.id ??= value.id;
    call.name += value.name ?? "";
    call.arguments += value.arguments ?? "";
  } else if (kind === "end") n.end = value;
  else if (kind === "id") n.response = value;
  else if (kind === "learned") f.learned = value;
  else if (kind === "usage") f.usage = value;
  else if (kind === "seed") f.seed = value;
};

const figures = f => {
  const ms = f.first ? performance.now() - f.first : 0;
  const out = f.usage?.completion_tokens;
  return { out, prompt: f.usage?.prompt_tokens, cached: f.usage?.prompt_tokens_details?.cached_tokens, first: f.first ? (f.first - f.begin) / 1000 : undefined, learned: f.learned,
    speed: out > 1 && ms > 0 ? (out - 1) * 1000 / ms : undefined, seed: f.seed };
};

// Draws and keeps what has come, a few times a second, however fast it comes.
const stream = async (n, body) => {
  const stop = new AbortController(), f = { begin: performance.now() };
  state.answer = { note: n, stop };
  tell("");
  draw();
  let due = false;
  const later = () => {
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      const at = document.querySelector(`article[data-id="${n.id}"] .body`), log = $("log");
      if (!at || state.answer?.note !== n) return;
      const end = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
      drawBody(at, n);
      if (end) log.scrollTop = log.scrollHeight;
      store.saveNote(n, true).catch(() => {});
    }, 120);
  };
  try {
    await api.chat({ ...settings().request, ...tools.asked(), ...body }, stop.signal, (kind, value) => { take(n, f, kind, value); later(); });
  } catch (e) {
    if (stop.signal.aborted) n.end = "cancelled";
    else { n.end = "cut"; tell(e.status === 401 ? t("badKey") : e.status ? e.message : t("gone")); }
  }
  n.figures = figures(f);
  state.last = n.figures;
  if (n.figures.prompt) state.recent = [n.figures, ...state.recent].slice(0, 5);
  state.answer = null;
  const goesOn = n.end === "tool_calls" && tools.open(n).length && await tools.runAllowed(n);
  await store.saveNote(n);
  draw();
  changed();
  if (goesOn) await answer(n.id);
};
export const halt = () => state.answer?.stop.abort();
