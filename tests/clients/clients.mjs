// The official clients against a running server, unmodified: node clients.mjs http://127.0.0.1:PORT
// Each must get the same text for the same seed, streaming and not.
import assert from "node:assert/strict";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, streamText } from "ai";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";

const base = process.argv[2];
const question = [{ role: "user", content: "Tell me a story about a cat." }];
const asked = { model: "demo", messages: question, seed: 7, max_tokens: 60 };
let passed = 0;

async function test(name, body) {
  await body();
  passed++;
  console.log(`ok ${name}`);
}

const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
let text;

await test("openai: chat", async () => {
  const r = await openai.chat.completions.create(asked);
  text = r.choices[0].message.content;
  assert.ok(text.length > 20);
  assert.equal(r.object, "chat.completion");
  assert.ok(["stop", "length"].includes(r.choices[0].finish_reason));
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});

await test("openai: chat, streamed, with usage", async () => {
  const stream = await openai.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  let got = "",
    usage = null,
    finish = null;
  for await (const chunk of stream) {
    got += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(got, text);
  assert.ok(usage.completion_tokens > 0 && finish);
});

await test("openai: the streaming helper", async () => {
  const runner = openai.chat.completions.stream({ ...asked });
  assert.equal((await runner.finalMessage()).content, text);
});

await test("openai: several choices, logprobs, stop, logit_bias", async () => {
  const r = await openai.chat.completions.create({
    ...asked,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    stop: ["\n\n"],
    logit_bias: { 0: -100 },
  });
  assert.equal(r.choices.length, 2);
  assert.equal(r.choices[1].index, 1);
  assert.equal(r.choices[0].logprobs.content[0].top_logprobs.length, 3);
});

await test("openai: completions", async () => {
  const r = await openai.completions.create({ model: "demo", prompt: "Once upon", max_tokens: 5 });
  assert.equal(typeof r.choices[0].text, "string");
  const stream = await openai.completions.create({
    model: "demo",
    prompt: "Once upon",
    max_tokens: 5,
    stream: true,
  });
  let n = 0;
  for await (const chunk of stream) n += chunk.choices.length;
  assert.ok(n > 0);
});

await test("openai: completions of several prompts", async () => {
  const options = { model: "demo", max_tokens: 5, seed: 7, n: 2 };
  const prompt = ["Once upon", "The dog", "Once upon"];
  const r = await openai.completions.create({ ...options, prompt });
  assert.deepEqual(r.choices.map((c) => c.index), [0, 1, 2, 3, 4, 5]);
  assert.equal(r.choices[0].text, r.choices[4].text);
  const got = Array(6).fill("");
  const stream = await openai.completions.create({ ...options, prompt, stream: true });
  for await (const chunk of stream) for (const c of chunk.choices) got[c.index] += c.text;
  assert.deepEqual(got, r.choices.map((c) => c.text));
});

await test("openai: responses", async () => {
  const options = { model: "demo", input: question, max_output_tokens: 60, seed: 7 };
  const whole = await openai.responses.create(options);
  assert.equal(whole.output_text, text);
  assert.equal(whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens);
  assert.equal((await openai.responses.create({ ...options, input: question[0].content })).output_text, text);
  let got = "";
  const stream = await openai.responses.create({ ...options, stream: true });
  for await (const event of stream) if (event.type === "response.output_text.delta") got += event.delta;
  assert.equal(got, text);
  const final = await openai.responses.stream(options).finalResponse();
  assert.equal(final.output_text, text);
  assert.deepEqual(final.usage.output_tokens, whole.usage.output_tokens);
  await assert.rejects(
    openai.responses.create({ ...options, previous_response_id: whole.id }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === "previous_response_id",
  );
});

await test("openai: embeddings and models", async () => {
  const r = await openai.embeddings.create({ model: "demo", input: ["a", "b"] });
  assert.equal(r.data.length, 2);
  assert.ok(r.data[0].embedding.length > 8);
  const models = await openai.models.list();
  assert.equal(models.data[0].id, "demo");
});

await test("openai: errors have their classes", async () => {
  await assert.rejects(openai.chat.completions.create({ ...asked, model: "none" }), OpenAI.NotFoundError);
  await assert.rejects(
    openai.chat.completions.create({ ...asked, temperature: "hot" }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature",
  );
  await assert.rejects(
    openai.chat.completions.create({
      ...asked,
      tools: [{ type: "function", function: { name: "f", parameters: {} } }],
    }),
    OpenAI.BadRequestError,
  );
});

await test("openai: abort", async () => {
  const controller = new AbortController();
  const stream = await openai.chat.completions.create(
    { ...asked, max_tokens: 900, ignore_eos: true, stream: true },
    { signal: controller.signal },
  );
  for await (const _ of stream) {
    controller.abort();
    break;
  }
});

await test("ai-sdk: generateText and streamText", async () => {
  const provider = createOpenAICompatible({ name: "kentang", baseURL: `${base}/v1`, includeUsage: true });
  const options = { model: provider("demo"), messages: question, seed: 7, maxOutputTokens: 60, maxRetries: 0 };
  const whole = await generateText(options);
  assert.equal(whole.text, text);
  assert.ok(whole.usage.outputTokens > 0);
  const stream = streamText(options);
  let got = "";
  for await (const part of stream.textStream) got += part;
  assert.equal(got, text);
  assert.ok((await stream.usage).inputTokens > 0);
  const { embeddings } = await embedMany({
    model: provider.embeddingModel?.("demo") ?? provider.textEmbeddingModel("demo"),
    values: ["a", "b"],
  });
  assert.equal(embeddings.length, 2);
});

await test("langchain: invoke, stream, embeddings", async () => {
  const configuration = { baseURL: `${base}/v1` };
  const chat = new ChatOpenAI({
    model: "demo",
    apiKey: "none",
    configuration,
    maxTokens: 60,
    maxRetries: 0,
    modelKwargs: { seed: 7 },
  });
  const whole = await chat.invoke([["user", question[0].content]]);
  assert.equal(whole.content, text);
  let got = "";
  for await (const chunk of await chat.stream([["user", question[0].content]])) got += chunk.content;
  assert.equal(got, text);
  const embeddings = new OpenAIEmbeddings({ model: "demo", apiKey: "none", configuration, maxRetries: 0 });
  assert.equal((await embeddings.embedDocuments(["a", "b"])).length, 2);
});

await test("anthropic: messages, streamed and not", async () => {
  const anthropic = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
  const options = { model: "demo", max_tokens: 60, messages: question, temperature: 0 };
  const whole = await anthropic.messages.create(options);
  assert.equal(whole.content[0].type, "text");
  assert.ok(whole.usage.output_tokens > 0);
  const stream = anthropic.messages.stream(options);
  const final = await stream.finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  assert.equal(final.stop_reason, whole.stop_reason);
  await assert.rejects(anthropic.messages.create({ ...options, model: "none" }), Anthropic.NotFoundError);
  await assert.rejects(
    anthropic.messages.create({ ...options, thinking: { type: "enabled", budget_tokens: 1024 } }),
    (e) => e instanceof Anthropic.BadRequestError && e.error.error.type === "invalid_request_error",
  );
  const { input_tokens } = await anthropic.messages.countTokens({ model: "demo", messages: question });
  const seen = [];
  const events = await anthropic.messages.create({
    ...options,
    system: [{ type: "text", text: "Be brief." }],
    stop_sequences: ["#~#", "e"],
    stream: true,
  });
  for await (const event of events) {
    if (event.type !== seen.at(-1)?.type) seen.push(event);
  }
  assert.deepEqual(
    seen.map((e) => e.type).filter((t) => t !== "content_block_delta"),
    ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"],
  );
  assert.ok(seen[0].message.usage.input_tokens > input_tokens);
  const delta = seen.find((e) => e.type === "message_delta");
  assert.equal(delta.delta.stop_reason, "stop_sequence");
  assert.equal(delta.delta.stop_sequence, "e");
  assert.ok(delta.usage.output_tokens > 0);
});

await test("ollama: chat, generate, list", async () => {
  const ollama = new Ollama({ host: base });
  const options = { seed: 7, num_predict: 60 };
  const whole = await ollama.chat({ model: "demo", messages: question, options });
  assert.equal(whole.message.content, text);
  let got = "";
  for await (const part of await ollama.chat({ model: "demo", messages: question, options, stream: true }))
    got += part.message.content;
  assert.equal(got, text);
  const generated = await ollama.generate({ model: "demo", prompt: question[0].content, options });
  assert.equal(generated.response, text);
  assert.equal((await ollama.list()).models[0].name, "demo");
  await assert.rejects(ollama.chat({ model: "none", messages: question }));
  assert.equal((await ollama.show({ model: "demo:latest" })).capabilities[0], "completion");
  assert.equal((await ollama.ps()).models[0].name, "demo");
  assert.equal((await ollama.embed({ model: "demo", input: ["a", "b"] })).embeddings.length, 2);
  assert.ok((await ollama.version()).version);
  const kept = await ollama.chat({ model: "demo", messages: question, options, keep_alive: "5m", think: false });
  assert.equal(kept.message.content, text);
  assert.equal((await ollama.generate({ model: "demo", prompt: "" })).done_reason, "load");
});

console.log(`${passed} passed`);
