// A prompt to a running `kentang serve` over its Unix socket, streamed. No packages.
// usage: node ask_socket.mjs [--socket PATH] PROMPT...
import net from "node:net";
import readline from "node:readline";

let words = process.argv.slice(2);
let path = `${process.env.XDG_RUNTIME_DIR ?? "/run/kentang"}/kentang.sock`;
if (words[0] === "--socket") {
  path = words[1];
  words = words.slice(2);
}
const connection = net.connect(path);
connection.on("error", (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
const request = { id: "1", messages: [{ role: "user", content: words.join(" ") || "Hello!" }], stream: true };
connection.write(JSON.stringify(request) + "\n");
for await (const line of readline.createInterface({ input: connection })) {
  const answer = JSON.parse(line);
  if (answer.error) {
    console.error(answer.error.message);
    process.exitCode = 1;
    break;
  }
  if (answer.done) {
    console.error(`\n[${answer.finish_reason}, ${answer.usage.completion_tokens} tokens]`);
    break;
  }
  process.stdout.write(answer.text);
}
connection.end();
