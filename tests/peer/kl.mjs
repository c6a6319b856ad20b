// Error of the quantised forward pass, kentang's and llama.cpp's: the mean Kullback-Leibler divergence of each
// engine's own answer from its evaluation of the same weights in f32 (kentang: --exact; llama.cpp: the same file
// with every tensor decoded to F32).
//
//   KT_PEER_DIR=DIR node tests/peer/kl.mjs [--build build] [--n 400] [--only TEXT] [--types q4_k,q8_0] [--no-synth]
//                                          [--all] [--flash] [--model FILE]...
//
// DIR: an installed copy of ../shared/peer. Each model: the file itself and copies in other types made by
// `kentang quantize`, as far as row lengths allow. llama.cpp runs without its flash attention, whose f16 sums add errors
// of their own; --flash adds a column with it.
//
// A row of the table fails
// - when kentang's mean is above 1.1 times llama.cpp's and above 1e-7 (where the interval of the ratio straddles 1.1, up
//   to four times the sequences decide);
// - when kentang's path picks another token than a yardstick although the best two logits are more than 0.5 apart, and
//   does so more often than llama.cpp's path against its own yardstick (column "its own"). A row with such picks that
//   stays within llama.cpp's is marked "noisy": 8-bit activations cannot do better on that model.
// Exit status 1: some row failed.
import {execFileSync, spawn} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), n: 400, only: "", types: "", synth: true, all: false, flash: false, models: []};
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
    if (args[i] === "--build") opt.build = path.resolve(args[++i]);
    else if (args[i] === "--n") opt.n = Number(args[++i]);
    else if (args[i] === "--only") opt.only = args[++i];
    else if (args[i] === "--types") opt.types = args[++i];
    else if (args[i] === "--no-synth") opt.synth = false;
    else if (args[i] === "--all") opt.all = true;
    else if (args[i] === "--flash") opt.flash = true;
    else if (args[i] === "--model") opt.models.push(path.resolve(args[++i]));
    else {
        console.error(`kl.mjs: unknown option ${args[i]}; see the head of the file`);
        process.exit(2);
    }
}
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("kl.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const kentang = path.join(opt.build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-kl-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));

// ---- programs ----

// Every matrix in one type; rows that its blocks do not divide, and vectors, in f32.
function convert(from, type) {
    const to = path.join(work, `${path.basename(from, ".gguf")}-${type}.gguf`);
    const block = /^q\d_k$|^iq4_xs$/.test(type) ? 256 : /^b?f(16|32)$/.test(type) ? 1 : 32;
    const {tensors} = JSON.parse(execFileSync(kentang, ["inspect", "--json", "--tensors", from], {maxBuffer: 1 << 28}));
    const keep = tensors.filter((t) => t.shape.length > 1 && t.shape[0] % block === 0).map((t) => `--keep=${t.name}=${type}`);
    execFileSync(kentang, ["quantize", "--quiet", from, to, "f32", ...keep], {stdio: "pipe"});
    return to;
}

// Answers of a program that reads JSON lines and writes one JSON line for each. They go through a file: a program that
// ends by process.exit would lose what a pipe has not yet taken.
let nAsked = 0;
async function ask(program, argv, cwd, lines) {
    const file = path.join(work, `answers-${++nAsked}.jsonl`), fd = fs.openSync(file, "w");
    const code = await new Promise((resolve, reject) => {
        const child = spawn(program, argv, {cwd, stdio: ["pipe", fd, "inherit"]});
        child.on("error", reject);
        child.on("close", resolve);
        child.stdin.on("error", () => {});
        child.stdin.end(lines.map((line) => JSON.stringify(line) + "\n").join(""));
    });
    fs.closeSync(fd);
    const answers = [];
    for await (const line of readline.createInterface({input: fs.createReadStream(file)})) answers.push(JSON.parse(line));
    fs.rmSync(file);
    if (code !== 0 || answers.length !== lines.length) {
        throw new Error(`${path.basename(program)} ${argv.join(" ")}: exit ${code}, ${answers.length} answers of ${lines.length}`);
    }
    return answers;
}
// One thread: llama.cpp's threads spin at their barriers, which costs far more than the second core brings where
// others want the processors too.
const oracle = (command, model, flags, lines) => ask("node", ["oracle.mjs", command, model, "--threads", "1", ...flags], peer, lines);
const logitsOf = (answers) => answers.map((answer) => Float64Array.from(answer.logits));
const ours = async (model, flags, lines) => logitsOf(await ask(kentang, ["logits", model, "-c", "2048", ...flags], root, lines));
const theirs = async (model, flags, lines) => logitsOf(await oracle("logits", model, flags, lines));

// ---- sequences ----

function randomSource(seed) { // mulberry32
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

function randomSequences(n, vocab, seed) {
    const random = randomSource(seed);
    return Array.from({length: n}, () =>
        Array.from({length: 4 + Math.floor(random() * 21)}, () => Math.floor(random() * vocab)));
}

// For trained models: a few random tokens, then what the model itself says, cut anywhere.
async function spokenSequences(model, n, vocab, seed) {
    const random = randomSource(seed);
    const starts = Array.from({length: Math.ceil(n / 2)}, () =>
        Array.from({length: 1 + Math.floor(random() * 3)}, () => Math.floor(random() * vocab)));
    const said = await ask(kentang, ["greedy", model, "-n", "32"], root, starts);
    const all = starts.map((start, i) => start.concat(said[i]));
    return Array.from({length: n}, (_, i) => {
        const text = all[i % all.length];
        return text.slice(0, 2 + Math.floor(random() * (text.length - 2)));
    });
}

// ---- comparison ----

// KL(softmax(want) || softmax(got)) in nats
function divergence(want, got) {
    const logSum = (x) => {
        let max = -Infinity, sum = 0;
        for (const v of x) if (v > max) max = v;
        for (const v of x) sum += Math.exp(v - max);
        return max + Math.log(sum);
    };
    const a = logSum(want), b = logSum(got);
    let kl = 0;
    for (let i = 0; i < want.length; i++) {
        const p = want[i] - a;
        kl += Math.exp(p) * (p - (got[i] - b));
    }
    return Math.max(kl, 0);
}

function best(x) {
    let at = 0, second = -Infinity;
    for (let i = 1; i < x.length; i++) {
        if (x[i] > x[at]) {
            second = x[at];
            at = i;
        } else if (x[i] > second) second = x[i];
    }
    return {id: at, margin: x[at] - second};
}

// Of the answers where `want` decides by more than 0.5: how many `got` decides otherwise.
function disagreements(want, got) {
    let clear = 0, wrong = 0;
    want.forEach((row, i) => {
        const top = best(row);
        if (top.margin <= 0.5) return;
        clear++;
        if (best(got[i]).id !== top.id) wrong++;
    });
    return {clear, wrong};
}

const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;

// 90 % interval of mean(a)/mean(b) by resampling the sequences
function ratioInterval(a, b) {
    const random = randomSource(7), ratios = [];
    for (let r = 0; r < 400; r++) {
        let x = 0, y = 0;
        for (let i = 0; i < a.length; i++) {
            const at = Math.floor(random() * a.length);
            x += a[at];
            y += b[at];
        }
        ratios.push(x / y);
    }
    ratios.sort((x, y) => x - y);
    return [ratios[20], ratios[379]];
}

const sci = (x) => (x === 0 ? "0" : x.toExponential(2));
const cells = (list, widths) => console.log(list.map((c, i) => String(c).padEnd(widths[i])).join(" "));
const widths = [14, 7, 5, 10, 10, 10, 6, 10, 10, 11, 11, 11, 6];
let failed = 0;

// One round of n sequences: each engine's divergences from its yardstick, and clear decisions changed.
async function round(file, f32, trained, vocab, seed) {
    const lines = trained ? await spokenSequences(file, opt.n, vocab, seed) : randomSequences(opt.n, vocab, seed);
    const exact = await ours(file, ["--exact"], lines), fast = await ours(file, [], lines);
    const yardstick = await theirs(f32, ["--no-flash"], lines), peerFast = await theirs(file, ["--no-flash"], lines);
    const flashYardstick = opt.flash ? await theirs(f32, [], lines) : [], flash = opt.flash ? await theirs(file, [], lines) : [];
    return {
        own: lines.map((_, i) => divergence(exact[i], fast[i])),
        other: lines.map((_, i) => divergence(yardstick[i], peerFast[i])),
        otherFlash: flash.map((_, i) => divergence(flashYardstick[i], flash[i])),
        cross: lines.map((_, i) => divergence(yardstick[i], exact[i])),
        toExact: disagreements(exact, fast),
        toPeer: disagreements(yardstick, fast),
        peerToPeer: disagreements(yardstick, peerFast),
    };
}

// a, b: results of two rounds; numbers add, lists join
const join = (a, b) => Object.fromEntries(Object.entries(a).map(([key, value]) =>
    [key, typeof value === "number" ? value + b[key] : Array.isArray(value) ? value.concat(b[key]) : join(value, b[key])]));

// file: GGUF of any types; trained: its own words make the sequences
async function compare(name, type, file, trained) {
    const f32 = convert(file, "f32");
    const vocab = (await theirs(f32, [], [[1]]))[0].length;
    let all = await round(file, f32, trained, vocab, 1), range = ratioInterval(all.own, all.other);
    for (let more = 2; more <= 4 && range[0] < 1.1 && range[1] > 1.1 && mean(all.own) >= 1e-7; more++) {
        all = join(all, await round(file, f32, trained, vocab, more));
        range = ratioInterval(all.own, all.other);
    }
    const {own, other, otherFlash, cross, toExact, toPeer, peerToPeer} = all;
    const close = mean(own) <= 1.1 * mean(other) || mean(own) < 1e-7;
    const flips = Math.max(toExact.wrong, toPeer.wrong), good = close && flips <= peerToPeer.wrong;
    if (!good) failed++;
    cells([name, type, own.length, sci(mean(own)), sci(mean(other)), opt.flash ? sci(mean(otherFlash)) : "-",
        mean(other) ? (mean(own) / mean(other)).toFixed(2) : "-", mean(other) ? `${range[0].toFixed(2)}-${range[1].toFixed(2)}` : "-", sci(mean(cross)),
        `${toExact.wrong} of ${toExact.clear}`, `${toPeer.wrong} of ${toPeer.clear}`, `${peerToPeer.wrong} of ${peerToPeer.clear}`, !good ? "FAILED" : flips ? "noisy" : ""], widths);
    fs.rmSync(f32);
}

const types256 = ["q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"];
const types32 = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"];
const floats = ["f16", "bf16"];
const chosen = (types) => types.filter((type) => !opt.types || opt.types.split(",").includes(type));

async function compareTypes(name, file, types, trained) {
    if (!opt.types) await compare(name, "as is", file, trained);
    for (const type of chosen(types)) {
        const copy = convert(file, type);
        await compare(name, type, copy, trained);
        fs.rmSync(copy);
    }
}

// Synthetic models: each architecture in two recipes, one of them in all; every pair with --all.
const presets = ["tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3", "tiny-phi3",
    "tiny-llama-bias", "tiny-qwen2-bias"];
const recipes = ["q4_k_m", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs", "f16", "bf16"];

async function compareSynthetic() {
    for (const preset of presets) {
        for (const recipe of opt.all || preset === "tiny-llama" ? recipes : recipes.slice(0, 2)) {
            if (!preset.includes(opt.only) || !chosen([recipe]).length) continue;
            const file = path.join(work, `${preset}-${recipe}.gguf`);
            execFileSync(kentang, ["synth", "--preset", preset, "--quant", recipe, file], {stdio: "ignore"});
            await compare(preset, recipe, file, false);
            fs.rmSync(file);
        }
    }
}

cells(["model", "type", "n", "kentang", "llama.cpp", "..flash", "ratio", "90 %", "exact/f32", "top-1 exact", "top-1 f32", "its own", ""], widths);
if (opt.models.length) {
    for (const file of opt.models) await compareTypes(path.basename(file), file, [...types32, ...types256, ...floats], true);
} else {
    const demo = path.join(root, "src/lib/context/demo.gguf"), stories = path.join(root, "../shared/data/models/stories260K.gguf");
    if ("demo".includes(opt.only)) await compareTypes("demo", demo, [...types32, ...types256, ...floats], true);
    if (fs.existsSync(stories) && "stories260K".includes(opt.only)) await compareTypes("stories260K", stories, [...types32, ...floats], true);
    if (opt.synth) await compareSynthetic();
}
process.exit(failed ? 1 : 0);
