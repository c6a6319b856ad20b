// The settings: how answers are drawn, what models are asked to be, tools, the page's language and colours, the key.
import * as api from "./api.js";
import * as list from "./list.js";
import * as store from "./store.js";
import * as talk from "./talk.js";
import * as tools from "./tools.js";
import { $, kept, make } from "./dom.js";
import { bytes, number, pickLanguage, t } from "./lang.js";

// name: [lowest, highest, step]; whole numbers have a step of 1. What the server takes, within what makes sense.
const NUMBERS = { temperature: [0, 5, 0.1], top_k: [0, 10000, 1], top_p: [0, 1, 0.01], min_p: [0, 1, 0.01], repeat_penalty: [0.1, 10, 0.01], max_tokens: [1, 1000000, 1], seed: [0, 4294967295, 1] };
const { state } = talk;

const numbers = () => kept.get("numbers") ?? {};
export const request = model => ({ model, ...numbers(), ...(kept.get("think") === false ? { chat_template_kwargs: { enable_thinking: false } } : {}) });
export const system = () => kept.get("system") ?? "";
export const chosenTools = () => kept.get("tools") ?? [];

// ---- numbers: checked as they are typed ----

const checked = (name, text) => {
  const [low, high, step] = NUMBERS[name], value = Number(text);
  if (text.trim() === "") return {};
  if (!Number.isFinite(value) || value < low || value > high) return { wrong: t("expectedRange", { low, high }) };
  return step === 1 && !Number.isInteger(value) ? { wrong: t("expectedWhole") } : { value };
};

const drawNumber = name => {
  const [low, high, step] = NUMBERS[name], wrong = make("small", { className: "bad", id: `wrong-${name}` });
  const input = make("input", { inputMode: step === 1 ? "numeric" : "decimal", placeholder: t("byDefault"), value: numbers()[name] ?? "", autocomplete: "off", title: `${low} – ${high}` });
  input.setAttribute("aria-describedby", wrong.id);
  input.oninput = () => {
    const now = checked(name, input.value), { [name]: _, ...others } = numbers();
    wrong.textContent = now.wrong ?? "";
    input.setAttribute("aria-invalid", String(!!now.wrong));
    if (!now.wrong) kept.set("numbers", now.value === undefined ? others : { ...others, [name]: now.value });
  };
  return make("div", { className: "field" }, make("label", {}, make("span", { textContent: t(name) }), input), make("small", { className: "quiet", textContent: t("about_" + name) }), wrong);
};
const drawNumbers = () => $("sampling").replaceChildren(...Object.keys(NUMBERS).map(drawNumber));

// ---- presets: a system prompt and these numbers under a name ----

const presets = () => kept.get("presets") ?? {};
const drawPresets = chosen => {
  $("preset").replaceChildren(new Option(t("noPreset"), ""), ...Object.keys(presets()).sort().map(name => new Option(name, name, false, name === chosen)));
  $("preset-drop").disabled = !chosen;
};
const setSystem = text => {
  kept.set("system", text);
  if (state.talk) { state.talk.system = text; store.saveTalk(state.talk); }
};
const usePreset = name => {
  const preset = presets()[name];
  if (preset) {
    setSystem(preset.system);
    kept.set("numbers", preset.numbers);
    kept.set("think", preset.think);
  }
  drawAll(name);
};
const keepPreset = () => {
  const name = $("preset-name").value.trim().slice(0, 60);
  if (!name) return $("preset-name").focus();
  kept.set("presets", { ...presets(), [name]: { system: $("system").value, numbers: numbers(), think: $("think").checked } });
  $("preset-name").value = "";
  drawPresets(name);
};
const dropPreset = () => {
  const { [$("preset").value]: _, ...others } = presets();
  kept.set("presets", others);
  drawPresets();
};

// ---- the rest ----

const drawAll = preset => {
  $("system").value = state.talk?.system ?? system();
  $("think").checked = kept.get("think") ?? true;
  drawNumbers();
  drawPresets(preset);
};
const setTheme = name => { if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme; };

const saveTools = names => {
  kept.set("tools", names);
  if (state.talk) { state.talk.tools = names; store.saveTalk(state.talk); }
};

let hooks = {};
const drawTools = () => tools.drawChoice(state.talk?.tools ?? chosenTools(), saveTools, hooks.model(), hooks.context());
// ---- models, where the operator allows it ----

const manage = async (m, what) => {
  for (const b of $("models").querySelectorAll("button")) b.disabled = true;
  $("models-said").textContent = what === "load" ? t("loadingNow", { name: m.name }) : "";
  try { await api.post(`v1/models/${what}`, { model: m.name }); $("models-said").textContent = ""; } catch (e) { $("models-said").textContent = talk.why(e); }
  await Promise.all([drawModels(), hooks.changed()]);
};
const drawModel = m => {
  const what = m.loaded ? "unload" : "load", state = m.loaded ? t("isLoaded", { n: bytes(m.weight_bytes + m.kv_bytes + m.scratch_bytes) }) : t("notLoaded");
  const button = hooks.may().manage && make("button", { type: "button", textContent: t(what), ariaLabel: `${t(what)}: ${m.name}`, onclick: () => manage(m, what) });
  return make("li", { className: "row" }, make("span", { className: "grow" }, m.name, make("small", { className: "quiet", textContent: ` ${state}` })), ...(button ? [button] : []));
};
const drawModels = async () => {
  const may = hooks.may();
  $("manage").hidden = !may.manage && !may.pull;
  $("pull").hidden = !may.pull;
  if ($("manage").hidden) return;
  const { models, pull } = await api.props();
  $("models").replaceChildren(...models.map(drawModel));
  if (pull?.state === "fetching") followPull(pull);
};

// ---- models of the hub, the same way ----

const said = { done: p => t("pullDone", { name: p.model }), stopped: () => t("pullStopped"), failed: p => t("pullFailed", { name: p.name, why: p.error }) };
const drawPull = p => {
  const busy = p.state === "fetching";
  $("pull-bar").hidden = $("pull-stop").hidden = !busy;
  $("pull-start").disabled = busy;
  if (busy && p.bytes) $("pull-bar").value = p.bytes_done / p.bytes; else $("pull-bar").removeAttribute("value");
  $("models-said").textContent = busy ? t(p.bytes ? "pulling" : "pullBegins", { name: p.name, n: bytes(p.bytes_done), all: bytes(p.bytes) }) : said[p.state](p);
};
let follows = false;
const followPull = async now => {
  if (follows) return;
  follows = true;
  while (now?.state === "fetching") {
    drawPull(now);
    await new Promise(done => setTimeout(done, 500));
    try { now = (await api.props()).pull; } catch { /* it is asked again */ }
  }
  follows = false;
  if (now) drawPull(now);
  await Promise.all([drawModels(), hooks.changed()]);
};
// ---- what the hub has for some words, and which of it suits this machine ----

const drawHit = h => {
  const facts = [bytes(h.bytes), h.tokens_per_second && t("atMost", { n: number(h.tokens_per_second, h.tokens_per_second < 10 ? 1 : 0) }), t("needs", { n: bytes(h.memory_bytes) }), h.sees && t("seesPictures"), !h.fits && t("tooLarge")].filter(Boolean);
  return make("li", { className: "row" }, make("span", { className: "grow" }, h.name, make("small", { className: "quiet", textContent: " " + facts.join(" · ") })),
    make("button", { type: "button", textContent: t("pullStart"), ariaLabel: `${t("pullStart")}: ${h.name}`, disabled: !h.fits, onclick: () => { $("pull-name").value = h.name; pull(); } }));
};
const searchHub = async () => {
  const words = $("pull-name").value.trim();
  if (!words) return $("pull-name").focus();
  $("pull-search").disabled = true;
  $("models-said").textContent = t("searching");
  try {
    const { data } = await (await api.post("v1/models/search", { words })).json();
    $("hits").replaceChildren(...data.map(drawHit));
    $("models-said").textContent = data.length ? "" : t("notFound");
  } catch (e) { $("models-said").textContent = talk.why(e); }
  $("pull-search").disabled = false;
};

const pull = async () => {
  const name = $("pull-name").value.trim();
  if (!name) return $("pull-name").focus();
  try { followPull(await (await api.post("v1/models/pull", { model: name })).json()); } catch (e) { $("models-said").textContent = talk.why(e); }
};

// Local users have no key and see no field for one, unless the server has asked for it.
export const wantKey = () => { $("access").hidden = false; };

export const open = at => {
  $("access").hidden &&= !api.key();
  $("key").value = api.key();
  drawAll();
  drawTools();
  drawModels().catch(() => {});
  $("settings").showModal();
  const first = $(at ?? ($("access").hidden || api.key() ? "settings-title" : "key"));
  first.focus();
  if (at) first.scrollIntoView();
};

export const begin = () => {
  const language = kept.get("language") ?? (navigator.language.startsWith("id") ? "id" : "en");
  $("language").value = language;
  $("theme").value = kept.get("theme") ?? "";
  setTheme($("theme").value);
  pickLanguage(language);
};

// keyed(): there is another key; changed(): models were loaded or unloaded; mayManage(): whether that is allowed; redraw(): the words have changed; model(), context(): of the model that is chosen
export const start = given => {
  hooks = given;
  $("language").onchange = () => {
    kept.set("language", $("language").value);
    pickLanguage($("language").value);
    hooks.redraw();
    drawAll($("preset").value);
    drawTools();
    drawModels().catch(() => {});
  };
  $("theme").onchange = () => { kept.set("theme", $("theme").value); setTheme($("theme").value); };
  $("think").onchange = () => kept.set("think", $("think").checked);
  $("key").onchange = () => { api.setKey($("key").value.trim()); hooks.keyed(); };
  $("system").onchange = () => setSystem($("system").value);
  $("preset").onchange = () => usePreset($("preset").value);
  $("preset-keep").onclick = keepPreset;
  $("preset-drop").onclick = dropPreset;
  $("pull-start").onclick = pull;
  $("pull-search").onclick = searchHub;
  $("pull-name").onkeydown = e => { if (e.key === "Enter") { e.preventDefault(); pull(); } };
  $("pull-stop").onclick = () => api.post("v1/models/pull/stop", {}).catch(() => {});
  $("export").onclick = () => list.write(null);
  $("open-settings").onclick = () => open();
  $("open-tools").onclick = () => open("tools-title");
};
