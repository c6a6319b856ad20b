// Conversations in the browser's own database. A conversation is {id, title, at, system, model, tools, leaf}; its messages are a
// tree: {id, talk, parent, role, text, reasoning, calls, figures, end, why, model, ...}. Messages are records of their own, so two
// tabs never overwrite each other's.
const other = new BroadcastChannel("kentang");
const memory = { talks: new Map(), notes: new Map() }; // where the browser keeps nothing

const wait = request => new Promise((done, fail) => { request.onsuccess = () => done(request.result); request.onerror = () => fail(request.error); });

const openBase = async () => {
  try {
    const request = indexedDB.open("kentang", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("talks", { keyPath: "id" });
      request.result.createObjectStore("notes", { keyPath: "id" }).createIndex("talk", "talk");
    };
    return await wait(request);
  } catch { return null; }
};
// Everything waits for it, so that what is typed in the page's first milliseconds is kept, too.
const base = openBase();

export const listen = changed => { other.onmessage = e => changed(e.data); };
export const keeps = async () => await base !== null;
export const fresh = () => crypto.getRandomValues(new Uint32Array(3)).reduce((s, n) => s + n.toString(36), "");

const put = async (kind, record) => {
  const db = await base;
  if (db) await wait(db.transaction(kind, "readwrite").objectStore(kind).put(record)); else memory[kind].set(record.id, record);
};
const drop = async (kind, id) => {
  const db = await base;
  if (db) await wait(db.transaction(kind, "readwrite").objectStore(kind).delete(id)); else memory[kind].delete(id);
};
const all = async kind => {
  const db = await base;
  return db ? wait(db.transaction(kind).objectStore(kind).getAll()) : [...memory[kind].values()];
};

export const saveTalk = async talk => { await put("talks", { ...talk }); other.postMessage(talk.id); };
export const saveNote = (note, quiet) => put("notes", { ...note }).then(() => quiet || other.postMessage(note.talk));
export const talks = async () => (await all("talks")).sort((a, b) => b.at - a.at);
export const notes = async talk => {
  const db = await base;
  const found = db ? await wait(db.transaction("notes").objectStore("notes").index("talk").getAll(talk)) : [...memory.notes.values()].filter(n => n.talk === talk);
  return new Map(found.map(n => [n.id, n]));
};
export const dropNotes = async (talk, ids) => { for (const id of ids) await drop("notes", id); other.postMessage(talk); };
export const remove = async talk => {
  await dropNotes(talk, (await notes(talk)).keys());
  await drop("talks", talk);
  other.postMessage(talk);
};
// The ids of conversations in whose title or messages the words are.
export const search = async words => {
  const wanted = words.toLowerCase(), has = text => text?.toLowerCase().includes(wanted);
  const found = new Set((await all("notes")).filter(n => has(n.text)).map(n => n.talk));
  for (const talk of await all("talks")) if (has(talk.title)) found.add(talk.id);
  return found;
};

// ---- the tree ----

// From the first message to the leaf.
export const path = (all, leaf) => {
  const out = [];
  for (let n = all.get(leaf); n; n = all.get(n.parent)) out.unshift(n);
  return out;
};
export const siblings = (all, note) => [...all.values()].filter(n => n.parent === note.parent).sort((a, b) => a.at - b.at);
// The newest leaf below a message.
export const leafBelow = (all, id) => {
  for (;;) {
    const next = [...all.values()].filter(n => n.parent === id).sort((a, b) => b.at - a.at)[0];
    if (!next) return id;
    id = next.id;
  }
};
// A message and all that follows it, in every branch.
export const below = (all, id) => {
  const out = [all.get(id)];
  for (let i = 0; i < out.length; i++) for (const n of all.values()) if (n.parent === out[i].id) out.push(n);
  return out;
};

// ---- files ----

const whole = async talk => ({ ...talk, notes: [...(await notes(talk.id)).values()] });
// As a file: one conversation, or all.
export const write = async id => {
  const wanted = (await talks()).filter(t => !id || t.id === id);
  return JSON.stringify({ kentang: 1, conversations: await Promise.all(wanted.map(whole)) }, null, 1);
};

const ROLES = new Set(["user", "assistant"]);
const textOf = value => typeof value === "string" ? value : Array.isArray(value) ? value.map(part => part?.text ?? "").join("") : "";

// Messages in a row, as other programs write them: {role, content}.
const fromRow = (talk, row) => {
  let parent = null;
  return row.filter(m => ROLES.has(m?.role)).map((m, i) => {
    const note = { id: fresh(), talk, parent, role: m.role, text: textOf(m.content ?? m.text), at: i, end: m.role === "assistant" ? "stop" : undefined };
    parent = note.id;
    return note;
  });
};
// Our own messages, with ids of their own, so that a file can be read twice.
const fromTree = (talk, list) => {
  const ids = new Map(list.map(n => [n.id, fresh()]));
  return list.filter(n => ROLES.has(n?.role) && typeof n.text === "string").map(n => ({ ...n, id: ids.get(n.id), talk, parent: ids.get(n.parent) ?? null, response: undefined }));
};
const lastLeaf = map => leafBelow(map, [...map.values()].find(n => n.parent === null).id);
const readOne = async given => {
  const id = fresh(), at = Number(given.at) || Date.now();
  const found = Array.isArray(given.notes) ? fromTree(id, given.notes) : fromRow(id, given.messages ?? []);
  if (!found.length) return 0;
  const map = new Map(found.map(n => [n.id, n]));
  const position = Array.isArray(given.notes) ? given.notes.filter(n => ROLES.has(n?.role) && typeof n.text === "string").findIndex(n => n.id === given.leaf) : -1;
  const leaf = found[position]?.id ?? lastLeaf(map);
  const system = textOf(given.system ?? given.messages?.find?.(m => m?.role === "system")?.content);
  for (const n of found) await saveNote(n, true);
  await saveTalk({ id, title: textOf(given.title).slice(0, 200) || found[0].text.slice(0, 60), at, system, leaf });
  return 1;
};
// How many conversations a file had; throws where it is none of ours.
export const read = async text => {
  const file = JSON.parse(text);
  const list = Array.isArray(file) ? file : Array.isArray(file?.conversations) ? file.conversations : [file];
  let n = 0;
  for (const one of list) n += await readOne(one ?? {});
  return n;
};
// What was removed comes back as it was.
export const restore = async (talk, list) => { for (const n of list) await saveNote(n, true); await saveTalk(talk); };
