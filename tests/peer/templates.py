#!/usr/bin/env python3
"""Chat templates against python3-jinja2, configured as transformers does.

Usage: templates.py DRIVER DATA [random N SEED]
DRIVER: templates.c, compiled; DATA: ../shared/data. Without more arguments: the cases of
chat-template-cases.json, then every template of templates/jinja over a battery of conversations. With
`random`: N generated templates (templates_gen.py).
"""
import glob
import itertools
import json
import os
import subprocess
import sys

from templates_env import MUTABLE, NOW, STRICT, expected

class Driver:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def render(self, source, variables, no_merge=True):
        variables = dict(variables)
        request = {"template": source, "now": NOW, "no_merge": no_merge}
        for token in ("bos_token", "eos_token"):
            if token in variables:
                request[token] = variables.pop(token)
        request["input"] = variables
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the driver died; its last template:\n" + source)
        answer = json.loads(line)
        if "error" in answer:
            return "error", answer["error"], answer
        assert sum(s[0] for s in answer["segments"]) == len(answer["text"].encode())
        return "text", answer["text"], answer


def run_cases(driver, data):
    cases = json.load(open(os.path.join(data, "templates", "chat-template-cases.json")))
    conversation, done, merged, bad = cases["conversation"], 0, 0, 0
    for case in cases["cases"]:
        if not case.get("supported_with_jinja", True):
            continue
        messages = conversation + case.get("extra_conversation", [])
        variables = {"messages": messages, "add_generation_prompt": True,
                     "bos_token": case.get("bos_token") or "", "eos_token": case.get("eos_token") or ""}
        want = case["expected_jinja"] or case["expected_builtin"]
        kind, got, answer = driver.render(case["template"],
                                          variables, no_merge=False)
        done += 1
        merged += bool(answer.get("merged"))
        if got != want:
            bad += 1
            print(f"case {case.get('name')}:\n  want {want!r}\n  got  {kind} {got!r}")
    print(f"cases: {done - bad} of {done} match; in {merged} the system message was merged")
    return bad


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a \"city\" <now> & later",
     "parameters": {"type": "object", "properties": {
         "city": {"type": "string", "description": "a city's name"},
         "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
         "units": {"type": ["string", "null"], "enum": ["C", "F"]},
         "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                   "required": ["lat"]},
         "tags": {"type": "array", "items": {"type": "string"}}},
         "required": ["city"]}, "return": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "stop", "description": "", "parameters": {"type": "object",
                                                                                          "properties": {}}}},
]

U = {"role": "user", "content": "Halo, apa kabar? “Quoted” {{ x }} <|im_end|> é 日本"}
S = {"role": "system", "content": "You are a helpful assistant.\n  Be brief. "}
A = {"role": "assistant", "content": "Baik.\n\nDan kamu? "}
THINK = {"role": "assistant", "content": "<think>\nlet me see\n</think>\n\nThe answer is 4."}
REASON = {"role": "assistant", "content": "Four.", "reasoning_content": "2 + 2\n"}
EMPTY = {"role": "assistant", "content": ""}
PARTS = {"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]}
IMAGE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is it?"}]}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Bogor", "days": 2, "f": 1e16, "ok": True,
                                                        "none": None, "l": [1, 2.5, "x"], "o": {"k": "v"}}}}]}
CALL_TEXT = {"role": "assistant", "content": "I look it up.", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": "{\"city\": \"Bogor\", \"days\": 2}"}},
    {"id": "call00002", "type": "function", "function": {"name": "stop", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"temp\": 27.5}"}
RESULT2 = {"role": "tool", "tool_call_id": "call00002", "name": "stop", "content": "done"}
RESULT_OBJECT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": {"temp": 27.5}}
DEVELOPER = {"role": "developer", "content": "Follow the rules."}

CONVERSATIONS = {
    "user": [U], "system": [S, U], "turns": [U, A, U], "system turns": [S, U, A, U, A, U], "done": [U, A],
    "thinking": [U, THINK, U], "thinking last": [U, THINK], "reasoning": [U, REASON, U], "empty": [U, EMPTY],
    "reasoning last": [U, REASON], "parts": [PARTS], "parts turns": [S, PARTS, A, PARTS], "image": [IMAGE],
    "call": [U, CALL], "call result": [S, U, CALL, RESULT], "call answer": [U, CALL, RESULT, A, U],
    "two calls": [S, U, CALL_TEXT, RESULT, RESULT2], "two calls on": [U, CALL_TEXT, RESULT, RESULT2, A, U],
    "object": [U, CALL, RESULT_OBJECT], "developer": [DEVELOPER, U], "user user": [U, U], "assistant": [A],
    "late system": [U, S, U], "none": [], "odd role": [{"role": "critic", "content": "no"}],
    "no content": [{"role": "user"}], "null": [{"role": "user", "content": None}], "number": [
        {"role": "user", "content": 5}], "thinking two": [S, U, THINK, U, THINK, U, REASON],
    "reason call": [U, {**CALL, "reasoning_content": "use the tool"}, RESULT],
}

FLAGS = [{}, {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True},
         {"reasoning_effort": "high", "builtin_tools": ["browser", "python"]}, {"custom_tools": TOOLS},
         {"documents": [{"title": "t", "text": "some text"}]}, {"date_string": "26 Jul 2024"},
         {"keep_past_thinking": True, "preserve_thinking": True, "clear_thinking": False},
         {"model_identity": "You are kentang.", "tools_in_user_message": False},
         {"add_vision_id": True, "think": True, "controls": {"length": "long"}}]


def battery():
    for name, messages in CONVERSATIONS.items():
        for i, flags in enumerate(FLAGS):
            for prompt, tools in itertools.product((False, True), (None, TOOLS)):
                if i and prompt == (tools is None):
                    continue  # the extra flags with half of the combinations
                values = {"messages": messages, "add_generation_prompt": prompt, "tools": tools,
                          "bos_token": "<s>", "eos_token": "</s>", **flags}
                yield f"{name}, prompt {prompt}, tools {bool(tools)}, {flags}", values


def run_templates(driver, data):
    total = texts = bad = changed = 0
    files = sorted(glob.glob(os.path.join(data, "templates", "jinja", "*.jinja")))
    for path in files:
        source, shown = open(path, newline="").read(), 0
        for name, values in battery():
            want = expected(STRICT, source, values)
            if want[0] == "error" and "SecurityError" in want[1]:
                want = expected(MUTABLE, source, values)
                changed += 1
            kind, got, _ = driver.render(source, values)
            total += 1
            texts += want[0] == "text"
            if kind == want[0] and (kind == "error" or got == want[1]):
                continue
            bad += 1
            shown += 1
            if shown <= 3:
                print(f"{os.path.basename(path)}: {name}\n  want {want[0]} {want[1]!r}\n  got  {kind} {got!r}")
    print(f"templates: {len(files)} files, {total} renderings ({texts} with text, {total - texts} refused by "
          f"Python, {changed} against an environment that lets lists change): {bad} differ")
    return bad


def main():
    driver, data = Driver(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3 and sys.argv[3] == "random":
        import templates_gen
        return templates_gen.run(driver, expected, STRICT, MUTABLE, int(sys.argv[4]), int(sys.argv[5]))
    return run_cases(driver, data) + run_templates(driver, data)


sys.exit(1 if main() else 0)
