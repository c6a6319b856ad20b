// Lines over the last minutes, drawn as SVG.
import { make } from "./dom.js";

const W = 300, H = 56;
const shape = (tag, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
};

// Runs of points that are known.
const runs = values => {
  const out = [];
  let run = null;
  values.forEach((v, i) => { if (v === undefined || v === null) run = null; else { if (!run) out.push(run = []); run.push([i, v]); } });
  return out;
};

// parts: [{values, colour}], added on top of each other; n: places in the plot, the newest at the right; most: at least the top.
const draw = (parts, n, most, label) => {
  const svg = shape("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "plot" });
  const first = n - Math.max(...parts.map(p => p.values.length));
  const x = i => ((first + i) * W / (n - 1)).toFixed(1), y = v => (H - 2 - v / (most || 1) * (H - 6)).toFixed(1);
  const base = [], layers = [];
  for (const { values, colour } of parts) {
    const sums = values.map((v, i) => v === undefined ? undefined : v + (base[i] ?? 0));
    const layer = [];
    layers.unshift(layer);
    for (const run of runs(sums)) {
      const line = run.map(([i, v]) => `${x(i)},${y(v)}`).join(" ");
      const floor = run.slice().reverse().map(([i]) => `${x(i)},${y(base[i] ?? 0)}`).join(" ");
      layer.push(shape("polygon", { points: `${line} ${floor}`, class: `fill ${colour}` }), shape("polyline", { points: line, class: `line ${colour}` }));
      if (run.length === 1) layer.push(shape("circle", { cx: x(run[0][0]), cy: y(run[0][1]), r: 2, class: `dot ${colour}` }));
    }
    sums.forEach((v, i) => { base[i] = v ?? base[i]; });
  }
  svg.append(...layers.flat()); // the lowest is in front, so that nothing on top of it does not hide it
  return svg;
};

// A plot with its name, what it is now, and a sentence. top: the value of its upper edge, as text.
export const plot = ({ title, now, says, parts, n, most, top, legend = [] }) => make("figure", {},
  make("figcaption", {}, make("span", { textContent: title }), make("strong", { textContent: now })),
  make("div", { className: "field" }, draw(parts, n, most, `${title}: ${now}`), make("span", { className: "top quiet", textContent: top })),
  legend.length ? make("p", { className: "legend quiet" }, ...legend.map(([colour, text]) => make("span", { className: colour, textContent: text }))) : null,
  says ? make("p", { className: "quiet", textContent: says }) : null);
