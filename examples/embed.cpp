// A chat with a model inside your own C++ program.
//   c++ -std=c++17 embed.cpp $(pkg-config --cflags --libs kentang) && ./a.out [MODEL.gguf] ["a question"]
#include <iostream>
#include <kentang.hpp>

static bool print(std::string_view text) {
    std::cout << text << std::flush;
    return true; // false would end the answer
}

int main(int argc, char **argv) try {
    kentang::context ctx;
    kentang::model model = argc > 1 && argv[1][0] ? kentang::model(ctx, argv[1])
                                                  : kentang::model::demo(ctx);
    kentang::engine engine(model);
    kentang::sequence seq(engine);

    kt_gen_params params = kt_gen_params_default();
    params.sampling.temperature = 0; // the most probable token, always the same answer
    params.n_predict = 200;
    kentang::answer answer = seq.chat(argc > 2 ? argv[2] : "Who are you?", print, params);
    std::cout << "\n[" << answer.report.n_generated << " tokens, "
              << kt_finish_name(answer.report.finish) << "]\n";
} catch (const kentang::error &e) {
    std::cerr << kt_status_name(e.code()) << ": " << e.what() << "\n";
    return kt_status_exit_code(e.code());
}
