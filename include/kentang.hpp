/* kentang.hpp: kentang.h for C++17, header only: handles that close themselves, strings and vectors,
 * errors as exceptions. What the calls mean, who may call them from which thread and how long things
 * live is said in kentang.h; handle() gives the C object, so that both may be mixed.
 *
 *   kentang::context ctx;
 *   kentang::model model(ctx, "model.gguf");
 *   kentang::engine engine(model);
 *   kentang::sequence seq(engine);
 *   seq.chat("Who are you?", [](std::string_view text) { std::cout << text; return true; });
 *
 * An object must outlive those made from it, as locals in this order do. */
#ifndef KENTANG_HPP
#define KENTANG_HPP

#include <kentang.h>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kentang {

/* what() is the sentence; details() all that kt_error has. */
class error : public std::runtime_error {
  public:
    explicit error(const kt_error &details)
        : std::runtime_error(details.message), details_(details) {}
    kt_status code() const noexcept {
        return details_.code;
    }
    const kt_error &details() const noexcept {
        return details_;
    }

  private:
    kt_error details_;
};

namespace detail {

/* Calls call(arguments..., &err) and throws what went wrong. */
template <typename Call, typename... Arguments> void must(Call call, Arguments... arguments) {
    kt_error err{};
    kt_status status = call(arguments..., &err);
    if (status == KT_OK) return;
    err.code = status;
    throw error(err);
}

template <typename T, void (*close)(T *)> struct closer {
    void operator()(T *object) const noexcept {
        close(object);
    }
};
template <typename T, void (*close)(T *)> using owner = std::unique_ptr<T, closer<T, close>>;

/* What a call returns through its last argument but one. */
template <typename T, typename Call, typename... Arguments>
T *opened(Call call, Arguments... arguments) {
    T *object = nullptr;
    must(call, arguments..., &object);
    return object;
}

/* Texts and ids whose length a first call may have to tell. */
template <typename T, typename Call> std::vector<T> sized(std::size_t guess, Call call) {
    std::vector<T> out(guess);
    for (;;) {
        std::size_t n = 0;
        kt_error err{};
        kt_status status = call(out.data(), out.size(), &n, &err);
        bool grows = status == KT_E_LIMIT && n > out.size();
        out.resize(n);
        if (status == KT_OK) return out;
        if (!grows) throw error(err);
    }
}

} // namespace detail

using ids = std::vector<std::int32_t>;
/* Gets text as it comes; false ends the answer. An exception ends it, too, and leaves the call. */
using text_fn = std::function<bool(std::string_view)>;

struct message {
    std::string role, content;
};

struct answer {
    std::string text;
    kt_request_report report;
};

namespace detail {

/* The first call of a program: a library of another version than the header is refused. */
inline kt_ctx_params ctx_params() {
    kt_error err{};
    if (kt_abi() == kt_header_abi()) return kt_ctx_params_default();
    err.code = KT_E_STATE;
    const std::string text = std::string("libkentang ") + kt_version() +
                             " is of another version than the header that this program was "
                             "compiled with";
    text.copy(err.message, sizeof err.message - 1);
    throw error(err);
}

} // namespace detail

class context {
  public:
    explicit context(const kt_ctx_params &params = detail::ctx_params())
        : ctx_(detail::opened<kt_ctx>(kt_ctx_open, &params)) {}
    std::string isa() const {
        return kt_ctx_isa(handle());
    }
    int n_threads() const {
        return kt_ctx_n_threads(handle());
    }
    kt_ctx *handle() const noexcept {
        return ctx_.get();
    }

  private:
    detail::owner<kt_ctx, kt_ctx_close> ctx_;
};

class model {
  public:
    model(const context &ctx, const std::string &path,
          const kt_model_params &params = kt_model_params_default())
        : model_(detail::opened<kt_model>(kt_model_open, ctx.handle(), path.c_str(), &params)) {}
    /* The model inside the library. */
    static model demo(const context &ctx,
                      const kt_model_params &params = kt_model_params_default()) {
        return model(detail::opened<kt_model>(kt_model_open_demo, ctx.handle(), &params));
    }

    kt_model_info info() const {
        kt_model_info out;
        kt_model_get_info(handle(), &out);
        return out;
    }
    /* flags: KT_TOK_ADD_SPECIAL, KT_TOK_PARSE_SPECIAL */
    ids tokenize(std::string_view text, unsigned flags = 0) const {
        return detail::sized<std::int32_t>(text.size() + 16, [&](std::int32_t *out, std::size_t cap,
                                                                 std::size_t *n, kt_error *err) {
            return kt_tokenize(handle(), text.data(), text.size(), flags, out, cap, n, err);
        });
    }
    std::string detokenize(const ids &tokens, unsigned flags = 0) const {
        std::vector<char> text = detail::sized<char>(
            16 * tokens.size() + 16,
            [&](char *out, std::size_t cap, std::size_t *n, kt_error *err) {
                return kt_detokenize(handle(), tokens.data(), tokens.size(), flags, out, cap, n,
                                     err);
            });
        return std::string(text.begin(), text.end());
    }
    bool is_eog(std::int32_t id) const {
        return kt_token_is_eog(handle(), id);
    }
    kt_model *handle() const noexcept {
        return model_.get();
    }

  private:
    explicit model(kt_model *opened) : model_(opened) {}
    detail::owner<kt_model, kt_model_close> model_;
};

class engine {
  public:
    explicit engine(const model &model, const kt_engine_params &params = kt_engine_params_default())
        : engine_(detail::opened<kt_engine>(kt_engine_open, model.handle(), &params)),
          model_(model.handle()) {}

    std::vector<float> embed(const ids &tokens, kt_pooling pooling = KT_POOLING_MEAN,
                             bool normalize = true) const {
        kt_model_info info;
        kt_model_get_info(model_, &info);
        std::vector<float> out(static_cast<std::size_t>(info.d_model));
        detail::must(kt_embed, handle(), tokens.data(), tokens.size(), pooling, normalize,
                     out.data());
        return out;
    }
    kt_engine *handle() const noexcept {
        return engine_.get();
    }

  private:
    detail::owner<kt_engine, kt_engine_close> engine_;
    kt_model *model_;
};

/* Tokens and what was computed of them. */
class sequence {
  public:
    explicit sequence(const engine &engine)
        : seq_(detail::opened<kt_seq>(kt_seq_open, engine.handle())) {}
    sequence copy() const {
        return sequence(detail::opened<kt_seq>(kt_seq_copy, handle()));
    }

    std::size_t size() const {
        return kt_seq_len(handle());
    }
    ids tokens() const {
        const std::int32_t *first = kt_seq_tokens(handle());
        return ids(first, first + size());
    }
    /* [n_vocab] of the token to come, valid until the next call; nullptr: there are none. */
    const float *logits() const {
        return kt_seq_logits(handle());
    }

    void eval(const ids &tokens) {
        detail::must(kt_seq_eval, handle(), tokens.data(), tokens.size());
    }
    void eval(std::int32_t id) {
        detail::must(kt_seq_eval, handle(), &id, std::size_t{1});
    }
    void truncate(std::size_t n_keep) {
        detail::must(kt_seq_truncate, handle(), n_keep);
    }
    void save(const std::string &path) {
        detail::must(kt_seq_save, handle(), path.c_str());
    }
    void restore(const std::string &path) {
        detail::must(kt_seq_restore, handle(), path.c_str());
    }

    answer generate(const ids &prompt, const text_fn &on_text = {},
                    const kt_gen_params &params = kt_gen_params_default()) {
        return run(kt_generate, prompt.data(), prompt.size(), on_text, params);
    }
    answer chat(const std::vector<message> &messages, const text_fn &on_text = {},
                const kt_gen_params &params = kt_gen_params_default()) {
        std::vector<kt_message> plain;
        for (const message &m : messages) plain.push_back({m.role.c_str(), m.content.c_str()});
        return run(kt_chat, plain.data(), plain.size(), on_text, params);
    }
    answer chat(const std::string &question, const text_fn &on_text = {},
                const kt_gen_params &params = kt_gen_params_default()) {
        return chat(std::vector<message>{{"user", question}}, on_text, params);
    }
    kt_seq *handle() const noexcept {
        return seq_.get();
    }

  private:
    explicit sequence(kt_seq *seq) : seq_(seq) {}

    struct hearer {
        std::string text;
        const text_fn &on_text;
        std::exception_ptr thrown;
    };
    static bool hear(void *user, const char *text, std::size_t len, std::int32_t) {
        hearer &h = *static_cast<hearer *>(user);
        try {
            h.text.append(text, len);
            return !h.on_text || h.on_text(std::string_view(text, len));
        } catch (...) {
            h.thrown = std::current_exception();
            return false;
        }
    }
    template <typename Call, typename T>
    answer run(Call call, const T *what, std::size_t n, const text_fn &on_text,
               const kt_gen_params &params) {
        hearer h{{}, on_text, nullptr};
        kt_request_report report{};
        kt_error err{};
        kt_status status = call(handle(), what, n, &params, hear, &h, &report, &err);
        if (h.thrown) std::rethrow_exception(h.thrown);
        if (status != KT_OK) throw error(err);
        return {std::move(h.text), report};
    }

    detail::owner<kt_seq, kt_seq_close> seq_;
};

/* Draws tokens from logits: accept every token of the prompt and of the answer, in order. */
class sampler {
  public:
    explicit sampler(const model &model, const kt_sampling &sampling = kt_sampling_default(),
                     std::int32_t n_ctx = 4096)
        : sampler_(detail::opened<kt_sampler>(kt_sampler_open, model.handle(), &sampling, n_ctx)) {}
    void accept(std::int32_t id) {
        detail::must(kt_sampler_accept, handle(), id);
    }
    void accept(const ids &tokens) {
        for (std::int32_t id : tokens) accept(id);
    }
    std::int32_t sample(const float *logits) {
        std::int32_t id;
        detail::must(kt_sampler_sample, handle(), logits, &id);
        return id;
    }
    void reset() {
        kt_sampler_reset(handle());
    }
    std::uint64_t seed() const {
        return kt_sampler_seed(handle());
    }
    kt_sampler *handle() const noexcept {
        return sampler_.get();
    }

  private:
    detail::owner<kt_sampler, kt_sampler_close> sampler_;
};

} // namespace kentang

#endif
