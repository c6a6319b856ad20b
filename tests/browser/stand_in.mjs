// A server that answers as kentang does, but writes what no model would be asked to write: markup, endless lines, controls. The
// page's own files come from the real server behind it.
import http from "node:http";

const event = delta => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;

export const hostile = {
  script: "<script>window.bad = 1</script><img src=x onerror=\"window.bad = 2\"> [link](javascript:window.bad=3) <b>bold</b>\n\n![p](http://127.0.0.1:1/x.png)",
  long: "x".repeat(1 << 20),
  bidi: "safe \u202egnp.exe\u202c end",
};

export const serve = async real => {
  const seen = [];
  const server = http.createServer(async (request, answer) => {
    seen.push(request.url);
    if (request.url !== "/v1/chat/completions") {
      const got = await fetch(real + request.url, { method: request.method, headers: { accept: request.headers.accept ?? "*/*" } });
      const headers = { "content-type": got.headers.get("content-type") };
      if (got.headers.get("content-security-policy")) headers["content-security-policy"] = got.headers.get("content-security-policy");
      answer.writeHead(got.status, headers).end(Buffer.from(await got.arrayBuffer()));
      return;
    }
    let body = "";
    for await (const piece of request) body += piece;
    const text = hostile[JSON.parse(body).messages.at(-1).content.trim()] ?? "?";
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write(event({ reasoning_content: "Let me see. <i>hm</i>" }));
    for (let i = 0; i < text.length; i += 50000) answer.write(event({ content: text.slice(i, i + 50000) }));
    answer.write(event({ tool_calls: [{ index: 0, function: { name: "clock", arguments: "{}" } }] }));
    answer.end(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`);
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}`, seen, close: () => { server.closeAllConnections(); server.close(); } };
};
