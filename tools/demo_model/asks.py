#!/usr/bin/env python3
"""asks.py > asks.jsonl: questions written by hand, none of them generated, for reading the answers."""

import json

ONE = """Tell me a short story about a cat.|Write a story about a brave little snail.|Tell me a story about a lighthouse keeper.
story about two friends|Tell me a short story about a robot who is afraid of the dark.|Tell me a story.
Ceritakan sebuah cerita pendek tentang seekor kancil.|Ceritakan dongeng tentang kelinci dan kura-kura.|Buatkan cerita tentang layang-layang merah.
Cerita tentang nelayan tua|What is 7 + 5?|what is 48 + 27|How much is 90 minus 37?|6 times 7|12 x 12|What is 81 / 9?|What is 123 + 456?
Tom has 8 apples and eats 3. How many are left?|Berapa 15 + 9?|Berapa 34 dikurangi 18?|tujuh ditambah lima berapa?
How do I run a GGUF file?|How can I chat with my own model?|how to use more threads|What does --temp do?|What does -c do?|What is kentang?
Do I need a graphics card?|How do I look inside a model file?|What does kentang doctor do?|Which commands are there?|How do I make answers repeatable?
I have a very old laptop. What should I use?|What is synth?|Bagaimana cara menjalankan berkas GGUF?|Apa itu kentang?|Apa fungsi --raw?
Bagaimana cara melihat isi model?|Preset apa saja yang ada?|Cara mengatur jumlah thread gimana?|Who are you?|hi|Hello, how are you today?|What can you do?
Are you better than ChatGPT?|tell me a joke|Thank you very much!|bye|Siapa kamu?|Apa kabar?|Ceritakan lelucon|Terima kasih ya|I feel a bit sad today
What is the capital of France?|Who was Napoleon?|Write a python script that downloads a web page|asdfgh|Explain general relativity in simple words
Apa ibu kota Indonesia?|Tulis puisi tentang hujan|Siapa presiden Amerika?|2+2|What is a dog?|Can you help me with my homework?|???
How do I quantize a model?|Does kentang support Windows?|Como te llamas?""".replace("\n", "|").split("|")

TALKS = [["Hi, my name is Marie.", "Nice to meet you, Marie! How can I help you?", "What is 9 + 8?", "9 + 8 = 17.", "What is my name?"],
         ["Tell me a joke.", "What do you call a sleeping potato? A couch potato.", "Haha, another one!"],
         ["Apa itu kentang?", "kentang adalah program C kecil yang menjalankan model bahasa di komputer biasa, tanpa kartu grafis. Ia membaca berkas GGUF.",
          "Bagaimana cara memakainya?"]]

for text in ONE:
    print(json.dumps({"cat": "asks", "messages": [["user", text]]}, ensure_ascii=False))
for talk in TALKS:
    turns = [["assistant" if i % 2 else "user", t] for i, t in enumerate(talk)]
    print(json.dumps({"cat": "asks", "messages": turns}, ensure_ascii=False))
