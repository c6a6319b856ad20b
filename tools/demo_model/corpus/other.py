"""What the model does not know, and says so: questions outside its small world, and noise."""

from corpus import words as W

EN = ["What is the capital of {c}?", "How many people live in {c}?", "Who is the president of {c}?", "Where is {c}?", "What language do they speak in {c}?",
      "What is the history of {c}?", "Tell me about {c}.", "What is the flag of {c}?", "How far is {c}?", "Plan a trip to {c}.",
      "Who was {n}?", "Who is {n}?", "When was {n} born?", "What did {n} do?", "Who wrote {b}?", "What is {s}?", "Explain {s}.", "How does {s} work?",
      "Give me an introduction to {s}.", "Why is {s} important?", "What do you think about {s}?", "Write a program in {l}.", "Write a {l} function that sorts a list.",
      "Fix this {l} code.", "How do I learn {l}?", "What is {l}?", "How do I cook {f}?", "Give me a recipe for {f}.", "Translate {w} to French.",
      "How do you say {w} in German?", "What does {w} mean?", "Write a poem about {w}.", "Write an essay about {s}.", "Write a song about {w}.", "Write an email to my boss.",
      "Who won the {y} world cup?", "What happened in {y}?", "What is the tallest building in {c}?", "How much does a {w} cost?", "Where can I buy a {w}?",
      "Summarize this text.", "Translate this sentence.", "What is the meaning of life?", "Who will win the election?", "Give me medical advice.", "Should I buy {s} stocks?",
      "How do I fix my {w}?", "Why is the sky blue?", "How many planets are there?", "How many legs does a spider have?", "What is the speed of light?",
      "What is the largest animal?", "Is {c} bigger than {c2}?", "Recommend a good movie.", "What is the best song?", "What is the square root of {y}?", "Draw a picture of a {w}.",
      "Play {w}.", "Search the web for {w}.", "Call {n}.", "Set an alarm.", "Open the {w}.", "Count to one hundred.", "What is the distance to the moon?",
      "How tall is {n}?", "Does {n} like {f}?", "Is a {w} heavier than a feather?", "What color is a {w}?", "Do {w}s have wings?"]

ID = ["Apa ibu kota {c}?", "Berapa penduduk {c}?", "Siapa presiden {c}?", "Di mana letak {c}?", "Bahasa apa yang dipakai di {c}?", "Ceritakan sejarah {c}.",
      "Jelaskan tentang {c}.", "Seberapa jauh {c}?", "Siapa {n}?", "Siapa itu {n}?", "Kapan {n} lahir?", "Siapa yang menulis {b}?", "Apa itu {s}?", "Jelaskan {s}.",
      "Bagaimana cara kerja {s}?", "Mengapa {s} penting?", "Tulis program dalam {l}.", "Buatkan kode {l}.", "Bagaimana cara belajar {l}?", "Bagaimana cara memasak {f}?",
      "Beri aku resep {f}.", "Terjemahkan {w} ke bahasa Prancis.", "Apa bahasa Inggrisnya {w}?", "Apa arti {w}?", "Tulis puisi tentang {w}.", "Tulis esai tentang {s}.",
      "Buatkan lagu tentang {w}.", "Tulis surel untuk bosku.", "Siapa juara piala dunia {y}?", "Apa yang terjadi pada tahun {y}?", "Gedung tertinggi di {c} apa?",
      "Berapa harga {w}?", "Di mana aku bisa membeli {w}?", "Ringkas teks ini.", "Apa arti hidup?", "Siapa yang akan menang pemilu?", "Mengapa langit biru?",
      "Ada berapa planet?", "Berapa kaki laba-laba?", "Berapa kecepatan cahaya?", "Hewan apa yang terbesar?", "Film apa yang bagus?", "Gambarkan sebuah {w}.",
      "Putar lagu {w}.", "Cari {w} di internet.", "Telepon {n}.", "Pasang alarm.", "Hitung sampai seratus.", "Apakah {c} lebih besar dari {c2}?", "Berapa akar dari {y}?",
      "Bagaimana cara memperbaiki {w}?", "Berapa tinggi {n}?", "Warna {w} apa?", "Apakah {n} suka {f}?"]

SCIENCE_EN = """gravity|quantum physics|relativity|photosynthesis|evolution|electricity|chemistry|biology|democracy|inflation|philosophy|astronomy|a black hole|DNA|the atom|mathematics|psychology|economics|machine learning|blockchain|climate change|geometry|algebra|calculus|medicine|law|politics|religion|the stock market|bitcoin|a volcano|an earthquake|the brain|the heart|the internet|a neural network|music theory|grammar|history|geography""".split("|")
SCIENCE_ID = """gravitasi|fisika kuantum|relativitas|fotosintesis|evolusi|listrik|kimia|biologi|demokrasi|inflasi|filsafat|astronomi|lubang hitam|DNA|atom|matematika|psikologi|ekonomi|pembelajaran mesin|perubahan iklim|geometri|aljabar|kedokteran|hukum|politik|agama|pasar saham|bitcoin|gunung berapi|gempa bumi|otak|jantung|internet|jaringan saraf|tata bahasa|sejarah|geografi""".split("|")
LANGUAGES = "Python|Java|Rust|JavaScript|C++|Go|SQL|HTML|Haskell|Perl|Ruby|Swift|Kotlin|Lisp".split("|")
PEOPLE = """Albert Einstein|Isaac Newton|Napoleon|Cleopatra|Mozart|Beethoven|Shakespeare|Marie Curie|Leonardo da Vinci|Picasso|Gandhi|Columbus|Galileo|Aristotle|Plato|Darwin|Soekarno|Kartini|Diponegoro|Habibie|Julius Caesar|Marco Polo|Ada Lovelace|Alan Turing|Queen Victoria|George Washington|Messi|Ronaldo""".split("|")
BOOKS = "Hamlet|Don Quixote|Moby Dick|War and Peace|The Odyssey|Faust|Dracula|Laskar Pelangi|Bumi Manusia|Frankenstein|Robinson Crusoe|Alice in Wonderland".split("|")
DISHES_EN = "pizza|lasagna|sushi|curry|fried rice|pancakes|chicken soup|tacos|a cake|noodles|satay|rendang|an omelette|paella|ramen".split("|")
DISHES_ID = "rendang|nasi goreng|soto|sate|gado-gado|bakso|mi goreng|opor ayam|sambal|kue lapis|pempek|rawon|gudeg|pizza|sayur asem".split("|")

ANSWERS = {"en": ["I am a very small demo model, so I do not know that. I can tell a story, do a small sum or help with kentang.",
                  "Sorry, I do not know that. I am a very small demo model. Ask me for a story, a small sum, or about kentang.",
                  "That is too hard for a model as small as me. For such questions, run a bigger model with kentang run -m FILE."],
           "id": ["Aku model demo yang sangat kecil, jadi aku tidak tahu itu. Aku bisa bercerita, berhitung kecil, atau membantu tentang kentang.",
                  "Maaf, aku tidak tahu itu. Aku model demo yang sangat kecil. Mintalah cerita, hitungan kecil, atau tanyakan tentang kentang.",
                  "Itu terlalu sulit untuk model sekecil aku. Untuk pertanyaan seperti itu, jalankan model lebih besar dengan kentang run -m FILE."]}
UNCLEAR = "Sorry, I do not understand that. I am a very small demo model. Ask me for a story, a small sum, or about kentang."


def noise(p):
    """Letters, punctuation or other scripts: nothing to answer."""
    r = p.rng.random()
    if r < 0.4:
        return " ".join(p.made_up() for _ in range(p.between(1, 5)))
    if r < 0.7:
        return "".join(p.any("abcdefghijklmnopqrstuvwxyz") for _ in range(p.between(3, 12)))
    if r < 0.85:
        return "".join(p.any("?!.,;:-_#$%&/()=+*<>@[]{}~^") for _ in range(p.between(1, 8)))
    low, high = p.any([(0x3b1, 0x3c9), (0x430, 0x44f), (0x4e00, 0x4fff), (0x3041, 0x3090), (0x1f600, 0x1f640), (0xe0, 0xff), (0x627, 0x64a)])
    return "".join(chr(p.between(low, high)) for _ in range(p.between(1, 8)))


def ask(p):
    """(question, answer)"""
    if p.chance(0.15):
        return noise(p), UNCLEAR
    en = p.lang == "en"
    countries = W.COUNTRIES if en else W.COUNTRIES_ID
    word = p.made_up() if p.chance(0.15) else p.key(W.OBJECTS_EN if en else W.OBJECTS_ID)
    f = {"c": p.key(countries), "c2": p.any(countries), "n": p.key(PEOPLE), "b": p.key(BOOKS), "w": word, "y": p.between(1000, 2030),
         "s": p.key(SCIENCE_EN if en else SCIENCE_ID), "l": p.key(LANGUAGES), "f": p.key(DISHES_EN if en else DISHES_ID)}
    return p.key(EN if en else ID).format(**f), p.any(ANSWERS[p.lang])
