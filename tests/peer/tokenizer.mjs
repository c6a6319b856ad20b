// Token ids against llama.cpp and against Hugging Face's tokenizers.
//
//   KT_PEER_DIR=DIR [KT_HF_DIR=DIR] node tests/peer/tokenizer.mjs [--build build] [--data ../shared/data] [--random 3000]
//
// KT_PEER_DIR: an installed copy of ../shared/peer (llama.cpp). KT_HF_DIR: a folder where `npm install tokenizers` was
// run; by default KT_PEER_DIR; without it the Hugging Face half is skipped, and says so.
//
// 1. The texts in vocab/*.inp give the ids in *.out.
//    KT_SHOW=N prints the first N texts where llama.cpp differs.
// 2. Lines of wiki.test.raw, Indonesian and English text, and seeded random strings: kentang against llama.cpp, and
//    kentang against Hugging Face with a tokenizer.json built here from the GGUF vocabulary and the published
//    pre-tokenizer. For every kind of pre-tokenizer in pretok.def the second is repeated with the Qwen2.5 vocabulary.
// 3. detokenize(tokenize(text)) is the text (NFC of it where the tokenizer normalises).
// Hugging Face's answer decides: where it agrees with kentang, a different llama.cpp is counted, not failed.
// Reviewed differences: DIVERGENCES.md. Exit status 1: something failed.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {readVocab, writeWithPre} from "./gguf_vocab.mjs";
import {pres, tokenizerJson} from "./hf_tokenizer.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), data: path.join(root, "../shared/data"), random: 3000};
for (let i = 2; i < process.argv.length; i += 2) {
    const key = process.argv[i].replace(/^--/, "");
    if (!(key in opt) || i + 1 >= process.argv.length) {
        console.error(`tokenizer.mjs: unknown option ${process.argv[i]}; see the head of the file`);
        process.exit(2);
    }
    opt[key] = key === "random" ? Number(process.argv[i + 1]) : path.resolve(process.argv[i + 1]);
}
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("tokenizer.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const kentang = path.join(opt.build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kt-tok-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));
let hf = null;
try {
    hf = createRequire(path.join(path.resolve(process.env.KT_HF_DIR ?? peer), "package.json"))("tokenizers");
} catch {
    console.log("Hugging Face tokenizers not found (KT_HF_DIR): that half is skipped");
}

// ---- running the others ----

// Through files: the oracle ends with process.exit, which cuts a pipe short.
function jsonLines(command, args, values) {
    const input = path.join(work, "in.jsonl"), output = path.join(work, "out.jsonl");
    fs.writeFileSync(input, values.map((v) => JSON.stringify(v) + "\n").join(""));
    const stdio = [fs.openSync(input, "r"), fs.openSync(output, "w"), "inherit"];
    try {
        execFileSync(command, args, {stdio});
    } finally {
        fs.closeSync(stdio[0]);
        fs.closeSync(stdio[1]);
    }
    const lines = fs.readFileSync(output, "utf8").split("\n").filter((line) => line);
    if (lines.length !== values.length) throw new Error(`${command}: ${lines.length} answers to ${values.length} lines`);
    return lines.map((line) => JSON.parse(line));
}
const ours = (model, texts) => jsonLines(kentang, ["tokenize", model], texts);
const oursBack = (model, ids) => jsonLines(kentang, ["detokenize", model], ids);
const llamaCpp = (model, texts) => jsonLines(process.execPath, [path.join(peer, "oracle.mjs"), "tokenize", model], texts);

async function huggingFace(tokenizer, texts) {
    const out = [];
    for (let i = 0; i < texts.length; i += 512) {
        const batch = await tokenizer.encodeBatch(texts.slice(i, i + 512), {addSpecialTokens: false});
        for (const encoding of batch) out.push(encoding.getIds());
    }
    return out;
}

// ---- texts ----

let state = 88172645463325252n;
function rng(below) {
    state ^= (state << 13n) & 0xffffffffffffffffn;
    state ^= state >> 7n;
    state ^= (state << 17n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(below));
}
const parts = [..." \n\r\t'sSdDmM019/.!-_<>$|aAzZ\u000b\u0085\u00a0\u1680\u2028\u3000ſéÉǅʰ中文字あアー・゙กิहिन्दीمر٣½Ⅷ—«€😀🏽\u200d\ufeff\u0001\u007f\u0301\u0308\u0323\u20dd\u200b한ᄒ"],
    words = [" the", "'re", "'LL", "'ſ", "  ", "\r\n", "\n\n", " {\n", "thing", "Kentang", "camelCase", "HTTPServer", "don't",
        "e\u0301", "A\u030a", "ㄱ", "각", "कि", "12345", "3.14", "https://x.y/z", "::", "</s>", "<0x41>", "▁", "    ",
        "नमस्ते", "สวัสดี", "مرحبا", "привет", "Größe", "日本語テキスト", "👩‍👩‍👧", "\t\t"];
function randomText() {
    let text = "";
    for (let n = 1 + rng(rng(5) ? 14 : 120), last = "a"; n > 0; n--) {
        if (rng(4)) last = rng(3) ? parts[rng(parts.length)] : words[rng(words.length)];
        if (rng(60) === 0) last = String.fromCodePoint(rng(2) ? 0x20 + rng(0x2fe0) : 0x1f000 + rng(0x1000));
        text += last;
    }
    return text;
}
const lines = (file) => fs.readFileSync(path.join(opt.data, "text", file), "utf8").split("\n");
const corpus = [...lines("wiki.test.raw"), ...lines("id_gsd-ud-test.txt"), ...lines("tinystories_sample.txt"),
    fs.readFileSync(path.join(opt.data, "text/wiki.test.raw"), "utf8").slice(0, 100000), ""];
const random = Array.from({length: opt.random}, randomText);

// ---- comparing ----

let failures = 0;
const differing = (a, b) => a.flatMap((x, i) => x.length === b[i].length && x.every((v, k) => v === b[i][k]) ? [] : [i]);
function fail(what, i, text, a, b) {
    failures++;
    console.log(`FAIL ${what}: text ${i} ${JSON.stringify(text).slice(0, 200)}\n  kentang ${a.slice(0, 40)}\n  other   ${b.slice(0, 40)}`);
}

// NFC, U+2581 as a space, and the prefix space that follows a special token: what is known not to come back.
function afterRoundTrip(text, values, pre) {
    if (values["tokenizer.ggml.model"] === "gpt2") return pres[pre].flags.includes("NFC") ? text.normalize("NFC") : text;
    text = text.replaceAll("▁", " ");
    return values["tokenizer.ggml.add_space_prefix"] === 0 ? text : text.replace(/(<\/?s>|<unk>)(?!<\/?s>|<unk>|$)/g, "$1 ");
}

async function compare(name, model, values, pre, texts, withLlamaCpp) {
    const mine = ours(model, texts), report = [`${texts.length} texts`];
    let theirs = null;
    if (hf) {
        theirs = await huggingFace(hf.Tokenizer.fromString(tokenizerJson(values, pre)), texts);
        const bad = differing(mine, theirs);
        for (const i of bad.slice(0, 3)) fail(`${name} against Hugging Face`, i, texts[i], mine[i], theirs[i]);
        report.push(`Hugging Face differs in ${bad.length}`);
    }
    if (withLlamaCpp) {
        const other = llamaCpp(model, texts), bad = differing(mine, other);
        const nfc = values["tokenizer.ggml.model"] === "gpt2" && pres[pre].flags.includes("NFC");
        const unexplained = hf ? [] : bad.filter((i) => !(nfc && texts[i].normalize("NFC") !== texts[i]));
        for (const i of unexplained.slice(0, 3)) fail(`${name} against llama.cpp`, i, texts[i], mine[i], other[i]);
        report.push(`llama.cpp differs in ${bad.length}`);
        if (process.env.KT_SHOW) for (const i of bad.slice(0, +process.env.KT_SHOW)) console.log(JSON.stringify(texts[i]), mine[i].join(), other[i].join());
    }
    const back = oursBack(model, mine);
    texts.forEach((text, i) => {
        const expected = afterRoundTrip(text, values, pre);
        if (back[i] !== expected && failures++ < 5) console.log(`FAIL ${name} round trip: ${JSON.stringify(text)} ${JSON.stringify(back[i])}`);
    });
    console.log(`${name}: ${report.join(", ")}`);
}

const vocabs = ["qwen2.5", "llama-bpe", "gemma2", "tekken"].map((v) => path.join(opt.data, "vocab", `vocab-${v}.gguf`));
for (const file of [...vocabs, path.join(opt.data, "models/stories260K.gguf")]) {
    const {values} = readVocab(file), name = path.basename(file, ".gguf");
    if (fs.existsSync(file + ".inp")) comparePublished(name, file);
    await compare(name, file, values, values["tokenizer.ggml.pre"], [...corpus, ...random], true);
}
function comparePublished(name, file) {
    const inp = fs.readFileSync(file + ".inp", "utf8").split("\n__ggml_vocab_test__\n");
    const expected = fs.readFileSync(file + ".out", "utf8").split("\n").map((l) => l.trim().split(/\s+/).filter((t) => t).map(Number));
    const got = ours(file, inp), bad = differing(got, expected.slice(0, inp.length));
    for (const i of bad) fail(`${name}.inp`, i, inp[i], got[i], expected[i]);
    console.log(`${name}: ${inp.length} published texts, ${bad.length} differ`);
}
if (hf) {
    const vocab = readVocab(vocabs[0]);
    const kinds = new Map(); /* names that mean the same */
    for (const [pre, kind] of Object.entries(pres).map(([name, k]) => [name, `${k.family} ${k.flags}`]))
        kinds.set(kind, [...kinds.get(kind) ?? [], pre]);
    for (const names of kinds.values()) {
        const file = path.join(work, "pre.gguf");
        writeWithPre(vocab, names[0], file);
        await compare(`pre ${names.join(" ")}`, file, vocab.values, names[0], [...corpus.slice(0, 300), ...random], false);
    }
}
console.log(failures ? `${failures} failures` : "all as expected");
process.exit(failures ? 1 : 0);
