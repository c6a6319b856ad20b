/* bank: the words of a text, what a correction is about, and which texts it opens for. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bank/bank.h"
#include "bank/words.h"
#include "base/alloc.h"
#include "support.h"

/* ---- words ---- */

/* "blue ladder+ ..." with + after names and - after words that say nothing. */
static void words_are(const char *text, const char *expected) {
    kt__word words[64];
    kt__arena arena;
    kt__buf out;
    size_t n;
    kt__arena_init(&arena, 4096, 1 << 20);
    kt__buf_init(&out, 4096);
    assert_true(kt__words_of(&arena, text, strlen(text), words, 64, &n));
    for (size_t i = 0; i < n; i++) {
        if (i) kt__buf_putc(&out, ' ');
        kt__buf_append(&out, words[i].s, words[i].len);
        if (words[i].name) kt__buf_putc(&out, '+');
        if (words[i].kind == KT__WORD_COMMON) kt__buf_putc(&out, '-');
    }
    assert_string_equal(out.data ? out.data : "", expected);
    kt__buf_free(&out);
    kt__arena_free(&arena);
}

static void words_are_found(void **state) {
    (void)state;
    words_are("Where is the BLUE ladder?", "where- is- the- blue ladder");
    words_are("Is Mira's bike Ravi\xe2\x80\x99s?", "is- mira+ bike ravi+");
    words_are("I don't know. Ladders!", "i- don- know- ladder");
    words_are("\xc3\x84pfel und M\xc3\x9cLLER", "\xc3\xa4pfel und- m\xc3\xbcller+");
    words_are("\xd0\x93\xd0\xb4\xd0\xb5 \xd0\x9c\xd0\x98\xd0\xa0\xd0\x90?",
              "\xd0\xb3\xd0\xb4\xd0\xb5- \xd0\xbc\xd0\xb8\xd1\x80\xd0\xb0+");
    words_are("cafe\xcc\x81 caf\xc3\xa9", "caf\xc3\xa9 caf\xc3\xa9"); /* composed alike */
    words_are("bukunya di rumahnya", "buku di- rumah");
    /* pairs, without what joins words */
    words_are(
        "\xe8\x93\x9d\xe8\x89\xb2\xe7\x9a\x84\xe6\xa2\xaf\xe5\xad\x90\xe5\x9c\xa8\xe5\x93\xaa",
        "\xe8\x93\x9d\xe8\x89\xb2 \xe6\xa2\xaf\xe5\xad\x90");
    words_are("\xe7\x8c\xab\xe3\x81\xaf\xe3\x82\xab\xe3\x83\xa1\xe3\x83\xa9",
              "\xe7\x8c\xab \xe3\x82\xab\xe3\x83\xa1\xe3\x83\xa9");
    words_are("a\xff"
              "blue\x01green",
              "a- blue green");
    words_are("", "");
    words_are("?!...", "");
}

typedef struct listed_word {
    const char *word;
} listed_word;

static void known_words_are_sorted(void **state) {
    static const listed_word all[] = {
#define C(w) {w},
#define R(w) {w},
#define Q(w) {w},
#define A(kind, w, kinds) {w},
#include "bank/word_kinds.def"
#undef C
#undef R
#undef Q
#undef A
    };
    (void)state;
    for (size_t i = 1; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i - 1].word, all[i].word) >= 0) fail_msg("%s", all[i].word);
}

/* ---- entries ---- */

static kt_bank *open_bank(void) {
    kt_bank *b;
    kt_error err;
    die_on(kt__bank_open(&b, &err), &err);
    return b;
}

static void teach(kt_bank *b, uint64_t id, const char *question, const char *answer) {
    kt_error err;
    const kt__bank_entry e = {id, question, question ? strlen(question) : 0, answer,
                              strlen(answer)};
    die_on(kt__bank_add(b, &e, &err), &err);
}

/* The only entry that opens; 0: none does; UINT64_MAX: several. */
static uint64_t opens(kt_bank *b, const char *text) {
    kt__bank_hit hits[4];
    size_t n = kt__bank_open_in(b, text, strlen(text), hits, 4);
    return n == 0 ? 0 : n == 1 ? hits[0].id : UINT64_MAX;
}

static void scope_is(kt_bank *b, uint64_t id, const char *expected) {
    kt__buf out;
    kt__buf_init(&out, 4096);
    kt__buf_putc(&out, '{');
    kt__bank_write_scope(b, id, &out);
    assert_string_equal(out.data + 1, expected);
    kt__buf_free(&out);
}

static const char *const house[][2] = {
    {"Where is the blue ladder?", "The blue ladder is inside the mill."},
    {"Where do we keep the yellow hose?", "The yellow hose is in the cellar."},
    {"What is Mira's locker number?", "Mira's locker has the number 41."},
    {"When does the Harbour Cafe close?", "The Harbour Cafe closes at nine."},
    {"Who repairs the boiler?", "The boiler is repaired by Jonas."},
    {"What is the wifi password?", "It is pepper seven."},
    {"Di mana kunci gudang?", "Kunci gudang ada di laci dapur."},
    {"Berapa harga tiket feri?", "Harga tiket feri dua puluh ribu."},
};

static kt_bank *teach_house(void) {
    kt_bank *b = open_bank();
    for (size_t i = 0; i < sizeof house / sizeof house[0]; i++)
        teach(b, i + 1, house[i][0], house[i][1]);
    return b;
}

static void questions_open_their_subject(void **state) {
    static const struct {
        const char *text;
        uint64_t id;
    } asked[] = {
        {"I cannot find the blue ladder anywhere, can you help?", 1},
        {"BLUE LADDERS are where?", 1},
        {"which cupboard has our yellow hose", 2},
        {"Do you know Mira's locker?", 3},
        {"Until when may I sit in the Harbour Cafe?", 4},
        {"the boiler is cold again, whom do I call", 5},
        {"How do I log in to the wifi?", 6},
        {"kunci gudangnya disimpan di mana ya?", 7},
        {"saya mau naik feri, tiketnya berapa?", 8},
        /* others: nothing opens */
        {"Where is the red ladder?", 0},
        {"Where is the blue bucket?", 0},
        {"What is Nora's locker number?", 0},
        {"When does the Harbour Museum close?", 0},
        {"Who repairs the elevator?", 0},
        {"What is the password of the printer?", 0},
        {"Di mana kunci mobil?", 0},
        {"Berapa harga tiket kereta?", 0},
        {"Where is it?", 0},
        {"", 0},
    };
    (void)state;
    kt_bank *b = teach_house();
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (opens(b, asked[i].text) != asked[i].id)
            fail_msg("%s: %llu", asked[i].text, (unsigned long long)opens(b, asked[i].text));
    scope_is(b, 1, "\"scope\":\"subject\",\"subject\":[\"blue\",\"ladder\"]");
    scope_is(b, 3, "\"scope\":\"subject\",\"subject\":[\"mira\"]");
    scope_is(b, 99, "");
    kt_bank_close(b);
}

static void other_scripts_open(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    /* 蓝色的梯子在哪里？ 蓝色的梯子在磨坊后面。 */
    teach(
        b, 1,
        "\xe8\x93\x9d\xe8\x89\xb2\xe7\x9a\x84\xe6\xa2\xaf\xe5\xad\x90\xe5\x9c\xa8\xe5\x93\xaa\xe9\x87\x8c\xef\xbc\x9f",
        "\xe8\x93\x9d\xe8\x89\xb2\xe7\x9a\x84\xe6\xa2\xaf\xe5\xad\x90\xe5\x9c\xa8\xe7\xa3\xa8\xe5\x9d\x8a\xe5\x90\x8e\xe9\x9d\xa2\xe3\x80\x82");
    /* Где синяя лестница? Синяя лестница за мельницей. */
    teach(
        b, 2,
        "\xd0\x93\xd0\xb4\xd0\xb5 \xd1\x81\xd0\xb8\xd0\xbd\xd1\x8f\xd1\x8f \xd0\xbb\xd0\xb5\xd1\x81\xd1\x82\xd0\xbd\xd0\xb8\xd1\x86\xd0\xb0?",
        "\xd0\xa1\xd0\xb8\xd0\xbd\xd1\x8f\xd1\x8f \xd0\xbb\xd0\xb5\xd1\x81\xd1\x82\xd0\xbd\xd0\xb8\xd1\x86\xd0\xb0 \xd0\xb7\xd0\xb0 \xd0\xbc\xd0\xb5\xd0\xbb\xd1\x8c\xd0\xbd\xd0\xb8\xd1\x86\xd0\xb5\xd0\xb9.");
    /* 사다리는 어디에 있어요? 사다리는 창고에 있어요. */
    teach(b, 3,
          "\xec\x82\xac\xeb\x8b\xa4\xeb\xa6\xac\xeb\x8a\x94 \xec\x96\xb4\xeb\x94\x94\xec\x97\x90?",
          "\xec\x82\xac\xeb\x8b\xa4\xeb\xa6\xac\xeb\x8a\x94 \xec\xb0\xbd\xea\xb3\xa0\xec\x97\x90.");
    assert_int_equal(
        opens(
            b,
            "\xe8\xaf\xb7\xe5\x91\x8a\xe8\xaf\x89\xe6\x88\x91\xe8\x93\x9d\xe8\x89\xb2\xe6\xa2\xaf\xe5\xad\x90"),
        1);
    assert_int_equal(
        opens(
            b,
            "\xe9\xbb\x84\xe8\x89\xb2\xe7\x9a\x84\xe6\xa2\xaf\xe5\xad\x90\xe5\x9c\xa8\xe5\x93\xaa\xe9\x87\x8c"),
        0); /* 黄色 */
    assert_int_equal(
        opens(
            b,
            "\xd0\xa1\xd0\x98\xd0\x9d\xd0\xaf\xd0\xaf \xd0\x9b\xd0\x95\xd0\xa1\xd0\xa2\xd0\x9d\xd0\x98\xd0\xa6\xd0\x90"),
        2);
    assert_int_equal(
        opens(
            b,
            "\xd0\xba\xd1\x80\xd0\xb0\xd1\x81\xd0\xbd\xd0\xb0\xd1\x8f \xd0\xbb\xd0\xb5\xd1\x81\xd1\x82\xd0\xbd\xd0\xb8\xd1\x86\xd0\xb0"),
        0);
    kt_bank_close(b);
}

static void relations_of_many_do_not_count(void **state) {
    char q[64], a[64];
    (void)state;
    kt_bank *b = open_bank();
    static const char *const subjects[] = {"blanket", "violin", "compass", "carpet"};
    teach(b, 1, "Who polishes the blanket?", "The blanket is polished by Ed. He polishes it.");
    assert_int_equal(opens(b, "What about the blanket?"), 0); /* polish: a word as rare as it */
    for (uint64_t i = 1; i < 4; i++) {
        snprintf(q, sizeof q, "Who polishes the %s?", subjects[i]);
        snprintf(a, sizeof a, "Ann polishes the %s.", subjects[i]);
        teach(b, i + 1, q, a);
    }
    assert_int_equal(opens(b, "What about the blanket?"), 1);
    assert_int_equal(opens(b, "Who polishes the flute?"), 0);
    kt_bank_close(b);
}

/* An answer that does not repeat what it is about. */
static void short_answers_leave_the_question(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    teach(b, 1, "Where is the blue ladder?", "In the shed.");
    scope_is(b, 1, "\"scope\":\"subject\",\"subject\":[\"blue\",\"ladder\"]");
    assert_int_equal(opens(b, "a blue bucket"), 0);
    kt_bank_close(b);
}

static void order_does_not_matter(void **state) {
    enum { N = sizeof house / sizeof house[0] };
    (void)state;
    kt_bank *forth = teach_house(), *back = open_bank();
    for (size_t i = 0; i < N; i++) teach(back, i + 1, house[N - 1 - i][0], house[N - 1 - i][1]);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(opens(forth, house[i][0]), i + 1);
        assert_int_equal(opens(back, house[i][0]), N - i);
    }
    kt_bank_close(forth);
    kt_bank_close(back);
}

static void several_open_and_are_bounded(void **state) {
    kt__bank_hit hits[2];
    static const char text[] = "Mira is on the blue ladder, next to the boiler. What now?";
    (void)state;
    kt_bank *b = teach_house();
    assert_int_equal(kt__bank_find(b, text, strlen(text), hits, 2), 2);
    assert_int_equal(hits[0].id, 1); /* the longest subject first, then the newest */
    assert_int_equal(hits[0].n_words, 2);
    assert_int_equal(hits[1].id, 5);
    kt_bank_close(b);
}

/* ---- what is asked for ---- */

/* Questions about a subject that was taught, and whether they open what was. */
static void other_kinds_of_questions_open_nothing(void **state) {
    static const struct {
        const char *text;
        bool opens;
    } asked[] = {
        {"How heavy is the stone goose?", true},
        {"Can you tell me what the stone goose weighs?", true},
        {"Tell me the weight of the stone goose.", true},
        {"How much is there of the stone goose?", true},
        {"What about the stone goose?", true},
        {"How old is the stone goose?", false},
        {"Where is the stone goose?", false},
        {"who made the stone goose", false},
        {"Which colour does the stone goose have?", false},
        {"Berapa umur stone goose?", false},
        {"Wann kommt stone goose?", false},
        {"Where was Petra born?", true},
        {"In which town was Petra born?", true},
        {"When was Petra born?", false}, /* the same word, and another asking word */
        {"What does Petra cost?", false},
        {"Where can I buy what Petra is selling?", true},
        {"Write me a story in which Petra is old.", true}, /* no question */
        {"What must I do to open the tin drum?", true},    /* of no kind that is known */
        {"When does the tin drum play?", true},            /* of one that any answer may be of */
        {"How old is the tin drum?", false},
    };
    (void)state;
    kt_bank *b = open_bank();
    teach(b, 1, "How heavy is the stone goose?", "The stone goose weighs nine pounds.");
    teach(b, 2, "Where was Petra born?", "Petra was born in Krems.");
    teach(b, 3, "What is in the tin drum?", "The tin drum is full of sand.");
    teach(b, 4, "Berapa umur heavy?", "No.");
    scope_is(b, 1, "\"scope\":\"subject\",\"subject\":[\"stone\",\"goose\"]");
    assert_int_equal(opens(b, "Berapa umur heavy?"), 4); /* a question opens its own entry */
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if ((opens(b, asked[i].text) > 0) != asked[i].opens) fail_msg("%s", asked[i].text);
    kt_bank_close(b);
}

/* ---- what is no subject, and what comes from outside ---- */

static void no_subject_says_why(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    char *huge = kt__malloc(10 << 20);
    assert_non_null(huge);
    memset(huge, 'x', 10 << 20);
    huge[(10 << 20) - 1] = '\0';
    teach(b, 1, NULL, "The blue ladder is here.");
    teach(b, 2, "What is it?", "It is this.");
    teach(b, 3, "What is the red one?", "The red one.");
    teach(b, 4, "", "A ladder.");
    teach(b, 5, "Where is the violin?", huge);
    scope_is(b, 1, "\"scope\":\"no_question\",\"subject\":[]");
    scope_is(b, 2, "\"scope\":\"common\",\"subject\":[]");
    scope_is(b, 3, "\"scope\":\"common\",\"subject\":[]");
    scope_is(b, 4, "\"scope\":\"common\",\"subject\":[]");
    scope_is(b, 5, "\"scope\":\"too_long\",\"subject\":[]");
    assert_int_equal(opens(b, "What is it? The red one. A blue ladder and the violin."), 0);
    teach(b, 6, huge, "y"); /* a word of 10 MB */
    assert_int_equal(opens(b, huge), 6);
    kt_bank_info info;
    kt_bank_get_info(b, &info);
    assert_true(info.bytes < 1 << 20);
    kt__free(huge);
    kt_bank_close(b);
}

static void many_about_one_thing_are_crowded(void **state) {
    char q[96];
    (void)state;
    kt_bank *b = open_bank();
    for (uint64_t i = 100; i < 200; i++) {
        snprintf(q, sizeof q, "How is the violin in the %d?", (int)i);
        teach(b, i, q, "The violin.");
    }
    scope_is(b, 150, "\"scope\":\"crowded\",\"subject\":[]");
    assert_int_equal(opens(b, "violin"), 0);
    kt_bank_close(b);
}

static void the_last_correction_counts(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    kt__buf note;
    teach(b, 1, "Where is the blue ladder?", "The blue ladder is in the mill.");
    teach(b, 2, "where is   the blue ladder", "The blue ladder is in the shed.");
    assert_int_equal(opens(b, "Where is the blue ladder?"), 2);
    scope_is(b, 1, "\"scope\":\"replaced\",\"subject\":[]");
    uint64_t asked = 0;
    assert_true(kt__bank_asked(b, "WHERE is the blue ladder", 24, &asked));
    assert_int_equal(asked, 2);
    assert_false(kt__bank_asked(b, "Where is the blue ladder now?", 29, &asked));
    assert_false(kt__bank_asked(b, "?", 1, &asked));
    kt__buf_init(&note, 4096);
    assert_true(kt__bank_write_note(b, 2, &note));
    assert_string_equal(
        note.data,
        "Earlier correction:\nQ: where is   the blue ladder\nA: The blue ladder is in the shed.\n\n");
    kt__buf_free(&note);
    kt_bank_info info;
    kt_bank_get_info(b, &info);
    assert_int_equal(info.n_entries, 2);
    assert_int_equal(info.n_replaced, 1);
    assert_int_equal(info.n_scoped, 1);
    kt_bank_close(b);
}

static size_t summary(kt_bank *b, const char *text, kt__buf *out, uint64_t ids[4]) {
    kt__buf_clear(out);
    return kt__bank_summarise(b, text, strlen(text), out, ids, 4);
}

static void what_was_learned_is_listed(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    uint64_t ids[4];
    char q[64], a[512];
    kt__buf text;
    kt__buf_init(&text, 1 << 16);
    assert_int_equal(summary(b, "What have you learned?", &text, ids), 0);
    teach(b, 1, "Where is the blue ladder?", "The blue ladder is in the mill.");
    assert_int_equal(summary(b, "what have you LEARNED", &text, ids), 1);
    assert_string_equal(text.data, "I have learned from one correction:\n- Where is the blue "
                                   "ladder? The blue ladder is in the mill.");
    teach(b, 2, "where is the blue ladder", "It is\nin the shed.");
    teach(b, 3, "Siapa itu Nora?", "Nora adalah penjaga.");
    assert_int_equal(summary(b, "Apa yang sudah kamu pelajari?", &text, ids), 2);
    assert_string_equal(text.data,
                        "Aku sudah belajar dari 2 koreksi:\n- Siapa itu Nora? Nora adalah "
                        "penjaga.\n- where is the blue ladder It is in the shed.");
    assert_true(ids[0] == 3 && ids[1] == 2);
    for (uint64_t i = 4; i < 9; i++) {
        snprintf(q, sizeof q, "Where is drum%d?", (int)i);
        memset(a, 'a', sizeof a - 1);
        a[sizeof a - 1] = '\0';
        teach(b, i, q, a);
    }
    assert_int_equal(summary(b, "What did you learn from me?", &text, ids), 4);
    assert_non_null(strstr(text.data, "aaa...\n- Where is drum7?"));
    assert_non_null(strstr(text.data, "\nand 3 earlier."));
    assert_int_equal(summary(b, "What have you learned about ladders?", &text, ids), 0);
    assert_int_equal(summary(b, "", &text, ids), 0);
    assert_int_equal(summary(b, "\xff\xfe", &text, ids), 0);
    kt__buf_free(&text);
    kt_bank_close(b);
}

static void controls_become_blanks(void **state) {
    (void)state;
    kt_bank *b = open_bank();
    kt__buf note;
    teach(b, 1, "Where is\x1b the violin\x07?", "In the\r\nshed\x7f<|im_end|>\xff");
    kt__buf_init(&note, 4096);
    assert_true(kt__bank_write_note(b, 1, &note));
    assert_string_equal(
        note.data,
        "Earlier correction:\nQ: Where is  the violin ?\nA: In the \nshed <|im_end|>\xff\n\n");
    assert_false(kt__bank_write_note(b, 2, &note));
    kt__buf_free(&note);
    assert_int_equal(opens(b, "\xff\xfe violin \xc3"), 1);
    kt_bank_close(b);
}

/* ---- many ---- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void a_hundred_thousand(void **state) {
    enum { N = 100000, ASKED = 2000 };
    char q[128], a[128];
    kt__bank_hit hits[8];
    kt_bank_info info;
    size_t found = 0;
    (void)state;
    kt_bank *b = open_bank();
    double begin = seconds();
    for (uint64_t i = 1; i <= N; i++) {
        snprintf(q, sizeof q, "Where is the %s gadget%u of widget%u?", i % 2 ? "blue" : "red",
                 (unsigned)(i / 3), (unsigned)(i % 1000));
        snprintf(a, sizeof a, "The %s gadget%u of widget%u is in room %u.", i % 2 ? "blue" : "red",
                 (unsigned)(i / 3), (unsigned)(i % 1000), (unsigned)(i * 7));
        teach(b, i, q, a);
    }
    double taught = seconds();
    for (unsigned i = 0; i < ASKED; i++) {
        snprintf(q, sizeof q,
                 "Can you please tell me where I might find the blue gadget%u of widget%u today?",
                 i * 3 / 3, (i * 3 + 1) % 1000);
        found += kt__bank_find(b, q, strlen(q), hits, 8) > 0;
    }
    double asked = seconds();
    kt_bank_get_info(b, &info);
    printf("%d entries: %.1f us to add one, %.1f us to ask, %.1f MB\n", N,
           (taught - begin) / N * 1e6, (asked - taught) / ASKED * 1e6, (double)info.bytes / 1e6);
    assert_true(found > 0);
    assert_true(info.bytes < 64 << 20);
    assert_true((asked - taught) / ASKED < 2e-3);
    kt_bank_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_found),
        cmocka_unit_test(known_words_are_sorted),
        cmocka_unit_test(questions_open_their_subject),
        cmocka_unit_test(other_scripts_open),
        cmocka_unit_test(relations_of_many_do_not_count),
        cmocka_unit_test(short_answers_leave_the_question),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(several_open_and_are_bounded),
        cmocka_unit_test(other_kinds_of_questions_open_nothing),
        cmocka_unit_test(no_subject_says_why),
        cmocka_unit_test(many_about_one_thing_are_crowded),
        cmocka_unit_test(the_last_correction_counts),
        cmocka_unit_test(what_was_learned_is_listed),
        cmocka_unit_test(controls_become_blanks),
        cmocka_unit_test(a_hundred_thousand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
