/* kentang agent: a model that does a task with the help of tools. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "cli/agent_opts.h"
#include "setup/answer_opts.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { MAX_TASK_BYTES = 16 << 20 };

typedef struct agent_cmd {
    const char *task, *system;
    bool quiet;
} agent_cmd;

#define AT(member) offsetof(agent_cmd, member)

static const kt__opt task_table[] = {
    {.name = "prompt",
     .brief = "p",
     .kind = KT__OPT_TEXT,
     .at = AT(task),
     .arg = "TASK",
     .help = "the task (default: standard input; on a terminal, one after the other)"},
    {.name = "system",
     .brief = "sys",
     .kind = KT__OPT_TEXT,
     .at = AT(system),
     .arg = "TEXT",
     .help = "system message, before the tools"},
    {.name = "quiet",
     .brief = "q",
     .kind = KT__OPT_ON,
     .at = AT(quiet),
     .help = "on standard error only errors and questions"},
};

/* The task from standard input where it is no terminal; *text is for kt__free. */
static kt_status read_task(agent_cmd *cmd, char **text, kt_error *err) {
    size_t len;
    if (cmd->task || kt__fd_is_terminal(KT__STDIN)) return KT_OK;
    kt_status status = kt__cli_read_file("-", MAX_TASK_BYTES, text, &len, err);
    if (status != KT_OK) return status;
    while (len && (*text)[len - 1] == '\n') (*text)[--len] = '\0';
    if (!len) return kt__fail(err, KT_E_ARG, "there is no task: give one with -p");
    cmd->task = *text;
    return KT_OK;
}

static int run_agent(agent_cmd *cmd, kt__agent_opts *agent, kt__session_opts *session_opts,
                     kt__sampling_opts *sampling) {
    kt__session session = {0};
    char *text = NULL;
    kt_error err = {0};
    kt_status status;
    int code = 0;
    agent->quiet = cmd->quiet;
    KT__TRY(kt__sampling_opts_finish(sampling, &err));
    KT__TRY(read_task(cmd, &text, &err));
    KT__TRY(kt__session_open(session_opts, &session, &err));
    if (!session.info.template_)
        KT__TRY(kt__fail(&err, KT_E_UNSUPPORTED,
                         "this model has no chat template: an agent needs a model that talks"));
    if (!cmd->quiet) kt__session_print_plan(&session, session_opts, 0);
    code = kt__agent_work("agent", &session, agent, &sampling->params, cmd->system, cmd->task);
out:
    if (status != KT_OK) code = kt__cli_fail("agent", &err);
    kt__session_close(&session);
    kt__free(text);
    return code;
}

static int agent_command(int argc, char **argv, kt__config *config) {
    agent_cmd cmd = {0};
    kt__agent_opts agent = kt__agent_opts_default();
    kt__session_opts session = {.config = config};
    kt__sampling_opts sampling = kt__sampling_opts_default();
    const kt__opt_group groups[] = {
        {"Task", task_table, KT__COUNT(task_table), &cmd},
        kt__agent_opts_group(&agent),
        kt__sampling_opts_length_group(&sampling),
        kt__session_opts_group(&session),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_DRAFT),
        kt__lora_opts_group(&session.lora),
        kt__setting_opts(config, KT__OPTIONS_CACHE),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
        kt__sampling_opts_group(&sampling),
    };
    const kt__syntax syntax = {
        .command = "agent",
        .usage = "[MODEL | -m MODEL] [--mcp FILE] [-p TASK] [OPTIONS]",
        .about =
            "Does a task with the help of tools: of servers that speak the Model Context "
            "Protocol, and of our own.\n"
            "Each call is shown and asked about, unless it is allowed; without a terminal only "
            "allowed ones are made.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes = "Examples:\n"
                 "  kentang agent --tools clock,calculator -p \"What is 17 times 23?\"\n"
                 "  kentang agent -m model.gguf --mcp servers.json --allow 'files__read*'",
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code < 0) code = run_agent(&cmd, &agent, &session, &sampling);
    kt__sampling_opts_free(&sampling);
    kt__agent_opts_free(&agent);
    kt__lora_opts_free(&session.lora);
    return code;
}

int kt__cmd_agent(int argc, char **argv) {
    return kt__with_settings(argc, argv, agent_command);
}
