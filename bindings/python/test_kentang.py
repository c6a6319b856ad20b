"""The Python binding on the embedded model: KENTANG_LIBRARY, KENTANG_EXPECTED (a JSON file that tests/bindings/run.sh
writes: what `kentang` itself answers), KENTANG_INCLUDE."""
import gc
import json
import math
import os
import subprocess
import tempfile
import threading
import unittest

import kentang
from kentang import _native

with open(os.environ["KENTANG_EXPECTED"], encoding="utf-8") as file:
    EXPECTED = json.load(file)
N = EXPECTED["n"]


class Layout(unittest.TestCase):
    def test_structures_are_the_headers(self):
        lines = ["#include <kentang.h>", "#include <stdio.h>", "int main(void) {"]
        ours = []
        for structure in _native.STRUCTURES:
            name = structure.__name__
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            ours.append(f"{name} {_native.ctypes.sizeof(structure)}")
            for field in structure._fields_:
                lines.append(f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));')
                ours.append(f"{name}.{field[0]} {getattr(structure, field[0]).offset}")
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/layout.c", "w", encoding="utf-8") as source:
                source.write("\n".join(lines + ["}"]))
            subprocess.run(["cc", f"{folder}/layout.c", "-I", os.environ["KENTANG_INCLUDE"], "-o", f"{folder}/layout"],
                           check=True)
            theirs = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(ours, theirs.splitlines())


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ctx = kentang.Context(n_threads=2)
        cls.model = cls.ctx.open()
        cls.engine = cls.model.engine(n_ctx=512)

    @classmethod
    def tearDownClass(cls):
        gc.collect()
        cls.engine.close()
        cls.model.close()
        cls.ctx.close()

    def test_chat_says_what_kentang_run_says(self):
        with self.engine.sequence() as seq:
            report = seq.chat(EXPECTED["question"], temperature=0, n_predict=N)
            self.assertEqual(report.text, EXPECTED["answer"])
            self.assertEqual((report.finish, report.n_generated), ("length", N))
            self.assertEqual("".join(seq.stream(EXPECTED["question"], temperature=0, n_predict=N)), EXPECTED["answer"])

    def test_tokens_are_those_of_kentang_greedy(self):
        self.assertEqual(self.model.tokenize(EXPECTED["text"]), EXPECTED["prompt_ids"])
        with self.engine.sequence() as seq:
            seq.generate(EXPECTED["prompt_ids"], temperature=0, n_predict=N, ignore_eog=True)
            self.assertEqual(seq.tokens[len(EXPECTED["prompt_ids"]):], EXPECTED["ids"][:N - 1])
        with self.engine.sequence() as seq, self.model.sampler(512, temperature=0) as sampler:
            seq.eval(EXPECTED["prompt_ids"])
            for token in EXPECTED["ids"][:N]:
                self.assertEqual(sampler.sample(seq.logits), token)
                sampler.accept(token)
                seq.eval([token])
        self.assertEqual(self.model.detokenize(EXPECTED["prompt_ids"]).strip(), EXPECTED["text"])

    def test_long_results_are_asked_for_again(self):
        call, data = kentang._lib.kt_tokenize, EXPECTED["text"].encode()
        ids = kentang._sized(_native.ctypes.c_int32, 1, call, self.model._use, data, len(data), 0)
        self.assertEqual(ids, EXPECTED["prompt_ids"])

    def test_a_sampler_draws_as_generate(self):
        prompt = EXPECTED["prompt_ids"]
        with self.engine.sequence() as seq:
            seq.generate(prompt, seed=5, n_predict=12, ignore_eog=True)
            drawn = seq.tokens[len(prompt):]
        with self.engine.sequence() as seq, self.model.sampler(512, seed=5) as sampler:
            seq.eval(prompt)
            sampler.accept(*prompt)
            for token in drawn:
                self.assertEqual(sampler.sample([seq.logits[i] for i in range(self.model.info["n_vocab"])]), token)
                sampler.accept(token)
                seq.eval([token])
            self.assertEqual(sampler.seed, 5)
            sampler.reset()

    def test_streams_can_be_left_and_callbacks_may_raise(self):
        with self.engine.sequence() as seq:
            for piece in seq.stream("Tell me a long story.", n_predict=200):
                self.assertIsInstance(piece, str)
                break

            def fail(_):
                raise KeyError("mine")
            with self.assertRaises(KeyError):
                seq.chat("Hello!", fail)
            self.assertEqual(seq.chat("Hello!", lambda _: False).finish, "cancelled")
            self.assertEqual(list(seq.stream("Who are you?", stop=["I am"], temperature=0)), [])

    def test_embeddings(self):
        vector = self.engine.embed("a cat")
        self.assertEqual(len(vector), self.model.info["d_model"])
        self.assertAlmostEqual(math.sqrt(sum(x * x for x in vector)), 1, places=5)
        self.assertEqual(vector, self.engine.embed("a cat"))
        self.assertNotEqual(vector, self.engine.embed("the sea", pooling="last"))

    def test_a_call_in_json(self):
        question = [{"role": "user", "content": EXPECTED["question"]}]
        events = self.engine.call({"call": "generate", "messages": question, "temperature": 0, "max_tokens": N})
        self.assertEqual("".join(e["text"] for e in events[:-1]), EXPECTED["answer"])
        self.assertEqual((events[-1]["finish"], events[-1]["generated_tokens"]), ("length", N))
        self.assertEqual(self.engine.call({"call": "embed", "prompt": "a cat"})[0]["embedding"],
                         list(self.engine.embed("a cat")))
        with self.assertRaisesRegex(kentang.Error, "KT_E_ARG.*top_p"):
            self.engine.call({"call": "generate", "prompt": "a", "top_p": 7})

    def test_errors(self):
        with self.assertRaises(kentang.Error) as caught:
            self.ctx.open("/no/such/model.gguf")
        self.assertEqual(caught.exception.code, "KT_E_IO")
        self.assertIn("/no/such/model.gguf", str(caught.exception))
        with self.engine.sequence() as seq:
            with self.assertRaisesRegex(kentang.Error, "KT_E_ARG.*top_p"):
                seq.chat("Hello!", top_p=7)
            with self.assertRaisesRegex(kentang.Error, "KT_E_CONTEXT_FULL"):
                seq.generate([5] * 600)
            with self.assertRaisesRegex(kentang.Error, "KT_E_CONTEXT_FULL"):
                list(seq.stream_text([5] * 600))
            with self.assertRaises(TypeError):
                seq.chat("Hello!", temprature=1)
            with self.assertRaises(kentang.Error):
                self.engine.close()  # a sequence is open
        with self.assertRaisesRegex(kentang.Error, "KT_E_STATE"):
            seq.eval([1])

    def test_sessions_and_copies(self):
        with tempfile.TemporaryDirectory() as folder, self.engine.sequence() as seq:
            seq.eval(EXPECTED["prompt_ids"])
            seq.save(f"{folder}/session")
            with self.engine.sequence() as other, seq.copy() as copy:
                other.restore(f"{folder}/session")
                self.assertEqual(other.tokens, seq.tokens)
                copy.truncate(1)
                self.assertEqual(len(copy), 1)
        self.assertIn("Hello", self.model.render('[{"role":"user","content":"Hello"}]'))

    def test_threads(self):
        answers = []

        def ask():
            with self.engine.sequence() as seq:
                answers.append(seq.chat(EXPECTED["question"], temperature=0, n_predict=N).text)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [EXPECTED["answer"]] * 4)


if __name__ == "__main__":
    unittest.main()
