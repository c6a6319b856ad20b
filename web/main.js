// Start, settings, the list of conversations, attached files.
import * as api from "./api.js";
import * as chat from "./chat.js";
import * as gauges from "./gauges.js";
import * as learn from "./learn.js";
import * as play from "./play.js";
import * as store from "./store.js";
import * as tools from "./tools.js";
import { pickLanguage, t } from "./lang.js";

const $ = id => document.getElementById(id);
const NUMBERS = { temperature: 0.1, top_k: 1, top_p: 0.01, min_p: 0.01, repeat_penalty: 0.01, max_tokens: 1, seed: 1 };
const kept = { get: k => { try { return JSON.parse(localStorage.getItem("kentang-" + k)); } catch { return null; } }, set: (k, v) => { try { localStorage.setItem("kentang-" + k, JSON.stringify(v)); } catch { /* full or forbidden */ } } };
let files = [];

const tell = (message, fine) => { $("notice").textContent = message; $("notice").hidden = !message; $("notice").classList.toggle("fine", !!fine); };

const request = () => {
  const numbers = kept.get("numbers") ?? {};
  return { model: $("model").value, ...numbers, ...($("think").checked ? {} : { chat_template_kwargs: { enable_thinking: false } }) };
};

const drawList = async () => {
  const items = (await store.talks()).map(talk => {
    const li = document.createElement("li"), open = document.createElement("button"), gone = document.createElement("button");
    open.className = "open";
    open.textContent = talk.title || t("untitled");
    open.onclick = () => { if (!chat.state.answer) pick(talk.id); };
    gone.className = "link";
    gone.textContent = "×";
    gone.setAttribute("aria-label", `${t("delete")}: ${talk.title}`);
    gone.onclick = async () => { if (chat.state.answer || !confirm(t("deleteAsk"))) return; await store.remove(talk.id); if (chat.state.talk?.id === talk.id) await pick(null); else drawList(); };
    li.append(open, gone);
    if (talk.id === chat.state.talk?.id) { li.className = "at"; open.setAttribute("aria-current", "true"); }
    return li;
  });
  $("list").replaceChildren(...items);
};

const pick = async id => {
  kept.set("talk", id);
  await chat.show(id);
  $("system").value = chat.state.talk?.system ?? "";
  toggle("side", "menu", false);
  drawList();
};

const toggle = (panel, opener, open) => { $(panel).classList.toggle("open", open); $(opener).setAttribute("aria-expanded", String($(panel).classList.contains("open"))); };

const listModels = async () => {
  try {
    const names = (await api.models()).map(m => m.id), before = kept.get("model");
    $("model").replaceChildren(...names.map(n => new Option(n, n, false, n === before)));
    tell("");
  } catch (e) { tell(e.status === 401 ? t("badKey") : e.status ? e.message : t("gone")); }
};

// ---- attached files ----

const drawFiles = () => $("files").replaceChildren(...files.map((f, i) => {
  const chip = document.createElement("span"), gone = document.createElement("button");
  gone.type = "button";
  gone.className = "link";
  gone.textContent = "×";
  gone.setAttribute("aria-label", t("remove", { f: f.name }));
  gone.onclick = () => { files.splice(i, 1); drawFiles(); };
  chip.append(f.name, gone);
  return chip;
}));

const attach = async list => {
  for (const file of list) {
    const text = file.size <= 1 << 20 ? await file.text() : "\0";
    if (text.includes("\0") || text.includes("\ufffd")) tell(t("notText", { f: file.name })); else files.push({ name: file.name, text });
  }
  $("attach").value = "";
  drawFiles();
};

// A fence that the text does not contain.
const fenced = f => { let fence = "```"; while (f.text.includes(fence)) fence += "`"; return `${f.name}\n${fence}\n${f.text}\n${fence}\n\n`; };

const send = async () => {
  const text = $("ask").value;
  if (chat.state.answer || (!text.trim() && !files.length)) return;
  const whole = files.map(fenced).join("") + text;
  $("ask").value = "";
  files = [];
  drawFiles();
  count();
  await chat.say(whole);
};

// ---- the tokens of what is being written ----

let counting = 0;
const count = () => {
  clearTimeout(counting);
  const text = $("ask").value;
  if (!text) { $("count").textContent = ""; return; }
  counting = setTimeout(async () => {
    try {
      const ids = (await (await api.post("tokenize", { content: text, model: $("model").value })).json()).tokens;
      $("count").textContent = `${ids.length} token`;
    } catch { $("count").textContent = ""; }
  }, 400);
};

// ---- settings ----

const drawSampling = () => {
  const numbers = kept.get("numbers") ?? {};
  $("sampling").replaceChildren(...Object.entries(NUMBERS).map(([name, step]) => {
    const label = document.createElement("label"), word = document.createElement("span"), input = document.createElement("input");
    word.textContent = t(name);
    Object.assign(input, { type: "number", step, min: 0, placeholder: t("asServer"), value: numbers[name] ?? "" });
    input.onchange = () => { const now = kept.get("numbers") ?? {}; if (input.value === "" || !input.validity.valid) delete now[name]; else now[name] = Number(input.value); kept.set("numbers", now); };
    label.append(word, input);
    return label;
  }));
};

const setTheme = name => { if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme; };

const exportTalk = async () => {
  if (!chat.state.talk) return;
  const blob = new Blob([JSON.stringify({ ...chat.state.talk, messages: store.path(chat.state.notes, chat.state.talk.leaf) }, null, 1)], { type: "application/json" });
  const a = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: "kentang.json" });
  a.click();
  URL.revokeObjectURL(a.href);
};

const startSettings = () => {
  const language = kept.get("language") ?? (navigator.language.startsWith("id") ? "id" : "en");
  $("language").value = language;
  $("theme").value = kept.get("theme") ?? "";
  $("think").checked = kept.get("think") ?? true;
  setTheme($("theme").value);
  pickLanguage(language);
  $("language").onchange = () => { kept.set("language", $("language").value); pickLanguage($("language").value); drawSampling(); tools.drawChoice(names => kept.set("tools", names)); chat.draw(); drawList(); };
  $("theme").onchange = () => { kept.set("theme", $("theme").value); setTheme($("theme").value); };
  $("think").onchange = () => kept.set("think", $("think").checked);
  $("key").onchange = () => { api.setKey($("key").value.trim()); listModels(); learn.start(tell); };
  $("system").onchange = () => { if (!chat.state.talk) return; chat.state.talk.system = $("system").value; store.saveTalk(chat.state.talk); };
  $("export").onclick = exportTalk;
  $("open-settings").onclick = () => { drawSampling(); tools.drawChoice(names => kept.set("tools", names)); $("key").value = api.key(); $("settings").showModal(); };
};

const start = async () => {
  startSettings();
  chat.begin({ tell, changed: () => { kept.set("talk", chat.state.talk?.id ?? null); drawList(); }, settings: () => ({ system: $("system").value, request: request() }) });
  play.start(request);
  // Another tab wrote: its messages belong to the tree, too.
  const canKeep = await store.open(async id => {
    drawList();
    if (id !== chat.state.talk?.id || chat.state.answer) return;
    await chat.show(id);
  });
  $("new").onclick = () => { if (chat.state.answer) return; pick(null); $("ask").focus(); };
  $("menu").onclick = () => toggle("side", "menu");
  $("open-gauges").onclick = () => toggle("gauges", "open-gauges");
  $("model").onchange = () => kept.set("model", $("model").value);
  $("attach").onchange = () => attach($("attach").files);
  $("ask").oninput = count;
  $("ask").onkeydown = e => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } };
  $("form").onsubmit = e => { e.preventDefault(); send(); };
  $("stop").onclick = chat.halt;
  await listModels();
  await Promise.all([learn.start(tell), tools.begin(kept.get("tools") ?? [])]);
  if (!canKeep) tell(t("notKept"));
  await pick(kept.get("talk"));
  gauges.watch(() => $("model").value);
  $("ask").focus();
};
start();
