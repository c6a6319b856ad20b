/* kentang convert: makes a GGUF file of a Hugging Face folder. */
#include "convert/convert.h"

#include <stdio.h>

#include "synth/write_options.h"
#include "term/cli.h"
#include "term/options.h"

struct convert_opts {
    const char *type, *output;
    kt__write_opts write;
};

static const kt__opt convert_table[] = {
    {.name = "type",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct convert_opts, type),
     .arg = "NAME",
     .help = "type or recipe of the weights (default: as the source has them); the list is below"},
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct convert_opts, output),
     .arg = "FILE",
     .help = "the GGUF file, instead of OUT.gguf after the folder"},
};

static int convert_folder(const struct convert_opts *opts, const kt__recipe *recipe,
                          const char *const words[2]) {
    kt__byte_progress progress = {0};
    kt__convert_report report;
    kt_error err;
    const kt__convert_output output = kt__write_output("convert", words[1], &opts->write,
                                                       &progress);
    kt_status status = kt__convert_folder(words[0], recipe, &output, &report, &err);
    return kt__write_end("convert", words[1], &progress, status, &report, &err);
}

int kt__cmd_convert(int argc, char **argv) {
    struct convert_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", convert_table, KT__COUNT(convert_table), &opts},
                                    kt__write_group(&opts.write)};
    char notes[1024];
    size_t used = kt__write_list_names(notes, sizeof notes, "Types", kt__recipe_count(),
                                       kt__write_recipe_name);
    snprintf(
        notes + used, sizeof notes - used,
        "\nA run that was killed resumes where it stopped when it is started again: the work is "
        "in OUT.gguf.part.\n"
        "Example: kentang convert ./Qwen2.5-1.5B-Instruct qwen.gguf --type q4_k_m\n");
    const kt__syntax syntax = {
        .command = "convert",
        .usage = "[OPTIONS] FOLDER (OUT.gguf | -o OUT.gguf)",
        .about =
            "Reads config.json, the safetensors files and the tokenizer of a Hugging Face\n"
            "folder, and writes one GGUF file. Nothing in the folder is run or changed; a file\n"
            "that is damaged or says what GGUF cannot express is refused by name.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 1,
        .max_words = 2,
        .word = "FOLDER or OUT.gguf",
        .notes = notes};
    const char *words[2] = {NULL, NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    if ((n_words == 2) == (opts.output != NULL))
        return kt__cli_usage_error("convert",
                                   opts.output ? "OUT.gguf is given twice: with -o and after FOLDER"
                                               : "expected OUT.gguf after FOLDER, or -o OUT.gguf");
    if (opts.output) words[1] = opts.output;
    const kt__recipe *recipe = opts.type ? kt__recipe_find(opts.type) : NULL;
    if (opts.type && !recipe) return kt__write_unknown_recipe("convert", opts.type);
    return convert_folder(&opts, recipe, words);
}
