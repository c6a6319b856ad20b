// What ../shared/peer/oracle.mjs bench does not time: llama.cpp decoding at a depth, or several streams in one batch.
//
//   KT_PEER_DIR=DIR node bench/peer_llama.mjs MODEL.gguf [--threads N] [--depth N] [--streams N] [--tg N] [--kv f16|q8_0|q4_0]
//       [--turns N]
//
// Prints {"tg": tokens per second, all streams together}. Straight at llama_decode, as llama-bench does; one warm-up.
// --turns: says {"depth": N} when it is there, then generates each time that a line comes, N times, from the same depth.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";

const entry = path.join(process.env.KT_PEER_DIR ?? "", "node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.resolve(entry)).href);
const [modelPath, ...rest] = process.argv.slice(2);
const opt = {threads: 2, depth: 0, streams: 1, tg: 32, ubatch: 512, kv: "f16", turns: 0};
for (let i = 0; i < rest.length; i += 2) opt[rest[i].replace(/^--/, "")] = isNaN(rest[i + 1]) ? rest[i + 1] : +rest[i + 1];

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: opt.threads});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({
    contextSize: opt.depth + opt.tg * Math.max(opt.turns, 1) + 8, sequences: opt.streams, batchSize: Math.max(opt.ubatch, opt.streams),
    threads: opt.threads, flashAttention: true,
    experimentalKvCacheKeyType: opt.kv.toUpperCase(), experimentalKvCacheValueType: opt.kv.toUpperCase(),
});
const raw = context._ctx;
raw.setThreads(opt.threads);
const id = (pos, stream) => 100 + (pos * 7919 + stream * 131) % 900;

// One batch is computed; the depth is its keys and values over and over, at rising positions: what a step takes depends on how many there
// are, not on what they hold, and the prompt itself takes llama.cpp hours at 32k.
async function fill(stream) {
    const n = Math.min(opt.ubatch, opt.depth);
    if (!n) return;
    const ids = Uint32Array.from({length: n}, (_, i) => id(i, stream));
    raw.initBatch(n);
    raw.addToBatch(stream, 0, ids, Uint32Array.of(n - 1));
    await raw.decodeBatch();
    if (opt.depth === n) return;
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-peer-"));
    try {
        const [batch, whole] = ["batch", "whole"].map((name) => path.join(dir, name));
        await raw.saveSequenceStateToFile(batch, stream, ids);
        repeatState(fs.readFileSync(batch), n, whole);
        raw.disposeSequence(stream);
        await raw.loadSequenceStateFromFile(whole, stream, opt.depth);
    } finally {
        fs.rmSync(dir, {recursive: true, force: true});
    }
}

// A sequence's file: magic, version, the tokens with their count, streams (one), cells, then a position and the sequences that hold it for each
// cell; whether values lie transposed (not with flash attention), layers, and for each layer's keys, then each layer's values, type,
// bytes a cell, cells.
function repeatState(state, n, file) {
    const out = fs.openSync(file, "w");
    const write = (bytes) => fs.writeSync(out, bytes), words = (...values) => write(Buffer.from(Uint32Array.from(values).buffer));
    let at = 0;
    const take = (bytes) => state.subarray(at, at += bytes);
    write(take(8));
    take(4 + 4 * n);
    words(opt.depth, ...Array.from({length: opt.depth}, (_, i) => 100 + i % 900));
    write(take(4));
    take(4);
    words(opt.depth);
    const cell = take(12 * n);
    for (let i = 0; i < opt.depth; i++) words(i, 1, cell.readUInt32LE(8));
    const layers = state.readUInt32LE(at + 4);
    write(take(8));
    for (let i = 0; i < 2 * layers; i++) {
        const head = take(12), rows = take(n * head.readUInt32LE(4));
        write(head);
        for (let done = 0; done < opt.depth; done += n) write(rows.subarray(0, rows.length / n * Math.min(n, opt.depth - done)));
    }
    fs.closeSync(out);
}

async function decode(from, steps) {
    for (let pos = from; pos < from + steps; pos++) {
        raw.initBatch(opt.streams);
        for (let s = 0; s < opt.streams; s++) raw.addToBatch(s, pos, Uint32Array.of(id(pos, s)), Uint32Array.of(0));
        await raw.decodeBatch();
    }
}

async function measure(from) {
    const start = performance.now();
    await decode(from, opt.tg);
    return +(opt.tg * opt.streams / (performance.now() - start) * 1e3).toFixed(2);
}

const say = (what) => new Promise((done) => process.stdout.write(JSON.stringify(what) + "\n", done));
for (let s = 0; s < opt.streams; s++) await fill(s);
await decode(opt.depth, 4);
if (!opt.turns) await say({...opt, tg: await measure(opt.depth + 4)});
if (opt.turns) await say({depth: opt.depth});
for (let i = 0; i < opt.turns; i++) {
    await new Promise((done) => process.stdin.once("data", done));
    await say({tg: await measure(opt.depth + 4 + i * opt.tg)});
}
process.exit(0);
