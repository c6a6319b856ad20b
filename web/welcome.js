// What a visitor sees first: what this model is and can do, and examples to click.
import { $, icon, make } from "./dom.js";
import { bytes, code, number, t } from "./lang.js";

let model = {}, start = () => {};
// ask(example): {text, extra, tools}
export const begin = ask => { start = ask; };

// What is known of the model that is chosen: of /v1/models and /props.
export const know = found => { model = found; const at = $("welcome"); if (at) at.replaceWith(draw()); };

const FORM = { en: ["name", "age"], id: ["nama", "umur"] };
const form = ([name, age]) => ({ temperature: 0, response_format: { type: "json_schema", json_schema: { name: "answer", strict: true,
  schema: { type: "object", properties: { [name]: { type: "string", maxLength: 40 }, [age]: { type: "integer" } }, required: [name, age], additionalProperties: false } } } });

const isDemo = () => /\bdemo\b/.test(model.display ?? model.name ?? "");
const examples = () => isDemo()
  ? [["story", {}], ["sum", { extra: { temperature: 0 } }], ["tools", { extra: { temperature: 0 }, tools: ["clock", "calculator"] }], ["form", { extra: form(FORM[code()]) }]]
  : [["chat", {}], ["story", {}], ["tools", { tools: ["clock", "calculator"] }], ["form", { extra: form(FORM[code()]) }]];

const words = n => n >= 1e9 ? t("billions", { n: number(n / 1e9, 1) }) : t("millions", { n: number(n / 1e6, n < 1e7 ? 1 : 0) });
const facts = () => [model.parameters && t("parameters", { n: words(model.parameters) }), model.file_bytes && bytes(model.file_bytes), model.context && t("contextOf", { n: number(model.context) }),
  model.speed ? t("speedHere", { n: number(model.speed, model.speed < 100 ? 1 : 0) }) : t("speedLater")].filter(Boolean);

const where = () => /^(localhost|127\.|\[::1\])/.test(location.hostname) ? t("hereOn") : t("onHost", { host: location.hostname });

const card = ([kind, more]) => {
  const text = t(`ask_${isDemo() ? "demo" : "any"}_${kind}`);
  return make("button", { type: "button", className: "card", onclick: () => start({ text, ...more }) }, icon(kind), make("strong", { textContent: t("card_" + kind) }), make("span", { textContent: text }));
};

export const draw = () => make("section", { id: "welcome" },
  make("img", { src: "web/icon.svg", alt: "", width: 56, height: 56 }),
  make("h2", { textContent: t(isDemo() ? "helloDemo" : "hello") }),
  make("p", { textContent: isDemo() ? t("aboutDemo", { where: where() }) : t("aboutAny", { name: model.display ?? model.name ?? "", where: where() }) }),
  make("p", { className: "facts quiet" }, facts().join(" · ")),
  make("div", { className: "cards" }, ...examples().map(card)));
