// The server's paths, as the page uses them.
const KEY = "kentang-key";
export const key = () => sessionStorage.getItem(KEY) || "";
export const setKey = value => value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY);

const headers = () => ({ "Content-Type": "application/json", ...(key() ? { Authorization: "Bearer " + key() } : {}) });

export class Refused extends Error {
  constructor(status, message, code) { super(message); this.status = status; this.code = code; }
}
const fail = async answer => {
  let why = answer.statusText, code;
  try { const { error } = await answer.json(); why = error.message ?? error; code = error.code; } catch { /* not ours */ }
  throw new Refused(answer.status, why, code);
};
const ask = async (method, path, body, signal) => {
  const answer = await fetch(path, { method, headers: headers(), body: body === undefined ? undefined : JSON.stringify(body), signal });
  return answer.ok ? answer : fail(answer);
};
export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body, signal) => ask("POST", path, body, signal);
export const remove = path => ask("DELETE", path);

// Server-sent events of a body, as parsed data; ends at [DONE].
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

// Streams an answer. on(kind, value): "id", "model", "text", "reasoning", "call" {index, id, name, arguments}, "end", "usage",
// "timings", "seed", "learned", "opened".
export const chat = async (body, signal, on) => {
  const answer = await post("v1/chat/completions", { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  for await (const e of events(answer)) {
    if (e.error) throw new Refused(500, e.error.message, e.error.code);
    const choice = e.choices?.[0];
    if (e.id) on("id", e.id);
    if (e.model) on("model", e.model);
    if (choice?.delta?.content) on("text", choice.delta.content);
    if (choice?.delta?.reasoning_content) on("reasoning", choice.delta.reasoning_content);
    for (const call of choice?.delta?.tool_calls ?? []) on("call", { index: call.index, id: call.id, ...call.function });
    if (choice?.finish_reason) on("end", choice.finish_reason);
    if (e.usage) on("usage", e.usage);
    if (e.timings) on("timings", e.timings);
    if (e.kentang) on("seed", e.kentang.seed);
    if (e.kentang?.adapter) on("learned", e.kentang.adapter);
    if (e.kentang?.learned) on("opened", e.kentang.learned);
  }
};
export const models = async () => {
  const { data, manage, pull } = await (await get("v1/models")).json();
  return Object.assign(data, { manage: !!manage, pull: !!pull }); // whether this client may load and unload them, and fetch others
};
export const props = async () => (await get("props")).json();
export const tokens = async (text, model) => (await (await post("tokenize", { content: text, model })).json()).tokens.length;
