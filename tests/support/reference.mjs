// The reference of the client module, made from its declarations.

import path from "node:path";

import ts from "typescript";

import { MODULE } from "./package.mjs";

const TYPES = path.join(MODULE, "types");

/** The classes and interfaces of the reference: [title, file, names of declarations whose members belong there]. */
const SECTIONS = [
  ["Feedline", "types/index.d.ts", "Feedline", "types/client.d.ts", "Client"],
  ["FeedlineOptions", "types.d.ts", "FeedlineOptions", "types.d.ts", "ConnectionOptions"],
  ["Connection", "types/connection.d.ts", "Connection"],
  ["Every store", "types/emitter.d.ts", "Emitter"],
  ["Every list: Pages", "types/pages.d.ts", "Pages"],
  ["Timeline", "types/timeline.d.ts", "Timeline"],
  ["Entry", "types.d.ts", "Entry"],
  ["Mark", "types.d.ts", "Mark"],
  ["Comments", "types/comments.d.ts", "Comments"],
  ["Follows and favourites: Marked", "types/marked.d.ts", "Marked"],
  ["Notifications", "types/notifications.d.ts", "Notifications"],
  ["ReadMarker", "types/readmarker.d.ts", "ReadMarker"],
  ["Likes", "types/likes.d.ts", "Likes"],
  ["LikeView", "types.d.ts", "LikeView"],
  ["People", "types/people.d.ts", "People"],
  ["FeedlineError", "types/errors.d.ts", "FeedlineError"],
  ["Transports", ...["webSocket", "httpStream", "fallback"].flatMap((name) => ["types/transport.d.ts", name])],
  ["React", "types/react.d.ts", "useStore"],
];

const HEAD = `# Reference of the client module

Made from the types of \`web/feedline/\`. [Clients](clients.md#the-client-module) has examples, and
[the operations](api.md) what they take and return.
`;

/** The text of docs/client-api.md. */
export function reference() {
  const program = ts.createProgram([path.join(TYPES, "index.d.ts"), path.join(TYPES, "react.d.ts")], {});
  const checker = program.getTypeChecker();
  const source = (file) => program.getSourceFile(path.join(MODULE, file));
  const table = (title, head, rows) => `\n## ${title}\n\n${head}\n|---|---|\n${rows.join("\n")}\n`;
  const parts = SECTIONS.map(([title, ...places]) => {
    const rows = [];
    for (let at = 0; at < places.length; at += 2) rows.push(...rowsOf(source(places[at]), places[at + 1]));
    return table(title, "| member | meaning |", rows);
  });
  parts.push(table("Operations", "| `api.` | operations |", operations(checker, source("types.d.ts"))));
  return HEAD + parts.join("");
}

function rowsOf(file, name) {
  const found = file.statements.find((statement) => statement.name?.text === name);
  const members = (found.members ?? [found]).filter(isPublic);
  return members.map((member) => `| \`${signature(member)}\` | ${meaning(member)} |`);
}

/** Of a property with a setter, the getter is listed. */
function isPublic(member) {
  const isHidden = member.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ProtectedKeyword);
  return member.name && !ts.isPrivateIdentifier(member.name) && !isHidden && !ts.isSetAccessor(member);
}

function signature(member) {
  const { name, parameters, type } = member;
  const text = (node) => node?.getText().replaceAll(/import\("[^"]+"\)\./g, "").replaceAll(/\s+/g, " ") ?? "";
  const isCall = parameters && !ts.isGetAccessor(member);
  const call = isCall ? `(${parameters.map(text).join(", ")})` : "";
  const optional = member.questionToken ? "?" : "";
  return `${text(name)}${optional}${call}: ${text(type)}`.replaceAll("|", "\\|");
}

/** What the comment says: its text, what is said of the type, and of the result after an arrow. */
function meaning(member) {
  const { comment, tags = [] } = member.jsDoc?.[0] ?? {};
  const said = (name) => tags.filter(({ tagName }) => tagName.text === name).map((tag) => textOf(tag.comment));
  const parts = [textOf(comment), ...said("type"), ...said("returns").map((text) => text && `→ ${text}`)];
  return parts.filter(Boolean).join(" ").replaceAll("|", "\\|");
}

const textOf = (comment) => ts.getTextOfJSDocComment(comment)?.replaceAll(/\s+/g, " ");

/** The names of the operations, a row for each group. */
function operations(checker, file) {
  const api = checker.getExportsOfModule(checker.getSymbolAtLocation(file)).find(({ name }) => name === "Api");
  const membersOf = (type) => checker.getPropertiesOfType(type).sort((a, b) => (a.name < b.name ? -1 : 1));
  return membersOf(checker.getDeclaredTypeOfSymbol(api)).map((group) => {
    const names = membersOf(checker.getTypeOfSymbol(group)).map(({ name }) => `\`${name}\``);
    return `| \`${group.name}\` | ${names.join(", ")} |`;
  });
}
