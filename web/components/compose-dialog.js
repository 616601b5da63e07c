// Writing a post in a dialog, where the view has no form.

import { t } from "../i18n/index.js";
import { Compose } from "./compose.js";
import { openDialog } from "./dialog.js";

/** Opens the form in a dialog; what is not sent is kept for the next time. */
export function composeDialog(app, draft = null) {
  const compose = new Compose(app, "dialog", { bare: true, sent: () => dialog.close() });
  const dialog = openDialog(t("compose.title"), compose.element, { bare: true, testid: "compose-dialog" });
  if (draft) compose.restore(draft);
  compose.focus();
}
