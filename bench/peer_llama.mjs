// What ../shared/peer/oracle.mjs bench does not time: llama.cpp decoding at a depth, or several streams in one batch.
//
//   KT_PEER_DIR=DIR node bench/peer_llama.mjs MODEL.gguf [--threads N] [--depth N] [--streams N] [--tg N]
//
// Prints {"tg": tokens per second, all streams together}. Straight at llama_decode, as llama-bench does; one warm-up.
import path from "node:path";
import {pathToFileURL} from "node:url";

const entry = path.join(process.env.KT_PEER_DIR ?? "", "node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.resolve(entry)).href);
const [modelPath, ...rest] = process.argv.slice(2);
const opt = {threads: 2, depth: 0, streams: 1, tg: 32, ubatch: 512};
for (let i = 0; i < rest.length; i += 2) opt[rest[i].replace(/^--/, "")] = +rest[i + 1];

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: opt.threads});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({
    contextSize: opt.depth + opt.tg + 8, sequences: opt.streams, batchSize: Math.max(opt.ubatch, opt.streams),
    threads: opt.threads, flashAttention: true,
});
const raw = context._ctx;
raw.setThreads(opt.threads);
const id = (pos, stream) => 100 + (pos * 7919 + stream * 131) % 900;

async function fill(stream) {
    for (let at = 0; at < opt.depth; at += opt.ubatch) {
        const n = Math.min(opt.ubatch, opt.depth - at);
        const ids = Uint32Array.from({length: n}, (_, i) => id(at + i, stream));
        raw.initBatch(n);
        raw.addToBatch(stream, at, ids, Uint32Array.of(n - 1));
        await raw.decodeBatch();
    }
}

async function decode(from, steps) {
    for (let pos = from; pos < from + steps; pos++) {
        raw.initBatch(opt.streams);
        for (let s = 0; s < opt.streams; s++) raw.addToBatch(s, pos, Uint32Array.of(id(pos, s)), Uint32Array.of(0));
        await raw.decodeBatch();
    }
}

for (let s = 0; s < opt.streams; s++) await fill(s);
await decode(opt.depth, 4);
const start = performance.now();
await decode(opt.depth + 4, opt.tg);
const tg = opt.tg * opt.streams / (performance.now() - start) * 1e3;
process.stdout.write(JSON.stringify({...opt, tg: +tg.toFixed(2)}) + "\n");
process.exit(0);
