// Writing a post in a dialog, where the view has no form.

import { t } from "../i18n/index.js";
import { Compose } from "./compose.js";
import { openDialog } from "./dialog.js";

/** What a card shows of a post: a draft keeps no more. */
const slim = ({ id, author, text, media, created_at }) => ({ id, author, text, media, created_at });

/** Opens the form in a dialog, to quote a post if one is given; what is not sent is kept for the next time. */
export function composeDialog(app, draft = null, quoted = null) {
  const compose = new Compose(app, "dialog", { bare: true, sent: () => dialog.close() });
  const dialog = openDialog(t("compose.title"), compose.element, { bare: true, testid: "compose-dialog" });
  if (draft) compose.restore(draft);
  // What was begun in it stays.
  if (quoted) compose.quote = { id: quoted.id, state: "shown", post: slim(quoted) };
  compose.focus();
}
