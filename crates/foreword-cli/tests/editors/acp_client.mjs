// The official TypeScript client of ACP: `acp_client.mjs SDK VAULT COMMAND…`. A whole session with a permission request, a rejected one,
// a cancel, a load and a resume.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, vault, ...command] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(sdk, "dist/v1/stable/acp.js")).href);
const { agent: remote, client: local } = acp.methods;

/** Starts the agent, and runs a part of the session with it. */
async function connected(part) {
  const program = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));
  const seen = { updates: [], permissions: [], answer: "once", reads: [] };
  const app = acp
    .client({ name: "test" })
    .onNotification(local.session.update, ({ params }) => void seen.updates.push(params.update))
    .onRequest(local.session.requestPermission, async ({ params }) => {
      seen.permissions.push(params);
      if (seen.answer === "wait") {
        await new Promise((resolve) => (seen.release = resolve));
        return { outcome: { outcome: "cancelled" } };
      }
      return { outcome: { outcome: "selected", optionId: seen.answer } };
    })
    .onRequest(local.fs.readTextFile, ({ params }) => {
      seen.reads.push(params.path);
      return { content: params.path.endsWith("Bread.md") ? "Not saved: 600 g flour." : "let x = 1;" };
    });
  try {
    return await app.connectWith(stream, async (context) => {
      const begun = await context.request(remote.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: true, writeTextFile: false }, terminal: false },
      });
      assert.equal(begun.protocolVersion, 1);
      assert.ok(begun.agentCapabilities.loadSession && begun.agentCapabilities.sessionCapabilities.resume);
      return part((method, params) => context.request(method, params), context, seen);
    });
  } finally {
    program.stdin.end();
    await new Promise((resolve) => program.once("exit", resolve));
  }
}

const text = (words) => [{ type: "text", text: words }];
const spoken = (updates, kind = "agent_message_chunk") =>
  updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");
const kinds = (updates) => updates.map((update) => update.sessionUpdate);

const sessionId = await connected(async (ask, context, seen) => {
  const session = await ask(remote.session.new, { cwd: vault, mcpServers: [] });
  const { sessionId } = session;
  assert.deepEqual(session.modes.availableModes.map((mode) => mode.id), ["chat", "qa", "plan", "agent"]);
  assert.deepEqual(session.configOptions.map((option) => option.id), ["model", "template", "layout"]);
  const prompt = (prompt) => ask(remote.session.prompt, { sessionId, prompt });

  // A plain answer, with a file as it is in the editor, a text and an image.
  const link = { type: "resource_link", name: "Bread.md", uri: `file://${vault}/Kitchen/Bread.md` };
  const outside = { type: "resource_link", name: "main.rs", uri: "file:///elsewhere/main.rs" };
  const embedded = { type: "resource", resource: { uri: "file:///elsewhere/notes.txt", text: "a note", mimeType: "text/plain" } };
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const image = { type: "image", data: pixel, mimeType: "image/png" };
  assert.equal((await prompt([...text("Why was it flat? "), link, outside, embedded, image])).stopReason, "end_turn");
  assert.equal(spoken(seen.updates), "It proved too long.");
  assert.deepEqual(seen.reads, [`${vault}/Kitchen/Bread.md`, "/elsewhere/main.rs"]);
  assert.ok(kinds(seen.updates).includes("available_commands_update"));
  const usage = seen.updates.find((update) => update.sessionUpdate === "usage_update");
  assert.ok(usage && usage.size > 0 && usage.cost.currency === "USD" && "cachedShare" in usage._meta.foreword, JSON.stringify(usage));

  // A change that is allowed, then one that is not.
  const note = join(vault, "Inbox/From the editor.md");
  seen.updates.length = 0;
  assert.equal((await prompt(text("Write it down."))).stopReason, "end_turn");
  assert.equal(readFileSync(note, "utf8"), "Proof for less time.\n");
  const asked = seen.permissions[0].toolCall;
  const diff = asked.content.find((content) => content.type === "diff");
  assert.equal(diff.path, note);
  assert.equal(diff.newText, "Proof for less time.\n");
  assert.deepEqual(asked.locations, [{ path: note }]);
  const call = seen.updates.find((update) => update.sessionUpdate === "tool_call");
  assert.equal(call.toolCallId, asked.toolCallId);
  assert.equal(call.kind, "edit");
  assert.ok(seen.updates.some((update) => update.sessionUpdate === "tool_call_update" && update.status === "completed"));
  assert.ok(kinds(seen.updates).includes("plan"));
  seen.answer = "no";
  await prompt(text("And this."));
  assert.equal(seen.permissions.length, 2);
  assert.equal(readFileSync(note, "utf8"), "Proof for less time.\n");
  assert.ok(!existsSync(join(vault, "Inbox/Refused.md")));

  // Modes, options, commands.
  await ask(remote.session.setMode, { sessionId, modeId: "qa" });
  await assert.rejects(ask(remote.session.setMode, { sessionId, modeId: "none" }));
  const options = await ask(remote.session.setConfigOption, { sessionId, configId: "layout", value: "library" });
  assert.equal(options.configOptions.find((option) => option.id === "layout").currentValue, "library");
  await ask(remote.session.setMode, { sessionId, modeId: "chat" });
  seen.updates.length = 0;
  assert.equal((await prompt(text("/cost"))).stopReason, "end_turn");
  assert.match(spoken(seen.updates), /requests/);
  await prompt(text("/search loaf"));
  assert.match(spoken(seen.updates), /Kitchen\/Bread\.md/);

  // A cancel while the turn waits for a permission.
  seen.answer = "wait";
  const cancelled = prompt(text("Write again."));
  while (!seen.release) await new Promise((resolve) => setTimeout(resolve, 20));
  await context.notify(remote.session.cancel, { sessionId });
  seen.release();
  assert.equal((await cancelled).stopReason, "cancelled");

  const listed = await ask(remote.session.list, { cwd: vault });
  assert.deepEqual(listed.sessions.map((row) => row.sessionId), [sessionId]);
  await ask(remote.session.close, { sessionId });
  await assert.rejects(prompt(text("closed")));
  return sessionId;
});

await connected(async (ask, context, seen) => {
  const where = { sessionId, cwd: vault, mcpServers: [] };
  await ask(remote.session.load, where);
  assert.match(spoken(seen.updates, "user_message_chunk"), /Why was it flat/);
  assert.match(spoken(seen.updates), /It proved too long\./);
  seen.updates.length = 0;
  await ask(remote.session.resume, where);
  assert.equal(spoken(seen.updates), "", "a resumed session is not told again");
  assert.equal((await ask(remote.session.prompt, { sessionId, prompt: text("Once more.") })).stopReason, "end_turn");
  await assert.rejects(ask(remote.session.load, { ...where, sessionId: "nowhere" }));
  await assert.rejects(ask(remote.session.new, { cwd: "relative", mcpServers: [] }));
  await ask(remote.session.delete, { sessionId });
  await assert.rejects(ask(remote.session.load, where));
});
console.log("a whole session");
