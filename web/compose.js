// The field for a message: attached texts, how many tokens it has, sending.
import * as api from "./api.js";
import * as talk from "./talk.js";
import { $, make, tell } from "./dom.js";
import { t } from "./lang.js";

let files = [];

const drawFiles = () => $("files").replaceChildren(...files.map((f, i) => make("span", {}, f.name,
  make("button", { type: "button", className: "link", textContent: "×", ariaLabel: t("remove", { f: f.name }), onclick: () => { files.splice(i, 1); drawFiles(); } }))));

export const attach = async list => {
  for (const file of list) {
    const text = file.size <= 1 << 20 ? await file.text() : "\0";
    if (text.includes("\0") || text.includes("\ufffd")) tell(t("notText", { f: file.name })); else files.push({ name: file.name, text });
  }
  $("attach").value = "";
  drawFiles();
};

// A fence that the text does not contain.
const fenced = f => { let fence = "```"; while (f.text.includes(fence)) fence += "`"; return `${f.name}\n${fence}\n${f.text}\n${fence}\n\n`; };

const send = () => {
  const text = $("ask").value;
  if (talk.state.answer || (!text.trim() && !files.length)) return;
  const whole = files.map(fenced).join("") + text;
  $("ask").value = "";
  files = [];
  drawFiles();
  grow();
  count();
  talk.say(whole);
};

// As high as what is in it, up to a third of the page.
const grow = () => {
  const box = $("ask");
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight / 3)}px`;
};

let counting = 0, model = () => undefined;
const count = () => {
  clearTimeout(counting);
  const text = $("ask").value;
  if (!text) { $("count").textContent = ""; return; }
  counting = setTimeout(async () => {
    try {
      const n = await api.tokens(text, model());
      if ($("ask").value === text) $("count").textContent = t("tokens", { n });
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
