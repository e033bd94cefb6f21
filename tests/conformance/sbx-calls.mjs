#!/usr/bin/env node
// The calls that harness-kernel's DockerSandbox makes, word for word, where the package itself cannot be had.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { story } from "./lib/sandbox-story.mjs";

// stdin is a pipe that is closed after what is to be written; SIGTERM at the time-out, SIGKILL a second later.
function call(program, args, { stdin, timeoutMs } = {}) {
  const began = Date.now();
  return new Promise((done, fail) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    const got = { stdout: "", stderr: "", timedOut: false };
    const timers = [];
    if (timeoutMs !== undefined)
      timers.push(
        setTimeout(() => {
          got.timedOut = true;
          child.kill("SIGTERM");
        }, timeoutMs),
        setTimeout(() => child.kill("SIGKILL"), timeoutMs + 1000),
      );
    for (const name of ["stdout", "stderr"])
      child[name].setEncoding("utf8").on("data", (text) => {
        got[name] += text;
      });
    child.on("error", fail);
    child.on("close", (exitCode, signal) => {
      timers.forEach(clearTimeout);
      done({ ...got, exitCode, signal: signal ?? undefined, durationMs: Date.now() - began });
    });
    // Of a program that was over before it could be given anything, the exit status tells.
    child.stdin.on("error", (error) => error.code === "EPIPE" || fail(error));
    child.stdin.end(stdin ?? "");
  });
}

async function control(program, args) {
  const got = await call(program, args);
  if (got.exitCode !== 0) throw new Error(`${args.join(" ")} failed: ${got.stderr || got.stdout}`);
  return got.stdout;
}

class DockerSandbox {
  constructor(options) {
    this.options = { namePrefix: "harness", persistence: "workspace", extraWorkspaces: [], env: {}, ...options };
  }

  name(sessionId) {
    return `${this.options.namePrefix}-${createHash("sha256").update(sessionId).digest("hex").slice(0, 16)}`;
  }

  async open({ sessionId, workDir }) {
    const { sbxPath, template, extraWorkspaces } = this.options;
    const name = this.name(sessionId);
    mkdirSync(workDir, { recursive: true });
    if (!(await control(sbxPath, ["ls", "-q"])).split(/\r?\n/).some((line) => line.trim() === name)) {
      const paths = extraWorkspaces.map(({ hostPath, readOnly }) => (readOnly ? `${hostPath}:ro` : hostPath));
      const args = ["create", "shell", "--name", name, "--template", template, workDir, ...paths];
      await control(sbxPath, args).catch((error) => {
        if (!/already exists/i.test(error.message)) throw error;
      });
    }
    const mounts = extraWorkspaces.map(({ envName, hostPath }) => [envName, hostPath]);
    return new Session(name, workDir, { ...this.options, env: { ...this.options.env, ...Object.fromEntries(mounts) } });
  }

  async destroy({ sessionId }) {
    await control(this.options.sbxPath, ["rm", "--force", this.name(sessionId)]).catch((error) => {
      if (!/not found|no such|does not exist/i.test(error.message)) throw error;
    });
  }
}

class Session {
  constructor(id, workDir, options) {
    Object.assign(this, { id, workDir, options });
  }

  exec({ command, cwd, env, stdin, timeoutMs = 30_000 }) {
    const where = cwd ? resolve(this.workDir, cwd) : this.workDir;
    mkdirSync(where, { recursive: true });
    const pairs = Object.entries({ ...this.options.env, ...env }).flatMap(([key, value]) => ["-e", `${key}=${value}`]);
    const args = ["exec", "-i", "-w", where, ...pairs, this.id, "bash", "-lc", command];
    return call(this.options.sbxPath, args, { stdin, timeoutMs });
  }

  async close({ reason } = { reason: "close" }) {
    const remove = reason === "delete" || this.options.persistence === "workspace";
    await control(this.options.sbxPath, remove ? ["rm", "--force", this.id] : ["stop", this.id]);
  }
}

await story(DockerSandbox);
console.log("open, exec, time-out, close, destroy");
