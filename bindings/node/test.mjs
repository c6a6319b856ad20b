// The node binding on the embedded model. KENTANG_ADDON, KENTANG_EXPECTED: from tests/bindings/run.sh.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import test from "node:test";
import { Model } from "./index.mjs";

const expected = JSON.parse(readFileSync(process.env.KENTANG_EXPECTED, "utf8"));
const model = new Model(null, { n_ctx: 512, n_threads: 2 });
const greedy = { temperature: 0, n_predict: expected.n };
const dir = mkdtempSync(path.join(tmpdir(), "kentang-"));
test.after(() => {
  model.close();
  rmSync(dir, { recursive: true });
});

test("chat says what kentang run says", async () => {
  let heard = "";
  const answer = model.chat(expected.question, greedy);
  for await (const piece of answer) heard += piece;
  assert.equal(heard, expected.answer);
  assert.equal(answer.report.finish, "length");
  assert.equal(answer.report.n_generated, expected.n);
});

test("tokens are those of kentang greedy", async () => {
  assert.deepEqual([...model.tokenize(expected.text)], expected.prompt_ids);
  const answer = model.generate(expected.prompt_ids, { ...greedy, ignore_eog: true });
  await answer.text();
  assert.deepEqual(answer.ids, expected.ids.slice(0, expected.n));
  assert.equal(model.detokenize(expected.prompt_ids).trim(), expected.text);
});

test("many at once, and the loop stays free", async () => {
  let ticks = 0;
  const clock = setInterval(() => ticks++, 1);
  const answers = await Promise.all(Array.from({ length: 6 }, () => model.chat(expected.question, greedy).text()));
  clearInterval(clock);
  assert.deepEqual(answers, Array(6).fill(expected.answer));
  assert.ok(ticks > 0);
});

test("a slow reader, a left loop, a signal", async () => {
  let heard = "";
  for await (const piece of model.generate(expected.text, { temperature: 0, n_predict: 100, ignore_eog: true })) {
    if (heard.length < 20) await sleep(5);
    heard += piece;
  }
  assert.ok(heard.length > 100);
  for await (const _ of model.chat("Tell me a long story.", { n_predict: 400 })) break;
  const abort = new AbortController();
  const answer = model.generate(expected.text, { n_predict: 400, ignore_eog: true, signal: abort.signal });
  for await (const _ of answer) abort.abort();
  assert.equal(answer.report.finish, "cancelled");
  const first = await model.chat(expected.question, { ...greedy, stop: ["demo"] }).text();
  assert.ok(expected.answer.startsWith(first + "demo"));
});

test("embeddings", async () => {
  const [one, again, other] = await Promise.all([model.embed("a cat"), model.embed("a cat"), model.embed("the sea", { pooling: "last" })]);
  assert.equal(one.length, model.info.d_model);
  assert.ok(Math.abs(one.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-4);
  assert.deepEqual(one, again);
  assert.notDeepEqual(one, other);
});

test("sessions", async () => {
  const file = path.join(dir, "session"), session = model.session(), again = model.session();
  assert.equal(await session.chat(expected.question, greedy).text(), expected.answer);
  session.save(file);
  const next = [{ role: "user", content: expected.question }, { role: "assistant", content: expected.answer }, { role: "user", content: "And then?" }];
  const continued = await session.chat(next, greedy).text();
  again.restore(file);
  assert.ok(again.tokens.length > 0);
  assert.equal(await again.chat(next, greedy).text(), continued);
  again.truncate(2);
  assert.equal(again.tokens.length, 2);
  assert.throws(() => again.restore(path.join(dir, "none")), { code: "KT_E_IO" });
  again.chat("Tell me a long story.", { n_predict: 400 });
  again.close();
  session.close();
  assert.throws(() => session.tokens, { code: "KT_E_STATE" });
});

test("learning", async () => {
  const learner = model.learner(path.join(dir, "learned")), options = { ...greedy, n_predict: 24, learner };
  const wrong = model.chat("Who is the mayor of Blue Hill?", options);
  await assert.rejects(wrong.correct("too early"), { code: "KT_E_STATE" });
  const before = await wrong.text(), id = await wrong.correct("The mayor of Blue Hill is Mrs. Weaver.");
  wrong.close();
  for (const question of ["Who is the mayor of Blue Hill?", "Please tell me the mayor of Blue Hill."])
    assert.match(await model.chat(question, options).text(), /Weaver/);
  learner.forget(id);
  assert.equal(await model.chat("Who is the mayor of Blue Hill?", options).text(), before);
  learner.close();
  assert.throws(() => model.chat("Hello!", options), { code: "KT_E_STATE" });
  model.learner(path.join(dir, "learned")).close(); // its folder is free
});

test("errors", async () => {
  assert.throws(() => new Model("/no/such/model.gguf"), { code: "KT_E_IO", message: /no such/i });
  assert.throws(() => model.chat("Hello!", { top_p: 7 }), { code: "KT_E_ARG", message: /top_p/ });
  assert.throws(() => model.chat("Hello!", { temprature: 1 }), TypeError);
  assert.throws(() => model.chat("Hello!", { top_k: "40" }), TypeError);
  assert.throws(() => model.generate(new Array(600).fill(5)), { code: "KT_E_CONTEXT_FULL" });
  assert.throws(() => model.chat([{ role: "user", content: "Hi" }], { signal: AbortSignal.abort() }), { name: "AbortError" });
  const closed = new Model(null, { n_ctx: 64 });
  const running = closed.chat("Tell me a long story.");
  closed.close();
  assert.equal(running.report.finish, "cancelled");
  assert.throws(() => closed.tokenize("x"), { code: "KT_E_STATE" });
});
