// Write a TypeScript client from an AsyncAPI 3 document of Gatewright.
//
//     node generate.mjs publisher.json generated/gatewright.ts
//
// `gatewright topology --format asyncapi --publisher NAME` prints the document of a publisher with a name. Nothing about Gatewright
// is known here: addresses, documents, headers and answers are all the document's.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import { compile } from "json-schema-to-typescript";

const [from, to] = process.argv.slice(2);
if (!from || !to) {
  console.error("usage: node generate.mjs DOCUMENT.json CLIENT.ts");
  process.exit(2);
}
const document = JSON.parse(await readFile(from, "utf8"));

function at(reference) {
  const steps = reference.slice(2).split("/");
  return steps.reduce((node, step) => node[step.replaceAll("~1", "/").replaceAll("~0", "~")], document);
}

const lastOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);

function camel(name) {
  return name.replace(/^(send|receive)-/, "").replace(/-(.)/g, (_, letter) => letter.toUpperCase());
}

/** References as they are below `definitions`, and no titles: types have the names of their components. */
function asDefinitions(node) {
  if (Array.isArray(node)) return node.map(asDefinitions);
  if (node === null || typeof node !== "object") return node;
  const kept = Object.entries(node).filter(([key, value]) => !(key === "title" && typeof value === "string"));
  return Object.fromEntries(
    kept.map(([key, value]) => [
      key,
      key === "$ref" ? value.replace("#/components/schemas/", "#/definitions/") : asDefinitions(value),
    ]),
  );
}

/** A message as a member of a union: what names its schema, and its payload. */
function member(reference) {
  const message = at(at(reference).$ref);
  const binary = message.contentType === "application/octet-stream";
  const type = binary ? "Uint8Array" : lastOf(message.payload.$ref);
  const header = message.headers.properties["Gw-Schema"]?.const ?? "";
  return { name: message.name, type, header, content: message.contentType };
}

const union = (members) => members.map((each) => `{ schema: ${JSON.stringify(each.name)}; payload: ${each.type} }`).join(" | ");

function method(key, operation) {
  const channel = at(operation.channel.$ref);
  const members = operation.messages.map((each) => member(each.$ref));
  const parameters = Object.keys(channel.parameters ?? {});
  const address = `\`${channel.address.replace(/\{/g, "${at.")}\``;
  const where = parameters.length ? `at: { ${parameters.map((name) => `${name}: string`).join("; ")} }, ` : "";
  const words = `  /** ${operation.summary} */\n`;
  if (operation.action === "receive") {
    return `${words}  ${camel(key)}(${where}): AsyncIterable<${union(members)}> {
    return this.heard(${address}, ${JSON.stringify(members[0].name)}) as AsyncIterable<${union(members)}>;
  }\n`;
  }
  const sends = `${words}  async ${camel(key)}(${where}message: ${union(members)}, options: Options = {})`;
  if (operation.reply) {
    const answers = operation.reply.messages.map((each) => member(each.$ref));
    return `${sends}: Promise<${union(answers)}> {
    return (await this.asked(${address}, message, options)) as ${union(answers)};
  }\n`;
  }
  return channel["x-jetstream-stream"]
    ? `${sends}: Promise<void> {\n    await this.stored(${address}, message, options);\n  }\n`
    : `${sends}: Promise<void> {\n    this.told(${address}, message, options);\n  }\n`;
}

const types = await compile(
  { definitions: asDefinitions(document.components.schemas), type: "object" },
  "Everything",
  { bannerComment: "", unreachableDefinitions: true, additionalProperties: false, declareExternallyReferenced: true },
);

const schemas = Object.values(document.components.messages).map((message) => [
  message.name,
  [message.headers.properties["Gw-Schema"]?.const ?? "", message.contentType],
]);

const client = `// Generated from ${document.info.title} ${document.info.version}; do not edit.
import { headers, type NatsConnection } from "@nats-io/transport-node";

${types}
/** Of one message: its headers beside the schema's name, and milliseconds to wait for an answer. */
export interface Options {
  headers?: Record<string, string>;
  timeout?: number;
}

interface Said {
  schema: string;
  payload: unknown;
}

/** What a message is called in its header, and its content type. */
const MESSAGES: Record<string, [string, string]> = ${JSON.stringify(Object.fromEntries(schemas), null, 2)};

export class Client {
  constructor(readonly connection: NatsConnection) {}

${Object.entries(document.operations).map(([key, operation]) => method(key, operation)).join("\n")}
  private packed(message: Said, options: Options) {
    const [schema, content] = MESSAGES[message.schema]!;
    const made = headers();
    if (schema) made.set("Gw-Schema", schema);
    else if (content !== "application/octet-stream") made.set("Content-Type", content);
    for (const [name, value] of Object.entries(options.headers ?? {})) made.set(name, value);
    const data = message.payload instanceof Uint8Array ? message.payload : JSON.stringify(message.payload);
    return { data, headers: made };
  }

  private async asked(subject: string, message: Said, options: Options): Promise<Said> {
    const { data, headers } = this.packed(message, options);
    const answer = await this.connection.request(subject, data, { headers, timeout: options.timeout ?? 60_000 });
    return { schema: answer.headers?.get("Gw-Schema") ?? "", payload: answer.json() };
  }

  private async stored(subject: string, message: Said, options: Options): Promise<void> {
    const { data, headers } = this.packed(message, options);
    const answer = await this.connection.request(subject, data, { headers, timeout: options.timeout ?? 10_000 });
    const { error } = answer.json<{ error?: { description: string } }>();
    if (error) throw new Error(error.description);
  }

  private told(subject: string, message: Said, options: Options): void {
    const { data, headers } = this.packed(message, options);
    this.connection.publish(subject, data, { headers });
  }

  private async *heard(subject: string, schema: string): AsyncIterable<Said> {
    for await (const message of this.connection.subscribe(subject)) {
      yield { schema: message.headers?.get("Gw-Schema") || schema, payload: message.json() };
    }
  }
}
`;
await mkdir(dirname(to), { recursive: true });
await writeFile(to, client);
