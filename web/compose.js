// The field for a message: attached texts and pictures, how many tokens it has and how long they take, sending.
import * as api from "./api.js";
import { read } from "./attach.js";
import * as documents from "./documents.js";
import * as talk from "./talk.js";
import { $, make, tell } from "./dom.js";
import { number, t } from "./lang.js";

let files = [];

const drawFiles = () => $("files").replaceChildren(...files.map((f, i) => make("span", {}, f.picture ? make("img", { src: f.picture, alt: "" }) : null, f.name,
  make("button", { type: "button", className: "link", textContent: "×", ariaLabel: t("remove", { f: f.name }), onclick: () => { files.splice(i, 1); drawFiles(); count(); } }))));

const readAll = async list => {
  for (const file of list) {
    $("count").textContent = t("readingFile", { f: file.name });
    try { files.push(await read(file, model.sees())); } catch (e) { tell(e.message); }
  }
  drawFiles();
  count();
};
// One list after another; a message waits for the last.
let attached = Promise.resolve();
export const attach = list => {
  const given = [...list];
  $("attach").value = "";
  attached = attached.then(() => readAll(given));
};

// A fence that the text does not contain.
const fenced = f => { let fence = "```"; while (f.text.includes(fence)) fence += "`"; return `${f.name}\n${fence}\n${documents.paged(f.text)}\n${fence}\n\n`; };

const written = () => files.filter(f => !f.picture);
const texts = () => written().map(fenced).join("");

// ---- what of documents is sent ----

// Tokens that a message may have: what the model remembers without an answer, and what is read in two minutes.
const MOST_SECONDS = 120, ANSWER_TOKENS = 512, FRAME_TOKENS = 96;
const roomFor = () => {
  const all = model.context(), rate = talk.state.readingRate;
  const room = all ? all - Math.min(ANSWER_TOKENS, all / 4) - FRAME_TOKENS : Infinity;
  return Math.min(room, rate ? Math.max(rate * MOST_SECONDS, 256) : Infinity);
};

// The whole, where there is room for it, else passages and where they come from.
const composed = async text => {
  const whole = texts() + text, room = roomFor();
  if (!written().length || room === Infinity) return { text: whole };
  const n = await api.tokens(whole, model.chosen());
  if (n <= room) return { text: whole };
  const perChar = n / whole.length, passages = await documents.choose(written(), text, room - text.length * perChar, perChar, model.all());
  return { text: documents.write(passages) + "\n" + text, sources: documents.sources(passages) };
};

let composing = false;
const send = async () => {
  if (composing || talk.state.answer) return;
  composing = true;
  await attached;
  const text = $("ask").value, pictures = files.filter(f => f.picture).map(f => f.picture);
  const read = written().length > 0;
  let said = { text: texts() + text };
  if (read) {
    $("count").textContent = t("choosing");
    try { said = await composed(text); } catch { /* the server says what is wrong with the whole */ }
  }
  composing = false;
  if (talk.state.answer || (!text.trim() && !files.length)) return;
  $("ask").value = "";
  files = [];
  drawFiles();
  grow();
  count();
  talk.say(said.text, { pictures, sources: said.sources, asked: read ? text : undefined });
};

// As high as what is in it, up to a third of the page.
const grow = () => {
  const box = $("ask");
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight / 3)}px`;
};

let counting = 0, model = { chosen: () => undefined, sees: () => false, context: () => undefined, all: () => [] };
const count = () => {
  clearTimeout(counting);
  const text = texts() + $("ask").value, now = () => texts() + $("ask").value;
  if (!text) { $("count").textContent = ""; return; }
  counting = setTimeout(async () => {
    try {
      const n = await api.tokens(text, model.chosen()), rate = talk.state.readingRate, room = model.context();
      if (now() !== text) return;
      const late = rate && n / rate >= 2 ? " · " + t("secondsToRead", { s: Math.round(n / rate) }) : "", over = room && n > room ? " · " + t("overRoom", { n: number(room) }) : "";
      const cut = written().length && n > roomFor() ? " · " + t("nearest", { n: number(Math.round(roomFor())) }) : "";
      $("count").textContent = t("tokens", { n }) + (cut ? "" : late) + over + cut;
    } catch { $("count").textContent = ""; }
  }, 400);
};

export const start = chosen => {
  model = chosen;
  $("attach").onchange = () => attach($("attach").files);
  $("ask").oninput = () => { grow(); count(); };
  $("ask").onkeydown = e => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } };
  $("ask").onpaste = e => { if (e.clipboardData?.files.length) { e.preventDefault(); attach(e.clipboardData.files); } };
  $("form").onsubmit = e => { e.preventDefault(); send(); };
  $("stop").onclick = talk.halt;
  const drop = document.querySelector("main");
  drop.ondragover = e => { if (e.dataTransfer?.types.includes("Files")) { e.preventDefault(); drop.classList.add("drop"); } };
  drop.ondragleave = () => drop.classList.remove("drop");
  drop.ondrop = e => { drop.classList.remove("drop"); if (e.dataTransfer?.files.length) { e.preventDefault(); attach(e.dataTransfer.files); } };
};
