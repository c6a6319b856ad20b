// The official clients against a running server, unmodified: node clients.mjs http://127.0.0.1:PORT
// Each must get the same text for the same seed, streaming and not.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenAI } from "@ai-sdk/openai";
import { embedMany, generateObject, generateText, streamText, tool } from "ai";
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

await test("openai: timings", async () => {
  const t = (await openai.chat.completions.create(asked)).timings;
  const parts = ["queue_ms", "tokenize_ms", "prefill_ms", "decode_ms", "sample_ms", "wait_ms", "held_ms"];
  const sum = parts.reduce((all, part) => all + t[part], 0);
  assert.ok(Math.abs(sum - t.total_ms) <= 0.02 * t.total_ms);
});

await test("openai: several conversations in one request", async () => {
  const other = [{ role: "user", content: "Tell me a story about a dog." }];
  const r = await openai.chat.completions.create({ ...asked, messages: [question, other] });
  assert.equal(r.choices[0].message.content, text);
  const alone = await openai.chat.completions.create({ ...asked, messages: other });
  assert.equal(r.choices[1].message.content, alone.choices[0].message.content);
});

await test("openai: files and batches", async () => {
  const lines = [7, 8].map((n) => JSON.stringify({
    custom_id: `c${n}`,
    method: "POST",
    url: "/v1/chat/completions",
    body: n === 7 ? asked : { ...asked, max_tokens: "many" },
  }));
  const file = await openai.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"), purpose: "batch" });
  assert.equal((await openai.files.retrieve(file.id)).filename, "in.jsonl");
  let batch = await openai.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  for (let i = 0; i < 200 && !["completed", "failed"].includes(batch.status); i++) {
    await new Promise((next) => setTimeout(next, 50));
    batch = await openai.batches.retrieve(batch.id);
  }
  assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
  const good = JSON.parse(await (await openai.files.content(batch.output_file_id)).text());
  assert.equal(good.custom_id, "c7");
  assert.equal(good.response.body.choices[0].message.content, text);
  const bad = JSON.parse(await (await openai.files.content(batch.error_file_id)).text());
  assert.equal(bad.response.body.error.param, "max_tokens");
  assert.ok((await openai.batches.list()).data.some((b) => b.id === batch.id));
  assert.ok((await openai.files.list()).data.length >= 3);
  const second = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
  await openai.batches.cancel(second.id);
  assert.equal((await openai.files.delete(file.id)).deleted, true);
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
      tools: [{ type: "function", function: { name: "a b", parameters: {} } }],
    }),
    (e) => e instanceof OpenAI.BadRequestError && e.param.startsWith("tools[0]"),
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
    anthropic.messages.create({ ...options, thinking: { type: "perhaps" } }),
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

// ---- tools, schemas and reasoning ----

const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    strict: true,
    parameters: {
      type: "object",
      properties: { city: { type: "string", enum: ["Rome", "Oslo"] }, days: { type: "integer", enum: [1, 2, 3] } },
      required: ["city", "days"],
      additionalProperties: false,
    },
  },
};
const forced = { type: "function", function: { name: "weather" } };
const goodArguments = (a) => assert.ok(["Rome", "Oslo"].includes(a.city) && [1, 2, 3].includes(a.days), JSON.stringify(a));

await test("openai: a forced call, whole and streamed", async () => {
  const options = { ...asked, tools: [weather], tool_choice: forced, max_tokens: 200 };
  const r = await openai.chat.completions.create(options);
  const [call] = r.choices[0].message.tool_calls;
  assert.equal(r.choices[0].finish_reason, "tool_calls");
  assert.equal(call.function.name, "weather");
  goodArguments(JSON.parse(call.function.arguments));
  const runner = openai.chat.completions.stream(options);
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  assert.equal(final.choices[0].message.tool_calls[0].id, call.id);
  goodArguments(final.choices[0].message.tool_calls[0].function.parsed_arguments);
});

await test("openai: required, parallel calls, and their results sent back", async () => {
  const r = await openai.chat.completions.create({
    ...asked,
    tools: [weather],
    tool_choice: "required",
    parallel_tool_calls: false,
    max_tokens: 200,
  });
  const { message } = r.choices[0];
  assert.equal(message.tool_calls.length, 1);
  const next = await openai.chat.completions.create({
    ...asked,
    tools: [weather],
    tool_choice: "none",
    messages: [
      ...question,
      message,
      { role: "tool", tool_call_id: message.tool_calls[0].id, content: "rain" },
    ],
  });
  assert.equal(typeof next.choices[0].message.content, "string");
  assert.equal(next.choices[0].message.tool_calls, undefined);
  await assert.rejects(
    openai.chat.completions.create({
      ...asked,
      messages: [...question, message, { role: "tool", tool_call_id: "call_none", content: "rain" }],
    }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === "messages[2].tool_call_id",
  );
});

await test("openai: runTools", async () => {
  const seen = [];
  const runner = openai.chat.completions.runTools(
    {
      ...asked,
      max_tokens: 200,
      tool_choice: forced,
      tools: [
        {
          type: "function",
          function: {
            ...weather.function,
            parse: JSON.parse,
            function: (a) => {
              goodArguments(a);
              seen.push(a);
              return "It rains.";
            },
          },
        },
      ],
    },
    { maxChatCompletions: 2 },
  );
  await runner.done();
  assert.ok(seen.length >= 1);
});

await test("openai: zodResponseFormat, parse", async () => {
  const r = await openai.chat.completions.parse({
    ...asked,
    max_tokens: 300,
    response_format: zodResponseFormat(z.object({ mood: z.enum(["good", "bad"]), n: z.literal(3) }), "mood"),
  });
  assert.ok(["good", "bad"].includes(r.choices[0].message.parsed.mood));
});

await test("openai: responses with a forced call, items sent back, a schema", async () => {
  const options = {
    model: "demo",
    input: question,
    seed: 7,
    max_output_tokens: 200,
    tools: [{ type: "function", ...weather.function }, { type: "web_search" }],
    tool_choice: { type: "function", name: "weather" },
  };
  const r = await openai.responses.create(options);
  const call = r.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "weather");
  goodArguments(JSON.parse(call.arguments));
  assert.ok(r.kentang.notes.some((note) => note.includes("web_search")));
  const final = await openai.responses.stream(options).finalResponse();
  assert.equal(final.output.find((item) => item.type === "function_call").arguments, call.arguments);
  const next = await openai.responses.create({
    ...options,
    tool_choice: "none",
    input: [...question, ...r.output, { type: "function_call_output", call_id: call.call_id, output: "rain" }],
  });
  assert.equal(typeof next.output_text, "string");
  const parsed = await openai.responses.parse({
    model: "demo",
    input: question,
    max_output_tokens: 300,
    text: { format: zodTextFormat(z.object({ mood: z.enum(["good", "bad"]) }), "mood") },
  });
  assert.ok(["good", "bad"].includes(parsed.output_parsed.mood));
});

await test("ai-sdk: generateObject, and streamText with tools", async () => {
  const provider = createOpenAICompatible({
    name: "kentang",
    baseURL: `${base}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
  const schema = z.object({ mood: z.enum(["good", "bad"]) });
  for (const model of [provider("demo"), createOpenAI({ baseURL: `${base}/v1`, apiKey: "none" })("demo")]) {
    const options = { model, messages: question, maxOutputTokens: 200, maxRetries: 0 };
    const { object } = await generateObject({ ...options, schema });
    assert.ok(["good", "bad"].includes(object.mood));
    const calls = [];
    const stream = streamText({
      ...options,
      tools: {
        weather: tool({
          description: "The weather",
          inputSchema: z.object({ city: z.enum(["Rome", "Oslo"]) }),
          execute: async (a) => {
            calls.push(a);
            return "rain";
          },
        }),
      },
      toolChoice: { type: "tool", toolName: "weather" },
    });
    const kinds = [];
    for await (const part of stream.fullStream) {
      if (part.type === "error") throw part.error;
      kinds.push(part.type);
    }
    assert.ok(kinds.includes("tool-call") && kinds.includes("tool-result"), kinds.join());
    assert.ok(["Rome", "Oslo"].includes(calls[0].city));
    assert.equal(await stream.finishReason, "tool-calls");
  }
});

await test("langchain: withStructuredOutput and bindTools", async () => {
  const chat = new ChatOpenAI({
    model: "demo",
    apiKey: "none",
    configuration: { baseURL: `${base}/v1` },
    maxTokens: 300,
    maxRetries: 0,
    temperature: 0,
  });
  const schema = z.object({ mood: z.enum(["good", "bad"]) });
  for (const method of ["jsonSchema", "functionCalling"]) {
    const found = await chat.withStructuredOutput(schema, { name: "mood", method }).invoke(question[0].content);
    assert.ok(["good", "bad"].includes(found.mood), method);
  }
  const bound = chat.bindTools([weather], { tool_choice: "weather" });
  const message = await bound.invoke(question[0].content);
  goodArguments(message.tool_calls[0].args);
  let joined;
  for await (const chunk of await bound.stream(question[0].content)) joined = joined ? joined.concat(chunk) : chunk;
  assert.deepEqual(joined.tool_calls[0].args, message.tool_calls[0].args);
});

await test("anthropic: a tool loop", async () => {
  const anthropic = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
  const options = {
    model: "demo",
    max_tokens: 200,
    messages: question,
    tools: [{ name: "weather", input_schema: weather.function.parameters }],
    tool_choice: { type: "tool", name: "weather" },
    temperature: 0,
  };
  const whole = await anthropic.messages.create(options);
  const use = whole.content.find((b) => b.type === "tool_use");
  assert.equal(whole.stop_reason, "tool_use");
  goodArguments(use.input);
  const streamed = await anthropic.messages.stream(options).finalMessage();
  assert.deepEqual(streamed.content.map((b) => b.input), whole.content.map((b) => b.input));
  const next = await anthropic.messages.create({
    ...options,
    tool_choice: { type: "none" },
    messages: [
      ...question,
      { role: "assistant", content: whole.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: [{ type: "text", text: "rain" }] }] },
    ],
  });
  assert.equal(next.content[0].type, "text");
  await anthropic.messages.create({ ...options, thinking: { type: "enabled", budget_tokens: 1024 } });
});

await test("ollama: a tool loop, a schema, think", async () => {
  const ollama = new Ollama({ host: base });
  const options = { seed: 7, num_predict: 200 };
  const request = { model: "demo", messages: question, options, tools: [weather], tool_choice: "required" };
  const whole = await ollama.chat(request);
  goodArguments(whole.message.tool_calls[0].function.arguments);
  const calls = [];
  for await (const part of await ollama.chat({ ...request, stream: true })) calls.push(...(part.message.tool_calls ?? []));
  assert.deepEqual(calls[0].function.arguments, whole.message.tool_calls[0].function.arguments);
  const next = await ollama.chat({
    model: "demo",
    options,
    tools: [weather],
    messages: [...question, whole.message, { role: "tool", tool_name: "weather", content: "rain" }],
  });
  assert.equal(typeof next.message.content, "string");
  const format = { type: "object", properties: { mood: { enum: ["good", "bad"] } }, required: ["mood"], additionalProperties: false };
  const held = await ollama.chat({ model: "demo", messages: question, options, format });
  assert.ok(["good", "bad"].includes(JSON.parse(held.message.content).mood));
  await ollama.chat({ model: "demo", messages: question, options, think: "low" });
});

console.log(`${passed} passed`);
