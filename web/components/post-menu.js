// What can be done with a post, and with its author.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { openDialog } from "./dialog.js";
import { openMenu } from "./menu.js";
import { messageOf } from "./states.js";

/** Opens the menu of a post. */
export function postMenu(app, anchor, post, timeline, person) {
  const own = post.author === app.session.user;
  const attempt = (work, done) =>
    // Without a secure context, there is no clipboard: that is an error like any other.
    new Promise((resolve) => resolve(work())).then(
      () => done && app.toast(t(done, { name: person.name })),
      (error) => app.toast(messageOf(error)),
    );
  const relate = (method, done) =>
    attempt(() => app.client.connection.rpc(`users.${method}`, { id: post.author }), done);
  const link = {
    label: t("post.copy"),
    run: () =>
      attempt(() => navigator.clipboard.writeText(new URL(paths.post(post.id), location.href).href), "post.copied"),
  };
  if (own) {
    openMenu(anchor, t("more"), [
      { label: t("post.edit"), testid: "edit", run: () => editDialog(app, post) },
      link,
      {
        label: t("post.delete"),
        confirm: t("post.delete.sure"),
        danger: true,
        testid: "delete",
        run: () => attempt(() => (timeline ?? app.client.timeline).delete(post.id)),
      },
    ]);
    return;
  }
  openMenu(anchor, t("more"), [
    link,
    timeline === app.client.timeline && {
      label: t("unfollow.name", { name: person.name }),
      testid: "unfollow",
      run: () => relate("unfollow", "unfollowed.name"),
    },
    {
      label: t("mute.name", { name: person.name }),
      hint: t("mute.hint"),
      testid: "mute",
      run: () => relate("mute", "muted.name"),
    },
    {
      label: t("hide.name", { name: person.name }),
      hint: t("hide.hint"),
      testid: "hide",
      run: () => relate("hide", "hidden.name"),
    },
    {
      label: t("block.name", { name: person.name }),
      hint: t("block.hint"),
      danger: true,
      confirm: t("block.sure"),
      testid: "block",
      run: () => relate("block", "blocked.name"),
    },
  ]);
}

function editDialog(app, post) {
  const field = h("textarea", {
    class: "input",
    rows: 5,
    dir: "auto",
    maxlength: 5000,
    "aria-label": t("post.edit"),
    data: { testid: "edit-text" },
    value: post.text,
  });
  const error = h("p", { class: "error", role: "alert" });
  const save = h("button", {
    class: "button primary",
    type: "submit",
    text: t("save"),
    data: { testid: "edit-submit" },
  });
  const form = h("form", { class: "form" }, field, error, h("div", { class: "dialog-foot" }, save));
  const dialog = openDialog(t("post.edit"), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    save.disabled = true;
    try {
      await app.client.timeline.edit(post.id, { text: field.value });
      dialog.close();
    } catch (failure) {
      error.textContent = messageOf(failure);
      save.disabled = false;
    }
  });
}
