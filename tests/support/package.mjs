// The npm package feedline-client: its declarations, and how others install it.

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const run = promisify(execFile);
export const MODULE = fileURLToPath(new URL("../../web/feedline/", import.meta.url));
/** The packages of the tests, and their commands. */
export const PACKAGES = fileURLToPath(new URL("../node_modules/", import.meta.url));
export const tool = (name) => path.join(PACKAGES, ".bin", name);

/** Gives the tests of a file a folder of their own: `folder.path`. */
export function withFolder() {
  const folder = { path: "" };
  before(async () => {
    folder.path = await mkdtemp(path.join(tmpdir(), "feedline-package-"));
  });
  after(() => rm(folder.path, { recursive: true, force: true }));
  return folder;
}

/** The text of each file of a folder, by name. */
export async function textsOf(folder) {
  const files = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile());
  const text = async ({ name }) => [name, await readFile(path.join(folder, name), "utf8")];
  return Object.fromEntries(await Promise.all(files.map(text)));
}

/** Checks the module, and returns its declarations, by name. Those that are written by hand stay in its folder. */
export async function declarations(folder) {
  const options = ["--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", folder];
  await run(tool("tsc"), ["-p", MODULE, ...options]).catch(({ stdout }) => Promise.reject(new Error(stdout)));
  const files = Object.entries(await textsOf(folder)).map(([name, text]) => {
    const types = name === "index.d.ts" ? `${text}export * from "./types.js";\n` : text;
    return [name, types.replaceAll(/"\.\/(types|api)\.js"/g, '"../$1.js"')];
  });
  return Object.fromEntries(files);
}

/** Packs the module into a folder. Returns the name of the archive, and those of its files. */
export async function pack(folder) {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: MODULE });
  const [{ filename, files }] = JSON.parse(stdout);
  return { archive: path.join(folder, filename), files: files.map((file) => file.path) };
}

/** Installs the packed module, and packages of the tests, as `npm install` would in this folder. */
export async function install(folder, ...packages) {
  const { archive, files } = await pack(folder);
  await run("tar", ["xzf", archive, "-C", folder]);
  await cp(path.join(folder, "package"), path.join(folder, "node_modules/feedline-client"), { recursive: true });
  for (const name of packages) {
    const place = path.join(folder, "node_modules", name);
    await mkdir(path.dirname(place), { recursive: true });
    await symlink(path.join(PACKAGES, name), place);
  }
  return files;
}
