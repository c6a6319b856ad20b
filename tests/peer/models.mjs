// docs/MODELS.md: what runs, how near llama.cpp's answers it is, and what it keeps in memory.
//
//   KT_PEER_DIR=DIR node tests/peer/models.mjs [--build build] [--only ARCH]            the table, measured anew
//   KT_PEER_DIR=DIR node tests/peer/models.mjs --speed [--build build] [--only ARCH] [--threads N]   speed, kept beside it
//   KT_PEER_DIR=DIR node tests/peer/models.mjs --rounding [--build build] [--only ARCH]   who is nearer, printed
//
// DIR: an installed copy of ../shared/peer. Each architecture's tiny model (`kentang synth`) is given 16 sequences of 1
// to 300 tokens; KL is the mean divergence of kentang's distribution after them from llama.cpp's on the same file, top-1
// how often both choose the same token where llama.cpp's best two logits are more than 0.5 apart. In F32 both compute
// the same program; in Q8_0 each rounds in its own way. --speed asks for
// a quiet machine: for each architecture with a geometry that fits, prompts of 512 tokens and 64 generated ones, in
// turns, medians (one turn where a geometry is large); the figures are kept in tests/peer/models_speed.json, and go into the
// table's last column. --only changes one row.
// --rounding: each engine's answers in Q8_0 beside those of the same weights decoded to F32, which llama.cpp computes; and
// the same of a copy that uses all of its experts, so that none is chosen otherwise. Two seeds of weights.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), only: "", speed: false, rounding: false, threads: 2};
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
    if (args[i] === "--build") opt.build = path.resolve(args[++i]);
    else if (args[i] === "--only") opt.only = args[++i];
    else if (args[i] === "--threads") opt.threads = Number(args[++i]);
    else if (args[i] === "--speed") opt.speed = true;
    else if (args[i] === "--rounding") opt.rounding = true;
    else {
        console.error(`models.mjs: unknown option ${args[i]}; see the head of the file`);
        process.exit(2);
    }
}
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("models.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const kentang = path.join(opt.build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-models-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));

// Architecture: examples, tiny preset, preset of a real geometry, form of tool calls (docs/TOOLS.md; "-": none is trained).
const models = {
    llama: ["Llama 3.x, SmolLM2, Mistral 7B", "tiny-llama3", "llama-3.2-1b", "JSON"],
    qwen2: ["Qwen2.5", "tiny-qwen2", "qwen2.5-0.5b", "JSON in tags"],
    qwen3: ["Qwen3 0.6B to 32B", "tiny-qwen3", "qwen3-0.6b", "JSON in tags"],
    qwen2vl: ["Qwen2-VL, Qwen2.5-VL (text)", "tiny-qwen2vl", "qwen2.5-vl-3b", "JSON in tags"],
    qwen3vl: ["Qwen3-VL 2B to 32B (text)", "tiny-qwen3vl", "qwen3-vl-2b", "JSON in tags"],
    gemma2: ["Gemma 2", "tiny-gemma2", "gemma-2-2b", "-"],
    gemma3: ["Gemma 3", "tiny-gemma3", "gemma-3-1b", "-"],
    gemma3n: ["Gemma 3n E2B, E4B", "tiny-gemma3n", "gemma-3n-e2b", "-"],
    gemma4: ["Gemma 4 E2B, E4B, 12B, 26B-A4B, 31B", "tiny-gemma4", "gemma-4-e2b", "bare keys"],
    phi3: ["Phi-3.5-mini, Phi-4-mini", "tiny-phi4", "phi-4-mini", "JSON"],
    bitnet: ["BitNet b1.58", "tiny-bitnet", "bitnet-2b-4t", "-"],
    ernie4_5: ["ERNIE 4.5 0.3B", "tiny-ernie45", "ernie-4.5-0.3b", "-"],
    glm4: ["GLM-4 9B", "tiny-glm4", "glm-4-9b", "tags"],
    granite: ["Granite 3.x", "tiny-granite", "granite-3.3-2b", "JSON list"],
    "hunyuan-dense": ["Hunyuan 0.5B to 7B", "tiny-hunyuan-dense", "hunyuan-1.8b", "JSON in tags"],
    mistral3: ["Ministral 3", "tiny-mistral3", "ministral-3-3b", "[TOOL_CALLS]"],
    exaone4: ["EXAONE 4.0", "tiny-exaone4", "exaone-4-1.2b", "JSON in tags"],
    olmo2: ["OLMo 2, OLMo 3", "tiny-olmo3", "olmo-2-1b", "-"],
    "command-r": ["Aya Expanse 8B, Aya 23, Command R", "tiny-command-r", "aya-expanse-8b", "-"],
    cohere2: ["Command R7B", "tiny-cohere2", "command-r7b", "JSON list"],
    smollm3: ["SmolLM3 3B", "tiny-smollm3", "smollm3-3b", "JSON in tags"],
    qwen2moe: ["Qwen1.5-MoE, Qwen2-57B", "tiny-qwen2moe", "qwen1.5-moe-a2.7b", "JSON in tags"],
    qwen3moe: ["Qwen3-30B-A3B, Coder-30B", "tiny-qwen3moe", "qwen3-30b-a3b", "JSON or XML in tags"],
    qwen3vlmoe: ["Qwen3-VL-30B-A3B (text)", "tiny-qwen3vlmoe", "qwen3-vl-30b-a3b", "JSON in tags"],
    glm4moe: ["GLM-4.5-Air, GLM-4.5 to 4.7", "tiny-glm4moe", "glm-4.5-air", "tags"],
    "hunyuan-moe": ["Hunyuan-A13B", "tiny-hunyuan-moe", "hunyuan-a13b", "JSON"],
    olmoe: ["OLMoE 1B-7B", "tiny-olmoe", "olmoe-1b-7b", "-"],
    "gpt-oss": ["gpt-oss 20B", "tiny-gpt-oss", "gpt-oss-20b", "harmony"],
    granitemoe: ["Granite 3.x MoE", "tiny-granitemoe", "granite-3.1-1b-a400m", "JSON list"],
    llama4: ["Llama 4 Scout, Maverick (text)", "tiny-llama4", "llama-4-scout", "JSON"],
    "ernie4_5-moe": ["ERNIE 4.5 21B-A3B", "tiny-ernie45moe", "ernie-4.5-21b-a3b", "-"],
    deepseek2: ["GLM-4.7-Flash", "tiny-deepseek2", "glm-4.7-flash", "tags"],
    lfm2: ["LFM2 and LFM2.5", "tiny-lfm2", "lfm2-1.2b", "Python calls"],
    lfm2moe: ["LFM2 8B-A1B, 24B-A2B", "tiny-lfm2moe", "lfm2-8b-a1b", "Python calls"],
    qwen35: ["Qwen3.5, 3.6 dense", "tiny-qwen35", "qwen3.5-0.8b", "XML in tags"],
    qwen35moe: ["Qwen3.5 35B-A3B", "tiny-qwen35moe", "", "XML in tags"],
    qwen3next: ["Qwen3-Next 80B-A3B", "tiny-qwen3next", "qwen3-next-80b-a3b", "JSON in tags"],
    granitehybrid: ["Granite 4.x H", "tiny-granitehybrid", "granite-4.0-h-tiny", "JSON in tags"],
    nemotron_h: ["Nemotron Nano 9B v2", "tiny-nemotronh", "nemotron-nano-9b-v2", "JSON list"],
    nemotron_h_moe: ["Nemotron 3 Nano 30B-A3B", "tiny-nemotronhmoe", "nemotron-3-nano-30b-a3b", "XML in tags"],
    mamba: ["Mamba 130M to 2.8B", "tiny-mamba", "mamba-130m", "-"],
    mamba2: ["Mamba-2, Codestral Mamba", "tiny-mamba2", "mamba2-1.3b", "-"],
    "falcon-h1": ["Falcon H1", "tiny-falconh1", "falcon-h1-0.5b", "JSON in tags"],
};
// Geometries of more than about 5 GiB at Q4_K_M: --speed takes one turn of them, and none of those beyond 24 GiB of memory.
const large = ["glm-4-9b", "aya-expanse-8b", "command-r7b", "qwen3-30b-a3b", "qwen3-vl-30b-a3b", "qwen1.5-moe-a2.7b", "gpt-oss-20b", "ernie-4.5-21b-a3b", "glm-4.7-flash",
    "nemotron-nano-9b-v2", "nemotron-3-nano-30b-a3b"];
const tooLarge = ["glm-4.5-air", "hunyuan-a13b", "qwen3-next-80b-a3b", "llama-4-scout"];

const encoders = [
    ["bert", "all-MiniLM, bge, e5, mxbai; rerankers"],
    ["nomic-bert", "nomic-embed-text v1.5"],
    ["nomic-bert-moe", "nomic-embed-text v2"],
    ["modern-bert", "ModernBERT, gte-modernbert, granite-embedding r2"],
    ["gemma-embedding", "EmbeddingGemma 300M"],
];

// The rows of synth_presets.def as objects of numbers.
const presets = Object.fromEntries(fs.readFileSync(path.join(root, "src/program/synth/synth_presets.def"), "utf8").split("\nX(").slice(1)
    .map((row) => [/\.name = "([^"]+)"/.exec(row)[1], Object.fromEntries([...row.matchAll(/\.(\w+) = (0x[0-9a-f]+|[\d.e+-]+f?|true|"[^"]*")/g)]
        .map(([, key, value]) => [key, value === "true" ? 1 : value[0] === '"' ? value.slice(1, -1) : value.startsWith("0x") ? BigInt(value) : parseFloat(value)]))]));

// Layers with keys and values, and the others' part of a state in floats.
function layersOf(p) {
    const bit = (bits, i) => bits !== undefined && (BigInt(bits) >> BigInt(i)) & 1n;
    let kv = 0, recurrent = 0;
    if (p.arch.startsWith("mamba")) p = {...p, attention_layers: 0n};
    for (let i = 0; i < p.n_layer; i++) {
        if (bit(p.ff_layers, i)) continue;
        const isRecurrent = p.attention_layers !== undefined ? !bit(p.attention_layers, i)
            : p.attention_every ? (i + 1) % p.attention_every !== 0 : false;
        if (isRecurrent || p.both) recurrent++;
        if (!isRecurrent) kv++;
    }
    const rows = p.state_rows ?? p.state_dim ?? 0, inner = (p.n_state_value ?? 0) * rows;
    const channels = p.state_dim ? 2 * (p.n_state_key ?? 0) * p.state_dim + inner : p.d_model;
    return {kv, floats: recurrent * (((p.conv_width ?? 1) - 1) * channels + inner * (p.state_dim ?? 0))};
}

function sizeText(bytes) {
    if (bytes === 0) return "-";
    return bytes >= 1 << 20 ? `${(bytes / (1 << 20)).toFixed(1)} MiB` : `${Math.round(bytes / 1024)} KiB`;
}

// Numbers of a position in layers of two kinds; the last ones have none of their own.
function kvOfKinds(p) {
    let sum = 0;
    for (let i = 0; i < p.n_layer - (p.n_kv_shared ?? 0); i++) {
        const global = (i + 1) % p.window_every === 0;
        sum += 2 * (global ? p.n_head_kv * p.head_dim : (p.local_head_kv ?? p.n_head_kv) * p.local_head_dim);
    }
    return sum;
}

function memoryOf(name) {
    const p = presets[name];
    if (!p) return {kv: "", state: ""};
    const {kv, floats} = layersOf(p);
    if (p.window_every) return {kv: `${(kvOfKinds(p) * 2 / 1024).toFixed(0)} KiB`, state: "-"};
    const numbers = p.kv_rank ? 2 * p.kv_rank + p.n_rot : 2 * p.n_head_kv * p.head_dim;
    return {kv: kv > 0 ? `${(kv * numbers * 2 / 1024).toFixed(0)} KiB` : "-", state: sizeText(4 * floats)};
}

// Answers through a file: the oracle ends without draining a pipe.
function ask(program, argv, cwd, lines) {
    const file = path.join(work, "answers"), out = fs.openSync(file, "w");
    execFileSync(program, argv, {cwd, input: lines.map((line) => JSON.stringify(line) + "\n").join(""),
        stdio: ["pipe", out, "ignore"]});
    fs.closeSync(out);
    return fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
}
const ours = (model, flags, lines) => ask(kentang, ["logits", model, ...flags], root, lines).map((a) => a.logits);
const theirs = (model, lines) =>
    ask("node", ["oracle.mjs", "logits", model, "--threads", "1", "--no-flash"], peer, lines).map((a) => a.logits);

function sequences(vocab) {
    let seed = 5;
    const random = () => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return (seed >>> 8) % vocab;
    };
    return [1, 2, 7, 15, 16, 17, 31, 33, 48, 64, 66, 100, 130, 200, 257, 300].map((n) => Array.from({length: n}, random));
}

function logSum(x) {
    const top = Math.max(...x);
    return top + Math.log(x.reduce((sum, v) => sum + Math.exp(v - top), 0));
}

function divergence(want, got) {
    const a = logSum(want), b = logSum(got);
    return Math.max(0, want.reduce((kl, v, i) => kl + Math.exp(v - a) * (v - a - (got[i] - b)), 0));
}

function best(x) {
    const order = x.map((v, i) => [v, i]).sort((a, b) => b[0] - a[0]);
    return {id: order[0][1], margin: order[0][0] - order[1][0]};
}

const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;
const medianOf = (x) => [...x].sort((a, b) => a - b)[x.length >> 1];
const sci = (x) => (x < 1e-9 ? "0" : x.toExponential(1));

function measure(tiny, recipe) {
    const model = path.join(work, "model.gguf"), lines = sequences(presets[tiny].n_vocab);
    execFileSync(kentang, ["synth", "--preset", tiny, "--quant", recipe, model], {stdio: "ignore"});
    const want = theirs(model, lines), got = ours(model, [], lines);
    let clear = 0, same = 0;
    want.forEach((row, i) => {
        const top = best(row);
        if (top.margin <= 0.5) return;
        clear++;
        if (best(got[i]).id === top.id) same++;
    });
    const all = want.map((row, i) => divergence(row, got[i]));
    return {kl: mean(all), middle: medianOf(all), top: `${same}/${clear}`};
}

// ---- whose rounding is nearer ----

// A copy in which expert_used_count is expert_count, and groups of experts are all used.
function usingAll(model, arch) {
    const bytes = fs.readFileSync(model), to = path.join(work, "all.gguf");
    const at = (key) => {
        const name = Buffer.from(`${arch}.${key}`), i = bytes.indexOf(Buffer.concat([name, Buffer.from([4, 0, 0, 0])]));
        return i < 0 ? 0 : i + name.length + 4;
    };
    for (const [used, count] of [["expert_used_count", "expert_count"], ["expert_group_used_count", "expert_group_count"]])
        if (at(used) && at(count)) bytes.writeUInt32LE(bytes.readUInt32LE(at(count)), at(used));
    fs.writeFileSync(to, bytes);
    return to;
}

// Means of both engines' divergence from the decoded file's answers, and how often each has its best token where that is clear.
function roundingOf(model, lines) {
    const decoded = path.join(work, "decoded.gguf");
    execFileSync(kentang, ["quantize", "--quiet", model, decoded, "f32"], {stdio: "ignore"});
    const want = theirs(decoded, lines), clear = want.map((row) => best(row)).map((top) => top.margin > 0.5 ? top.id : -1);
    const of = (rows) => ({kl: mean(want.map((row, i) => divergence(row, rows[i]))),
        same: rows.filter((row, i) => clear[i] >= 0 && best(row).id === clear[i]).length});
    const us = of(ours(model, [], lines)), them = of(theirs(model, lines)), n = clear.filter((id) => id >= 0).length;
    return `${sci(us.kl)} | ${sci(them.kl)} | ${us.same}/${n} | ${them.same}/${n}`;
}

function runRounding() {
    console.log("| architecture, seed | KL kentang | KL llama.cpp | top-1 kentang | top-1 llama.cpp |\n|---|---|---|---|---|");
    for (const [arch, [, tiny]] of Object.entries(models)) {
        if (opt.only && arch !== opt.only) continue;
        for (const seed of [1, 4711]) {
            const model = path.join(work, "model.gguf"), lines = sequences(presets[tiny].n_vocab);
            execFileSync(kentang, ["synth", "--preset", tiny, "--quant", "q8_0", "--seed", String(seed), model], {stdio: "ignore"});
            console.log(`| ${arch}, ${seed} | ${roundingOf(model, lines)} |`);
            if (presets[tiny].n_expert) console.log(`| ${arch}, ${seed}, all experts | ${roundingOf(usingAll(model, arch), lines)} |`);
        }
    }
}

// ---- speed ----

const file = path.join(root, "docs/MODELS.md");
const speedFile = path.join(root, "tests/peer/models_speed.json");
const speeds = fs.existsSync(speedFile) ? JSON.parse(fs.readFileSync(speedFile, "utf8")) : {};

function speedOf(preset) {
    const model = path.join(work, "speed.gguf"), turns = [];
    execFileSync(kentang, ["synth", "--preset", preset, "--quant", "q4_k_m", model], {stdio: "ignore"});
    const [nTurns, runs] = large.includes(preset) ? [1, "1"] : [3, "3"];
    for (let turn = 0; turn < nTurns; turn++) {
        const us = JSON.parse(execFileSync(kentang, ["bench", "-m", model, "-p", "512", "-n", "64", "-r", runs, "-t",
            String(opt.threads), "--no-limits", "-o", "json"], {encoding: "utf8", stdio: ["ignore", "pipe", "ignore"]}));
        const [them] = ask("node", ["oracle.mjs", "bench", model, "--threads", String(opt.threads), "--pp", "512", "--tg", "64", "--runs", runs], peer, []);
        turns.push({us, them});
    }
    fs.rmSync(model);
    return turns;
}

function runSpeed() {
    const doctor = JSON.parse(execFileSync(kentang, ["doctor", "--json"], {encoding: "utf8", stdio: ["ignore", "pipe", "ignore"]}));
    for (const [arch, [, , preset]] of Object.entries(models)) {
        if (!preset || tooLarge.includes(preset) || (opt.only && arch !== opt.only)) continue;
        const turns = speedOf(preset);
        const test = (turn, kind) => turn.us.find((t) => t.test.startsWith(kind)).tok_s;
        speeds[arch] = {preset, threads: opt.threads, processor: `${doctor.processor.name}, ${doctor.kernels.name}`,
            pp: [medianOf(turns.map((t) => test(t, "pp"))), medianOf(turns.map((t) => t.them.pp))],
            tg: [medianOf(turns.map((t) => test(t, "tg"))), medianOf(turns.map((t) => t.them.tg))]};
        fs.writeFileSync(speedFile, JSON.stringify(speeds, null, 1) + "\n");
        console.log(arch, JSON.stringify(speeds[arch]));
    }
    fs.writeFileSync(file, fs.readFileSync(file, "utf8").split("\n").map(withSpeed).join("\n"));
}

const N_CELLS = 7; // of a row

// A line of the table with the speed that is kept of its architecture, and any other line as it is.
function withSpeed(line) {
    const arch = /^\| (\S+) \|/.exec(line)?.[1];
    if (!(arch in models) || line.split("|").length !== N_CELLS + 2) return line;
    return line.replace(/[^|]*\|$/, ` ${speedText(arch)} |`);
}

function speedText(arch) {
    const s = speeds[arch];
    if (!s) return "";
    const ratio = ([us, them]) => `${(us / them).toFixed(2)}x`;
    return `${s.preset}: ${ratio(s.pp)}, ${ratio(s.tg)}`;
}

// ---- the table ----

const old = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";

let largest = {kl: 0, arch: ""}; // the divergence in F32, of all rows

// As it was where one row alone is measured.
function largestText() {
    return opt.only ? /at most (\S+ \(\S+\))\. The run/.exec(old)?.[1] ?? "" : `${sci(largest.kl)} (${largest.arch})`;
}

function rowOf(arch) {
    const [examples, tiny, preset, tools] = models[arch];
    if (opt.only && arch !== opt.only) return old.split("\n").find((line) => line.startsWith(`| ${arch} |`));
    const f32 = measure(tiny, "f32"), q8 = measure(tiny, "q8_0"), memory = memoryOf(preset);
    const row = `| ${arch} | ${examples} | ${sci(q8.middle)} | ${tools} | ` +
        `${memory.kv} | ${memory.state} | ${speedText(arch)} |`;
    console.log(row, `KL in F32 ${sci(f32.kl)}; best token the same: ${f32.top}, ${q8.top}`);
    if (f32.kl > largest.kl) largest = {kl: f32.kl, arch};
    return row;
}

// What embed.mjs measured stays.
function encoderRow([arch, examples]) {
    const figures = old.split("\n").find((line) => line.startsWith(`| ${arch} | ${examples} | `))?.slice(`| ${arch} | ${examples} | `.length);
    return `| ${arch} | ${examples} | ${figures ?? " | | |"}`;
}

function page() {
    const table = Object.keys(models).map(rowOf).filter(Boolean).join("\n");
    return `# What runs

For those who look whether a model runs. Made by \`tests/peer/models.mjs\`, compared with llama.cpp on the same files. Any GGUF file of one of these architectures (\`general.architecture\`) is checked key by key and tensor by
tensor, and refused by the name of what does not fit; \`kentang inspect FILE\` says it of one file.

- **KL**: the median divergence from llama.cpp's distributions in Q8_0, on a small model with random weights, 16 sequences of 1 to 300 tokens; each rounds activations in its own way and may choose another of two experts that are as good
  ([what that adds](../tests/peer/DIVERGENCES.md)). In F32, where both compute the same program, the mean is at most ${largestText()}. The run prints it, and how often the best token is the same where it is clear.
- **tools**: the form of calls ([TOOLS.md](TOOLS.md)). **K/V** of a position in f16, **state** of a sequence: of the first real geometry in \`kentang synth --help\`. Where there is a state, prompts continue from places that keep one
  ([MEMORY.md](MEMORY.md)), else from any page.
- **speed**: kentang over llama.cpp, a prompt of 512 tokens and generation, Q4_K_M, ${opt.threads} threads (${[...new Set(Object.values(speeds).map((s) => s.processor))].join("; ")}), by
  \`node tests/peer/models.mjs --speed\`. Empty: no geometry of it, or more than 24 GiB.

Types: F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0, Q1_0, Q2_0, MXFP4 and NVFP4 run in all of them; \`tests/peer/logits.mjs --all\` compares each architecture in each recipe.

| architecture | for example | KL | tools | K/V | state | speed |
|---|---|---|---|---|---|---|
${table}

\`gemma4-assistant\` files (Google's drafters; also \`gemma4_assistant\`) answer nothing themselves: \`kentang run -m gemma-4.gguf --draft-model assistant.gguf\` has one propose its model's tokens. Three proposals in a chain against llama.cpp 0.5.0
in F32: KL 1.4e-6 to 3.9e-6, the same best token.

Encoders (\`kentang embed\`, /v1/embeddings, /v1/rerank). \`tests/peer/embed.mjs --table\` fills in the largest distance (1 - cosine) of their vectors
from llama.cpp's, on small models with random weights and 15 texts of 1 to 390 words:

| architecture | for example | F32 | Q8_0 | Q4_K_M |
|---|---|---|---|---|
${encoders.map(encoderRow).join("\n")}

${old.match(/## Published folders\n[^]*?(?=## What does not run\n)/)?.[0] ?? ""}## What does not run

These are refused by name, with what they would need:

| architecture | needs |
|---|---|
| MPNet, gte's NewModel (folders) | a layer program of their own: a bias by distance; gated products |

Also refused: files of deepseek2 made before April 2025 (one tensor attn_kv_b), Hadamard-rotated weights (\`prism.hadamard.*\`), experts after a latent projection
(\`ffn_latent_*\`), Qwen3-Next files with one tensor ssm_in, unknown pre-tokenizers and tensor types.
`;
}

if (opt.speed) runSpeed();
else if (opt.rounding) runRounding();
else fs.writeFileSync(file, page());
