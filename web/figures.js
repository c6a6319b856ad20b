// What the server says of itself, once a second while the page is seen: one quiet line, and plots of the last minutes.
import * as api from "./api.js";
import { state } from "./talk.js";
import { $, kept, make } from "./dom.js";
import { plot } from "./plots.js";
import { bytes, number, t, timeOf, took } from "./lang.js";

const LEAST = 60, PLACES = 300; // seconds in a plot: a minute at first, five in the end
const figure = (text, name, labels = "") => {
  const found = [...text.matchAll(new RegExp(`^kentang_${name}(\\{[^}]*\\})? ([0-9.e+-]+)$`, "gm"))].filter(m => !labels || m[1]?.includes(labels));
  return found.length ? found.reduce((s, m) => s + Number(m[2]), 0) : undefined;
};

let before = null, last = null, told = () => {};
const past = []; // a sample a second, the oldest first

// The first that holds: each is a figure of the second that has passed.
const limitOf = (m, now) => {
  const grew = name => before && now[name] - before[name];
  if (grew("hot") > 0) return "limitHeat";
  if (grew("throttled") > 0.05) return "limitQuota";
  if (grew("stalled") > 0.05) return "limitMemory";
  if (m.waiting > 0 && m.running > 0) return "limitQueue";
  if (m.running > 0) return before && m.generated_tokens === before.generated ? "limitPrompt" : "limitBandwidth";
  return "limitIdle";
};

const sampleOf = (m, now) => {
  const seconds = before && (now.ms - before.ms) / 1000, answers = before && now.first_n - before.first_n;
  return {
    speed: before ? Math.max(0, (m.generated_tokens - before.generated) / seconds) : undefined,
    first: answers > 0 ? (now.first_s - before.first_s) / answers : undefined,
    waiting: m.waiting, running: m.running, file: now.file, own: now.own, celsius: now.celsius, hertz: now.hertz,
  };
};

const read = (m, text) => ({
  ms: performance.now(), generated: m.generated_tokens, file: figure(text, "resident_memory_bytes", 'kind="file"'), own: figure(text, "resident_memory_bytes", 'kind="anonymous"'),
  throttled: figure(text, "cpu_throttled_seconds_total"), stalled: figure(text, "memory_stalled_seconds_total"), celsius: figure(text, "cpu_temperature_celsius"),
  hertz: figure(text, "cpu_frequency_hertz"), hot: figure(text, "cpu_thermal_throttles_total"),
  first_s: figure(text, "time_to_first_token_seconds_sum", `"${m.name}"`), first_n: figure(text, "time_to_first_token_seconds_count", `"${m.name}"`),
});

// ---- the line ----

const drawLine = (m, now, sample) => {
  const busy = m.running > 0, parts = [];
  if (busy) {
    parts.push(t(sample.speed > 0 ? "lineAnswering" : "lineReading", { n: m.running }));
    if (sample.speed > 0) parts.push(t("rate", { n: number(sample.speed, 0) }));
  } else {
    parts.push(t("lineIdle"));
    if (state.last?.speed) parts.push(t("lineLast", { n: number(state.last.speed, state.last.speed < 100 ? 1 : 0), s: took(state.last.first) }));
  }
  if (m.waiting) parts.push(t("lineQueue", { n: m.waiting }));
  if (now.own !== undefined) parts.push(t("lineMemory", { n: bytes((now.own ?? 0) + (now.file ?? 0)) }));
  $("line").textContent = parts.join(" · ");
  $("open-figures").classList.toggle("busy", busy);
};

// ---- the panel ----

const list = rows => {
  const dl = make("dl");
  for (const [name, value] of rows.filter(r => r[1] !== undefined && r[1] !== "")) dl.append(make("dt", { textContent: t(name) }), make("dd", { textContent: value }));
  return dl;
};
const share = (part, of) => of ? `${(100 * part / of).toFixed(0)} %` : "–";
const column = name => past.map(s => s[name]);
const most = (values, least) => Math.max(least, ...values.filter(v => v !== undefined));
const known = name => past.some(s => s[name] !== undefined);

const plots = (m, sample) => {
  const n = Math.min(PLACES, Math.max(LEAST, past.length));
  const speed = most(column("speed"), 1), first = most(column("first"), 0.1), queue = most(past.map(s => s.waiting + s.running), 2);
  const firsts = column("first").filter(v => v !== undefined), out = [
    plot({ title: t("plotSpeed"), now: t("rate", { n: number(sample.speed ?? 0, 0) }), says: t("plotSpeedSays"), parts: [{ values: column("speed"), colour: "c2" }], n, most: speed, top: number(speed, 0) }),
    plot({ title: t("plotFirst"), now: firsts.length ? took(firsts.at(-1)) : "–", says: t("plotFirstSays"), parts: [{ values: column("first"), colour: "c3" }], n, most: first, top: took(first) }),
    plot({ title: t("plotQueue"), now: t("queueNow", { n: m.running, w: m.waiting }), parts: [{ values: column("running"), colour: "c2" }, { values: column("waiting"), colour: "c1" }], n, most: queue, top: number(queue),
      legend: [["c2", t("running")], ["c1", t("queued")]] })];
  if (known("own")) {
    const all = most(past.map(s => (s.own ?? 0) + (s.file ?? 0)), 1), budget = m.plan?.budget_bytes;
    out.push(plot({ title: t("memory"), now: bytes(sample.own + (sample.file ?? 0)), says: budget ? t("memorySays", { all: bytes(budget) }) : "", parts: [{ values: column("file"), colour: "c4" }, { values: column("own"), colour: "c1" }], n, most: all, top: bytes(all),
      legend: [["c4", t("memoryFile", { n: bytes(sample.file ?? 0) })], ["c1", t("memoryOwn", { n: bytes(sample.own) })]] }));
  }
  if (known("celsius")) out.push(plot({ title: t("plotHeat"), now: `${number(sample.celsius, 0)} °C`, parts: [{ values: column("celsius"), colour: "c1" }], n, most: 100, top: "100 °C" }));
  else if (known("hertz")) {
    const top = most(column("hertz"), 1e9);
    out.push(plot({ title: t("plotClock"), now: `${number(sample.hertz / 1e9, 2)} GHz`, says: t("plotClockSays"), parts: [{ values: column("hertz"), colour: "c1" }], n, most: top, top: `${number(top / 1e9, 1)} GHz` }));
  }
  return out;
};

// For those who know the engine.
const details = (props, m) => {
  const kv = m.kv ? [["kvForm", `${m.plan.kv_keys} / ${m.plan.kv_values}`], ["inUse", share(m.kv.used, m.kv.blocks)], ["keptBlocks", share(m.kv.kept, m.kv.blocks)], ["cached", share(m.kv.found_tokens, m.kv.looked_for_tokens)],
    ["fromDisk", m.kv.from_disk_tokens || undefined]] : [];
  return make("details", { open: $("figures").querySelector("details")?.open ?? false }, make("summary", { textContent: t("moreFigures") }),
    list([["weights", m.weight_bytes && bytes(m.weight_bytes)], ["kv", m.weight_bytes && bytes(m.kv_bytes)], ["scratch", m.weight_bytes && bytes(m.scratch_bytes)], ["budget", m.plan && bytes(m.plan.budget_bytes)], ...kv,
      ["prefill", m.prefill_tokens_per_second > 0 ? t("rate", { n: number(m.prefill_tokens_per_second, 0) }) : undefined], ["wait", m.predicted_wait_ms > 0 ? `${number(m.predicted_wait_ms / 1000, 1)} s` : undefined],
      ["places", m.parallel], ["threads", m.threads], ["isa", props.isa], ["uptime", timeOf(props.uptime_s)], ["version", props.version]]));
};

const drawPanel = (props, m, now, sample) => {
  $("figures-body").replaceChildren(make("p", { className: "limit", textContent: t(limitOf(m, now), { n: m.waiting, bytes: bytes(m.weight_bytes ?? 0) }) }), ...plots(m, sample), details(props, m));
};

// ---- looking ----

const look = async model => {
  const [props, text] = await Promise.all([api.props(), api.get("metrics").then(a => a.text()).catch(() => "")]);
  const m = props.models.find(x => x.name === model) ?? props.models[0];
  if (before?.model !== m.name) { before = null; past.length = 0; }
  const now = { ...read(m, text), model: m.name }, sample = sampleOf(m, now);
  past.push(sample);
  if (past.length > PLACES) past.shift();
  last = [props, m, now, sample];
  drawLine(m, now, sample);
  if ($("figures").classList.contains("open")) drawPanel(...last);
  before = now;
  told(m);
};
export const lookNow = model => look(model).catch(() => {});

const toggle = open => {
  $("figures").classList.toggle("open", open);
  $("open-figures").setAttribute("aria-expanded", String(open));
  document.body.classList.toggle("with-figures", open);
  kept.set("figures", open);
  if (open && last) drawPanel(...last);
};

// model(): that is chosen; on(its figures): after each look.
export const watch = (model, on) => {
  told = on;
  toggle(!!kept.get("figures") && innerWidth > 1200);
  $("open-figures").onclick = () => toggle(!$("figures").classList.contains("open"));
  $("close-figures").onclick = () => { toggle(false); $("open-figures").focus(); };
  lookNow(model());
  setInterval(() => { if (!document.hidden) lookNow(model()); }, 1000);
};
