// Formulas in Markdown: $x$, $$x$$, \(x\) and \[x\], as MathML. KaTeX is fetched from this server when the first one comes; until
// then, and where a formula is none, its source is shown.
const LONGEST = 5000;
let katex = null, fetching = null, arrived = () => {};
export const whenReady = redraw => { arrived = redraw; };

const fetchOnce = () => {
  fetching ??= new Promise(done => {
    const script = document.createElement("script");
    script.src = "web/katex.min.js";
    script.onload = () => { katex = window.katex; arrived(); done(); };
    document.head.append(script);
  });
};

const escape = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" })[c]);
const show = (source, wide, written) => {
  if (!katex) fetchOnce();
  try {
    if (katex) return katex.renderToString(source, { output: "mathml", displayMode: wide, throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, maxSize: 20 });
  } catch { /* not a formula, or not yet a whole one */ }
  return `<code>${escape(written)}</code>`;
};

// Where a formula that begins at `at` ends: [source, end, wide], or null. "$5 and $6" is none.
const find = (text, at) => {
  for (const [open, close, wide] of [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]]) {
    if (!text.startsWith(open, at)) continue;
    const end = text.indexOf(close, at + open.length);
    if (end < 0 || end - at > LONGEST) return null;
    const source = text.slice(at + open.length, end), after = text[end + close.length] ?? "";
    if (!source.trim() || (open === "$" && (/^\s|\s$|\n/.test(source) || /[0-9]/.test(after)))) return null;
    return [source, end + close.length, wide];
  }
  return null;
};

const inline = (state, silent) => {
  const c = state.src[state.pos];
  const found = c === "$" || c === "\\" ? find(state.src, state.pos) : null;
  if (!found || found[1] > state.posMax) return false;
  if (!silent) Object.assign(state.push("math", "", 0), { content: found[0], meta: { wide: found[2], written: state.src.slice(state.pos, found[1]) } });
  state.pos = found[1];
  return true;
};

// $$ and \[ at the begin of a line may go over several, which Markdown would take apart.
const block = (state, from, to, silent) => {
  const at = state.bMarks[from] + state.tShift[from];
  if (!/^(\$\$|\\\[)/.test(state.src.slice(at, at + 2))) return false;
  const found = find(state.src, at);
  if (!found) return false;
  let line = from;
  while (line < to && state.eMarks[line] < found[1]) line++;
  if (line >= to || state.src.slice(found[1], state.eMarks[line]).trim()) return false;
  if (silent) return true;
  Object.assign(state.push("math", "", 0), { content: found[0], meta: { wide: true, written: state.src.slice(at, found[1]) }, block: true, map: [from, line + 1] });
  state.line = line + 1;
  return true;
};

export const addTo = md => {
  md.inline.ruler.before("escape", "math", inline);
  md.block.ruler.before("fence", "math", block, { alt: ["paragraph", "blockquote", "list"] });
  md.renderer.rules.math = (tokens, i) => show(tokens[i].content, tokens[i].meta.wide, tokens[i].meta.written);
};
