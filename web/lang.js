// The page's own words, in English and Indonesian; t(key, values) and the elements that carry data-t.
const WORDS = {
  skip: ["Go to the input", "Ke kotak tulis"], conversations: ["Conversations", "Percakapan"], conversation: ["Conversation", "Isi percakapan"],
  model: ["Model", "Model"], playground: ["Schemas and grammars", "Skema dan tata bahasa"], settings: ["Settings", "Pengaturan"], gauges: ["Figures", "Angka"],
  new: ["New conversation", "Percakapan baru"], ask: ["Your message", "Pesanmu"], attach: ["Attach text", "Lampirkan teks"], stop: ["Stop", "Berhenti"], send: ["Send", "Kirim"],
  key: ["API key (kept for this tab only)", "Kunci API (hanya untuk tab ini)"], system: ["System prompt of this conversation", "Pesan sistem percakapan ini"], think: ["Let the model reason, where it can", "Biarkan model bernalar, jika bisa"],
  language: ["Language", "Bahasa"], theme: ["Colours", "Warna"], auto: ["as the system", "ikut sistem"], light: ["light", "terang"], dark: ["dark", "gelap"], export: ["Save as JSON", "Simpan sebagai JSON"], close: ["Close", "Tutup"],
  kind: ["Kind", "Jenis"], rule: ["Schema, grammar or expression", "Skema, tata bahasa, atau ekspresi"], prompt: ["Prompt", "Prompt"], answer: ["Answer", "Jawaban"], try: ["Try", "Coba"],
  you: ["You", "Kamu"], kentang: ["kentang", "kentang"], edit: ["Edit", "Sunting"], copy: ["Copy", "Salin"], copied: ["Copied", "Tersalin"], again: ["Again", "Ulangi"], goon: ["Go on", "Lanjutkan"], delete: ["Delete", "Hapus"],
  deleteAsk: ["Delete this conversation?", "Hapus percakapan ini?"], before: ["Earlier version", "Versi sebelumnya"], after: ["Later version", "Versi berikutnya"], reasoning: ["Reasoning", "Penalaran"], call: ["Calls a tool", "Memanggil alat"],
  waiting: ["waiting…", "menunggu…"], cut: ["(interrupted)", "(terputus)"], cancelled: ["(stopped)", "(dihentikan)"], full: ["(ended at the limit of tokens)", "(berhenti di batas token)"],
  figures: ["{n} tokens · {s} tok/s · {f} s to the first · {p} of the prompt, {c} from cache · seed {seed}", "{n} token · {s} tok/s · {f} s sampai yang pertama · {p} dari prompt, {c} dari tembolok · seed {seed}"],
  badKey: ["The server wants an API key, or does not know this one. Give it in the settings.", "Server meminta kunci API, atau tidak mengenal kunci ini. Isi di pengaturan."],
  gone: ["The server cannot be reached. What was written is kept.", "Server tidak dapat dihubungi. Yang sudah tertulis tetap tersimpan."], notText: ["{f} is not a text, or is over 1 MB.", "{f} bukan teks, atau lebih dari 1 MB."],
  notKept: ["This browser does not let the page keep conversations.", "Peramban ini tidak mengizinkan penyimpanan percakapan."], untitled: ["Untitled", "Tanpa judul"], remove: ["Remove {f}", "Buang {f}"],
  speed: ["Speed", "Kecepatan"], decode: ["generation", "jawaban"], prefill: ["prompts", "prompt"], first: ["first token", "token pertama"], running: ["answering", "menjawab"], queued: ["waiting", "menunggu"], wait: ["expected wait", "perkiraan tunggu"],
  memory: ["Memory", "Memori"], weights: ["weights", "bobot"], kv: ["K/V", "K/V"], scratch: ["scratch", "kerja"], resident: ["resident", "terpakai"], budget: ["allowed", "batas"], cached: ["prompt from cache", "prompt dari tembolok"],
  machine: ["Machine", "Mesin"], threads: ["threads", "thread"], isa: ["kernels", "kernel"], throttled: ["held back by a quota", "ditahan kuota"], limit: ["limit now", "pembatas"], requests: ["Requests", "Permintaan"], uptime: ["up for", "hidup"],
  limitIdle: ["nothing to do", "tidak ada kerja"], limitQuota: ["processor quota", "kuota prosesor"], limitMemory: ["memory is short", "memori kurang"], limitPrompt: ["prompts being read", "membaca prompt"], limitBandwidth: ["reading the weights", "membaca bobot"], limitQueue: ["more requests than room", "permintaan melebihi ruang"],
  kvStore: ["Keys and values", "Kunci dan nilai"], kvForm: ["form", "bentuk"], inUse: ["in use", "dipakai"], keptBlocks: ["kept for prompts to come", "disimpan untuk prompt berikut"], evicted: ["blocks given up", "blok dilepas"], fromDisk: ["tokens from disk", "token dari disk"],
  answerBefore: ["answer {n} back", "jawaban ke-{n} terakhir"], ofPrompt: ["{c} of {p} found", "{c} dari {p} ditemukan"],
  tools: ["Tools of this server that the model may ask for", "Alat server ini yang boleh diminta model"], allow: ["Allow", "Izinkan"], allowAlways: ["Allow in this conversation", "Izinkan di percakapan ini"], refuse: ["Refuse", "Tolak"], refused: ["Refused", "Ditolak"], result: ["What the tool said", "Kata alat itu"],
  learning: ["What it has learned", "Yang telah dipelajari"], good: ["Good", "Bagus"], bad: ["Bad", "Buruk"], correct: ["Correct", "Perbaiki"], correction: ["What the answer should have been", "Jawaban yang seharusnya"], learned: ["Noted: version {v}.", "Dicatat: versi {v}."], withLearned: ["with version {v}", "dengan versi {v}"],
  corrections: ["corrections", "perbaikan"], ratings: ["ratings", "penilaian"], taught: ["tokens taught", "token diajarkan"], onDisk: ["on disk", "di disk"], proof: ["gain on answers kept aside", "perolehan pada jawaban uji"], noAdapter: ["nothing published", "belum ada yang terbit"], state: ["state", "keadaan"], frozen: ["frozen", "dibekukan"],
  version: ["Version", "Versi"], modelAlone: ["The model alone", "Model saja"], rolled: ["Version {v} holds from the next answer on.", "Versi {v} berlaku mulai jawaban berikut."], train: ["Train", "Latih"], published: ["Version {v} gained on answers kept aside, and is used.", "Versi {v} lebih baik pada jawaban uji, dan dipakai."],
  unpublished: ["Nothing was published: no gain was proved.", "Tidak ada yang terbit: perolehan tidak terbukti."], nothingLearned: ["Nothing yet. Rate or correct an answer.", "Belum ada. Nilai atau perbaiki sebuah jawaban."],
  temperature: ["temperature", "suhu"], top_k: ["top_k", "top_k"], top_p: ["top_p", "top_p"], min_p: ["min_p", "min_p"], repeat_penalty: ["repeat penalty", "penalti ulang"], max_tokens: ["tokens at most", "token paling banyak"], seed: ["seed", "seed"],
  asServer: ["as the server has it", "ikut server"],
};

let at = 0;
export const pickLanguage = code => {
  at = code === "id" ? 1 : 0;
  document.documentElement.lang = at ? "id" : "en";
  for (const e of document.querySelectorAll("[data-t]")) e.textContent = t(e.dataset.t);
  for (const e of document.querySelectorAll("[data-label]")) { e.setAttribute("aria-label", t(e.dataset.label)); if (e.tagName === "BUTTON") e.title = t(e.dataset.label); }
  for (const e of document.querySelectorAll("[data-placeholder]")) e.placeholder = t(e.dataset.placeholder);
};
export const t = (key, values = {}) => WORDS[key][at].replace(/\{(\w+)\}/g, (_, k) => values[k] ?? "–");
