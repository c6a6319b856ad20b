// What the server learns from this person: words on an answer, and the panel of all that was said, with versions and training.
import * as api from "./api.js";
import * as store from "./store.js";
import { $, link, make, tell } from "./dom.js";
import { ago, number, t } from "./lang.js";

let on = false, chosen = () => undefined;
const troubleOf = e => e.status ? e.message : t("gone");

// ---- on an answer ----

// Feedback holds only for answers that the server still keeps; what it does not find it says.
const send = async (note, what) => {
  try {
    const reply = await (await api.post("v1/feedback", { response_id: note.response, ...what })).json();
    note.feedback = reply.id;
    tell(t("remembered"), { fine: true });
    return true;
  } catch (e) { tell(troubleOf(e)); return false; }
};

const forgetId = async (id, { namespace, model } = {}) => {
  const query = new URLSearchParams({ ...(namespace ? { namespace } : {}), ...(model ? { model } : {}) });
  await api.remove(`v1/feedback/${id}${query.size ? "?" + query : ""}`);
};

const takeBack = async (note, redraw) => {
  try { await forgetId(note.feedback, { model: note.model }); } catch (e) { if (e.status !== 404) return tell(troubleOf(e)); }
  delete note.rated;
  delete note.fixed;
  delete note.feedback;
  await store.saveNote(note);
  tell(t("takenBack"), { fine: true });
  redraw();
};

// The last word counts; the same word again takes it back.
const rate = async (note, rating, redraw) => {
  if (note.rated === rating) return takeBack(note, redraw);
  if (!await send(note, { rating })) return;
  note.rated = rating;
  if (rating === "up") delete note.fixed;
  await store.saveNote(note);
  redraw();
};

const fix = (note, bar, redraw) => {
  if (bar.nextSibling?.className === "editing") return;
  const box = make("textarea", { value: note.fixed ?? note.text, rows: 4, ariaLabel: t("correction") });
  const form = make("form", { className: "editing" }, make("p", { className: "quiet", textContent: t("fixHow") }), box,
    make("div", { className: "row" }, make("button", { className: "main", textContent: t("remember") }), link(t("cancel"), () => form.remove())));
  form.onsubmit = async e => {
    e.preventDefault();
    if (!box.value.trim() || !await send(note, { correction: box.value })) return;
    note.fixed = box.value;
    delete note.rated;
    await store.saveNote(note);
    redraw();
  };
  bar.after(form);
  box.focus();
};

// Next to an answer; nothing where the server does not learn.
export const drawButtons = (note, bar, redraw) => on && note.response && note.text ? [
  link(t("good"), () => rate(note, "up", redraw), { draws: "up", ariaPressed: String(note.rated === "up") }),
  link(t("bad"), () => rate(note, "down", redraw), { draws: "down", ariaPressed: String(note.rated === "down") }),
  link(t("fix"), () => fix(note, bar, redraw), { draws: "learn" })] : [];
// What was said of it.
export const drawSaid = (note, redraw) => note.fixed ? make("div", { className: "end" }, make("span", { className: "grow", textContent: t("fixedAs", { text: note.fixed }) }), link(t("undo"), () => takeBack(note, redraw))) : null;

// ---- the panel ----

// The list has whole names: "ip:127.0.0.1", "ip:127.0.0.1/NAME", "@SHARED"; requests have NAME, or none for one's own.
const nameIn = space => { const name = space.startsWith("@") ? space.slice(1) : space.split("/")[1]; return name ? { namespace: name } : {}; };
const titleOf = ({ namespace, model }, many) => (namespace.startsWith("@") ? t("sharedSpace", { name: namespace.slice(1) }) : nameIn(namespace).namespace ?? t("yourSpace")) + (many ? ` · ${model}` : "");

const say = text => { $("learn-said").textContent = text; };
const ask = async (path, body) => {
  try { return await (await api.post(path, body)).json(); } catch (e) { say(troubleOf(e)); return null; }
};

const listOf = async at => {
  try { return (await (await api.get("v1/feedback?" + new URLSearchParams(at))).json()).data; } catch { return []; }
};

const change = (item, at, card) => {
  const box = make("textarea", { value: item.correction, rows: 3, ariaLabel: t("correction") });
  const form = make("form", { className: "editing" }, box, make("div", { className: "row" }, make("button", { className: "main", textContent: t("remember") }), link(t("cancel"), () => form.remove())));
  form.onsubmit = async e => {
    e.preventDefault();
    e.stopPropagation();
    const [id, choice] = item.about.split(":");
    if (box.value.trim() && await ask("v1/feedback", { response_id: id, ...(choice ? { choice: Number(choice) } : {}), correction: box.value, ...at })) { say(t("remembered")); draw(); }
  };
  card.append(form);
  box.focus();
};

// What was asked, out of the prompt as its template wrote it.
const ROLES = new Set(["user", "assistant", "model", "system"]);
const questionOf = prompt => {
  const lines = (prompt ?? "").replace(/<[|｜]?[\w▁]+[|｜]?>/g, "\n").split("\n").map(x => x.trim()).filter(x => x && !ROLES.has(x.toLowerCase()));
  return (lines.at(-1) ?? "").slice(0, 300);
};

const drawItem = (item, at) => {
  const asked = item.question || questionOf(item.prompt);
  const said = item.kind === "score" ? `${t(item.score >= 0.5 ? "itemGood" : "itemBad")} ${(item.answer ?? "").replace(/<[|｜]?[\w▁/]+[|｜]?>/g, "").trim().slice(0, 300)}` : item.correction;
  const card = make("li", {}, make("p", { className: "asked quiet", textContent: asked }), make("p", { className: item.kind === "score" ? "quiet" : "", textContent: said }));
  const bar = make("div", { className: "tools" }, make("span", { textContent: ago(item.time_us / 1000) }), make("span", { textContent: item.recalled ? t("used", { when: ago(Date.now() - item.recalled_ago_s * 1000) }) : t("unused") }));
  if (item.kind === "correction" && item.about) bar.append(link(t("edit"), () => change(item, at, card), { draws: "fix" }));
  bar.append(link(t("forgetIt"), async () => { try { await forgetId(item.id, at); say(t("takenBack")); } catch (e) { say(troubleOf(e)); } draw(); }, { draws: "trash" }));
  card.append(bar);
  return card;
};

// Until stop(): where the training is that the server does for us.
const followTraining = (space, bar) => {
  const askIt = async () => {
    const now = (await look())?.learned.find(s => s.namespace === space.namespace && s.model === space.model)?.training;
    if (!now || !timer) return;
    bar.hidden = false;
    if (now.total) { bar.max = now.total; bar.value = now.done; } else bar.removeAttribute("value");
    say(t("stage_" + now.stage, { n: now.done, all: now.total }));
  };
  let timer = setInterval(askIt, 500);
  return () => { clearInterval(timer); timer = 0; bar.hidden = true; };
};

const row = (list, name, value) => list.append(make("dt", { textContent: t(name) }), make("dd", { textContent: value }));
const drawMore = (space, at) => {
  const list = make("dl"), version = make("select", { ariaLabel: t("version") });
  row(list, "taught", number(space.tokens));
  row(list, "onDisk", `${number(space.bytes / 1e6, 2)} MB`);
  row(list, "proof", space.adapter ? number(space.quality_delta, 3) : t("noAdapter"));
  if (space.adapter) row(list, "usedAt", t(space.scoped ? "usedOpen" : "usedAll"));
  if (space.instant) row(list, "instant", t("instantSteps", { n: space.instant.steps, at: t(space.instant.scoped ? "usedOpen" : "usedAll") }));
  if (space.frozen) row(list, "state", t("frozen"));
  for (let v = space.last_version; v >= 0; v--) version.append(new Option(v ? `${t("version")} ${v}` : t("modelAlone"), v, false, v === space.version));
  version.onchange = async () => { if (await ask("v1/adapters/rollback", { version: Number(version.value), ...at })) say(t("rolled", { v: version.value })); draw(); };
  const train = make("button", { type: "button", textContent: t("train") });
  const bar = make("progress", { hidden: true, ariaLabel: t("trainBar") });
  train.onclick = async () => {
    train.disabled = true;
    say(t("training"));
    const stop = followTraining(space, bar), reply = await ask("v1/adapters/train", { wait: true, ...at });
    stop();
    if (reply) say(reply.published ? t("published", { v: reply.version }) : `${t("unpublished")} ${reply.report?.why ?? ""}`);
    draw();
  };
  return make("details", {}, make("summary", { textContent: t("versions") }), list, make("div", { className: "row" }, version, train), bar);
};

// By the words that a correction is about, the newest topic first; what is about nothing in particular last.
const topicsOf = items => {
  const topics = new Map();
  for (const item of items) {
    const topic = item.subject?.join(" ") ?? "";
    topics.set(topic, [...topics.get(topic) ?? [], item]);
  }
  const rest = topics.get("");
  topics.delete("");
  return [...topics, ...(rest ? [["", rest]] : [])];
};

const drawTopic = ([topic, items], at) => [make("h4", { textContent: topic || t("noTopic") }), make("ul", { className: "items" }, ...items.map(item => drawItem(item, at)))];

const drawSpace = async (space, many) => {
  const at = { model: space.model, ...nameIn(space.namespace) }, topics = topicsOf(await listOf(at));
  return make("section", {}, make("h3", {}, titleOf(space, many), make("span", { className: "quiet", textContent: ` ${t("fixes", { n: space.corrections })}, ${t("ratings", { n: space.scores })}` })),
    ...topics.flatMap(topic => drawTopic(topic, at)), drawMore(space, at));
};

// Feedback is about an answer: the question is put to the model, whose one token is then corrected.
const teach = async (question, answer) => {
  const asked = await ask("v1/chat/completions", { model: chosen(), messages: [{ role: "user", content: question }], max_tokens: 1 });
  return asked && await ask("v1/feedback", { response_id: asked.id, model: chosen(), correction: answer });
};

const startTeaching = () => {
  const form = $("teach"), [question, answer] = form.querySelectorAll("textarea");
  form.onsubmit = async e => {
    e.preventDefault();
    if (!question.value.trim() || !answer.value.trim() || !await teach(question.value.trim(), answer.value.trim())) return;
    form.reset();
    say(t("remembered"));
    draw();
  };
};

// Whether a model gets to see what it was taught, in a sentence.
const drawNotes = n => make("p", { className: "quiet", textContent: t(n.verdict === "used" && !n.asked ? "notes_known" : `notes_${n.verdict}`, { name: n.model, n: n.asked, of: n.of, used: n.used, leaked: n.leaked, same: n.same, wrong: n.same_wrong }) });

let drawing = 0;
const draw = async () => {
  const mine = ++drawing, wasOpen = [...$("learn-list").querySelectorAll("details")].map(d => d.open);
  const { learned: spaces = [], notes = [] } = await look() ?? {}, many = new Set(spaces.map(s => s.model)).size > 1;
  const drawn = await Promise.all(spaces.map(s => drawSpace(s, many)));
  if (mine !== drawing) return;
  $("learn-list").replaceChildren(...notes.map(drawNotes), ...(drawn.length ? drawn : [make("p", { className: "quiet", textContent: t("nothingLearned") })]));
  for (const [i, d] of $("learn-list").querySelectorAll("details").entries()) d.open = wasOpen[i] ?? false;
};

// null: this server does not learn, or does not answer.
const look = async () => { try { const found = await (await api.get("v1/adapters")).json(); return found.learned ? found : null; } catch { return null; } };

// model(): the one that is chosen
export const start = async ({ model }) => {
  chosen = model;
  on = await look() !== null;
  $("open-learn").hidden = !on;
  startTeaching();
  $("open-learn").onclick = () => { $("learn").showModal(); say(""); draw(); };
};
