// Of documents that do not fit, or would be read for minutes, the passages nearest to a question: as `kentang run --read` chooses them.
import * as api from "./api.js";

const PASSAGE = 1200, LABEL_TOKENS = 24, MOST_TERMS = 64, EMBED_AT_ONCE = 16, MOST_EMBEDDED = 1024;
const PAGE_END = "\f"; // between the pages of a text that has some

// ---- passages ----

// Where a passage ends: after the last paragraph, else line, sentence or word that fits.
const endOf = text => {
  if (text.length <= PASSAGE) return text.length;
  for (const end of ["\n\n", "\n", ". ", " "]) {
    const at = text.lastIndexOf(end, PASSAGE - end.length);
    if (at > PASSAGE / 2) return at + end.length;
  }
  return PASSAGE;
};

// {name, page, text} of each passage; page: undefined where the text has no pages.
export const cut = files => files.flatMap(({ name, text }) => {
  const pages = text.split(PAGE_END), out = [];
  pages.forEach((page, i) => {
    for (let rest = page; rest;) {
      const n = endOf(rest), passage = rest.slice(0, n).trim();
      if (passage) out.push({ name, page: pages.length > 1 ? i + 1 : undefined, text: passage });
      rest = rest.slice(n);
    }
  });
  return out;
});

// ---- nearness ----

const wordsOf = text => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

// BM25 (Robertson and Zaragoza 2009): a number for each passage.
export const score = (passages, question) => {
  const k1 = 1.2, b = 0.75, terms = [...new Set(wordsOf(question).filter(w => w.length > 1))].slice(0, MOST_TERMS);
  const counted = passages.map(p => {
    const words = wordsOf(p.text), counts = new Map();
    for (const w of words) counts.set(w, (counts.get(w) ?? 0) + 1);
    return { counts, length: words.length };
  });
  const mean = counted.reduce((sum, c) => sum + c.length, 0) / Math.max(1, counted.length);
  const rare = terms.map(w => { const has = counted.filter(c => c.counts.has(w)).length; return Math.log(1 + (counted.length - has + 0.5) / (has + 0.5)); });
  return counted.map(c => terms.reduce((sum, w, i) => { const n = c.counts.get(w) ?? 0; return sum + rare[i] * n * (k1 + 1) / (n + k1 * (1 - b + b * c.length / (mean + 1e-9))); }, 0));
};

const order = scores => scores.map((_, i) => i).sort((x, y) => scores[y] - scores[x] || x - y);
// By the sum of 1 / (60 + rank) in each order (Cormack et al. 2009).
const fuse = (...lists) => {
  const sums = new Array(lists[0].length).fill(0);
  for (const scores of lists) order(scores).forEach((at, rank) => { sums[at] += 1 / (61 + rank); });
  return sums;
};

// The served model that makes vectors and nothing else; undefined: there is none.
const findEncoder = async models => {
  for (const { id } of models) {
    const { capabilities } = await (await api.post("api/show", { model: id })).json();
    if (!capabilities.includes("completion")) return id;
  }
  return undefined;
};

const vectors = async (texts, model) => {
  const out = [];
  for (let i = 0; i < texts.length; i += EMBED_AT_ONCE) {
    const { data } = await (await api.post("v1/embeddings", { model, input: texts.slice(i, i + EMBED_AT_ONCE) })).json();
    out.push(...data.map(d => d.embedding));
  }
  return out;
};

// By words, and by vectors where an encoder is served.
const nearness = async (passages, question, models) => {
  const byWords = score(passages, question);
  try {
    const encoder = passages.length <= MOST_EMBEDDED && await findEncoder(models);
    if (!encoder) return byWords;
    const [asked, ...each] = await vectors([question, ...passages.map(p => p.text)], encoder);
    return fuse(byWords, each.map(v => v.reduce((sum, x, i) => sum + x * asked[i], 0)));
  } catch { return byWords; } // it may not be loaded, or refuse
};

// ---- the choice ----

// As many as there is room for, in tokens, in the order of the documents. perChar: tokens of a character of these texts.
export const choose = async (files, question, room, perChar, models) => {
  const passages = cut(files), near = await nearness(passages, question, models);
  let left = room;
  const chosen = new Set();
  for (const i of order(near)) {
    const cost = Math.ceil(passages[i].text.length * perChar) + LABEL_TOKENS;
    if (cost > left) continue;
    left -= cost;
    chosen.add(i);
  }
  return passages.filter((_, i) => chosen.has(i));
};

const label = p => `[${p.name}${p.page ? `, page ${p.page}` : ""}]`;

// What the model reads: each passage below its place.
export const write = passages => passages.map((p, i) => (i && label(passages[i - 1]) === label(p) ? "[...]" : label(p)) + "\n" + p.text + "\n").join("\n");

// {name, pages: [3, 7]} of each document, for those who read the answer.
export const sources = passages => {
  const pages = new Map();
  for (const p of passages) pages.set(p.name, (pages.get(p.name) ?? new Set()).add(p.page ?? 0));
  return [...pages].map(([name, set]) => ({ name, pages: [...set].filter(Boolean) }));
};

// The whole of a text with pages: each begins with a line that says which it is.
export const paged = text => text.includes(PAGE_END) ? text.split(PAGE_END).map((page, i) => `[page ${i + 1}]\n${page.trim()}`).join("\n\n") : text;
