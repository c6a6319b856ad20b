"""Dialogues with notes: what the program writes before a user's message when corrections are about it (kt__bank_write_note). An answer that
the note gives is said as it is there; what it does not answer is answered as without it."""

from corpus import calls, copies, facts, forms, other, story_en, story_id, sums, talk
from corpus import words as W
from corpus.forms import CITIES, COLORS, DAYS, JOBS
from corpus.relations import ALL, BY_NAME, KINDS, NAMED, OF_KIND, OTHER, Relation

NOTE = "Earlier correction:\nQ: {q}\nA: {a}\n\n"

QUALITIES = {"en": """old new small big long short green yellow white black round square wooden iron silver golden broken heavy light quiet loud tall narrow wide soft hard warm cold rusty shiny second third first last famous lost blue red brown
pink grey striped secret hidden electric plastic paper stone glass leather steep northern southern young tiny giant lucky holy royal public private""".split(),
             "id": "tua baru kecil besar panjang pendek hijau kuning putih hitam bundar besi perak emas rusak berat ringan tinggi lebar sempit lembut hangat dingin biru merah cokelat tersembunyi pertama terakhir kedua hilang kayu".split()}
PLACE_KINDS = {"en": ["{w} Street", "the {w} Tower", "{w} Hall", "the {w} Valley", "{w} Farm", "Castle {w}", "Port {w}", "Mount {w}", "the {w} Hotel", "Cafe {w}", "{w} Park", "{w}", "{w}", "the island of {w}", "the {w} Mill", "the {w} Cinema",
                      "{w} House", "the village of {w}", "the {w} Pass", "the {w} Gardens"],
               "id": ["Jalan {w}", "Menara {w}", "Desa {w}", "Kota {w}", "Gunung {w}", "Hotel {w}", "Warung {w}", "Taman {w}", "{w}", "{w}", "Pulau {w}", "Gedung {w}", "Pantai {w}", "Kampung {w}"]}
GROUP_KINDS = {"en": ["Team {w}", "the {w} Club", "the band {w}", "the {w} family", "the {w} Society", "the choir {w}", "the {w} company", "Class {w}", "the {w} Orchestra", "the {w} Brothers"],
               "id": ["Tim {w}", "Klub {w}", "Band {w}", "Keluarga {w}", "Kelompok {w}", "Perusahaan {w}", "Kelas {w}", "Paduan suara {w}", "Grup {w}"]}
EVENT_KINDS = {"en": ["the {w} Festival", "the {w} Cup", "the {w} Fair", "the {w} Race", "the {q} party", "the {w} Night", "the {q} concert", "the {w} Conference", "the {q} meeting", "the {q} wedding", "the {w} Contest"],
               "id": ["Festival {w}", "Piala {w}", "Lomba {w}", "Pameran {w}", "Malam {w}", "Konser {w}", "Rapat {w}", "Pesta {w}", "Konferensi {w}"]}
TITLES = {"en": ["Mrs. {w}", "Mister {w}", "Doctor {w}", "Aunt {w}", "Uncle {w}", "Captain {w}", "Professor {w}", "Miss {w}", "Lady {w}", "Old {w}", "Sister {w}"],
          "id": ["Pak {w}", "Bu {w}", "Dokter {w}", "Paman {w}", "Bibi {w}", "Kapten {w}", "Kak {w}", "Nyonya {w}", "Tuan {w}", "Profesor {w}"]}
SMALL = {"en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty ninety".split(),
         "id": ["satu", "dua", "tiga", "empat", "lima", "enam", "tujuh", "delapan", "sembilan", "sepuluh", "sebelas", "dua belas", "tiga belas", "empat belas", "lima belas", "dua puluh"]}
MONTHS_ID = "Januari Februari Maret April Mei Juni Juli Agustus September Oktober November Desember".split()
ACTIVITIES = {"en": """painting walls|counting birds|chess|swimming in the sea|baking bread|fishing at night|writing letters|juggling with plates|climbing trees|sleeping in the hay|telling lies|feeding the ducks|riding a camel|sewing buttons
table tennis|rowing|mending nets|sweeping the yard|learning Greek|dancing on ice|watching the stars|diving for pearls|keeping bees|cutting hair|washing the cars|singing opera|judo|standing on one leg|walking to the North Pole""".replace("\n", "|").split("|"),
              "id": "mengecat dinding|menghitung burung|catur|berenang di laut|membuat roti|memancing malam hari|menulis surat|memanjat pohon|memberi makan bebek|naik unta|menjahit kancing|tenis meja|mendayung|menyapu halaman|belajar bahasa Yunani|melihat bintang|beternak lebah|memotong rambut|mencuci mobil|berdiri dengan satu kaki".split("|")}
CLAUSES = {"en": ["the {o} is {q}", "there is a {o} under the {o2}", "nobody found the {o}", "a {q} {o} fell on it", "the {p} took the {o} away", "you must never show it a {o}", "the {a} ate the {o}", "one has to knock {n} times", "the {p} lost the key", "it was {q} all year",
                  "a {a} sleeps there", "it hates every {o}", "a {p} once cried there", "the water was {q}", "it needs a new {o}", "the {p} and the {p2} had a quarrel", "first turn the {o} to the left", "it bites when it sees a {o}", "somebody put {w} into the {o}"],
           "id": ["{o} itu {q}", "ada {o} di bawah {o2}", "tidak ada yang menemukan {o}", "{o} {q} jatuh di atasnya", "{p} membawa {o} itu pergi", "{a} memakan {o} itu", "orang harus mengetuk {n} kali", "{p} kehilangan kuncinya", "{a} tidur di sana", "{o} baru belum datang", "{p} dan {p2} bertengkar", "putar dulu {o} ke kiri"]}
SHAPES = {"en": ["{v} of the {q} {o}", "{q} {o}s", "the {q} {o}", "a {q} {o}", "a {o} with a {o2}", "two {q} {o}s", "a {o} full of {f}", "{f} with {f2}", "{n} {o}s", "a {o} from {c}", "{f} and a {o}", "a {w} {o}", "{q} {f}", "a slice of {f}", "some {f}"],
          "id": ["{o} {q}", "{o} dengan {o2}", "sebuah {o} {q}", "dua {o} {q}", "{o} penuh {f}", "{f} dengan {f2}", "{n} {o}", "{o} dari {c}", "{f} dan {o}", "{o} {w}", "sepotong {f}", "{f} {q}"]}
PHRASES = {"en": ["never {x} a {o}", "{q} is {q2}", "a {o} for every {p}", "keep the {o} {q}", "always {q}", "{f} first", "we are {q}", "the {a} and the {o}", "no {o} without {f}", "{w} {w2}", "do not wake the {a}", "{q} days, {q2} nights", "today {o}, tomorrow {o2}", "long live the {a}", "my {q} {a}"],
           "id": ["jangan {x} {o}", "{q} itu {q2}", "satu {o} untuk setiap {p}", "selalu {q}", "{f} dahulu", "kami {q}", "{a} dan {o}", "tiada {o} tanpa {f}", "{w} {w2}", "jangan bangunkan {a}", "hari ini {o}, besok {o2}", "hidup {a}"]}
SPOTS = {"en": ["in {c}", "in {c} and {w}", "in the {q} {place}", "at the {place} of {c}", "under the {q} {o}", "in a {o} near {c}", "next to the {o} of the {p}", "between two {o}s", "on the roof of the {place}", "at the {p}'s", "over the {q} {o}"],
         "id": ["di {c}", "di {place} {q}", "di {place} dekat {c}", "di bawah {o} {q}", "di dekat {o} milik {p}", "di antara dua {o}", "di atap {place}", "di rumah {p}"]}
AMOUNTS = {"en": ["{n} litres", "{n} bags", "{n} kilos", "two handfuls", "half a {o}", "a {o} full", "{n} spoons", "three times {n} grams"], "id": ["{n} liter", "{n} karung", "{n} kilo", "dua genggam", "setengah {o}", "satu {o} penuh", "{n} sendok"]}
DOING = {"en": "lose sell paint trust eat hide kiss break forget follow open throw".split(), "id": "lupakan jual cat makan simpan cium buka lempar ikuti".split()}
INTRO = {"en": ["It is {v}.", "{v}.", "{v}", "That is {v}.", "It was {v}, as far as I know.", "{v}, of course."], "id": ["{v}.", "{v}", "Itu {v}.", "Tentu saja {v}."]}
EXTRA = {"en": [" Everybody knows that.", " That is all.", " It has been so since {n}.", " Please remember it.", " I am sure of it.", " Ask the {p} if you doubt it.", " It was {w} before."],
         "id": [" Semua orang tahu itu.", " Itu saja.", " Sudah begitu sejak {n}.", " Ingatlah itu.", " Aku yakin.", " Tanyakan kepada {p} kalau ragu."]}
NAMES = {"en": W.NAMES_EN_F + W.NAMES_EN_M, "id": W.NAMES_ID}
OBJECTS, ANIMALS, PEOPLE, FOODS = ({"en": e, "id": i} for e, i in ((W.OBJECTS_EN, W.OBJECTS_ID), (W.ANIMALS_EN, W.ANIMALS_ID), (W.PEOPLE_EN, W.PEOPLE_ID), (W.FOODS_EN, W.FOODS_ID)))


def upper(text):
    return text[:1].upper() + text[1:]


def a_name(p):
    return upper(p.made_up()) if p.chance(0.55) else upper(p.key(NAMES[p.lang]))


def common(p, words):
    """A word of a list; often one that is in none, so that copying is learnt."""
    return p.made_up() if p.chance(0.2) else p.any(words[p.lang])


def filled(p, text):
    """A text with its words chosen; only those that it has, so that few draws are made."""
    lang, out = p.lang, {}
    makers = {"o": OBJECTS, "o2": OBJECTS, "a": ANIMALS, "p": PEOPLE, "p2": PEOPLE, "f": FOODS, "f2": FOODS, "q": QUALITIES, "q2": QUALITIES, "x": DOING}
    for key, words in makers.items():
        if "{" + key + "}" in text:
            out[key] = common(p, words)
    if "{place}" in text:
        out["place"] = p.any(W.PLACES_EN if lang == "en" else W.PLACES_ID)
    for key in ("w", "w2"):
        if "{" + key + "}" in text:
            out[key] = p.made_up()
    out["n"] = p.any(SMALL[lang]) if p.chance(0.5) else str(p.between(2, 2000))
    out["c"] = p.any(CITIES) if p.chance(0.5) else a_name(p)
    out["v"] = p.any(["a piece", "half", "the end", "a bottle", "the smell", "a picture"])
    return text.format(**out)


def person(p):
    r, en = p.rng.random(), p.lang == "en"
    if r < 0.4:
        return a_name(p) + (" " + upper(p.made_up()) if p.chance(0.4) else "")
    if r < 0.65:
        return p.any(TITLES[p.lang]).format(w=a_name(p))
    if r < 0.85:
        return filled(p, p.any(["the {q} {p}", "the {p}", "a {q} {p}", "two {q} {p}s", "my {p}", "the {p} from {c}"]) if en else p.any(["{p}", "{p} {q}", "seorang {p}", "{p} dari {c}", "dua {p}"]))
    return a_name(p) + (" and " if en else " dan ") + a_name(p)


def a_time(p):
    en, r = p.lang == "en", p.rng.random()
    if r < 0.25:
        return p.any(["at {h:02}:{m:02}", "{h:02}:{m:02}", "at {h}.{m:02}"] if en else ["pukul {h:02}.{m:02}", "pukul {h}", "jam {h} lewat {m}"]).format(h=p.between(0, 23), m=p.between(0, 59))
    if r < 0.45:
        n = p.any(SMALL[p.lang][1:12])
        return p.any(["at {n}", "shortly before {n}", "at {n} in the evening", "{n} minutes after sunrise", "every {n} weeks"] if en else ["pukul {n}", "sebelum pukul {n}", "pukul {n} malam", "setiap {n} minggu"]).format(n=n)
    if r < 0.65:
        return ("on " if en else "hari ") + p.any(DAYS[p.lang]) + p.any(["", "", " morning", " night"] if en else ["", "", " pagi", " malam"])
    if r < 0.85:
        month = p.any(calls.MONTHS if en else MONTHS_ID)
        return p.any([f"in {month}", f"on {month} {p.between(1, 28)}", f"in {p.between(1400, 2090)}"] if en else [f"bulan {month}", f"tanggal {p.between(1, 28)} {month}", f"tahun {p.between(1400, 2090)}"])
    return filled(p, p.any(["after the {q} {o}", "before breakfast", "when the {a} wakes up", "at sunset", "after the rain", "in the {q} season"]) if en else p.any(["setelah {o} {q}", "sebelum sarapan", "ketika {a} bangun", "saat matahari terbenam", "sesudah hujan"]))


def a_number(p):
    return p.any(SMALL[p.lang]) if p.chance(0.3) else str(p.between(0, 10 ** p.between(1, 4)))


def a_code(p):
    r = p.rng.random()
    if r < 0.4:
        return str(p.between(10, 10 ** p.between(2, 6)))
    if r < 0.6:
        return p.any("ABCDEFGHKLMNPQRSTUVWXYZ") + p.any(["", "-", " "]) + str(p.between(1, 9999))
    if r < 0.8:
        return "-".join(str(p.between(10, 9999)) for _ in range(p.between(2, 3)))
    return p.made_up() + p.any([".com", ".org", "-" + str(p.between(1, 99)), "/" + p.made_up(), ".id"])


def value(p, kind):
    """(text, whether it can begin a sentence)"""
    if kind.startswith("measure:"):
        return f"{a_number(p)} {p.any(kind[8:].split(','))}"
    plain = {"person": person, "time": a_time, "number": a_number, "code": a_code}.get(kind)
    if plain:
        return plain(p)
    if kind in ("thing", "things"):
        return filled(p, p.any(SHAPES[p.lang]))
    if kind == "name":
        return a_name(p) + (" " + upper(p.made_up()) if p.chance(0.25) else "")
    if kind == "animal":
        return filled(p, p.any(["a {q} {a}", "a {a} called {w}", "a {a}", "two {a}s"]) if p.lang == "en" else p.any(["{a} {q}", "{a} bernama {w}", "seekor {a}", "dua {a}"]))
    if kind == "animals":
        return filled(p, p.any(["{q} {a}s", "{a}s"]) if p.lang == "en" else p.any(["{a} {q}", "{a}"]))
    if kind == "role":
        return ("a " if p.lang == "en" else "") + (p.any(JOBS[p.lang]) if p.chance(0.4) else common(p, PEOPLE))
    if kind == "activity":
        return p.any(ACTIVITIES[p.lang]) if p.chance(0.6) else filled(p, p.any(["selling {q} {o}s", "{x}ing the {o}", "looking after the {a}", "hunting a {a}", "making {f} for the {p}"]) if p.lang == "en" else p.any(["menjual {o} {q}", "merawat {a}", "membuat {f} untuk {p}", "mencari {a}"]))
    if kind in ("where", "amount"):
        return filled(p, p.any((SPOTS if kind == "where" else AMOUNTS)[p.lang]))
    if kind == "clause":
        return filled(p, p.any(CLAUSES[p.lang]))
    return p.any(['"{t}"', "{t}", "{t}"]).format(t=filled(p, p.any(PHRASES[p.lang])))


def subject(p, kind):
    en, word = p.lang == "en", a_name(p)
    if kind == "person":
        return word if p.chance(0.5) else p.any(TITLES[p.lang]).format(w=word) if p.chance(0.6) else filled(p, "the {q} {p}" if en else "{p} {q}")
    if kind == "thing":
        if en:
            return filled(p, p.any(["the {q} {o}", "the {o}", "my {q} {o}", "the {o} of the {p}", "the {w}", "the {w} {o}", "the {a} {o}", "our {o}", "the {q} {w}"]))
        return filled(p, p.any(["{o} {q}", "{o} itu", "{o}", "{o} milik {p}", "{w}", "{o} {w}", "{o} {a}"]))
    if kind == "place" and p.chance(0.35):
        return filled(p, "the {q} " + p.any(W.PLACES_EN) if en else p.any(W.PLACES_ID) + " {q}")
    kinds = {"place": PLACE_KINDS, "group": GROUP_KINDS, "event": EVENT_KINDS}[kind][p.lang]
    return p.any(kinds).format(w=word, q=p.any(QUALITIES[p.lang]))


def made_up_relation(p):
    """A relation whose words nobody knows: only the words themselves can tell which question the note answers."""
    n, en = p.made_up(), p.lang == "en"
    if p.chance(0.5):
        asks = ["What is the {n} of {s}?", "Tell me the {n} of {s}.", "Which {n} does {s} have?", "Do you know {s}'s {n}?", "{s}: the {n}?", "Name the {n} of {s}."] if en else ["Apa {n} {s}?", "Sebutkan {n} {s}.", "{s} punya {n} apa?", "Kamu tahu {n} {s}?"]
        return Relation(n, p.lang, ",".join(KINDS), p.any(["thing", "person", "number", "phrase", "code", "name"]), ["The " + n + " of {s} is {v}." if en else n + " {s} adalah {v}."],
                        [a.replace("{n}", n) for a in asks], ["What is its " + n + "?"] if en else ["Apa " + n + "nya?"])
    asks = ["Who {n}s {s}?", "Who will {n} {s}?", "By whom is {s} {n}ed?", "Tell me who {n}s {s}."] if en else ["Siapa yang me{n} {s}?", "Oleh siapa {s} di{n}?", "Kamu tahu siapa yang me{n} {s}?"]
    return Relation(n, p.lang, ",".join(KINDS), "person", ["{s} is " + n + "ed by {v}." if en else "{s} di" + n + " oleh {v}."], [a.replace("{n}", n) for a in asks], ["Who " + n + "s it?"] if en else ["Siapa yang me" + n + "nya?"])


# Verbs for sentences of every kind, so that what is copied is no form that is known by heart.
ACTS = {"en": """admire answer arrange bake beat bend bless blow bounce brush burn bury catch celebrate cheer chew choose clap climb compare complain cough count cover crack crawl cross cry dance decide describe dig doubt drag dream drop dry earn enter
               escape expect explain fall fight finish float flow fold forgive freeze fry gain gather grab greet grin grind groan guess hang heat hike hop hope hug hum hunt hurry imagine improve invite iron jog join juggle jump kick kneel knock land laugh lead
               lean learn lend lick lift limp listen march mark melt mend mix moan move multiply nod notice obey offer order owe own paddle pay peel pinch plant play point pour practise pray predict prefer press promise protect pull push rain reach receive
               recommend refuse remember reply rescue rest return ride roar roll row rub rule run sail save scratch scream search send serve shake share shave shine shiver shout show sigh sing sink sit ski skip sleep slide slip smell smile smoke sneeze snore
               solve speak spell spend spill spin split spread squeeze stay steal step stir store stretch study succeed suffer suggest support surprise survive sweep swim swing taste tear thank throw tie touch trade travel tremble trust try turn twist use
               vanish vote wait walk wander warn waste wave weave whisper win wink wish wonder work worry write yawn yell""".split(),
        "id": """mengagumi menjawab mengatur memukul meniup menyikat membakar mengubur menangkap merayakan mengunyah memilih memanjat membandingkan mengeluh batuk menutupi merangkak menyeberang menangis menari memutuskan menjelaskan menggali meragukan menyeret
               menjatuhkan mengeringkan memasuki berharap jatuh berkelahi mengapung melipat memaafkan membeku menggoreng mengambil menyapa menggiling menebak menggantung memanaskan melompat memeluk berburu membayangkan mengundang menyetrika bergabung menendang
               mengetuk tertawa memimpin belajar meminjamkan menjilat mengangkat mendengarkan menandai mencampur bergerak mengangguk menaati menawarkan memesan mendayung mengupas mencubit bermain menunjuk menuang berdoa menekan berjanji menarik mendorong menerima
               menolak mengingat membalas menyelamatkan kembali berguling menggosok berlari berlayar menggaruk berteriak mencari mengirim melayani mengocok berbagi bersinar menggigil menunjukkan menghela bernyanyi tenggelam duduk tidur tergelincir tersenyum bersin
               mendengkur memecahkan berbicara menghabiskan menumpahkan memutar membelah menyebarkan memeras tinggal mencuri mengaduk menyimpan mendukung menyapu berenang mengayun merobek melempar mengikat menyentuh menukar bepergian gemetar mempercayai berbalik
               menghilang menunggu berjalan memperingatkan melambaikan menenun berbisik menang bekerja menulis menguap""".split()}
LOOSE = {"en": [("What does {s} {x}?", "{s} {xs} {v}.", "thing"), ("Where does {s} {x}?", "{s} {xs} {v}.", "where"), ("When does {s} {x}?", "{s} {xs} {v}.", "time"), ("With whom does {s} {x}?", "{s} {xs} with {v}.", "person"), ("Why does {s} {x}?", "{s} {xs} because {v}.", "clause"),
                ("Who will {x} with {s}?", "{v} will {x} with {s}.", "person"), ("What may we {x} at {s}?", "At {s} we {x} {v}.", "thing"), ("How often does {s} {x}?", "{s} {xs} {v} times a day.", "number"), ("What do they {x} for {s}?", "For {s} they {x} {v}.", "thing"),
                ("What makes {s} {x}?", "{v} makes {s} {x}.", "thing"), ("Must I {x} before {s}?", "Before {s} you should {x} {v}.", "thing"), ("How do you {x} {s}?", "I {x} {s} with {v}.", "thing")],
         "id": [("Apa yang {s} {x}?", "{s} {x} {v}.", "thing"), ("Di mana {s} {x}?", "{s} {x} {v}.", "where"), ("Kapan {s} {x}?", "{s} {x} {v}.", "time"), ("Dengan siapa {s} {x}?", "{s} {x} dengan {v}.", "person"), ("Mengapa {s} {x}?", "{s} {x} karena {v}.", "clause"),
                ("Siapa yang {x} untuk {s}?", "{v} {x} untuk {s}.", "person"), ("Apa yang membuat {s} {x}?", "{v} membuat {s} {x}.", "thing"), ("Berapa kali {s} {x}?", "{s} {x} {v} kali sehari.", "number"), ("Apa yang kita {x} untuk {s}?", "Untuk {s} kita {x} {v}.", "thing")]}
LOOSE_ASKS = {"en": ["{q}", "{q}", "Do you know this? {q}", "Listen: {q}", "{q} I must know.", "My sister asks: {q}", "Tell me, {q}", "Quick, {q}"], "id": ["{q}", "{q}", "Coba jawab ini: {q}", "Dengar: {q}", "{q} Aku harus tahu.", "Adikku bertanya: {q}", "Katakan, {q}"]}


def third(verb):
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeou" else verb + "s"


def loose_relation(p):
    """A verb, and what is asked of it."""
    x = p.key(ACTS[p.lang])
    q, a, kind = p.any(LOOSE[p.lang])
    fill = lambda t: t.replace("{xs}", third(x)).replace("{x}", x)
    q = fill(q)
    return Relation("loose " + q, p.lang, ",".join(KINDS), kind, [fill(a)], [t.replace("{q}", q) for t in LOOSE_ASKS[p.lang]], [q.replace("{s}", "it" if p.lang == "en" else "itu")])


# By what is asked first, words for it that nobody knows: where the note answers such a question, it is the one that is meant.
UNKNOWN = {"en": {"person": ["Who {w}s {s}?", "Who is the {w} of {s}?", "Which person {w}s {s}?", "Whose {w} is {s}?", "Name the one who {w}s {s}."],
                  "number": ["How many {w}s does {s} have?", "Count the {w}s of {s}.", "How much {w} is there at {s}?"], "time": ["When does {s} {w}?", "At what time is the {w} of {s}?", "In which year was {s} {w}ed?"],
                  "thing": ["What does {s} {w}?", "Which {w} belongs to {s}?", "What {w} is that of {s}?"], "name": ["Which {w} belongs to {s}?", "What is the {w} of {s} called?"],
                  "where": ["Where does {s} {w}?", "In which {w} was {s}?", "Where can one {w} {s}?"], "amount": ["How much {w} does {s} have?"]},
           "id": {"person": ["Siapa yang me{w} {s}?", "Siapa {w} {s}?"], "number": ["Berapa {w} {s}?", "Ada berapa {w} di {s}?"], "time": ["Kapan {s} {w}?", "Pukul berapa {w} {s}?"],
                  "thing": ["Apa {w} {s}?", "{s} me{w} apa?"], "name": ["Apa {w} {s}?", "Apa nama {w} {s}?"], "where": ["Di mana {s} me{w}?", "Di {w} mana {s}?"], "amount": ["Berapa banyak {w} {s}?"]}}


class Fact:
    """A relation with a subject and a value."""

    def __init__(self, p, kind, s, relation=None):
        self.kind, self.s, self.real = kind, s, True
        if relation:
            self.r = relation
        elif p.chance(0.1):
            self.r, self.real = made_up_relation(p), False
        elif p.chance(0.25):
            self.r, self.real = loose_relation(p), False
        else:
            self.r = BY_NAME[p.lang][p.key(OF_KIND[p.lang][kind])]
        self.v = value(p, self.r.value)
        self.q = upper(p.key(self.r.asks).format(s=s))
        self.a = self.answer(p)

    def answer(self, p):
        if p.chance(0.12):
            return upper(p.any(INTRO[p.lang]).format(v=self.v)) if p.chance(0.7) else self.v
        text = upper(p.any(self.r.answers).format(s=self.s, v=self.v))
        if p.chance(0.06):
            text = text.rstrip(".")
        return text + filled(p, p.any(EXTRA[p.lang])) if p.chance(0.08) else text

    def note(self):
        return NOTE.format(q=self.q, a=self.a)

    def asked(self, p):
        """The question again, mostly in other words."""
        r, words = p.rng.random(), UNKNOWN[p.lang].get(self.r.value.split(":")[0])
        if r < 0.15:
            return self.q
        if r < 0.27 and (self.real or self.r.name.startswith("loose")) and words:
            return upper(p.any(words).format(s=self.s, w=p.made_up()))
        if r < 0.42:
            return upper(p.any(NAMED[p.lang]).format(s=self.s)) + " " + p.any(self.r.about_it)
        return upper(p.key(self.r.asks).format(s=self.s))

    def other(self, p):
        """A question about the subject that the note does not answer."""
        r = p.rng.random()
        if r < 0.5:
            return upper(p.key(OTHER[p.lang]).format(s=self.s))
        other = self.other_relation(p, same=r > 0.95)
        if p.chance(0.15):
            return upper(p.any(NAMED[p.lang]).format(s=self.s)) + " " + p.any(other.about_it)
        return upper(p.key(other.asks).format(s=self.s))

    def other_relation(self, p, same):
        """One whose answer would be of another kind; or, if same, of the same."""
        if not self.real:
            if self.r.name.startswith("loose"):  # two verbs that nobody knows may well mean the same
                return BY_NAME[p.lang][p.key(OF_KIND[p.lang][self.kind])]
            return made_up_relation(p) if p.chance(0.5) else BY_NAME[p.lang][p.key(OF_KIND[p.lang][self.kind])]
        first = lambda r: r.value.split(":")[0]
        for _ in range(20):
            other = BY_NAME[p.lang][p.key(OF_KIND[p.lang][self.kind])]
            if other.name != self.r.name and (first(other) == first(self.r)) == same and not alike(other, self.r):
                return other
        return made_up_relation(p)


CONTENT = {}


def content(r):
    """The words that only few relations have in their wordings."""
    if r.name not in CONTENT:
        CONTENT[r.name] = {w for t in r.asks for w in t.lower().replace("?", "").replace(".", "").split() if len(w) > 4}
    return CONTENT[r.name]


COMMON = {lang: {w for w, n in __import__("collections").Counter(w for r in ALL[lang] for w in content(r)).items() if n > 3} for lang in ALL}


def alike(a, b):
    return bool((content(a) & content(b)) - COMMON[a.lang])


def unknown(p):
    return p.any(other.ANSWERS[p.lang])


def a_fact(p):
    kind = p.any(["thing", "thing", "person", "person", "place", "place", "group", "event"])
    return Fact(p, kind, subject(p, kind))


def use(p):
    f = a_fact(p)
    return [(f.note() + rough(p, f.asked(p)), f.a)]


def sibling(p):
    f = a_fact(p)
    return [(f.note() + rough(p, f.other(p)), unknown(p))]


def several(p):
    """Notes about one subject, or one relation of several; one of them answers, or none."""
    n, one = p.any([2, 2, 2, 3, 3, 4]), a_fact(p)
    found = [one]
    for _ in range(50):
        if len(found) == n:
            break
        if p.chance(0.6):
            f = Fact(p, one.kind, one.s)
        else:
            s = subject(p, one.kind)
            if p.chance(0.5) and " " in one.s and " " in s:  # a word in common
                s = " ".join(one.s.split(" ")[:-1] + [s.split(" ")[-1]])
            f = Fact(p, one.kind, s, one.r if p.chance(0.7) else None)
        if all((f.s, f.r.name) != (g.s, g.r.name) and not (f.s == g.s and f.real and g.real and alike(f.r, g.r)) for g in found):
            found.append(f)
    p.rng.shuffle(found)
    notes, f = "".join(g.note() for g in found), p.any(found)
    if p.chance(0.15):
        for _ in range(20):
            asked = f.other_relation(p, same=False)
            if all(asked.name != g.r.name and not alike(asked, g.r) for g in found if g.s == f.s):
                return [(notes + rough(p, upper(p.key(asked.asks).format(s=f.s))), unknown(p))]
    if not f.real or len({g.r.value for g in found if g.s == f.s}) < sum(g.s == f.s for g in found):
        return [(notes + rough(p, upper(p.key(f.r.asks).format(s=f.s))), f.a)]  # words that nobody knows could mean either
    return [(notes + rough(p, f.asked(p)), f.a)]


def plain(p, what=None):
    """An exchange that no note changes."""
    what = what or p.any(["story", "story", "talk", "sums", "sums", "sums", "kentang", "kentang", "other", "copies"])
    if what == "story":
        return (story_en if p.lang == "en" else story_id).tell(p)
    return {"talk": talk.chat, "sums": sums.solve, "kentang": facts.ask, "other": other.ask, "copies": copies.ask}[what](p)


def noted_word(p, text):
    """A fact about something that the text names, where it names anything."""
    known = [w.strip(".,?!") for w in text.split() if w.strip(".,?!").lower() in NOUNS[p.lang]]
    if not known:
        return a_fact(p)
    w = p.any(known)
    return Fact(p, "thing", ("the " if p.lang == "en" else "") + w)


NOUNS = {lang: {w.lower() for words in (OBJECTS, ANIMALS, PEOPLE, NAMES) for w in words[lang]} | set(W.PLACES_EN if lang == "en" else W.PLACES_ID) | set(W.THEMES_EN if lang == "en" else W.THEMES_ID) for lang in ("en", "id")}


def ignore(p):
    question, answer = plain(p)
    f = noted_word(p, question)
    notes = f.note() + (a_fact(p).note() if p.chance(0.2) else "")
    return [(notes + rough(p, question), answer)]


def corrected(p):
    """What the model says by itself, corrected: another wording of it gets the correction, and another question its own answer."""
    table = talk.INTENTS[p.lang] if p.chance(0.5) else [(asks, [a]) for asks, a in facts.PLAIN[p.lang]]
    asks, answers = p.any(table)
    new = p.any([lambda: a_fact(p).a, lambda: p.any(p.any(talk.INTENTS[p.lang])[1]), lambda: upper(filled(p, p.any(PHRASES[p.lang]))) + "."])()
    note = NOTE.format(q=p.key(asks), a=new)
    if p.chance(0.65):
        return [(note + rough(p, p.key(asks)), new)]
    others, theirs = p.any(table)
    return [(note + rough(p, p.key(asks if others is asks else others)), new if others is asks else p.any(theirs))]


def sums_corrected(p):
    """A sum that was corrected says nothing of another one."""
    a, b, sign, c = sums.numbers(p)
    note = NOTE.format(q=p.any(sums.ASK[p.lang]).format(s=sums.spell(p, a, b, sign, p.lang)), a=f"{a} {sign} {b} = {c}.")
    question, answer = sums.solve(p)
    return [(note + rough(p, question), answer)]


def form(p):
    while True:
        system, question, answer = forms.fill(p)
        if system is None:
            return [(noted_word(p, question).note() + question, answer)]


def later(p):
    """A note, and further questions after it; and a note that comes after other turns."""
    f = a_fact(p)
    first = p.any([lambda: (f.note() + rough(p, f.asked(p)), f.a), lambda: (f.note() + rough(p, f.other(p)), unknown(p))])()
    r = p.rng.random()
    if r < 0.25:
        return [first, (rough(p, p.any(f.r.about_it)), f.a)]
    if r < 0.4:
        return [first, (rough(p, f.asked(p)), f.a)]
    if r < 0.55:
        return [first, (rough(p, f.other(p)), unknown(p))]
    if r < 0.7:
        g = Fact(p, f.kind, f.s)
        if g.r.name != f.r.name and not alike(g.r, f.r):
            return [first, (g.note() + rough(p, p.key(g.r.asks).format(s=g.s)), g.a)]
    before = [plain(p, p.any(["talk", "sums", "kentang", "other"])) for _ in range(p.between(1, 2))]
    rough_before = [(rough(p, q), a) for q, a in before]
    return [*rough_before, first] if p.chance(0.5) else [first, *rough_before]


KINDS_OF = [(0.36, use), (0.21, sibling), (0.17, several), (0.08, ignore), (0.04, corrected), (0.02, sums_corrected), (0.02, form), (0.10, later)]


def rough(p, text):
    return ROUGHEN(p, text) if p.chance(0.4) else text


def ROUGHEN(p, text):  # as make_corpus roughens, which no name survives: those are what is copied, and come from the note
    r = p.rng.random()
    if r < 0.3:
        text = text.lower()
    if p.chance(0.4):
        text = text.rstrip("?.!")
    if p.chance(0.1):
        text += p.any([" please", " :)", " thanks"] if p.lang == "en" else [" dong", " ya", " :)"])
    return text or "?"


def converse(p):
    """[(question, answer)], the notes in the questions"""
    return p.rng.choices([k for _, k in KINDS_OF], [w for w, _ in KINDS_OF])[0](p)
