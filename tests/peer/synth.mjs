// Synthetic models in llama.cpp: every tiny preset in several recipes, and tiny-llama in all of them, must load,
// and its logits must be finite with a spread of a few units.
//
//   KT_PEER_DIR=DIR node tests/peer/synth.mjs [--build build] [PRESET:RECIPE...]
//
// DIR: an installed copy of ../shared/peer. Named pairs (qwen2.5-1.5b:q4_k_m) replace the list. Exit status 1: some
// model failed.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
let build = path.join(root, "build");
const pairs = [];
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
    if (args[i] === "--build") build = path.resolve(args[++i]);
    else pairs.push(args[i].split(":"));
}
const oracle = path.join(process.env.KT_PEER_DIR ?? "", "oracle.mjs");
if (!process.env.KT_PEER_DIR || !fs.existsSync(oracle)) {
    console.error("synth.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const recipes = ["q4_k_m", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_m", "q5_k_m", "q6_k", "iq4_nl",
    "iq4_xs", "f32", "f16", "bf16"];
const presets = ["tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3", "tiny-phi3", "tiny-llama-bias", "tiny-qwen2-bias"];
if (!pairs.length) {
    for (const recipe of recipes) pairs.push(["tiny-llama", recipe]);
    for (const preset of presets) for (const recipe of ["q4_k_m", "q8_0", "f16"]) pairs.push([preset, recipe]);
}
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-synth-"));
const model = path.join(work, "model.gguf"), answer = path.join(work, "answer");

function logits(ids) {
    const out = fs.openSync(answer, "w"); // a file: the oracle exits without draining a pipe
    execFileSync("node", [oracle, "logits", model, "--ctx", "256"],
        {input: JSON.stringify(ids) + "\n", stdio: ["pipe", out, "inherit"]});
    fs.closeSync(out);
    return JSON.parse(fs.readFileSync(answer, "utf8")).logits;
}

let failed = 0;
for (const [preset, recipe] of pairs) {
    let line;
    try {
        execFileSync(path.join(build, "kentang"), ["synth", "--preset", preset, "--quant", recipe, model],
            {stdio: ["ignore", "ignore", "pipe"]});
        const values = logits([300, 301, 302, 290, 77, 301, 45, 400]);
        const mean = values.reduce((a, b) => a + b, 0) / values.length;
        const spread = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
        const ok = values.every(Number.isFinite) && spread > 2 && spread < 4.5;
        line = `${ok ? "ok  " : "FAIL"} ${preset}:${recipe} mean ${mean.toFixed(2)} spread ${spread.toFixed(2)}`;
        failed += ok ? 0 : 1;
    } catch (error) {
        line = `FAIL ${preset}:${recipe} ${error.message}`;
        failed++;
    }
    console.log(line);
}
fs.rmSync(work, {recursive: true});
console.log(`synth.mjs: ${pairs.length} models, ${failed} failed`);
process.exit(failed ? 1 : 0);
