// Settings: profile, people, password, sessions, language, theme, export, deletion.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { isLoadable } from "../components/media.js";
import { languageChoice } from "../components/choices.js";
import { confirmDialog } from "../components/dialog.js";
import { mutedWords } from "../components/muted-words.js";
import { restrictionLists } from "../components/people-list.js";
import { messageOf } from "../components/states.js";
import { themeChoice } from "../components/theme-choice.js";
import { request, signIn } from "../api.js";
import { day } from "../format.js";
import { passwordProblem } from "../password.js";
import { paths } from "../router.js";
import { written } from "../text.js";
import { pushSection } from "./push.js";

const BIO_MOST = 500;
const PASSWORD_MOST = 200;

export function settingsView(app) {
  const call = (method, path, body) => request(method, path, { token: app.session.token, ...(body && { body }) });
  const section = (title, ...children) =>
    h("section", { class: "card settings" }, h("h2", { text: title }), ...children);
  const push = pushSection(app);
  const words = mutedWords(app);
  const openLists = h("a", { class: "button", href: paths.lists(), text: tm("lists.edit") });
  return {
    title: t("settings"),
    ready: Promise.all([push.ready, words.ready]),
    stop: () => {
      push.stop();
      words.stop();
    },
    element: h(
      "div",
      { class: "view" },
      section(tm("settings.profile"), profileForm(app)),
      section(tm("privacy"), privateSwitch(app), quotableChoice(app)),
      section(tm("settings.theme"), themeChoice()),
      section(
        t("settings.language"),
        languageChoice(() => app.refresh()),
      ),
      section(tm("push"), push.element),
      section(t("lists"), h("p", { text: tm("lists.lead") }), h("div", {}, openLists)),
      section(tm("settings.people"), h("div", {}, ...restrictionLists(app))),
      section(tm("words"), words.element),
      section(tm("settings.password"), passwordForm(call)),
      section(
        tm("settings.sessions"),
        h("p", { text: sessionText(app.session) }),
        h("p", { text: tm("settings.sessions.text") }),
        h("div", { class: "choices" }, signOut(app), signOutEverywhere(app, call)),
      ),
      section(tm("settings.data"), h("p", { text: tm("settings.data.text") }), exporter(app, call)),
      section(tm("settings.delete"), h("p", { text: tm("settings.delete.text") }), deletion(app, call)),
    ),
  };
}

/** A form of labelled fields; `submit(values)` answers the sentence that says it is done. `rows` makes a text area. */
function form(fields, action, submit, testid) {
  const inputs = fields.map(({ name, label, hint, ...more }) =>
    h(more.rows ? "textarea" : "input", {
      class: "input",
      id: `settings-${name}`,
      name,
      ...more,
      data: { testid: `settings-${name}` },
    }),
  );
  const rows = fields.map(({ name, label, hint }, index) =>
    h(
      "div",
      { class: "field" },
      h("label", { for: `settings-${name}` }, label, hint && h("span", { class: "meta", text: ` ${hint}` })),
      inputs[index],
    ),
  );
  const error = h("p", { class: "error", role: "alert" });
  const done = h("p", { class: "done", role: "status", data: { testid: `${testid}-done` } });
  const send = h("button", { class: "button primary", type: "submit", text: action, data: { testid } });
  const element = h(
    "form",
    { class: "form", novalidate: true },
    ...rows,
    h("div", { class: "form-foot" }, send, error, done),
  );
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = done.textContent = "";
    send.disabled = true;
    try {
      done.textContent = await submit(Object.fromEntries(inputs.map((input) => [input.name, input.value])), element);
    } catch (failure) {
      error.textContent = failure instanceof Refusal ? failure.message : messageOf(failure);
    } finally {
      send.disabled = false;
    }
  });
  return element;
}

/** What is wrong with a form, found before it is sent: a sentence in the reader's language. */
class Refusal extends Error {}

function profileForm(app) {
  let shown = app.me();
  const fields = [
    { name: "name", label: tm("settings.name"), maxlength: 100, autocomplete: "name", value: shown.name, dir: "auto" },
    {
      name: "avatar",
      label: tm("settings.avatar"),
      hint: tm("settings.avatar.hint"),
      type: "url",
      value: shown.avatar ?? "",
      placeholder: "https://",
    },
    {
      name: "bio",
      label: tm("settings.bio"),
      hint: tm("settings.bio.hint", { n: BIO_MOST }),
      rows: 3,
      maxlength: BIO_MOST,
      value: shown.bio ?? "",
      dir: "auto",
    },
  ];
  const save = async (values) => {
    const name = written(values.name) || app.session.user;
    const given = { name, avatar: values.avatar.trim(), bio: written(values.bio) };
    // What was not touched is left out: another tab may have changed it.
    if (given.avatar !== "" && !isLoadable(given.avatar)) throw new Refusal(t("media.invalid"));
    const changed = Object.entries(given).filter(([key, value]) => value !== (shown[key] ?? ""));
    const change = Object.fromEntries(changed.map(([key, value]) => [key, value === "" ? null : value]));
    await app.client.connection.rpc("users.update", change);
    shown = { ...shown, ...change };
    app.setProfile({ ...app.me(), ...change });
    return tm("saved");
  };
  return form(fields, tm("save"), save, "save-profile");
}

/** Whether only those whom the user accepts follow, and see posts. */
function privateSwitch(app) {
  const { connection } = app.client;
  const input = h("input", {
    type: "checkbox",
    role: "switch",
    id: "settings-private",
    disabled: true,
    "aria-describedby": "settings-private-hint",
    data: { testid: "settings-private" },
  });
  const status = h("p", { class: "done", role: "status", data: { testid: "private-done" } });
  const error = h("p", { class: "error", role: "alert", data: { testid: "private-error" } });
  const set = async (locked) => {
    await connection.rpc("users.update", { locked });
    input.checked = locked;
    status.textContent = tm(locked ? "private.on" : "private.off.done");
  };
  const read = async () => {
    try {
      const { locked = false } = await connection.insist(() => connection.rpc("users.get", { id: app.session.user }));
      input.checked = locked;
      input.disabled = false;
    } catch (failure) {
      error.textContent = messageOf(failure);
    }
  };
  input.addEventListener("change", async () => {
    status.textContent = error.textContent = "";
    const wanted = input.checked;
    if (!wanted) {
      // It stays on until that is confirmed.
      input.checked = true;
      return confirmDialog(tm("private.off"), tm("private.off.text"), tm("private.off"), () => set(false));
    }
    try {
      await set(true);
    } catch (failure) {
      input.checked = false;
      error.textContent = messageOf(failure);
    }
  });
  read();
  const name = h("label", { for: input.id, text: tm("private") });
  const hint = h("span", { class: "meta", id: "settings-private-hint", text: tm("private.hint") });
  return h("div", {}, h("div", { class: "tick" }, input, h("span", {}, name, hint)), status, error);
}

/** Who may quote the user's posts. */
function quotableChoice(app) {
  const { connection } = app.client;
  const names = { everyone: t("audience.public"), followers: t("audience.followers"), nobody: t("nobody") };
  const options = Object.entries(names).map(([value, text]) => h("option", { value, text }));
  const id = "settings-quotable";
  const select = h("select", { class: "input", id, disabled: true, data: { testid: id } }, ...options);
  const status = h("p", { class: "done", role: "status", data: { testid: "quotable-done" } });
  const error = h("p", { class: "error", role: "alert" });
  let stored = "everyone";
  const show = (value) => (select.value = stored = value);
  connection
    .insist(() => connection.rpc("users.get", { id: app.session.user }))
    .then(({ quotable }) => {
      show(quotable);
      select.disabled = false;
    })
    .catch((failure) => (error.textContent = messageOf(failure)));
  select.addEventListener("change", async () => {
    status.textContent = error.textContent = "";
    try {
      await connection.rpc("users.update", { quotable: select.value });
      show(select.value);
      status.textContent = tm("saved");
    } catch (failure) {
      show(stored);
      error.textContent = messageOf(failure);
    }
  });
  const label = h("label", { for: id }, tm("quotable"), h("span", { class: "meta", text: ` ${tm("quotable.hint")}` }));
  return h("div", { class: "field" }, label, select, status, error);
}

function passwordForm(call) {
  const fields = [
    {
      name: "old",
      label: tm("settings.password.old"),
      type: "password",
      autocomplete: "current-password",
      maxlength: PASSWORD_MOST,
    },
    {
      name: "new",
      label: tm("settings.password.new"),
      hint: t("password.rule"),
      type: "password",
      autocomplete: "new-password",
      maxlength: PASSWORD_MOST,
    },
  ];
  const change = async (values, element) => {
    if (values.old === "") throw new Refusal(tm("settings.password.old.empty"));
    const problem = passwordProblem(values.new);
    if (problem) throw new Refusal(problem);
    await call("PUT", "/accounts/password", values);
    element.reset();
    return tm("settings.password.done");
  };
  return form(fields, tm("settings.password.change"), change, "save-password");
}

/** Since when and until when the session lasts, as its token says. */
function sessionText({ user, token }) {
  try {
    const claims = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const { iat, exp } = JSON.parse(atob(claims));
    return tm("settings.session", { user, from: day(iat * 1000), until: day(exp * 1000) });
  } catch {
    return tm("settings.session.plain", { user });
  }
}

function signOut(app) {
  return button({ class: "button", text: t("sign-out"), onclick: () => app.signOut() });
}

function signOutEverywhere(app, call) {
  const run = async () => {
    await call("DELETE", "/sessions?all=true");
    app.leave(tm("settings.everywhere.done"));
  };
  return button({
    class: "button",
    text: tm("settings.everywhere"),
    data: { testid: "sign-out-everywhere" },
    onclick: () =>
      confirmDialog(tm("settings.everywhere"), tm("settings.everywhere.text"), tm("settings.everywhere"), run),
  });
}

function exporter(app, call) {
  const status = h("span", { class: "meta", role: "status", data: { testid: "export-status" } });
  const element = button({
    class: "button",
    text: tm("settings.export"),
    data: { testid: "export" },
    onclick: async () => {
      element.disabled = true;
      try {
        const pages = [];
        for (let cursor = null; cursor !== undefined;) {
          const page = await call("GET", `/accounts/export${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`);
          pages.push(page);
          cursor = page.next ?? undefined;
          status.textContent = tm("settings.export.pages", { n: pages.length });
        }
        save(`feedline-${app.session.user}.json`, JSON.stringify(pages, null, 2));
        status.textContent = tm("settings.export.done");
      } catch (error) {
        status.textContent = messageOf(error);
      } finally {
        element.disabled = false;
      }
    },
  });
  return h("div", { class: "form-foot" }, element, status);
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: url, download: name, target: "_blank" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The server does not ask for the password: signing in with it shows that it is the user who deletes. */
function deletion(app, call) {
  const ask = () => {
    const input = h("input", {
      class: "input",
      id: "delete-password",
      type: "password",
      autocomplete: "current-password",
      maxlength: PASSWORD_MOST,
      data: { testid: "delete-password" },
    });
    const label = h("label", { for: input.id, text: tm("settings.password.old") });
    const run = async () => {
      if (input.value === "") return tm("settings.password.old.empty");
      try {
        await signIn({ user: app.session.user, password: input.value });
      } catch (error) {
        if (error.code === 401) return tm("settings.password.wrong");
        throw error;
      }
      await call("DELETE", "/accounts");
      app.leave(tm("settings.delete.done"));
    };
    const field = h("div", { class: "field" }, label, input);
    confirmDialog(tm("settings.delete"), tm("settings.delete.sure"), tm("settings.delete"), run, field);
  };
  return h(
    "div",
    {},
    button({ class: "button danger", text: tm("settings.delete"), data: { testid: "delete-account" }, onclick: ask }),
  );
}
