#!/usr/bin/env python3
"""Forty small extractions at temperature 0: how many come out right in each form of answer.

extract.py URL [FORM...]      of a server; forms: free, object, object_compact, schema, schema_compact, ollama
Prints a line a form: right answers, JSON that could be read, tokens, seconds; --show prints wrong ones.
The forms named *_compact ask for JSON without white space ("compact_json"); another server ignores the field."""
import json
import re
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
L = {"type": "array", "items": S}
LI = {"type": "array", "items": I}


def rows(**members):
    return {"type": "array", "items": {"type": "object", "properties": members, "required": list(members)}}


CASES = [
    ("Mira is 42 years old and lives in Oslo.", {"name": S, "age": I, "city": S}, {"name": "Mira", "age": 42, "city": "Oslo"}),
    ("The order 5512 of 3 chairs costs 120 euros.", {"order": I, "item": S, "count": I}, {"order": 5512, "item": "chairs", "count": 3}),
    ("Four colours: red, green, blue, black.", {"colours": L}, {"colours": ["red", "green", "blue", "black"]}),
    ("Write to Otto at otto@example.net or call 555-0123.", {"name": S, "email": S, "phone": S},
     {"name": "Otto", "email": "otto@example.net", "phone": "555-0123"}),
    ("The server db2 runs Alpine with 4 cores and 8 GB.", {"host": S, "os": S, "cores": I, "memory_gb": I},
     {"host": "db2", "os": "Alpine", "cores": 4, "memory_gb": 8}),
    ("Flight LH123 leaves Munich at 14:05 and lands in Rome at 15:40.", {"flight": S, "from": S, "to": S, "departure": S},
     {"flight": "LH123", "from": "Munich", "to": "Rome", "departure": "14:05"}),
    ("The book 'Dune' was written by Frank Herbert in 1965.", {"title": S, "author": S, "year": I},
     {"title": "Dune", "author": "Frank Herbert", "year": 1965}),
    ("Paris has 2.1 million people, Lyon 0.5 million.", {"cities": rows(name=S, millions=N)},
     {"cities": [{"name": "Paris", "millions": 2.1}, {"name": "Lyon", "millions": 0.5}]}),
    ("The meeting with Ines is on 2024-03-09 in room B12.", {"person": S, "date": S, "room": S},
     {"person": "Ines", "date": "2024-03-09", "room": "B12"}),
    ("The lamp is on and the door is closed.", {"lamp_on": B, "door_open": B}, {"lamp_on": True, "door_open": False}),
    ("Version 3.8.1 of nginx was released in June 2021.", {"program": S, "version": S, "month": S, "year": I},
     {"program": "nginx", "version": "3.8.1", "month": "June", "year": 2021}),
    ("Winning numbers: 4, 8, 15, 16, 23, 42.", {"numbers": LI}, {"numbers": [4, 8, 15, 16, 23, 42]}),
    ("Budi tinggal di Bandung dan berumur 27 tahun.", {"name": S, "city": S, "age": I},
     {"name": "Budi", "city": "Bandung", "age": 27}),
    ("Harga beras 14000 rupiah dan gula 17000 rupiah.", {"prices": rows(item=S, price=I)},
     {"prices": [{"item": "beras", "price": 14000}, {"item": "gula", "price": 17000}]}),
    ("The parcel weighs 2.5 kg and goes to Vienna.", {"weight_kg": N, "destination": S},
     {"weight_kg": 2.5, "destination": "Vienna"}),
    ("Tom (35) and Lea (29) work at Initech.", {"company": S, "people": rows(name=S, age=I)},
     {"company": "Initech", "people": [{"name": "Tom", "age": 35}, {"name": "Lea", "age": 29}]}),
    ("Error 404 occurred on page /about at 12:30.", {"code": I, "page": S, "time": S},
     {"code": 404, "page": "/about", "time": "12:30"}),
    ("The recipe needs flour, eggs and milk.", {"ingredients": L}, {"ingredients": ["flour", "eggs", "milk"]}),
    ("It is 21 degrees and sunny in Lisbon.", {"city": S, "temperature": I, "weather": S},
     {"city": "Lisbon", "temperature": 21, "weather": "sunny"}),
    ("Invoice A-77 over 310.50 USD is due on 2025-01-31.", {"invoice": S, "amount": N, "currency": S, "due": S},
     {"invoice": "A-77", "amount": 310.5, "currency": "USD", "due": "2025-01-31"}),
    ("Anna Schmidt, Hauptstrasse 5, 10115 Berlin.", {"name": S, "street": S, "zip": S, "city": S},
     {"name": "Anna Schmidt", "street": "Hauptstrasse 5", "zip": "10115", "city": "Berlin"}),
    ("The cat is called Miso, the dog is called Rex.", {"cat": S, "dog": S}, {"cat": "Miso", "dog": "Rex"}),
    ("Team A beat Team B 3 to 1.", {"winner": S, "loser": S, "winner_goals": I, "loser_goals": I},
     {"winner": "Team A", "loser": "Team B", "winner_goals": 3, "loser_goals": 1}),
    ("The train ICE 579 has 12 wagons.", {"train": S, "wagons": I}, {"train": "ICE 579", "wagons": 12}),
    ("Languages spoken by Kofi: Twi, English and French.", {"name": S, "languages": L},
     {"name": "Kofi", "languages": ["Twi", "English", "French"]}),
    ("Disk sda is 80 percent full, sdb is 15 percent full.", {"disks": rows(name=S, percent=I)},
     {"disks": [{"name": "sda", "percent": 80}, {"name": "sdb", "percent": 15}]}),
    ("The film lasts 128 minutes and was directed by Bong Joon-ho.", {"minutes": I, "director": S},
     {"minutes": 128, "director": "Bong Joon-ho"}),
    ("Alice pays 20 dollars to Bob.", {"payer": S, "payee": S, "amount": I},
     {"payer": "Alice", "payee": "Bob", "amount": 20}),
    ("The museum opens at 9:00 and closes at 17:00.", {"opens": S, "closes": S}, {"opens": "9:00", "closes": "17:00"}),
    ("Kucing saya bernama Oyen dan berumur 3 tahun.", {"name": S, "age": I}, {"name": "Oyen", "age": 3}),
    ("Python was made by Guido van Rossum in 1991.", {"language": S, "creator": S, "year": I},
     {"language": "Python", "creator": "Guido van Rossum", "year": 1991}),
    ("The room is 4 m wide, 6 m long and has no window.", {"width": I, "length": I, "window": B},
     {"width": 4, "length": 6, "window": False}),
    ("Bus lines 5, 12 and 30 stop here.", {"lines": LI}, {"lines": [5, 12, 30]}),
    ("User root logged in from 10.0.0.7 on port 22.", {"user": S, "ip": S, "port": I},
     {"user": "root", "ip": "10.0.0.7", "port": 22}),
    ("The red bike costs 250 euros, the blue one 300 euros.", {"bikes": rows(colour=S, price=I)},
     {"bikes": [{"colour": "red", "price": 250}, {"colour": "blue", "price": 300}]}),
    ("Mount Fuji is 3776 metres high and is in Japan.", {"mountain": S, "height": I, "country": S},
     {"mountain": "Mount Fuji", "height": 3776, "country": "Japan"}),
    ("Dr. Wu sees patients on Monday and Thursday.", {"doctor": S, "days": L}, {"doctor": "Dr. Wu", "days": ["Monday", "Thursday"]}),
    ("Package libfoo 1.2 depends on libbar and zlib.", {"package": S, "version": S, "depends": L},
     {"package": "libfoo", "version": "1.2", "depends": ["libbar", "zlib"]}),
    ("Sari membeli 5 apel dan 2 mangga di pasar.", {"buyer": S, "apples": I, "mangoes": I, "place": S},
     {"buyer": "Sari", "apples": 5, "mangoes": 2, "place": "pasar"}),
    ("Temperature readings: 20.5, 21.0 and 19.8.", {"readings": {"type": "array", "items": N}},
     {"readings": [20.5, 21.0, 19.8]}),
]


def names(members):
    def one(name, s):
        if s.get("type") == "array" and s["items"].get("type") == "object":
            return name + " (a list of objects with " + ", ".join(s["items"]["properties"]) + ")"
        return name + (" (a list)" if s.get("type") == "array" else "")
    return ", ".join(one(n, s) for n, s in members.items())


def ask(base, text, members, form):
    body = {"messages": [{"role": "user", "content": f"{text} Answer as JSON with {names(members)}."}],
            "temperature": 0, "max_tokens": 200}
    if form.startswith("object"):
        body["response_format"] = {"type": "json_object"}
    if form.startswith("schema"):
        schema = {"type": "object", "properties": members, "required": list(members)}
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    if form.endswith("compact"):
        body["compact_json"] = True
    call = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(),
                                  {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(call, timeout=600))
    return answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]


def plain(v):
    """Case and blanks at the ends do not count, nor 3 or 3.0."""
    if isinstance(v, str):
        return v.strip().lower()
    if isinstance(v, bool) or v is None:
        return v
    if isinstance(v, (int, float)):
        return float(v)
    if isinstance(v, list):
        return [plain(x) for x in v]
    return {k: plain(x) for k, x in v.items()}


def read(answer, form):
    if form == "free":  # as a user would read it: a fence, or the first object
        m = re.search(r"```(?:json)?\s*(.*?)```", answer, re.S) or re.search(r"(\{.*\})", answer, re.S)
        answer = m.group(1) if m else answer
    return json.loads(answer)


def run(base, form, show):
    right = parsed = tokens = 0
    start = time.time()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda c: ask(base, c[0], c[1], form), CASES))
    for (_, _, want), (answer, n) in zip(CASES, answers):
        tokens += n
        try:
            got = read(answer, form)
            parsed += 1
        except ValueError:
            got = None
        good = got is not None and isinstance(got, dict) and plain(got) == plain(want)
        right += good
        if show and not good:
            print("  ", json.dumps(answer, ensure_ascii=False)[:150])
    print(f"{form:15} right {right} of {len(CASES)}, JSON {parsed}, {tokens} tokens, {time.time() - start:.0f} s", flush=True)
    return right


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--show"]
    for form in args[1:] or ["free", "object", "object_compact", "schema", "schema_compact"]:
        run(args[0], form, "--show" in sys.argv)
