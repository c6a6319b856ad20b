// Ids of texts by Hugging Face's own tokenizers (Rust), for published.py:
//   KT_HF_DIR=DIR node ids.mjs TOKENIZER.json < TEXTS.jsonl     one {"with": ids, "without": ids} a line, special tokens added or not
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const {Tokenizer} = createRequire(path.join(path.resolve(process.env.KT_HF_DIR), "package.json"))("@inference-net/tokenizers");
const tokenizer = Tokenizer.fromFile(process.argv[2]);
for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const ids = async (add) => (await tokenizer.encode(JSON.parse(line), null, {addSpecialTokens: add})).getIds();
    fs.writeSync(1, JSON.stringify({with: await ids(true), without: await ids(false)}) + "\n");
}
