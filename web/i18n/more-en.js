// English: reports, moderation, a suspended account.

export const moreEn = {
  report: "Report",
  "report.post": "Report this post",
  "report.comment": "Report this comment",
  "report.user": "Report this person",
  "report.reason": "What is wrong?",
  "report.choose": "Choose a reason.",
  "report.text": "What should the moderators know? (optional)",
  "report.send": "Send report",
  "report.done": "Reported. The moderators will look at it.",
  "reason.spam": "Spam",
  "reason.abuse": "Abuse or harassment",
  "reason.illegal": "Illegal content",
  "reason.other": "Something else",
};
