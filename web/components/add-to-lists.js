// Which of the user's lists have a person or a topic: a dialog with a box for each list.

import { bidi, h, show } from "../dom.js";
import { tm } from "../i18n/more.js";
import { listsOf } from "../lists.js";
import { written } from "../text.js";
import { openDialog } from "./dialog.js";
import { labelled } from "./fields.js";
import { createProblem, memberProblem, nameProblem } from "./list-form.js";
import { failure, showWhenSlow, skeletons } from "./states.js";

/** Opens it for a member, `{user}` or `{topic}`, which is called `name`. */
export function addToLists(app, name, member) {
  const [kind] = Object.keys(member);
  const lists = listsOf(app);
  const error = h("p", { class: "error", role: "alert", data: { testid: "in-lists-error" } });
  const done = h("p", { class: "done", role: "status", data: { testid: "in-lists-done" } });
  const place = h("fieldset", { class: "ticks", "aria-label": tm("lists.with", { name }) });
  const say = (text, problem = "") => {
    done.textContent = text;
    error.textContent = problem;
  };
  const set = async (list, isWanted) => {
    await lists.setMember(list.id, member, isWanted);
    say(tm(isWanted ? "list.added" : "list.removed.from", { name: list.name }));
  };
  const box = (list, isIn) =>
    toggle(list, isIn, (isWanted) => set(list, isWanted), (problem) => say("", memberProblem(problem, kind)));
  const load = async () => {
    const shown = showWhenSlow(place, () => skeletons(2, "line"));
    try {
      await lists.read();
      const ids = await lists.having(member);
      await shown();
      place.replaceChildren(...lists.items.map((list) => box(list, ids.includes(list.id))));
      show(place, lists.items.length > 0);
      body.append(form, done, error);
      // From the button that closes the dialog, where the focus was meanwhile.
      if (!body.contains(document.activeElement)) body.querySelector("input").focus();
    } catch (problem) {
      await shown();
      place.replaceChildren(failure(problem, load));
    }
  };
  const create = async (draft) => {
    const list = await lists.create(draft);
    const added = box(list, false);
    place.append(added);
    show(place, true);
    // As if it were ticked by hand: what goes wrong is said, and the list is there.
    added.querySelector("input").click();
  };
  const form = newList(create, say);
  const body = h("div", { class: "form" }, place);
  openDialog(tm("lists.with", { name }), body, { sheet: true, testid: "in-lists" });
  load();
}

/** A box for a list. It changes at once, and back if the server refuses. */
function toggle({ id, name }, isIn, set, failed) {
  const input = h("input", { type: "checkbox", id: `in-list-${id}`, checked: isIn, data: { testid: "in-list" } });
  let isBusy = false;
  input.addEventListener("change", async () => {
    if (isBusy) return;
    isBusy = true;
    // It may have been changed again meanwhile.
    while (input.checked !== isIn) {
      const isWanted = input.checked;
      try {
        await set(isWanted);
        isIn = isWanted;
      } catch (problem) {
        input.checked = isIn;
        failed(problem);
      }
    }
    isBusy = false;
  });
  return h("label", { class: "tick", for: input.id }, input, h("span", {}, bidi(name)));
}

/** The form of a list that is made for this. */
function newList(create, say) {
  const named = { id: "in-lists-name", data: { testid: "in-lists-name" } };
  const field = h("input", { class: "input", dir: "auto", autocomplete: "off", ...named });
  const text = tm("list.create");
  const send = h("button", { class: "button", type: "submit", text, data: { testid: "in-lists-create" } });
  const form = h("form", { class: "form", novalidate: true }, labelled(field, tm("lists.new")), h("div", {}, send));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = written(field.value);
    say("", nameProblem(name));
    if (nameProblem(name)) return field.focus();
    send.disabled = true;
    try {
      await create({ name });
      field.value = "";
    } catch (problem) {
      say("", createProblem(problem));
    } finally {
      send.disabled = false;
    }
  });
  return form;
}
