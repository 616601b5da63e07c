// Waiting for something to happen, never longer than a limit.

/** What `promise` answers, or an error after `ms`. `message` is text, or makes it. */
export async function within(ms, promise, message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${say(message)} (waited ${ms} ms)`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Asks again and again until the answer is neither false nor nothing; for what sends no event. */
export async function poll(ms, ask, message) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`${say(message)} (waited ${ms} ms)`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

function say(message) {
  return typeof message === "function" ? message() : message;
}
