#!/usr/bin/env node
// The published @harness-kernel/sandbox-docker with sbxPath pointing at Cove.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { story } from "./lib/sandbox-story.mjs";

const name = "@harness-kernel/sandbox-docker";
const npm = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "package", name], {
  encoding: "utf8",
  timeout: 300_000,
});
if (npm.status !== 0) {
  const said = (npm.stderr ?? "").split("\n").find((line) => /npm error code|npm ERR! code/.test(line));
  console.log(`${name} cannot be installed: ${npm.error?.message ?? said ?? "npm failed"}; sbx-calls makes its calls`);
  process.exit(77);
}
const at = join(process.cwd(), "package/node_modules", name);
const { version, exports } = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
const { DockerSandbox } = await import(pathToFileURL(join(at, exports["."].import)));
await story(DockerSandbox);
console.log(`${name} ${version}`);
