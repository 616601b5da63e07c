// Chinese: reports, moderation, a suspended account.

export const moreZh = {
  report: "举报",
  "report.post": "举报这条帖子",
  "report.comment": "举报这条评论",
  "report.user": "举报这个用户",
  "report.reason": "有什么问题？",
  "report.choose": "请选择原因。",
  "report.text": "想让管理员知道什么？（可选）",
  "report.send": "提交举报",
  "report.done": "已举报，管理员会查看。",
  "reason.spam": "垃圾信息",
  "reason.abuse": "辱骂或骚扰",
  "reason.illegal": "违法内容",
  "reason.other": "其他",
};
