// Muted words: the filters of the user, to be added, changed and deleted, and what is said of posts that they cover.

import { bidi, button, h } from "../dom.js";
import { moment } from "../format.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { written } from "../text.js";
import { openDialog } from "./dialog.js";
import { choice, labelled, tick } from "./fields.js";
import { failure, messageOf, showWhenSlow, skeletons } from "./states.js";
import { doWithUndo } from "./undo.js";

/** The limits of the server. */
const MAX_FILTERS = 20;
const MAX_WORDS = 50;
const MAX_LENGTH = 100;
/** How many words of a filter are named above what it covers. */
const MAX_NAMED = 3;

/** Where filters apply, with the key of the name. */
const PLACES = {
  home: "home",
  lists: "words.lists",
  topics: "words.topics",
  comments: "profile.comments",
  notifications: "notifications",
};
const DAY_MS = 86_400_000;
/** After how many days a filter ends; null: never. */
const SPANS = { never: null, day: 1, week: 7, month: 30 };

/** Client → its filters, as they were read last; null once they have changed. */
const known = new WeakMap();

/** The filters of the user; `anew` reads them in any case. */
function filtersOf({ client }, anew = false) {
  const { connection } = client;
  if (!known.has(client)) connection.on("filters", () => known.set(client, null));
  const read = () => connection.insist(() => connection.rpc("filters.list")).then(({ items }) => items);
  const asked = (!anew && known.get(client)) || read();
  known.set(client, asked);
  return asked;
}

const folded = (text) => text.normalize("NFKC").toLowerCase();

/** Says why something is covered: the words of these filters that it has, or all of them if its text is not here. */
export async function filterText(app, ids, element) {
  const filters = await filtersOf(app);
  const all = filters.flatMap((filter) => (ids.includes(filter.id) ? filter.words : []));
  const texts = [...(element?.querySelectorAll(".text, .words") ?? [])].map(({ textContent }) => folded(textContent));
  const found = all.filter((word) => texts.some((text) => text.includes(folded(word))));
  const words = found.length > 0 ? found : all;
  const some = words.slice(0, MAX_NAMED).join(", ");
  return some ? tm("words.found", { words: words.length > MAX_NAMED ? `${some}…` : some }) : t("filtered");
}

/** The part of the settings: a form, and the list of what is muted, which other tabs may change. */
export function mutedWords(app) {
  const list = h("div", { class: "push-here", data: { testid: "words-list" } });
  let reading = null;
  const read = async () => {
    const mine = (reading = {});
    const shown = list.childElementCount > 0 ? () => {} : showWhenSlow(list, () => skeletons(1, "line"));
    const found = await filtersOf(app, true).then(
      (filters) => rowsOf(app, filters, read),
      (error) => [failure(error, read)],
    );
    await shown();
    if (mine === reading) replaceRows(list, found, form);
  };
  const add = async (filter) => {
    await app.client.connection.rpc("filters.create", filter);
    read();
    return tm("words.added");
  };
  const form = filterForm("words", null, add);
  const element = h("div", { class: "form" }, h("p", { text: tm("words.text") }), form, list);
  return { element, ready: read(), stop: app.client.connection.on("filters", read) };
}

/** Shows rows instead of those that are there; the focus stays on the button that was used, or near it. */
function replaceRows(list, rows, form) {
  const focused = list.contains(document.activeElement) && document.activeElement.id;
  list.replaceChildren(...rows);
  if (focused === false) return;
  const next = document.getElementById(focused) ?? list.querySelector("button") ?? form.querySelector("textarea");
  next.focus({ preventScroll: true });
}

function rowsOf(app, filters, changed) {
  if (filters.length === 0) return [h("p", { text: tm("words.none") })];
  return [h("ul", { class: "devices" }, ...filters.map((filter) => filterRow(app, filter, changed)))];
}

function filterRow(app, filter, changed) {
  const { connection } = app.client;
  const { id, created_at: _, ...content } = filter;
  const name = filter.words.join(", ");
  const hasEnded = filter.until <= Date.now();
  const remove = () => connection.rpc("filters.delete", { id }).then(changed);
  // One that has ended cannot be made again.
  const undo = hasEnded ? null : () => connection.rpc("filters.create", content).then(changed);
  const control = (verb, run) =>
    button({
      class: "button",
      id: `words-${verb}-${id}`,
      text: tm(`post.${verb}`),
      "aria-label": tm(`words.${verb}.name`, { name }),
      data: { testid: `words-${verb}` },
      onclick: run,
    });
  const facts = h("span", { class: "meta", text: factsOf(filter) });
  return h(
    "li",
    { class: "person", data: { testid: "filter" } },
    h("span", { class: "person-name" }, h("span", { class: "name" }, bidi(name)), facts),
    control("edit", () => editFilter(app, filter, changed)),
    control("delete", () => doWithUndo(app, remove, tm("words.deleted"), undo)),
  );
}

/** What a filter does: "Hidden · Home, Comments · until 1 June 2026, 12:00". */
function factsOf({ action, in: places, whole_word: isWhole, until }) {
  const names = places.map((place) => tm(PLACES[place] ?? place)).join(", ");
  const facts = [
    tm(`words.${action}`),
    places.length === Object.keys(PLACES).length ? tm("words.everywhere") : names,
    !isWhole && tm("words.parts"),
    until && tm(until > Date.now() ? "words.until" : "words.ended", { date: moment(until) }),
  ];
  return facts.filter(Boolean).join(" · ");
}

function editFilter(app, filter, changed) {
  const { id } = filter;
  const save = async (change) => {
    await app.client.connection.rpc("filters.update", { id, ...change });
    await changed();
    dialog.close();
    app.toast(tm("saved"));
  };
  // The list may have been shown anew meanwhile.
  const onClose = () => document.getElementById(`words-edit-${id}`)?.focus({ preventScroll: true });
  const form = filterForm("edit-words", filter, save);
  const dialog = openDialog(tm("words.edit"), form, { testid: "words-dialog", onClose });
}

/** A form for a filter, or for a new one. `submit(filter)` stores it, and may answer with what to say then. */
function filterForm(prefix, filter, submit) {
  const { words = [], action = "hide", in: places = Object.keys(PLACES), whole_word: isWhole = true } = filter ?? {};
  const named = (name) => ({ id: `${prefix}-${name}`, data: { testid: `${prefix}-${name}` } });
  const before = words.join(", ");
  const field = h("textarea", { class: "input", rows: 2, dir: "auto", value: before, ...named("text") });
  const actions = ["hide", "warn"].map((one) => [one, tm(`words.${one}`)]);
  const act = choice(named("action"), actions, action);
  const boxes = Object.entries(PLACES).map(([place, key]) =>
    tick({ ...named(place), name: place, checked: places.includes(place) }, tm(key)),
  );
  const whole = tick({ ...named("whole"), checked: isWhole }, tm("words.whole"), tm("words.whole.hint"));
  const spans = Object.keys(SPANS).map((span) => [span, tm(`words.${span}`)]);
  const end = choice(named("end"), filter?.until ? [["kept", moment(filter.until)], ...spans] : spans);
  const error = h("p", { class: "error", role: "alert", ...named("error") });
  const done = h("p", { class: "done", role: "status", ...named("done") });
  const text = filter ? tm("save") : t("add");
  const send = h("button", { class: "button primary", type: "submit", text, ...named("submit") });
  const where = h("legend", { text: tm("words.where") });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    labelled(field, tm("words.field"), tm("words.field.hint")),
    labelled(act, tm("words.action")),
    h("fieldset", { class: "ticks many" }, where, ...boxes.map(({ element }) => element)),
    whole.element,
    labelled(end, tm("words.end")),
    h("div", { class: "form-foot" }, send, error, done),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = {
      // A word from another client may have a comma.
      words: field.value === before ? words : wordsIn(field.value),
      action: act.value,
      in: boxes.filter(({ input }) => input.checked).map(({ input }) => input.name),
      whole_word: whole.input.checked,
      ...(end.value !== "kept" && endOf(SPANS[end.value], filter)),
    };
    done.textContent = "";
    error.textContent = problemOf(given.words) || (given.in.length === 0 ? tm("words.nowhere") : "");
    if (error.textContent) return (problemOf(given.words) ? field : boxes[0].input).focus();
    send.disabled = true;
    try {
      done.textContent = (await submit(given)) ?? "";
      form.reset();
    } catch (failed) {
      const isFull = !filter && failed.reason === "limit_exceeded";
      error.textContent = isFull ? tm("words.most", { n: MAX_FILTERS }) : messageOf(failed);
    } finally {
      send.disabled = false;
    }
  });
  return form;
}

/** The words of a text, which stand on lines or between commas. */
const wordsIn = (text) => text.split(/[\n,，、،]/).map(written).filter(Boolean);

/** What is wrong with words; nothing: empty. */
function problemOf(words) {
  if (words.length === 0) return tm("words.empty");
  if (words.length > MAX_WORDS) return tm("words.many", { n: MAX_WORDS });
  return words.some((word) => [...word].length > MAX_LENGTH) ? tm("words.long", { n: MAX_LENGTH }) : "";
}

/** The end of a filter in so many days. A new one needs none. */
function endOf(days, filter) {
  if (days) return { until: Date.now() + days * DAY_MS };
  return filter && { until: null };
}
