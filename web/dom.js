// Elements: made, found, and small drawings in place of letters.
export const $ = id => document.getElementById(id);
export const make = (tag, props = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children.filter(c => c !== null && c !== undefined && c !== false && c !== ""));
  return e;
};

// Of 24 x 24, drawn with strokes.
const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  learn: "M12 4l9 5-9 5-9-5zM7 12v4c3 2 7 2 10 0v-4",
  braces: "M9 4c-3 0-3 2-3 4s0 3-2 4c2 1 2 2 2 4s0 4 3 4M15 4c3 0 3 2 3 4s0 3 2 4c-2 1-2 2-2 4s0 4-3 4",
  attach: "M19 11l-7 7a4.5 4.5 0 0 1-6.500-6.500l8-8a3 3 0 0 1 4.300 4.300l-8 8a1.500 1.500 0 0 1-2.100-2.100l7-7",
  tools: "M14 6a4 4 0 0 1 5-2l-2.500 2.500 1 2 2 1L22 7a4 4 0 0 1-6 4l-8 8a2 2 0 0 1-3-3l8-8a4 4 0 0 1 1-2z",
  send: "M12 19V6M6 11l6-6 6 6",
  import: "M12 4v11M7 10l5 5 5-5M4 19h16",
  export: "M12 15V4M7 9l5-5 5 5M4 19h16",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  again: "M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5",
  goon: "M5 12h13M13 6l6 6-6 6",
  fix: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  up: "M7 11v9H4v-9zM7 11l4-8c2 0 3 1 2.500 3L13 10h5c2 0 2.500 1 2 3l-1.500 5c-.5 1.500-1 2-2.500 2H7",
  down: "M17 13V4h3v9zM17 13l-4 8c-2 0-3-1-2.500-3l.5-4H6c-2 0-2.500-1-2-3l1.500-5C6 4.500 6.500 4 8 4h9",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  chart: "M4 19h16M6 15l4-5 4 3 5-7",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  story: "M5 5c3-1 5-1 7 1 2-2 4-2 7-1v13c-3-1-5-1-7 1-2-2-4-2-7-1zM12 6v13",
  sum: "M5 8h6M8 5v6M14 8h5M5 16h6M14 15h5M14 18h5",
  form: "M6 4h12v16H6zM9 9h6M9 13h6M9 17h3",
  chat: "M4 6h16v11H10l-4 3v-3H4z",
};
export const icon = name => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "drawn");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
};
export const drawIcons = () => { for (const e of document.querySelectorAll("[data-icon]")) e.prepend(icon(e.dataset.icon)); };

// A quiet button in a row of them; with a drawing where one is named.
export const link = (label, action, { draws, ...more } = {}) => make("button", { type: "button", className: "link", onclick: action, ...more }, draws ? icon(draws) : null, label);

// ---- messages at the page's edge ----

let hiding = 0;
// fine: no trouble; undo: {label, act}. Trouble stays until the next message; the rest goes by itself.
export const tell = (message, { fine = false, undo } = {}) => {
  const notice = $("notice");
  clearTimeout(hiding);
  notice.classList.toggle("fine", fine);
  notice.setAttribute("role", fine ? "status" : "alert");
  notice.replaceChildren(message ?? "", ...(undo ? [make("button", { type: "button", textContent: undo.label, onclick: () => { tell(""); undo.act(); } })] : []),
    make("button", { type: "button", className: "link", ariaLabel: "×", textContent: "×", onclick: () => tell("") }));
  notice.hidden = !message;
  if (message && fine) hiding = setTimeout(() => tell(""), undo ? 10000 : 5000);
};

// What this browser remembers of the page, besides conversations.
export const kept = {
  get: k => { try { return JSON.parse(localStorage.getItem("kentang-" + k)); } catch { return null; } },
  set: (k, v) => { try { localStorage.setItem("kentang-" + k, JSON.stringify(v)); } catch { /* full or forbidden */ } },
};
export const save = (name, value, type = "application/json") => {
  const a = make("a", { href: URL.createObjectURL(new Blob([value], { type })), download: name });
  a.click();
  URL.revokeObjectURL(a.href);
};
