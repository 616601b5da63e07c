// The types that the client is checked with.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import openapiTS, { astToString } from "openapi-typescript";

import { MODULE } from "../support/package.mjs";
import { Server } from "../support/server.mjs";

/** The document without descriptions: rewording a description changes no type. */
function shapeOf(value) {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).filter(([key, member]) => key !== "description" || typeof member !== "string");
  return Object.fromEntries(members.map(([key, member]) => [key, shapeOf(member)]));
}

test("api.d.ts matches the server's contract; FEEDLINE_BLESS=1 writes it", async () => {
  const server = await Server.start();
  try {
    const document = await (await fetch(`${server.origin}/api/openapi.json`)).json();
    const types = astToString(await openapiTS(shapeOf(document), { defaultNonNullable: false }))
      // The tool leaves headers that are not described open. They are texts, or numbers like those that are described.
      .replaceAll("[name: string]: unknown;", "[name: string]: string | number | undefined;");
    const file = path.join(MODULE, "api.d.ts");
    const generated = `// Generated from /api/openapi.json: FEEDLINE_BLESS=1 make client\n\n${types}`;
    if (process.env.FEEDLINE_BLESS) await writeFile(file, generated);
    assert.equal(await readFile(file, "utf8"), generated, "run FEEDLINE_BLESS=1 make client");
  } finally {
    await server.stop();
  }
});
