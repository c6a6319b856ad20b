// A tokenizer.json from a GGUF vocabulary: Hugging Face's own form of the tokenizers that the tests compare.
import fs from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const tail = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const cl100k = (word, notWord, digits) =>
    `${contractions}|[^\\r\\n\\p{L}\\p{N}]?${word}+|${digits}| ?[^\\s${notWord}\\p{N}]+[\\r\\n]*${tail}`;
const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const o200k = (c, digits) => `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${c}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${c}` +
    `|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*${tail}`;
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// The stages of a family as convert recognises them: the file's strings are JSON's, too.
const patterns = fs.readFileSync(path.join(root, "src/program/convert/pretok_patterns.def"), "utf8");
const stagesOf = (family) => [...patterns.split(`X(${family}, `)[1].split(/\nX\(/)[0].replace(/, DIGITS\)/, ', "\\\\p{N}")')
    .matchAll(/"(?:[^"\\]|\\.)*"/g)].map(([text]) => JSON.parse(text));
const families = {
    DEEPSEEK_LLM: stagesOf("DEEPSEEK_LLM"),
    DEEPSEEK_CODER: stagesOf("DEEPSEEK_CODER"),
    CL100K: [cl100k("\\p{L}", "\\p{L}", "\\p{N}{1,3}")],
    QWEN2: [cl100k("\\p{L}", "\\p{L}", "\\p{N}")],
    QWEN35: [cl100k("[\\p{L}\\p{M}]", "\\p{L}\\p{M}", "\\p{N}")],
    GPT2: [gpt2],
    DIGITS_GPT2: ["\\p{N}", gpt2],
    O200K: [o200k(`${contractions}?`, "\\p{N}{1,3}")],
    TEKKEN: [o200k("", "\\p{N}")],
    DEEPSEEK3: ["\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
        `| ?[\\p{P}\\p{S}]+[\\r\\n]*${tail}`],
};
export const pres = Object.fromEntries([...fs.readFileSync(path.join(root, "src/lib/tokenizer/pretok.def"), "utf8")
    .matchAll(/^X\("([^"]+)", (\w+), ([^)]*)\)/gm)].map(([, name, family, flags]) => [name, {family, flags}]));

const addedTokens = (tokens, types) => tokens.flatMap((content, id) => [2, 3, 4].includes(types[id]) && content !== "" ?
    [{id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: types[id] !== 4}] : []);

export function tokenizerJson(values, pre) {
    const tokens = values["tokenizer.ggml.tokens"], types = values["tokenizer.ggml.token_type"];
    const json = {version: "1.0", truncation: null, padding: null, added_tokens: addedTokens(tokens, types),
        post_processor: null};
    const model = {type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null,
        end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false};
    if (values["tokenizer.ggml.model"] === "llama")
        return JSON.stringify({...json, ...spmParts(values, tokens, types, model)});
    const {family, flags} = pres[pre];
    const split = (Regex) => ({type: "Split", pattern: {Regex}, behavior: "Isolated", invert: false});
    const bytes = {type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false};
    return JSON.stringify({...json,
        normalizer: flags.includes("NFC") ? {type: "NFC"} : null,
        pre_tokenizer: {type: "Sequence", pretokenizers: [...families[family].map(split), bytes]},
        decoder: bytes,
        model: {...model, ignore_merges: flags.includes("WHOLE"),
            vocab: Object.fromEntries(tokens.flatMap((t, id) => types[id] < 5 ? [[t, id]] : [])),
            merges: values["tokenizer.ggml.merges"]}});
}

// As Hugging Face converts SentencePiece: every split of a piece into two pieces is a merge, best score first.
function spmParts(values, tokens, types, model) {
    const scores = values["tokenizer.ggml.scores"], vocab = new Map(tokens.map((t, id) => [t, id])), merges = [];
    for (const [piece, id] of vocab) {
        const local = [], chars = [...piece];
        for (let i = 1, left = ""; i < chars.length; i++) {
            left += chars[i - 1];
            const right = piece.slice(left.length);
            if (vocab.has(left) && vocab.has(right)) local.push([left, right, scores[id]]);
        }
        local.sort((a, b) => vocab.get(a[0]) - vocab.get(b[0]) || vocab.get(a[1]) - vocab.get(b[1]));
        merges.push(...local);
    }
    merges.sort((a, b) => b[2] - a[2]);
    const prefix = values["tokenizer.ggml.add_space_prefix"] === 0 ? [] : [{type: "Prepend", prepend: "▁"}];
    return {
        normalizer: {type: "Sequence", normalizers: [...prefix, {type: "Replace", pattern: {String: " "}, content: "▁"}]},
        pre_tokenizer: null,
        decoder: {type: "Sequence", decoders: [{type: "Replace", pattern: {String: "▁"}, content: " "},
            {type: "ByteFallback"}, {type: "Fuse"}]},
        model: {...model, unk_token: tokens[values["tokenizer.ggml.unknown_token_id"]], fuse_unk: true, byte_fallback: true,
            vocab: Object.fromEntries(vocab), merges: merges.map(([l, r]) => [l, r])},
    };
}
