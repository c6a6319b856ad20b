// The page's own words, in English and Indonesian; t(key, values), the elements that carry data-t, and numbers as they are written
// there. "one|several": by the value n, where a language has both.
const WORDS = {
  // the page's parts
  skip: ["Go to the input", "Ke kotak tulis"], conversations: ["Conversations", "Percakapan"], conversation: ["Conversation", "Isi percakapan"],
  model: ["Model", "Model"], playground: ["Schemas and grammars", "Skema dan tata bahasa"], settings: ["Settings", "Pengaturan"], figures: ["How it runs", "Kinerja"],
  new: ["New conversation", "Percakapan baru"], search: ["Search conversations", "Cari percakapan"], import: ["Import", "Impor"], showFigures: ["Show figures", "Tampilkan angka"],
  ask: ["Your message", "Pesanmu"], askHint: ["Write a message…", "Tulis pesan…"], attach: ["Attach", "Lampirkan"], tools: ["Tools", "Alat"], stop: ["Stop", "Berhenti"], send: ["Send", "Kirim"],
  close: ["Close", "Tutup"], cancel: ["Cancel", "Batal"], undo: ["Undo", "Urungkan"], more: ["More", "Lainnya"], moreOf: ["More for “{title}”", "Lainnya untuk “{title}”"],
  you: ["You", "Kamu"], kentang: ["kentang", "kentang"],
  // the empty page
  hello: ["What shall we do?", "Mau apa kita hari ini?"], helloDemo: ["Hello, I am kentang’s demo model", "Halo, aku model demo kentang"],
  aboutDemo: ["I run {where}, on the processor alone. I tell short stories, do small sums, call a clock and a calculator, and fill in forms, in English and Indonesian. I know nothing of the world: larger models do.",
    "Aku berjalan {where}, hanya dengan prosesor. Aku bisa bercerita pendek, berhitung kecil, memakai jam dan kalkulator, dan mengisi formulir, dalam bahasa Indonesia dan Inggris. Aku tidak tahu apa-apa tentang dunia: model yang lebih besar tahu."],
  aboutAny: ["{name} runs {where}. What you write goes nowhere else.", "{name} berjalan {where}. Yang kamu tulis tidak dikirim ke tempat lain."],
  hereOn: ["on this computer", "di komputer ini"], onHost: ["on {host}", "di {host}"],
  parameters: ["{n} parameters", "{n} parameter"], millions: ["{n} million", "{n} juta"], billions: ["{n} billion", "{n} miliar"], contextOf: ["remembers {n} tokens", "mengingat {n} token"],
  speedHere: ["about {n} tokens a second here", "sekitar {n} token per detik di sini"], speedLater: ["speed known after the first answer", "kecepatan diketahui setelah jawaban pertama"],
  card_story: ["A story", "Cerita"], card_sum: ["A sum", "Hitungan"], card_tools: ["A tool", "Alat"], card_form: ["A form", "Formulir"], card_chat: ["A question", "Pertanyaan"],
  ask_demo_story: ["Tell me a short story about a robot who is afraid of the dark.", "Buatkan cerita pendek tentang layang-layang merah."], ask_demo_sum: ["What is 17 + 25?", "Berapa 34 dikurangi 18?"],
  ask_demo_tools: ["What is 127 * 49?", "Berapa 127 * 49?"], ask_demo_form: ["Give me name and age as JSON: Lily is 9 years old.", "Berikan nama dan umur sebagai JSON: Lily berumur 9 tahun."],
  ask_any_chat: ["Explain why the sky is blue, in three sentences.", "Jelaskan dalam tiga kalimat mengapa langit berwarna biru."], ask_any_story: ["Write a short story about a lighthouse and a potato.", "Tulis cerita pendek tentang mercusuar dan kentang."],
  ask_any_tools: ["What day is it, and what is 127 * 49?", "Hari apa sekarang, dan berapa 127 * 49?"], ask_any_form: ["Give me name and age as JSON: Lily is 9 years old.", "Berikan nama dan umur sebagai JSON: Lily berumur 9 tahun."],
  // the list
  title: ["Title", "Judul"], rename: ["Rename", "Ganti nama"], exportOne: ["Export", "Ekspor"], delete: ["Delete", "Hapus"], untitled: ["Untitled", "Tanpa judul"],
  talkGone: ["“{title}” was deleted.", "“{title}” dihapus."], messageGone: ["The message and what followed it were deleted.", "Pesan itu dan kelanjutannya dihapus."],
  imported: ["{n} conversation imported.|{n} conversations imported.", "{n} percakapan diimpor."], nothingImported: ["This file has no conversations that the page can read.", "Berkas ini tidak berisi percakapan yang bisa dibaca."],
  notFound: ["Nothing was found.", "Tidak ditemukan."], today: ["Today", "Hari ini"], yesterday: ["Yesterday", "Kemarin"], week: ["This week", "Minggu ini"], earlier: ["Earlier", "Sebelumnya"],
  // a message
  edit: ["Edit", "Sunting"], copy: ["Copy", "Salin"], copied: ["Copied", "Tersalin"], again: ["Regenerate", "Buat ulang"], goon: ["Continue", "Lanjutkan"], retry: ["Try again", "Coba lagi"],
  before: ["Earlier version", "Versi sebelumnya"], after: ["Later version", "Versi berikutnya"], reasoning: ["Reasoning", "Penalaran"],
  waiting: ["Writing…", "Menulis…"], loading: ["Loading the model…", "Memuat model…"], notLoaded: ["loaded when asked", "dimuat saat ditanya"], inQueue: ["Waiting: other answers come first.", "Menunggu: jawaban lain didahulukan."], readingLabel: ["Prompt being read", "Prompt sedang dibaca"],
  reading: ["Reading the prompt: {n} of {all} tokens", "Membaca prompt: {n} dari {all} token"], secondsLeft: ["{s} s left", "sisa {s} detik"], rate: ["{n} tok/s", "{n} tok/s"],
  end_cut: ["This answer was interrupted.", "Jawaban ini terputus."], end_cancelled: ["You stopped this answer.", "Kamu menghentikan jawaban ini."], end_length: ["The answer ended at the limit of tokens.", "Jawaban berhenti di batas token."],
  endFailed: ["No answer: {why}", "Tidak ada jawaban: {why}"], tooLong: ["The conversation is too long for this model: {why}. Begin a new one, or choose fewer tools.", "Percakapan ini terlalu panjang untuk model ini: {why}. Mulai yang baru, atau pilih lebih sedikit alat."],
  tokens: ["{n} token|{n} tokens", "{n} token"], firstAfter: ["first token after {s}", "token pertama setelah {s}"], promptTokens: ["{n} prompt token|{n} prompt tokens", "{n} token prompt"],
  fromCache: ["({c} from cache)", "({c} dari tembolok)"], seedWas: ["seed {n}", "seed {n}"], withLearned: ["with what it learned, version {v}", "dengan yang dipelajari, versi {v}"], withFixes: ["with the fixes {l}", "dengan perbaikan {l}"],
  badKey: ["The server wants an API key, or does not know this one. Give it in the settings.", "Server meminta kunci API, atau tidak mengenal kunci ini. Isi di pengaturan."],
  gone: ["The server cannot be reached. What was written is kept.", "Server tidak dapat dihubungi. Yang sudah tertulis tetap tersimpan."], notText: ["{f} is no text that the page can read, or is over 4 MB.", "{f} bukan teks yang bisa dibaca halaman ini, atau lebih dari 4 MB."],
  blind: ["This model sees no pictures, so {f} stays here. Models that see come with an mmproj file.", "Model ini tidak melihat gambar, jadi {f} tidak dikirim. Model yang bisa melihat disertai berkas mmproj."],
  largePicture: ["{f} is over 32 MB.", "{f} lebih dari 32 MB."], noPicture: ["{f} is no picture that this browser can show.", "{f} bukan gambar yang bisa ditampilkan peramban ini."],
  largePdf: ["{f} is over 64 MB.", "{f} lebih dari 64 MB."], pdfWithoutText: ["{f} has no text: its pages are pictures.", "{f} tidak berisi teks: halamannya berupa gambar."],
  pdfLocked: ["{f} is locked by a password.", "{f} terkunci kata sandi."], pdfDamaged: ["{f} cannot be read: it is damaged, or no PDF.", "{f} tidak bisa dibaca: rusak, atau bukan PDF."],
  documents: ["Documents", "Dokumen"], readingFile: ["Reading {f}…", "Membaca {f}…"],
  nearest: ["the passages nearest to your question are sent, about {n} tokens", "yang dikirim bagian yang terdekat dengan pertanyaanmu, sekitar {n} token"], choosing: ["Looking for the passages nearest to your question…", "Mencari bagian yang terdekat dengan pertanyaanmu…"],
  readFrom: ["Read: {l}", "Dibaca: {l}"], ofPages: ["{f}, pages {p}", "{f}, halaman {p}"], ofPage: ["{f}, page {p}", "{f}, halaman {p}"],
  picture: ["Picture", "Gambar"], unseen: ["(a picture, which this model cannot see)", "(gambar yang tidak bisa dilihat model ini)"],
  secondsToRead: ["about {s} s to read", "sekitar {s} dtk untuk dibaca"], overRoom: ["more than the model remembers ({n})", "lebih dari yang diingat model ({n})"],
  notKept: ["This browser does not let the page keep conversations.", "Peramban ini tidak mengizinkan penyimpanan percakapan."], remove: ["Remove {f}", "Buang {f}"],
  // tools
  toolsHead: ["Tools that the model may call", "Alat yang boleh dipanggil model"], toolClock: ["Clock", "Jam"], toolCalculator: ["Calculator", "Kalkulator"], toolHere: ["in this page", "di halaman ini"], toolServer: ["of this server, asks first", "milik server ini, bertanya dulu"],
  toolsTake: ["Their descriptions take {n} of the {all} tokens that the model remembers.", "Keterangannya memakan {n} dari {all} token yang diingat model."],
  mayI: ["The model wants to call this tool. Allow it?", "Model ingin memanggil alat ini. Izinkan?"], allow: ["Allow", "Izinkan"], allowAlways: ["Allow in this conversation", "Izinkan di percakapan ini"], refuse: ["Refuse", "Tolak"], refused: ["Refused", "Ditolak"], result: ["What the tool said", "Kata alat itu"],
  // figures
  lineIdle: ["Ready", "Siap"], lineAnswering: ["Answering|Answering {n} requests", "Menjawab {n} permintaan"], lineReading: ["Reading a prompt", "Membaca prompt"], lineQueue: ["{n} waiting", "{n} menunggu"],
  lineLast: ["last answer {n} tok/s, first token after {s}", "jawaban terakhir {n} tok/s, token pertama setelah {s}"], lineMemory: ["{n} of memory", "memori {n}"],
  plotSpeed: ["Tokens a second", "Token per detik"], plotSpeedSays: ["All answers together. A token is about three quarters of a word.", "Semua jawaban bersama-sama. Satu token kira-kira tiga perempat kata."],
  plotFirst: ["Time to the first token", "Waktu sampai token pertama"], plotFirstSays: ["How long one waits before an answer begins.", "Lama menunggu sebelum jawaban mulai."],
  plotQueue: ["Requests", "Permintaan"], queueNow: ["{n} answering, {w} waiting", "{n} dijawab, {w} menunggu"], running: ["answering", "dijawab"], queued: ["waiting", "menunggu"],
  memory: ["Memory", "Memori"], memorySays: ["Of {all} that it may use.", "Dari {all} yang boleh dipakai."], memoryFile: ["model file and program {n}", "berkas model dan program {n}"], memoryOwn: ["working memory {n}", "memori kerja {n}"],
  plotHeat: ["Processor’s heat", "Suhu prosesor"], plotClock: ["Processor’s clock", "Laju prosesor"], plotClockSays: ["It falls when the processor is too hot. This machine reports no temperature.", "Turun bila prosesor terlalu panas. Mesin ini tidak melaporkan suhu."],
  limitIdle: ["Nothing to do: it waits for a message.", "Tidak ada kerja: menunggu pesan."], limitQuota: ["This program has used up the processor time that it may have: a quota holds it back.", "Jatah waktu prosesor sudah habis: program ini ditahan kuota."],
  limitMemory: ["Memory is short: parts of the model are read from disk again. A smaller model would be faster.", "Memori kurang: sebagian model dibaca lagi dari disk. Model yang lebih kecil akan lebih cepat."], limitHeat: ["The processor is too hot and slows itself down.", "Prosesor terlalu panas dan memperlambat diri."],
  limitPrompt: ["A prompt is being read: the processor’s arithmetic is the limit.", "Prompt sedang dibaca: batasnya adalah hitungan prosesor."], limitBandwidth: ["An answer is being written: for each token all of the model’s {bytes} pass through the processor, so memory is the limit.", "Jawaban sedang ditulis: untuk tiap token seluruh {bytes} model melewati prosesor, jadi batasnya adalah memori."],
  limitQueue: ["More requests than can be answered at once: {n} waits.|More requests than can be answered at once: {n} wait.", "Permintaan lebih banyak daripada yang bisa dijawab sekaligus: {n} menunggu."],
  moreFigures: ["More figures", "Angka lain"], weights: ["weights", "bobot"], kv: ["keys and values", "kunci dan nilai"], scratch: ["scratch", "ruang kerja"], budget: ["allowed", "batas"], kvForm: ["keys / values are", "bentuk kunci / nilai"], inUse: ["their room in use", "ruangnya terpakai"],
  keptBlocks: ["kept for prompts to come", "disimpan untuk prompt berikut"], cached: ["of prompts found there", "prompt yang ditemukan di sana"], fromDisk: ["tokens from disk", "token dari disk"], prefill: ["prompts are read at", "laju membaca prompt"], wait: ["expected wait", "perkiraan tunggu"],
  places: ["answers at once", "jawaban sekaligus"], threads: ["threads", "thread"], isa: ["kernels", "kernel"], uptime: ["up for", "hidup selama"], version: ["Version", "Versi"],
  // learning
  teach: ["Teach it something", "Ajari sesuatu"], teachHow: ["It is used from the next answer on, where a question is about it.", "Dipakai mulai jawaban berikut, bila pertanyaan tentang hal itu."], teachAsked: ["A question", "Sebuah pertanyaan"], noTopic: ["About nothing in particular", "Tanpa topik khusus"], forgetIt: ["Forget", "Lupakan"],
  learning: ["What it has learned", "Yang telah dipelajari"], good: ["Good", "Bagus"], bad: ["Bad", "Buruk"], fix: ["Fix this answer", "Perbaiki jawaban ini"], fixHow: ["Write what the answer should have been. It is used from the next answer on.", "Tulis jawaban yang seharusnya. Dipakai mulai jawaban berikut."],
  correction: ["What the answer should have been", "Jawaban yang seharusnya"], remember: ["Remember", "Ingat"], remembered: ["Thanks, remembered.", "Terima kasih, diingat."], takenBack: ["Taken back.", "Ditarik kembali."], fixedAs: ["Fixed: “{text}”", "Diperbaiki: “{text}”"],
  itemGood: ["Good:", "Bagus:"], itemBad: ["Bad:", "Buruk:"], used: ["used in an answer {when}", "dipakai dalam jawaban {when}"], unused: ["not used yet", "belum dipakai"], yourSpace: ["From you", "Darimu"], sharedSpace: ["Shared: {name}", "Bersama: {name}"],
  fixes: ["{n} fix|{n} fixes", "{n} perbaikan"], ratings: ["{n} rating|{n} ratings", "{n} penilaian"], versions: ["Versions and training", "Versi dan pelatihan"], taught: ["tokens taught", "token diajarkan"], onDisk: ["on disk", "di disk"], usedAt: ["training used", "pelatihan dipakai"], usedOpen: ["where a fix is about it", "saat ada perbaikan tentang hal itu"], usedAll: ["everywhere", "di mana saja"], instant: ["instant loop", "putaran seketika"], instantSteps: ["{n} step, used {at}|{n} steps, used {at}", "{n} langkah, dipakai {at}"], proof: ["gain on answers kept aside", "perolehan pada jawaban uji"],
  noAdapter: ["nothing published", "belum ada yang terbit"], state: ["state", "keadaan"], frozen: ["frozen", "dibekukan"], modelAlone: ["The model alone", "Model saja"], rolled: ["Version {v} holds from the next answer on.", "Versi {v} berlaku mulai jawaban berikut."], train: ["Train", "Latih"],
  trainBar: ["How far the training is", "Kemajuan pelatihan"], stage_writing: ["It writes conversations whose answers are to stay as they are: {n} of {all}", "Menulis percakapan yang jawabannya harus tetap: {n} dari {all}"],
  stage_steps: ["Training: step {n} of {all}", "Berlatih: langkah {n} dari {all}"], stage_judging: ["Checking what it gained and what it lost", "Memeriksa yang bertambah dan yang hilang"],
  training: ["Training: this takes a minute or more. Answers go first.", "Berlatih: ini makan semenit atau lebih. Jawaban didahulukan."], published: ["Version {v} gained on answers kept aside, and is used.", "Versi {v} lebih baik pada jawaban uji, dan dipakai."],
  unpublished: ["Nothing was published: no gain was proved.", "Tidak ada yang terbit: perolehan tidak terbukti."], nothingLearned: ["Nothing yet. Call an answer good or bad, or fix it: it is remembered from the next answer on.", "Belum ada. Nilai bagus atau buruk, atau perbaiki sebuah jawaban: diingat mulai jawaban berikut."],
  notes_measuring: ["{name}: trying out whether it uses what it is taught, {n} of {of} questions so far, while nobody asks it anything.", "{name}: sedang diuji apakah ia memakai yang diajarkan, {n} dari {of} pertanyaan sejauh ini, saat tidak ada yang bertanya."],
  notes_known: ["{name} is shown what it was taught where a question is about it.", "{name} diperlihatkan yang diajarkan bila pertanyaan tentang hal itu."],
  notes_used: ["{name} is shown what it was taught where a question is about it. Tried out: it used {used} of {n} made-up facts, and gave {leaked} where they did not belong.", "{name} diperlihatkan yang diajarkan bila pertanyaan tentang hal itu. Hasil uji: memakai {used} dari {n} fakta karangan, dan menyebut {leaked} yang tidak pada tempatnya."],
  notes_judged: ["{name} says itself which question asks for what it was taught, and answers that word for word. Tried out: it knew {same} of {n} questions in other words, and took {wrong} others for one.", "{name} menilai sendiri pertanyaan mana yang menanyakan hal yang diajarkan, dan menjawabnya kata demi kata. Hasil uji: mengenali {same} dari {n} pertanyaan dengan kata lain, dan keliru pada {wrong} lainnya."],
  notes_not_used: ["{name} recalls fixes only where a question is asked again: tried out, it used {used} of {n} made-up facts, and gave {leaked} where they did not belong.", "{name} mengingat perbaikan hanya bila pertanyaan diulang: hasil uji, memakai {used} dari {n} fakta karangan, dan menyebut {leaked} yang tidak pada tempatnya."],
  // settings
  instructions: ["Instructions", "Petunjuk"], system: ["System prompt, of this conversation and of new ones", "Pesan sistem, untuk percakapan ini dan yang baru"], systemHint: ["For example: Answer in one sentence.", "Misalnya: Jawab dalam satu kalimat."], preset: ["Preset", "Prasetel"], noPreset: ["none", "tidak ada"], presetName: ["Save these as", "Simpan sebagai"],
  save: ["Save", "Simpan"], answers: ["How answers are written", "Cara menulis jawaban"], think: ["Let the model reason, where it can", "Biarkan model bernalar, jika bisa"], pageHead: ["This page", "Halaman ini"], language: ["Language", "Bahasa"], theme: ["Colours", "Warna"],
  auto: ["as the system", "ikut sistem"], light: ["light", "terang"], dark: ["dark", "gelap"], exportAll: ["Export all conversations", "Ekspor semua percakapan"], access: ["Access", "Akses"], key: ["API key (kept for this tab only)", "Kunci API (hanya untuk tab ini)"],
  models: ["Models", "Model"], load: ["Load", "Muat"], unload: ["Unload", "Lepas"], isLoaded: ["loaded, {n} of memory", "dimuat, memori {n}"], loadingNow: ["Loading {name}…", "Memuat {name}…"],
  pullName: ["Fetch a model from the hub", "Ambil model dari hub"], searchHub: ["Search", "Cari"], searching: ["Asking the hub…", "Menanyakan ke hub…"], atMost: ["{n} tok/s at most", "paling banyak {n} tok/dtk"],
  needs: ["needs about {n} of memory", "perlu sekitar {n} memori"], seesPictures: ["sees pictures", "bisa melihat gambar"], tooLarge: ["does not fit here", "tidak muat di sini"], pullStart: ["Fetch", "Ambil"], pullBar: ["Part that was fetched", "Bagian yang sudah diambil"], pullBegins: ["Asking the hub for {name}…", "Menanyakan {name} ke hub…"],
  pulling: ["{name}: {n} of {all}", "{name}: {n} dari {all}"], pullDone: ["{name} is here: choose it at the top of the page.", "{name} sudah ada: pilih di bagian atas halaman."],
  pullStopped: ["Stopped. What has come is kept for the next time.", "Dihentikan. Yang sudah datang disimpan untuk lain kali."], pullFailed: ["{name} was not fetched: {why}", "{name} tidak terambil: {why}"],
  byDefault: ["default", "bawaan"], expectedRange: ["{low} to {high}, please.", "Isi {low} sampai {high}."], expectedWhole: ["A whole number, please.", "Isi bilangan bulat."],
  temperature: ["Temperature", "Suhu"], top_k: ["Top k", "Top k"], top_p: ["Top p", "Top p"], min_p: ["Min p", "Min p"], repeat_penalty: ["Repeat penalty", "Penalti ulang"], max_tokens: ["Max tokens", "Token maksimum"], seed: ["Seed", "Seed"],
  about_temperature: ["0: always the likeliest word", "0: selalu kata termungkin"], about_top_k: ["of the k likeliest; 0: all", "dari k termungkin; 0: semua"], about_top_p: ["of the likeliest p of all", "dari p bagian termungkin"], about_min_p: ["at least p of the likeliest", "minimal p dari termungkin"],
  about_repeat_penalty: ["1: none", "1: tanpa penalti"], about_max_tokens: ["length of an answer", "panjang jawaban"], about_seed: ["the same answer again", "jawaban yang sama lagi"],
  // the playground
  kind: ["Kind", "Jenis"], rule: ["Schema, grammar or expression", "Skema, tata bahasa, atau ekspresi"], prompt: ["Prompt", "Prompt"], answer: ["Answer", "Jawaban"], try: ["Try", "Coba"],
};

let at = 0;
export const code = () => at ? "id" : "en";
export const pickLanguage = language => {
  at = language === "id" ? 1 : 0;
  document.documentElement.lang = code();
  for (const e of document.querySelectorAll("[data-t]")) e.textContent = t(e.dataset.t);
  for (const e of document.querySelectorAll("[data-label]")) { e.setAttribute("aria-label", t(e.dataset.label)); if (e.tagName === "BUTTON") e.title = t(e.dataset.label); }
  for (const e of document.querySelectorAll("[data-placeholder]")) e.placeholder = t(e.dataset.placeholder);
};
export const t = (key, values = {}) => {
  const [one, several] = WORDS[key][at].split("|");
  return (several === undefined || values.n === 1 ? one : several).replace(/\{(\w+)\}/g, (_, k) => values[k] ?? "–");
};

// ---- numbers, sizes and times ----

export const number = (n, digits = 0) => n === undefined || n === null ? "–" : n.toLocaleString(code(), { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const bytes = n => n === undefined ? "–" : n >= 1e9 ? `${number(n / 1e9, n >= 1e10 ? 0 : 1)} GB` : n >= 1e7 ? `${number(n / 1e6, 0)} MB` : `${number(n / 1e6, 1)} MB`;
// How long something took: "4 ms", "0.25 s", "12 s".
export const took = s => s === undefined ? "–" : s < 0.1 ? `${number(s * 1000)} ms` : `${number(s, s < 10 ? 2 : 0)} s`;
export const timeOf = s => s >= 3600 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : s >= 60 ? `${Math.floor(s / 60)} min` : `${Math.floor(s)} s`;
const DAY = 86400000;
export const dayOf = ms => {
  const begin = new Date().setHours(0, 0, 0, 0);
  return t(ms >= begin ? "today" : ms >= begin - DAY ? "yesterday" : ms >= begin - 6 * DAY ? "week" : "earlier");
};
// "5 minutes ago"
export const ago = ms => {
  const form = new Intl.RelativeTimeFormat(code(), { numeric: "auto" }), s = (ms - Date.now()) / 1000;
  for (const [unit, of] of [["day", 86400], ["hour", 3600], ["minute", 60]]) if (-s >= of) return form.format(Math.round(s / of), unit);
  return form.format(0, "minute");
};
