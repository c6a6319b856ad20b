// Scores of a reranker by llama.cpp, for published.py:
//   KT_PEER_DIR=DIR node rank.mjs MODEL.gguf < IDS.jsonl >SCORES      one array of a pair's ids a line -> a number from 0 to 1 a line
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const {getLlama, LlamaLogLevel} = await import(pathToFileURL(
    createRequire(path.join(path.resolve(process.env.KT_PEER_DIR), "package.json")).resolve("node-llama-cpp")));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 1});
const model = await llama.loadModel({modelPath: process.argv[2]});
const context = await model.createRankingContext({contextSize: 512, batchSize: 512, threads: 1});
for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean))
    fs.writeSync(1, JSON.stringify(await context._evaluateRankingForInput(JSON.parse(line))) + "\n"); // its own way to build a pair is left out
process.exit(0);
