// What the server says of itself, once a second while the page is seen.
import * as api from "./api.js";
import { state } from "./chat.js";
import { t } from "./lang.js";

const MB = n => n === undefined ? "–" : n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : (n / 1e6).toFixed(1) + " MB";
const seconds = s => s >= 3600 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : s >= 60 ? `${Math.floor(s / 60)} min` : `${Math.floor(s)} s`;
const figure = (text, name) => { const m = text.match(new RegExp("^" + name + "(?:\\{[^}]*\\})? ([0-9.e+-]+)$", "m")); return m ? Number(m[1]) : undefined; };

let before = null;

// The first that holds: each is a figure of the second that has passed.
const limitOf = (m, now) => {
  const held = before && now.throttled - before.throttled, stalled = before && now.stalled - before.stalled;
  if (held > 0.05) return "limitQuota";
  if (stalled > 0.05) return "limitMemory";
  if (m.waiting > 0 && m.running > 0) return "limitQueue";
  if (m.running > 0) return before && m.generated_tokens === before.generated ? "limitPrompt" : "limitBandwidth";
  return "limitIdle";
};

const section = (title, rows) => {
  const list = document.createElement("dl");
  for (const [name, value] of rows.filter(r => r[1] !== undefined && r[1] !== "")) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    list.append(dt, dd);
  }
  const head = document.createElement("h2");
  head.textContent = t(title);
  return [head, list];
};

const share = (part, of) => of ? `${(100 * part / of).toFixed(0)} %` : "–";

const bar = (value, max, high, label) => {
  const meter = document.createElement("meter");
  Object.assign(meter, { min: 0, max, value, high });
  meter.setAttribute("aria-label", label);
  return meter;
};

// Keys and values: in use, kept for prompts to come, on disk; and what was found of the last prompts of this page.
const keysAndValues = m => m.kv ? [
  ...section("kvStore", [[t("kvForm"), `${m.plan.kv_keys} / ${m.plan.kv_values}`], [t("inUse"), share(m.kv.used, m.kv.blocks)], [t("keptBlocks"), share(m.kv.kept, m.kv.blocks)], [t("evicted"), m.kv.evicted],
    [t("cached"), share(m.kv.found_tokens, m.kv.looked_for_tokens)], [t("fromDisk"), m.kv.from_disk_tokens || undefined],
    ...state.recent.map((f, i) => [t("answerBefore", { n: i + 1 }), t("ofPrompt", { c: f.cached ?? 0, p: f.prompt })])]),
  bar(m.kv.used, m.kv.blocks, m.kv.blocks * .9, t("inUse"))] : [];

const draw = (props, m, now) => {
  const last = state.last ?? {};
  const resident = section("memory", [[t("weights"), MB(m.weight_bytes)], [t("kv"), MB(m.kv_bytes)], [t("scratch"), MB(m.scratch_bytes)], [t("resident"), MB(now.resident)], [t("budget"), MB(m.plan?.budget_bytes)]]);
  if (now.resident && m.plan?.budget_bytes) resident.push(bar(now.resident, m.plan.budget_bytes, m.plan.budget_bytes * .9, t("resident")));
  document.getElementById("gauges").replaceChildren(
    ...section("speed", [[t("decode"), m.decode_step_ms > 0 ? (1000 / m.decode_step_ms).toFixed(1) + " tok/s" : "–"], [t("prefill"), m.prefill_tokens_per_second > 0 ? m.prefill_tokens_per_second.toFixed(0) + " tok/s" : "–"],
      [t("first"), last.first === undefined ? "–" : last.first.toFixed(2) + " s"], [t("running"), `${m.running} / ${m.parallel ?? "–"}`], [t("queued"), m.waiting], [t("wait"), m.predicted_wait_ms > 0 ? (m.predicted_wait_ms / 1000).toFixed(1) + " s" : "0 s"]]),
    ...resident,
    ...keysAndValues(m),
    ...section("machine", [[t("threads"), m.threads], [t("isa"), props.isa], [t("throttled"), now.throttled === undefined ? undefined : now.throttled.toFixed(1) + " s"], [t("limit"), t(limitOf(m, now))], [t("uptime"), seconds(props.uptime_s)]]),
    ...section("requests", props.requests.slice(0, 8).map(r => [r.id.slice(0, 16), `${t(r.state === "running" ? "running" : "queued")} ${(r.age_ms / 1000).toFixed(0)} s`])));
};

const look = async model => {
  const [props, text] = await Promise.all([api.get("props").then(a => a.json()), api.get("metrics").then(a => a.text())]);
  const m = props.models.find(x => x.name === model) ?? props.models[0];
  const now = { resident: figure(text, "kentang_resident_memory_bytes"), throttled: figure(text, "kentang_cpu_throttled_seconds_total"), stalled: figure(text, "kentang_memory_stalled_seconds_total"), generated: m.generated_tokens };
  draw(props, m, now);
  before = now;
};

export const watch = model => setInterval(() => { if (!document.hidden) look(model()).catch(() => {}); }, 1000);
