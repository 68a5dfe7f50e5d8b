// Submit a contract with the generated client, follow it to its verdict, and fetch its bundle.
//
//     node build/publish.js NATS_URL SEED_FILE CONTRACT.json BUNDLE.zip
//
// Exit code 0: the run succeeded; 1: it did not; 2: the contract was refused.

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import { Client, type ErrorV1, type TaskContractV1 } from "./generated/gatewright.js";

function refused(error: ErrorV1): never {
  console.log(`refused: ${error.code}: ${error.message}`);
  for (const fault of error.faults ?? []) console.log(`  ${fault.pointer || "/"}: ${fault.message}`);
  process.exit(2);
}

const [url, seedFile, file, into] = process.argv.slice(2);
if (!url || !seedFile || !file || !into) throw new Error("usage: node build/publish.js NATS_URL SEED_FILE CONTRACT.json BUNDLE.zip");

const seed = (await readFile(seedFile, "utf8")).trim();
const connection = await connect({
  servers: new URL(url).host,
  authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
  inboxPrefix: `_INBOX_${basename(seedFile, ".nk")}`,
});
const client = new Client(connection);

const contract = JSON.parse(await readFile(file, "utf8")) as TaskContractV1;
const accepted = await client.submit({ schema: "task_contract.v1", payload: contract });
if (accepted.schema === "error.v1") refused(accepted.payload);
const run_id = accepted.payload.run_id;
console.log(`accepted ${run_id}`);

for (let after = 0, more = true; more; ) {
  const told = await client.events({ schema: "events_request.v1", payload: { run_id, after, wait_seconds: 20 } });
  if (told.schema === "error.v1") refused(told.payload);
  for (const event of told.payload.events) {
    after = event.seq ?? after;
    console.log(`${event.ts} ${event.event_type}`);
  }
  more = told.payload.more;
}

const standing = await client.status({ schema: "status_request.v1", payload: { run_id } });
if (standing.schema === "error.v1") refused(standing.payload);
console.log(`${standing.payload.status}: ${standing.payload.code}: ${standing.payload.message}`);

const pieces: Buffer[] = [];
let digest = "";
for (let offset = 0, size = 1; offset < size; ) {
  const part = await client.bundle({ schema: "bundle_request.v1", payload: { run_id, offset } });
  if (part.schema === "error.v1") refused(part.payload);
  const piece = Buffer.from(part.payload.data, "base64");
  if (!piece.length) throw new Error("a part of the bundle is empty");
  pieces.push(piece);
  ({ size, sha256: digest } = part.payload);
  offset += piece.length;
}
const archive = Buffer.concat(pieces);
if (createHash("sha256").update(archive).digest("hex") !== digest) throw new Error("the bundle came otherwise than it was sent");
await writeFile(into, archive);
console.log(`bundle ${digest}`);
await connection.close();
process.exit(standing.payload.status === "SUCCESS" ? 0 : 1);
