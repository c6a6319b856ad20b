// How far a long prompt is, asked of the server while nothing has come of the answer.
import * as api from "./api.js";

const FIRST_MS = 600, EVERY_MS = 500; // a short prompt is done before the first look

// on({loading}), on({waiting}) or on({done, total, rate, left}), in tokens, tokens a second, and seconds. id(): of the answer, once it is known.
export const readPrompt = (model, id, isThere, on) => {
  let timer = 0, begin = null;
  const look = async () => {
    if (isThere()) return;
    try {
      const { models, requests } = await api.props(), mine = requests.find(r => r.id === id());
      if (models.find(m => m.name === model)?.loaded === false) on({ loading: true });
      else if (mine?.state === "waiting") on({ waiting: true });
      else if (mine?.prompt_tokens && mine.prompt_done < mine.prompt_tokens) {
        const now = { ms: performance.now(), done: mine.prompt_done };
        begin ??= now;
        const rate = now.ms > begin.ms ? (now.done - begin.done) * 1000 / (now.ms - begin.ms) : 0;
        on({ done: now.done, total: mine.prompt_tokens, rate, left: rate > 0 ? (mine.prompt_tokens - now.done) / rate : undefined });
      }
    } catch { /* the answer itself says it */ }
    if (timer !== null) timer = setTimeout(look, EVERY_MS);
  };
  timer = setTimeout(look, FIRST_MS);
  return { stop: () => { clearTimeout(timer); timer = null; } };
};
