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

const stateError = (message) => Object.assign(new Error(message), { code: "KT_E_STATE" });
const handles = new WeakMap(); // of sessions and learners
const handleOf = (object) => {
  const handle = handles.get(object);
  if (!handle) throw stateError("it is closed");
  return handle;
};
const closeResource = (object) => {
  if (handles.has(object)) addon.closeResource(handles.get(object));
  handles.delete(object);
};

/** An answer on its way: `for await` over it gives its text, leaving the loop ends it; `await answer.text()` is the whole. */
export class Answer {
  #request;
  #learner;
  #wake = () => {};
  #ended;
  ids = [];
  report;

  constructor(engine, kind, prompt, { stop = [], pooling = 0, signal, learner, notes = true, ...options }, ended, session = null) {
    signal?.throwIfAborted();
    this.#learner = learner ? handleOf(learner) : null;
    this.#request = addon.submit(engine, kind, prompt, pooling, [stop].flat(), options, () => this.#wake(), session, this.#learner, notes);
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
    let over = false;
    try {
      while (!this.report) {
        const event = await this.#event();
        if (event.id >= 0) this.ids.push(event.id);
        if (event.text) yield event.text;
        if (event.error) throw event.error;
        if (event.finish) this.report = event;
      }
      over = true;
    } finally {
      if (!over || !this.#learner) this.close(); // one that may be corrected stays until it is closed
    }
  }

  async #say(score, correction) {
    if (!this.#learner || !this.#request) throw stateError("the answer was made without a learner, or is closed");
    return addon.say(this.#request, this.#learner, score, correction);
  }

  /** What the answer, which is over, should have been; gives the feedback's id. */
  correct(text) {
    return this.#say(0, text);
  }

  /** How good it is, from 0 to 1. */
  rate(score) {
    return this.#say(score, null);
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

const jsonOf = (messages) => JSON.stringify(typeof messages === "string" ? [{ role: "user", content: messages }] : messages);

export class Session {
  #answer;
  #last; // the one that runs, if any does

  /** Model.session makes them. */
  constructor(handle, answer) {
    handles.set(this, handle);
    this.#answer = answer;
  }

  /** What it holds of the conversation's beginning is not computed again; what it holds otherwise goes. */
  chat(messages, options = {}) {
    return (this.#last = this.#answer("chat", jsonOf(messages), options, handleOf(this)));
  }

  /** Continues all that it holds, and then the text. */
  generate(text, options = {}) {
    return (this.#last = this.#answer("text", text, options, handleOf(this)));
  }

  get tokens() {
    return addon.sessionTokens(handleOf(this));
  }

  /** Keeps the first n tokens. */
  truncate(n) {
    addon.truncateSession(handleOf(this), n);
  }

  /** To a file, whole or not at all. */
  save(path) {
    addon.saveSession(handleOf(this), path);
  }

  /** What was saved with the same model: it continues with the same bytes. */
  restore(path) {
    addon.restoreSession(handleOf(this), path);
  }

  /** Ends its answer where that still runs. */
  close() {
    this.#last?.close();
    closeResource(this);
  }
}

export class Learner {
  /** Model.learner makes them. */
  constructor(handle) {
    handles.set(this, handle);
  }

  /** Takes a feedback back: no byte of it stays on disk. */
  forget(id) {
    addon.forget(handleOf(this), id);
  }

  /** Its folder is free once feedback that is on its way has come. */
  close() {
    closeResource(this);
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
    throw stateError("the model is closed");
  }

  get info() {
    return addon.describe(this.#open);
  }

  #answer(kind, prompt, options, session = null) {
    const answer = new Answer(this.#open, kind, prompt, options, (ended) => this.#answers.delete(ended), session);
    this.#answers.add(answer);
    return answer;
  }

  /** A conversation whose tokens, and what was computed of them, stay from one answer to the next, and may be saved. */
  session() {
    return new Session(addon.openSession(this.#open), (kind, prompt, options, handle) => this.#answer(kind, prompt, options, handle));
  }

  /** A folder of what was said of answers: the option `learner` of those that it counts for, and that may be corrected. */
  learner(folder) {
    return new Learner(addon.openLearner(this.#open, folder));
  }

  /** messages: a text, or [{role, content}, ...] */
  chat(messages, options = {}) {
    return this.#answer("chat", jsonOf(messages), options);
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
