// The programs of the README, run against this tree.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { it } from "node:test";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const programs = [...readme.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1]);

it("has programs", () => assert.ok(programs.length >= 2));
programs.forEach((program, i) => it(`program ${i + 1} runs and prints`, () => {
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", program],
    { cwd: new URL("..", import.meta.url), timeout: 60_000 });
  assert.notEqual(out.length, 0);
}));
