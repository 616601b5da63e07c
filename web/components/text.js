// What users wrote, with its mentions, topics and links. It enters the document as text.

import { h } from "../dom.js";
import { paths } from "../router.js";

const PARTS = /(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]}])|@([A-Za-z0-9_.-]{1,64})|#([\p{L}\p{N}_]{1,100})/gu;

/** Fills an element with a text. Mentions and topics become links if the server recognised them. */
export function fillText(element, { text, mentions = [], topics }) {
  const recognised = {
    mentions: new Set(mentions),
    topics: topics && new Set(topics.map((topic) => topic.toLowerCase())),
  };
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(PARTS)) {
    const link = linkOf(match, recognised);
    if (!link) continue;
    nodes.push(text.slice(end, match.index), link);
    end = match.index + link.dataset.length * 1;
    delete link.dataset.length;
  }
  element.replaceChildren(...nodes, text.slice(end));
}

function linkOf([whole, url, user, topic], { mentions, topics }) {
  if (url) {
    const shown = url.replace(/^https?:\/\//, "");
    return link(url, shown, url.length, { target: "_blank", rel: "noopener noreferrer" });
  }
  if (user) {
    // The end of a sentence may stand behind a name.
    const id = [user, user.replace(/[.-]+$/, "")].find((one) => mentions.has(one));
    return id && link(paths.user(id), `@${id}`, id.length + 1);
  }
  const name = topic.toLowerCase();
  return (!topics || topics.has(name)) && link(paths.topic(name), whole, whole.length);
}

function link(href, text, length, more = {}) {
  return h("a", { href, text, data: { length }, ...more });
}
