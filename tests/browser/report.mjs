// Reports (--report FILE.html) in a real browser. usage: node report.mjs KENTANG DEMO.gguf [PICTURES_DIR]
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import axe from "axe-core";
import { chromium } from "playwright-core";

const [kentang, demo, pictures] = process.argv.slice(2);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "kentang-report-"));
const run = (...words) => execFileSync(kentang, words, { cwd: dir, stdio: ["ignore", "ignore", "ignore"], env: { ...process.env, XDG_CONFIG_HOME: dir, XDG_CACHE_HOME: dir } });
const story = i => `On day ${i} there was a small ${["potato", "cat", "bird", "tree"][i % 4]}. It was ${["happy", "sad", "tired"][i % 3]} because the ${["rain", "sun", "wind"][i % 3]} came.\n`;
fs.writeFileSync(path.join(dir, "stories.txt"), Array.from({ length: 60 }, (_, i) => story(i)).join(""));
for (const type of ["q8_0", "q4_k_m", "q4_0", "q2_k"]) run("quantize", demo, `demo-${type}.gguf`, type);
run("bench", "-p", "64,256", "-n", "32", "-d", "0,256,640", "-b", "1,4", "-t", "1,2", "-r", "5", "--report", "bench.html");
run("compare", "demo-q8_0.gguf", demo, ...["q4_k_m", "q4_0", "q2_k"].map(t => `demo-${t}.gguf`), "-f", "stories.txt", "--context", "128", "--report", "compare.html");
run("perplexity", "demo-q4_0.gguf", "--kl", "demo-q8_0.gguf", "-f", "stories.txt", "--context", "128", "--report", "perplexity.html");
run("tune", "-r", "2", "--dry-run", "--report", "tune.html");

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-lcd-text"] });
const looks = { light: { viewport: { width: 1120, height: 720 } }, dark: { viewport: { width: 1120, height: 720 }, colorScheme: "dark" }, narrow: { viewport: { width: 320, height: 640 } } };
for (const name of ["bench", "compare", "perplexity", "tune"]) {
  for (const [look, options] of Object.entries(looks)) {
    const context = await browser.newContext({ ...options, bypassCSP: true });
    const page = await context.newPage();
    const asked = [];
    page.on("request", r => asked.push(r.url()));
    await page.goto(pathToFileURL(path.join(dir, name + ".html")).href);
    assert.equal(asked.length, 1, `${name} asks for ${asked}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}, ${look}: wider than the screen`);
    // no text of a drawing is cut off at the screen's edge
    const cut = await page.evaluate(() => [...document.querySelectorAll("svg text")].map(e => [e.textContent, e.getBoundingClientRect()]).filter(([, r]) => r.left < 0 || r.right > innerWidth).map(([t]) => t));
    assert.deepEqual(cut, [], `${name}, ${look}`);
    await page.evaluate(axe.source);
    const found = await page.evaluate(() => window.axe.run());
    assert.deepEqual(found.violations.map(v => `${v.id}: ${v.nodes[0].html.slice(0, 120)}`), [], `${name}, ${look}`);
    // printed, a dark screen's report is dark on white
    if (look === "dark") {
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
      assert.ok((await page.pdf({ format: "A4" })).length > 10000);
      await page.emulateMedia({ media: "screen" });
    }
    const shown = { bench: "light", compare: "dark" };
    if (pictures && shown[name] === look) await page.screenshot({ path: path.join(pictures, `report-${name}.png`), clip: { x: 60, y: 0, width: 1000, height: 585 } });
    await context.close();
  }
  console.log("ok a report of " + name);
}
await browser.close();
fs.rmSync(dir, { recursive: true });
