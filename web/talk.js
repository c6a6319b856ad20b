// The conversation that is open, and the one answer in the making, which may belong to another one.
import * as api from "./api.js";
import * as store from "./store.js";
import * as tools from "./tools.js";
import { readPrompt } from "./progress.js";
import { tell } from "./dom.js";
import { t } from "./lang.js";

// answer: {talk, notes, note, stop, reading}; notes: messages by id.
export const state = { talk: null, notes: new Map(), answer: null, last: null, recent: [] };
let hooks = {};
// draw(): all; drawAnswer(note): what came of it; changed(): the list of conversations; settings(): {system, request, tools}
export const begin = given => { hooks = given; };

let turn = 0; // only the latest wish to see a conversation is fulfilled
const open = (talk, notes) => { state.talk = talk; state.notes = notes; hooks.draw(); };
export const show = async id => {
  const mine = ++turn;
  if (!id) return open(null, new Map());
  if (state.answer?.talk.id === id) return open(state.answer.talk, state.answer.notes);
  const talk = (await store.talks()).find(x => x.id === id), notes = talk ? await store.notes(id) : new Map();
  if (mine === turn) open(talk ?? null, notes);
};

const isOpen = talk => state.talk?.id === talk.id;
const note = (talk, parent, role, text) => ({ id: store.fresh(), talk: talk.id, parent, role, text, at: Date.now() });

const add = async (talk, notes, n) => {
  notes.set(n.id, n);
  talk.leaf = n.id;
  talk.at = Date.now();
  await store.saveNote(n);
  await store.saveTalk(talk);
};

const beginTalk = (text, pictures) => {
  turn++;
  const { system, tools: names } = hooks.settings();
  state.talk = { id: store.fresh(), title: text.trim().split("\n")[0].slice(0, 60) || (pictures?.length ? t("picture") : ""), at: Date.now(), system, tools: names, leaf: null };
  state.notes = new Map();
};

// A user's message, with pictures as data URLs, what was written below its documents, and the pages that its passages are of, below `parent` (the leaf, or where an edited one begins a branch), and its answer. extra: of the request.
export const say = async (text, { parent, extra, tools: names, pictures, sources, asked } = {}) => {
  if (state.answer) return;
  if (!state.talk) beginTalk(asked?.trim() || text, pictures);
  const { talk, notes } = state;
  if (names) talk.tools = names;
  const n = { ...note(talk, parent === undefined ? talk.leaf : parent, "user", text), extra, ...(pictures?.length ? { pictures } : {}), ...(sources?.length ? { sources } : {}), ...(asked === undefined ? {} : { asked }) };
  await add(talk, notes, n);
  hooks.changed();
  await answer(n.id, talk, notes);
};

// Those that a message has; a file that was read in may have anything.
export const picturesOf = n => (Array.isArray(n.pictures) ? n.pictures : []).filter(p => typeof p === "string" && /^data:image\/(png|jpeg|webp);base64,/.test(p));

// A model that sees nothing is told that there was a picture.
const contentOf = n => {
  const pictures = picturesOf(n);
  if (!pictures.length) return n.text;
  if (!hooks.settings().sees) return [t("unseen"), n.text].filter(Boolean).join("\n");
  return [...pictures.map(url => ({ type: "image_url", image_url: { url } })), ...(n.text ? [{ type: "text", text: n.text }] : [])];
};

const isEmpty = n => !n.text && !n.reasoning && !n.calls?.length;
const messagesTo = (talk, notes, id) => [...(talk.system ? [{ role: "system", content: talk.system }] : []),
  ...store.path(notes, id).filter(n => !isEmpty(n) || n.role === "user").flatMap(n => n.calls?.[0]?.id ? tools.messages(n) : [{ role: n.role, content: contentOf(n) }])];

export const answer = async (parent, talk = state.talk, notes = state.notes) => {
  if (state.answer) return;
  const n = { ...note(talk, parent, "assistant", ""), reasoning: "", calls: [], end: "cut" };
  // At once, so that nothing else begins meanwhile.
  state.answer = { talk, notes, note: n, stop: new AbortController() };
  await add(talk, notes, n);
  const asked = store.path(notes, parent).findLast(x => x.role === "user");
  await stream({ messages: messagesTo(talk, notes, parent), ...asked?.extra });
};

// An answer of the same message anew; one of which nothing came makes room for it.
export const again = async n => {
  if (state.answer) return;
  if (isEmpty(n)) {
    state.notes.delete(n.id);
    await store.dropNotes(n.talk, [n.id]);
  }
  await answer(n.parent);
};

export const goOn = async n => {
  if (state.answer) return;
  state.answer = { talk: state.talk, notes: state.notes, note: n, stop: new AbortController() };
  await stream({ messages: messagesTo(state.talk, state.notes, n.id), continue_final_message: true });
};

export const halt = () => state.answer?.stop.abort();

// A call was allowed or not; when none is left to decide, the model has its results.
export const decided = async n => {
  await store.saveNote(n);
  hooks.draw();
  if (!tools.open(n).length) await answer(n.id);
};

// A message and what follows it is gone; what is returned brings it back.
export const forget = async n => {
  const { talk, notes } = state, gone = store.below(notes, n.id), leaf = talk.leaf;
  for (const x of gone) notes.delete(x.id);
  const near = [...notes.values()].filter(x => x.parent === n.parent).sort((a, b) => b.at - a.at)[0];
  talk.leaf = near ? store.leafBelow(notes, near.id) : n.parent;
  await store.dropNotes(talk.id, gone.map(x => x.id));
  await store.saveTalk(talk);
  hooks.draw();
  return async () => {
    for (const x of gone) notes.set(x.id, x);
    talk.leaf = leaf;
    await store.restore(talk, gone);
    hooks.draw();
  };
};

// ---- an answer ----

const take = (n, f, kind, value) => {
  if (kind === "text" || kind === "reasoning") {
    f.begun = true;
    n[kind] += value;
  } else if (kind === "call") {
    f.begun = true;
    const call = n.calls[value.index] ??= { name: "", arguments: "" };
    call.id ??= value.id;
    call.name += value.name ?? "";
    call.arguments += value.arguments ?? "";
  } else if (kind === "end") n.end = value;
  else if (kind === "id") n.response = value;
  else if (kind === "model") n.model = value;
  else if (kind === "learned") f.learned = value;
  else if (kind === "opened") f.opened = value;
  else if (kind === "usage") f.usage = value;
  else if (kind === "timings") f.timings = value;
  else if (kind === "seed") f.seed = value;
};

// As the server measured them; undefined: it did not say.
const figuresOf = f => {
  if (!f.usage) return undefined;
  const { prompt_tokens: prompt, completion_tokens: out, prompt_tokens_details: found } = f.usage, first = f.timings?.first_token_ms;
  return { out, prompt, cached: found?.cached_tokens, first: first > 0 ? first / 1000 : undefined, learned: f.learned, opened: f.opened, speed: f.timings?.tokens_per_second || undefined, seed: f.seed };
};

export const why = e => e.status === 401 ? t("badKey") : e.status ? e.message : t("gone");

const failed = (n, e, stop) => {
  if (stop.signal.aborted) { n.end = "cancelled"; return; }
  n.end = "failed";
  n.why = /exceeds the available context/.test(e.message) ? t("tooLong", { why: e.message.replace(/; shorten it.*/, "") }) : why(e);
  if (e.status === 401) tell(n.why);
};

// Draws and keeps what has come, a few times a second, however fast it comes.
const drawsLater = (n, at) => {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      if (state.answer !== at) return;
      if (isOpen(at.talk)) hooks.drawAnswer(n);
      store.saveNote(n, true).catch(() => {});
    }, 100);
  };
};

const stream = async body => {
  const at = state.answer, { talk, note: n, stop } = at, f = {}, later = drawsLater(n, at);
  const { request } = hooks.settings();
  delete n.why;
  tell("");
  hooks.draw();
  const reading = readPrompt(request.model, () => n.response, () => f.begun, now => { at.reading = now; later(); });
  try {
    await api.chat({ ...request, ...tools.asked(talk), ...body }, stop.signal, (kind, value) => { take(n, f, kind, value); later(); });
  } catch (e) { failed(n, e, stop); }
  reading.stop();
  n.model ??= request.model;
  n.figures = figuresOf(f);
  await ended(at);
};

const ended = async at => {
  const { talk, notes, note: n } = at;
  if (n.figures) {
    state.last = n.figures;
    const fresh = n.figures.prompt - (n.figures.cached ?? 0);
    if (fresh > 50 && n.figures.first > 0) state.readingRate = fresh / n.figures.first;
    state.recent = [n.figures, ...state.recent].slice(0, 5);
  }
  const calls = n.end === "tool_calls" && tools.open(n).length && await tools.runAllowed(n, talk, notes);
  state.answer = null;
  await store.saveNote(n);
  if (isOpen(talk)) state.notes = notes;
  hooks.draw();
  hooks.changed();
  if (calls) await answer(n.id, talk, notes);
};
