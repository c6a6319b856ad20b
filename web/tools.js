// Tools that the model may call: a clock and a calculator of the page's own, which touch nothing and run at once, and those that
// this server has over the Model Context Protocol (/mcp), of which nothing is called that the person did not allow, once or for
// this conversation. What a tool says goes back to the model.
import * as api from "./api.js";
import * as store from "./store.js";
import { calculate } from "./calc.js";
import { $, icon, make } from "./dom.js";
import { visible } from "./markdown.js";
import { number, t } from "./lang.js";

const ROUNDS = 8; // calls in a row, before the person is asked again
const MOST = 0.5; // of the context, for the tools' descriptions

const clock = () => {
  const now = new Date(), two = n => String(Math.abs(n)).padStart(2, "0"), off = -now.getTimezoneOffset();
  return `${now.toLocaleDateString("en", { weekday: "long" })}, ${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())} `
    + `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())} ${off < 0 ? "-" : "+"}${two(Math.trunc(off / 60))}${two(off % 60)}`;
};
// As `kentang agent` describes them, since the demo model has learnt them so.
const OWN = [
  { name: "clock", title: "toolClock", description: "The date and the time, here and now.", inputSchema: { type: "object", properties: {}, additionalProperties: false }, run: clock },
  { name: "calculator", title: "toolCalculator",
    description: "The value of an arithmetic expression: + - * / % ^, brackets, pi, e, sqrt, abs, round, floor, ceil, exp, ln, log, sin, cos, tan.",
    inputSchema: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"], additionalProperties: false }, run: a => String(calculate(String(a.expression))) },
];
const own = name => OWN.find(x => x.name === name);

let known = [...OWN], fetched = false, always = { talk: null, names: new Set(), left: ROUNDS };

const rpc = async (method, params, signal) => {
  const reply = await (await api.post("mcp", { jsonrpc: "2.0", id: 1, method, params }, signal)).json();
  if (reply.error) throw new Error(reply.error.message);
  return reply.result;
};
const fetchKnown = async () => {
  if (fetched) return;
  try {
    const theirs = (await rpc("tools/list", {})).tools;
    known = [...OWN, ...theirs.filter(x => !own(x.name))];
    fetched = true;
  } catch { /* no key yet, or none here */ }
};
export const begin = async names => { if (names.some(n => !own(n))) await fetchKnown(); };

const asFunction = x => ({ type: "function", function: { name: x.name, description: x.description, parameters: x.inputSchema } });
// For a request: {} where the conversation has none.
export const asked = talk => {
  const tools = known.filter(x => talk.tools?.includes(x.name)).map(asFunction);
  return tools.length ? { tools } : {};
};

// ---- the boxes in the settings ----

const titleOf = tool => own(tool.name) ? t(tool.title) : tool.title ?? tool.name;
const sizes = new Map(); // of their descriptions, in tokens
const measure = async model => {
  for (const tool of known) if (!sizes.has(tool.name)) {
    try { sizes.set(tool.name, await api.tokens(JSON.stringify(asFunction(tool).function), model)); } catch { return; }
  }
};

// names: those that are chosen; save(names); context: tokens that the model holds.
export const drawChoice = async (names, save, model, context) => {
  await fetchKnown();
  await measure(model);
  const chosen = new Set(names), used = () => [...chosen].reduce((s, n) => s + (sizes.get(n) ?? 0), 0);
  const rows = known.map(tool => {
    const box = make("input", { type: "checkbox", checked: chosen.has(tool.name) });
    box.onchange = () => { if (box.checked) chosen.add(tool.name); else chosen.delete(tool.name); save([...chosen]); sum(); };
    return { tool, box, line: make("label", { className: "check", title: tool.description ?? "" }, box,
      make("span", {}, titleOf(tool), make("small", { className: "quiet", textContent: ` ${t(own(tool.name) ? "toolHere" : "toolServer")} · ${t("tokens", { n: sizes.get(tool.name) })}` }))) };
  });
  const said = make("p", { className: "quiet" });
  // What would not leave room for a conversation cannot be chosen.
  const sum = () => {
    for (const { tool, box } of rows) box.disabled = !box.checked && !!context && used() + (sizes.get(tool.name) ?? 0) > context * MOST;
    said.textContent = context ? t("toolsTake", { n: number(used()), all: number(context) }) : "";
  };
  sum();
  $("tools").replaceChildren(...rows.map(r => r.line), said);
};

// ---- an answer's calls ----

export const open = note => (note.calls ?? []).filter(call => call.id && call.result === undefined);

// As messages: the calls, and what came of each; what was not decided was not allowed.
export const messages = note => [
  { role: "assistant", content: note.text || null, tool_calls: note.calls.map(c => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments || "{}" } })) },
  ...note.calls.map(c => ({ role: "tool", tool_call_id: c.id, content: c.result ?? "The user did not allow this call." })),
];

const run = async call => {
  try {
    const given = JSON.parse(call.arguments || "{}");
    if (own(call.name)) { call.result = own(call.name).run(given); return; }
    const result = await rpc("tools/call", { name: call.name, arguments: given });
    call.result = result.content.filter(c => c.type === "text").map(c => c.text).join("\n");
  } catch (e) { call.result = `Error: ${e.message}`; }
};

const decide = async (call, allowed, done) => {
  if (allowed) await run(call); else call.result = "The user did not allow this call.";
  call.allowed = allowed;
  await done();
};

// How many answers in a row called tools, this one included.
const rounds = (note, notes) => {
  const path = store.path(notes, note.id);
  return path.length - 1 - path.findLastIndex(n => !n.calls?.length);
};
const runsAtOnce = call => own(call.name) || (always.names.has(call.name) && always.left-- > 0);

// What needs no word, or was allowed for this conversation, is done at once; true: nothing is left to ask.
export const runAllowed = async (note, talk, notes) => {
  if (always.talk !== talk.id) always = { talk: talk.id, names: new Set(), left: ROUNDS };
  if (rounds(note, notes) > ROUNDS) return false;
  for (const call of open(note)) {
    if (!talk.tools?.includes(call.name) || !runsAtOnce(call)) continue;
    await run(call);
    call.allowed = true;
  }
  return open(note).length === 0;
};

// Its one argument's value, or all as they were written.
const brief = call => {
  try {
    const values = Object.values(JSON.parse(call.arguments || "{}"));
    if (!values.length) return "";
    if (values.length === 1 && typeof values[0] !== "object") return String(values[0]);
  } catch { /* as written, then */ }
  return call.arguments;
};
const titleOfCall = call => { const tool = known.find(x => x.name === call.name); return tool ? titleOf(tool) : call.name; };

// One call on the screen. done(): a decision was made; null: not now.
export const drawCall = (note, call, talk, done) => {
  const given = visible(brief(call)), head = make("div", { className: "head" }, icon("tools"), make("strong", { textContent: visible(titleOfCall(call)) }), given && make("code", { textContent: given }));
  const card = make("div", { className: "call" }, head);
  if (call.result !== undefined) {
    const text = visible(call.result);
    if (call.allowed && text.length < 80 && !text.includes("\n")) head.append(make("span", { className: "came", textContent: "→ " + text }));
    else card.append(make("details", {}, make("summary", { textContent: t(call.allowed ? "result" : "refused") }), make("div", { textContent: text })));
  } else if (call.id && done && talk?.tools?.includes(call.name)) {
    const press = (label, act, main) => make("button", { type: "button", className: main ? "main" : "", textContent: t(label), onclick: e => { for (const b of e.target.parentNode.children) b.disabled = true; act(); } });
    card.append(make("p", { textContent: t("mayI") }), make("div", { className: "row" },
      press("allow", () => decide(call, true, done), true),
      press("allowAlways", () => { always.talk = note.talk; always.names.add(call.name); always.left = ROUNDS; decide(call, true, done); }),
      press("refuse", () => decide(call, false, done))));
  }
  return card;
};
