// Language models in this process, through libkentang. What options mean is said in kentang.h, whose names they have.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

// The npm package has an addon for each system it is made for, a checkout the one that build.sh made.
const prebuilt = `./${process.platform}-${process.arch}/kentang.node`;
const addon = createRequire(import.meta.url)(
  process.env.KENTANG_ADDON ?? (existsSync(new URL(prebuilt, import.meta.url)) ? prebuilt : "./kentang.node"));

export const version = addon.version;

const POOLING = { mean: 1, last: 2, cls: 3, rank: 4, model: 5 };
const ADD_SPECIAL = 1;
const PARSE_SPECIAL = 2;

/** An answer on its way: `for await` over it gives its text, leaving the loop ends it; `await answer.text()` is the whole. */
export class Answer {
  #request;
  #wake = () => {};
  #ended;
  ids = [];
  report;

  constructor(engine, kind, prompt, { stop = [], pooling = 0, signal, ...options }, ended) {
    signal?.throwIfAborted();
    this.#request = addon.submit(engine, kind, prompt, pooling, [stop].flat(), options, () => this.#wake());
    this.#ended = ended;
    signal?.addEventListener("abort", () => this.cancel(), { once: true });
  }

  async #event() {
    for (;;) {
      const woken = new Promise((resolve) => (this.#wake = resolve));
      const event = this.#request ? addon.next(this.#request) : this.report;
      if (event) return event;
      await woken;
    }
  }

  async *[Symbol.asyncIterator]() {
    try {
      while (!this.report) {
        const event = await this.#event();
        if (event.id >= 0) this.ids.push(event.id);
        if (event.text) yield event.text;
        if (event.error) throw event.error;
        if (event.finish) this.report = event;
      }
    } finally {
      this.close();
    }
  }

  async text() {
    let text = "";
    for await (const piece of this) text += piece;
    return text;
  }

  /** It ends soon, with what it has: report.finish is "cancelled". */
  cancel() {
    if (this.#request) addon.cancel(this.#request);
  }

  close() {
    if (!this.#request) return;
    this.report ??= { finish: "cancelled" };
    addon.close(this.#request);
    this.#ended(this);
    this.#request = null;
    this.#wake();
  }
}

export class Model {
  #engine;
  #answers = new Set();

  /** path: a GGUF file; without one, the model inside the library. */
  constructor(path = null, options = {}) {
    this.#engine = addon.open(path, options);
  }

  get #open() {
    if (this.#engine) return this.#engine;
    throw Object.assign(new Error("the model is closed"), { code: "KT_E_STATE" });
  }

  get info() {
    return addon.describe(this.#open);
  }

  #answer(kind, prompt, options) {
    const answer = new Answer(this.#open, kind, prompt, options, (ended) => this.#answers.delete(ended));
    this.#answers.add(answer);
    return answer;
  }

  /** messages: a text, or [{role, content}, ...] */
  chat(messages, options = {}) {
    if (typeof messages === "string") messages = [{ role: "user", content: messages }];
    return this.#answer("chat", JSON.stringify(messages), options);
  }

  /** prompt: a text, or token ids; it is continued as it is */
  generate(prompt, options = {}) {
    return typeof prompt === "string"
      ? this.#answer("text", prompt, options)
      : this.#answer("ids", Int32Array.from(prompt), options);
  }

  /** A Float32Array of length 1. */
  async embed(text, { pooling = "mean", ...options } = {}) {
    const answer = this.#answer("text", text, { ...options, pooling: POOLING[pooling] });
    await answer.text();
    return answer.report.embedding;
  }

  tokenize(text, { special = false } = {}) {
    return addon.tokenize(this.#open, text, special ? ADD_SPECIAL | PARSE_SPECIAL : 0);
  }

  detokenize(ids) {
    return addon.detokenize(this.#open, Int32Array.from(ids));
  }

  /** Ends what still runs. */
  close() {
    for (const answer of [...this.#answers]) answer.close();
    this.#engine = null;
  }
}
