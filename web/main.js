// Start: the page's parts, and what they need of each other.
import * as api from "./api.js";
import * as chat from "./chat.js";
import * as compose from "./compose.js";
import * as figures from "./figures.js";
import * as learn from "./learn.js";
import * as list from "./list.js";
import * as math from "./math.js";
import * as play from "./play.js";
import * as settings from "./settings.js";
import * as store from "./store.js";
import * as talk from "./talk.js";
import * as tools from "./tools.js";
import * as welcome from "./welcome.js";
import { $, drawIcons, kept, tell } from "./dom.js";
import { t } from "./lang.js";

let models = [];
const chosen = () => $("model").value;
const sees = () => !!models.find(m => m.id === chosen())?.capabilities?.includes("vision");
const context = () => models.find(m => m.id === chosen())?.context_length;

// What the empty page says of the model; drawn again only when something of it is new.
let known = "";
const know = m => {
  const speeds = kept.get("speeds") ?? {};
  if (talk.state.last?.speed && m.name === chosen()) { speeds[m.name] = talk.state.last.speed; kept.set("speeds", speeds); }
  const found = { name: m.name, display: models.find(x => x.id === m.name)?.display_name, parameters: m.parameters, file_bytes: m.file_bytes, context: m.context, speed: speeds[m.name] ?? m.expected_tokens_per_second };
  if (known === JSON.stringify(found)) return;
  known = JSON.stringify(found);
  welcome.know(found);
};

const listModels = async () => {
  try {
    models = await api.models();
    const before = kept.get("model");
    $("model").replaceChildren(...models.map(m => new Option(m.loaded ? m.id : `${m.id} (${t("notLoaded")})`, m.id, false, m.id === before)));
    know({ name: chosen(), context: context() });
    tell("");
  } catch (e) {
    if (e.status === 401) settings.wantKey();
    tell(talk.why(e));
  }
};

const begin = async () => {
  await listModels();
  await Promise.all([learn.start({ model: chosen }), tools.begin(settings.chosenTools())]);
};

const startParts = () => {
  talk.begin({ draw: chat.draw, drawAnswer: chat.drawAnswer, changed: () => { kept.set("talk", talk.state.talk?.id ?? null); list.draw(); },
    settings: () => ({ system: settings.system(), request: settings.request(chosen()), tools: settings.chosenTools(), sees: sees() }) });
  welcome.begin(({ text, extra, tools: names }) => talk.say(text, { extra, tools: names }));
  settings.start({ keyed: begin, changed: listModels, may: () => models, model: chosen, context, redraw: () => { known = ""; chat.draw(); list.draw(); figures.lookNow(chosen()); } });
  compose.start({ chosen, sees, context, all: () => models });
  list.start();
  play.start(() => settings.request(chosen()));
  math.whenReady(() => { if (!talk.state.answer) chat.draw(); });
};

const start = async () => {
  drawIcons();
  settings.begin();
  startParts();
  chat.draw();
  // Another tab wrote: its messages belong to the tree, too.
  store.listen(async id => {
    list.draw();
    if (id === talk.state.talk?.id && talk.state.answer?.talk.id !== id) await talk.show(id);
  });
  $("new").onclick = () => { list.pick(null); $("ask").focus(); };
  $("model").onchange = () => { kept.set("model", chosen()); known = ""; know({ name: chosen(), context: context() }); figures.lookNow(chosen()); };
  $("ask").focus();
  if (!await store.keeps()) tell(t("notKept"));
  // What was typed meanwhile is not put aside for what was open before.
  if (!talk.state.talk) await list.pick(kept.get("talk")); else list.draw();
  await begin();
  figures.watch(chosen, know);
};
start();
