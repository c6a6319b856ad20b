"""Sentences and the JSON object that they fill: small schemas."""

import json

from corpus import words as W

COLORS = {"en": "red blue green yellow white black brown pink grey orange purple".split(), "id": "merah biru hijau kuning putih hitam cokelat abu-abu ungu".split()}
CITIES = "Bandung|Jakarta|Surabaya|Medan|Berlin|Paris|London|Madrid|Rome|Tokyo|Osaka|Lima|Cairo|Oslo|Delhi|Boston|Toronto|Makassar|Bogor|Malang|Vienna|Prague|Lisbon|Dublin|Solo".split("|")
JOBS = {"en": "baker teacher farmer doctor painter pilot nurse sailor tailor dancer cook driver gardener miner".split(),
        "id": "guru petani dokter pelukis pilot perawat pelaut penjahit penari sopir nelayan pedagang".split()}
DAYS = {"en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(), "id": "Senin Selasa Rabu Kamis Jumat Sabtu Minggu".split()}
ITEMS = {"en": "apples books pens chairs eggs lamps hats cups boxes tickets pears shirts".split(), "id": "apel buku pena kursi telur lampu topi cangkir kotak tiket pir baju".split()}

# What a field may be called, and its type.
KEYS = {"en": {"name": ["name", "name", "person", "who", "first_name"], "age": ["age", "age", "years"], "city": ["city", "city", "town", "place"],
               "count": ["count", "number", "quantity", "amount"], "item": ["item", "product", "thing", "what"], "price": ["price", "price", "cost"],
               "color": ["color", "color", "colour"], "job": ["job", "job", "profession", "work"], "time": ["time", "time", "hour"], "day": ["day", "day", "weekday"]},
        "id": {"name": ["nama", "name", "orang"], "age": ["umur", "age", "usia"], "city": ["kota", "city", "tempat"], "count": ["jumlah", "count", "banyak"],
               "item": ["barang", "item", "benda"], "price": ["harga", "price"], "color": ["warna", "color"], "job": ["pekerjaan", "job"],
               "time": ["jam", "time", "pukul"], "day": ["hari", "day"]}}
INTEGER = {"age", "count", "price"}

SAYS = {"en": [("{name} is {age} years old and lives in {city}.", "name age city"), ("{name}, {age}, is from {city}.", "name age city"),
               ("My name is {name}, I am {age} and I live in {city}.", "name age city"), ("{name} bought {count} {item} for {price} dollars.", "name count item price"),
               ("{name} has {count} {item}.", "name count item"), ("{count} {item} cost {price} dollars.", "count item price"),
               ("The {thing} is {color} and costs {price} dollars.", "thing color price"), ("{name} works as a {job} in {city}.", "name job city"),
               ("{name} is a {job} and is {age} years old.", "name job age"), ("Meet {name} on {day} at {time}.", "name day time"),
               ("The train to {city} leaves on {day} at {time}.", "city day time"), ("{name} sold a {color} {thing} for {price} dollars.", "name color thing price"),
               ("{name} is {age}.", "name age"), ("I saw a {color} {thing} in {city}.", "color thing city")],
        "id": [("{name} berumur {age} tahun dan tinggal di {city}.", "name age city"), ("Namaku {name}, umurku {age}, dan aku tinggal di {city}.", "name age city"),
               ("{name} membeli {count} {item} seharga {price} rupiah.", "name count item price"), ("{name} punya {count} {item}.", "name count item"),
               ("{count} {item} harganya {price} rupiah.", "count item price"), ("{thing} itu berwarna {color} dan harganya {price} rupiah.", "thing color price"),
               ("{name} bekerja sebagai {job} di {city}.", "name job city"), ("Temui {name} hari {day} pukul {time}.", "name day time"),
               ("Kereta ke {city} berangkat hari {day} pukul {time}.", "city day time"), ("{name} berumur {age} tahun.", "name age")]}

ASK = {"en": ["Give me {k} as JSON: {s}", "{s} Answer as JSON with {k}.", "Extract {k} as JSON: {s}", "Make JSON with {k} of this: {s}", "JSON with {k}: {s}",
              "Write this as JSON with the keys {k}: {s}", "{s}\nFill in as JSON: {k}.", "Turn this into JSON ({k}): {s}", "Find {k} in this text, as JSON: {s}",
              "{s} Return {k} in JSON.", "As a JSON object with {k}: {s}", "Please extract {k} from: {s}"],
       "id": ["Berikan {k} sebagai JSON: {s}", "{s} Jawab dalam JSON dengan {k}.", "Ambil {k} sebagai JSON: {s}", "Buat JSON dengan {k} dari ini: {s}", "JSON dengan {k}: {s}",
              "Tulis ini sebagai JSON dengan kunci {k}: {s}", "{s}\nIsi sebagai JSON: {k}.", "Ubah menjadi JSON ({k}): {s}"]}
ASK_SCHEMA = {"en": ["{s}\nAnswer with JSON of this schema: {j}", "Fill in this schema: {j}\n{s}", "Schema: {j}\nText: {s}", "{s}\n{j}"],
              "id": ["{s}\nJawab dengan JSON menurut skema ini: {j}", "Isi skema ini: {j}\n{s}", "Skema: {j}\nTeks: {s}"]}
SYSTEM = ["Answer in JSON.", "Answer as JSON.", "You fill in forms. Answer with a JSON object only.", "Extract the data as JSON.", "Jawab dalam JSON."]


def capital(word):
    return word[0].upper() + word[1:]


def facts(p):
    lang = p.lang
    names = (W.NAMES_EN_F + W.NAMES_EN_M) if lang == "en" else W.NAMES_ID
    number = str(p.between(1, 99)) if p.chance(0.7) else str(p.between(100, 9999))
    return {"name": p.made_up().capitalize() if p.chance(0.2) else capital(p.word(NAMES.setdefault(lang, names))), "age": str(p.between(1, 99)), "city": capital(p.word(CITIES)),
            "count": str(p.between(1, 99)), "item": p.word(ITEMS[lang]), "price": number, "color": p.word(COLORS[lang]),
            "thing": p.word(W.OBJECTS_EN if lang == "en" else W.OBJECTS_ID), "job": p.word(JOBS[lang]), "day": p.any(DAYS[lang]),
            "time": f"{p.between(0, 23):02}:{p.between(0, 59):02}"}


NAMES = {}


def listed(p, keys):
    word = " and " if p.lang == "en" else " dan "
    return keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + (word if p.chance(0.7) else ", ") + keys[-1]


def fill(p):
    """(system message or None, question, answer)"""
    f = facts(p)
    says, fields = p.any(SAYS[p.lang])
    sentence = says.format(**f)
    sentence = sentence[0].upper() + sentence[1:]
    fields = fields.split()
    often = 0.65 if p.made_up_share else 0.3
    if p.chance(often):
        p.rng.shuffle(fields)
    fields = fields[:p.between(1, len(fields))] if p.chance(often) else fields
    kind = {x: "item" if x == "thing" else x for x in fields}
    keys = [p.any(KEYS[p.lang][kind[x]]) for x in fields]
    answer = json.dumps({k: int(f[x]) if kind[x] in INTEGER else f[x] for k, x in zip(keys, fields)}, ensure_ascii=False, separators=(",", ":"))
    r = p.rng.random()
    if r < 0.55:
        return None, p.key(ASK[p.lang]).format(k=listed(p, keys), s=sentence), answer
    if r < 0.85:
        schema = {"type": "object", "properties": {k: {"type": "integer" if kind[x] in INTEGER else "string"} for k, x in zip(keys, fields)}}
        if p.chance(0.7):
            schema["required"] = keys
        return None, p.any(ASK_SCHEMA[p.lang]).format(j=json.dumps(schema), s=sentence), answer
    return p.any(SYSTEM), sentence, answer
