// What users wrote, with its mentions, topics and links. It enters the document as text.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { tokens } from "../text.js";

/** How much of a text is shown until somebody wants more, in UTF-16 units; a text that is little longer is whole. */
const MAX_SHOWN = 1000;
const MAX_WHOLE = 1100;

/**
 * Fills an element with a text. Mentions and topics become links if the server recognised them. Of a long text the
 * beginning is shown, unless the element asks for the `whole`.
 */
export function fillText(element, { text, mentions = [], topics }) {
  const recognised = {
    // Ids are found however they are written.
    mentions: new Map(mentions.map((id) => [id.toLowerCase(), id])),
    topics: topics && new Set(topics),
  };
  const nodes = [];
  const isCut = text.length > MAX_WHOLE && !("whole" in element.dataset);
  let shown = isCut ? cutAt(text) : text.length;
  let end = 0;
  for (const token of tokens(text)) {
    if (token.start >= shown) break;
    shown = Math.max(shown, token.end);
    const written = text.slice(token.start, token.end);
    const link = linkOf(token, written, recognised);
    if (!link) continue;
    nodes.push(text.slice(end, token.start), link);
    end = token.end;
  }
  element.replaceChildren(...nodes, text.slice(end, shown));
  if (!isCut) return;
  const open = () => showWhole(element, { text, mentions, topics });
  element.append("… ", button({ class: "link", text: t("text.more"), data: { testid: "show-more" }, onclick: open }));
}

/** Fills an element with the whole of a text, now and when it changes. */
export function showWhole(element, content) {
  element.dataset.whole = "";
  fillText(element, content);
}

/** Where the beginning of a long text ends: behind a word. */
function cutAt(text) {
  const words = text.slice(0, MAX_SHOWN).replace(/\S*$/, "").trimEnd();
  const whole = words.length > MAX_SHOWN / 2 ? words : text.slice(0, MAX_SHOWN);
  // Not between the two halves of a character.
  return whole.replace(/[\ud800-\udbff]$/, "").length;
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
