// A model's text to elements. HTML in it is shown as text, images are not fetched, links open elsewhere. What bidirectional
// controls could hide is made visible.
import * as math from "./math.js";
import { t } from "./lang.js";

const LONGEST = 20000; // characters of one line that are still looked at as Markdown
const md = window.markdownit({ html: false, linkify: false, breaks: true, highlight: (code, language) => {
  if (code.length > 100000 || !window.hljs.getLanguage(language)) return "";
  return window.hljs.highlight(code, { language, ignoreIllegals: true }).value;
} });
md.disable("image");
math.addTo(md);
const linkOpen = md.renderer.rules.link_open ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options));
md.renderer.rules.link_open = (tokens, i, options, env, self) => {
  tokens[i].attrSet("target", "_blank");
  tokens[i].attrSet("rel", "noopener noreferrer nofollow");
  return linkOpen(tokens, i, options, env, self);
};

const CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;
export const visible = text => text.replace(CONTROLS, c => "⟨U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");

const addCopy = pre => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = t("copy");
  button.onclick = async () => {
    await navigator.clipboard.writeText(pre.querySelector("code").textContent);
    button.textContent = t("copied");
  };
  pre.append(button);
  pre.tabIndex = 0;
};

// An answer that is one JSON object is read more easily with a line for each member.
const asJson = text => {
  if (!/^\s*\{[^]*\}\s*$/.test(text) || text.length > 100000) return text;
  try { return "```json\n" + JSON.stringify(JSON.parse(text), null, 2) + "\n```"; } catch { return text; }
};

export const render = (element, text) => {
  text = asJson(visible(text));
  const pieces = text.split("\n");
  if (text.length > 400000 || pieces.some(line => line.length > LONGEST)) { element.textContent = text; return; }
  element.innerHTML = md.render(text);
  for (const pre of element.querySelectorAll("pre")) addCopy(pre);
  for (const table of element.querySelectorAll("table")) table.tabIndex = 0; // it may scroll
};
