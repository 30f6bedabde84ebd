// Requests to the server.

import { state, tell } from "./state.js";

class Problem extends Error {
  constructor(problem) {
    super(problem.detail);
    this.name = problem.name;
    this.status = problem.status;
  }
}

export async function ask(path, { body, signal } = {}) {
  const [headers, sent] = [{}, state.token];
  if (sent) headers.authorization = `Bearer ${sent}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const within = AbortSignal.timeout(65_000);
  let answer;
  try {
    answer = await fetch(`v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, within]) : within,
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem({ name: "unreachable", status: 0, detail: "the server does not answer" });
  }
  const said = await answer.json().catch(() => ({ name: "strange", detail: `status ${answer.status}` }));
  if (answer.ok) return said;
  if (answer.status === 401) tell("refused", { problem: said, sent });
  throw new Problem({ status: answer.status, ...said });
}
