/* The forward pass against a plain double-precision evaluation of the same small models, and the
 * refusals of models that lack or spoil a tensor. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/dispatch.h"
#include "model/forward.h"
#include "model/rope.h"
#include "model_fixture.h"
#include "plain_forward.h"

enum { N_TOK = PLAIN_TOK };

static const fixture_spec specs[] = {
    {.arch = "llama",
     .n_layer = 2,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50},
    {.arch = "qwen2",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 4,
     .head_dim = 8,
     .n_vocab = 37,
     .qkv_bias = true,
     .tied = true},
    {.arch = "qwen3",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true,
     .tied = true},
    {.arch = "gemma2",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 96,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 41,
     .post_norm = true,
     .tied = true,
     .window = 20},
    {.arch = "gemma3",
     .n_layer = 6,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 41,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 9},
    {.arch = "mamba",
     .n_layer = 2,
     .d_model = 32,
     .n_head = 1,
     .n_head_kv = 1,
     .head_dim = 2,
     .n_vocab = 41,
     .conv_width = 4,
     .attention_every = 99,
     .ff_every = 99,
     .step_rank = 6,
     .n_state_value = 48,
     .state_dim = 16,
     .state_rows = 1},
    {.arch = "mamba2",
     .n_layer = 2,
     .d_model = 32,
     .n_head = 1,
     .n_head_kv = 1,
     .head_dim = 2,
     .n_vocab = 41,
     .conv_width = 4,
     .attention_every = 99,
     .ff_every = 99,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .state_rows = 12},
    {.arch = "bitnet",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 41,
     .tied = true,
     .sub_norms = true},
    {.arch = "gemma3n",
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .local_head_kv = 2,
     .local_head_dim = 8,
     .scales = {0.0f, 0.0f, 0.25f, 0.0f},
     .n_kv_shared = 2,
     .layer_input = 8,
     .n_stream = 4,
     .low = 6,
     .n_pattern = 5,
     .n_vocab = 41,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 9},
    {.arch = "gemma4",
     .n_layer = 6,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 1,
     .head_dim = 16,
     .local_head_kv = 2,
     .local_head_dim = 12,
     .scales = {0.0f, 0.0f, 0.25f, 0.0f},
     .n_kv_shared = 2,
     .ff_shared_kv = 96,
     .layer_input = 8,
     .n_pattern = 6,
     .n_vocab = 41,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 9},
    {.arch = "gemma4",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 1,
     .head_dim = 8,
     .local_head_kv = 2,
     .local_head_dim = 4,
     .k_is_v = true,
     .branches = true,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 24,
     .n_pattern = 4,
     .n_vocab = 41,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 9},
    {.arch = "phi3",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .fused = true,
     .window = 33},
    {.arch = "madeup", /* a row in arch.def is all there is of it: tests/new_arch */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true,
     .qkv_bias = true,
     .window = 20},
    {.arch = "llama",
     .n_layer = 2,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50,
     .all_bias = true},
    {.arch = "qwen2",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 300, /* more than one unit of a glu, and a rest */
     .n_head = 4,
     .n_head_kv = 4,
     .head_dim = 8,
     .n_vocab = 37,
     .tied = true,
     .all_bias = true},
    {.arch = "gemma2",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 96,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 41,
     .post_norm = true,
     .tied = true,
     .all_bias = true},
    {.arch = "phi3",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .fused = true,
     .all_bias = true},
    {.arch = "ernie4_5",
     .n_layer = 2,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 50,
     .tied = true},
    {.arch = "glm4",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_rot = 8,
     .n_vocab = 37,
     .post_norm = true,
     .fused_glu = true,
     .qkv_bias = true},
    {.arch = "granite",
     .n_layer = 2,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50,
     .tied = true,
     .scales = {6.0f, 0.22f, 0.2f, 4.0f}},
    {.arch = "granite",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .no_rope = true,
     .scales = {0, 0, 0, 2.0f}},
    {.arch = "hunyuan-dense",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true,
     .tied = true},
    {.arch = "mistral3",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .temperature = 0.4f},
    {.arch = "exaone4",
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 41,
     .qk_norm = true,
     .post_norm = true,
     .no_pre_norm = true,
     .window = 20},
    {.arch = "exaone4",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 41,
     .qk_norm = true,
     .post_norm = true,
     .no_pre_norm = true,
     .n_pattern = 3,
     .window = 20},
    {.arch = "olmo2",
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 41,
     .qk_norm_rows = true,
     .post_norm = true,
     .no_pre_norm = true,
     .window = 20},
    {.arch = "command-r",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 41,
     .parallel = true,
     .layer_norm = true,
     .tied = true,
     .scales = {0, 0, 0, 0.125f}},
    {.arch = "cohere2",
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 41,
     .parallel = true,
     .layer_norm = true,
     .tied = true,
     .scales = {0, 0, 0, 0.5f},
     .window = 20},
    {.arch = "qwen3moe",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40},
    {.arch = "qwen3moe", /* the other form of the same, one expert, more rows than a unit */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true,
     .n_expert = 4,
     .n_used = 1,
     .fused_experts = true,
     .ff_expert = 300},
    {.arch = "qwen2moe",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 4,
     .head_dim = 8,
     .n_vocab = 37,
     .qkv_bias = true,
     .n_expert = 5,
     .n_used = 2,
     .ff_expert = 24,
     .ff_shared = 72},
    {.arch = "olmoe", /* every expert, and each of them many tokens */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 4,
     .head_dim = 8,
     .n_vocab = 37,
     .qk_norm_rows = true,
     .n_expert = 3,
     .n_used = 3,
     .ff_expert = 64},
    {.arch = "gpt-oss",
     .n_layer = 3,
     .d_model = 48,
     .d_ff = 40,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_vocab = 37,
     .qkv_bias = true,
     .oai = true,
     .window = 20,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40},
    {.arch = "smollm3", /* layer 3 is not rotated */
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .tied = true},
    {.arch = "lfm2", /* layers 0, 1 and 3 are short convolutions */
     .n_layer = 5,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .tied = true,
     .qk_norm = true,
     .conv_width = 3,
     .attention_every = 3},
    {.arch = "qwen35",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_rot = 8,
     .n_vocab = 37,
     .tied = true,
     .qk_norm = true,
     .conv_width = 4,
     .attention_every = 3,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16},
    {.arch = "qwen35moe",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 37,
     .qk_norm = true,
     .conv_width = 2,
     .attention_every = 2,
     .n_state_key = 1,
     .n_state_value = 3,
     .state_dim = 32,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 24},
    {.arch = "qwen3next",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 37,
     .qk_norm = true,
     .conv_width = 2,
     .attention_every = 2,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .delta_grouped = true,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 24},
    {.arch = "lfm2moe", /* layer 0 has no experts */
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 96,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .tied = true,
     .qk_norm = true,
     .conv_width = 3,
     .attention_every = 3,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40,
     .gating = 2,
     .pick_bias = true,
     .dense_lead = 1},
    {.arch = "granitemoe",
     .n_layer = 2,
     .d_model = 48,
     .d_ff = 40,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50,
     .tied = true,
     .scales = {6.0f, 0.22f, 0.2f, 4.0f},
     .n_expert = 5,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 56,
     .shared_whole = true},
    {.arch = "ernie4_5-moe",
     .n_layer = 3,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_vocab = 50,
     .tied = true,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 80,
     .shared_whole = true,
     .pick_bias = true,
     .dense_lead = 1},
    {.arch = "ernie4_5-moe", /* without a shared expert or a bias, of 2 of 3 groups */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 40,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .n_expert = 9,
     .n_used = 3,
     .ff_expert = 300,
     .n_group = 3,
     .n_group_used = 2},
    {.arch = "llama4",
     .n_layer = 5,
     .d_model = 48,
     .d_ff = 80,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50,
     .window = 20,
     .temperature = 0.3f,
     .key = "attention.temperature_length",
     .key_value = 16,
     .n_expert = 5,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .gating = 2,
     .expert_step = 2},
    {.arch = "llama4", /* heads that are not normed; chunks and temperature as no key says them */
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .n_expert = 128,
     .n_used = 1,
     .ff_expert = 16,
     .ff_shared = 16,
     .shared_whole = true},
    {.arch = "llama4", /* rotated everywhere */
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .window = -1,
     .n_expert = 3,
     .n_used = 1,
     .ff_expert = 24,
     .ff_shared = 24,
     .shared_whole = true},
    {.arch = "granitehybrid", /* layers 0, 1 and 3 are Mamba-2 */
     .n_layer = 4,
     .d_model = 48,
     .d_ff = 40,
     .n_head = 6,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 50,
     .tied = true,
     .no_rope = true,
     .scales = {6.0f, 0.22f, 0.2f, 4.0f},
     .conv_width = 4,
     .attention_every = 3,
     .n_state_key = 1,
     .n_state_value = 3,
     .state_dim = 32,
     .state_rows = 20,
     .n_expert = 5,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 56,
     .shared_whole = true},
    {.arch = "granitehybrid", /* without experts, with rotation */
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 80,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .scales = {0, 0, 0, 2.0f},
     .conv_width = 3,
     .attention_every = 2,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .state_rows = 16},
    {.arch =
         "nemotron_h", /* Mamba-2, feed-forward, attention, feed-forward, Mamba-2, feed-forward */
     .n_layer = 6,
     .d_model = 32,
     .d_ff = 300,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .relu2 = true,
     .ff_every = 2,
     .conv_width = 4,
     .attention_every = 3,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .state_rows = 12},
    {.arch = "nemotron_h_moe",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 40,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .relu2 = true,
     .ff_every = 2,
     .conv_width = 4,
     .attention_every = 3,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .state_rows = 12,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 300,
     .ff_shared = 40,
     .shared_whole = true,
     .pick_bias = true,
     .gating = 2,
     .shares_normed = true},
    {.arch = "falcon-h1",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_vocab = 37,
     .tied = true,
     .conv_width = 4,
     .n_state_key = 1,
     .n_state_value = 4,
     .state_dim = 16,
     .state_rows = 12,
     .both = true},
    {.arch = "deepseek2",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 1,
     .head_dim = 20,
     .n_rot = 8,
     .kv_rank = 24,
     .head_dim_v = 12,
     .n_vocab = 37,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 56,
     .shared_whole = true,
     .dense_lead = 1},
    {.arch = "deepseek2", /* queries out of a latent row, too */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_rot = 4,
     .kv_rank = 40,
     .head_dim_v = 20,
     .q_rank = 24,
     .n_vocab = 37,
     .n_expert = 8,
     .n_used = 3,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .gating = 2,
     .pick_bias = true,
     .shares_normed = true,
     .n_group = 4,
     .n_group_used = 2},
    {.arch = "qwen35",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_rot = 8,
     .n_vocab = 37,
     .tied = true,
     .qk_norm = true,
     .conv_width = 4,
     .attention_every = 3,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .n_mtp = 1},
    {.arch = "qwen35moe",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 37,
     .qk_norm = true,
     .conv_width = 2,
     .attention_every = 2,
     .n_state_key = 1,
     .n_state_value = 3,
     .state_dim = 32,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 24,
     .n_mtp = 1,
     .mtp_ends = true},
    {.arch = "qwen3next",
     .n_layer = 3,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 37,
     .qk_norm = true,
     .conv_width = 2,
     .attention_every = 2,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .delta_grouped = true,
     .n_expert = 6,
     .n_used = 2,
     .ff_expert = 40,
     .ff_shared = 24,
     .n_mtp = 1},
    {.arch = "deepseek2",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_rot = 4,
     .kv_rank = 40,
     .head_dim_v = 20,
     .q_rank = 24,
     .n_vocab = 37,
     .n_expert = 8,
     .n_used = 3,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .gating = 2,
     .pick_bias = true,
     .shares_normed = true,
     .n_group = 4,
     .n_group_used = 2,
     .n_mtp = 1},
    {.arch = "qwen2vl",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qkv_bias = true},
    {.arch = "qwen3vl",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .qk_norm = true},
    {.arch = "qwen3vlmoe",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40,
     .qk_norm = true},
    {.arch = "hunyuan-moe",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .qk_norm = true},
    {.arch = "glm4moe", /* the larger size: with norms of heads, without biases */
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .gating = 2,
     .pick_bias = true,
     .shares_normed = true,
     .dense_lead = 1,
     .renamed = true,
     .n_rot = 10,
     .qk_norm = true},
    {.arch = "glm4moe",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 64,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_vocab = 37,
     .n_expert = 7,
     .n_used = 3,
     .ff_expert = 40,
     .ff_shared = 40,
     .shared_whole = true,
     .gating = 2,
     .pick_bias = true,
     .shares_normed = true,
     .dense_lead = 1,
     .renamed = true,
     .n_rot = 10,
     .qkv_bias = true,
     .n_mtp = 1},
};

/* ---- the library ---- */

typedef struct lib {
    kt__gguf *gguf;
    kt__net *net;
    kt__pool *pool;
    kt__kv *kv;
    kt__kv_table table;
    kt__fwd *fwd;
} lib;

static char path[64];

static kt_status lib_bind(const fixture_spec *s, lib *l, kt_error *err) {
    *l = (lib){0};
    snprintf(path, sizeof path, "/tmp/kentang-model-%d.gguf", (int)getpid());
    assert_int_equal(fixture_write(s, path, err), KT_OK);
    kt__gguf_open_params op = {.use_mmap = true};
    assert_int_equal(kt__gguf_open(path, &op, &l->gguf, err), KT_OK);
    return kt__net_bind(l->gguf, NULL, &l->net, err);
}

static void lib_close(lib *l) {
    kt__fwd_destroy(l->fwd);
    if (l->kv) kt__kv_table_free(l->kv, &l->table);
    kt__kv_destroy(l->kv);
    kt__pool_destroy(l->pool);
    kt__net_free(l->net);
    kt__gguf_close(l->gguf);
    unlink(path);
}

static const kt__kernels *reference_kernels(void) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    const kt__kernels *kernels;
    kt__cpu_detect(&cpu);
    assert_int_equal(kt__kernels_select(&cpu, "ref", &kernels, why, sizeof why, &err), KT_OK);
    return kernels;
}

static void lib_start(lib *l) {
    kt_error err;
    const kt__kernels *kernels = reference_kernels();
    assert_int_equal(kt__pool_create(2, &l->pool, &err), KT_OK);
    kt__kv_shape shape = kt__net_kv_shape(l->net);
    shape.n_layer += l->net->mtp != NULL;
    assert_int_equal(kt__kv_create(&shape, 16, &l->kv, &err), KT_OK);
    assert_int_equal(kt__kv_table_init(&l->table, 128, &err), KT_OK);
    kt__fwd_params fp = {.n_tok_max = N_TOK,
                         .n_out_max = N_TOK,
                         .n_ctx = 128,
                         .mtp = l->net->mtp != NULL,
                         .states = true};
    assert_int_equal(kt__fwd_create(l->net, l->pool, kernels, &fp, &l->fwd, &err), KT_OK);
}

/* One batch of all tokens, stopped after every layer by a deadline that has passed. */
static kt_status lib_run(lib *l, const int32_t *ids, int n, kt_error *err) {
    int32_t rows[N_TOK];
    for (int i = 0; i < n; i++) rows[i] = i;
    assert_int_equal(kt__kv_table_grow(l->kv, &l->table, 0, n, err), KT_OK);
    kt__seg seg = {.table = &l->table, .n_tok = n};
    const float *before = NULL;
    kt__batch batch = {.n_tok = n,
                       .ids = ids,
                       .segs = &seg,
                       .n_seg = 1,
                       .out_rows = rows,
                       .n_out = n,
                       .before = &before};
    kt__stop_at stop = {.deadline_us = INT64_MAX};
    kt__fwd_begin(l->fwd, &batch, l->kv, 2);
    bool done = false;
    return kt__fwd_run(l->fwd, &stop, &done, err);
}

static void test_forward_is_right(void **state) {
    static double want[MAX_DIM];
    const fixture_spec *s = *state;
    kt_error err;
    lib l;
    plain p;
    int32_t ids[N_TOK];
    for (int i = 0; i < N_TOK; i++) ids[i] = (i * 7 + 3) % s->n_vocab;
    if (lib_bind(s, &l, &err) != KT_OK) fail_msg("%s", err.message);
    lib_start(&l);
    if (lib_run(&l, ids, N_TOK, &err) != KT_OK) fail_msg("%s", err.message);
    plain_init(&p, s);
    p.f16_kv = true;
    for (int t = 0; t < N_TOK; t++) {
        plain_token(&p, ids[t], t, want);
        const float *got = kt__fwd_logits(l.fwd, t);
        for (int i = 0; i < s->n_vocab; i++) {
            /* f16 keys and values are what differs most from double: attention's are rounded, latent ones
             * are not */
            if (fabs((double)got[i] - want[i]) >
                (s->kv_rank ? 4e-3 : 15e-4) * (1.0 + fabs(want[i]))) {
                fail_msg("%s: token %d, logit %d is %g, expected %g", s->arch, t, i, (double)got[i],
                         want[i]);
            }
        }
    }
    plain_free(&p);
    lib_close(&l);
}

/* n rows from position pos on, of the layers or (one row) of the block, after the state before them. */
static void run_head_rows(lib *l, const int32_t *ids, int pos, int n, const float *before,
                          bool block, int n_head_rows) {
    kt_error err;
    int32_t last = n - 1;
    bool done = false;
    kt__seg seg = {.table = &l->table, .pos0 = pos, .n_tok = n};
    kt__batch batch = {.n_tok = n,
                       .ids = ids,
                       .segs = &seg,
                       .n_seg = 1,
                       .out_rows = &last,
                       .n_out = 1,
                       .before = &before,
                       .mtp = block,
                       .n_head_rows = n_head_rows};
    kt__seg_state after = {n, l->table.next};
    kt__stop_at stop = {.deadline_us = INT64_MAX};
    if (!block && kt__kv_has_states(l->kv)) {
        assert_int_equal(kt__kv_table_grow(l->kv, &l->table, pos, pos + n, &err), KT_OK);
        after.piece = l->table.next;
        l->table.next = KT__NO_STATE;
        seg.states = &after;
        seg.n_states = 1;
    }
    kt__fwd_begin(l->fwd, &batch, l->kv, 2);
    if (kt__fwd_run(l->fwd, &stop, &done, &err) != KT_OK) fail_msg("%s", err.message);
    assert_true(done);
    if (seg.n_states) kt__kv_table_set_state(l->kv, &l->table, after.piece, pos + n);
}

static void run_from(lib *l, const int32_t *ids, int pos, int n, const float *before, bool block) {
    run_head_rows(l, ids, pos, n, before, block, 0);
}

/* A proposal from the head's first rows: they have the logits that they have among all. */
static void expect_first_rows(lib *l, const int32_t *id, int pos, const float *before, bool block) {
    enum { ROWS = 17 };
    float all[ROWS];
    run_from(l, id, pos, 1, before, block);
    memcpy(all, kt__fwd_logits(l->fwd, 0), sizeof all);
    run_head_rows(l, id, pos, 1, before, block, ROWS);
    assert_memory_equal(kt__fwd_logits(l->fwd, 0), all, sizeof all);
}

static void expect_near(const fixture_spec *s, const float *got, const double *want, int depth) {
    for (int i = 0; i < s->n_vocab; i++)
        if (fabs((double)got[i] - want[i]) > 4e-3 * (1.0 + fabs(want[i])))
            fail_msg("%s: proposal %d, logit %d is %g, expected %g", s->arch, depth, i,
                     (double)got[i], want[i]);
}

/* The block's keys and values of two batches, and what it proposes after them, each proposal from its own
 * state. */
static void test_proposals_are_right(void **state) {
    enum { FIRST = 40, ALL = 57, DEPTH = 3 };
    static double want[MAX_DIM];
    const fixture_spec *s = *state;
    kt_error err;
    lib l;
    plain p;
    int32_t ids[N_TOK];
    double x[MAX_DIM] = {0}, before[MAX_DIM] = {0};
    float carry[MAX_DIM];
    size_t bytes = (size_t)s->d_model * sizeof *carry;
    for (int i = 0; i < N_TOK; i++) ids[i] = (i * 7 + 3) % s->n_vocab;
    if (lib_bind(s, &l, &err) != KT_OK) fail_msg("%s", err.message);
    lib_start(&l);
    assert_int_equal(kt__kv_table_grow(l.kv, &l.table, 0, N_TOK, &err), KT_OK);
    run_from(&l, ids, 0, FIRST, NULL, false);
    memcpy(carry, kt__fwd_state(l.fwd, FIRST - 1), bytes);
    run_from(&l, ids + FIRST, FIRST, ALL - FIRST, carry, false);
    memcpy(carry, kt__fwd_state(l.fwd, ALL - FIRST - 1), bytes);
    plain_init(&p, s);
    p.f16_kv = true;
    for (int t = 0; t < ALL; t++) {
        plain_mtp(&p, ids[t], t, before, want); /* its keys and values */
        plain_token_state(&p, ids[t], t, x, want);
        memcpy(before, x, sizeof x);
    }
    for (int i = 0; i < DEPTH; i++) {
        run_from(&l, &ids[ALL + i], ALL + i, 1, carry, true);
        memcpy(carry, kt__fwd_hidden(l.fwd, 0), bytes);
        plain_mtp(&p, ids[ALL + i], ALL + i, before, want);
        expect_near(s, kt__fwd_logits(l.fwd, 0), want, i);
    }
    expect_first_rows(&l, &ids[ALL + DEPTH], ALL + DEPTH, carry, true);
    plain_free(&p);
    lib_close(&l);
}

/* ---- an assistant ---- */

static const fixture_spec assistant = {.arch = "gemma4-assistant",
                                       .n_layer = 4,
                                       .d_model = 24,
                                       .d_ff = 40,
                                       .n_head = 4,
                                       .n_head_kv = 1,
                                       .head_dim = 16,
                                       .local_head_kv = 2,
                                       .local_head_dim = 12,
                                       .scales = {0.0f, 0.0f, 0.25f, 0.0f},
                                       .n_kv_shared = 4,
                                       .n_pattern = 4,
                                       .n_vocab = 41,
                                       .post_norm = true,
                                       .qk_norm = true,
                                       .tied = true,
                                       .window = 9,
                                       .d_host = 32};

static const fixture_spec *spec_of(const char *arch) {
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (strcmp(specs[i].arch, arch) == 0) return &specs[i];
    fail_msg("no %s", arch);
    return NULL;
}

static void start_assistant(const fixture_spec *of, lib *a, const lib *host) {
    kt_error err;
    const kt__fwd_params fp = {.n_tok_max = 2, .n_out_max = 2, .n_ctx = 128, .host = host->net};
    if (lib_bind(of, a, &err) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(kt__net_check_host(a->net, host->net, &err), KT_OK);
    assert_int_equal(kt__fwd_create(a->net, host->pool, reference_kernels(), &fp, &a->fwd, &err),
                     KT_OK);
}

/* Each proposal reads what the model has computed of the text, at the position after it. */
static void expect_right(const fixture_spec *of) {
    enum { ALL = 57, DEPTH = 3 };
    static double want[MAX_DIM];
    const fixture_spec *s = spec_of("gemma4");
    kt_error err;
    lib l, a;
    plain p, own;
    int32_t ids[N_TOK];
    double x[MAX_DIM] = {0};
    float carry[MAX_DIM];
    for (int i = 0; i < N_TOK; i++) ids[i] = (i * 7 + 3) % s->n_vocab;
    if (lib_bind(s, &l, &err) != KT_OK) fail_msg("%s", err.message);
    lib_start(&l);
    assert_int_equal(kt__kv_table_grow(l.kv, &l.table, 0, ALL, &err), KT_OK);
    run_from(&l, ids, 0, ALL, NULL, false);
    memcpy(carry, kt__fwd_state(l.fwd, ALL - 1), sizeof carry[0] * (size_t)s->d_model);
    start_assistant(of, &a, &l);
    plain_init(&p, s);
    plain_init(&own, of);
    own.host = &p;
    p.f16_kv = true;
    for (int t = 0; t < ALL; t++) plain_token_state(&p, ids[t], t, x, want);
    for (int i = 0; i < DEPTH; i++) {
        a.table = l.table;
        a.kv = l.kv;
        run_from(&a, &ids[ALL + i], ALL, 1, carry, false);
        memcpy(carry, kt__fwd_hidden(a.fwd, 0), sizeof carry[0] * (size_t)s->d_model);
        plain_assistant(&own, ids[ALL + i], ALL, x, want);
        expect_near(of, kt__fwd_logits(a.fwd, 0), want, i);
    }
    expect_first_rows(&a, &ids[ALL + DEPTH], ALL, carry, false);
    plain_free(&p);
    plain_free(&own);
    a.kv = NULL;
    lib_close(&a);
    lib_close(&l);
}

static void test_an_assistant_is_right(void **state) {
    (void)state;
    fixture_spec first = assistant; /* with the names that the first files have */
    first.arch = "gemma4_assistant";
    expect_right(&assistant);
    expect_right(&first);
}

static void test_assistants_of_others_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arch; /* of the model */
        int d_host, window, head_dim, local_head_kv;
        const char *says;
    } cases[] = {
        {"gemma4", 32, 9, 16, 2, NULL},
        {"gemma4", 24, 9, 16, 2, "rows of 24, and the model's is 32"},
        {"gemma4", 32, 8, 16, 2, "window of 8"},
        {"gemma4", 32, 9, 8, 2, "key length of 8"},
        {"gemma4", 32, 9, 16, 1, "key heads 1"},
        {"gemma3", 32, 9, 16, 2, "the model is gemma3"},
        {"gemma3n", 32, 9, 16, 2, "the model is gemma3n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_spec s = assistant;
        kt_error err;
        lib l, a;
        s.d_host = cases[i].d_host;
        s.window = cases[i].window;
        s.head_dim = cases[i].head_dim;
        s.local_head_kv = cases[i].local_head_kv;
        assert_int_equal(lib_bind(spec_of(cases[i].arch), &l, &err), KT_OK);
        assert_int_equal(lib_bind(&s, &a, &err), KT_OK);
        kt_status status = kt__net_check_host(a.net, l.net, &err);
        assert_int_equal(status, cases[i].says ? KT_E_ARG : KT_OK);
        if (cases[i].says && !strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
        lib_close(&a);
        lib_close(&l);
    }
}

static void test_spoilt_assistants_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *skip, *misshape, *extra, *key;
        int key_value;
        const char *says;
    } cases[] = {
        {.skip = "nextn.pre_projection.weight", .says = "missing"},
        {.skip = "nextn.post_projection.weight", .says = "missing"},
        {.misshape = "nextn.pre_projection.weight", .says = "expected [64, 24]"},
        {.misshape = "nextn.post_projection.weight", .says = "expected [24, 32]"},
        {.skip = "blk.3.attn_q_norm.weight", .says = "missing"},
        {.extra = "blk.0.ffn_gate_inp.weight", .says = "no place"},
        {.key = "embedding_length_out", .key_value = 1 << 30, .says = "length_out' is 1073741824"},
        {.key = "nextn_predict_layers", .key_value = 3, .says = "predict_layers' is 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_spec s = assistant;
        kt_error err;
        lib l;
        s.skip = cases[i].skip;
        s.misshape = cases[i].misshape;
        s.extra = cases[i].extra;
        s.key = cases[i].key;
        s.key_value = cases[i].key_value;
        assert_int_not_equal(lib_bind(&s, &l, &err), KT_OK);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
        lib_close(&l);
    }
}

static void test_spoilt_models_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *tensor;
        int how;
        kt_status status;
        const char *says;
    } cases[] = {
        {"rope.dimension_sections", 5, KT_E_UNSUPPORTED, "by sections"},
        {"attention.sliding_window_pattern", 6, KT_E_FORMAT, "has 1 elements"},
        {"blk.1.attn_k.weight", 0, KT_E_FORMAT, "missing"},
        {"output_norm.weight", 0, KT_E_FORMAT, "missing"},
        {"blk.0.ffn_norm.weight", 1, KT_E_FORMAT, "shape"},
        {"blk.0.ffn_down.weight", 1, KT_E_FORMAT, "shape"},
        {"token_embd.weight", 2, KT_E_UNSUPPORTED, "I8"},
        {"blk.1.attn_norm.weight", 2, KT_E_UNSUPPORTED, "I8"},
        {"blk.1.attn_q_norm.weight", 3, KT_E_UNSUPPORTED, "no place in the llama"},
        {"blk.0.post_attention_norm.weight", 3, KT_E_UNSUPPORTED, "no place"},
        {"blk.0.attn_q.scale", 3, KT_E_UNSUPPORTED, "no place"},
        {"blk.2.attn_norm.weight", 3, KT_E_UNSUPPORTED, "no place"},
        {"blk.01.attn_norm.weight", 3, KT_E_UNSUPPORTED, "no place"},
        {"output_norm.bias", 3, KT_E_UNSUPPORTED, "no place"},
        {"output.bias", 3, KT_E_FORMAT, "shape"},
        {"blk.0.attn_rot_embd.weight", 3, KT_OK, NULL},
        {"unheard-of", 4, KT_E_UNSUPPORTED, "is not supported; docs/MODELS.md"},
        {"mmproj", 7, KT_E_UNSUPPORTED, "the model's own file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_spec s = specs[0];
        kt_error err;
        lib l;
        if (cases[i].how == 4) s.arch = "unheard-of";
        if (cases[i].how == 7) s.arch = "clip";
        if (cases[i].how == 6) {
            s.arch = "gemma3";
            s.n_pattern = 1;
        }
        if (cases[i].how == 5) s.key = cases[i].tensor;
        if (cases[i].how < 4)
            *(cases[i].how == 0   ? &s.skip
              : cases[i].how == 1 ? &s.misshape
              : cases[i].how == 2 ? &s.mistype
                                  : &s.extra) = cases[i].tensor;
        assert_int_equal(lib_bind(&s, &l, &err), cases[i].status);
        assert_int_equal(l.net != NULL, cases[i].status == KT_OK);
        if (cases[i].says &&
            !(strstr(err.message, cases[i].tensor) && strstr(err.message, cases[i].says)))
            fail_msg("%s", err.message);
        lib_close(&l);
    }
}

static void test_spoilt_experts_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *skip, *misshape, *extra, *key;
        int key_value, n_expert, n_used;
        kt_status status;
        const char *says;
    } cases[] = {
        {.n_used = 6, .status = KT_E_FORMAT, .says = "expert_used_count' is 6, expected 1 to 5"},
        {.n_expert = 2000, .status = KT_E_FORMAT, .says = "expert_count' is 2000"},
        {.key = "expert_gating_func", .key_value = 2, .says = "expert_gating_func' is 2"},
        {.key = "expert_group_count", .key_value = 4, .says = "expert_group_count' is 4"},
        {.skip = "blk.1.ffn_gate_inp.weight", .status = KT_E_FORMAT, .says = "missing"},
        {.skip = "blk.0.ffn_up_exps.weight", .status = KT_E_FORMAT, .says = "one of the two"},
        {.skip = "blk.0.ffn_down_exps.weight", .status = KT_E_FORMAT, .says = "missing"},
        {.skip = "blk.0.ffn_gate_inp_shexp.weight", .status = KT_E_FORMAT, .says = "missing"},
        {.misshape = "blk.1.ffn_gate_exps.weight", .status = KT_E_FORMAT, .says = "[32, 24, 5]"},
        {.misshape = "blk.1.ffn_gate_inp.weight", .status = KT_E_FORMAT, .says = "[32, 5]"},
        {.extra = "blk.0.ffn_gate.weight", .says = "no place in the qwen2moe"},
        {.extra = "blk.0.exp_probs_b.bias", .says = "no place in the qwen2moe"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_spec s = {.arch = "qwen2moe", .n_layer = 2, .d_model = 32, .d_ff = 64, .n_head = 4};
        kt_error err;
        lib l;
        s.n_head_kv = 4;
        s.head_dim = 8;
        s.n_vocab = 20;
        s.qkv_bias = true;
        s.n_expert = cases[i].n_expert ? cases[i].n_expert : 5;
        s.n_used = cases[i].n_used ? cases[i].n_used : 2;
        s.ff_expert = 24;
        s.ff_shared = 40;
        s.skip = cases[i].skip;
        s.misshape = cases[i].misshape;
        s.extra = cases[i].extra;
        s.key = cases[i].key;
        s.key_value = cases[i].key_value;
        assert_int_equal(lib_bind(&s, &l, &err),
                         cases[i].status ? cases[i].status : KT_E_UNSUPPORTED);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
        lib_close(&l);
    }
}

static void test_spoilt_hybrids_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *skip, *misshape, *extra, *key;
        int key_value;
        bool conv;
        kt_status status;
        const char *says;
    } cases[] = {
        {.skip = "blk.0.ssm_conv1d.weight", .says = "missing"},
        {.skip = "blk.1.ssm_a", .says = "missing"},
        {.skip = "blk.2.attn_q_norm.weight", .says = "missing"},
        {.misshape = "blk.0.ssm_conv1d.weight", .says = "expected [4, 128]"},
        {.misshape = "blk.0.ssm_dt.bias", .says = "expected [4, 1]"},
        {.misshape = "blk.2.attn_q.weight", .says = "expected [32, 128]"},
        {.extra = "blk.0.attn_q_norm.weight", .status = KT_E_UNSUPPORTED, .says = "no place"},
        {.extra = "blk.2.ssm_norm.weight", .status = KT_E_UNSUPPORTED, .says = "no place"},
        {.key = "ssm.state_size", .key_value = 24, .says = "not a multiple of 16"},
        {.key = "ssm.state_size", .key_value = 512, .says = "ssm.state_size' is 512"},
        {.key = "ssm.group_count", .key_value = 3, .says = "not a multiple of ssm.group_count"},
        {.key = "ssm.inner_size", .key_value = 60, .says = "ssm.time_step_rank times"},
        {.key = "ssm.conv_kernel", .key_value = 17, .says = "ssm.conv_kernel' is 17"},
        {.key = "full_attention_interval", .key_value = 9, .says = "leaves no layer"},
        {.key = "attention.recurrent_layers", .key_value = 1, .says = "a flag for each layer"},
        {.conv = true, .skip = "blk.0.shortconv.conv.weight", .says = "missing"},
        {.conv = true, .skip = "token_embd_norm.weight", .says = "missing"},
        {.conv = true, .misshape = "blk.0.shortconv.in_proj.weight", .says = "expected [32, 96]"},
        {.conv = true, .key = "shortconv.l_cache", .key_value = 99, .says = "l_cache' is 99"},
        {.conv = true,
         .key = "attention.sliding_window",
         .key_value = 64,
         .status = KT_E_UNSUPPORTED,
         .says = "sliding_window' is 64"},
    };
    const fixture_spec *delta = NULL, *conv = NULL;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        if (strcmp(specs[i].arch, "qwen35") == 0) delta = &specs[i];
        if (strcmp(specs[i].arch, "lfm2") == 0) conv = &specs[i];
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_spec s = cases[i].conv ? *conv : *delta;
        kt_error err;
        lib l;
        s.skip = cases[i].skip;
        s.misshape = cases[i].misshape;
        s.extra = cases[i].extra;
        s.key = cases[i].key;
        s.key_value = cases[i].key_value;
        assert_int_equal(lib_bind(&s, &l, &err), cases[i].status ? cases[i].status : KT_E_FORMAT);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
        lib_close(&l);
    }
}

/* The first model of an architecture, with something spoilt. */
static void test_other_layers_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *arch, *skip, *misshape, *extra, *key;
        int key_value;
        kt_status status;
        const char *says;
    } cases[] = {
        {"lfm2moe", .skip = "blk.1.exp_probs_b.bias", .says = "missing"},
        {"lfm2moe", .skip = "blk.0.ffn_gate.weight", .says = "missing"},
        {"lfm2moe", .extra = "blk.0.ffn_gate_inp.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"lfm2moe", .key = "expert_gating_func", .key_value = 4, .status = KT_E_UNSUPPORTED,
         .says = "expert_gating_func' is 4"},
        {"lfm2moe", .key = "expert_group_count", .key_value = 3, .says = "group_used_count"},
        {"granitemoe", .skip = "blk.1.ffn_down_shexp.weight", .says = "missing"},
        {"granitemoe", .extra = "blk.1.ffn_gate_inp_shexp.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"qwen3next", .skip = "blk.0.ssm_ba.weight", .says = "missing"},
        {"qwen3next", .extra = "blk.0.ssm_alpha.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"granitehybrid", .skip = "blk.0.ssm_in.weight", .says = "missing"},
        {"granitehybrid", .skip = "blk.1.ssm_norm.weight", .says = "missing"},
        {"granitehybrid", .misshape = "blk.0.ssm_d", .says = "expected [1, 3]"},
        {"granitehybrid", .misshape = "blk.0.ssm_conv1d.bias", .says = "shape"},
        {"granitehybrid", .extra = "blk.2.ssm_dt.bias", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"granitehybrid", .key = "ssm.inner_size", .key_value = 61, .says = "multiple of ssm.time"},
        {"granitehybrid", .key = "attention.head_count_kv", .key_value = 7,
         .says = "count_kv' is 7"},
        {"nemotron_h", .extra = "blk.0.ffn_up.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"nemotron_h", .extra = "blk.1.ffn_gate.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"nemotron_h_moe", .skip = "blk.1.ffn_up_exps.weight", .says = "missing"},
        {"nemotron_h_moe", .extra = "blk.1.ffn_latent_up.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"falcon-h1", .skip = "blk.0.ffn_norm", .says = "missing"},
        {"falcon-h1", .skip = "blk.1.attn_k.weight", .says = "missing"},
        {"mamba", .skip = "blk.1.ssm_dt.weight", .says = "missing"},
        {"mamba", .misshape = "blk.0.ssm_x.weight", .says = "expected [48, 38]"},
        {"mamba", .misshape = "blk.0.ssm_a", .says = "expected [16, 48]"},
        {"mamba", .key = "ssm.state_size", .key_value = 24, .says = "multiple of 16"},
        {"mamba", .key = "ssm.state_size", .key_value = 32, .says = "two states of a channel"},
        {"mamba", .key = "ssm.time_step_rank", .key_value = 49, .says = "rank' is 49"},
        {"mamba2", .skip = "blk.1.ssm_in.weight", .says = "missing"},
        {"mamba2", .extra = "blk.0.attn_q.weight", .status = KT_E_UNSUPPORTED, .says = "no place"},
        {"mamba2", .extra = "blk.0.ffn_up.weight", .status = KT_E_UNSUPPORTED, .says = "no place"},
        {"mamba2", .key = "ssm.state_size", .key_value = 24, .says = "multiple of 16"},
        {"bitnet", .skip = "blk.1.attn_sub_norm.weight", .says = "missing"},
        {"bitnet", .misshape = "blk.1.ffn_sub_norm.weight", .says = "expected [64, 1]"},
        {"bitnet", .misshape = "blk.0.ffn_gate.scale", .says = "expected [1, 1]"},
        {"bitnet", .key = "hidden_act", .says = "hidden_act"},
        {"gemma3n", .skip = "blk.4.attn_v.weight", .says = "missing"},
        {"gemma3n", .skip = "altup_unembd_proj.weight", .says = "missing"},
        {"gemma3n", .misshape = "altup_proj.weight", .says = "expected [32, 32, 3]"},
        {"gemma3n", .misshape = "blk.1.altup_predict_coef.weight", .says = "expected [4, 16]"},
        {"gemma3n", .misshape = "blk.2.laurel_r.weight", .says = "expected [6, 32]"},
        {"gemma3n", .key = "altup.num_inputs", .key_value = 5, .says = "num_inputs' is 5"},
        {"gemma3n", .key = "altup.active_idx", .key_value = 1, .status = KT_E_UNSUPPORTED,
         .says = "active_idx' is 1"},
        {"gemma3n", .key = "activation_sparsity_scale", .says = "a number for each layer"},
        {"gemma4", .skip = "blk.1.attn_k.weight", .says = "missing"},
        {"gemma4", .skip = "blk.5.proj.weight", .says = "missing"},
        {"gemma4", .skip = "per_layer_token_embd.weight", .says = "missing"},
        {"gemma4", .misshape = "per_layer_model_proj.weight", .says = "expected [32, 48]"},
        {"gemma4", .misshape = "blk.0.attn_q_norm.weight", .says = "expected [12, 1]"},
        {"gemma4", .misshape = "blk.5.ffn_up.weight", .says = "expected [32, 96]"},
        {"gemma4", .misshape = "blk.2.layer_output_scale.weight", .says = "expected [1, 1]"},
        {"gemma4", .extra = "blk.0.attn_v.bias", .status = KT_E_UNSUPPORTED, .says = "no place"},
        {"gemma4", .extra = "blk.0.ffn_gate_inp.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"gemma4", .key = "attention.shared_kv_layers", .key_value = 6, .says = "layers' is 6"},
        {"gemma4", .key = "attention.shared_kv_layers", .key_value = 5, .says = "leaves no layer"},
        {"gemma4", .key = "attention.head_count_kv", .key_value = 3, .says = "do not divide"},
        {"gemma4", .key = "attention.key_length_swa", .key_value = 9, .says = "head sizes 9"},
        {"gemma4", .key = "attention.key_length_swa", .key_value = 4000, .says = "swa' is 4000"},
        {"gemma4", .key = "embedding_length_per_layer_input", .key_value = 100000,
         .says = "layer_input' is 100000"},
        {"llama4", .skip = "blk.1.ffn_up_shexp.weight", .says = "missing"},
        {"llama4", .misshape = "blk.1.ffn_down_shexp.weight", .says = "expected [40, 48]"},
        {"llama4", .extra = "blk.0.ffn_gate_inp.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"llama4", .extra = "blk.0.attn_q_norm.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"llama4", .key = "attention.temperature_length", .key_value = 1 << 25,
         .says = "temperature_length' is 33554432"},
        {"llama4", .key = "expert_group_count", .key_value = 5, .status = KT_E_UNSUPPORTED,
         .says = "group_count' is 5"},
        {"deepseek2", .skip = "blk.0.attn_k_b.weight", .says = "missing"},
        {"deepseek2", .misshape = "blk.1.attn_v_b.weight", .says = "expected [24, 12, 4]"},
        {"deepseek2", .extra = "blk.1.attn_kv_b.weight", .status = KT_E_UNSUPPORTED,
         .says = "no place"},
        {"deepseek2", .key = "attention.kv_lora_rank", .key_value = 16, .says = "key_length"},
        {"deepseek2", .key = "attention.key_length_mla", .key_value = 8, .says = "is not above"},
        {"deepseek2", .key = "expert_group_count", .key_value = 4, .says = "group_used_count"},
        {"deepseek2", .key = "attention.temperature_scale", .status = KT_E_UNSUPPORTED,
         .says = "temperature_scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fixture_spec *spec = specs;
        while (strcmp(spec->arch, cases[i].arch) != 0) spec++;
        fixture_spec s = *spec;
        kt_error err;
        lib l;
        s.skip = cases[i].skip;
        s.misshape = cases[i].misshape;
        s.extra = cases[i].extra;
        s.key = cases[i].key;
        s.key_value = cases[i].key_value;
        if (lib_bind(&s, &l, &err) != (cases[i].status ? cases[i].status : KT_E_FORMAT) ||
            !strstr(err.message, cases[i].says))
            fail_msg("case %zu of %s: %s", i, s.arch, err.message);
        lib_close(&l);
    }
}

static void test_scales_are_checked(void **state) {
    (void)state;
    static const char *const says[] = {"embedding_scale", "residual_scale", "attention.scale",
                                       "logit_scale"};
    for (int i = 0; i < 4; i++) {
        for (int bad = 0; bad < 3; bad++) {
            fixture_spec s = {
                .arch = "granite", .n_layer = 1, .d_model = 16, .d_ff = 16, .n_head = 2};
            kt_error err;
            lib l;
            s.n_head_kv = 2;
            s.head_dim = 8;
            s.n_vocab = 20;
            s.scales[3] = 1.0f;
            s.scales[i] = bad == 0 ? -1.0f : bad == 1 ? NAN : INFINITY;
            assert_int_equal(lib_bind(&s, &l, &err), KT_E_FORMAT);
            if (!strstr(err.message, says[i])) fail_msg("%s", err.message);
            lib_close(&l);
        }
    }
}

/* Ids beyond the vocabulary name nothing. */
static void test_suppressed_tokens_are_impossible(void **state) {
    (void)state;
    fixture_spec s = specs[0];
    kt_error err;
    lib l;
    int32_t ids[3] = {1, 2, 3};
    s.n_suppressed = 4;
    if (lib_bind(&s, &l, &err) != KT_OK) fail_msg("%s", err.message);
    lib_start(&l);
    assert_int_equal(lib_run(&l, ids, 3, &err), KT_OK);
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < s.n_vocab; i++)
            assert_int_equal(kt__fwd_logits(l.fwd, t)[i] == -INFINITY, i == 5 || i == 9);
    lib_close(&l);
}

static void test_nan_names_the_layer(void **state) {
    (void)state;
    static const struct {
        const char *arch, *poison, *says;
    } cases[] = {{"llama", "blk.1.attn_output.weight", "layer 1 of 2"},
                 {"qwen3moe", "blk.1.ffn_gate_inp.weight", "the choice of experts of layer 1 of 2"},
                 {"qwen3moe", "blk.0.ffn_down_exps.weight", "layer 1 of 2"}};
    for (int i = 0; i < 3; i++) {
        const fixture_spec *spec = specs;
        while (strcmp(spec->arch, cases[i].arch) != 0) spec++;
        fixture_spec s = *spec;
        kt_error err;
        lib l;
        int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        s.poison = cases[i].poison;
        if (lib_bind(&s, &l, &err) != KT_OK) fail_msg("%s", err.message);
        lib_start(&l);
        assert_int_equal(lib_run(&l, ids, 8, &err), KT_E_NUMERIC);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
        lib_close(&l);
    }
}

/* YaRN's frequencies (Peng et al. 2023) computed directly: fast pairs unscaled, slow pairs divided
 * by the factor. */
static void test_rope_scaling(void **state) {
    (void)state;
    kt_error err;
    kt__arena arena;
    kt__arena_init(&arena, 4096, 1 << 20);
    float factors[5] = {1.0f, 2.0f, 4.0f, 8.0f, 16.0f}; /* longrope: short and long, one apart */
    kt__net net = {.hp = {.rope = {.kind = KT__ROPE_YARN,
                                   .n_rot = 64,
                                   .local_n_rot = 64,
                                   .freq_base = 10000.0f,
                                   .local_freq_base = 500.0f,
                                   .freq_scale = 0.25f,
                                   .attn_factor = 1.0f,
                                   .ext_factor = 1.0f,
                                   .beta_fast = 32.0f,
                                   .beta_slow = 1.0f,
                                   .orig_ctx = 4096}}};
    kt__rope rope;
    assert_int_equal(kt__rope_init(&net, false, 16384, &arena, &rope, &err), KT_OK);
    assert_true(fabs(rope.magnitude - (1.0 + 0.1 * log(4.0))) < 1e-12);
    assert_true(fabs(rope.inv_freq[0] - 1.0) < 1e-12);
    net.hp.rope.log_multiplier = 0.5f;
    assert_int_equal(kt__rope_init(&net, false, 16384, &arena, &rope, &err), KT_OK);
    assert_true(fabs(rope.magnitude - (1.0 + 0.1 * log(4.0)) / (1.0 + 0.05 * log(4.0))) < 1e-12);
    assert_true(fabs(rope.inv_freq[31] / (pow(10000.0, -62.0 / 64) / 4.0) - 1.0) < 1e-12);
    for (int i = 1; i < 32; i++) {
        double unscaled = pow(10000.0, -2.0 * i / 64);
        assert_true(rope.inv_freq[i] <= unscaled * (1 + 1e-12) &&
                    rope.inv_freq[i] >= unscaled / 4 * (1 - 1e-12));
    }
    assert_int_equal(kt__rope_init(&net, true, 16384, &arena, &rope, &err), KT_OK);
    assert_true(fabs(rope.inv_freq[5] / pow(500.0, -10.0 / 64) - 1.0) < 1e-12 &&
                rope.magnitude == 1.0);

    net.hp.rope.kind = KT__ROPE_PLAIN;
    net.hp.rope.freq_scale = 1.0f;
    net.hp.rope.n_rot = 8;
    net.rope_factors = factors;
    assert_int_equal(kt__rope_init(&net, false, 16384, &arena, &rope, &err), KT_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(rope.inv_freq[i] * (double)factors[i] / pow(10000.0, -2.0 * i / 8) - 1.0) <
                    1e-12);
    }
    net.hp.rope.kind = KT__ROPE_LONGROPE;
    net.rope_short = factors;
    net.rope_long = factors + 1;
    for (int64_t n_ctx = 4096; n_ctx <= 4097; n_ctx++) {
        float cs[8];
        assert_int_equal(kt__rope_init(&net, false, n_ctx, &arena, &rope, &err), KT_OK);
        double factor = n_ctx > 4096 ? 2.0 : 1.0;
        kt__rope_fill(&rope, 3, cs);
        assert_true(fabs((double)cs[0] - cos(3.0 / factor)) < 1e-6 &&
                    fabs((double)cs[4] - sin(3.0 / factor)) < 1e-6);
    }
    kt__arena_free(&arena);
}

/* Two pictures, of 3 x 2 and 2 x 4 rows, with texts around them. */
static void test_places_of_pictures(void **state) {
    (void)state;
    const kt__grid grids[] = {{4, 10, 4, 7, 3}, {12, 20, 9, 13, 2}};
    const kt__seg seg = {.grids = grids, .n_grid = 2};
    const int64_t want[][4] = {{3, 3, 3, 3},     {4, 4, 4, 4},    {6, 4, 4, 6},  {9, 4, 5, 6},
                               {10, 7, 7, 7},    {11, 8, 8, 8},   {12, 9, 9, 9}, {19, 9, 12, 10},
                               {20, 13, 13, 13}, {25, 18, 18, 18}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t at[3];
        kt__rope_place(&seg, want[i][0], at);
        assert_memory_equal(at, want[i] + 1, sizeof at);
    }
}

/* Which coordinate turns which pair: Qwen2-VL's sections, Qwen3-VL's turns. */
static void test_axes_of_pairs(void **state) {
    (void)state;
    static const uint8_t want[2][8] = {{0, 0, 1, 1, 1, 2, 2, 2}, {0, 1, 2, 0, 1, 2, 0, 0}};
    kt__net net = {0};
    kt__arena arena;
    kt__rope rope;
    kt_error err;
    kt__arena_init(&arena, 4096, 1 << 20);
    net.hp.rope = (kt__rope_params){.n_rot = 16,
                                    .freq_base = 10000.0f,
                                    .freq_scale = 1.0f,
                                    .attn_factor = 1.0f,
                                    .sections = {2, 3, 3}};
    for (int woven = 0; woven < 2; woven++) {
        const int64_t at[3] = {1, 20, 300};
        float cs[16];
        net.hp.features = woven ? KT__F_AXES_WOVEN : 0;
        if (woven)
            net.hp.rope.sections[0] = 4, net.hp.rope.sections[1] = net.hp.rope.sections[2] = 2;
        assert_int_equal(kt__rope_init(&net, false, 4096, &arena, &rope, &err), KT_OK);
        kt__rope_fill_at(&rope, at, cs);
        for (int i = 0; i < 8; i++) {
            double angle = (double)at[want[woven][i]] * pow(10000.0, -2.0 * i / 16);
            assert_true(fabs((double)cs[i] - cos(angle)) < 1e-6);
        }
    }
    kt__arena_free(&arena);
}

int main(void) {
    enum { N = sizeof specs / sizeof specs[0], N_MTP = 5 };
    int n_mtp = 0;
    struct CMUnitTest tests[N + 13 + N_MTP] = {
        [N + 11] = cmocka_unit_test(test_places_of_pictures),
        [N + 12] = cmocka_unit_test(test_axes_of_pairs),
        [N + 8] = cmocka_unit_test(test_an_assistant_is_right),
        [N + 9] = cmocka_unit_test(test_assistants_of_others_are_refused),
        [N + 10] = cmocka_unit_test(test_spoilt_assistants_are_refused_by_name),
        [N + 7] = cmocka_unit_test(test_suppressed_tokens_are_impossible),
        [N] = cmocka_unit_test(test_spoilt_models_are_refused_by_name),
        [N + 1] = cmocka_unit_test(test_nan_names_the_layer),
        [N + 3] = cmocka_unit_test(test_scales_are_checked),
        [N + 2] = cmocka_unit_test(test_rope_scaling),
        [N + 4] = cmocka_unit_test(test_spoilt_experts_are_refused_by_name),
        [N + 5] = cmocka_unit_test(test_spoilt_hybrids_are_refused_by_name),
        [N + 6] = cmocka_unit_test(test_other_layers_are_refused_by_name),
    };
    for (int i = 0; i < N; i++) {
        union {
            const void *in;
            void *out;
        } arg = {.in = &specs[i]};
        tests[i] = (struct CMUnitTest){specs[i].arch, test_forward_is_right, NULL, NULL, arg.out};
        if (specs[i].n_mtp)
            tests[N + 13 + n_mtp++] = (struct CMUnitTest){specs[i].arch, test_proposals_are_right,
                                                          NULL, NULL, arg.out};
    }
    assert_int_equal(n_mtp, N_MTP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
