// What users wrote, with its mentions, topics and links. It enters the document as text.

import { h } from "../dom.js";
import { paths } from "../router.js";
import { tokens } from "../text.js";

/** Fills an element with a text. Mentions and topics become links if the server recognised them. */
export function fillText(element, { text, mentions = [], topics }) {
  const recognised = {
    // Ids are found however they are written.
    mentions: new Map(mentions.map((id) => [id.toLowerCase(), id])),
    topics: topics && new Set(topics),
  };
  const nodes = [];
  let end = 0;
  for (const token of tokens(text)) {
    const written = text.slice(token.start, token.end);
    const link = linkOf(token, written, recognised);
    if (!link) continue;
    nodes.push(text.slice(end, token.start), link);
    end = token.end;
  }
  element.replaceChildren(...nodes, text.slice(end));
}

function linkOf({ kind, value }, written, { mentions, topics }) {
  if (kind === "link") {
    const href = hrefOf(value);
    const text = value.replace(/^https?:\/\//i, "");
    return href && h("a", { href, text, target: "_blank", rel: "noopener noreferrer" });
  }
  if (kind === "mention") {
    const id = mentions.get(value.toLowerCase());
    return id && h("a", { href: paths.user(id), text: written });
  }
  return (!topics || topics.has(value)) && h("a", { href: paths.topic(value), text: written });
}

/** Where a link leads; none for schemes that a page cannot follow or must not. */
function hrefOf(link) {
  if (/^(https?:\/\/|mailto:)/i.test(link)) return link;
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(link) ? null : `https://${link}`;
}
