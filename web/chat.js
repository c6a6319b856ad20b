// The conversation on the screen: its messages, what can be done with each, and how each ended.
import * as learn from "./learn.js";
import * as store from "./store.js";
import * as talk from "./talk.js";
import * as tools from "./tools.js";
import * as welcome from "./welcome.js";
import { $, link, make, tell } from "./dom.js";
import { render, visible } from "./markdown.js";
import { number, t, took } from "./lang.js";

const { state } = talk;
const isEmpty = n => !n.text && !n.reasoning && !n.calls?.length;
const isMaking = n => state.answer?.note === n;

// ---- what an answer is ----

const drawReading = now => {
  if (!now) return make("span", { className: "quiet writing", textContent: t("waiting") });
  if (now.loading) return make("span", { className: "quiet writing", textContent: t("loading") });
  if (now.waiting) return make("span", { className: "quiet", textContent: t("inQueue") });
  const left = now.left === undefined ? "" : " · " + t("secondsLeft", { s: Math.max(1, Math.round(now.left)) });
  const rate = now.rate ? " · " + t("rate", { n: number(now.rate, 0) }) : "";
  return make("div", { className: "reading quiet" }, make("span", { textContent: t("reading", { n: number(now.done), all: number(now.total) }) + rate + left }),
    make("progress", { value: now.done, max: now.total, ariaLabel: t("readingLabel") }));
};

const drawBody = (body, note) => {
  body.textContent = "";
  if (note.role === "user") {
    const own = typeof note.asked === "string" && note.text.endsWith(note.asked) ? note.asked : note.text, documents = note.text.slice(0, note.text.length - own.length).trim();
    body.append(...talk.picturesOf(note).map(src => make("img", { src, alt: t("picture") })));
    if (documents) body.append(make("details", {}, make("summary", { textContent: t("documents") }), visible(documents)));
    body.append(visible(own));
    return;
  }
  if (note.reasoning) {
    const text = make("div");
    render(text, note.reasoning);
    body.append(make("details", { open: !note.text && isMaking(note) }, make("summary", { textContent: t("reasoning") }), text));
  }
  const text = make("div");
  render(text, note.text);
  body.append(text);
  for (const call of note.calls ?? []) body.append(tools.drawCall(note, call, state.talk, state.answer ? null : () => talk.decided(note)));
  if (isEmpty(note) && isMaking(note)) body.append(drawReading(state.answer.reading));
};

// How it ended where that is no good end, and what helps.
const drawEnd = note => {
  if (isMaking(note) || !["cut", "cancelled", "length", "failed"].includes(note.end)) return null;
  const trouble = note.end === "failed", more = note.text && !note.calls?.length;
  const box = make("div", { className: trouble ? "end bad" : "end" }, make("span", { className: "grow", textContent: trouble ? t("endFailed", { why: note.why ?? "" }) : t("end_" + note.end) }));
  if (more) box.append(link(t("goon"), () => talk.goOn(note), { draws: "goon" }));
  else box.append(link(t("retry"), () => talk.again(note), { draws: "again" }));
  return box;
};

// The documents and pages that the question brought along, below its answer; a file that was read in may have anything.
const drawSources = note => {
  const asked = state.notes.get(note.parent), list = note.role === "assistant" && Array.isArray(asked?.sources) ? asked.sources : [];
  const words = list.filter(s => typeof s?.name === "string" && Array.isArray(s.pages)).map(s => s.pages.length ? t(s.pages.length > 1 ? "ofPages" : "ofPage", { f: s.name, p: s.pages.join(", ") }) : s.name);
  return words.length ? make("div", { className: "quiet sources", textContent: t("readFrom", { l: words.join("; ") }) }) : null;
};

const drawFigures = ({ figures: f }) => {
  if (!f) return null;
  const rows = [f.learned && t("withLearned", { v: f.learned.version }), f.opened && t("withFixes", { l: f.opened.join(", ") }), f.first !== undefined && t("firstAfter", { s: took(f.first) }),
    t("promptTokens", { n: f.prompt }) + (f.cached ? " " + t("fromCache", { n: number(f.cached) }) : ""), f.seed !== undefined && t("seedWas", { n: f.seed })];
  return make("details", { className: "figures" }, make("summary", { textContent: t("tokens", { n: f.out }) + (f.speed ? " · " + t("rate", { n: number(f.speed, f.speed < 100 ? 1 : 0) }) : "") }),
    make("span", { textContent: rows.filter(Boolean).join(" · ") }));
};

// ---- what can be done with it ----

const drawBranches = note => {
  const near = store.siblings(state.notes, note), i = near.indexOf(note);
  const go = n => { state.talk.leaf = store.leafBelow(state.notes, near[n].id); store.saveTalk(state.talk); draw(); };
  if (near.length < 2) return [];
  return [make("span", { className: "branches" }, link("", () => go(i - 1), { draws: "left", disabled: i === 0, ariaLabel: t("before"), title: t("before") }), `${i + 1}/${near.length}`,
    link("", () => go(i + 1), { draws: "right", disabled: i + 1 === near.length, ariaLabel: t("after"), title: t("after") }))];
};

const forget = async note => {
  const back = await talk.forget(note);
  tell(t("messageGone"), { fine: true, undo: { label: t("undo"), act: back } });
};

const drawTools = note => {
  const bar = make("div", { className: "tools" }, ...drawBranches(note));
  if (!note.text && note.calls?.length && state.talk.leaf !== note.id) return bar; // a step on the way to what follows
  if (note.text) bar.append(link(t("copy"), e => { const at = e.currentTarget; navigator.clipboard.writeText(note.text).then(() => { at.lastChild.textContent = t("copied"); }); }, { draws: "copy" }));
  if (note.role === "user") bar.append(link(t("edit"), () => edit(note), { draws: "fix" }));
  else if (!isEmpty(note)) bar.append(link(t("again"), () => talk.again(note), { draws: "again" }), ...learn.drawButtons(note, bar, draw));
  bar.append(link(t("delete"), () => { if (!state.answer) forget(note); }, { draws: "trash" }));
  const figures = drawFigures(note);
  if (figures) bar.append(figures);
  return bar;
};

const edit = note => {
  if (state.answer) return;
  const box = make("textarea", { value: note.text, rows: 4, ariaLabel: t("ask") });
  const form = make("form", { className: "editing" }, box, make("div", { className: "row" }, make("button", { className: "main", textContent: t("send") }), link(t("cancel"), draw)));
  form.onsubmit = e => { e.preventDefault(); if (!state.answer && (box.value.trim() || note.pictures?.length)) talk.say(box.value, { parent: note.parent, extra: note.extra, pictures: note.pictures }); };
  articleOf(note).replaceChildren(form);
  box.focus();
};

// ---- the whole ----

const articleOf = note => document.querySelector(`article[data-id="${note.id}"]`);
const drawNote = (note, i, path) => {
  const body = make("div", { className: "body" });
  const article = make("article", { className: note.role }, make("h3", { textContent: note.role === "user" ? t("you") : note.model ?? t("kentang") }), body);
  article.classList.toggle("goes-on", note.role === "assistant" && path[i - 1]?.role === "assistant");
  article.dataset.id = note.id;
  drawBody(body, note);
  article.append(...[drawSources(note), drawEnd(note), isMaking(note) ? null : drawTools(note), learn.drawSaid(note, draw)].filter(Boolean));
  return article;
};

const nearEnd = log => log.scrollHeight - log.scrollTop - log.clientHeight < 80;

export const draw = () => {
  const log = $("log"), end = nearEnd(log), mine = state.answer && state.answer.talk.id === state.talk?.id;
  const notes = state.talk ? store.path(state.notes, state.talk.leaf) : [];
  log.replaceChildren(...(notes.length ? notes.map(drawNote) : [welcome.draw()]));
  log.classList.toggle("empty", !notes.length);
  if (end || mine) log.scrollTop = notes.length ? log.scrollHeight : 0;
  log.setAttribute("aria-busy", mine ? "true" : "false");
  $("stop").hidden = !state.answer;
  $("send").hidden = !!state.answer;
};

export const drawAnswer = note => {
  const article = articleOf(note), log = $("log");
  if (!article) return;
  const end = nearEnd(log);
  drawBody(article.querySelector(".body"), note);
  if (end) log.scrollTop = log.scrollHeight;
};
