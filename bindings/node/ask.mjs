// A chat with a model inside your own program. usage: node ask.mjs [MODEL.gguf] ["a question"]
import { Model } from "./index.mjs";

const [path = null, question = "Who are you?"] = process.argv.slice(2);
const model = new Model(path);
const answer = model.chat(question, { temperature: 0, n_predict: 200 });
for await (const piece of answer) process.stdout.write(piece);
console.log(`\n[${answer.report.n_generated} tokens, ${answer.report.finish}]`);
model.close();
