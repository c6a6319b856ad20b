// Tools that the model may call: those that this server has over the Model Context Protocol (/mcp). Nothing is called that the
// person did not allow, once or for this conversation; what a tool says goes back to the model.
import * as api from "./api.js";
import { visible } from "./markdown.js";
import { t } from "./lang.js";

const ROUNDS = 8; // calls in a row that are allowed for a conversation, before the person is asked again
const $ = id => document.getElementById(id);
const make = (tag, props = {}, ...children) => { const e = Object.assign(document.createElement(tag), props); e.append(...children); return e; };

let known = null, chosen = new Set(), always = { talk: null, names: new Set(), left: ROUNDS };

const rpc = async (method, params, signal) => {
  const reply = await (await api.post("mcp", { jsonrpc: "2.0", id: 1, method, params }, signal)).json();
  if (reply.error) throw new Error(reply.error.message);
  return reply.result;
};

// The boxes in the settings; names that were chosen before stay chosen.
export const drawChoice = async save => {
  try { known ??= (await rpc("tools/list", {})).tools; } catch { known = null; }
  const boxes = (known ?? []).map(tool => {
    const box = make("input", { type: "checkbox", checked: chosen.has(tool.name) });
    box.onchange = () => { if (box.checked) chosen.add(tool.name); else chosen.delete(tool.name); save([...chosen]); };
    return make("label", { className: "check", title: tool.description ?? "" }, box, make("span", { textContent: tool.title ?? tool.name }));
  });
  $("tools").replaceChildren(...boxes);
};
export const begin = async names => {
  chosen = new Set(names);
  if (chosen.size) try { known = (await rpc("tools/list", {})).tools; } catch { /* no key yet, or none here */ }
};

// For a request: {} where none is chosen.
export const asked = () => {
  const tools = (known ?? []).filter(x => chosen.has(x.name)).map(x => ({ type: "function", function: { name: x.name, description: x.description, parameters: x.inputSchema } }));
  return tools.length ? { tools } : {};
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
    const result = await rpc("tools/call", { name: call.name, arguments: JSON.parse(call.arguments || "{}") });
    call.result = result.content.filter(c => c.type === "text").map(c => c.text).join("\n");
  } catch (e) { call.result = `Error: ${e.message}`; }
};

const decide = async (call, allowed, done) => {
  if (allowed) await run(call); else call.result = "The user did not allow this call.";
  call.allowed = allowed;
  await done();
};

// What was allowed for this conversation is done at once; true: nothing is left to ask.
export const runAllowed = async note => {
  if (always.talk !== note.talk) always = { talk: note.talk, names: new Set(), left: ROUNDS };
  for (const call of open(note)) {
    if (!always.names.has(call.name) || always.left-- <= 0) continue;
    await run(call);
    call.allowed = true;
  }
  return open(note).length === 0;
};

// One call on the screen. done(): a decision was made.
export const drawCall = (note, call, done) => {
  const card = make("div", { className: "call" }, make("div", { textContent: `${t("call")}: ${visible(call.name)} ${visible(call.arguments)}` }));
  if (call.result !== undefined) {
    card.append(make("details", {}, make("summary", { textContent: t(call.allowed ? "result" : "refused") }), make("div", { textContent: visible(call.result) })));
  } else if (call.id && done && chosen.has(call.name)) {
    const press = (label, act) => make("button", { type: "button", textContent: t(label), onclick: e => { for (const b of e.target.parentNode.children) b.disabled = true; act(); } });
    card.append(make("div", { className: "row" },
      press("allow", () => decide(call, true, done)),
      press("allowAlways", () => { always.talk = note.talk; always.names.add(call.name); always.left = ROUNDS; decide(call, true, done); }),
      press("refuse", () => decide(call, false, done))));
  }
  return card;
};
