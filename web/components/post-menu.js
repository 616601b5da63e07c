// What can be done with a post, and with its author.

import { remember } from "../feedline/bounded.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { PolicyPicker } from "./audience.js";
import { tm } from "../i18n/more.js";
import { composeDialog } from "./compose-dialog.js";
import { editDialog } from "./edit-dialog.js";
import { openMenu } from "./menu.js";
import { peopleDialog } from "./people-list.js";
import { pinItem } from "./pins.js";
import { reportItem } from "./report.js";
import { followTopic } from "./topic-follow.js";
import { changeRelation, doWithUndo, muteForItem } from "./undo.js";

const MAX_MUTINGS = 200;

/** Opens the menu of a post; `outer` is the repost that shows it, if one does. */
export async function postMenu(app, anchor, post, timeline, person, outer = post) {
  const own = post.author === app.session.user;
  const change = (verb) => changeRelation(app, verb, person);
  const link = {
    label: tm("post.copy"),
    run: () => doWithUndo(app, () => copy(new URL(paths.post(post.id), location.href).href), tm("post.copied")),
  };
  const likers = {
    label: tm("likers"),
    testid: "likers",
    run: () => peopleDialog(app, tm("likers"), "likes.list", { id: post.id }, tm("likers.empty")),
  };
  const mute = muteItem(app, post);
  const passed = [
    { label: tm("quote"), testid: "quote-post", run: () => composeDialog(app, null, post) },
    post.reposts > 0 && {
      label: tm("reposters"),
      testid: "reposters",
      run: () => peopleDialog(app, tm("reposters"), "posts.reposters", { id: post.id }, tm("reposters.empty")),
    },
    post.quotes > 0 && {
      label: tm("quotes"),
      testid: "quotes",
      run: () => app.router.go(paths.post(post.id, "", "quotes")),
    },
  ];
  const { quote } = post;
  const detach = quote?.post?.author === app.session.user && {
    label: tm("detach"),
    hint: tm("detach.hint"),
    confirm: tm("detach.sure"),
    testid: "detach",
    run: () => doWithUndo(app, () => detachQuote(app, post, timeline), tm("detach.done")),
  };
  const reposter = outer.repost && outer.author !== app.session.user && app.client.people.get(outer.author);
  const hideReposts = reposter && {
    label: tm("reposts_off.name", { name: reposter.name }),
    testid: "reposts_off",
    run: () => changeRelation(app, "reposts_off", reposter),
  };
  const { topic } = outer.via ?? {};
  const unfollowTopic = topic && {
    label: tm("unfollow.name", { name: `#${topic}` }),
    testid: "unfollow-topic",
    run: () => followTopic(app, topic, false),
  };
  if (own) {
    const { id } = post;
    // Not every list is live: what was done here is shown in the one where it was done, too.
    const apply = (event) => [...new Set([app.client.timeline, timeline])].forEach((list) => list?.apply(event));
    const policy = new PolicyPicker();
    policy.set(post.comment_policy);
    const before = policy.value;
    const edit = async (text) => {
      const comments = policy.value !== before && { comment_policy: policy.value };
      const edited = await app.client.connection.rpc("posts.edit", { id, text, ...comments });
      apply({ type: "edited", post: { comment_policy: undefined, ...edited } });
    };
    const remove = async () => {
      await app.client.connection.rpc("posts.delete", { id });
      apply({ type: "gone", id, reason: "deleted" });
    };
    const pin = !post.removed && (await pinItem(app, post));
    if (!anchor.isConnected) return;
    openMenu(anchor, t("more"), [
      !post.removed && {
        label: tm("post.edit"),
        testid: "edit",
        run: () => editDialog(tm("post.edit"), post.text, edit, policy.element),
      },
      ...passed,
      pin,
      link,
      likers,
      mute,
      detach,
      hideReposts,
      {
        label: tm("post.delete"),
        confirm: tm("post.delete.sure"),
        danger: true,
        testid: "delete",
        run: () => doWithUndo(app, remove, tm("post.deleted")),
      },
    ]);
    return;
  }
  openMenu(anchor, t("more"), [
    ...passed,
    link,
    likers,
    mute,
    detach,
    hideReposts,
    unfollowTopic,
    timeline === app.client.timeline && !outer.repost && !topic && {
      label: tm("unfollow.name", { name: person.name }),
      testid: "unfollow",
      run: () => change("unfollow"),
    },
    reportItem(app, { post: post.id }),
    {
      label: tm("mute.name", { name: person.name }),
      hint: tm("mute.hint"),
      testid: "mute",
      run: () => change("mute"),
    },
    muteForItem(app, anchor, person),
    {
      label: tm("hide.name", { name: person.name }),
      hint: tm("hide.hint"),
      testid: "hide",
      run: () => change("hide"),
    },
    {
      label: tm("block.name", { name: person.name }),
      hint: tm("block.hint"),
      danger: true,
      confirm: tm("block.sure"),
      testid: "block",
      run: () => change("block"),
    },
  ]);
}

/** Takes the reader's own post out of a quote of it, for good. */
async function detachQuote(app, post, timeline) {
  await app.client.connection.rpc("quotes.detach", { id: post.id });
  const edited = { type: "edited", post: { ...post, quote: { id: post.quote.id, state: "detached" } } };
  for (const list of new Set([app.client.timeline, timeline])) list?.apply(edited);
  // A thread is read again.
  app.relations.emit(post.author, "detach");
}

/** Without a secure context, there is no clipboard: that is an error like any other. */
const copy = async (text) => navigator.clipboard.writeText(text);

/** Mutes the conversation under a post, or ends that. */
function muteItem(app, { id, muted = false }) {
  const isMuted = app.mutings.get(id) ?? muted;
  const set = async (wanted) => {
    await app.client.connection.rpc(wanted ? "conversations.mute" : "conversations.unmute", { id });
    remember(app.mutings, id, wanted, MAX_MUTINGS);
  };
  const done = tm(isMuted ? "relation.undone" : "conversation.muted");
  const run = () => doWithUndo(app, () => set(!isMuted), done, () => set(isMuted));
  return isMuted
    ? { label: tm("conversation.unmute"), testid: "unmute-conversation", run }
    : { label: tm("conversation.mute"), hint: tm("conversation.mute.hint"), testid: "mute-conversation", run };
}
