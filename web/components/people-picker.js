// Chooses people: the user's followers, narrowed by the beginning of any word of a name, or of an id.

import { bidi, button, h } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { openDialog } from "./dialog.js";
import { personRow } from "./person.js";
import { isUnreachable, messageOf, retryWhenLive } from "./states.js";

const PAGE = 50;
const PAGES = 4;
const WAIT_MS = 150;

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Whether the id, or the name from one of its words on, begins with what is typed. */
function isNamed({ id, name }, typed) {
  const wanted = folded(typed.replace(/^[@＠]/, ""));
  const full = folded(name);
  const starts = [...full.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu)].map(({ index }) => index);
  return folded(id).startsWith(wanted) || starts.some((at) => full.startsWith(wanted, at));
}

/** A dialog with this title. `chosen` are ids; `done(ids)` gets those that are chosen at the end, one at least. */
export function pickPeople(app, title, chosen, { done, closed }) {
  const rpc = (method, input) => app.client.connection.rpc(method, input);
  const known = new Map();
  const picked = new Set(chosen);
  const error = h("p", { class: "error", role: "alert" });
  const chips = h("div", { class: "chips" });
  const list = h("ul", { class: "picker", "aria-label": t("audience.followers"), data: { testid: "picker" } });
  const none = h("p", { class: "meta", role: "status" });
  const field = h("input", {
    class: "input",
    id: "picker-name",
    type: "search",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    data: { testid: "picker-name" },
  });
  const ready = h("button", {
    class: "button primary",
    type: "submit",
    text: tm("done"),
    data: { testid: "picker-done" },
  });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    chips,
    h("div", { class: "field" }, h("label", { for: "picker-name", text: tm("audience.people") }), field),
    list,
    none,
    error,
    h("div", { class: "dialog-foot" }, ready),
  );

  const choose = (id, on) => {
    picked[on ? "add" : "delete"](id);
    error.textContent = "";
    showChips();
  };
  const chip = (id) => {
    const name = known.get(id)?.name ?? id;
    const remove = () => {
      choose(id, false);
      showList();
      field.focus();
    };
    const label = tm("audience.remove", { name });
    return button({ class: "chip", "aria-label": label, onclick: remove }, bidi(name), icon("close"));
  };
  const showChips = () => chips.replaceChildren(...[...picked].map(chip));
  const option = (person) => {
    const box = h("input", { type: "checkbox", "aria-label": `${person.name} @${person.id}` });
    box.checked = picked.has(person.id);
    box.addEventListener("change", () => choose(person.id, box.checked));
    return h("li", { data: { user: person.id } }, h("label", { class: "person" }, box, ...personRow(person)));
  };
  const showList = () => {
    const found = [...known.values()].filter((person) => isNamed(person, field.value.trim()));
    list.replaceChildren(...found.map(option));
    none.textContent = found.length > 0 ? "" : tm(field.value.trim() ? "audience.nobody" : "audience.no-followers");
  };
  const add = (people) => {
    for (const person of people) if (person.id !== app.session.user) known.set(person.id, person);
    showChips();
    showList();
  };

  const load = async () => {
    let cursor;
    for (let page = 0; page < PAGES; page++) {
      const input = { id: app.session.user, limit: PAGE, ...(cursor && { cursor }) };
      const { items, next } = await rpc("users.followers", input);
      add(items);
      if (!next) return;
      cursor = next;
    }
  };
  let timer = null;
  field.addEventListener("input", () => {
    showList();
    clearTimeout(timer);
    const q = field.value.trim().replace(/^[@＠]/, "");
    // Those beyond the first pages of followers, and those who do not follow.
    const search = () => rpc("users.search", { q }).then(({ items }) => add(items), () => {});
    if (q !== "") timer = setTimeout(search, WAIT_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (picked.size === 0) {
      error.textContent = tm("audience.error");
      return;
    }
    done([...picked]);
    dialog.close();
  });
  showChips();
  const dialog = openDialog(title, form, { sheet: true, onClose: closed });
  field.focus();
  const attempt = () =>
    load().catch((failure) => {
      error.textContent = messageOf(failure);
      if (isUnreachable(failure)) retryWhenLive(() => form.isConnected && attempt());
    });
  attempt();
}
