// Converted files beside llama.cpp and Hugging Face's tokenizers.
//
//   KT_PEER_DIR=DIR [KT_HF_DIR=DIR] node tests/peer/convert.mjs [--build build] [--data ../shared/data]
//
// 1. Folders of tests/convert (every class that can be converted), as F32: llama.cpp's logits of the file, or its
//    vectors of an encoder's, and the ids of texts against the folder's own tokenizer.json, BOS and EOS included.
// 2. Published vocabularies (../shared/data/vocab) as folders: tokenizer.json made from the GGUF vocabulary, converted
//    back. Tokens, types and merges are those of the published file, the ids of the texts of .inp those of .out, the
//    ids of other texts Hugging Face's.
// Exit status 1: something failed.
import {execFileSync, spawnSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import {readVocab} from "./gguf_vocab.mjs";
import {tokenizerJson} from "./hf_tokenizer.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), data: path.join(root, "../shared/data")};
for (let i = 2; i < process.argv.length; i += 2) {
    const key = process.argv[i].replace(/^--/, "");
    if (!(key in opt) || i + 1 >= process.argv.length) {
        console.error(`convert.mjs: unknown option ${process.argv[i]}; see the head of the file`);
        process.exit(2);
    }
    opt[key] = path.resolve(process.argv[i + 1]);
}
const {build, data} = opt;
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("convert.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const kentang = path.join(build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-convert-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));
let hf = null;
try {
    hf = createRequire(path.join(path.resolve(process.env.KT_HF_DIR ?? peer), "package.json"))("tokenizers");
} catch {
    console.log("Hugging Face tokenizers not found (KT_HF_DIR): that half is skipped");
}

let failures = 0;
function report(good, text) {
    if (!good) failures++;
    console.log(`${good ? "PASS" : "FAIL"} ${text}`);
}

// Answers through a file: the oracle ends without draining a pipe.
function ask(program, argv, cwd, values) {
    const file = path.join(work, "answers"), out = fs.openSync(file, "w");
    execFileSync(program, argv, {cwd, input: values.map((v) => JSON.stringify(v) + "\n").join(""),
        stdio: ["pipe", out, "inherit"]});
    fs.closeSync(out);
    const answers = fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (answers.length !== values.length) throw new Error(`${program}: ${answers.length} answers to ${values.length}`);
    return answers;
}

const corpus = ["wiki.test.raw", "id_gsd-ud-test.txt"].flatMap((file) =>
    fs.readFileSync(path.join(data, "text", file), "utf8").split("\n").filter(Boolean).slice(0, 400));
const odd = ["", " ", "  I'm  here\n\n12345 ok", "naïve 😀 你好 'S it'S", "<|im_start|>user\nhai<|im_end|>\n", "<s>a</s> b",
    "a<end_of_turn>b", "x <|end|> y", "\n \n\t x", "é \u0301\u200d 한국어 ½ नमस्ते", "▁ ▁▁", "<0x41> <tool_call> x"];

async function compareIds(name, model, tokenizer, texts) {
    if (!hf) return;
    const mine = ask(kentang, ["tokenize", model, "--add-special"], root, texts);
    let bad = 0;
    for (let i = 0; i < texts.length; i++) {
        const want = (await tokenizer.encode(texts[i], null, {addSpecialTokens: true})).getIds();
        if (mine[i].join() === want.join()) continue;
        if (bad++ < 2) console.log(`  ${JSON.stringify(texts[i]).slice(0, 120)}\n  kentang ${mine[i].slice(0, 30)}\n  other   ${want.slice(0, 30)}`);
    }
    report(bad === 0, `${name}: ids of ${texts.length} texts, Hugging Face differs in ${bad}`);
}

// ---- every class ----

// llama.cpp computes phi3 without its window, takes exaone4's only of a model of 64 layers, has BitNet with silu and a tied head, and Llama 4
// with chunks of 8192 alone.
function compareLogits(name, model) {
    if (["exaone4", "bitnet", "bitnet-packed", "bitnet-divided", "llama4", "llama4-plain"].includes(name)) return;
    const vocab = 300, lines = [1, 2, 15, 17, 32, 64, 66, 100, 130].filter((n) => name !== "fused" || n <= 32).map((n, k) =>
        Array.from({length: n}, (_, i) => (i * 7919 + k * 131 + 5) % vocab));
    const got = ask(kentang, ["logits", model], root, lines);
    const want = ask("node", ["oracle.mjs", "logits", model, "--threads", "1"], peer, lines);
    const means = want.map((w, i) => w.logits.reduce((sum, v, id) => sum + Math.abs(v - got[i].logits[id]), 0) / w.logits.length);
    const mean = Math.max(...means);
    // another greatest one only where llama.cpp's two are as near to each other as all logits of the two programs
    const same = want.every((w, i) => w.logits.length === got[i].logits.length &&
        w.logits[w.argmax] - w.logits[got[i].argmax] <= means[i]);
    report(same && mean < 0.02, `${name}: llama.cpp's logits, mean distance at most ${mean.toFixed(5)}`);
}

const python = ["/usr/bin/python3", "python3"].find((p) => spawnSync(p, ["-c", "import numpy"]).status === 0);
if (!python) {
    console.error("convert.mjs: no python3 with numpy; remedy: apt-get install python3-numpy");
    process.exit(2);
}
// Ids with what node-llama-cpp puts around them where it is not there.
async function compareVectors(name, model, values) {
    if (name === "bert-dense") return; // llama.cpp 0.5.0 of the package has dense layers for gemma-embedding alone
    const {getLlama, LlamaLogLevel} = await import(pathToFileURL(
        createRequire(path.join(path.resolve(peer), "package.json")).resolve("node-llama-cpp")));
    const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.disabled, maxThreads: 1});
    const around = (role) => values["tokenizer.ggml.model"] === "bert" || values[`tokenizer.ggml.add_${role}_token`]
        ? [values[`tokenizer.ggml.${role}_token_id`]] : [];
    const lines = [1, 2, 15, 17, 32, 64, 100].map((n, k) => [...around("bos"),
        ...Array.from({length: n}, (_, i) => (i * 7919 + k * 131 + 5) % 180 + 6), ...around("eos")]);
    const mine = ask(kentang, ["embed", model, "--json"], root, lines);
    const loaded = await llama.loadModel({modelPath: model});
    const context = await loaded.createEmbeddingContext({contextSize: 128, batchSize: 128, threads: 1});
    let least = 1;
    for (let i = 0; i < lines.length; i++) {
        const theirs = (await context.getEmbeddingFor(lines[i])).vector;
        const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
        least = Math.min(least, dot(mine[i], theirs) / Math.sqrt(dot(mine[i], mine[i]) * dot(theirs, theirs)));
    }
    report(1 - least < 1e-4, `${name}: llama.cpp's vectors, least cosine ${least.toFixed(7)}`);
    await loaded.dispose();
}

// What Hugging Face does otherwise (DIVERGENCES.md): unigram asks for whole graphemes first; U+2581 in a text.
const graphemes = new Intl.Segmenter();
const joined = (text) => /\s[ﬁ½…]|▁/.test(text) || [...graphemes.segment(text)].some(({segment}) => [...segment].length > 1);
const kindOf = (json) => JSON.parse(fs.readFileSync(json, "utf8")).model.type;

for (const kind of (process.env.KT_CONVERT_KINDS ?? "models encoders").split(" ")) {
    const folder = path.join(work, kind);
    fs.mkdirSync(folder);
    execFileSync(python, [path.join(root, `tests/convert/check_${kind}.py`), kentang, folder],
        {stdio: ["ignore", "ignore", "inherit"], env: {...process.env, PYTHONDONTWRITEBYTECODE: "1"}});
    for (const name of fs.readdirSync(folder).filter((n) => n.endsWith(".gguf")).map((n) => n.slice(0, -5))) {
        const model = path.join(folder, `${name}.gguf`), json = path.join(folder, name, "tokenizer.json");
        const values = readVocab(model).values;
        if (kind === "models") compareLogits(name, model);
        else if (values[`${values["general.architecture"]}.pooling_type`] !== 4) await compareVectors(name, model, values);
        if (!hf || !fs.existsSync(json)) continue;
        const texts = [...odd, ...corpus.slice(0, 100)].filter((text) => kindOf(json) !== "Unigram" || !joined(text));
        await compareIds(name, model, hf.Tokenizer.fromFile(json), texts);
    }
}

// ---- published vocabularies ----

// The smallest llama that has one row a token.
function writeFolder(folder, rows, tokenizer, settings) {
    const d = 32, shapes = {"model.embed_tokens.weight": [rows, d], "model.norm.weight": [d]};
    for (const n of ["q", "k", "v", "o"]) shapes[`model.layers.0.self_attn.${n}_proj.weight`] = [d, d];
    for (const n of ["gate", "up", "down"]) shapes[`model.layers.0.mlp.${n}_proj.weight`] = [d, d];
    for (const n of ["input", "post_attention"]) shapes[`model.layers.0.${n}_layernorm.weight`] = [d];
    const header = {};
    let at = 0;
    for (const [name, shape] of Object.entries(shapes)) {
        const bytes = 2 * shape.reduce((a, b) => a * b, 1);
        header[name] = {dtype: "BF16", shape, data_offsets: [at, at += bytes]};
    }
    const text = Buffer.from(JSON.stringify(header)), size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    fs.mkdirSync(folder, {recursive: true});
    fs.writeFileSync(path.join(folder, "model.safetensors"), Buffer.concat([size, text, Buffer.alloc(at)]));
    fs.writeFileSync(path.join(folder, "config.json"), JSON.stringify({architectures: ["LlamaForCausalLM"], hidden_size: d,
        intermediate_size: d, num_hidden_layers: 1, num_attention_heads: 2, tie_word_embeddings: true}));
    fs.writeFileSync(path.join(folder, "tokenizer.json"), tokenizer);
    fs.writeFileSync(path.join(folder, "tokenizer_config.json"), JSON.stringify(settings));
}

for (const name of ["qwen2.5", "llama-bpe", "tekken", "gemma2"]) {
    const file = path.join(data, "vocab", `vocab-${name}.gguf`), folder = path.join(work, `vocab-${name}`);
    const {values} = readVocab(file), tokens = values["tokenizer.ggml.tokens"];
    const spm = values["tokenizer.ggml.model"] === "llama", out = path.join(work, `${name}.out.gguf`);
    const json = tokenizerJson(values, values["tokenizer.ggml.pre"]);
    const bos = values["tokenizer.ggml.bos_token_id"];
    writeFolder(folder, tokens.length, json, {add_bos_token: false, bos_token: bos === undefined ? null : tokens[bos],
        eos_token: tokens[values["tokenizer.ggml.eos_token_id"]]});
    const run = spawnSync("/usr/bin/env", ["bash", "-c", `ulimit -v 4000000; TIMEFORMAT=%R; time "${kentang}" convert "${folder}" "${out}"`], {encoding: "utf8"});
    if (run.status !== 0) {
        report(false, `${name}: ${run.stderr.trim()}`);
        continue;
    }
    const made = readVocab(out).values;
    const same = (key) => JSON.stringify(made[key]) === JSON.stringify(values[key]);
    const types = values["tokenizer.ggml.token_type"];
    const texts = tokens.filter((t, i) => types[i] !== 5 && t !== made["tokenizer.ggml.tokens"][i]).length;
    report(texts === 0 && (spm || same("tokenizer.ggml.merges")) && (spm || made["tokenizer.ggml.pre"] === values["tokenizer.ggml.pre"]),
        `${name}: ${tokens.length} tokens, ${texts} differ; ${spm ? "scores from" : "the same"} merges; ${run.stderr.trim().split("\n").pop()} s`);
    const inp = fs.readFileSync(file + ".inp", "utf8").split("\n__ggml_vocab_test__\n");
    const want = fs.readFileSync(file + ".out", "utf8").split("\n").map((l) => l.trim().split(/\s+/).filter(Boolean).map(Number));
    const got = ask(kentang, ["tokenize", out], root, inp), was = ask(kentang, ["tokenize", file], root, inp);
    const bad = inp.filter((_, i) => got[i].join() !== want[i].join() && got[i].join() !== was[i].join()).length;
    report(bad === 0, `${name}: ${inp.length} published texts, ${bad} differ`);
    if (hf) await compareIds(name, out, hf.Tokenizer.fromString(json), [...odd, ...corpus]);
}
console.log(failures ? `${failures} failures` : "all as expected");
process.exit(failures ? 1 : 0);
