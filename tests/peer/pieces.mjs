// WordPiece and unigram tokenizers against Hugging Face's, with vocabularies made here from real text.
//
//   KT_HF_DIR=DIR node tests/peer/pieces.mjs [--build build] [--data ../shared/data] [--random 3000]
//
// KT_HF_DIR: a folder where `npm install tokenizers` was run; by default KT_PEER_DIR. Every vocabulary is written twice,
// as GGUF and as tokenizer.json: WordPiece with and without small letters and accents, unigram with a compiled character
// map, without one, and with bytes for what is unknown. Ids are compared with special tokens around them; where Hugging
// Face differs by design (DIVERGENCES.md) the texts are left out and counted. Exit status 1: ids differ.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {charsmap} from "./charsmap.mjs";
import {writeKeys} from "./gguf_write.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), data: path.join(root, "../shared/data"), random: 3000};
for (let i = 2; i < process.argv.length; i += 2) {
    const key = process.argv[i].replace(/^--/, "");
    if (!(key in opt) || i + 1 >= process.argv.length) {
        console.error(`pieces.mjs: unknown option ${process.argv[i]}; see the head of the file`);
        process.exit(2);
    }
    opt[key] = key === "random" ? Number(process.argv[i + 1]) : path.resolve(process.argv[i + 1]);
}
const hfDir = process.env.KT_HF_DIR ?? process.env.KT_PEER_DIR;
if (!hfDir) {
    console.error("pieces.mjs: KT_HF_DIR must name a folder with the npm package tokenizers");
    process.exit(2);
}
const hf = createRequire(path.join(path.resolve(hfDir), "package.json"))("tokenizers");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kt-pieces-"));
process.on("exit", () => fs.rmSync(work, {recursive: true, force: true}));

// ---- texts ----

let state = 88172645463325252n;
function rng(below) {
    state ^= (state << 13n) & 0xffffffffffffffffn;
    state ^= state >> 7n;
    state ^= (state << 17n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(below));
}
const parts = [..." \n\r\tsSdmM019/.!-_<>$|aAzZ\u000b\u0085\u00a0\u1680\u2028\u3000ſéÉǅİΣ中文字あアー・゙กิहिمر٣½Ⅷ—«€😀🏽\u200d\ufeff\u0001\u007f\u0301\u0308\u0323\u20dd\u200b한ᄒｱＡﬁ①"],
    words = [" the", "  ", "\r\n", "\n\n", "thing", "Kentang", "HTTPServer", "don't", "e\u0301", "A\u030a", "각", "कि", "12345",
        "https://x.y/z", "</s>", "[SEP]", "[MASK]", "[ MASK]", "नमस्ते", "สวัสดี", "привет", "Größe", "日本語テキスト", "👩‍👩‍👧", "a".repeat(99),
        "b".repeat(102), "\u1112\u1161\u11ab", "\u302e\u0301", "ẞ"];
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
const corpus = [...lines("wiki.test.raw").slice(0, 2000), ...lines("id_gsd-ud-test.txt"), ""];
const texts = [...corpus, ...Array.from({length: opt.random}, randomText)];

// ---- vocabularies ----

// How often each substring of the words occurs: [text, count], most frequent first. begin: only those at a word's begin.
function substrings(words, most, begin, longest = 9) {
    const count = new Map();
    for (const [word, n] of words) {
        const chars = [...word];
        for (let i = 0; i < (begin ? 1 : chars.length); i++) {
            for (let len = 1; len <= longest && i + len <= chars.length; len++) {
                const s = chars.slice(i, i + len).join("");
                count.set(s, (count.get(s) ?? 0) + n);
            }
        }
    }
    return [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, most);
}
function countWords(tokenizer) {
    const count = new Map();
    for (const text of corpus)
        for (const word of tokenizer(text)) count.set(word, (count.get(word) ?? 0) + 1);
    return [...count];
}

function wordPiece(lowercase, stripAccents) {
    const normalizer = hf.bertNormalizer({cleanText: true, handleChineseChars: true, stripAccents, lowercase});
    const pre = hf.bertPreTokenizer();
    const found = countWords((text) => pre.preTokenizeString(normalizer.normalizeString(text)).map(([word]) => word));
    const specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    const starts = substrings(found, 4000, true).map(([s]) => s), inner = substrings(found, 4000, false, 5).map(([s]) => s);
    const tokens = [...specials, ...starts, ...inner.map((s) => "##" + s)];
    const keys = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens.map((t, i) => i < 5 ? t : t.startsWith("##") && i >= 5 + starts.length ? t.slice(2) : "▁" + t),
        "tokenizer.ggml.token_type": Int32Array.from(tokens, (_, i) => i < 5 ? 3 : 1),
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.normalizer.lowercase": lowercase,
        "tokenizer.ggml.normalizer.strip_accents": stripAccents,
    };
    const json = {version: "1.0", truncation: null, padding: null,
        added_tokens: specials.map((content, id) => ({id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true})),
        normalizer: {type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: stripAccents, lowercase},
        pre_tokenizer: {type: "BertPreTokenizer"},
        post_processor: {type: "BertProcessing", sep: ["[SEP]", 3], cls: ["[CLS]", 2]}, decoder: {type: "WordPiece", prefix: "##", cleanup: true},
        model: {type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 100,
            vocab: Object.fromEntries(tokens.map((t, i) => [t, i]))}};
    return {keys, json};
}

const map = [["\n", " "], ["\r", " "], ["\t", " "], ["\u000b", " "], ["\u00a0", " "], ["\u3000", " "], ["\u0001", ""], ["\u007f", ""],
    ["ﬁ", "fi"], ["①", "1"], ["Ⅷ", "VIII"], ["½", "1⁄2"], ["Ａ", "A"], ["ｱ", "ア"], ["e\u0301", "é"], ["A\u030a", "Å"], ["\u0085", " "], ["\u2028", " "], ["\u1680", " "]];
function unigram(withMap, withBytes) {
    const found = countWords((text) => text.split(/\s+/).filter((w) => w).map((w) => "▁" + w));
    const pieces = substrings(found, 6000, false), total = pieces.reduce((sum, [, n]) => sum + n, 0);
    const specials = ["<s>", "<pad>", "</s>", "<unk>"];
    const bytes = withBytes ? Array.from({length: 256}, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`) : [];
    const tokens = [...specials, ...bytes, ...pieces.map(([s]) => s)];
    const scores = Float32Array.from([...specials.map(() => 0), ...bytes.map(() => 0), ...pieces.map(([, n]) => Math.log(n / total))]);
    const compiled = withMap ? charsmap(map) : null;
    const keys = {
        "tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": Int32Array.from(tokens, (_, i) => i === 3 ? 2 : i < 4 ? 3 : i < 4 + bytes.length ? 6 : 1),
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true,
        "tokenizer.ggml.add_space_prefix": true, "tokenizer.ggml.remove_extra_whitespaces": true,
        ...(compiled ? {"tokenizer.ggml.precompiled_charsmap": Uint8Array.from(compiled)} : {}),
    };
    const json = {version: "1.0", truncation: null, padding: null,
        added_tokens: specials.map((content, id) => ({id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true})),
        normalizer: compiled ? {type: "Precompiled", precompiled_charsmap: compiled.toString("base64")} : null,
        pre_tokenizer: {type: "Sequence", pretokenizers: [{type: "WhitespaceSplit"}, {type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true}]},
        post_processor: {type: "TemplateProcessing", single: ["<s>", "$A", "</s>"].map((id) => id === "$A" ? {Sequence: {id: "A", type_id: 0}} : {SpecialToken: {id, type_id: 0}}),
            pair: [{Sequence: {id: "A", type_id: 0}}, {Sequence: {id: "B", type_id: 0}}],
            special_tokens: Object.fromEntries([["<s>", 0], ["</s>", 2]].map(([t, id]) => [t, {id: t, ids: [id], tokens: [t]}]))},
        decoder: {type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true},
        model: {type: "Unigram", unk_id: 3, byte_fallback: withBytes, vocab: tokens.map((t, i) => [t, scores[i]])}};
    return {keys, json};
}

// ---- comparing ----

function ours(model) {
    const input = path.join(work, "in.jsonl"), output = path.join(work, "out.jsonl");
    fs.writeFileSync(input, texts.map((t) => JSON.stringify(t) + "\n").join(""));
    const stdio = [fs.openSync(input, "r"), fs.openSync(output, "w"), "inherit"];
    execFileSync(path.join(opt.build, "kentang"), ["tokenize", "--add-special", model], {stdio});
    stdio.slice(0, 2).forEach((fd) => fs.closeSync(fd));
    return fs.readFileSync(output, "utf8").split("\n").filter((line) => line).map((line) => JSON.parse(line));
}

// Punctuation that Unicode has had since 2015, which Hugging Face's table does not know, and one letter that it takes for
// punctuation.
const newPunctuation = (text) => /[\u061d\u09fd\u0a76\u0c77\u0c84\u166d\u1b7d\u1b7e\u2e43-\u2e5d]|[\u{10ead}-\u{1e95f}]/u.test(text);
// Hugging Face asks the character map for whole graphemes first, SentencePiece for the longest prefix; and it loses the
// word's begin where a line end is followed by a character that the map makes longer.
const graphemes = new Intl.Segmenter();
const joined = (text) => /\s[ﬁⅧ½]/.test(text) || [...graphemes.segment(text)].some(({segment}) => [...segment].length > 1);
const never = () => false;
let failures = 0;
for (const [name, {keys, json}, excuse] of [
    ["WordPiece, uncased", wordPiece(true, true), newPunctuation], ["WordPiece, cased", wordPiece(false, false), newPunctuation], ["WordPiece, small with accents", wordPiece(true, false), newPunctuation],
    ["unigram", unigram(true, false), joined], ["unigram without a map", unigram(false, false), never], ["unigram with bytes", unigram(true, true), joined],
]) {
    const model = path.join(work, "vocab.gguf");
    writeKeys({"general.architecture": "bert", ...keys}, model);
    const tokenizer = hf.Tokenizer.fromString(JSON.stringify(json)), mine = ours(model);
    let bad = 0, left = 0;
    for (let i = 0; i < texts.length; i++) {
        if (excuse(texts[i])) {
            left++;
            continue;
        }
        const theirs = (await tokenizer.encode(texts[i], null, {addSpecialTokens: true})).getIds();
        if (theirs.length === mine[i].length && theirs.every((id, k) => id === mine[i][k])) continue;
        if (bad++ < 3 || process.env.KT_SHOW) console.log(`FAIL ${name}: ${JSON.stringify(texts[i]).slice(0, 300)}\n  kentang ${mine[i].slice(0, 60)}\n  other   ${theirs.slice(0, 60)}`);
    }
    failures += bad;
    console.log(`${name}: ${texts.length} texts, ${left} left out, ${bad} differ`);
}
console.log(failures ? `${failures} failures` : "all as expected");
process.exit(failures ? 1 : 0);
