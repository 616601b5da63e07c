// A comment out of its thread, as in the list of what somebody wrote. It leads to the post.

import { bidi, h } from "../dom.js";
import { timeElement } from "../format.js";
import { icon } from "../icons.js";
import { tm } from "../i18n/more.js";
import { paths } from "../router.js";
import { avatarLink } from "./avatar.js";
import { fillText } from "./text.js";

export function commentRow(app, comment) {
  const person = app.client.people.get(comment.author);
  const text = h("p", { class: "text", dir: "auto", data: { testid: "comment-written" } });
  fillText(text, comment);
  const head = h(
    "header",
    { class: "post-head" },
    h(
      "span",
      { class: "names" },
      h("a", { class: "author", href: paths.user(person.id) }, bidi(person.name)),
      h("span", { class: "handle", text: `@${person.id}` }),
    ),
    h("a", { class: "when", href: paths.post(comment.post) }, timeElement(comment.created_at)),
  );
  const thread = h(
    "a",
    { class: "place", href: paths.post(comment.post) },
    icon("comment"),
    tm(comment.reply_to ? "comment.in-reply" : "comment.on-post"),
  );
  return h(
    "article",
    { class: "post", "aria-label": tm("comment.by", { name: person.name }) },
    avatarLink(person),
    h("div", { class: "post-main" }, head, text, thread),
  );
}
