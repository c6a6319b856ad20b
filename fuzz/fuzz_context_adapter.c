/* libFuzzer: changes of a message with an adapter, and of the rows of a batch that it acts on, as another process reads them:
 * what is taken is read to its last weight, and has as many numbers as a row has room for. */
#include <stdlib.h>
#include <string.h>

#include "context/adapter.h"
#include "context/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_TOK = 4, HEAD = 2, RANK = 3, MATRIX_BYTES = 4096, ROWS = 2 };

static volatile unsigned sink;
static kt_ctx *ctx;
static kt_model *model;

/* An adapter of the final hidden state, and of a layer's products after one input. */
static void make_pack(kt__lora_pack *pack) {
    const kt__net *net = model->net;
    int n_row, n_col;
    *pack = (kt__lora_pack){.lora = {.n_block = net->hp.n_layer + 1}};
    pack->lora.blocks = calloc((size_t)pack->lora.n_block, sizeof *pack->lora.blocks);
    pack->bytes = pack->memory_bytes = 2 * MATRIX_BYTES;
    pack->memory = calloc(1, pack->memory_bytes);
    kt__lora_block *last = &pack->lora.blocks[net->hp.n_layer];
    kt__lora_shape(net, net->hp.n_layer, KT__SITE_HIDDEN, &n_row, &n_col);
    last->a[KT__INPUT_HIDDEN] = (kt__lora_a){.rows = pack->memory, .rank = RANK, .n_col = n_col};
    last->b[KT__SITE_HIDDEN] = (kt__lora_b){.panels = (const kt__f16 *)pack->memory +
                                                      MATRIX_BYTES / sizeof(kt__f16),
                                            .rank = RANK,
                                            .n_row = n_row,
                                            .factor = 1};
    size_t most = (size_t)(n_col > n_row ? n_col : n_row) + KT__PANEL_ROWS;
    if (most * RANK * sizeof(kt__f16) > MATRIX_BYTES) abort();
}

static void set_up(void) {
    static kt__peers *peers;
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = 1;
    if (kt_ctx_open(&params, &ctx, NULL) != KT_OK ||
        kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK ||
        kt__peers_plan(0, 2, &peers, NULL) != KT_OK)
        abort();
    kt__division_init(&ctx->split, peers);
}

/* What process 0 says: the adapter, then the rows. */
static void write_message(kt__message *m) {
    static kt__lora_pack pack;
    if (!pack.memory) make_pack(&pack);
    if (kt__adapter_tell(ctx, &pack, NULL) != KT_OK) abort();
    const kt__lora_use uses[] = {{&pack.lora, 0.5f}, {&pack.lora, 1}};
    const kt__lora_rows rows[ROWS] = {{0, 1, uses, 2}, {1, 3, uses, 1}};
    kt__adapter_put_rows(&ctx->message, rows, ROWS);
    *m = ctx->message;
    m->at = HEAD;
}

/* Five bytes a change: which word of the message, from its end on, and what is added to it. */
static void change_words(kt__message *m, const uint8_t *data, size_t size) {
    for (; size >= 5; data += 5, size -= 5) {
        uint16_t back;
        int16_t add;
        memcpy(&back, data, sizeof back);
        memcpy(&add, data + 2, sizeof add);
        int32_t *word = &m->words[m->n - 1 - back % (m->n - HEAD)];
        uint32_t x = (uint32_t)*word + ((uint32_t)add << (data[4] % 32));
        memcpy(word, &x, sizeof x);
    }
}

static void read_matrix(const kt__f16 *at, int n_row, int rank) {
    for (int64_t i = 0; at && i < (int64_t)n_row * rank; i++) sink += at[i];
}

static void read_use(const kt__lora_use *use) {
    for (int i = 0; i < use->lora->n_block; i++) {
        const kt__lora_block *block = &use->lora->blocks[i];
        for (int k = 0; k < KT__INPUTS; k++)
            read_matrix(block->a[k].rows, block->a[k].n_col, block->a[k].rank);
        for (int s = 0; s < KT__SITES; s++) {
            const kt__lora_b *b = &block->b[s];
            read_matrix(b->panels, kt__lora_panel_rows(b->n_row), b->rank);
            if (b->rank && b->at + b->rank > block->a[kt__lora_input_of((kt__lora_site)s)].rank)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__led_adapters led = {0};
    kt__lora_rows rows[ROWS];
    kt__lora_use uses[ROWS][KT_ADAPTERS_MAX];
    kt__message m;
    if (!ctx) set_up();
    write_message(&m);
    change_words(&m, data, size);
    if (kt__adapter_heard(&led, &m, NULL) == KT_OK)
        kt__adapter_take_rows(&led, model->net, &m, N_TOK, rows, uses[0], ROWS);
    for (int i = 0; !m.bad && led.n && led.packs[0].lora.number && i < ROWS; i++) {
        if (rows[i].row0 + rows[i].n_tok > N_TOK) abort();
        for (int k = 0; k < rows[i].n_use; k++) read_use(&rows[i].uses[k]);
    }
    kt__led_adapters_free(&led);
    return 0;
}
