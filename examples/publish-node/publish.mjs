// Publish a request, a contract or a CloudEvent with nothing but a NATS client, the documented subjects and JSON.
//
//     node publish.mjs NATS_URL SEED_FILE DOCUMENT.json [REPOSITORY]
//
// SEED_FILE is the publisher's identity, as `gatewright keys bus` makes it: publisher.nk, or publisher-NAME.nk for one with a name.
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
const isEvent = "specversion" in document;
if (repository) {
  const order = isEvent ? document.data : document;
  order.repository = { ...order.repository, url: repository };
}

const identity = basename(seedFile, ".nk");
// A publisher with a name speaks on subjects that end in it; the server refuses every other.
const name = identity.replace(/^publisher-?/, "");
const ending = name ? `.${name}` : "";
const seed = (await readFile(seedFile, "utf8")).trim();
const client = await connect({
  servers: new URL(url).host,
  authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
  inboxPrefix: `_INBOX_${identity}`,
});

const meta = headers();
if (isEvent) {
  meta.set("Content-Type", "application/cloudevents+json");
} else {
  meta.set("Gw-Schema", "request" in document ? "run_request.v1" : "task_contract.v1");
}
const answer = await client.request(`gw.submit${ending}`, JSON.stringify(document), { headers: meta, timeout: 60_000 });
const reply = answer.json();

if (answer.headers?.get("Gw-Schema") === "error.v1") {
  console.log(`refused: ${reply.code}: ${reply.message}`);
  for (const fault of reply.faults ?? []) {
    console.log(`  ${fault.pointer || "/"}: ${fault.message}`);
  }
  if (reply.retry_after_seconds != null) {
    console.log(`  try again in ${reply.retry_after_seconds} s`);
  }
  await client.close();
  process.exit(2);
}

console.log(`accepted ${reply.run_id}`);
let status = "RUNNING";
let seen = 0;
let more = true;
while (more) {
  // The answer waits for something new.
  const question = { run_id: reply.run_id, after: seen, wait_seconds: 20 };
  const told = await client.request(`gw.events${ending}`, JSON.stringify(question), { timeout: 30_000 });
  const found = told.json();
  if (told.headers?.get("Gw-Schema") === "error.v1") {
    console.log(`${found.code}: ${found.message}`);
    break;
  }
  for (const event of found.events) {
    seen = event.seq;
    console.log(`${event.ts} ${event.event_type}`);
    if (event.event_type === "run_finished") {
      status = event.payload.status;
      console.log(`${status}: ${event.payload.code}: ${event.payload.message}`);
    }
    if (event.event_type === "bundle_sealed") {
      console.log(`bundle ${event.payload.location}`);
    }
  }
  more = found.more;
}
await client.close();
process.exit(status === "SUCCESS" ? 0 : 1);
