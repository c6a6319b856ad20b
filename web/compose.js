// The field for a message: attached texts and pictures, how many tokens it has and how long they take, sending.
import * as api from "./api.js";
import { read } from "./attach.js";
import * as talk from "./talk.js";
import { $, make, tell } from "./dom.js";
import { number, t } from "./lang.js";

let files = [];

const drawFiles = () => $("files").replaceChildren(...files.map((f, i) => make("span", {}, f.picture ? make("img", { src: f.picture, alt: "" }) : null, f.name,
  make("button", { type: "button", className: "link", textContent: "×", ariaLabel: t("remove", { f: f.name }), onclick: () => { files.splice(i, 1); drawFiles(); count(); } }))));

export const attach = async list => {
  for (const file of list) {
    try { files.push(await read(file, model.sees())); } catch (e) { tell(e.message); }
  }
  $("attach").value = "";
  drawFiles();
  count();
};

// A fence that the text does not contain.
const fenced = f => { let fence = "```"; while (f.text.includes(fence)) fence += "`"; return `${f.name}\n${fence}\n${f.text}\n${fence}\n\n`; };

const texts = () => files.filter(f => !f.picture).map(fenced).join("");

const send = () => {
  const text = $("ask").value;
  if (talk.state.answer || (!text.trim() && !files.length)) return;
  const whole = texts() + text, pictures = files.filter(f => f.picture).map(f => f.picture);
  $("ask").value = "";
  files = [];
  drawFiles();
  grow();
  count();
  talk.say(whole, { pictures });
};

// As high as what is in it, up to a third of the page.
const grow = () => {
  const box = $("ask");
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight / 3)}px`;
};

let counting = 0, model = { chosen: () => undefined, sees: () => false, context: () => undefined };
const count = () => {
  clearTimeout(counting);
  const text = texts() + $("ask").value, now = () => texts() + $("ask").value;
  if (!text) { $("count").textContent = ""; return; }
  counting = setTimeout(async () => {
    try {
      const n = await api.tokens(text, model.chosen()), rate = talk.state.readingRate, room = model.context();
      if (now() !== text) return;
      const late = rate && n / rate >= 2 ? " · " + t("secondsToRead", { s: Math.round(n / rate) }) : "", over = room && n > room ? " · " + t("overRoom", { n: number(room) }) : "";
      $("count").textContent = t("tokens", { n }) + late + over;
    } catch { $("count").textContent = ""; }
  }, 400);
};

export const start = chosen => {
  model = chosen;
  $("attach").onchange = () => attach($("attach").files);
  $("ask").oninput = () => { grow(); count(); };
  $("ask").onkeydown = e => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } };
  $("ask").onpaste = e => { if (e.clipboardData?.files.length) { e.preventDefault(); attach(e.clipboardData.files); } };
  $("form").onsubmit = e => { e.preventDefault(); send(); };
  $("stop").onclick = talk.halt;
  const drop = document.querySelector("main");
  drop.ondragover = e => { if (e.dataTransfer?.types.includes("Files")) { e.preventDefault(); drop.classList.add("drop"); } };
  drop.ondragleave = () => drop.classList.remove("drop");
  drop.ondrop = e => { drop.classList.remove("drop"); if (e.dataTransfer?.files.length) { e.preventDefault(); attach(e.dataTransfer.files); } };
};
