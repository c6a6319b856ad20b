// Logits and greedy answers beside llama.cpp's, of the same file in both engines.
//
//   KT_PEER_DIR=DIR node tests/peer/logits.mjs [--build build] [--only TEXT] [--all]
//
// DIR: an installed copy of ../shared/peer. Sequences of 1 to 300 tokens: across a page of 16 positions, past the tiny
// models' sliding windows (32), the length from which their rope is stretched (64) and an attention split (256). Both
// engines quantise activations, each in its own way, so the numbers are close, not equal: where llama.cpp's best two
// logits are more than 0.5 apart the best token must be the same, and the mean distance of all logits is bounded.
// A greedy answer may part from llama.cpp's only where the best two logits are that close. --all: every preset in
// every recipe. Exit status 1: some comparison failed.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), only: "", all: false};
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
    if (args[i] === "--build") opt.build = path.resolve(args[++i]);
    else if (args[i] === "--only") opt.only = args[++i];
    else if (args[i] === "--all") opt.all = true;
    else {
        console.error(`logits.mjs: unknown option ${args[i]}; see the head of the file`);
        process.exit(2);
    }
}
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("logits.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const kentang = path.join(opt.build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-logits-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));
const MARGIN = 0.5;

// Answers through a file: the oracle ends without draining a pipe.
function ask(program, argv, cwd, lines) {
    const file = path.join(work, "answers"), out = fs.openSync(file, "w");
    execFileSync(program, argv, {cwd, input: lines.map((line) => JSON.stringify(line) + "\n").join(""),
        stdio: ["pipe", out, "inherit"]});
    fs.closeSync(out);
    const answers = fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (answers.length !== lines.length) throw new Error(`${program}: ${answers.length} answers to ${lines.length}`);
    return answers;
}
const ours = (command, model, flags, lines) => ask(kentang, [command, model, ...flags], root, lines);
const theirs = (command, model, flags, lines) =>
    ask("node", ["oracle.mjs", command, model, "--threads", "1", ...flags], peer, lines);

let n = 0, failed = 0;
function report(good, text) {
    n++;
    if (!good) failed++;
    console.log(`${good ? "PASS" : "FAIL"} ${text}`);
}

function top(logits) {
    let best = 0, second = -Infinity;
    for (let i = 1; i < logits.length; i++) {
        if (logits[i] > logits[best]) {
            second = logits[best];
            best = i;
        } else if (logits[i] > second) second = logits[i];
    }
    return {id: best, margin: logits[best] - second};
}

function sequences(vocab) {
    let seed = 5;
    const random = () => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return (seed >>> 8) % vocab;
    };
    return [1, 2, 7, 15, 16, 17, 31, 33, 48, 64, 66, 100, 130, 200, 257, 300].map((length) => Array.from({length}, random));
}

// Past Llama 4's chunk of 8192, which its files do not say.
function longSequences(vocab, lengths) {
    const one = sequences(vocab)[15];
    return lengths.map((n) => Array.from({length: n}, (_, i) => (one[i % 300] + 7 * Math.floor(i / 300)) % vocab));
}

// Two experts whose logits are nearly the same change places by either engine's rounding, and a sequence where that
// happens is as far off as one expert's output: of models with experts, half of the sequences are held to the bound, and
// the best token of those that keep it.
const routed = ["tiny-gemma4-a", "tiny-qwen3moe", "tiny-qwen3vlmoe", "tiny-glm4moe", "tiny-hunyuan-moe", "tiny-qwen2moe", "tiny-olmoe", "tiny-gpt-oss", "tiny-qwen35moe",
    "tiny-lfm2moe", "tiny-granitemoe", "tiny-ernie45moe", "tiny-llama4", "tiny-qwen3next", "tiny-granitehybrid", "tiny-nemotronhmoe",
    "tiny-deepseek2", "tiny-deepseek2-lite"];

// bound: of the mean absolute difference of the logits, in logits
function compareLogits(name, model, bound, vocab, lines = sequences(vocab)) {
    const ctx = ["--ctx", String(Math.max(2048, ...lines.map((line) => line.length + 64)))];
    const got = ours("logits", model, ctx, lines), want = theirs("logits", model, ctx, lines);
    const isRouted = routed.includes(name.split(" ")[0]);
    let distance = 0, worst = 0, clear = 0, wrong = 0;
    const distances = [];
    want.forEach((answer, i) => {
        const best = top(answer.logits);
        const mean = answer.logits.reduce((sum, v, id) => sum + Math.abs(v - got[i].logits[id]), 0) / answer.logits.length;
        distance += mean / want.length;
        worst = Math.max(worst, mean);
        distances.push(mean);
        if (best.margin <= MARGIN || (isRouted && mean > bound)) return;
        clear++;
        if (got[i].argmax !== best.id) wrong++;
    });
    const median = distances.sort((a, b) => a - b)[distances.length >> 1];
    const bounded = isRouted ? median : worst;
    report(wrong === 0 && bounded <= bound && want.every((answer, i) => answer.n === got[i].n),
        `${name}: logits of ${lines.length} sequences; mean distance ${distance.toFixed(4)}, worst ${worst.toFixed(4)} ` +
        `(at most ${bound}); best token differs in ${wrong} of ${clear} clear cases`);
}

// The two may part only where the model itself does not decide.
function compareGreedy(name, model, prompts, length) {
    const got = ours("greedy", model, ["-n", String(length)], prompts);
    const want = theirs("greedy", model, ["--n", String(length)], prompts);
    let equal = 0, close = 0;
    const parted = [];
    got.forEach((answer, i) => {
        let at = 0;
        while (at < answer.length && at < want[i].length && answer[at] === want[i][at]) at++;
        if (at === answer.length && at === want[i].length) equal++;
        else parted.push(prompts[i].concat(answer.slice(0, at)));
    });
    for (const answer of parted.length ? theirs("logits", model, [], parted) : [])
        if (top(answer.logits).margin <= MARGIN) close++;
    report(equal + close === prompts.length,
        `${name}: ${equal} of ${prompts.length} greedy answers equal, ${close} part where the best two are close`);
}

// ---- trained models ----

const stories = path.join(root, "../shared/data/models/stories260K.gguf");
const demo = path.join(root, "src/lib/context/demo.gguf");
const starts = Array.from({length: 12}, (_, i) => [1, ...sequences(500)[5].slice(i, i + (i % 4))]);

if (fs.existsSync(stories) && "stories260K".includes(opt.only)) {
    compareLogits("stories260K", stories, 0.05, 512);
    compareGreedy("stories260K", stories, starts, 60);
    const ids = ours("greedy", stories, ["-n", "220"], [[1]])[0];
    const text = JSON.parse(execFileSync(kentang, ["detokenize", stories], {input: JSON.stringify(ids) + "\n", encoding: "utf8"}));
    const want = fs.readFileSync(stories.replace(".gguf", ".greedy200.txt"), "utf8").trim();
    report(text.trim().startsWith(want), `stories260K: from an empty prompt the recorded ${want.length} bytes of greedy text`);
}
if (fs.existsSync(demo) && "demo".includes(opt.only)) {
    const texts = ["Once upon a time", "How do I run a GGUF file?", "Halo, siapa kamu?", "12 + 7 ="];
    const prompts = execFileSync(kentang, ["tokenize", demo], {encoding: "utf8",
        input: texts.map((text) => JSON.stringify(text) + "\n").join("")}).trim().split("\n").map((line) => JSON.parse(line));
    compareLogits("demo", demo, 0.2, 2000);
    compareGreedy("demo", demo, prompts, 40);
}

// ---- synthetic models ----

// Bounds: these models' logits have a spread of about three; eight bits of an activation, in up to seven layers, twice
// (each engine rounds in its own way). How exact each engine is, kl.mjs measures.
const recipes = {f32: 0.02, f16: 0.02, bf16: 0.2, q8_0: 0.2, q4_k_m: 0.2, q4_0: 0.2, q4_1: 0.2, q5_0: 0.2, q5_1: 0.2,
    q2_k: 0.2, q3_k_m: 0.2, q5_k_m: 0.2, q6_k: 0.2, iq4_nl: 0.2, iq4_xs: 0.2, mxfp4_moe: 0.2,
    iq3_s: 0.2, iq3_xxs: 0.2, iq2_s: 0.2, iq2_xs: 0.2, iq2_xxs: 0.2, iq1_m: 0.2, iq1_s: 0.2, tq2_0: 0.2, tq1_0: 0.2,
    nvfp4: 0.2, q2_0: 0.2, q1_0: 0.2, ud_q2_k_xl: 0.2};
const presets = {"tiny-llama": 512, "tiny-llama3": 2000, "tiny-qwen2": 2000, "tiny-qwen3": 600, "tiny-gemma2": 1000,
    "tiny-gemma3": 1000, "tiny-gemma3n": 600, "tiny-gemma4": 1000, "tiny-bitnet": 512, "tiny-mamba": 2000, "tiny-mamba2": 2000, "tiny-gemma4-a": 1000, "tiny-phi3": 512, "tiny-llama-bias": 512, "tiny-qwen2-bias": 2000,
    "tiny-smollm3": 2000, "tiny-ernie45": 512, "tiny-glm4": 2000, "tiny-granite": 2000, "tiny-hunyuan-dense": 2000,
    "tiny-mistral3": 2000, "tiny-exaone4": 2000, "tiny-exaone4-windows": 2000, "tiny-olmo2": 2000,
    "tiny-olmo3": 2000, "tiny-command-r": 2000, "tiny-cohere2": 2000, "tiny-phi4": 2000,
    "tiny-qwen3moe": 600, "tiny-qwen2moe": 2000, "tiny-olmoe": 2000, "tiny-gpt-oss": 2000,
    "tiny-qwen2vl": 2000, "tiny-qwen3vl": 600, "tiny-qwen3vlmoe": 600, "tiny-glm4moe": 2000, "tiny-hunyuan-moe": 2000,
    "tiny-lfm2": 2000, "tiny-qwen35": 2000, "tiny-qwen35moe": 2000,
    "tiny-lfm2moe": 2000, "tiny-granitemoe": 2000, "tiny-ernie45moe": 512, "tiny-llama4": 2000, "tiny-qwen3next": 2000,
    "tiny-granitehybrid": 2000, "tiny-granitehybrid-dense": 2000, "tiny-nemotronh": 2000, "tiny-nemotronhmoe": 2000,
    "tiny-falconh1": 2000, "tiny-deepseek2": 2000, "tiny-deepseek2-lite": 2000};
// Of 64 and of 27 layers, since llama.cpp knows their kind by that: each engine's rounding adds up beyond the bound.
const deep = ["tiny-exaone4-windows", "tiny-deepseek2-lite"];
const usual = ["f32", "f16", "q8_0", "q4_k_m", "q4_0", "iq4_xs", "mxfp4_moe"];
for (const [preset, vocab] of Object.entries(presets)) {
    for (const [recipe, bound] of Object.entries(recipes)) {
        const name = `${preset} ${recipe}`, model = path.join(work, "model.gguf");
        if (deep.includes(preset) && (bound > 0.1 || (routed.includes(preset) && recipe !== "f32"))) continue;
        if (recipe === "mxfp4_moe" && !routed.includes(preset)) continue; /* nothing of it would be MXFP4 */
        if (!name.includes(opt.only) || !(opt.all || usual.includes(recipe))) continue;
        execFileSync(kentang, ["synth", "--preset", preset, "--quant", recipe, model], {stdio: "ignore"});
        compareLogits(name, model, bound, vocab);
        if (name === "tiny-llama4 f32") compareLogits(`${name}, two chunks`, model, bound, vocab, longSequences(vocab, [8192, 8193, 9000]));
    }
}
console.log(`logits.mjs: ${n} comparisons, ${failed} failed`);
process.exit(failed ? 1 : 0);
