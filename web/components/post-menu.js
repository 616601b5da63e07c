// What can be done with a post, and with its author.

import { remember } from "../feedline/bounded.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { PolicyPicker } from "./audience.js";
import { editDialog } from "./edit-dialog.js";
import { openMenu } from "./menu.js";
import { peopleDialog } from "./people-list.js";
import { pinItem } from "./pins.js";
import { reportItem } from "./report.js";
import { changeRelation, doWithUndo, muteForItem } from "./undo.js";

const MAX_MUTINGS = 200;

/** Opens the menu of a post. */
export async function postMenu(app, anchor, post, timeline, person) {
  const own = post.author === app.session.user;
  const change = (verb) => changeRelation(app, verb, person);
  const link = {
    label: t("post.copy"),
    run: () => doWithUndo(app, () => copy(new URL(paths.post(post.id), location.href).href), t("post.copied")),
  };
  const likers = {
    label: t("likers"),
    testid: "likers",
    run: () => peopleDialog(app, t("likers"), "likes.list", { id: post.id }, t("likers.empty")),
  };
  const mute = muteItem(app, post);
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
        label: t("post.edit"),
        testid: "edit",
        run: () => editDialog(t("post.edit"), post.text, edit, policy.element),
      },
      pin,
      link,
      likers,
      mute,
      {
        label: t("post.delete"),
        confirm: t("post.delete.sure"),
        danger: true,
        testid: "delete",
        run: () => doWithUndo(app, remove, t("post.deleted")),
      },
    ]);
    return;
  }
  openMenu(anchor, t("more"), [
    link,
    likers,
    mute,
    timeline === app.client.timeline && {
      label: t("unfollow.name", { name: person.name }),
      testid: "unfollow",
      run: () => change("unfollow"),
    },
    reportItem(app, { post: post.id }),
    {
      label: t("mute.name", { name: person.name }),
      hint: t("mute.hint"),
      testid: "mute",
      run: () => change("mute"),
    },
    muteForItem(app, anchor, person),
    {
      label: t("hide.name", { name: person.name }),
      hint: t("hide.hint"),
      testid: "hide",
      run: () => change("hide"),
    },
    {
      label: t("block.name", { name: person.name }),
      hint: t("block.hint"),
      danger: true,
      confirm: t("block.sure"),
      testid: "block",
      run: () => change("block"),
    },
  ]);
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
  const done = t(isMuted ? "relation.undone" : "conversation.muted");
  const run = () => doWithUndo(app, () => set(!isMuted), done, () => set(isMuted));
  return isMuted
    ? { label: t("conversation.unmute"), testid: "unmute-conversation", run }
    : { label: t("conversation.mute"), hint: t("conversation.mute.hint"), testid: "mute-conversation", run };
}
