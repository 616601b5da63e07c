// Mentions, topics and links of a text, by the rules of the server: tests/text-cases.json has the cases of both.

// Letters without the fillers, which nobody sees.
const LETTER = "(?:(?![\\u115f\\u1160\\u3164\\uffa0])\\p{L})";
const BEGINS = `(?:${LETTER}|[\\p{N}_])`;
// Marks and joiners belong to the letter before them.
const ATTACHED = "[\\p{M}\\u200c\\u200d]";
// Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese, Tibetan and others, by their short names.
const SCRIPTS = "Hani Hira Kana Hang Thai Laoo Khmr Mymr Tibt Bopo Yiii Nshu Tang Tale Talu Lana Tavt Java Bali";

const isLetter = tester(LETTER);
const isLetterOrNumber = tester(`(?:${LETTER}|\\p{N})`);
const hasLetter = new RegExp(LETTER, "u");
const hasLetterOrNumber = new RegExp(`${LETTER}|\\p{N}`, "u");
const HOST_END = new RegExp(`^(?:${LETTER}|${ATTACHED})+$`, "u");
const beginsTopic = tester(BEGINS);
const isAttached = tester(ATTACHED);
const continuesTopic = tester(`(?:${BEGINS}|${ATTACHED})`);
const isOfScheme = tester("[A-Za-z0-9+.-]");
const isOfId = tester("[A-Za-z0-9_.-]");
const isOfKey = tester("[A-Za-z0-9_-]");
// Of a word: of an id, a host, a scheme, the local part of an e-mail address.
const continuesWord = tester(`(?:${BEGINS}|${ATTACHED}|[-.+])`);
// Scripts whose words stand without spaces between them, or beside those of other scripts.
const isUnspaced = tester(`[${SCRIPTS.replace(/(\w+) ?/g, "\\p{scx=$1}")}]`);
// A word goes on after a letter or digit of a script with spaces.
const isSpaced = (c) => isLetterOrNumber(c) && !isUnspaced(c);
// The signs that make an emoji, or a key, of the character before them.
const makesEmoji = tester("[\\ufe0f\\u20e3]");
// Quotes and brackets of the text around a link, punctuation of other scripts, what nobody sees.
const endsLink = tester(
  "(?:[\\p{White_Space}\\p{Cc}<>\"\\u0060“”„«»‹›\\u3001-\\u3003\\u3008-\\u3011\\u3014-\\u301f！＂＇（），．：；＜＞？［］" +
    "\\uff5b\\uff5d\\uff5f-\\uff64]|(?![\\u200c\\u200d])\\p{Cf})",
);
const TRAILING = ".,;:!?'*…’‘";
const BRACKETS = "()[]{}";

const MAX_ID_LENGTH = 64;
const MAX_TOPIC_LENGTH = 100;

/**
 * The mentions, topics and links of a text, in order: `kind`, `value` (the id, the name of the topic, the link), and
 * the place from `start` to `end`.
 */
export function tokens(text) {
  const found = [];
  let at = 0;
  while (at < text.length) {
    const c = charAt(text, at);
    const token = tokenAt(text, at, c);
    if (token?.kind) found.push(token);
    at = token?.end ?? at + c.length;
  }
  return found;
}

/** Whether a text has nothing to see: the server takes it as empty. */
export function isBlank(text) {
  return /^[\p{White_Space}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
}

/** What was written into a field: without white space around it, and empty if there is nothing to see. */
export function written(value) {
  return isBlank(value) ? "" : value.trim();
}

/** A text for a place without an element of its own, where a direction would go on. Of a missing text, none. */
export function withoutDirections(text) {
  return (text ?? "").replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/** The beginning of an id that is being mentioned at the end of a text; empty if none is. */
export function mentionBegun(text) {
  const [begun, id] = text.match(/[@＠]([A-Za-z0-9_.-]{1,64})$/) ?? [""];
  const base = baseBefore(text, text.length - begun.length);
  return id === undefined || isSpaced(base) ? "" : id;
}

function tokenAt(text, at, c) {
  if (c === "@" || c === "＠") return mentionAt(text, at);
  if (c === "#" || c === "＃") return topicAt(text, at);
  return beginsTopic(c) ? wordAt(text, at) : null;
}

function mentionAt(text, start) {
  const value = text.slice(start + 1, endOf(text, start + 1, isOfId)).replace(/[.-]+$/, "");
  const end = start + 1 + value.length;
  const isRefused =
    isSpaced(baseBefore(text, start)) ||
    (end < text.length && "@＠".includes(text[end])) ||
    value === "" ||
    value.length > MAX_ID_LENGTH ||
    isScheme(text, start + 1);
  return isRefused ? null : { kind: "mention", value, start, end };
}

function topicAt(text, start) {
  const before = baseBefore(text, start);
  if ((before !== "" && "_/&#＃".includes(before)) || isSpaced(before)) return null;
  if (!beginsTopic(charAt(text, start + 1))) return null;
  const end = topicEnd(text, start + 1);
  const value = topicName(text.slice(start + 1, end));
  if (value === null || isScheme(text, start + 1) || addressEnd(text, start + 1) !== null) return null;
  return { kind: "topic", value, start, end };
}

/** The name of a topic as the server stores it, or null. */
export function topicName(text) {
  const name = text.normalize("NFC").toLowerCase().normalize("NFC");
  return [...name].length <= MAX_TOPIC_LENGTH && hasLetter.test(name) ? name : null;
}

/** The end of a topic: before an emoji, which can be a digit with marks. */
function topicEnd(text, start) {
  let base = start;
  let at = start;
  while (at < text.length) {
    const c = charAt(text, at);
    if (makesEmoji(c)) return base;
    if (!continuesTopic(c)) return at;
    if (!isAttached(c)) base = at;
    at += c.length;
  }
  return at;
}

/** A word with the link or e-mail address that it begins: nothing in these has a meaning of its own. */
function wordAt(text, start) {
  // Where a host can begin: 谢谢 before `www.` is no part of it.
  let host = start;
  let end = start;
  const changesScript = scriptChanges();
  while (end < text.length) {
    const c = charAt(text, end);
    if (!continuesWord(c)) break;
    if (c === "+") host = end + 1;
    if (changesScript(c)) host = end;
    if (end === host && isWww(text, end)) return link(text, end, linkEnd(text, end, true));
    end += c.length;
  }
  return afterWord(text, start, host, end);
}

/** What a word begins, by what follows it. */
function afterWord(text, start, host, end) {
  const scheme = schemeStart(text, start, end);
  if (scheme !== null) {
    const isMail = text.slice(scheme, end).toLowerCase() === "mailto";
    const mark = isMail && !text.startsWith("://", end) ? ":" : "://";
    const from = end + mark.length;
    const past = text.startsWith(mark, end) ? linkEnd(text, from, mark !== ":") : from;
    if (past > from) return link(text, scheme, past);
  }
  const address = addressEnd(text, start);
  if (address !== null) return { end: address };
  while (host < end && "_-.".includes(text[host])) host++;
  const [port] = text.slice(end, end + 6).match(/^:\d{0,5}/) ?? [""];
  const from = end + port.length;
  if ((text[from] === "/" || isQuery(text, from)) && isHost(text.slice(host, end)))
    return link(text, host, linkEnd(text, from, false));
  return { end };
}

/** Whether a query begins here, as `?name=`. */
function isQuery(text, at) {
  const end = endOf(text, at + 1, isOfKey);
  return text[at] === "?" && end > at + 1 && text[end] === "=";
}

function link(text, start, end) {
  return { kind: "link", value: text.slice(start, end), start, end };
}

function isScheme(text, start) {
  return /[A-Za-z]/.test(text[start] ?? "") && text.startsWith("://", endOf(text, start, isOfScheme));
}

/** The start of the scheme at the end of a word, or null. */
function schemeStart(text, start, end) {
  let from = end;
  while (from > start && isOfScheme(text[from - 1])) from--;
  while (from < end && !/[A-Za-z]/.test(text[from])) from++;
  return from < end ? from : null;
}

function isWww(text, at) {
  return text.slice(at, at + 4).toLowerCase() === "www." && isLetterOrNumber(charAt(text, at + 4));
}

/** The end of the e-mail address that begins here, or null. `Hi.@ann` ends a sentence. */
function addressEnd(text, start) {
  const sign = endOf(text, start, continuesWord);
  const last = baseBefore(text, sign);
  const isLocalPart = sign > start && last !== "." && !isUnspaced(last);
  if (text[sign] !== "@" || !isLocalPart || !hasLetterOrNumber.test(text.slice(start, sign))) return null;
  const domain = text.slice(sign + 1, endOf(text, sign + 1, continuesWord)).replace(/[_.+-]+$/, "");
  return isHost(domain) ? sign + 1 + domain.length : null;
}

/** Whether a word is a host with a dot: its last label has letters only, or it is an IPv4 address. */
function isHost(word) {
  const labels = word.split(".");
  if (labels.some((label) => label === "" || label.startsWith("-") || label.endsWith("-"))) return false;
  if (labels.length === 4 && labels.every((label) => /^\d{1,3}$/.test(label))) return true;
  const last = labels.at(-1);
  return labels.length > 1 && (HOST_END.test(last) || /^xn--/i.test(last));
}

/** Returns a function that takes the letters of a word and finds where the kind of script changes in a label. */
function scriptChanges() {
  let before = null;
  return (c) => {
    if (".-_+:@".includes(c)) before = null;
    if (!isLetter(c)) return false;
    const is = isUnspaced(c);
    const changes = before !== null && before !== is;
    before = is;
    return changes;
  };
}

/** The end of a link that is read up to `from`. With a dot in its host, that ends before a letter like 谢. */
function linkEnd(text, from, isInHost) {
  const changesScript = scriptChanges();
  const open = [0, 0, 0];
  let hasDot = false;
  let end = from;
  while (end < text.length) {
    const c = charAt(text, end);
    isInHost &&= !"/?#".includes(c);
    hasDot ||= c === ".";
    if ((isInHost && changesScript(c) && hasDot && isUnspaced(c)) || endsLink(c)) break;
    const bracket = BRACKETS.indexOf(c);
    if (bracket >= 0) open[bracket >> 1] += bracket % 2 === 0 ? 1 : -1;
    end += c.length;
  }
  for (; end > from; end--) {
    const bracket = BRACKETS.indexOf(text[end - 1]);
    const isClosing = bracket % 2 === 1 && open[bracket >> 1] < 0;
    if (isClosing) open[bracket >> 1]++;
    else if (!TRAILING.includes(text[end - 1])) break;
  }
  return end;
}

/** The character before a place, without its marks; empty at the start and after an emoji, which can be a digit. */
function baseBefore(text, at) {
  while (at > 0) {
    at -= /[\udc00-\udfff]/.test(text[at - 1]) && at > 1 ? 2 : 1;
    const c = charAt(text, at);
    if (makesEmoji(c)) return "";
    if (!isAttached(c)) return c;
  }
  return "";
}

/** Whether a character is of a class: one `pattern` for all calls. */
function tester(source) {
  const pattern = new RegExp(`^${source}`, "u");
  return (c) => pattern.test(c);
}

function endOf(text, at, belongs) {
  while (at < text.length) {
    const c = charAt(text, at);
    if (!belongs(c)) break;
    at += c.length;
  }
  return at;
}

function charAt(text, at) {
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)) : "";
}
