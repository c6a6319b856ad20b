// The list of conversations: search, rename, delete with a way back, files in and out.
import * as store from "./store.js";
import * as talk from "./talk.js";
import { $, icon, kept, link, make, save, tell } from "./dom.js";
import { dayOf, t } from "./lang.js";

const { state } = talk;

export const pick = async id => {
  kept.set("talk", id);
  showList(false);
  const shown = talk.show(id);
  draw();
  await shown;
  draw();
};

export const showList = open => {
  $("side").classList.toggle("open", open);
  $("menu").setAttribute("aria-expanded", String($("side").classList.contains("open")));
};

// ---- what can be done with one ----

const rename = (item, li) => {
  const box = make("input", { value: item.title, ariaLabel: t("title"), maxLength: 200 });
  const end = async keep => {
    box.onblur = null;
    box.remove(); // the list may be drawn again
    const title = box.value.trim();
    if (keep && title) {
      const now = state.talk?.id === item.id ? state.talk : item;
      now.title = title;
      await store.saveTalk(now);
    }
    draw();
  };
  box.onkeydown = e => { if (e.key === "Enter") end(true); else if (e.key === "Escape") { e.stopPropagation(); end(false); } };
  box.onblur = () => end(true);
  li.replaceChildren(box);
  box.focus();
  box.select();
};

const remove = async item => {
  if (state.answer?.talk.id === item.id) talk.halt();
  const notes = [...(await store.notes(item.id)).values()];
  await store.remove(item.id);
  if (state.talk?.id === item.id) await pick(null); else draw();
  tell(t("talkGone", { title: item.title }), { fine: true, undo: { label: t("undo"), act: async () => { await store.restore(item, notes); pick(item.id); } } });
};

const nameOf = item => `kentang-${(item?.title ?? "").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40) || "all"}.json`;
export const write = async item => save(nameOf(item), await store.write(item?.id));
export const read = async file => {
  try {
    const n = await store.read(await file.text());
    tell(t(n ? "imported" : "nothingImported", { n }), { fine: !!n });
    draw();
  } catch { tell(t("nothingImported")); }
};

// One menu for all rows.
const openMenu = (item, li, opener) => {
  const menu = $("row-menu"), at = opener.getBoundingClientRect();
  const entry = (word, draws, act) => link(t(word), () => { menu.hidePopover(); act(); }, { draws });
  menu.replaceChildren(entry("rename", "fix", () => rename(item, li)), entry("exportOne", "export", () => write(item)), entry("delete", "trash", () => remove(item)));
  menu.showPopover();
  menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.min(at.bottom + 2, innerHeight - menu.offsetHeight - 8)}px`;
  menu.querySelector("button").focus();
};

// ---- the list ----

const drawRow = item => {
  const li = make("li"), more = make("button", { type: "button", className: "link more", ariaLabel: t("moreOf", { title: item.title || t("untitled") }), title: t("more") }, icon("more"));
  const open = make("button", { type: "button", className: "open", textContent: item.title || t("untitled"), title: item.title, onclick: () => pick(item.id) });
  more.onclick = () => openMenu(item, li, more);
  if (item.id === state.talk?.id) { li.className = "at"; open.setAttribute("aria-current", "true"); }
  li.append(open, more);
  return li;
};

let drawing = 0;
export const draw = async () => {
  const mine = ++drawing, words = $("search").value.trim();
  const [all, found] = await Promise.all([store.talks(), words ? store.search(words) : null]);
  if (mine !== drawing || $("list").querySelector("input")) return; // a later one draws, or a name is being typed
  const rows = [];
  let day = null;
  for (const item of all.filter(x => !found || found.has(x.id))) {
    if (dayOf(item.at) !== day) rows.push(make("li", { className: "day quiet", textContent: day = dayOf(item.at) }));
    rows.push(drawRow(item));
  }
  if (!rows.length && words) rows.push(make("li", { className: "day quiet", textContent: t("notFound") }));
  $("list").replaceChildren(...rows);
};

export const start = () => {
  $("menu").onclick = () => showList();
  $("search").oninput = draw;
  $("import").onchange = async () => { for (const file of $("import").files) await read(file); $("import").value = ""; };
};
