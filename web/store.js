// Conversations in the browser's own database. A conversation is {id, title, at, system, model, leaf}; its messages are a tree:
// {id, talk, parent, role, text, reasoning, calls, figures, end}. Messages are records of their own, so two tabs never overwrite
// each other's.
const other = new BroadcastChannel("kentang");
let db = null;
const memory = { talks: new Map(), notes: new Map() }; // where the browser keeps nothing

const wait = request => new Promise((done, fail) => { request.onsuccess = () => done(request.result); request.onerror = () => fail(request.error); });

export const open = async changed => {
  other.onmessage = e => changed(e.data);
  try {
    const request = indexedDB.open("kentang", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("talks", { keyPath: "id" });
      request.result.createObjectStore("notes", { keyPath: "id" }).createIndex("talk", "talk");
    };
    db = await wait(request);
  } catch { db = null; }
  return db !== null;
};
export const fresh = () => crypto.getRandomValues(new Uint32Array(3)).reduce((s, n) => s + n.toString(36), "");

const put = async (kind, record) => {
  if (db) await wait(db.transaction(kind, "readwrite").objectStore(kind).put(record)); else memory[kind].set(record.id, record);
};
export const saveTalk = async talk => { await put("talks", { ...talk }); other.postMessage(talk.id); };
export const saveNote = (note, quiet) => put("notes", { ...note }).then(() => quiet || other.postMessage(note.talk));
export const talks = async () => {
  const all = db ? await wait(db.transaction("talks").objectStore("talks").getAll()) : [...memory.talks.values()];
  return all.sort((a, b) => b.at - a.at);
};
export const notes = async talk => {
  const all = db ? await wait(db.transaction("notes").objectStore("notes").index("talk").getAll(talk)) : [...memory.notes.values()].filter(n => n.talk === talk);
  return new Map(all.map(n => [n.id, n]));
};
export const remove = async talk => {
  for (const id of (await notes(talk)).keys()) {
    if (db) await wait(db.transaction("notes", "readwrite").objectStore("notes").delete(id)); else memory.notes.delete(id);
  }
  if (db) await wait(db.transaction("talks", "readwrite").objectStore("talks").delete(talk)); else memory.talks.delete(talk);
  other.postMessage(talk);
};

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
