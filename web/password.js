// The rule for passwords, as the server has it.

import { t } from "./i18n/index.js";

/** What is wrong with a new password; nothing: empty. It is counted in characters of the normal form C. */
export function passwordProblem(password) {
  const length = [...password.normalize("NFC")].length;
  return length >= 8 && length <= 200 ? "" : t("password.rule");
}
