// Waits with a time limit.

/**
 * Returns the result of `promise`, or throws an error after `ms`. `message` is a text or a function that returns one.
 */
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

/** Calls `ask` repeatedly until it returns a truthy result, for conditions without an event. */
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
