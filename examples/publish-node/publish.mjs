// Publish a request or a contract with nothing but a NATS client, the documented subjects and JSON; read the verdict.
//
//     node publish.mjs NATS_URL SEED_FILE DOCUMENT.json [REPOSITORY]
//
// SEED_FILE is the publisher's identity, as `gatewright keys bus` makes it (publisher.nk).
// Exit code 0: the run succeeded; 1: it did not; 2: the document was refused.

import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import process from "node:process";
import { connect, headers, nkeyAuthenticator } from "@nats-io/transport-node";

const [url, seedFile, file, repository] = process.argv.slice(2);
if (!url || !seedFile || !file) {
  console.error("usage: node publish.mjs NATS_URL SEED_FILE DOCUMENT.json [REPOSITORY]");
  process.exit(2);
}

const document = JSON.parse(await readFile(file, "utf8"));
if (repository) {
  document.repository = { ...document.repository, url: repository };
}

const seed = (await readFile(seedFile, "utf8")).trim();
const client = await connect({
  servers: new URL(url).host,
  authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
  inboxPrefix: `_INBOX_${basename(seedFile, ".nk")}`,
});

// Listening starts before the submission, so that no event of a quick run is missed.
const ledger = client.subscribe("gw.watch.*");

const meta = headers();
meta.set("Gw-Schema", "request" in document ? "run_request.v1" : "task_contract.v1");
const answer = await client.request("gw.submit", JSON.stringify(document), { headers: meta, timeout: 60_000 });
const reply = answer.json();

if (answer.headers?.get("Gw-Schema") === "error.v1") {
  console.log(`refused: ${reply.code}: ${reply.message}`);
  for (const fault of reply.faults ?? []) {
    console.log(`  ${fault.pointer || "/"}: ${fault.message}`);
  }
  await client.close();
  process.exit(2);
}

console.log(`accepted ${reply.run_id}`);
let status = "RUNNING";
for await (const message of ledger) {
  if (message.subject !== `gw.watch.${reply.run_id}`) {
    continue;
  }
  for (const event of message.json().events) {
    console.log(`${event.ts} ${event.event_type}`);
    if (event.event_type === "run_finished") {
      status = event.payload.status;
      console.log(`${status}: ${event.payload.code}: ${event.payload.message}`);
    }
    if (event.event_type === "bundle_sealed") {
      console.log(`bundle ${event.payload.location}`);
      ledger.unsubscribe();
    }
  }
}
await client.close();
process.exit(status === "SUCCESS" ? 0 : 1);
