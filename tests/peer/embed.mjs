// Embeddings and rankings beside llama.cpp's, of the same file in both engines.
//
//   KT_PEER_DIR=DIR node tests/peer/embed.mjs [--build build] [--only TEXT] [--table]
//
// DIR: an installed copy of ../shared/peer. Every tiny encoder in several types, texts of 1 to 400 tokens: their cosine
// with llama.cpp's vector of the same ids. Scores of pairs: the reranker's logit, which kentang gives as its logistic
// function, within a bound. --table writes the largest distances to docs/MODELS.md. Exit status 1: some comparison failed.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const opt = {build: path.join(root, "build"), only: ""}, table = process.argv.includes("--table");
if (table) process.argv.splice(process.argv.indexOf("--table"), 1);
for (let i = 2; i < process.argv.length; i += 2) {
    const key = process.argv[i].replace(/^--/, "");
    if (!(key in opt) || i + 1 >= process.argv.length) {
        console.error(`embed.mjs: unknown option ${process.argv[i]}; see the head of the file`);
        process.exit(2);
    }
    opt[key] = key === "build" ? path.resolve(process.argv[i + 1]) : process.argv[i + 1];
}
const peer = process.env.KT_PEER_DIR;
if (!peer || !fs.existsSync(path.join(peer, "oracle.mjs"))) {
    console.error("embed.mjs: KT_PEER_DIR must name an installed copy of ../shared/peer");
    process.exit(2);
}
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(
    createRequire(path.join(path.resolve(peer), "package.json")).resolve("node-llama-cpp")));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.disabled, maxThreads: 1});
const kentang = path.join(opt.build, "kentang");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-embed-"));
const words = "the and that for with you this was are have not from they what when can said there model answer house water yang dan tidak ini kentang.".split(" ");
const texts = [1, 2, 5, 14, 15, 30, 31, 33, 62, 64, 100, 200, 255, 258, 390].map((n, k) =>
    Array.from({length: n}, (_, i) => words[(i * 7 + k * 3 + (i * i) % 5) % words.length]).join(" "));

const lines = (argv, input) => {
    const file = path.join(work, "out"), out = fs.openSync(file, "w");
    execFileSync(kentang, argv, {input: input.map((v) => JSON.stringify(v) + "\n").join(""), stdio: ["pipe", out, "inherit"]});
    fs.closeSync(out);
    return fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
};
const cosine = (a, b) => {
    let ab = 0, aa = 0, bb = 0;
    a.forEach((x, i) => {
        ab += x * b[i];
        aa += x * x;
        bb += b[i] * b[i];
    });
    return ab / Math.sqrt(aa * bb);
};

let failed = 0;
const distances = {}; // by preset and type
function report(good, text) {
    if (!good) failed++;
    console.log(`${good ? "PASS" : "FAIL"} ${text}`);
}
// bound: of 1 - cosine. llama.cpp quantises activations to 8 bits in blocks of other sizes.
const cases = [["f32", 1e-5], ["f16", 1e-4], ["q8_0", 1e-3], ["q4_k_m", 1e-2], ["q5_k_m", 5e-3]];
for (const preset of ["tiny-bert", "tiny-nomic-bert", "tiny-nomic-bert-moe", "tiny-modern-bert", "tiny-gemma-embedding", "tiny-qwen3-embedding"]) {
    for (const [quant, bound] of cases) {
        if (!`${preset} ${quant}`.includes(opt.only)) continue;
        const file = path.join(work, "model.gguf");
        execFileSync(kentang, ["synth", "--preset", preset, "--quant", quant, file], {stdio: "ignore"});
        const ids = lines(["tokenize", file, "--add-special"], texts);
        const mine = lines(["embed", file, "--json"], ids);
        const model = await llama.loadModel({modelPath: file});
        const context = await model.createEmbeddingContext({contextSize: 512, batchSize: 512, threads: 1});
        let worst = 1;
        for (let i = 0; i < ids.length; i++) worst = Math.min(worst, cosine(mine[i], (await context.getEmbeddingFor(ids[i])).vector));
        (distances[preset] ??= {})[quant] = 1 - worst;
        report(1 - worst <= bound, `${preset} ${quant}: ${ids.length} texts, least cosine ${worst.toFixed(7)}`);
        await model.dispose();
    }
}
fs.rmSync(work, {recursive: true, force: true});
const page = path.join(root, "docs/MODELS.md");
for (const [preset, by] of table ? Object.entries(distances) : []) {
    const head = `| ${preset.slice("tiny-".length)} | `, figure = (x) => (x === undefined ? "" : x.toExponential(0));
    const put = (line) => (line.startsWith(head)
        ? `${line.split(" | ").slice(0, 2).join(" | ")} | ${figure(by.f32)} | ${figure(by.q8_0)} | ${figure(by.q4_k_m)} |` : line);
    fs.writeFileSync(page, fs.readFileSync(page, "utf8").split("\n").map(put).join("\n"));
}
console.log(failed ? `${failed} failed` : "all as expected");
process.exit(failed ? 1 : 0);
