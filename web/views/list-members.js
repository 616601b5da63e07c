// What a list is and what is in it: its name, whether its people are left out of Home, its people and topics.

import { bidi, button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { confirmDialog } from "../components/dialog.js";
import { labelled } from "../components/fields.js";
import { listForm, memberProblem } from "../components/list-form.js";
import { PagedList } from "../components/paged-list.js";
import { pickPeople } from "../components/people-picker.js";
import { personLink } from "../components/person.js";
import { failure, showWhenSlow, skeletons } from "../components/states.js";
import { doWithUndo } from "../components/undo.js";
import { listsOf } from "../lists.js";
import { paths } from "../router.js";
import { topicName, written } from "../text.js";
import { notFound } from "./not-found.js";

const PAGE = 30;

const section = (title, ...children) =>
  h("section", { class: "card settings" }, h("h2", { text: title }), ...children);

export function listMembersView(app, { id }) {
  const lists = listsOf(app);
  const place = h("div", { class: "view" });
  let members = null;
  const lose = () => {
    view.title = t("not-found");
    view.onTitle?.();
    place.replaceChildren(h("section", { class: "card" }, notFound()));
  };
  const build = () => {
    const save = async ({ name, exclusive }) => {
      const change = { name, ...(exclusive !== lists.find(id)?.exclusive && { exclusive }) };
      await lists.update(id, change);
      return tm("saved");
    };
    members = new Members(app, id, lose);
    const open = h("a", { class: "button", href: paths.list(id), text: tm("list.open") });
    place.replaceChildren(
      section(tm("list.about"), listForm(lists.find(id), save, open)),
      section(t("topics"), ...members.topicParts),
      section(tm("list.people"), ...members.peopleParts),
      section(tm("list.delete"), h("p", { text: tm("list.delete.text") }), deletion(app, id)),
    );
    return members.read();
  };
  const load = async () => {
    const shown = showWhenSlow(place, () => skeletons(3, "person"));
    try {
      await lists.read();
      await shown();
    } catch (error) {
      await shown();
      return place.replaceChildren(h("section", { class: "card" }, failure(error, load)));
    }
    render();
    return lists.find(id) ? build() : lose();
  };
  const render = () => {
    const list = lists.find(id);
    if (!list) return;
    view.title = list.name;
    view.onTitle?.();
  };
  const view = {
    title: lists.find(id)?.name ?? t("lists"),
    element: place,
    // Profiles and topics may have changed who is in it.
    resume: () => members?.read(),
    stop: lists.on(render),
  };
  view.ready = load();
  return view;
}

function deletion(app, id) {
  const lists = listsOf(app);
  const remove = async () => {
    await lists.delete(id);
    app.router.go(paths.lists());
    app.toast(tm("list.deleted"));
  };
  const { name } = lists.find(id);
  const ask = () => {
    const title = tm("list.delete.name", { name: lists.find(id)?.name ?? name });
    confirmDialog(title, tm("list.delete.text"), tm("post.delete"), remove);
  };
  const text = tm("list.delete");
  return h("div", {}, button({ class: "button danger", text, data: { testid: "list-delete" }, onclick: ask }));
}

/** The people and the topics of a list, to be taken out and added. */
class Members {
  #app;
  #id;
  #lost;
  #lists;
  #people = h("div", { class: "restricted", data: { testid: "list-people" } });
  #topics = h("div", { class: "push-here", data: { testid: "list-topics" } });
  #add = button({ class: "button", text: tm("list.people.add"), data: { testid: "list-add-people" } });
  #field = h("input", {
    class: "input",
    id: "list-topic",
    dir: "auto",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    data: { testid: "list-topic" },
  });
  topicParts;
  peopleParts;

  /** `lost()` is called when there is no such list. */
  constructor(app, id, lost) {
    this.#app = app;
    this.#id = id;
    this.#lost = lost;
    this.#lists = listsOf(app);
    this.#add.addEventListener("click", () => this.#pick());
    this.topicParts = [this.#topics, this.#topicForm()];
    this.peopleParts = [this.#people, h("div", {}, this.#add)];
  }

  /** Reads them anew. */
  read() {
    const load = async (cursor) => {
      const page = await this.#readPage(cursor);
      if (cursor === null) this.#showTopics(page.topics ?? []);
      return { rows: page.items.map((person) => this.#person(person)), next: page.next ?? null };
    };
    const none = () => h("p", { text: tm("list.people.none") });
    const list = new PagedList(load, none);
    list.element.classList.remove("card");
    const show = () => this.#people.replaceChildren(list.element);
    // What is shown stays until the page is there.
    if (this.#people.childElementCount === 0) show();
    return list.ready.then(show);
  }

  async #readPage(cursor) {
    const { connection } = this.#app.client;
    const input = { id: this.#id, limit: PAGE, ...(cursor && { cursor }) };
    try {
      return await connection.rpc("lists.members", input);
    } catch (error) {
      if (error.code !== 404) throw error;
      this.#lost();
      return { items: [] };
    }
  }

  #person(person) {
    const row = personLink(person, { control: this.#out("user", person.id, person.name, () => row) });
    return row;
  }

  #showTopics(names) {
    const rows = names.map((name) => {
      const link = h("a", { class: "name", href: paths.topic(name) }, h("bdi", { text: `#${name}` }));
      const control = this.#out("topic", name, `#${name}`, () => row);
      const row = h("li", { class: "person", data: { testid: "list-topic-row" } }, link, control);
      link.style.flex = "1";
      return row;
    });
    const none = h("p", { text: tm("list.topics.none") });
    this.#topics.replaceChildren(rows.length > 0 ? h("ul", { class: "devices" }, ...rows) : none);
  }

  /** The button that takes a member out of the list; `row()` is its row. */
  #out(kind, member, name, row) {
    const set = (isWanted) => this.#lists.setMember(this.#id, { [kind]: member }, isWanted);
    const take = async () => {
      await set(false);
      this.#drop(row());
    };
    const undo = () => set(true).then(() => this.read());
    return button({
      class: "button",
      text: t("remove"),
      "aria-label": tm("audience.remove", { name }),
      data: { testid: "list-take-out" },
      onclick: () => doWithUndo(this.#app, take, tm("list.removed", { name }), undo),
    });
  }

  /** Takes a row away; the focus goes to the next one. */
  #drop(row) {
    const hadFocus = row.contains(document.activeElement);
    const next = row.nextElementSibling ?? row.previousElementSibling;
    const other = this.#topics.contains(row) ? this.#field : this.#add;
    row.remove();
    if (hadFocus) (next?.querySelector("button") ?? other).focus({ preventScroll: true });
    if (!next) this.read();
  }

  #topicForm() {
    const error = h("p", { class: "error", role: "alert", data: { testid: "list-topic-error" } });
    const send = h("button", { class: "button", type: "submit", text: t("add"), data: { testid: "list-topic-add" } });
    const form = h(
      "form",
      { class: "form", novalidate: true },
      labelled(this.#field, tm("list.topic"), tm("list.topic.hint")),
      h("div", { class: "form-foot" }, send, error),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const topic = topicName(written(this.#field.value).replace(/^[#＃]+/, ""));
      error.textContent = topic === null ? tm("list.topic.wrong") : "";
      if (topic === null) return this.#field.focus();
      send.disabled = true;
      try {
        await this.#lists.setMember(this.#id, { topic }, true);
        this.#field.value = "";
        await this.read();
        this.#app.announce(tm("words.added"));
      } catch (problem) {
        const isName = problem.field === "topic" && problem.reason === "invalid";
        error.textContent = isName ? tm("list.topic.wrong") : memberProblem(problem, "topic");
      } finally {
        send.disabled = false;
        this.#field.focus();
      }
    });
    return form;
  }

  #pick() {
    const done = async (ids) => {
      try {
        for (const user of ids) await this.#lists.setMember(this.#id, { user }, true);
      } catch (problem) {
        this.#app.toast(memberProblem(problem, "user"));
      }
      this.read();
    };
    pickPeople(this.#app, tm("list.people.add"), [], { done });
  }
}
