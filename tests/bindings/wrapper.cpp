// kentang.hpp on the embedded model. usage: wrapper QUESTION ANSWER N PROMPT_IDS IDS (numbers with blanks between them)
#include <cmath>
#include <iostream>
#include <kentang.hpp>
#include <sstream>

static int failures;

static void expect(bool ok, const char *what) {
    if (ok) return;
    std::cerr << "failed: " << what << "\n";
    failures++;
}

static kentang::ids numbers(const char *text) {
    std::istringstream in(text);
    kentang::ids out;
    for (std::int32_t id; in >> id;) out.push_back(id);
    return out;
}

template <typename Call> static kt_status thrown(Call call) {
    try {
        call();
    } catch (const kentang::error &e) {
        return e.code();
    }
    return KT_OK;
}

static void test_answers(const kentang::engine &engine, char **argv, const kt_gen_params &greedy) {
    kentang::sequence seq(engine);
    std::string heard;
    auto hear = [&](std::string_view text) {
        heard += text;
        return true;
    };
    kentang::answer answer = seq.chat(argv[1], hear, greedy);
    expect(answer.text == argv[2] && heard == argv[2], "chat says what kentang run says");
    expect(seq.chat("Hello!", [](std::string_view) { return false; }).report.finish ==
               KT_FINISH_CANCELLED,
           "cancel");
    bool passed = false;
    try {
        seq.chat("Hello!", [](std::string_view) -> bool { throw std::logic_error("mine"); });
    } catch (const std::logic_error &) {
        passed = true;
    }
    expect(passed, "an exception of the callback leaves the call");
}

static void test_tokens(const kentang::model &model, const kentang::engine &engine,
                        const kentang::ids &prompt, const kentang::ids &expected,
                        kt_gen_params greedy) {
    kentang::sequence seq(engine), by_hand(engine);
    greedy.ignore_eog = true;
    seq.generate(prompt, {}, greedy);
    kentang::ids drawn = seq.tokens(), wanted = prompt;
    wanted.insert(wanted.end(), expected.begin(), expected.end() - 1);
    expect(drawn == wanted, "the tokens of kentang greedy");
    kentang::sampler sampler(model, greedy.sampling, 512);
    by_hand.eval(prompt);
    sampler.accept(prompt);
    for (std::int32_t id : expected) {
        expect(sampler.sample(by_hand.logits()) == id, "the tokens of kentang greedy, by hand");
        sampler.accept(id);
        by_hand.eval(id);
    }
    kentang::sequence copy = by_hand.copy();
    copy.truncate(1);
    expect(copy.size() == 1 && by_hand.size() == prompt.size() + expected.size(),
           "copy and truncate");
    expect(model.tokenize(model.detokenize(prompt)).size() > 0, "text to tokens and back");
}

static void test_errors(const kentang::context &ctx, const kentang::engine &engine,
                        kt_gen_params params) {
    kentang::sequence seq(engine);
    expect(thrown([&] { kentang::model(ctx, "/no/such/file"); }) == KT_E_IO, "no such file");
    expect(thrown([&] { seq.eval(kentang::ids(600, 5)); }) == KT_E_CONTEXT_FULL,
           "the context is full");
    params.sampling.top_p = 7;
    expect(thrown([&] { seq.chat("Hello!", {}, params); }) == KT_E_ARG, "top_p");
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    kentang::context ctx;
    kentang::model model = kentang::model::demo(ctx);
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 512;
    kentang::engine engine(model, ep);
    kt_gen_params greedy = kt_gen_params_default();
    greedy.sampling.temperature = 0;
    greedy.n_predict = std::stoi(argv[3]);
    test_answers(engine, argv, greedy);
    test_tokens(model, engine, numbers(argv[4]), numbers(argv[5]), greedy);
    test_errors(ctx, engine, greedy);
    std::vector<float> v = engine.embed(model.tokenize("a cat"));
    double sum = 0;
    for (float x : v) sum += double(x) * double(x);
    expect(v.size() == std::size_t(model.info().d_model) && std::abs(sum - 1) < 1e-4,
           "an embedding has length 1");
    std::cout << (failures ? "FAILED\n" : "ok\n");
    return failures != 0;
}
