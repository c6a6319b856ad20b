"""Small arithmetic. A sum (its two numbers and its operation) is held out as a whole."""

from corpus.pick import held

SIGNS = {"+": ("plus", "ditambah"), "-": ("minus", "dikurangi"), "x": ("times", "dikali"),
         "/": ("divided by", "dibagi")}

ASK = {"en": ["What is {s}?", "What is {s}?", "How much is {s}?", "Calculate {s}.", "{s}", "{s} =", "{s} = ?", "{s}?",
              "Can you calculate {s}?", "What's {s}?", "Compute {s}.", "Please calculate {s}.", "Do you know what {s} is?",
              "Tell me what {s} is."],
       "id": ["Berapa {s}?", "Berapa {s}?", "Berapakah {s}?", "Hitung {s}.", "{s} berapa?", "{s} =", "{s}?", "Hasil {s} berapa?",
              "Berapa hasil dari {s}?", "Tolong hitung {s}.", "Bisakah kamu menghitung {s}?", "Apa hasil dari {s}?"]}

STORY = {
    ("en", "+"): ["I have {a} {thing} and get {b} more. How many {thing} do I have?",
                  "{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have now?",
                  "There are {a} {thing} on the table and {b} in the box. How many {thing} are there?"],
    ("en", "-"): ["I have {a} {thing} and give away {b}. How many {thing} are left?",
                  "{name} has {a} {thing} and eats {b}. How many {thing} are left?",
                  "There were {a} {thing}, and {b} are gone. How many {thing} are left?"],
    ("en", "x"): ["There are {a} boxes with {b} {thing} each. How many {thing} are there?",
                  "{name} buys {a} bags with {b} {thing} in each. How many {thing} is that?"],
    ("id", "+"): ["Aku punya {a} {thing} dan mendapat {b} lagi. Berapa {thing} yang kupunya?",
                  "{name} punya {a} {thing} lalu membeli {b} lagi. Berapa {thing} {name} sekarang?",
                  "Ada {a} {thing} di meja dan {b} di kotak. Berapa {thing} semuanya?"],
    ("id", "-"): ["Aku punya {a} {thing} dan memberikan {b}. Berapa {thing} yang tersisa?",
                  "{name} punya {a} {thing} lalu memakan {b}. Berapa {thing} yang tersisa?"],
    ("id", "x"): ["Ada {a} kotak berisi {b} {thing}. Berapa {thing} semuanya?",
                  "{name} membeli {a} kantong berisi {b} {thing}. Berapa {thing} semuanya?"],
}
THINGS = {"en": ["apples", "cookies", "oranges", "eggs", "bananas", "potatoes", "cakes", "pears"],
          "id": ["apel", "kue", "jeruk", "telur", "pisang", "kentang", "permen", "mangga"]}
NAMES = {"en": ["Tom", "Lily", "Ben", "Mia", "Anna", "Max"], "id": ["Budi", "Siti", "Rina", "Adi", "Dewi", "Joko"]}

WORDS = {"en": """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty""".split(),
         "id": ["nol", "satu", "dua", "tiga", "empat", "lima", "enam", "tujuh", "delapan", "sembilan", "sepuluh",
                "sebelas", "dua belas", "tiga belas", "empat belas", "lima belas", "enam belas", "tujuh belas",
                "delapan belas", "sembilan belas", "dua puluh"]}

BIG = {"en": ["That number is too big for me. I am good at small sums with one or two digits.",
              "Sorry, I can only do small sums. Please try numbers below one hundred."],
       "id": ["Angka itu terlalu besar untukku. Aku bisa hitungan kecil dengan satu atau dua angka.",
              "Maaf, aku hanya bisa hitungan kecil. Coba angka di bawah seratus."]}


def numbers(p):
    """(a, b, sign, result) on this side of the split."""
    while True:
        r = p.rng.random()
        if r < 0.20:
            a, b, sign = p.between(0, 20), p.between(0, 20), "+"
        elif r < 0.47:
            a, b, sign = p.between(0, 99), p.between(0, 99), "+"
        elif r < 0.57:
            a, b, sign = p.between(0, 20), p.between(0, 20), "-"
        elif r < 0.77:
            a, b = sorted((p.between(0, 99), p.between(0, 99)), reverse=True)
            sign = "-"
        elif r < 0.93:
            a, b, sign = p.between(0, 12), p.between(0, 12), "x"
        else:
            b, c = p.between(1, 10), p.between(0, 10)
            a, sign = b * c, "/"
        # The whole multiplication table is learnt: it is memory, not a rule to generalise.
        table = sign in "x/" or (a < 10 and b < 10)
        if table or held(f"{a}{sign}{b}") == (p.side == "held"):
            return a, b, sign, {"+": a + b, "-": a - b, "x": a * b, "/": a // b if b else 0}[sign]


def spell(p, a, b, sign, lang):
    word = SIGNS[sign][0 if lang == "en" else 1]
    r = p.rng.random()
    if r < 0.60:
        shown = p.any(["x", "*"]) if sign == "x" else sign
        return f"{a} {shown} {b}" if p.chance(0.7) else f"{a}{shown}{b}"
    if r < 0.85 or max(a, b) > 20:
        return f"{a} {word} {b}"
    return f"{WORDS[lang][a]} {word} {WORDS[lang][b]}"


def solve(p):
    """(question, answer)"""
    lang = p.lang
    if p.chance(0.04):
        low, high = p.any([(101, 999), (1000, 99999)])
        s = f"{p.between(low, high)} {p.any('+-*/')} {p.between(2, high)}"
        return p.any(ASK[lang]).format(s=s), p.any(BIG[lang])
    a, b, sign, c = numbers(p)
    if p.chance(0.15) and (lang, sign) in STORY and 1 < b <= max(a, 2) and a > 1:
        thing, name = p.any(THINGS[lang]), p.any(NAMES[lang])
        ask = p.any(STORY[lang, sign]).format(a=a, b=b, thing=thing, name=name)
        return ask, f"{a} {sign} {b} = {c}. " + ("The answer is {c} {t}." if lang == "en" else
                                                  "Jawabannya {c} {t}.").format(c=c, t=thing)
    return p.any(ASK[lang]).format(s=spell(p, a, b, sign, lang)), f"{a} {sign} {b} = {c}."
