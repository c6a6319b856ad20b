// Files to what goes along with a message: a picture as a data URL, anything else as its text.
import { t } from "./lang.js";
import * as pdf from "./pdf.js";

const TEXT_MOST = 4 << 20, PICTURE_MOST = 32 << 20, PDF_MOST = 64 << 20;
const PLAIN = /^image\/(png|jpeg|webp)$/;
const isPicture = file => file.type.startsWith("image/") && file.type !== "image/svg+xml";

const dataUrl = blob => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.onerror = () => fail(reader.error);
  reader.readAsDataURL(blob);
});

// PNG, JPEG and WebP go as they are; what else the browser can show, as a PNG of its first frame.
const pictureOf = async file => {
  if (PLAIN.test(file.type)) return dataUrl(file);
  const frame = await createImageBitmap(file), canvas = document.createElement("canvas");
  canvas.width = frame.width;
  canvas.height = frame.height;
  canvas.getContext("2d").drawImage(frame, 0, 0);
  return dataUrl(await new Promise(done => canvas.toBlob(done, "image/png")));
};

// ---- documents ----

// The text of marked-up text, a line for each paragraph, heading, cell row and break; scripts and styles are none.
const LINES = new Set(["P", "DIV", "LI", "TR", "BR", "H1", "H2", "H3", "H4", "H5", "H6", "SECTION", "ARTICLE", "PRE", "BLOCKQUOTE", "text:p", "text:h", "w:p", "table:table-row", "w:tr"]);
const SILENT = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD"]);
const gather = (node, out) => {
  if (node.nodeType === 3) { out.push(node.data.replace(/\s+/g, " ")); return; }
  if (SILENT.has(node.nodeName)) return;
  if (node.nodeName === "w:tab" || node.nodeName === "text:tab" || node.nodeName === "TD" || node.nodeName === "TH") out.push("\t");
  if (node.nodeName === "text:s") out.push(" ");
  for (const below of node.childNodes) gather(below, out);
  if (LINES.has(node.nodeName)) out.push("\n");
};
const plain = root => { const out = []; gather(root, out); return out.join("").replace(/[ \t]*\n[ \t]*/g, "\n").replace(/\n{3,}/g, "\n\n").trim(); };

// One file of a ZIP archive (its end says where the list is); undefined: it has none of that name.
const unzip = async (bytes, wanted) => {
  const view = new DataView(bytes), name = (at, n) => new TextDecoder().decode(new Uint8Array(bytes, at, n));
  let end = bytes.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) return undefined;
  let at = view.getUint32(end + 16, true);
  for (let n = view.getUint16(end + 10, true); n > 0; n--) {
    const size = view.getUint32(at + 20, true), long = view.getUint16(at + 28, true), local = view.getUint32(at + 42, true);
    if (name(at + 46, long) === wanted) {
      const from = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true), packed = new Uint8Array(bytes, from, size);
      if (view.getUint16(at + 10, true) === 0) return new TextDecoder().decode(packed);
      const pieces = [], reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
      for (let got = 0; ;) {
        const { value, done } = await reader.read();
        if (done) return new TextDecoder().decode(await new Blob(pieces).arrayBuffer());
        pieces.push(value);
        if ((got += value.length) > 16 * TEXT_MOST) { reader.cancel(); return undefined; }
      }
    }
    at += 46 + long + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return undefined;
};
const OFFICE = [[/\.docx$/i, "word/document.xml"], [/\.odt$/i, "content.xml"]];

const textOf = async file => {
  const office = OFFICE.find(([end]) => end.test(file.name));
  if (office) {
    const xml = await unzip(await file.arrayBuffer(), office[1]);
    return xml === undefined ? undefined : plain(new DOMParser().parseFromString(xml, "application/xml").documentElement);
  }
  const text = await file.text();
  if (text.includes("\0") || text.includes("\ufffd")) return undefined;
  return /\.x?html?$/i.test(file.name) ? plain(new DOMParser().parseFromString(text, "text/html").body) : text;
};

// {name, text} or {name, picture}; throws words for the reader where it is neither.
export const read = async (file, sees) => {
  if (isPicture(file)) {
    if (!sees) throw new Error(t("blind", { f: file.name }));
    if (file.size > PICTURE_MOST) throw new Error(t("largePicture", { f: file.name }));
    try { return { name: file.name, picture: await pictureOf(file) }; } catch { throw new Error(t("noPicture", { f: file.name })); }
  }
  if (/\.pdf$/i.test(file.name) || file.type === "application/pdf") {
    if (file.size > PDF_MOST) throw new Error(t("largePdf", { f: file.name }));
    return { name: file.name, text: await pdf.read(file) };
  }
  let text;
  try { text = file.size <= TEXT_MOST ? await textOf(file) : undefined; } catch { /* damaged */ }
  if (text === undefined) throw new Error(t("notText", { f: file.name }));
  return { name: file.name, text };
};
