// What the server learns from this person: feedback on an answer, and the panel of versions with what they gained.
import * as api from "./api.js";
import { t } from "./lang.js";

const $ = id => document.getElementById(id);
const make = (tag, props = {}, ...children) => { const e = Object.assign(document.createElement(tag), props); e.append(...children); return e; };
const link = (label, action) => make("button", { type: "button", className: "link", textContent: t(label), onclick: action });

let on = false, tell = () => {};
// Feedback holds only for answers that the server still keeps; what it does not find it says.
const send = async (note, what) => {
  try {
    const reply = await (await api.post("v1/feedback", { response_id: note.response, ...what })).json();
    tell(t("learned", { v: reply.version }), true);
    if ($("learn").open) draw();
    return true;
  } catch (e) { tell(e.status ? e.message : t("gone")); return false; }
};

const correct = (note, bar) => {
  const box = make("textarea", { value: note.text, rows: 4, ariaLabel: t("correction") });
  const form = make("form", {}, box, make("div", { className: "row" }, make("button", { className: "main", textContent: t("send") }), link("close", () => form.remove())));
  form.onsubmit = async e => { e.preventDefault(); if (box.value.trim() && await send(note, { correction: box.value })) form.remove(); };
  bar.after(form);
  box.focus();
};

// Beside an answer; nothing where the server does not learn.
export const drawButtons = (note, bar) => on && note.response && note.text ? [link("good", () => send(note, { rating: "up" })), link("bad", () => send(note, { rating: "down" })), link("correct", () => correct(note, bar))] : [];

// ---- the panel ----

// The list has whole names: "ip:127.0.0.1", "ip:127.0.0.1/NAME", "@SHARED"; requests have NAME, or none for one's own.
const nameIn = namespace => { const name = namespace.startsWith("@") ? namespace.slice(1) : namespace.split("/")[1]; return name ? { namespace: name } : {}; };

const say = text => { $("learn-said").textContent = text; };
const ask = async (path, body) => {
  try { return await (await api.post(path, body)).json(); } catch (e) { say(e.status ? e.message : t("gone")); return null; }
};

const row = (list, name, value) => list.append(make("dt", { textContent: t(name) }), make("dd", { textContent: value }));

const drawSpace = space => {
  const list = make("dl"), version = make("select", { ariaLabel: t("version") }), at = { model: space.model, ...nameIn(space.namespace) };
  row(list, "corrections", space.corrections);
  row(list, "ratings", space.scores);
  row(list, "taught", space.tokens);
  row(list, "onDisk", `${(space.bytes / 1e6).toFixed(2)} MB`);
  row(list, "proof", space.adapter ? space.quality_delta.toFixed(3) : t("noAdapter"));
  if (space.frozen) row(list, "state", t("frozen"));
  for (let v = 0; v <= space.last_version; v++) version.append(new Option(v ? `${t("version")} ${v}` : t("modelAlone"), v, false, v === space.version));
  version.onchange = async () => { if (await ask("v1/adapters/rollback", { version: Number(version.value), ...at })) say(t("rolled", { v: version.value })); draw(); };
  const train = make("button", { type: "button", textContent: t("train") });
  train.onclick = async () => {
    train.disabled = true;
    const reply = await ask("v1/adapters/train", { wait: true, ...at });
    if (reply) say(reply.published ? t("published", { v: reply.version }) : t("unpublished"));
    draw();
  };
  return make("section", {}, make("h3", { textContent: `${space.namespace} · ${space.model}` }), list, make("div", { className: "row" }, version, train));
};

const draw = async () => {
  const spaces = await look();
  $("learn-list").replaceChildren(...(spaces?.length ? spaces.map(drawSpace) : [make("p", { className: "quiet", textContent: t("nothingLearned") })]));
};

// null: this server does not learn, or does not answer.
const look = async () => { try { return (await (await api.get("v1/adapters")).json()).learned ?? null; } catch { return null; } };

export const start = async show => {
  tell = show;
  on = await look() !== null;
  $("open-learn").hidden = !on;
  $("open-learn").onclick = () => { $("learn").showModal(); say(""); draw(); };
};
