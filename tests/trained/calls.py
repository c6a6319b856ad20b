#!/usr/bin/env python3
"""Questions with tools, tool_choice auto, temperature 0: how many calls come out right.

calls.py URL [--native] [--show] [--write FILE] [--least RIGHT QUIET]
  --native  ask that calls count only in the form of the model's template ("native_calls"): what other servers do
  --show    print what was wrong
  --write   the answers, one JSON object a line
  --least   exit with 1 where fewer than RIGHT per cent of the answers in which the model meant a call have right ones, fewer
            than QUIET per cent of the questions without one stay without, or a call is not valid by its schema

A model means a call where it makes one, or writes a tool's name and arguments as text. An answer has right calls where each of
them is one that the question asks for; some models make the next one when they have the first one's result."""
import argparse
import json
import re
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}


def obj(required, **members):
    return {"type": "object", "properties": members, "required": required}


TOOLS = {
    "get_weather": ("The weather in a city now", obj(["city"], city=S, unit={"type": "string", "enum": ["celsius", "fahrenheit"]})),
    "get_time": ("The local time in a city", obj(["city"], city=S)),
    "calculator": ("Computes an arithmetic expression", obj(["expression"], expression=S)),
    "search_web": ("Searches the web", obj(["query"], query=S, count=I)),
    "send_email": ("Sends an email", obj(["to", "subject", "body"], to=S, subject=S, body=S)),
    "set_timer": ("Starts a timer", obj(["minutes"], minutes=I, label=S)),
    "convert_currency": ("Converts an amount of money", obj(["amount", "from", "to"], amount=N, **{"from": S, "to": S})),
    "translate": ("Translates a text", obj(["text", "language"], text=S, language=S)),
    "read_file": ("Reads a file", obj(["path"], path=S)),
    "list_files": ("Lists the files of a folder", obj(["path"], path=S)),
    "turn_light": ("Turns the light of a room on or off", obj(["room", "on"], room=S, on=B)),
    "get_stock": ("The price of a stock", obj(["symbol"], symbol=S)),
    "create_event": ("Adds an event to the calendar", obj(["title", "date"], title=S, date=S, time=S,
                                                          attendees={"type": "array", "items": S})),
    "place_order": ("Orders products", obj(["items", "address"], items={"type": "array", "items": obj(["name", "count"], name=S, count=I)},
                                           address=obj(["street", "city"], street=S, city=S))),
    "book_table": ("Reserves a table", obj(["restaurant", "people"], restaurant=S, people=I, time=S)),
    "find_user": ("Looks up a user by id or name", {"type": "object", "properties": {"id": I, "name": S}}),
    "route": ("A route between two places", obj(["from", "to"], **{"from": obj(["city"], city=S), "to": obj(["city"], city=S)},
                                                mode={"type": "string", "enum": ["car", "train", "bike"]})),
    "cuaca": ("Cuaca saat ini di sebuah kota", obj(["kota"], kota=S)),
    "catat": ("Menyimpan sebuah catatan", obj(["isi"], isi=S)),
    "ping": ("Checks whether the system answers", obj([])),
}

ANY = object()  # any value


def one_of(*values):
    return list(values)


# question, tools, calls that are right: (name, arguments); a list in place of an argument: any of them.
# Arguments that are not named may be left out or be there.
CASES = [
    # one call
    ("What is the weather in Paris?", "get_weather", [("get_weather", {"city": "Paris"})]),
    ("How warm is it in Oslo right now, in celsius?", "get_weather get_time", [("get_weather", {"city": "Oslo"})]),
    ("What time is it in Tokyo?", "get_weather get_time calculator", [("get_time", {"city": "Tokyo"})]),
    ("Compute 1234 * 77 with the calculator.", "calculator", [("calculator", {"expression": one_of("1234 * 77", "1234*77")})]),
    ("Search the web for kentang recipes.", "search_web calculator", [("search_web", {"query": one_of("kentang recipes")})]),
    ("Set a timer for 12 minutes.", "set_timer get_time", [("set_timer", {"minutes": 12})]),
    ("Convert 250 USD to EUR.", "convert_currency calculator", [("convert_currency", {"amount": 250, "from": "USD", "to": "EUR"})]),
    ("Translate 'good morning' into French.", "translate", [("translate", {"text": "good morning", "language": one_of("French", "fr")})]),
    ("Read the file /etc/hosts.", "read_file list_files", [("read_file", {"path": "/etc/hosts"})]),
    ("Which files are in the folder /var/log?", "read_file list_files", [("list_files", {"path": one_of("/var/log", "/var/log/")})]),
    ("Turn on the light in the kitchen.", "turn_light", [("turn_light", {"room": "kitchen", "on": True})]),
    ("Switch off the bedroom light, please.", "turn_light get_time", [("turn_light", {"room": "bedroom", "on": False})]),
    ("What is the price of the stock with the symbol AAPL?", "get_stock search_web", [("get_stock", {"symbol": "AAPL"})]),
    ("Look up the user with id 42.", "find_user", [("find_user", {"id": 42})]),
    ("Find the user named Marta.", "find_user get_time", [("find_user", {"name": "Marta"})]),
    ("Check whether the system answers.", "ping", [("ping", {})]),
    ("Send an email to ana@example.org with the subject 'Lunch' and the body 'At noon?'.", "send_email search_web",
     [("send_email", {"to": "ana@example.org", "subject": "Lunch", "body": "At noon?"})]),
    ("Book a table for 4 people at Luigi's.", "book_table", [("book_table", {"restaurant": "Luigi's", "people": 4})]),
    ("Is it raining in London at the moment?", "get_weather search_web get_time", [("get_weather", {"city": "London"})]),
    ("What's the temperature in Cairo in fahrenheit?", "get_weather", [("get_weather", {"city": "Cairo", "unit": "fahrenheit"})]),
    # of eight tools
    ("What is the weather in Lima?", "get_weather get_time calculator search_web send_email set_timer translate read_file",
     [("get_weather", {"city": "Lima"})]),
    ("Start a 5 minute timer.", "get_weather get_time calculator search_web send_email set_timer translate read_file",
     [("set_timer", {"minutes": 5})]),
    ("Use the calculator: what is 15% of 480?", "get_weather get_time calculator search_web send_email set_timer translate read_file",
     [("calculator", {"expression": ANY})]),
    ("Open /tmp/notes.txt and show me what is in it.", "get_weather get_time calculator search_web send_email set_timer list_files read_file",
     [("read_file", {"path": "/tmp/notes.txt"})]),
    ("Translate 'thank you' into German.", "get_weather get_time calculator search_web send_email set_timer translate read_file",
     [("translate", {"text": "thank you", "language": one_of("German", "de")})]),
    # nested arguments
    ("Order 2 lamps and 1 chair to Main Street 5, Springfield.", "place_order",
     [("place_order", {"items": [[{"name": one_of("lamps", "lamp"), "count": 2}, {"name": "chair", "count": 1}]],
                       "address": {"street": "Main Street 5", "city": "Springfield"}})]),
    ("Order 3 books to High Road 12, Leeds.", "place_order search_web",
     [("place_order", {"items": [[{"name": one_of("books", "book"), "count": 3}]], "address": {"street": "High Road 12", "city": "Leeds"}})]),
    ("Find me a route by train from Berlin to Hamburg.", "route",
     [("route", {"from": {"city": "Berlin"}, "to": {"city": "Hamburg"}, "mode": "train"})]),
    ("How do I get by bike from Delft to Leiden?", "route get_weather",
     [("route", {"from": {"city": "Delft"}, "to": {"city": "Leiden"}, "mode": "bike"})]),
    ("Add the event 'Review' on 2025-03-04 with Tom and Eva as attendees.", "create_event send_email",
     [("create_event", {"title": "Review", "date": "2025-03-04", "attendees": [["Tom", "Eva"]]})]),
    ("Put 'Dentist' on 2025-06-01 at 09:30 into my calendar.", "create_event",
     [("create_event", {"title": "Dentist", "date": "2025-06-01", "time": one_of("09:30", "9:30")})]),
    # several calls
    ("What is the weather in Paris and in Rome?", "get_weather", [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]),
    ("Tell me the time in Sydney and the weather there.", "get_weather get_time",
     [("get_time", {"city": "Sydney"}), ("get_weather", {"city": "Sydney"})]),
    ("Turn off the lights in the hall and in the office.", "turn_light",
     [("turn_light", {"room": "hall", "on": False}), ("turn_light", {"room": "office", "on": False})]),
    ("Get the stock prices of MSFT, IBM and ORCL.", "get_stock",
     [("get_stock", {"symbol": "MSFT"}), ("get_stock", {"symbol": "IBM"}), ("get_stock", {"symbol": "ORCL"})]),
    ("Read the files a.txt and b.txt.", "read_file", [("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]),
    ("Set one timer for 3 minutes and another one for 10 minutes.", "set_timer",
     [("set_timer", {"minutes": 3}), ("set_timer", {"minutes": 10})]),
    ("What time is it in Lagos and in Lima?", "get_time get_weather", [("get_time", {"city": "Lagos"}), ("get_time", {"city": "Lima"})]),
    # Indonesian
    ("Bagaimana cuaca di Bandung sekarang?", "cuaca", [("cuaca", {"kota": "Bandung"})]),
    ("Cuaca di Surabaya?", "cuaca catat", [("cuaca", {"kota": "Surabaya"})]),
    ("Catat: beli beras dan gula.", "catat cuaca", [("catat", {"isi": one_of("beli beras dan gula", "beli beras dan gula.")})]),
    ("Jam berapa sekarang di Jakarta?", "get_time get_weather", [("get_time", {"city": "Jakarta"})]),
    ("Pasang timer 20 menit.", "set_timer", [("set_timer", {"minutes": 20})]),
    ("Nyalakan lampu di dapur.", "turn_light", [("turn_light", {"room": one_of("dapur", "kitchen"), "on": True})]),
    ("Terjemahkan 'selamat pagi' ke bahasa Inggris.", "translate",
     [("translate", {"text": "selamat pagi", "language": one_of("English", "Inggris", "bahasa Inggris", "en")})]),
    ("Ubah 100 USD ke IDR.", "convert_currency", [("convert_currency", {"amount": 100, "from": "USD", "to": "IDR"})]),
    # no call is meant
    ("Hello!", "get_weather get_time", []),
    ("Thank you, that was helpful.", "get_weather", []),
    ("What is the capital of France?", "set_timer", []),
    ("Write a haiku about rain.", "get_stock", []),
    ("Who wrote Romeo and Juliet?", "turn_light calculator", []),
    ("Explain in one sentence what a compiler does.", "get_weather send_email", []),
    ("Write a Python function that adds two numbers.", "get_weather", []),
    ("Give me a JSON object with the keys name and age for Ana, who is 31.", "get_weather set_timer", []),
    ("What does the word 'timer' mean?", "set_timer", []),
    ("Name three colours.", "get_time", []),
    ("Which tools do you have? Answer in a sentence, without using them.", "get_weather calculator", []),
    ("Write a short C program that prints hello.", "calculator", []),
    ("Say good night in Spanish.", "get_weather get_time", []),
    ("Halo, apa kabar?", "cuaca", []),
    ("Siapa presiden pertama Indonesia?", "catat", []),
    ("What is 2 + 2? Answer at once, without a tool.", "calculator", []),
    ("Show me an example of a JSON array with three numbers.", "list_files", []),
    ("Summarise in five words: The cat sat on the mat.", "read_file", []),
    ("Is water wet? Yes or no.", "get_weather", []),
    ("Write an SQL query that selects all users.", "find_user", []),
]


def tool_list(names):
    return [{"type": "function", "function": {"name": n, "description": TOOLS[n][0], "parameters": TOOLS[n][1]}} for n in names.split()]


def ask(base, question, names, native):
    body = {"messages": [{"role": "user", "content": question}], "tools": tool_list(names), "temperature": 0, "max_tokens": 250}
    if native:
        body["native_calls"] = True
    call = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(call, timeout=900))
    m = answer["choices"][0]["message"]
    return {"question": question, "tools": names, "content": m.get("content") or "", "finish": answer["choices"][0]["finish_reason"],
            "tokens": answer["usage"]["completion_tokens"],
            "calls": [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls") or []]}


def same(got, want):
    if want is ANY:
        return True
    if isinstance(want, list):
        return any(same_value(got, w) for w in want)
    return same_value(got, want)


def same_value(got, want):
    if isinstance(want, bool) or isinstance(got, bool):
        return got is want
    if isinstance(want, str):
        return isinstance(got, str) and got.strip().lower() == want.lower()
    if isinstance(want, (int, float)):
        return isinstance(got, (int, float)) and got == want
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(same(g, w) for g, w in zip(got, want))
    return isinstance(got, dict) and all(k in got and same(got[k], w) for k, w in want.items())


def valid(v, schema):
    """By the few keywords that the tools above have."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = schema.get("type")
    if kind and (not isinstance(v, kinds[kind]) or (isinstance(v, bool) and kind != "boolean")):
        return False
    if "enum" in schema and v not in schema["enum"]:
        return False
    if kind == "array":
        return all(valid(x, schema["items"]) for x in v)
    if kind != "object":
        return True
    members = schema.get("properties", {})
    return all(k in v for k in schema.get("required", [])) and all(k in members and valid(x, members[k]) for k, x in v.items())


def judge(answer, want):
    """(all calls are made and right, those that are made are right, meant, all valid)"""
    calls, good = [], True
    for name, text in answer["calls"]:
        try:
            args = json.loads(text)
        except ValueError:
            args = None
        good &= args is not None and name in TOOLS and valid(args, TOOLS[name][1])
        calls.append((name, args))
    left, missing = list(calls), 0
    for name, args in want:
        hit = next((c for c in left if c[0] == name and c[1] is not None and same_value(c[1], args)), None)
        if hit is None:
            missing += 1
        else:
            left.remove(hit)
    if not left and (calls or not want):
        return not missing, True, bool(calls), good
    written = any(re.search(r'"name"\s*:\s*"' + n + '"|^\\s*' + n + r"\s*\(\s*\{", answer["content"], re.M)
                  for n in answer["tools"].split())
    return False, False, bool(calls) or written, good


def main():
    args = argparse.ArgumentParser()
    args.add_argument("url")
    args.add_argument("--native", action="store_true")
    args.add_argument("--show", action="store_true")
    args.add_argument("--write")
    args.add_argument("--least", nargs=2, type=float)
    o = args.parse_args()
    start = time.time()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda c: ask(o.url, c[0], c[1], o.native), CASES))
    whole = right = meant = quiet = silent = emitted = 0
    good = True
    for (question, _, want), a in zip(CASES, answers):
        w, r, m, v = judge(a, want)
        emitted += len(a["calls"])
        good &= v
        if want:
            whole += w
            right += r
            meant += m
        else:
            silent += 1
            quiet += not a["calls"]
        if o.show and not w:
            print("  ", question, "->", json.dumps(a["calls"] or a["content"], ensure_ascii=False)[:300])
    wanted = len(CASES) - silent
    if o.write:
        with open(o.write, "w") as f:
            for a in answers:
                f.write(json.dumps(a, ensure_ascii=False) + "\n")
    share, still = 100 * right / max(meant, 1), 100 * quiet / silent
    print(f"right calls in {right} of {meant} answers where the model meant one ({share:.0f} %), all that the question needs in "
          f"{whole} of {wanted}; "
          f"no call in {quiet} of {silent} that need none ({still:.0f} %); {emitted} calls, "
          f"{'all valid' if good else 'NOT all valid'} by their schemas; {sum(a['tokens'] for a in answers)} tokens, "
          f"{time.time() - start:.0f} s")
    if o.least and (share < o.least[0] or still < o.least[1] or not good):
        sys.exit(1)


main()
