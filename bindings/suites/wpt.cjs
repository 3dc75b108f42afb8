// Runs a file of the web platform tests: node wpt.cjs <testharness.js> <test>.any.js
// Prints a line for each of its tests: whether it passed, and its name.
"use strict";
const { readFileSync } = require("fs");
const { runInThisContext } = require("vm");
const [harness, test] = process.argv.slice(2);

globalThis.self = globalThis;
runInThisContext(readFileSync(harness, "utf8"), { filename: harness });
add_completion_callback((tests, status) => {
  if (status.status !== status.OK) console.log(`failed the harness: ${status.message}`);
  for (const { name, status, message, PASS } of tests) {
    console.log(status === PASS ? `passed ${name}` : `failed ${name}: ${message}`);
  }
  process.exit();
});
runInThisContext(readFileSync(test, "utf8"), { filename: test });
