// What a host of harness-kernel does with a DockerSandbox, whoever made that class: two sessions, commands, streams,
// time-outs, both ways to close, and what is there afterwards.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export async function story(DockerSandbox) {
  const here = process.cwd();
  const sbxPath = join(here, "sbx");
  const workDir = join(here, "project");
  const files = join(here, "files");
  symlinkSync(process.env.COVE_TEST_PROGRAM, sbxPath);
  mkdirSync(files);
  writeFileSync(join(files, "page"), "read me");
  const listed = () => execFileSync(sbxPath, ["ls", "-q"], { encoding: "utf8" }).split("\n").filter(Boolean);
  const open = (sandbox, sessionId) =>
    sandbox.open({ sessionId, runId: "run", agentKey: "agent", workDir, resources: {} });
  const common = { sbxPath, template: process.env.COVE_TEST_IMAGE, env: { CI: "1" } };

  const sandbox = new DockerSandbox({
    ...common,
    extraWorkspaces: [{ hostPath: files, readOnly: true, envName: "FILES" }],
  });
  const session = await open(sandbox, "first");
  assert.equal((await open(sandbox, "first")).id, session.id, "opened again it is the same");
  assert.deepEqual(listed(), [session.id]);

  let got = await session.exec({ command: "pwd; cat $FILES/page; echo $CI$X >&2; exit 7", env: { X: "a b" } });
  assert.equal(got.stdout, `${workDir}\nread me`);
  assert.equal(got.stderr, "1a b\n");
  assert.equal(got.exitCode, 7);
  assert.ok(!got.timedOut);
  got = await session.exec({ command: "cat > in; wc -c < in", cwd: "src/deep", stdin: "né\0\n" });
  assert.equal(got.stdout, "5\n");
  assert.equal(readFileSync(join(workDir, "src/deep/in"), "utf8"), "né\0\n");
  got = await session.exec({ command: "echo x > $FILES/page" });
  assert.notEqual(got.exitCode, 0);
  assert.equal(readFileSync(join(files, "page"), "utf8"), "read me");

  got = await session.exec({ command: "trap '' TERM; sleep 300 & sleep 300", timeoutMs: 1500 });
  assert.equal(got.timedOut, true);
  assert.ok(got.durationMs < 60000);
  got = await session.exec({ command: "ps -e -o args | grep -c '[s]leep 300'" });
  assert.equal(got.stdout, "0\n", "what timed out goes on");

  await session.close();
  assert.deepEqual(listed(), []);
  await sandbox.destroy({ sessionId: "first" });
  assert.ok(existsSync(join(workDir, "src/deep/in")));

  const keeping = new DockerSandbox({ ...common, persistence: "sandbox", namePrefix: "kept" });
  const kept = await open(keeping, "second");
  await kept.exec({ command: "echo 1 > ~/mine" });
  await kept.close({ reason: "close" });
  assert.deepEqual(listed(), [kept.id]);
  assert.equal((await (await open(keeping, "second")).exec({ command: "cat ~/mine" })).stdout, "1\n");
  await kept.close({ reason: "delete" });
  await assert.rejects(kept.close({ reason: "delete" }), /not found/);
  await keeping.destroy({ sessionId: "second" });
  assert.deepEqual(listed(), []);
}
