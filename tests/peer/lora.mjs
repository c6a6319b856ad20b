// Adapters in llama.cpp: for synthetic models in f32, logits with an adapter here and there, and llama.cpp's of the file
// that `kentang merge` makes, must agree. One script, one line a preset; exit status 1: some differ.
//
//   KT_PEER_DIR=DIR node tests/peer/lora.mjs [--build build] [PRESET...]
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
let build = path.join(root, "build");
const presets = [];
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
    if (args[i] === "--build") build = path.resolve(args[++i]);
    else presets.push(args[i]);
}
const library = path.join(process.env.KT_PEER_DIR ?? "", "node_modules/node-llama-cpp/dist/index.js");
if (!process.env.KT_PEER_DIR || !fs.existsSync(library)) {
    console.error("lora.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
if (!presets.length) presets.push("tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3", "tiny-phi3");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(library));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 2});
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-lora-"));
const file = (name) => path.join(work, name);
const ids = [300, 301, 302, 290, 77, 301, 45, 400, 12, 13, 14, 270, 299, 310, 5, 411];

function kentang(words, input) {
    const out = fs.openSync(file("out"), "w");
    execFileSync(path.join(build, "kentang"), words, {input, stdio: ["pipe", out, "pipe"]});
    fs.closeSync(out);
    return fs.readFileSync(file("out"), "utf8");
}

async function theirs(modelPath, lora) {
    const model = await llama.loadModel({modelPath});
    const context = await model.createContext({contextSize: 256, threads: 2, flashAttention: true, lora});
    const answer = await context.getSequence().controlledEvaluate(
        [...ids.slice(0, -1), [ids.at(-1), {generateNext: {logits: true, options: {temperature: 0}}}]]);
    const logits = [];
    for (const [id, value] of answer.at(-1).next.logits) logits[id] = value;
    await model.dispose();
    return logits;
}

const ours = (model, ...more) => JSON.parse(kentang(["logits", model, ...more], JSON.stringify(ids) + "\n")).logits;

function difference(a, b) {
    const mean = b.reduce((x, y) => x + y, 0) / b.length;
    const spread = Math.sqrt(b.reduce((x, y) => x + (y - mean) ** 2, 0) / b.length);
    return a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0) / spread;
}

let failed = 0;
for (const preset of presets) {
    let line;
    try {
        const [model, a, b, merged] = ["m.gguf", "a.gguf", "b.gguf", "merged.gguf"].map(file);
        kentang(["synth", "--preset", preset, "--quant", "f32", model]);
        kentang(["synth", "--lora", "8", "--base", model, "--seed", "3", a]);
        kentang(["synth", "--lora", "5", "--base", model, "--seed", "4", b]);
        const use = ["--lora", a + "=0.75", "--lora", b + "=-0.5"];
        kentang(["merge", "-m", model, ...use, "-o", merged, "--type", "f32", "--quiet"]);
        const here = ours(model, ...use);
        const rows = {
            adapter: difference(here, await theirs(model, {adapters: [{filePath: a, scale: 0.75}, {filePath: b, scale: -0.5}]})),
            merged: difference(here, await theirs(merged)),
            without: difference(here, await theirs(model)),
        };
        const ok = rows.adapter < 0.01 && rows.merged < 0.01 && rows.without > 0.1;
        line = `${ok ? "ok  " : "FAIL"} ${preset}: of the logits' spread ` +
            Object.entries(rows).map(([name, x]) => `${name} ${x.toExponential(1)}`).join(", ");
        failed += ok ? 0 : 1;
    } catch (error) {
        line = `FAIL ${preset} ${error.message}`;
        failed++;
    }
    console.log(line);
}
fs.rmSync(work, {recursive: true});
console.log(`lora.mjs: ${presets.length} models, ${failed} failed`);
process.exit(failed ? 1 : 0);
