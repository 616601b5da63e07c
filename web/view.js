// The elements of the page. Text of users enters the document as text, never as markup.

const byId = (id) => document.getElementById(id);

/** Elements with listeners in `app.js`. */
export const elements = {
  gateForm: byId("gate-form"),
  gateSwitch: byId("gate-switch"),
  signOut: byId("sign-out"),
  writeForm: byId("write-form"),
  writeText: byId("write-text"),
  drop: byId("drop"),
  toggleOnline: byId("toggle-online"),
  followForm: byId("follow-form"),
  followUser: byId("follow-user"),
  older: byId("older"),
};

function element(name, properties = {}, ...children) {
  const { dataset = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(name), rest);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

// The gate: sign in and sign up.

const GATES = {
  "sign-in": {
    title: "Sign in",
    question: "New here?",
    other: "Create an account",
    passwords: "current-password",
  },
  "sign-up": {
    title: "Create an account",
    question: "Been here before?",
    other: "Sign in",
    passwords: "new-password",
  },
};

/** Shows the form of a mode, "sign-in" or "sign-up", with a message if there is one. */
export function showGate(mode, message = "") {
  const gate = GATES[mode];
  byId("home").hidden = true;
  byId("who").hidden = true;
  byId("gate").hidden = false;
  // The next user must not see the posts of the last one.
  byId("posts").replaceChildren();
  showFollowing([]);
  showMe({ user: "", name: "" });
  showConnection({ name: "offline" });
  byId("gate-title").textContent = gate.title;
  byId("gate-submit").textContent = gate.title;
  byId("gate-question").textContent = gate.question;
  elements.gateSwitch.textContent = gate.other;
  byId("gate-name-field").hidden = mode === "sign-in";
  byId("gate-password").autocomplete = gate.passwords;
  document.title = `${gate.title} · Feedline`;
  showGateError({ message });
  byId("gate-user").focus();
}

/** Shows an error at the field that it names, or below the form. An empty message removes all errors. */
export function showGateError({ message, field = null }) {
  let shown = false;
  for (const name of ["user", "name", "password"]) {
    const atFault = field === name && message !== "";
    byId(`gate-${name}-error`).textContent = atFault ? message : "";
    byId(`gate-${name}`).setAttribute("aria-invalid", String(atFault));
    if (atFault) byId(`gate-${name}`).focus();
    shown ||= atFault;
  }
  byId("gate-error").textContent = shown ? "" : message;
}

// The home of a signed-in user.

/** Shows the page of a session. */
export function showHome(session) {
  byId("gate").hidden = true;
  elements.gateForm.reset();
  byId("who").hidden = false;
  byId("home").hidden = false;
  showMe(session);
  document.title = "Feedline";
  showConnection({ name: "connecting" });
  showRecovered("");
  showFollowing([]);
  showCount("");
  for (const form of ["write", "follow", "older"]) showError(form, "");
  elements.writeForm.reset();
  elements.followForm.reset();
  elements.writeText.focus();
}

/** Shows the signed-in user. */
export function showMe({ user, name }) {
  byId("my-name").textContent = name;
  byId("my-id").textContent = `@${user}`;
  dressAvatar(byId("my-avatar"), user, name);
}

/** Shows an error beside the form called "write", "follow" or "older". */
export function showError(form, message) {
  byId(`${form}-error`).textContent = message;
}

/** Disables a form while `work` runs, so that it is not sent twice. */
export async function busy(form, work) {
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  try {
    return await work();
  } finally {
    button.disabled = false;
  }
}

const TEXT_MOST = 5000;
const TEXT_NEAR = 500;

/** Shows how many characters are left, when they are few. */
export function showCount(text) {
  const left = TEXT_MOST - [...text].length;
  const count = byId("write-count");
  count.textContent = left <= TEXT_NEAR ? String(left) : "";
  count.classList.toggle("over", left < 0);
}

const CONNECTIONS = {
  connecting: "Connecting…",
  online: "Online",
  waiting: "Reconnecting…",
  offline: "Offline",
  ended: "Disconnected by the server",
};

/** Shows a state of the connection. */
export function showConnection({ name, reason }) {
  byId("connection").dataset.state = name;
  const text = name === "ended" && reason ? `${CONNECTIONS.ended}: ${reason}` : CONNECTIONS[name];
  if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
  const wanted = name === "online" || name === "connecting" || name === "waiting";
  elements.toggleOnline.textContent = wanted ? "Go offline" : "Go online";
  elements.drop.disabled = name !== "online";
}

/** Shows what the last reconnect recovered. */
export function showRecovered(text) {
  byId("recovered").textContent = text;
}

/** Shows the users that the user follows. */
export function showFollowing(users, onUnfollow = () => {}) {
  const items = users.map(({ id, name }) => {
    const button = element("button", { type: "button", className: "quiet", textContent: "Unfollow" });
    button.setAttribute("aria-label", `Unfollow ${name}`);
    button.addEventListener("click", () => {
      button.disabled = true;
      onUnfollow(id);
    });
    const handle = element("span", { className: "handle", textContent: `@${id}` });
    return element(
      "li",
      { dataset: { user: id, testid: "followed" } },
      avatar(id, name, "small"),
      element("span", { className: "person" }, bidi(name), handle),
      button,
    );
  });
  byId("people").replaceChildren(...items);
  byId("people-empty").hidden = items.length > 0;
}

// The timeline.

/** Shows a note above the posts, or instead of them. */
export function showNote(text) {
  byId("timeline-note").textContent = text;
}

/** Announces a text to screen readers. */
export function announce(text) {
  byId("announce").textContent = text;
}

/** Shows or hides the button that loads older posts. */
export function showOlder(there) {
  elements.older.hidden = !there;
}

/**
 * Makes the list show these posts. Items that stay are not touched, so that focus and selection are kept.
 *
 * @param {object[]} posts newest first
 * @param {{me: string, nameOf: (user: string) => string, onDelete: (post: object) => Promise<void>}} how
 */
export function showPosts(posts, how) {
  const list = byId("posts");
  const heldFocus = list.contains(document.activeElement);
  const wanted = new Set(posts.map((post) => String(post.id)));
  const shown = new Map();
  for (const item of [...list.children]) {
    if (wanted.has(item.dataset.id)) shown.set(item.dataset.id, item);
    else item.remove();
  }
  let place = list.firstElementChild;
  for (const post of posts) {
    const name = how.nameOf(post.author);
    let item = shown.get(String(post.id));
    if (item && (item.post !== post || item.authorName !== name)) {
      const changed = postItem(post, name, how);
      if (place === item) place = changed;
      item.replaceWith(changed);
      item = changed;
    }
    item ??= postItem(post, name, how);
    if (item === place) place = place.nextElementSibling;
    else list.insertBefore(item, place);
  }
  if (heldFocus && !list.contains(document.activeElement)) byId("timeline-title").focus({ preventScroll: true });
}

/** Updates the times, which are relative to now. */
export function refreshTimes() {
  for (const time of document.querySelectorAll("#posts time")) time.textContent = ago(Date.parse(time.dateTime));
}

function postItem(post, name, { me, onDelete }) {
  const when = new Date(post.created_at);
  const times = { dateTime: when.toISOString(), title: when.toLocaleString() };
  const time = element("time", { ...times, textContent: ago(post.created_at) });
  const head = element(
    "header",
    {},
    element("span", { className: "author" }, bidi(name)),
    element("span", { className: "handle", textContent: `@${post.author}` }),
    time,
  );
  if (post.edited_at) head.append(element("span", { className: "edited", textContent: "edited" }));
  const dataset = { testid: "post-body" };
  const text = element("p", { className: "text", dir: "auto", textContent: post.text, dataset });
  const body = element("div", { className: "post-body" }, head, text);
  if (post.author === me) body.append(deletion(post, onDelete));
  const properties = { className: "post", dataset: { id: String(post.id), testid: "post" } };
  const item = element("li", properties, avatar(post.author, name), body);
  return Object.assign(item, { post, authorName: name });
}

/** A button that asks for a confirmation, deletes, and shows the error if that fails. */
function deletion(post, onDelete) {
  const dataset = { testid: "delete" };
  const button = element("button", { type: "button", className: "quiet delete", textContent: "Delete", dataset });
  const error = element("p", { className: "form-error" });
  error.setAttribute("role", "alert");
  const calm = () => {
    delete button.dataset.sure;
    button.textContent = "Delete";
  };
  button.addEventListener("blur", calm);
  button.addEventListener("keydown", (event) => event.key === "Escape" && calm());
  button.addEventListener("click", async () => {
    if (!button.dataset.sure) {
      button.dataset.sure = "asked";
      button.textContent = "Delete for good?";
      return;
    }
    button.disabled = true;
    try {
      await onDelete(post);
    } catch (failure) {
      button.disabled = false;
      error.textContent = failure.message;
      calm();
    }
  });
  return element("div", { className: "post-foot" }, button, error);
}

const HUES = 8;

function avatar(user, name, size = "") {
  const made = element("span", { className: `avatar ${size}`.trim() });
  made.setAttribute("aria-hidden", "true");
  dressAvatar(made, user, name);
  return made;
}

function dressAvatar(made, user, name) {
  let sum = 0;
  for (const character of user) sum = (sum * 31 + character.codePointAt(0)) >>> 0;
  made.dataset.hue = String(sum % HUES);
  made.textContent = ([...name.trim()][0] ?? "?").toUpperCase();
}

/** A name that cannot change the direction of the text beside it. */
function bidi(text) {
  return element("bdi", { textContent: text });
}

const SPANS = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
];
const relative = new Intl.RelativeTimeFormat("en", { style: "narrow", numeric: "always" });

function ago(then) {
  const passed = Date.now() - then;
  if (passed > 7 * 86_400_000) return new Date(then).toLocaleDateString();
  const span = SPANS.find(([length]) => passed >= length);
  return span ? relative.format(-Math.floor(passed / span[0]), span[1]) : "now";
}
