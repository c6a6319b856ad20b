#include "gguf/reader.h"

#include <stdio.h>

/* What we can read: the one table of block layouts. */
static const struct {
    uint32_t id;
    const char *name;
    uint32_t block_elems, block_bytes;
} known[] = {
#define X(name, id, block_elems, block_bytes, ...) {id, #name, block_elems, block_bytes},
#include "quant/types.def"
#undef X
};

/* What other programs write and we refuse by name. */
static const struct {
    uint32_t id;
    const char *name;
} foreign[] = {
    {4, "Q4_2"},      {5, "Q4_3"},      {9, "Q8_1"},        {15, "Q8_K"},       {24, "I8"},
    {25, "I16"},      {26, "I32"},      {27, "I64"},        {28, "F64"},        {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

#define COUNT(table) (sizeof table / sizeof table[0])

const char *kt__gguf_tensor_type_name(uint32_t type) {
    for (size_t i = 0; i < COUNT(known); i++)
        if (known[i].id == type) return known[i].name;
    for (size_t i = 0; i < COUNT(foreign); i++)
        if (foreign[i].id == type) return foreign[i].name;
    return "unknown";
}

const char *kt__gguf_file_type_name(uint32_t file_type) {
    static const struct {
        uint32_t id;
        const char *name;
    } recipes[] = {
        {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
        {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
        {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
        {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
        {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
        {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
        {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},  {39, "NVFP4"},  {40, "Q1_0"},
        {41, "Q2_0"},
    };
    for (size_t i = 0; i < COUNT(recipes); i++)
        if (recipes[i].id == file_type) return recipes[i].name;
    return NULL;
}

bool kt__gguf_tensor_type_layout(uint32_t type, uint32_t *block_elems, uint32_t *block_bytes) {
    for (size_t i = 0; i < COUNT(known); i++) {
        if (known[i].id != type) continue;
        *block_elems = known[i].block_elems;
        *block_bytes = known[i].block_bytes;
        return true;
    }
    return false;
}

const char *kt__gguf_type_name(kt__gguf_type type) {
    static const char *const names[KT__GGUF_TYPE_COUNT] = {
        "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
        "bool", "string", "array", "u64", "i64", "f64",
    };
    return (unsigned)type < KT__GGUF_TYPE_COUNT ? names[type] : "unknown";
}

uint32_t kt__gguf_scalar_bytes(uint32_t type) {
    static const uint8_t bytes[KT__GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < KT__GGUF_TYPE_COUNT ? bytes[type] : 0;
}

const char *kt__gguf_show(kt__str s, char out[KT__GGUF_SHOWN_BYTES]) {
    size_t at = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (at + 8 > KT__GGUF_SHOWN_BYTES) {
            at += (size_t)snprintf(out + at, KT__GGUF_SHOWN_BYTES - at, "...");
            break;
        }
        if (c >= 0x20 && c < 0x7f && c != '\\')
            out[at++] = (char)c;
        else
            at += (size_t)snprintf(out + at, KT__GGUF_SHOWN_BYTES - at, "\\x%02x", c);
    }
    out[at] = '\0';
    return out;
}
