// The playground: a schema, a grammar or an expression, a prompt, and what the model makes of both.
import * as api from "./api.js";
import { $ } from "./dom.js";
import { visible } from "./markdown.js";
import { t } from "./lang.js";

const EXAMPLES = {
  json_schema: '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string", "maxLength": 20},\n    "age": {"type": "integer"}\n  },\n  "required": ["name", "age"],\n  "additionalProperties": false\n}',
  grammar: 'root ::= ("yes" | "no") "."',
  regex: "[0-9]{2}:[0-9]{2}",
};
const rules = { ...EXAMPLES };

const bodyOf = (kind, rule) => kind === "json_schema" ? { response_format: { type: kind, json_schema: { name: "answer", strict: true, schema: JSON.parse(rule) } } } : { [kind]: rule };

const attempt = async request => {
  const out = $("play-out");
  out.textContent = "";
  out.classList.remove("bad");
  try {
    const body = { max_tokens: 256, finish_within: true, ...request, messages: [{ role: "user", content: $("play-prompt").value }], ...bodyOf($("play-kind").value, $("play-rule").value) };
    await api.chat(body, undefined, (kind, value) => { if (kind === "text") out.textContent += visible(value); });
  } catch (e) {
    out.classList.add("bad");
    out.textContent = e.message;
  }
};

export const start = request => {
  let kind = $("play-kind").value;
  $("play-rule").value = rules[kind];
  $("play-prompt").value = t("ask_demo_form");
  $("play-kind").onchange = () => { rules[kind] = $("play-rule").value; kind = $("play-kind").value; $("play-rule").value = rules[kind]; };
  $("open-play").onclick = () => $("play").showModal();
  $("play-form").onsubmit = e => { e.preventDefault(); attempt(request()); };
};
