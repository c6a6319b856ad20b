// The text of PDF files, by pdf.js, which is loaded when the first one is attached; pages have a form feed between them.
import { t } from "./lang.js";

const at = name => new URL(name, import.meta.url).href;
let library;
const load = () => library ??= import(at("pdf.min.mjs")).then(pdf => { pdf.GlobalWorkerOptions.workerSrc = at("pdf.worker.min.mjs"); return pdf; });

const textOf = async page => {
  const { items } = await page.getTextContent();
  return items.map(i => i.str + (i.hasEOL ? "\n" : "")).join("").trim();
};

// Throws words for the reader.
export const read = async file => {
  const pdf = await load(), task = pdf.getDocument({ data: await file.arrayBuffer(), isEvalSupported: false, disableFontFace: true, useSystemFonts: false });
  try {
    const document = await task.promise, pages = [];
    for (let i = 1; i <= document.numPages; i++) pages.push(await textOf(await document.getPage(i)));
    if (!pages.some(Boolean)) throw new Error(t("pdfWithoutText", { f: file.name }));
    return pages.join("\f");
  } catch (e) {
    if (e.name === "PasswordException") throw new Error(t("pdfLocked", { f: file.name }));
    throw e.name?.endsWith("Exception") ? new Error(t("pdfDamaged", { f: file.name })) : e;
  } finally { task.destroy(); }
};
