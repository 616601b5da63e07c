// Follows, mutes, hides and blocks: what they change on the page is shown anew.

/**
 * Follows, mutes, hides from or blocks a user, or takes that back: `verb` is the name of the operation after `users.`.
 * `more` has other members of its input. Answers as the operation does.
 */
export async function setRelation(app, verb, id, more) {
  const reply = await app.client.connection.rpc(`users.${verb}`, { id, ...more });
  if (changesVisibility(verb)) app.client.notifications.reload();
  app.relations.emit(id, verb);
  return reply;
}

/** Whether it changes which posts and comments the user sees. */
export const changesVisibility = (verb) => ["block", "unblock", "mute", "unmute"].includes(verb);
