// What a person does on the page, in a real browser. usage: node page.mjs KENTANG [PICTURES_DIR]
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { deflateRawSync, gzipSync } from "node:zlib";
import assert from "node:assert/strict";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { hostile, serve as serveStandIn } from "./stand_in.mjs";

const [kentang, pictures] = process.argv.slice(2), only = process.env.KT_BROWSER_ONLY ?? ""; // of their names
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-browser-"));
const ended = process => new Promise(done => process.once("exit", done));

const startServer = async (options = [], at = "127.0.0.1:0") => {
  const child = spawn(kentang, ["serve", ...(options.includes("--config") ? [] : ["--no-config"]), "--no-env", "--listen", at, "--socket", "none", "--set", "log.level=info", ...options], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", d => { log += d; });
  for (let i = 0; i < 200; i++) {
    const url = log.match(/ ready .*http=(http:\S*)/)?.[1];
    if (url) return { url, stop: async () => { child.kill("SIGTERM"); await ended(child); }, log: () => log };
    await new Promise(done => setTimeout(done, 50));
  }
  throw new Error("the server did not start:\n" + log);
};

const demo = path.join(process.env.KT_SOURCE_DIR, "src/lib/context/demo.gguf"), demoSize = `${(fs.statSync(demo).size / 1e6).toFixed(1)} MB`;

// A hub with the demo model as Owner/Tale; the first part of a path says how it behaves.
const startHub = async () => {
  const source = process.env.KT_SOURCE_DIR, folder = path.join(dir, "hub");
  fs.mkdirSync(path.join(folder, "Owner/Tale"), { recursive: true });
  fs.copyFileSync(demo, path.join(folder, "Owner/Tale/Tale-Q4_K_M.gguf"));
  fs.writeFileSync(path.join(folder, "registry.json"), "{}");
  const child = spawn("python3", [path.join(source, "tests/store/hub_server.py"), folder, path.join(dir, "hub.log")], { stdio: ["pipe", "pipe", "inherit"] });
  const [port] = (await new Promise(done => child.stdout.once("data", d => done(String(d))))).split(" ");
  return { url: `http://127.0.0.1:${port}`, stop: () => child.kill() };
};

const chart = path.join(process.env.KT_SOURCE_DIR, "tests/pictures/chart.png");

// The demo model with an encoder of random weights next to it: it sees, and says nothing of worth.
const seeing = () => {
  const make = path.join(process.env.KT_SOURCE_DIR, "tests/peer/vision_models.py"), folder = path.join(dir, "eye"), model = path.join(folder, "eye.gguf");
  fs.mkdirSync(folder);
  for (const args of [["text", "idefics3", demo, model], ["encoder", "idefics3", path.join(folder, "mmproj-eye.gguf"), String(demoWidth), "--layers", "1", "--side", "64", "--type", "f16"]])
    execFileSync(fs.existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3", [make, ...args]);
  return model;
};
const demoWidth = (() => { const b = fs.readFileSync(demo), at = b.indexOf("llama.embedding_length"); return b.readUInt32LE(at + "llama.embedding_length".length + 4); })();

// An archive of one deflated file.
const zip = (name, text) => {
  const data = Buffer.from(text), packed = deflateRawSync(data), n = Buffer.from(name), local = Buffer.alloc(30), entry = Buffer.alloc(46), end = Buffer.alloc(22);
  for (const [b, at, signature] of [[local, 8, 0x04034b50], [entry, 10, 0x02014b50]]) {
    b.writeUInt32LE(signature, 0);
    b.writeUInt16LE(8, at);
    b.writeUInt32LE(packed.length, at + 10);
    b.writeUInt32LE(data.length, at + 14);
    b.writeUInt16LE(n.length, at + 18);
  }
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(46 + n.length, 12);
  end.writeUInt32LE(30 + n.length + packed.length, 16);
  return Buffer.concat([local, n, packed, entry, n, end]);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-lcd-text"] });
let main;

// A PDF file with a page for each text of HTML, as chromium prints it.
const pdfOf = async pages => {
  const page = await browser.newPage();
  await page.setContent(pages.map(p => `<div style="break-after: page">${p}</div>`).join("").replace(/ style="break-after: page">(?!.*break-after)/s, ">"));
  const file = await page.pdf({ format: "A4" });
  await page.close();
  return file;
};

// A context of its own for each test: nothing kept from the one before. Fails on any error of the page's scripts.
const openPage = async (url, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, locale: "en-GB", ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", e => page.problems.push(String(e)));
  await page.goto(url);
  return page;
};
const ready = page => page.waitForFunction(() => document.querySelector("#model").options.length > 0);
const say = async (page, text) => { await page.fill("#ask", text); await page.press("#ask", "Enter"); };
const done = page => page.waitForFunction(() => document.querySelector("#log").getAttribute("aria-busy") === "false" && document.querySelectorAll("article").length, null, { timeout: 60000 });
const bodies = page => page.locator("article .body").allTextContents();
const number = async (page, name, value) => { await page.click("#open-settings"); await page.getByLabel(name, { exact: true }).fill(String(value)); await page.click("#settings button.main"); };
const press = (page, name) => page.getByRole("button", { name, exact: true }).last().click();
const chooseTool = async (page, name) => { await page.click("#open-tools"); await page.getByLabel(name).check(); await page.click("#settings button.main"); };
const listed = page => page.locator("#list .open").allTextContents();
const picture = async (page, name, part) => {
  if (!pictures) return;
  if (part) return page.locator(part).screenshot({ path: path.join(pictures, name) });
  const size = page.viewportSize();
  await page.setViewportSize({ width: Math.min(size.width, 1120), height: Math.min(size.height, 720) });
  await page.screenshot({ path: path.join(pictures, name) });
  await page.setViewportSize(size);
};

const tests = {
  "greets, says what the model is, and has examples that work": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await page.waitForFunction(facts => document.querySelector("#welcome").textContent.includes(facts), `million parameters · ${demoSize} · remembers 1,024 tokens`);
    assert.match(await page.textContent("#welcome h2"), /demo model/);
    assert.match(await page.textContent("#welcome"), /on this computer/);
    assert.match(await page.textContent("#welcome .facts"), /about [\d,.]+ tokens a second here/, "before there was an answer");
    await picture(page, "page-empty.png");
    const wanted = [/robot|Once|There/, /17 \+ 25 = 42\./, /127 \* 49 = 6223\./, /"name": "Lily",\s*"age": 9/];
    for (const [i, want] of wanted.entries()) {
      await page.click("#new");
      await page.locator(".card").nth(i).click();
      await page.waitForFunction(n => document.querySelectorAll("article.assistant").length >= n, i === 2 ? 2 : 1);
      await done(page);
      assert.match((await bodies(page)).at(-1), want);
    }
    await page.click("#new");
    assert.match(await page.textContent("#welcome"), /about [\d,.]+ tokens a second here/);
    return page;
  },
  "streams an answer, with its figures and the seed": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await number(page, "Temperature", 0);
    await say(page, "What is 17 + 25?");
    await done(page);
    const [question, answer] = await bodies(page);
    assert.equal(question, "What is 17 + 25?");
    assert.match(answer, /17 \+ 25 = 42\./);
    assert.equal(await page.textContent("article.assistant h3"), "demo");
    await page.click(".figures summary");
    assert.match(await page.locator("details.figures").textContent(), /^12 tokens · [\d,.]+ tok\/s.*first token after [\d.]+ m?s · 18 prompt tokens.* · seed \d+$/);
    await page.click(".figures summary");
    await picture(page, "page.png");
    return page;
  },
  "one quiet line opens to plots, and the figures are right": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await number(page, "Temperature", 0);
    await say(page, "Tell me a short story about a cat.");
    await done(page);
    await page.waitForFunction(() => /Ready · last answer [\d,.]+ tok\/s, first token after [\d.]+ m?s · \d+ MB of memory/.test(document.querySelector("#line").textContent));
    const speed = /([\d,.]+ tok\/s)/, line = (await page.textContent("#line")).match(speed)[1];
    assert.equal((await page.textContent(".figures summary")).match(speed)[1], line, "one speed, wherever it is shown");
    assert.ok(!await page.isVisible("#figures"));
    await page.click("#open-figures");
    assert.equal(await page.getAttribute("#open-figures", "aria-expanded"), "true");
    await page.waitForSelector("#figures svg.plot polyline");
    const text = await page.textContent("#figures");
    for (const words of ["Nothing to do", "Tokens a second", "Time to the first token", "Requests", "Memory", "model file and program", "working memory", "More figures"]) assert.ok(text.includes(words), words);
    const metrics = await (await fetch(main.url + "/metrics")).text(), kind = name => Number(metrics.match(new RegExp(`resident_memory_bytes{kind="${name}"} (\\d+)`))[1]);
    const shown = Number((await page.textContent("#line")).match(/(\d+) MB of memory/)[1]) * 1e6;
    assert.ok(Math.abs(shown - kind("file") - kind("anonymous")) < 8e6, `${shown} bytes are shown, ${kind("file")} + ${kind("anonymous")} are resident`);
    await page.click("#figures summary");
    await page.waitForFunction(() => /answers at once/.test(document.querySelector("#figures dl").textContent));
    await page.waitForTimeout(1200);
    assert.ok(await page.locator("#figures details").evaluate(d => d.open), "what was opened stays open");
    await page.click("#figures summary");
    for (let i = 0; i < 3; i++) { await say(page, "Tell me a short story about a robot."); await done(page); await page.waitForTimeout(900); }
    await page.evaluate(() => { document.querySelector("#figures").scrollTop = 0; });
    await picture(page, "page-figures.png");
    await page.click("#close-figures");
    assert.ok(!await page.isVisible("#figures"));
    return page;
  },
  "New, and typing at once, loses nothing": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "hi");
    await done(page);
    await page.evaluate(() => { document.querySelector("#new").click(); const ask = document.querySelector("#ask"); ask.value = "Apa kabar?"; document.querySelector("#send").click(); });
    await page.waitForFunction(() => document.querySelector("article .body")?.textContent === "Apa kabar?");
    await done(page);
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 2);
    assert.deepEqual(await listed(page), ["Apa kabar?", "hi"]);
    await page.reload();
    await page.waitForSelector("article");
    assert.equal((await bodies(page))[0], "Apa kabar?");
    // And while the page starts.
    const fresh = await page.context().newPage();
    await fresh.addInitScript(() => addEventListener("DOMContentLoaded", () => { setTimeout(() => { document.querySelector("#ask").value = "Thank you"; document.querySelector("#send").click(); }); }));
    await fresh.goto(main.url);
    await fresh.waitForFunction(() => document.querySelector("article .body")?.textContent === "Thank you");
    await done(fresh);
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 3);
    return page;
  },
  "an answer is written while another conversation is read": async () => {
    const server = await serveStandIn(main.url);
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "bidi");
    await done(page);
    await page.click("#new");
    await say(page, "slow");
    await page.waitForFunction(() => /on and/.test(document.querySelectorAll("article .body")[1]?.textContent));
    await page.getByRole("button", { name: "bidi", exact: true }).click();
    await page.waitForFunction(() => document.querySelector("article .body")?.textContent === "bidi");
    await page.waitForTimeout(400);
    await page.getByRole("button", { name: "slow", exact: true }).click();
    await page.waitForFunction(() => /on and on and/.test(document.querySelectorAll("article .body")[1]?.textContent));
    await page.click("#stop");
    await done(page);
    server.close();
    return page;
  },
  "stops, and continues": async () => {
    const server = await serveStandIn(main.url); // it writes for as long as it is listened to
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "slow");
    await page.waitForFunction(() => /on and/.test(document.querySelectorAll("article .body")[1]?.textContent));
    await page.click("#stop");
    await done(page);
    await page.getByText("You stopped this answer.").waitFor();
    assert.equal(await page.locator(".figures").count(), 0, "nothing is known of its figures");
    const before = (await bodies(page))[1];
    await press(page, "Continue");
    await page.waitForFunction(n => document.querySelectorAll("article .body")[1].textContent.length > n, before.length);
    await page.click("#stop");
    await done(page);
    assert.ok((await bodies(page))[1].startsWith(before.trim()));
    assert.ok(server.left >= 2, "the server was hung up on");
    server.close();
    return page;
  },
  "a long prompt shows how far it is": async () => {
    const server = await serveStandIn(main.url);
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "read");
    await page.waitForFunction(() => /^Reading the prompt: [369]00 of 1,000 tokens · [\d,]+ tok\/s · \d+ s left$/.test(document.querySelector(".reading")?.textContent));
    assert.ok(await page.locator(".reading progress").evaluate(p => p.value >= 300 && p.max === 1000));
    await page.click("#stop");
    await done(page);
    await press(page, "Delete");
    server.close();
    return page;
  },
  "regenerated answers and edited messages are branches": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "Hello");
    await done(page);
    await press(page, "Regenerate");
    await page.waitForSelector("text=2/2");
    await done(page);
    await press(page, "Edit");
    await page.locator("article textarea").fill("Siapa kamu?");
    await page.locator("article form button.main").click();
    await page.waitForFunction(() => document.querySelector("article .body")?.textContent === "Siapa kamu?");
    await done(page);
    await page.getByRole("button", { name: "Earlier version" }).first().click();
    assert.equal((await bodies(page))[0], "Hello");
    return page;
  },
  "a reload in mid-answer loses nothing, and conversations stay": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "Tell me a short story about a cat.");
    await page.waitForFunction(() => document.querySelectorAll("article .body")[1]?.textContent.length > 20);
    await page.waitForTimeout(400);
    await page.reload();
    await ready(page);
    await page.waitForSelector("article");
    const kept = await bodies(page);
    assert.equal(kept[0], "Tell me a short story about a cat.");
    assert.ok(kept[1].length > 10, "what had come is kept");
    await page.click("#new");
    await say(page, "hi");
    await done(page);
    assert.equal(await page.locator("#list .open").count(), 2);
    return page;
  },
  "two tabs of one browser do not overwrite each other": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "hi");
    await done(page);
    const second = await page.context().newPage();
    await second.goto(main.url);
    await ready(second);
    await second.waitForSelector("article");
    await second.click("#new");
    await Promise.all([say(second, "Apa kabar?"), say(page, "Thank you")]);
    await Promise.all([done(page), done(second)]);
    await page.reload();
    await ready(page);
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 2);
    return page;
  },
  "asks for a key, and takes one": async () => {
    const keys = path.join(dir, "keys");
    fs.writeFileSync(keys, "me:secret-of-this-test\n", { mode: 0o600 });
    const server = await startServer(["--set", `http.keys="${keys}"`]);
    const page = await openPage(server.url);
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.textContent("#notice"), /API key/);
    await page.click("#open-settings");
    assert.equal(await page.evaluate(() => document.activeElement.id), "key");
    await page.fill("#key", "wrong");
    await page.locator("#key").blur();
    await page.fill("#key", "secret-of-this-test");
    await page.locator("#key").blur();
    await page.click("#settings button.main");
    await ready(page);
    await say(page, "hi");
    await done(page);
    assert.ok((await bodies(page))[1].length > 2);
    await server.stop();
    return page;
  },
  "a failed answer says why, and is tried again in its place": async () => {
    let server = await startServer();
    const page = await openPage(server.url);
    await ready(page);
    await server.stop();
    await say(page, "hi");
    await page.locator(".end.bad").waitFor();
    assert.match(await page.textContent(".end.bad"), /No answer: The server cannot be reached/);
    assert.equal(await page.locator(".figures").count(), 0);
    server = await startServer([], new URL(server.url).host);
    await press(page, "Try again");
    await page.waitForFunction(() => document.querySelectorAll("article .body")[1]?.textContent.length > 2);
    await done(page);
    assert.equal(await page.locator(".branches").count(), 0, "the failed one made room");
    await say(page, "word ".repeat(1200));
    await page.locator(".end.bad").waitFor();
    assert.match(await page.textContent(".end.bad"), /too long for this model: .*exceeds the available context/);
    assert.ok(!/-c\b/.test(await page.textContent(".end.bad")));
    await server.stop();
    return page;
  },
  "hostile answers are text": async () => {
    const server = await serveStandIn(main.url);
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "script");
    await done(page);
    const html = await page.locator("article.assistant .body").innerHTML();
    assert.equal(await page.evaluate(() => window.bad), undefined);
    assert.ok(html.includes("&lt;script&gt;") && !html.includes("<img") && !html.includes("href=\"javascript"));
    assert.ok(await page.locator("article details").count() === 1 && await page.locator(".call").count() === 1);
    await page.click("#new");
    await say(page, "bidi");
    await done(page);
    assert.match((await bodies(page))[1], /safe ⟨U\+202E⟩gnp\.exe⟨U\+202C⟩ end/);
    await page.click("#new");
    await say(page, "long");
    await done(page);
    assert.ok((await bodies(page))[1].includes(hostile.long.slice(0, 1000)));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    assert.ok(server.seen.every(u => u === "/" || u === "/v1/chat/completions" || /^\/(web\/|v1\/models|v1\/adapters|props|metrics|tokenize)/.test(u)), "nothing else was asked for");
    server.close();
    return page;
  },
  "a tool is called when that is allowed, and not before": async () => {
    const server = await serveStandIn(main.url);
    const page = await openPage(server.url);
    await ready(page);
    await chooseTool(page, "Count tokens");
    await say(page, "How long is that?");
    await done(page);
    assert.equal(await page.locator(".call").count(), 2);
    assert.equal(server.called.length, 0);
    await picture(page, "page-tools.png", "article.assistant");
    await page.locator(".call").nth(0).getByRole("button", { name: "Allow", exact: true }).click();
    await page.locator(".call").nth(0).locator(".came").waitFor();
    assert.deepEqual(server.called, [{ name: "count_tokens", arguments: { text: "one 0" } }]);
    await page.locator(".call").nth(1).getByRole("button", { name: "Refuse" }).click();
    await page.getByText("The tool said:").waitFor();
    await done(page);
    assert.match((await bodies(page)).at(-1), /The tool said: .*"tokens":3.* and The user did not allow this call\./);
    assert.equal(server.called.length, 1);
    await say(page, "And now?");
    await page.locator(".call").nth(2).getByRole("button", { name: "Allow in this conversation" }).click();
    await page.locator(".call").nth(2).locator(".came").waitFor();
    await page.locator(".call").nth(3).getByRole("button", { name: "Allow", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll("article").length === 6);
    await done(page);
    await say(page, "Once more?"); // both are allowed by now
    await page.waitForFunction(() => document.querySelectorAll("article").length === 9);
    await done(page);
    assert.equal(server.called.length, 5);
    server.close();
    return page;
  },
  "the demo model calls the clock and the calculator, which need no word": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await number(page, "Temperature", 0);
    await chooseTool(page, "Clock");
    await chooseTool(page, "Calculator");
    await say(page, "What is 345 * 12?");
    await page.getByText("345 * 12 = 4140.").waitFor();
    assert.match(await page.locator(".call").textContent(), /Calculator345 \* 12→ 4140/);
    await done(page);
    await say(page, "What time is it?");
    await page.waitForFunction(() => document.querySelectorAll("article.assistant").length === 4);
    await done(page);
    const now = new Date(), hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit" }).format(now);
    assert.match(await page.locator(".call").nth(1).textContent(), new RegExp(`Clock→ \\w+, ${now.getFullYear()}-\\d\\d-\\d\\d ${hour}:`));
    await picture(page, "page-tools.png");
    // What would leave no room for a conversation cannot be chosen.
    await page.click("#open-tools");
    await page.waitForFunction(() => /take \d+ of the 1,024 tokens/.test(document.querySelector("#tools").textContent));
    for (const box of await page.locator("#tools input").all()) if (await box.isEnabled()) await box.check();
    const taken = (await page.textContent("#tools")).match(/take (\d+) of the 1,024/)[1];
    assert.ok(Number(taken) > 100 && Number(taken) <= 512, `${taken} tokens`);
    assert.ok(await page.locator("#tools input:disabled").count() > 0);
    await page.click("#settings button.main");
    await say(page, "hi");
    await page.waitForFunction(() => document.querySelectorAll("article.user").length === 3);
    await done(page);
    assert.equal(await page.locator(".end.bad").count(), 0);
    return page;
  },
  "a correction is learned, shown and taken back": async () => {
    const server = await startServer(["--learn", "--set", `learning.dir="${path.join(dir, "learned")}"`]);
    const page = await openPage(server.url);
    await ready(page);
    await number(page, "Temperature", 0);
    await say(page, "Who is the mayor of Blue Hill?");
    await done(page);
    const before = (await bodies(page))[1];
    await press(page, "Fix this answer");
    await page.locator("#log").getByLabel("What the answer should have been").fill("The mayor of Blue Hill is Mrs. Weaver.");
    await press(page, "Remember");
    await page.getByText("Thanks, remembered.").waitFor();
    await page.getByText("Fixed: “The mayor of Blue Hill is Mrs. Weaver.”").waitFor();
    await press(page, "Regenerate");
    await page.waitForSelector("text=2/2");
    await done(page);
    assert.match((await bodies(page))[1], /Mrs\. Weaver/);
    await page.click(".figures summary");
    assert.match(await page.locator("details.figures").textContent(), /with what it learned, version 1/);
    const pressed = name => page.getByRole("button", { name, exact: true }).getAttribute("aria-pressed");
    await press(page, "Good");
    await page.waitForSelector("button[aria-pressed=true]");
    assert.equal(await pressed("Good"), "true");
    await press(page, "Bad"); // the last word counts
    await page.waitForFunction(() => [...document.querySelectorAll("button[aria-pressed=true]")].map(b => b.textContent).join() === "Bad");
    await press(page, "Bad"); // and is taken back
    await page.getByText("Taken back.").waitFor();
    assert.equal(await pressed("Good"), "false");
    assert.equal(await pressed("Bad"), "false");
    await page.click("#open-learn");
    await page.locator("#learn .items li").first().waitFor();
    const item = await page.locator("#learn .items li").first().textContent();
    assert.match(item, /^Who is the mayor of Blue Hill\?The mayor of Blue Hill is Mrs\. Weaver\.this minute.*used in an answer this minute/);
    assert.match(await page.locator("#learn-list").textContent(), /demo is shown what it was taught where a question is about it\./);
    await picture(page, "page-learning.png");
    await page.locator("#learn .items").getByRole("button", { name: "Edit" }).click();
    await page.locator("#learn .items textarea").fill("The mayor of Blue Hill is Mr. Potter.");
    await page.locator("#learn .items").getByRole("button", { name: "Remember" }).click();
    await page.locator("#learn .items li").filter({ hasText: "Mr. Potter" }).waitFor();
    assert.equal(await page.locator("#learn .items li").count(), 1, "the last word on an answer takes the place of the one before");
    assert.equal(await page.locator("#learn section h4").first().textContent(), "hill");
    await page.getByText("Teach it something").click();
    await page.getByLabel("A question").fill("What does the ferry of Oderhaven cost?");
    await page.locator("#teach").getByLabel("What the answer should have been").fill("The ferry of Oderhaven costs four crowns.");
    await page.locator("#teach").getByRole("button", { name: "Remember" }).click();
    await page.locator("#learn h4").filter({ hasText: "oderhaven" }).waitFor();
    assert.equal(await page.locator("#learn .items li").count(), 2);
    for (const left of [1, 0]) {
      await page.locator("#learn .items").getByRole("button", { name: "Forget" }).first().click();
      await page.waitForFunction(n => document.querySelectorAll("#learn .items li").length === n, left);
    }
    await page.getByText("Versions and training").click();
    await page.getByLabel("Version", { exact: true }).selectOption("0");
    await page.waitForFunction(() => /Version 0 holds/.test(document.querySelector("#learn-said").textContent));
    await page.getByRole("button", { name: "Train" }).click();
    await page.waitForFunction(() => !/Version 0 holds|Training/.test(document.querySelector("#learn-said").textContent), null, { timeout: 120000 });
    await page.getByLabel("Version", { exact: true }).selectOption("0");
    await page.keyboard.press("Escape");
    await press(page, "Regenerate");
    await page.waitForSelector("text=3/3");
    await done(page);
    assert.equal((await bodies(page))[1], before);
    await server.stop();
    return page;
  },
  "an attached text goes along, a binary does not": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await page.setInputFiles("#attach", [{ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("one `two`") }, { name: "b.bin", mimeType: "x/y", buffer: Buffer.from([0, 1, 2, 255]) }]);
    await page.waitForSelector("#files span");
    assert.equal(await page.locator("#files span").count(), 1);
    assert.match(await page.textContent("#notice"), /b\.bin/);
    await say(page, "What is this?");
    await done(page);
    assert.match((await bodies(page))[0], /a\.txt\n```\none `two`\n```/);
    return page;
  },
  "documents go along as their text, and what cannot be read is said": async () => {
    const page = await openPage(main.url);
    await ready(page);
    const docx = zip("word/document.xml", '<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>First</w:t></w:r><w:r><w:t xml:space="preserve"> line</w:t></w:r></w:p><w:p><w:r><w:t>Second</w:t></w:r></w:p></w:body></w:document>');
    await page.setInputFiles("#attach", [{ name: "a.docx", mimeType: "application/x", buffer: docx }, { name: "b.html", mimeType: "text/html", buffer: Buffer.from("<title>t</title><script>bad()</script><h1>Head</h1><p>Body <b>bold</b></p>") }]);
    await page.waitForFunction(() => document.querySelectorAll("#files span").length === 2);
    await page.waitForFunction(() => /\d+ tokens/.test(document.querySelector("#count").textContent));
    await page.setInputFiles("#attach", [{ name: "c.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.4") }]);
    await page.waitForFunction(() => /c\.pdf cannot be read: it is damaged/.test(document.querySelector("#notice").textContent));
    await page.setInputFiles("#attach", [{ name: "e.pdf", mimeType: "application/pdf", buffer: await pdfOf(["<svg width=90 height=90><circle cx=40 cy=40 r=30 /></svg>"]) }]);
    await page.waitForFunction(() => /e\.pdf has no text/.test(document.querySelector("#notice").textContent));
    await page.setInputFiles("#attach", [{ name: "d.png", mimeType: "image/png", buffer: fs.readFileSync(chart) }]);
    await page.waitForFunction(() => /sees no pictures.*d\.png|d\.png stays here/.test(document.querySelector("#notice").textContent));
    await say(page, "What is this?");
    await done(page);
    const [asked] = await bodies(page);
    assert.match(asked, /a\.docx\n```\nFirst line\nSecond\n```/);
    assert.match(asked, /b\.html\n```\nHead\nBody bold\n```/);
    return page;
  },
  "of a PDF that is too long the passages nearest to the question go along, and its pages are shown": async () => {
    const folder = path.join(dir, "several"), encoder = path.join(folder, "encoder.gguf");
    fs.mkdirSync(folder);
    execFileSync(kentang, ["synth", "--preset", "tiny-bert", encoder], { stdio: "ignore" });
    fs.writeFileSync(path.join(folder, "kentang.toml"), `[[models]]\nname = "demo"\npath = "${demo}"\n[[models]]\nname = "encoder"\npath = "${encoder}"\n`);
    const several = await startServer(["--config", path.join(folder, "kentang.toml")]);
    const filler = "The committee met again and spoke about the weather, the harvest and the state of the roads. ".repeat(12);
    const file = await pdfOf(Array.from({ length: 30 }, (_, i) => `<h1>Chapter ${i + 1}</h1><p>${filler}</p><p>${i === 16 ? "The lighthouse keeper of Marunda is called Sari." : `Entry ${i} of the log.`}</p>`));
    for (const url of [main.url, several.url]) {
      const page = await openPage(url), embedded = [];
      page.on("request", r => { if (r.url().endsWith("/v1/embeddings")) embedded.push(r.url()); });
      await ready(page);
      await page.setInputFiles("#attach", [{ name: "log.pdf", mimeType: "application/pdf", buffer: file }]);
      await page.waitForFunction(() => /nearest to your question/.test(document.querySelector("#count").textContent));
      await say(page, "Who is the lighthouse keeper of Marunda?");
      await done(page);
      const [asked] = await bodies(page);
      assert.match(asked, /\[log\.pdf, page 17\]/);
      assert.match(asked, /The lighthouse keeper of Marunda is called Sari\./);
      assert.ok(asked.length < 4000, `${asked.length} characters`);
      assert.match(await page.textContent(".sources"), /^Read: log\.pdf, pages? .*\b17\b/);
      assert.equal(embedded.length > 0, url === several.url);
      if (url === main.url) await picture(page, "page-pdf.png");
      if (url === several.url) { await several.stop(); return page; }
      await page.context().close();
    }
  },
  "a short PDF goes along whole, with its pages": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await page.setInputFiles("#attach", [{ name: "two.pdf", mimeType: "application/pdf", buffer: await pdfOf(["<p>Erste Seite: Grüße</p>", "<p>Halaman kedua</p>"]) }]);
    await say(page, "What is this?");
    await done(page);
    const [asked] = await bodies(page);
    assert.match(asked, /two\.pdf\n```\n\[page 1\]\nErste Seite: Grüße\n\n\[page 2\]\nHalaman kedua\n```/);
    assert.equal(await page.locator(".sources").count(), 0);
    return page;
  },
  "a picture is attached, pasted and dropped, shown, and sent to a model that sees": async () => {
    const server = await startServer(["-m", seeing(), "--set", "alias=eye"]);
    const page = await openPage(server.url);
    const sent = [];
    page.on("request", r => { if (r.url().endsWith("/v1/chat/completions")) sent.push(JSON.parse(r.postData())); });
    await ready(page);
    await page.setInputFiles("#attach", chart);
    await page.waitForSelector("#files img");
    const give = (kind, target) => page.evaluate(async ([on, where, bytes]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], "given.png", { type: "image/png" }));
      const e = on === "paste" ? new ClipboardEvent("paste", { clipboardData: data, cancelable: true, bubbles: true }) : new DragEvent("drop", { dataTransfer: data, cancelable: true, bubbles: true });
      document.querySelector(where).dispatchEvent(e);
    }, [kind, target, [...fs.readFileSync(chart)]]);
    await give("paste", "#ask");
    await page.waitForFunction(() => document.querySelectorAll("#files img").length === 2);
    await give("drop", "main");
    await page.waitForFunction(() => document.querySelectorAll("#files img").length === 3);
    for (let i = 0; i < 2; i++) await page.locator("#files button").first().click();
    await picture(page, "page-picture.png");
    await say(page, "What does it show?");
    await done(page);
    const asked = async n => { for (let i = 0; i < 100 && sent.length < n; i++) await page.waitForTimeout(50); return sent[n - 1]; };
    const parts = (await asked(1)).messages.at(-1).content;
    assert.deepEqual(parts.map(p => p.type), ["image_url", "text"]);
    assert.equal(parts[0].image_url.url, "data:image/png;base64," + fs.readFileSync(chart).toString("base64"));
    assert.equal(await page.locator("article.user img").count(), 1);
    assert.ok(await page.locator("article.user img").evaluate(i => i.naturalWidth === 160));
    assert.equal(await page.locator(".end.bad").count(), 0, await page.textContent("#log"));
    await page.reload();
    await page.waitForSelector("article.user img");
    await say(page, "And what else?"); // the picture goes along with what follows
    await done(page);
    assert.equal((await asked(2)).messages[0].content[0].type, "image_url");
    await server.stop();
    return page;
  },
  "conversations are found, renamed, deleted with a way back, exported and imported": async () => {
    const page = await openPage(main.url);
    await ready(page);
    for (const text of ["hi", "Thank you"]) { await page.click("#new"); await say(page, text); await done(page); }
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 2);
    const menu = async (title, entry) => { await page.getByRole("button", { name: `More for “${title}”` }).click(); await page.locator("#row-menu").getByRole("button", { name: entry }).click(); };
    await menu("hi", "Rename");
    await page.getByLabel("Title").fill("A greeting");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "A greeting", exact: true }).waitFor();
    await page.fill("#search", "greet");
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 1);
    await page.fill("#search", "hi"); // is in a message
    await page.waitForFunction(() => [...document.querySelectorAll("#list .open")].some(e => e.textContent === "A greeting"));
    await page.fill("#search", "zebra");
    await page.getByText("Nothing was found.").waitFor();
    await page.fill("#search", "");
    const [file] = await Promise.all([page.waitForEvent("download"), menu("A greeting", "Export")]);
    const kept = JSON.parse(fs.readFileSync(await file.path(), "utf8"));
    assert.equal(kept.conversations.length, 1);
    assert.equal(kept.conversations[0].notes.length, 2);
    await menu("A greeting", "Delete");
    await page.getByText("“A greeting” was deleted.").waitFor();
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 1);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.waitForFunction(() => document.querySelector("article .body")?.textContent === "hi");
    const other = JSON.stringify({ title: "From elsewhere", messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "One?" }, { role: "assistant", content: [{ type: "text", text: "Two." }] }] });
    await page.setInputFiles("#import", [{ name: "ours.json", mimeType: "application/json", buffer: fs.readFileSync(await file.path()) }, { name: "theirs.json", mimeType: "application/json", buffer: Buffer.from(other) }]);
    await page.waitForFunction(() => document.querySelectorAll("#list .open").length === 4);
    await page.getByRole("button", { name: "From elsewhere", exact: true }).click();
    await page.waitForFunction(() => [...document.querySelectorAll("article .body")].map(e => e.textContent.trim()).join() === "One?,Two.");
    await page.setInputFiles("#import", [{ name: "bad.json", mimeType: "application/json", buffer: Buffer.from("[1, {}]") }]);
    await page.getByText("This file has no conversations").waitFor();
    // A message and what follows it.
    await page.locator("article.assistant").getByRole("button", { name: "Delete" }).click();
    await page.waitForFunction(() => document.querySelectorAll("article").length === 1);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.waitForFunction(() => document.querySelectorAll("article").length === 2);
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("article").length === 2);
    return page;
  },
  "settings are checked as they are typed, and kept under a name": async () => {
    const page = await openPage(main.url, { viewport: { width: 1200, height: 800 } });
    await ready(page);
    await page.click("#open-settings");
    assert.ok(!await page.isVisible("#manage"), "nothing to load where that is not allowed");
    assert.ok(!await page.isVisible("#key"), "a local user sees no field for a key");
    const button = await page.locator("#settings footer button").boundingBox();
    assert.ok(button.y + button.height <= 800, "the button that closes is in sight");
    await page.getByLabel("Top p", { exact: true }).fill("1.5");
    await page.getByText("0 to 1, please.").waitFor();
    assert.equal(await page.getByLabel("Top p", { exact: true }).getAttribute("aria-invalid"), "true");
    await page.getByLabel("Top k", { exact: true }).fill("1.5");
    await page.getByText("A whole number, please.").waitFor();
    await page.getByLabel("Top p", { exact: true }).fill("0.9");
    await page.getByLabel("Top k", { exact: true }).fill("");
    await page.getByLabel("Temperature", { exact: true }).fill("0");
    await page.getByLabel("Max tokens", { exact: true }).fill("5");
    await page.getByLabel(/^System prompt/).fill("Be brief.");
    await page.getByLabel("Save these as").fill("Brief");
    await page.locator("#preset-keep").click();
    await page.getByLabel("Max tokens", { exact: true }).fill("7");
    await page.getByLabel(/^System prompt/).fill("");
    await page.click("#settings button.main");
    await page.click("#open-settings");
    await page.selectOption("#preset", "Brief");
    assert.equal(await page.getByLabel("Max tokens", { exact: true }).inputValue(), "5");
    assert.equal(await page.getByLabel(/^System prompt/).inputValue(), "Be brief.");
    await picture(page, "page-settings.png");
    await page.click("#settings button.main");
    const asked = page.waitForRequest(/chat\/completions/);
    await say(page, "Tell me a story.");
    const body = (await asked).postDataJSON();
    assert.equal(body.max_tokens, 5);
    assert.equal(body.top_p, 0.9);
    assert.deepEqual(body.messages[0], { role: "system", content: "Be brief." });
    await done(page);
    await page.getByText("The answer ended at the limit of tokens.").waitFor();
    return page;
  },
  "models are loaded and unloaded where the operator allows it": async () => {
    const server = await startServer(["--set", "http.manage=true"]);
    const page = await openPage(server.url);
    await ready(page);
    await page.click("#open-settings");
    await page.locator("#models li").waitFor();
    assert.match(await page.locator("#models").textContent(), /demo loaded, [\d.]+ MB of memory/);
    await page.getByRole("button", { name: "Unload: demo" }).click();
    await page.getByRole("button", { name: "Load: demo", exact: true }).waitFor();
    await page.getByRole("button", { name: "Load: demo", exact: true }).click();
    await page.getByRole("button", { name: "Unload: demo" }).waitFor();
    await page.click("#settings button.main");
    await say(page, "hi");
    await done(page);
    await server.stop();
    return page;
  },
  "a model is fetched from the hub where the operator allows it, with progress and a way to stop": async () => {
    const hub = await startHub();
    const server = await startServer(["--set", "http.pull=true", "--set", `models_dir=${path.join(dir, "models")}`, "--set", `hub=${hub.url}/slow`]);
    const page = await openPage(server.url);
    await ready(page);
    await page.click("#open-settings");
    const name = page.getByLabel("Fetch a model from the hub"), said = page.locator("#models-said"), fetchIt = page.getByRole("button", { name: "Fetch", exact: true });
    await name.fill("http://example.org/x.gguf");
    await name.press("Enter");
    await page.getByText(/expected a name of the hub/).waitFor();
    await name.fill("tale");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await page.locator("#hits li").first().waitFor();
    assert.match(await page.textContent("#hits"), new RegExp(`^Owner/Tale:q4_k_m ${demoSize} · [\\d,]+ tok/s at most · needs about \\d+ MB of memory`));
    assert.equal(await page.locator("#hits li").count(), 1);
    await name.fill("nothing like it");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await page.getByText("Nothing was found.").waitFor();
    await name.fill("Owner/Tale:q4_k_m");
    await fetchIt.click();
    await page.getByText(new RegExp(`Owner/Tale:q4_k_m: [\\d.]+ [kM]B of ${demoSize}`)).waitFor();
    assert.ok(await page.getByRole("progressbar", { name: "Part that was fetched" }).isVisible());
    await page.locator("#pull-stop").click();
    await page.getByText("Stopped. What has come is kept for the next time.").waitFor();
    await fetchIt.click();
    await page.getByText("Owner/Tale/Tale-Q4_K_M is here").waitFor({ timeout: 60000 });
    assert.ok(!await page.locator("#pull-stop").isVisible(), await said.textContent());
    await page.click("#settings button.main");
    await page.selectOption("#model", "Owner/Tale/Tale-Q4_K_M");
    await say(page, "hi");
    await done(page);
    assert.equal(await page.textContent("article.assistant h3"), "Owner/Tale/Tale-Q4_K_M");
    await server.stop();
    hub.stop();
    return page;
  },
  "formulas and tables": async () => {
    const server = await serveStandIn(main.url);
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "math");
    await done(page);
    await page.waitForFunction(() => document.querySelectorAll("article.assistant math").length === 4);
    assert.equal(await page.locator("article.assistant math[display=block]").count(), 2);
    const text = (await bodies(page))[1];
    assert.ok(text.includes("It costs $5 and $6.") && text.includes("$\\nonsense{$"), text);
    assert.equal(await page.locator("article.assistant table td").count(), 2);
    assert.ok(server.seen.includes("/web/katex.min.js"));
    server.close();
    return page;
  },
  "the playground holds an answer to a schema, and says what it refuses": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await page.click("#open-play");
    await page.click("#play-form button.main");
    await page.waitForFunction(() => document.querySelector("#play-out").textContent.trim().endsWith("}"), null, { timeout: 60000 });
    const value = JSON.parse(await page.textContent("#play-out"));
    assert.equal(typeof value.name, "string");
    assert.ok(Number.isInteger(value.age));
    await picture(page, "playground.png", "#play");
    await page.fill("#play-rule", '{"type": 7}');
    await page.click("#play-form button.main");
    await page.waitForSelector("#play-out.bad");
    return page;
  },
  "Indonesian, dark, on a telephone": async () => {
    const page = await openPage(main.url, { viewport: { width: 375, height: 740 }, locale: "id-ID", colorScheme: "dark", hasTouch: true });
    await ready(page);
    assert.equal(await page.textContent("#send"), "Kirim");
    assert.equal(await page.getAttribute("html", "lang"), "id");
    await say(page, "Siapa kamu?");
    await done(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no scrolling sideways");
    await picture(page, "page-phone.png");
    await page.click("#menu");
    await page.waitForSelector("#list li button.open:visible");
    await page.click("#new");
    await page.setViewportSize({ width: 320, height: 640 });
    for (const opener of ["#open-settings", "#open-play", null]) {
      if (opener) { await page.click("#menu"); await page.click(opener); }
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `no scrolling sideways, ${opener}`);
      if (opener) { await page.keyboard.press("Escape"); await page.evaluate(() => document.querySelector("#side").classList.remove("open")); }
    }
    assert.ok(!/[a-z]_|undefined/.test(await page.textContent("main")));
    return page;
  },
  "from 320 to 2,560 pixels nothing lies outside": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "Tell me a story about a cat.");
    await done(page);
    await page.click("#open-figures");
    for (const width of [320, 390, 600, 760, 1000, 1100, 1440, 2560]) {
      await page.setViewportSize({ width, height: 800 });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} pixels`);
    }
    const wide = await page.locator("article.assistant .body").boundingBox();
    assert.ok(wide.width < 800, "a line stays as long as one reads");
    return page;
  },
  "by keyboard alone": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await page.waitForFunction(() => document.activeElement.id === "ask");
    await page.keyboard.type("hi");
    await page.keyboard.press("Enter");
    await done(page);
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(() => document.activeElement.id === "open-settings")) break;
    }
    await page.keyboard.press("Enter");
    assert.ok(await page.evaluate(() => document.querySelector("#settings").open));
    await page.keyboard.press("Escape");
    assert.ok(!await page.evaluate(() => document.querySelector("#settings").open));
    return page;
  },
  "the page is small": async () => {
    const page = await openPage(main.url);
    const urls = await page.evaluate(() => performance.getEntriesByType("resource").map(e => e.name));
    await ready(page);
    let packed = 0;
    for (const url of [main.url, ...urls.filter(u => u.includes("/web/")), main.url + "/web/katex.min.js"]) packed += gzipSync(Buffer.from(await (await fetch(url, { headers: { accept: "text/html" } })).arrayBuffer()), { level: 9 }).length;
    assert.ok(urls.length > 8 && packed < 250 * 1024, `${packed} bytes`);
    console.log(`# ${packed} bytes, packed with gzip`);
    return page;
  },
  "axe finds nothing serious, light and dark": async () => {
    let page;
    const learning = await startServer(["--learn", "--set", `learning.dir="${path.join(dir, "axe")}"`]);
    for (const colorScheme of ["light", "dark"]) {
      page = await openPage(learning.url, { colorScheme, bypassCSP: true });
      await ready(page);
      await say(page, "Tell me a story.");
      await done(page);
      await page.click("#open-figures");
      await page.waitForSelector("#figures svg");
      if (colorScheme === "dark") { await page.click("#close-figures"); await picture(page, "page-dark.png"); await page.click("#open-figures"); }
      for (const opener of [null, "#new", "#open-settings", "#open-play", "#open-learn"]) {
        if (opener) await page.click(opener);
        await page.evaluate(axe.source);
        const found = await page.evaluate(() => window.axe.run());
        const serious = found.violations.filter(v => ["serious", "critical"].includes(v.impact));
        assert.deepEqual(serious.map(v => `${v.id}: ${v.nodes[0].html.slice(0, 120)}`), []);
        if (opener && opener !== "#new") await page.keyboard.press("Escape");
      }
    }
    await learning.stop();
    return page;
  },
};

let failed = 0;
main = await startServer();
for (const [name, test] of Object.entries(tests).filter(([name]) => name.includes(only))) {
  try {
    const page = await test();
    assert.deepEqual(page.problems, []);
    await page.context().close();
    console.log("ok " + name);
  } catch (e) {
    failed++;
    console.log(`not ok ${name}\n${e.stack}`);
  }
}
await browser.close();
await main.stop();
fs.rmSync(dir, { recursive: true });
console.log(`${Object.keys(tests).length} tests, ${failed} failed`);
process.exit(failed ? 1 : 0);
