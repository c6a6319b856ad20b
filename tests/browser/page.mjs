// What a person does on the page, in a real browser. usage: node page.mjs KENTANG [PICTURES_DIR]
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import assert from "node:assert/strict";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { hostile, serve as serveStandIn } from "./stand_in.mjs";

const [kentang, pictures] = process.argv.slice(2);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-browser-"));
const ended = process => new Promise(done => process.once("exit", done));

const startServer = async (options = [], at = "127.0.0.1:0") => {
  const child = spawn(kentang, ["serve", "--no-config", "--no-env", "--listen", at, "--socket", "none", "--set", "log.level=info", ...options], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", d => { log += d; });
  for (let i = 0; i < 200; i++) {
    const url = log.match(/ ready .*http=(http:\S*)/)?.[1];
    if (url) return { url, stop: async () => { child.kill("SIGTERM"); await ended(child); }, log: () => log };
    await new Promise(done => setTimeout(done, 50));
  }
  throw new Error("the server did not start:\n" + log);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-lcd-text"] });
let main;

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
const number = async (page, name, value) => { await page.click("#open-settings"); await page.getByLabel(name, { exact: true }).fill(String(value)); await page.getByLabel(name, { exact: true }).blur(); await page.click("#settings button.main"); };
const picture = async (page, name, part) => {
  if (!pictures) return;
  if (part) return page.locator(part).screenshot({ path: path.join(pictures, name) });
  const size = page.viewportSize();
  await page.setViewportSize({ width: Math.min(size.width, 960), height: 600 });
  await page.screenshot({ path: path.join(pictures, name) });
  await page.setViewportSize(size);
};

const tests = {
  "streams an answer, with its figures and the seed": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await number(page, "temperature", 0);
    await say(page, "What is 17 + 25?");
    await done(page);
    const [question, answer] = await bodies(page);
    assert.equal(question, "What is 17 + 25?");
    assert.match(answer, /17 \+ 25 = 42\./);
    assert.match(await page.locator(".figures").textContent(), /\d+ tokens · .* tok\/s · .* s to the first · \d+ of the prompt, \d+ from cache · seed \d+/);
    await page.waitForSelector("#gauges meter");
    await page.waitForTimeout(1200);
    const gauges = await page.textContent("#gauges");
    for (const word of ["Keys and values", "in use", "kept for prompts to come", "answer 1 back", "found", "limit now", "allowed"]) assert.ok(gauges.includes(word), word);
    await picture(page, "page.png");
    return page;
  },
  "stops, and goes on": async () => {
    const server = await serveStandIn(main.url); // it writes for as long as it is listened to
    const page = await openPage(server.url);
    await ready(page);
    await say(page, "slow");
    await page.waitForFunction(() => /on and/.test(document.querySelectorAll("article .body")[1]?.textContent));
    await page.click("#stop");
    await done(page);
    await page.getByText("(stopped)").waitFor();
    const before = (await bodies(page))[1];
    await page.getByRole("button", { name: "Go on" }).click();
    await page.waitForFunction(n => document.querySelectorAll("article .body")[1].textContent.length > n, before.length);
    await page.click("#stop");
    await done(page);
    assert.ok((await bodies(page))[1].startsWith(before.trim()));
    assert.ok(server.left >= 2, "the server was hung up on");
    server.close();
    return page;
  },
  "again and edited messages are branches": async () => {
    const page = await openPage(main.url);
    await ready(page);
    await say(page, "Hello");
    await done(page);
    await page.getByRole("button", { name: "Again" }).click();
    await page.waitForSelector("text=2/2");
    await done(page);
    await page.getByRole("button", { name: "Edit" }).click();
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
    assert.equal(await page.locator("#list li").count(), 2);
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
    await page.waitForFunction(() => document.querySelectorAll("#list li").length === 2);
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
  "tells of a server that is gone, and goes on when it is back": async () => {
    let server = await startServer();
    const page = await openPage(server.url);
    await ready(page);
    await server.stop();
    await say(page, "hi");
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.textContent("#notice"), /cannot be reached/);
    server = await startServer([], new URL(server.url).host);
    await page.getByRole("button", { name: "Again" }).click();
    await page.waitForFunction(() => document.querySelectorAll("article .body")[1]?.textContent.length > 2);
    await done(page);
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
    await page.click("#open-settings");
    await page.getByLabel("Count tokens").check();
    await page.click("#settings button.main");
    await say(page, "How long is that?");
    await done(page);
    assert.equal(await page.locator(".call").count(), 2);
    assert.equal(server.called.length, 0);
    await picture(page, "page-tools.png", "article.assistant");
    await page.locator(".call").nth(0).getByRole("button", { name: "Allow", exact: true }).click();
    await page.locator(".call").nth(0).locator("details").waitFor();
    assert.deepEqual(server.called, [{ name: "count_tokens", arguments: { text: "one 0" } }]);
    await page.locator(".call").nth(1).getByRole("button", { name: "Refuse" }).click();
    await page.getByText("The tool said:").waitFor();
    await done(page);
    assert.match((await bodies(page)).at(-1), /The tool said: .*"tokens":3.* and The user did not allow this call\./);
    assert.equal(server.called.length, 1);
    await say(page, "And now?");
    await page.locator(".call").nth(2).getByRole("button", { name: "Allow in this conversation" }).click();
    await page.locator(".call").nth(2).locator("details").waitFor();
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
  "a correction is learned, shown and taken back": async () => {
    const server = await startServer(["--learn", "--set", `learning.dir="${path.join(dir, "learned")}"`]);
    const page = await openPage(server.url);
    await ready(page);
    await number(page, "temperature", 0);
    await say(page, "Who is the mayor of Blue Hill?");
    await done(page);
    const before = (await bodies(page))[1];
    await page.getByRole("button", { name: "Correct" }).click();
    await page.getByLabel("What the answer should have been").fill("The mayor of Blue Hill is Mrs. Weaver.");
    await page.locator("article form button.main").click();
    await page.waitForFunction(() => /version 1/.test(document.querySelector("#notice").textContent));
    await page.getByRole("button", { name: "Again" }).click();
    await page.waitForSelector("text=2/2");
    await done(page);
    assert.match((await bodies(page))[1], /Mrs\. Weaver/);
    assert.match(await page.locator(".figures").textContent(), /^with version 1/);
    await page.getByRole("button", { name: "Good" }).click();
    await page.waitForFunction(() => /version 2/.test(document.querySelector("#notice").textContent));
    await page.click("#open-learn");
    await page.waitForSelector("#learn-list dl");
    await picture(page, "page-learning.png", "#learn");
    await page.getByLabel("Version", { exact: true }).selectOption("0");
    await page.waitForFunction(() => /Version 0 holds/.test(document.querySelector("#learn-said").textContent));
    await page.getByRole("button", { name: "Train" }).click();
    await page.waitForFunction(() => !/Version 0 holds/.test(document.querySelector("#learn-said").textContent), null, { timeout: 120000 });
    await page.getByLabel("Version", { exact: true }).selectOption("0");
    await page.click("#learn button.main");
    await page.getByRole("button", { name: "Again" }).click();
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
    for (const url of [main.url, ...urls.filter(u => u.includes("/web/"))]) packed += gzipSync(Buffer.from(await (await fetch(url, { headers: { accept: "text/html" } })).arrayBuffer()), { level: 9 }).length;
    assert.ok(urls.length > 8 && packed < 200 * 1024, `${packed} bytes`);
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
      await page.waitForSelector("#gauges dl");
      for (const opener of [null, "#open-settings", "#open-play", "#open-learn"]) {
        if (opener) await page.click(opener);
        await page.evaluate(axe.source);
        const found = await page.evaluate(() => window.axe.run());
        const serious = found.violations.filter(v => ["serious", "critical"].includes(v.impact));
        assert.deepEqual(serious.map(v => `${v.id}: ${v.nodes[0].html.slice(0, 120)}`), []);
        if (opener) await page.keyboard.press("Escape");
      }
    }
    await learning.stop();
    return page;
  },
};

let failed = 0;
main = await startServer();
for (const [name, test] of Object.entries(tests)) {
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
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
