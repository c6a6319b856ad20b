#include "cli/launch_programs.h"

#include <string.h>

#include "base/json.h"

/* Half an hour: a prompt of 20,000 tokens takes longer than the usual minutes on two cores. */
#define LONG_MS "1800000"

static const kt__launch_program programs[] = {
    {.name = "claude",
     .command = "claude",
     .install = "npm install -g @anthropic-ai/claude-code",
     .variables =
         {{"ANTHROPIC_BASE_URL", "%U"},
          {"ANTHROPIC_AUTH_TOKEN", "%K"},
          {"ANTHROPIC_API_KEY", NULL},
          {"ANTHROPIC_MODEL", "%M"},
          {"ANTHROPIC_DEFAULT_OPUS_MODEL", "%M"},
          {"ANTHROPIC_DEFAULT_SONNET_MODEL", "%M"},
          {"ANTHROPIC_DEFAULT_HAIKU_MODEL", "%M"},
          {"CLAUDE_CODE_SUBAGENT_MODEL", "%M"},
          /* a line that changes with each request would come before all that was computed */
          {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},
          {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
          {"CLAUDE_CODE_AUTO_COMPACT_WINDOW", "%C"},
          {"API_TIMEOUT_MS", LONG_MS},
          {"CLAUDE_STREAM_IDLE_TIMEOUT_MS", LONG_MS},
          {"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", LONG_MS}}},
    {.name = "codex",
     .command = "codex",
     .install = "npm install -g @openai/codex",
     .variables = {{"KENTANG_API_KEY", "%K"}},
     .arguments =
         {"-c", "model_provider=\"kentang\"", "-c", "model=\"%m\"", "-c",
          "model_providers.kentang={name=\"kentang\",base_url=\"%U/v1\",wire_api=\"responses\","
          "env_key=\"KENTANG_API_KEY\",stream_idle_timeout_ms=" LONG_MS "}",
          "-c", "model_context_window=%C"}},
    {.name = "opencode",
     .command = "opencode",
     .install = "npm install -g opencode-ai",
     .variables =
         {{"OPENCODE_CONFIG_CONTENT",
           "{\"provider\":{\"kentang\":{\"npm\":\"@ai-sdk/openai-compatible\",\"name\":"
           "\"kentang\",\"options\":{\"baseURL\":\"%U/v1\",\"apiKey\":\"%k\",\"timeout\":" LONG_MS
           "},\"models\":{\"%m\":{\"limit\":{\"context\":%C,\"output\":%H}}}}},\"model\":"
           "\"kentang/%m\",\"small_model\":\"kentang/%m\"}"}}},
    {.name = "aider",
     .command = "aider",
     .install = "pip install aider-chat",
     .variables = {{"OPENAI_API_BASE", "%U/v1"}, {"OPENAI_API_KEY", "%K"}},
     .arguments = {"--model", "openai/%M", "--no-show-model-warnings", "--timeout", "1800"}},
    {.name = "pi",
     .command = "pi",
     .install = "npm install -g @mariozechner/pi-coding-agent",
     .variables = {{"PI_CODING_AGENT_DIR", "%D"}},
     .arguments = {"--provider", "kentang", "--model", "%M"},
     .file = "models.json",
     .content =
         "{\"providers\":{\"kentang\":{\"baseUrl\":\"%U/v1\",\"api\":\"openai-completions\",\"apiKey\":"
         "\"%k\",\"models\":[{\"id\":\"%m\",\"name\":\"%m\",\"reasoning\":false,\"input\":[\"text\"],"
         "\"cost\":{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0},\"contextWindow\":%C,"
         "\"maxTokens\":%H}]}}}\n"},
    {.name = "qwen-code",
     .command = "qwen",
     .install = "npm install -g @qwen-code/qwen-code",
     .variables = {{"OPENAI_BASE_URL", "%U/v1"}, {"OPENAI_API_KEY", "%K"}, {"OPENAI_MODEL", "%M"}},
     .arguments = {"--auth-type", "openai", "--model", "%M"}},
    {.name = "goose",
     .command = "goose",
     .install = "https://block.github.io/goose",
     .variables = {{"GOOSE_PROVIDER", "openai"},
                   {"GOOSE_MODEL", "%M"},
                   {"OPENAI_HOST", "%U"},
                   {"OPENAI_API_KEY", "%K"},
                   {"OPENAI_TIMEOUT", "1800"}},
     .alone = "session"},
};

const kt__launch_program *kt__launch_find(const char *name) {
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, name)) return &programs[i];
    return NULL;
}

static void put_fact(const kt__launch_facts *f, char what, kt__buf *out) {
    switch (what) {
    case 'U': (void)kt__buf_puts(out, f->url); break;
    case 'M': (void)kt__buf_puts(out, f->model); break;
    case 'K': (void)kt__buf_puts(out, f->key); break;
    case 'D': (void)kt__buf_puts(out, f->dir); break;
    case 'C': (void)kt__buf_printf(out, "%lld", (long long)f->context); break;
    case 'H': (void)kt__buf_printf(out, "%lld", (long long)(f->context / 2)); break;
    case 'm': kt__json_chars(out, f->model, strlen(f->model), KT__JSON_PLAIN); break;
    case 'k': kt__json_chars(out, f->key, strlen(f->key), KT__JSON_PLAIN); break;
    default: (void)kt__buf_putc(out, what);
    }
}

bool kt__launch_fill(const kt__launch_facts *facts, const char *text, kt__buf *out) {
    kt__buf_clear(out);
    for (; *text; text++) {
        if (*text == '%' && text[1]) {
            put_fact(facts, *++text, out);
        } else {
            (void)kt__buf_putc(out, *text);
        }
    }
    return kt__buf_puts(out, "") && !out->failed;
}
