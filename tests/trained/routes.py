#!/usr/bin/env python3
"""How often "auto" takes the route that a person would: forty questions, half about programs, against a server with
two routes, code and chat (docs/PROTOCOL.md, "Routes").

  routes.py URL

The server needs `routes` with the names code and chat, and http.manage; their examples are replaced by those below.
Prints the questions that went elsewhere, how many were right, and the median of the differences."""
import json
import statistics
import sys
import urllib.request

EXAMPLES = {
    "code": ["Write a function in Python that sorts a list.", "Why does this C program crash?", "Fix the bug in this JavaScript code.",
             "How do I write a SQL query with a join?", "Explain this stack trace.", "How do I revert a commit in git?"],
    "chat": ["Tell me a story about a dragon.", "What should I cook for dinner tonight?", "How are you today?",
             "Plan a weekend trip to the mountains.", "Write a birthday greeting for my grandmother.", "Why is the sky blue?"],
}
QUESTIONS = {
    "code": ["My Rust program does not compile, what is wrong?", "Write a regular expression that matches an email address.",
             "What does the keyword static mean in Java?", "Convert this loop to a list comprehension.", "How can I read a CSV file with pandas?",
             "Explain the difference between a mutex and a semaphore.", "Write unit tests for this function.", "Why is my React component rendering twice?",
             "How do I merge two branches?", "Implement binary search in Go.", "What is a segmentation fault?", "Optimise this query, it takes ten seconds.",
             "How do I parse JSON in bash?", "Refactor this class into smaller ones.", "Write a Dockerfile for a Node application.",
             "What is the complexity of quicksort?", "My pointer is NULL after malloc, why?", "Add type hints to this module.",
             "How do I call a C library from Python?", "Write a makefile with two targets."],
    "chat": ["Recommend me a good movie.", "Hello", "I feel sad today.", "What is the capital of Peru?", "Write a poem about autumn.",
             "How long should I boil an egg?", "Tell me a joke.", "Who was Napoleon?", "What is a good name for a cat?", "How do I remove a wine stain from a shirt?",
             "Suggest a gift for a ten-year-old.", "What is the meaning of life?", "Translate good morning to Indonesian.", "How far away is the moon?",
             "Help me write a letter to my landlord.", "Which vegetables grow in winter?", "Summarise the story of Romeo and Juliet.",
             "What should I wear to a wedding?", "Give me ideas for a birthday party.", "Why do cats purr?"],
}


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main():
    url = sys.argv[1].rstrip("/")
    with urllib.request.urlopen(url + "/v1/routes") as answer:
        table = json.load(answer)
    for route in table["routes"]:
        route["examples"] = EXAMPLES[route["name"]]
        route["good"] = route["bad"] = 0
    table["least"] = -1
    post(url + "/v1/routes", table)
    right, apart = 0, []
    for kind, questions in QUESTIONS.items():
        for question in questions:
            reply = post(url + "/v1/chat/completions", {"model": "auto", "messages": [{"role": "user", "content": question}], "max_tokens": 1})
            route = reply["kentang"]["route"]
            apart.append(abs(route["scores"]["code"] - route["scores"]["chat"]))
            right += route["name"] == kind
            if route["name"] != kind:
                print(f"{question} -> {route['name']} {route['scores']}")
    print(f"{right} of {sum(map(len, QUESTIONS.values()))} right; the two kinds differ by {statistics.median(apart):.3f} in the middle")


main()
