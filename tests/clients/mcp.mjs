// MCP clients of both generations against `kentang mcp` and a running server, unmodified:
// node mcp.mjs KENTANG http://127.0.0.1:PORT. With KT_MCP_SCHEMAS=DIR (the protocol's schema.json, one a version, as
// DIR/VERSION.json) every message is validated against the schema of its era as well.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { Client as Legacy } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as LegacyStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as LegacyHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Modern, StreamableHTTPClientTransport as ModernHttp } from "@modelcontextprotocol/client";
import { StdioClientTransport as ModernStdio } from "@modelcontextprotocol/client/stdio";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const [kentang, base] = process.argv.slice(2);
const program = { command: kentang, args: ["mcp", "--no-config", "--no-env", "-t", "1"] };
const about = { name: "kentang-tests", version: "1.0.0" };
let passed = 0,
  validated = 0;

async function test(name, body) {
  await body();
  passed++;
  console.log(`ok mcp: ${name}`);
}

// ---- every message against its era's schema ----

const schemas = {};
function validator(version, definition) {
  const file = `${process.env.KT_MCP_SCHEMAS}/${version}.json`;
  if (!process.env.KT_MCP_SCHEMAS || !existsSync(file)) return null;
  const entry = (schemas[version] ??= { ajv: null, json: JSON.parse(readFileSync(file)), made: {} });
  if (!entry.ajv) {
    entry.ajv = new Ajv({ strict: false, allErrors: true });
    addFormats(entry.ajv);
    entry.ajv.addSchema(entry.json, "mcp");
    entry.root = entry.json.$defs ? "$defs" : "definitions";
  }
  return (entry.made[definition] ??= entry.ajv.compile({ $ref: `mcp#/${entry.root}/${definition}` }));
}

const results = {
  initialize: "InitializeResult",
  "server/discover": "DiscoverResult",
  "tools/list": "ListToolsResult",
  "tools/call": "CallToolResult",
  "resources/list": "ListResourcesResult",
  "prompts/list": "ListPromptsResult",
};

// Whatever a transport brings is looked at before the client gets it.
function watch(transport, version) {
  const methods = new Map();
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    for (const m of [message].flat()) if (m.method && m.id !== undefined) methods.set(m.id, m.method);
    return send(message, ...rest);
  };
  const look = (m) => {
    const check = (definition, part) => {
      const valid = validator(version, definition);
      if (!valid) return;
      validated++;
      assert.ok(valid(part), `${definition}: ${JSON.stringify(valid.errors?.slice(0, 3))} in ${JSON.stringify(part).slice(0, 300)}`);
    };
    check("JSONRPCMessage", m);
    if (m.result && results[methods.get(m.id)]) check(results[methods.get(m.id)], m.result);
    if (m.method === "notifications/progress") check("ProgressNotification", m);
  };
  let handler;
  Object.defineProperty(transport, "onmessage", {
    get: () => handler,
    set: (f) => {
      handler = f && ((m, ...rest) => (look(m), f(m, ...rest)));
    },
  });
  return transport;
}

// ---- what every client does ----

async function useTools(client, name) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name).sort(), ["count_tokens", "embed", "extract", "generate", "list_models"]);
  for (const t of tools) {
    assert.equal(t.annotations.readOnlyHint, true);
    assert.ok(t.outputSchema && t.description, t.name);
  }
  const told = [];
  const story = await client.callTool(
    { name: "generate", arguments: { prompt: "Tell me a story about a cat.", max_tokens: 120, seed: 7 } },
    ...rest(name, { onprogress: (p) => told.push(p.progress) }),
  );
  assert.equal(story.structuredContent.text, story.content[0].text);
  assert.ok(story.structuredContent.usage.completion_tokens > 20);
  assert.ok(told.length > 0, "progress");
  const again = await client.callTool({ name: "generate", arguments: { prompt: "Tell me a story about a cat.", max_tokens: 120, seed: 7 } });
  assert.equal(again.structuredContent.text, story.structuredContent.text);

  const embedded = await client.callTool({ name: "embed", arguments: { input: ["a cat", "a dog"] } });
  const [a, b] = embedded.structuredContent.embeddings;
  assert.equal(a.length, b.length);
  assert.ok(Math.abs(a.reduce((s, x) => s + x * x, 0) - 1) < 1e-3);
  const counted = await client.callTool({ name: "count_tokens", arguments: { text: "a cat" } });
  assert.ok(counted.structuredContent.tokens > 0);
  const schema = {
    type: "object",
    properties: { name: { enum: ["Tom", "Ann"] }, age: { type: "integer", minimum: 0, maximum: 9 } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const extracted = await client.callTool({ name: "extract", arguments: { text: "Tom is three years old.", schema, seed: 1 } });
  assert.ok(new Ajv().compile(schema)(extracted.structuredContent.value), JSON.stringify(extracted));
  const unheld = await client.callTool({ name: "extract", arguments: { text: "x", schema: { $ref: "https://example.com/s" } } });
  assert.equal(unheld.isError, true);
  const models = await client.callTool({ name: "list_models", arguments: {} });
  assert.equal(models.structuredContent.models[0].name, "demo");
  const wrong = await client.callTool({ name: "generate", arguments: { promt: "x" } });
  assert.equal(wrong.isError, true);
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), /unknown tool/);
}

const rest = (name, options) => (name.startsWith("v1") ? [undefined, options] : [options]);

async function cancelOne(client, name) {
  const stop = new AbortController();
  const running = client.callTool(
    { name: "generate", arguments: { messages: [{ role: "user", content: "x" }], max_tokens: 900 } },
    ...rest(name, { signal: stop.signal, onprogress: () => stop.abort("enough") }),
  );
  await Promise.allSettled([running]); // the demo model may end its answer before the cancel arrives
  assert.ok((await client.callTool({ name: "list_models", arguments: {} })).structuredContent);
}

const negotiated = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const kinds = [
  ["v1 client, stdio", "2025-11-25", () => new Legacy(about), () => new LegacyStdio(program)],
  ["v1 client, HTTP", "2025-11-25", () => new Legacy(about), () => new LegacyHttp(new URL(`${base}/mcp`))],
  ["v2 client, pinned to 2026-07-28, stdio", "2026-07-28", () => new Modern(about, negotiated), () => new ModernStdio(program)],
  ["v2 client, pinned to 2026-07-28, HTTP", "2026-07-28", () => new Modern(about, negotiated), () => new ModernHttp(new URL(`${base}/mcp`))],
  ["v2 client as it comes, stdio", "2025-11-25", () => new Modern(about), () => new ModernStdio(program)],
];
for (const [name, version, makeClient, makeTransport] of kinds) {
  await test(name, async () => {
    const client = makeClient();
    await client.connect(watch(makeTransport(), version));
    await useTools(client, name);
    await cancelOne(client, name);
    await client.close();
  });
}
console.log(`ok mcp: ${passed} clients${validated ? `, ${validated} parts of messages validated` : ""}`);
process.exit(0);
