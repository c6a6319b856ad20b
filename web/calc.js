// The value of an arithmetic expression, as `kentang agent --tools calculator` has it: + - * / % ^, brackets, pi, e, functions.
const FUNCTIONS = { sqrt: Math.sqrt, abs: Math.abs, round: Math.round, floor: Math.floor, ceil: Math.ceil, exp: Math.exp, ln: Math.log, log: Math.log10, log2: Math.log2,
  sin: Math.sin, cos: Math.cos, tan: Math.tan, asin: Math.asin, acos: Math.acos, atan: Math.atan };
const DEEPEST = 64;

class Wrong extends Error {}

const pieces = text => {
  const out = [], form = /\s*(?:([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.)|([a-z][a-z0-9]*)|(\S))/gy;
  for (let m; (m = form.exec(text.trimEnd())); ) out.push(m[1] !== undefined ? Number(m[1]) : m[2] ?? m[3]);
  return out;
};

export const calculate = text => {
  if (text.length > 4096) throw new Wrong("too long");
  const all = pieces(text);
  let at = 0, depth = 0;
  const take = wanted => all[at] === wanted && (at++, true);
  const expect = wanted => { if (!take(wanted)) throw new Wrong(`expected ${wanted}`); };
  const bracket = () => {
    if (++depth > DEEPEST) throw new Wrong("brackets nest too deep");
    const x = sum();
    expect(")");
    depth--;
    return x;
  };
  const value = () => {
    const p = all[at++];
    if (typeof p === "number") return p;
    if (p === "(") return bracket();
    if (p === "pi") return Math.PI;
    if (p === "e") return Math.E;
    if (!Object.hasOwn(FUNCTIONS, p)) throw new Wrong(p === undefined ? "expected a number at the end" : `"${p}" is no number and no function`);
    expect("(");
    return FUNCTIONS[p](bracket());
  };
  // -2^2 is -4, 2^3^2 is 2^9.
  const power = () => { const x = value(); return take("^") ? x ** sign() : x; };
  const sign = () => { if (++depth > DEEPEST) throw new Wrong("too deep"); const x = take("-") ? -sign() : take("+") ? sign() : power(); depth--; return x; };
  const product = () => {
    let x = sign();
    for (;;) { if (take("*")) x *= sign(); else if (take("/")) x /= sign(); else if (take("%")) x %= sign(); else return x; }
  };
  const sum = () => {
    let x = product();
    for (;;) { if (take("+")) x += product(); else if (take("-")) x -= product(); else return x; }
  };
  const x = sum();
  if (at < all.length) throw new Wrong(`what is "${all[at]}" here?`);
  return Number(x.toPrecision(15));
};
