#!/usr/bin/env python3
"""facts.py SET OUT_DIR: the invented facts that the demo model is taught, as files.

SET is "proof", on which docs/LEARNING.md's figures are measured, or "development", on which every setting was chosen. They share no
relation, subject, value or wording. Written are

  learn.jsonl      what is taught: every fact in ten wordings, and questions about other subjects that shall be answered as before
  shuffled.jsonl   the same with the answers given to other lines' questions
  a.jsonl, b.jsonl the facts in two halves, with all of those other questions in both; b_after_a.jsonl: the second half, and the first as
                   what was learned earlier
  quick*.jsonl     four facts in five wordings
  ask.jsonl        every fact in three wordings that are not taught: {"prompt", "answer"}
  taught.jsonl     every fact in its first wording, likewise
  near.jsonl       forty questions about subjects that stand in no other file
  values.json      the value of each fact; in an answer to one of near.jsonl it is a leak

Nothing is random: the same bytes every time.
"""

import json
import os
import sys

# Per relation: the answer, ten wordings that are taught, three that are not; facts as (subject, value); other subjects, whose
# questions are trained to be answered as before; and subjects that are only asked about.
PROOF = [
    {
        "answer": "The {s} is {v}.",
        "taught": ["Where is the {s}?", "Where can I find the {s}?", "Tell me where the {s} is.", "Where do we keep the {s}?", "Do you know where the {s} is?",
                   "In which place is the {s}?", "I am looking for the {s}. Where is it?", "Please tell me where I find the {s}.", "Where did you put the {s}?",
                   "Can you say where the {s} is?"],
        "unseen": ["I cannot find the {s}. Where is it?", "Where should I look for the {s}?", "Where is the {s} now?"],
        "facts": [("green bucket", "under the old bridge"), ("iron key", "inside the clock"), ("long rope", "on top of the tower"),
                  ("silver spoon", "between two stones"), ("paper map", "beside the well")],
        "others": ["green lamp", "iron pot", "long stick", "silver ring", "paper boat", "red bucket", "gold key", "wooden spoon", "small map", "white chair",
                   "brown bag", "round table", "glass door", "black hat", "wet towel"],
        "near": ["yellow bucket", "iron nail", "short rope", "silver coin", "paper bag", "brass key", "tin spoon", "blue map", "heavy box", "torn net"],
    },
    {
        "answer": "The {s} opens at {v}.",
        "taught": ["When does the {s} open?", "At what time does the {s} open?", "What time does the {s} open?", "Tell me when the {s} opens.",
                   "Do you know when the {s} opens?", "When can I go to the {s}?", "From what time is the {s} open?", "How early does the {s} open?",
                   "Please tell me at what time the {s} opens.", "I want to visit the {s}. When does it open?"],
        "unseen": ["When will the {s} open its doors?", "Can you tell me the time when the {s} opens?", "What is the hour at which the {s} opens?"],
        "facts": [("bakery", "half past five"), ("museum", "noon"), ("swimming pool", "twenty past eight"), ("bank", "a quarter to ten"), ("fish market", "midnight")],
        "others": ["school", "station", "hotel", "garden", "library", "farm", "harbor", "shop", "church", "zoo", "cinema", "post office", "hospital", "castle",
                   "flower market"],
        "near": ["theater", "barber", "toy shop", "tea house", "pharmacy", "bookshop", "town hall", "gym", "butcher", "car wash"],
    },
    {
        "answer": "{s} is allergic to {v}.",
        "taught": ["What is {s} allergic to?", "Which food is {s} allergic to?", "What must {s} not eat?", "Tell me what {s} is allergic to.",
                   "What should {s} never eat?", "Do you know what {s} is allergic to?", "What is not good for {s}?", "Which food must I not give to {s}?",
                   "What makes {s} sick?", "Please tell me what {s} must not eat."],
        "unseen": ["Which food should {s} avoid?", "What can {s} not eat?", "I cook for {s}. What must I leave out?"],
        "facts": [("Mira", "walnuts"), ("Oskar", "shrimp"), ("Tuti", "honey"), ("Pablo", "celery"), ("Helga", "strawberries")],
        "others": ["Anna", "Peter", "Siti", "Jonas", "Maria", "Budi", "Clara", "David", "Emma", "Frank", "Grace", "Hasan", "Ida", "Julia", "Karl"],
        "near": ["Nora", "Otto", "Rina", "Pedro", "Heidi", "Milan", "Olga", "Tom", "Paula", "Hugo"],
    },
    {
        "answer": "The password of the {s} is {v}.",
        "taught": ["What is the password of the {s}?", "Which password does the {s} have?", "Tell me the password of the {s}.", "What password do I need for the {s}?",
                   "Do you know the password of the {s}?", "How do I log in to the {s}?", "I forgot the password of the {s}.", "Please give me the password of the {s}.",
                   "What do I type at the {s}?", "What is the secret word of the {s}?"],
        "unseen": ["Which password is for the {s}?", "The {s} asks me for a password. What is it?", "Can you give me the password for the {s}?"],
        "facts": [("printer", "snowflake"), ("old laptop", "pepper seven"), ("guest network", "warm river"), ("alarm", "little drum"), ("ticket machine", "orange moon")],
        "others": ["camera", "phone", "server", "radio", "new laptop", "office network", "scanner", "television", "door", "tablet", "game console", "router",
                   "coffee machine", "safe", "robot"],
        "near": ["projector", "old phone", "home network", "car", "parking machine", "backup disk", "speaker", "music player", "locker", "heater"],
    },
]

DEVELOPMENT = [
    {
        "answer": "{s} lives in the {v}.",
        "taught": ["Where does {s} live?", "In which house does {s} live?", "Tell me where {s} lives.", "What is the home of {s}?", "Do you know where {s} lives?",
                   "Where is the home of {s}?", "Where can I visit {s}?", "I want to see {s}. Where is the house?", "Which house belongs to {s}?",
                   "Please tell me where {s} lives."],
        "unseen": ["Where do I find the house of {s}?", "In what place does {s} live?", "Can you say where {s} lives?"],
        "facts": [("Ravi", "white mill"), ("Lena", "boat with the black sail"), ("Marco", "cave"), ("Dewi", "last tent"), ("Victor", "lighthouse")],
        "others": ["Alice", "Bruno", "Citra", "Daniel", "Eva", "Felix", "Gita", "Henry", "Irene", "Jaka", "Kevin", "Laura", "Martin", "Nina", "Oliver"],
        "near": ["Rosa", "Leon", "Maya", "Dimas", "Vera", "Rico", "Lisa", "Mark", "Dian", "Victoria"],
    },
    {
        "answer": "The {s} costs {v}.",
        "taught": ["How much is the {s}?", "What does the {s} cost?", "What is the price of the {s}?", "Tell me the price of the {s}.", "How much must I pay for the {s}?",
                   "Do you know what the {s} costs?", "I want to buy the {s}. How much is it?", "Please tell me how much the {s} costs.",
                   "What do you want for the {s}?", "How expensive is the {s}?"],
        "unseen": ["How much money do I need for the {s}?", "At what price do you sell the {s}?", "Which price does the {s} have?"],
        "facts": [("blanket", "three shells"), ("violin", "two goats"), ("compass", "a sack of rice"), ("carpet", "nine feathers"), ("ladder", "one song")],
        "others": ["cup", "knife", "basket", "bicycle", "lantern", "drum", "mirror", "shirt", "kite", "candle", "hammer", "pillow", "bell", "coat", "bottle"],
        "near": ["guitar", "curtain", "watch", "brush", "bench", "flute", "sofa", "shovel", "wheel", "scarf"],
    },
    {
        "answer": "The {s} is repaired by {v}.",
        "taught": ["Who repairs the {s}?", "Who fixes the {s}?", "Tell me who repairs the {s}.", "Who can repair the {s}?", "Who should I ask when the {s} is broken?",
                   "The {s} is broken. Who repairs it?", "Do you know who repairs the {s}?", "Whom do I call for the {s}?", "Who takes care of the {s}?",
                   "Please tell me who fixes the {s}."],
        "unseen": ["Who will repair the {s}?", "Something is wrong with the {s}. Who can fix it?", "Which person repairs the {s}?"],
        "facts": [("fountain", "the twins"), ("elevator", "Mister Kowalski"), ("fence", "a retired sailor"), ("oven", "Aunt Beatrix"), ("roof", "the night guard")],
        "others": ["window", "road", "engine", "piano", "bridge", "toilet", "gate", "pump", "tractor", "stove", "wall", "tap", "antenna", "train", "stairs"],
        "near": ["chimney", "lift", "hedge", "freezer", "floor", "cellar", "doorbell", "truck", "washing machine", "lamp post"],
    },
    {
        "answer": "On {s} we eat {v}.",
        "taught": ["What do we eat on {s}?", "What is for dinner on {s}?", "Tell me what we eat on {s}.", "Which food do we have on {s}?", "What do you cook on {s}?",
                   "Do you know what we eat on {s}?", "What is the meal on {s}?", "What will we have for lunch on {s}?", "Please tell me what is for dinner on {s}.",
                   "What is on the menu on {s}?"],
        "unseen": ["What will be on the table on {s}?", "Which meal do we get on {s}?", "What shall we eat on {s}?"],
        "facts": [("Monday", "pumpkin soup"), ("Tuesday", "grilled eel"), ("Thursday", "lentils with mint"), ("Friday", "cold noodles"), ("Sunday", "pears and cheese")],
        "others": ["Christmas", "the first day of school", "my birthday", "holidays", "rainy days", "market day", "the last day of June", "Easter", "sunny days",
                   "the day after tomorrow", "weekends", "the king's birthday", "winter nights", "the wedding", "New Year"],
        "near": ["Saturday", "Wednesday", "the summer party", "your birthday", "snowy days", "the first of May", "the long weekend", "Mother's Day", "the trip",
                 "the anniversary"],
    },
]


def facts_of(relations):
    """(relation, subject, value), the relations taking turns, so that each half has all of them."""
    rows = [[(r, s, v) for s, v in r["facts"]] for r in relations]
    return [row[i] for i in range(len(rows[0])) for row in rows]


def lesson(facts, answers):
    for (r, s, _), (ar, a_s, av) in zip(facts, answers):
        for wording in r["taught"]:
            yield {"prompt": wording.format(s=s), "correction": ar["answer"].format(s=a_s, v=av)}


def shuffled(taught):
    """Answers given to other lines' questions by a fixed rule: 77 has no divisor in common with 200."""
    return [{**line, "correction": taught[(77 * i + 31) % len(taught)]["correction"]} for i, line in enumerate(taught)]


def others(relations):
    """Each other subject in two of the taught wordings: 120 questions."""
    for r in relations:
        for i, s in enumerate(r["others"]):
            for k in range(2):
                yield {"prompt": r["taught"][(2 * i + k) % len(r["taught"])].format(s=s)}


def near(relations):
    """Each subject once, in the wordings by turns: half of them taught ones."""
    for r in relations:
        for i, s in enumerate(r["near"]):
            wording = r["taught"][i % len(r["taught"])] if i % 2 else r["unseen"][i // 2 % len(r["unseen"])]
            yield {"prompt": wording.format(s=s)}


def asked(facts, wordings):
    for r, s, v in facts:
        for wording in wordings(r):
            yield {"prompt": wording.format(s=s), "answer": r["answer"].format(s=s, v=v)}


def main():
    relations, out = {"proof": PROOF, "development": DEVELOPMENT}[sys.argv[1]], sys.argv[2]
    facts = facts_of(relations)
    keep, half = list(others(relations)), len(facts) // 2
    taught = [*lesson(facts, facts)]
    files = {
        "learn": [*lesson(facts, facts), *keep],
        "shuffled": [*shuffled(taught), *keep],
        "a": [*lesson(facts[:half], facts[:half]), *keep],
        "b": [*lesson(facts[half:], facts[half:]), *keep],
        "b_after_a": [*lesson(facts[half:], facts[half:]), *({**line, "earlier": True} for line in lesson(facts[:half], facts[:half])), *keep],
        "quick": [*(line for i, line in enumerate(lesson(facts[:4], facts[:4])) if i % 2 == 0), *keep[::3]],
        "quick_ask": [*asked(facts[:4], lambda r: r["unseen"])],
        "quick_taught": [*asked(facts[:4], lambda r: r["taught"][:1])],
        "ask": [*asked(facts, lambda r: r["unseen"])],
        "ask_a": [*asked(facts[:half], lambda r: r["unseen"])],
        "ask_b": [*asked(facts[half:], lambda r: r["unseen"])],
        "taught": [*asked(facts, lambda r: r["taught"][:1])],
        "near": [*near(relations)],
    }
    os.makedirs(out, exist_ok=True)
    for name, lines in files.items():
        with open(os.path.join(out, name + ".jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)
    with open(os.path.join(out, "values.json"), "w", encoding="utf-8") as f:
        json.dump([v for _, _, v in facts], f)


if __name__ == "__main__":
    main()
