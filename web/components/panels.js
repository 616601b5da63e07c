// The right column: who to follow, and topics.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { followButton, personLink } from "./person.js";
import { retryWhenLive } from "./states.js";

const FRESH_MS = 60_000;

/** A panel that shows itself once it has something to show; it is read again when it is old or empty. */
class Panel {
  #items = h("div", { class: "form" });
  #load;
  #readAt = 0;
  element;

  constructor(title, load) {
    this.#load = load;
    this.element = h(
      "section",
      { class: "card panel", hidden: true, "aria-label": title },
      h("h2", { text: title }),
      this.#items,
    );
    this.refresh();
  }

  /** Reads it anew, if it is old. */
  async refresh({ anyway = false } = {}) {
    const isFresh = !anyway && Date.now() - this.#readAt < FRESH_MS && this.#items.childElementCount > 0;
    if (isFresh || this.element.contains(document.activeElement)) return;
    this.#readAt = Date.now();
    const items = await this.#load().catch(() => null);
    if (!items) return retryWhenLive(() => this.refresh({ anyway: true }));
    this.#items.replaceChildren(...items);
    this.element.hidden = items.length === 0;
  }
}

/** Users that the caller's followees follow. */
export class SuggestionsPanel extends Panel {
  constructor(app) {
    super(t("suggestions"), () => suggestions(app, 3));
  }
}

/** Rows of suggested users. */
export async function suggestions(app, limit) {
  const { items } = await app.client.connection.rpc("users.suggest", { limit });
  return items.map((person) =>
    personLink(person, { hint: t("mutual", { n: person.mutual }), control: followButton(app, person) }),
  );
}

/** Topics with the latest activity. */
export class TopicsPanel extends Panel {
  constructor(app) {
    super(t("topics.now"), () => topics(app, 5).then(({ rows }) => rows));
  }
}

/** Rows of topics, of all or of those that begin with `q`, and where the next page begins. */
export async function topics(app, limit, { cursor, q } = {}) {
  const input = { limit, ...(cursor && { cursor }), ...(q && { q }) };
  const { items, next } = await app.client.connection.rpc("topics.list", input);
  const rows = items.map(({ name, posts }) =>
    h(
      "a",
      { class: "topic-row", href: paths.topic(name), data: { testid: "topic" } },
      h("strong", {}, h("bdi", { text: `#${name}` })),
      h("span", { class: "meta", text: t("posts", { n: posts }) }),
    ),
  );
  return { rows, next: next ?? null };
}
