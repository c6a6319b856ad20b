// A server that answers as kentang does, but writes what no model would be asked to write: markup, endless lines, controls; calls of
// tools whenever there are some, and goes on for ever when that is asked for. The page's own files and the tools come from the real server behind it.
import http from "node:http";

const event = delta => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;

const ended = finish => `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: finish }] })}\n\ndata: [DONE]\n\n`;

export const hostile = {
  script: "<script>window.bad = 1</script><img src=x onerror=\"window.bad = 2\"> [link](javascript:window.bad=3) <b>bold</b>\n\n![p](http://127.0.0.1:1/x.png)",
  long: "x".repeat(1 << 20),
  math: "Euler: $e^{i\\pi} + 1 = 0$, and \\(a < b\\).\n\n$$\n\\int_0^1 x^2\\,dx = \\frac{1}{3}\n$$\n\n\\[\n\\sqrt{2}\n\\]\n\nIt costs $5 and $6. This is none: $\\nonsense{$.\n\n| a | b |\n|---|---|\n| 1 | 2 |",
  bidi: "safe \u202egnp.exe\u202c end",
};

export const serve = async real => {
  const seen = [], called = [], out = { left: 0, reading: null };
  const server = http.createServer(async (request, answer) => {
    seen.push(request.url);
    let body = "";
    for await (const piece of request) body += piece;
    if (request.url !== "/v1/chat/completions") {
      const type = request.headers["content-type"];
      if (request.url === "/mcp" && JSON.parse(body).method === "tools/call") called.push(JSON.parse(body).params);
      const got = await fetch(real + request.url, { method: request.method, headers: { accept: request.headers.accept ?? "*/*", ...(type ? { "content-type": type } : {}) }, body: body || undefined });
      let text = Buffer.from(await got.arrayBuffer());
      if (request.url === "/props" && out.reading) { // as of a machine that reads slowly
        out.reading.prompt_done = Math.min(out.reading.prompt_done + 300, 900);
        text = Buffer.from(JSON.stringify({ ...JSON.parse(text), requests: [out.reading] }));
      }
      const headers = { "content-type": got.headers.get("content-type") };
      if (got.headers.get("content-security-policy")) headers["content-security-policy"] = got.headers.get("content-security-policy");
      answer.writeHead(got.status, headers).end(text);
      return;
    }
    const asked = JSON.parse(body), last = asked.messages.at(-1);
    answer.writeHead(200, { "content-type": "text/event-stream" });
    if (asked.tools && last.role === "user") { // two calls at once, of a tool that the page was told of
      for (const i of [0, 1]) answer.write(event({ tool_calls: [{ index: i, id: `call_${asked.messages.length}_${i}`, type: "function", function: { name: asked.tools[0].function.name, arguments: `{"text":"one ${i}"}` } }] }));
      answer.end(ended("tool_calls"));
      return;
    }
    if (last.role === "tool") {
      answer.write(event({ content: "The tool said: " + asked.messages.filter(m => m.role === "tool").slice(-2).map(m => m.content).join(" and ") }));
      answer.end(ended("stop"));
      return;
    }
    if (last.content.trim() === "read") {
      out.reading = { id: "chatcmpl-read", state: "running", prompt_tokens: 1000, prompt_done: 0 };
      answer.write(`data: ${JSON.stringify({ id: "chatcmpl-read", choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] })}\n\n`);
      answer.on("close", () => { out.reading = null; out.left++; });
      return;
    }
    if (last.content.trim() === "slow" || last.role === "assistant") {
      const tick = setInterval(() => answer.write(event({ content: "on and " })), 100);
      answer.on("close", () => { clearInterval(tick); out.left++; });
      return;
    }
    const text = hostile[last.content.trim()] ?? "?";
    answer.write(event({ reasoning_content: "Let me see. <i>hm</i>" }));
    for (let i = 0; i < text.length; i += 50000) answer.write(event({ content: text.slice(i, i + 50000) }));
    answer.write(event({ tool_calls: [{ index: 0, function: { name: "clock", arguments: "{}" } }] }));
    answer.end(ended("stop"));
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  Object.assign(out, { url: `http://127.0.0.1:${server.address().port}`, seen, called, close: () => { server.closeAllConnections(); server.close(); } });
  return out;
};
