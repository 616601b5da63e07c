// Lists of people, read page by page.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { openDialog } from "./dialog.js";
import { PagedList } from "./paged-list.js";
import { FOLLOWING, personLink, toggleButton } from "./person.js";
import { empty } from "./states.js";

const PAGE = 30;

/** Those that an operation lists. `control(person)` makes what stands at the end of a row; `none` is said of nobody. */
export function peopleList(app, method, params, none, control = () => null) {
  const load = async (cursor) => {
    const input = { ...params, limit: PAGE, ...(cursor && { cursor }) };
    const { items, next } = await app.client.connection.rpc(method, input);
    return { rows: items.map((person) => personLink(person, { control: control(person) })), next: next ?? null };
  };
  return new PagedList(load, () => empty(none, ""), { testid: "people" });
}

/** Shows them in a dialog. A link to one of them closes it. */
export function peopleDialog(app, title, method, params, none) {
  const list = peopleList(app, method, params, none);
  list.element.classList.remove("card");
  const dialog = openDialog(title, list.element, { bare: true, testid: "people-dialog" });
  list.element.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
}

/** Lists of the users that one mutes, hides from and blocks; each is read when it is opened. */
export function restrictionLists(app) {
  const list = (kind, verb) => {
    const control = (person) => undoButton(app, person, verb);
    const place = h("div");
    const box = h(
      "details",
      { class: "restricted", data: { testid: `list-${kind}` } },
      h("summary", {}, tm(`settings.${kind}`), h("span", { class: "meta", text: ` ${tm(`settings.${kind}.hint`)}` })),
      place,
    );
    box.addEventListener("toggle", () => {
      if (!box.open) return;
      const { element } = peopleList(app, `users.${kind}`, {}, t("nobody"), control);
      element.classList.remove("card");
      place.replaceChildren(element);
    });
    return box;
  };
  return [list("muted", "mute"), list("hidden", "hide"), list("blocked", "block")];
}

/** Takes a restriction back, and makes it again: the row stays. */
function undoButton(app, person, verb) {
  const { name } = person;
  return toggleButton(app, person, {
    state: FOLLOWING,
    states: [
      { text: tm(`${verb}.short`), label: tm(`${verb}.name`, { name }), verb },
      { text: tm(`un${verb}.short`), label: tm(`un${verb}.name`, { name }), verb: `un${verb}` },
    ],
    testid: `un${verb}`,
  });
}
